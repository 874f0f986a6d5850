"""What the parts of `docs/results.md` share: names, tables, marks and differences."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from dsf_jax.experiments.evaluation import finite_scores
from dsf_jax.experiments.intervals import Interval, interval, paired_difference

TITLES = {
    "gcn": "GCN",
    "gat": "GAT",
    "cheb": "ChebNet",
    "appnp": "APPNP",
    "gnn-lf": "GNN-LF",
    "gnn-hf": "GNN-HF",
    "fagcn": "FAGCN",
    "pa-gnn": "PA-GNN (our reading)",
    "gpr": "GPR-GNN",
    "dsf-gpr-i": "DSF-GPR-I",
    "dsf-gpr-r": "DSF-GPR-R",
    "bern": "BernNet",
    "dsf-bern-i": "DSF-Bern-I",
    "dsf-bern-r": "DSF-Bern-R",
    "jacobi": "JacobiConv",
    "dsf-jacobi-i": "DSF-Jacobi-I",
    "dsf-jacobi-r": "DSF-Jacobi-R",
}
DATASETS = {
    "texas": "Texas",
    "wisconsin": "Wisconsin",
    "cornell": "Cornell",
    "chameleon": "Chameleon",
    "squirrel": "Squirrel",
    "cora": "Cora",
    "citeseer": "Citeseer",
    "twitch-de": "Twitch-DE",
    "pubmed": "Pubmed",
    "computers": "Computers",
    "photo": "Photo",
}
BASES = ("gpr", "bern", "jacobi")

Row = Mapping[str, Any]
Key = tuple[str, str, str]


def by_key(rows: Iterable[Row]) -> dict[Key, Row]:
    """Rows by data set, model and split rule."""
    return {(row["dataset"], row["model"], row["split_kind"]): row for row in rows}


def value(row: Row) -> str:
    """Mean and half of the interval over the runs."""
    return f"{row['mean']:.2f} ± {row['ci95']:.2f}"


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown, numbers to the right."""
    header = list(header)
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def half_over_splits(row: Row) -> float:
    """Half of the interval with each split as one observation."""
    return interval(finite_scores(row), "clustered").half


def is_separated(one: Row, other: Row) -> bool:
    """Whether the 95 % intervals of two means do not overlap."""
    return abs(one["mean"] - other["mean"]) > one["ci95"] + other["ci95"]


def mark_over_runs(ours: Row, theirs: Row) -> str:
    """`=`, `+` or `-`: our mean against the paper's, both known from their runs."""
    return _mark(ours, theirs, is_separated(ours, theirs))


def mark_over_splits(ours: Row, theirs: Row) -> str:
    """The same where both have splits of their own, and theirs differ as ours do.

    The difference of two such means has half an interval of √(w² + w²), w ours.
    """
    gap = abs(ours["mean"] - theirs["mean"])
    return _mark(ours, theirs, gap > 2**0.5 * half_over_splits(ours))


def _mark(ours: Row, theirs: Row, is_apart: bool) -> str:
    if not is_apart:
        return "="
    return "+" if ours["mean"] > theirs["mean"] else "-"


def marks(ours: Row, theirs: Row) -> str:
    """Both marks, that over splits first."""
    return f"`{mark_over_splits(ours, theirs)}` `{mark_over_runs(ours, theirs)}`"


def printed(theirs: dict[Key, Row], key: Key) -> Row | None:
    """What the paper prints there, if it is a mean; of PA-GNN it prints gains."""
    row = theirs.get(key)
    return row if row is not None and "mean" in row else None


def difference(row: Row, other: Row) -> str:
    """One model less another on the runs that both have; bold where separated."""
    gain = paired_gain(row, other)
    text = f"{gain.mean:+z.2f} ± {gain.half:.2f}"
    one, two = summary(same_runs(row, other)), summary(same_runs(other, row))
    return f"**{text}**" if is_separated(one, two) else text


def paired_gain(row: Row, other: Row) -> Interval:
    """One model less another on the runs that both have, interval over splits."""
    scores, others = same_runs(row, other), same_runs(other, row)
    return paired_difference(scores, others, "clustered")


def printed_gain(theirs: dict[Key, Row], key: Key, base: str) -> float | None:
    """Gain of a model over another one in the paper, printed so or as two means."""
    dataset, _, split_kind = key
    row, base_row = theirs.get(key), printed(theirs, (dataset, base, split_kind))
    if row is not None and "gain" in row:
        return float(row["gain"])
    if row is None or base_row is None:
        return None
    return float(row["mean"] - base_row["mean"])


def same_runs(row: Row, other: Row) -> Float[np.ndarray, "S R"]:
    """Scores of the seeds that another row has as well: the first ones."""
    scores = finite_scores(row)
    return scores[:, : finite_scores(other).shape[1]]


def summary(scores: Float[np.ndarray, "S R"]) -> Row:
    """Mean and half of the interval over the runs."""
    ours = interval(scores)
    return {"mean": ours.mean, "ci95": ours.half}
