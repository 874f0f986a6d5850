"""`docs/results.md` from records: our mean beside the paper's, gains, ablations.

A pure function from the records of `table2.py` and the printed values of the paper
(`results/paper.jsonl`) to the text of the page; `table2.py --render` writes it.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from dsf_jax.evaluation import finite_scores
from dsf_jax.intervals import interval, paired_difference

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
    "cora": "Cora",
    "citeseer": "Citeseer",
}
BASES = ("gpr", "bern", "jacobi")
AS_RUN = "as the authors ran it"
PARTS = {"ipe": "IPE", "lgwd": "LGWD", "orth": "L_Orth"}

Row = Mapping[str, Any]
Key = tuple[str, str, str]

INTRODUCTION = """\
# Results

Rendered by `python benchmarks/table2.py --render` from every score of every run
(`benchmarks/results/table2.jsonl`) and what the paper prints in Tables 2, 3 and 5
(`benchmarks/results/paper.jsonl`). Test accuracy in %, ± half of the 95 % Student-t
interval over the runs. Protocol, searches and what did not reproduce:
[reproducing.md](reproducing.md).

- **± over splits**: the same with each split as one observation: how well the mean over
  all splits is known. Ten other splits would give another mean.
- **difference**: our mean less the paper's. `=` where the intervals overlap, `+` or `-`
  where they are separated: the means differ by more than both half-intervals together.
- **gain**: one model less another, run by run on the same splits and seeds; ± is half
  of the 95 % interval over the means of the splits. **Bold** where the intervals of
  the two models are separated.
- PA-GNN has no mean in the paper. Of its other graphs Squirrel, Twitch-DE, Pubmed,
  Computers and Photo have not been run.
"""

OPEN_CHOICES = """\
## Open choices

What the paper leaves open, or its code does otherwise (`python benchmarks/choices.py`):
the same runs with a choice and without it, with the settings of Table 2, or published
ones where it says so, not tuned again unless it says so; the last column as gains.

"""


def render(
    records: Iterable[Row], paper: Iterable[Row], choices: Iterable[Row] = ()
) -> str:
    """The page."""
    ours, theirs = _by_key(records), _by_key(paper)
    parts = [
        INTRODUCTION,
        _overview(ours, theirs),
        _table_2(ours, theirs),
        _gains(ours, theirs),
        _rivals(ours),
        _ablations(ours, theirs),
        _sparse(ours, theirs),
        _choices(list(choices), ours),
    ]
    return "\n".join(part for part in parts if part)


def is_separated(one: Row, other: Row) -> bool:
    """Whether the 95 % intervals of two means do not overlap."""
    return abs(one["mean"] - other["mean"]) > one["ci95"] + other["ci95"]


def compare(ours: Row, theirs: Row) -> str:
    """Our mean less the paper's, and whether that is more than both intervals."""
    return f"{ours['mean'] - theirs['mean']:+z.2f} `{_mark(ours, theirs)}`"


def _mark(ours: Row, theirs: Row) -> str:
    if not is_separated(ours, theirs):
        return "="
    return "+" if ours["mean"] > theirs["mean"] else "-"


def _by_key(rows: Iterable[Row]) -> dict[Key, Row]:
    return {
        (row["dataset"], row["model"], row["split_kind"]): row
        for row in rows
        if "scaling" not in row
    }


def _value(row: Row) -> str:
    return f"{row['mean']:.2f} ± {row['ci95']:.2f}"


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    header = list(header)
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _printed(theirs: dict[Key, Row], key: Key) -> Row | None:
    """What the paper prints there, if it is a mean; of PA-GNN it prints gains."""
    row = theirs.get(key)
    return row if row is not None and "mean" in row else None


def _overview(ours: dict[Key, Row], theirs: dict[Key, Row]) -> str:
    """Table 2 in the paper's own shape, the best of each graph in bold."""
    keys = [
        [(dataset, model, "stratified") for dataset in DATASETS] for model in TITLES
    ]
    best = [
        max((ours[key]["mean"] for key in column if key in ours), default=None)
        for column in zip(*keys, strict=True)
    ]
    marks = {
        key: _mark(ours[key], printed)
        for key in itertools.chain.from_iterable(keys)
        if key in ours and (printed := _printed(theirs, key)) is not None
    }

    def cell(key: Key, highest: float | None) -> str:
        if key not in ours:
            return ""
        mean = ours[key]["mean"]
        text = f"**{mean:.1f}**" if mean == highest else f"{mean:.1f}"
        return f"{text} `{marks[key]}`" if key in marks else text

    rows = [
        [name, *map(cell, line, best)]
        for name, line in zip(TITLES.values(), keys, strict=True)
        if any(key in ours for key in line)
    ]
    counts = Counter(marks.values())
    agree = [key for key, mark in marks.items() if mark == "="]
    few = sum(np.size(ours[key]["test"]) < 100 for key in agree)
    count = (
        f"{len(agree)} of {len(marks)} cells agree with the paper, "
        f"{counts['+']} are above and {counts['-']} below it by more than both "
        "intervals."
    )
    if few:
        count += f" Of those that agree {few} have 10 runs, and wide intervals."
    return f"## Overview\n\n{count}\n\n{_table(('model', *DATASETS.values()), rows)}"


def _table_2(ours: dict[Key, Row], theirs: dict[Key, Row]) -> str:
    sections = []
    for dataset, title in DATASETS.items():
        rows = []
        for model, name in TITLES.items():
            key = dataset, model, "stratified"
            if key not in ours:
                continue
            mine, printed = ours[key], _printed(theirs, key)
            rows.append(
                [
                    name,
                    _value(mine),
                    f"{interval(finite_scores(mine), 'clustered').half:.2f}",
                    _value(printed) if printed else "",
                    compare(mine, printed) if printed else "",
                    _count_runs(mine),
                    mine["settings_source"].partition(",")[0],
                ]
            )
        if rows:
            header = (
                *("model", "ours", "± over splits", "paper", "difference"),
                *("runs", "settings"),
            )
            sections.append(f"## {title}\n\n" + _table(header, rows))
    return "\n".join(sections)


def _count_runs(record: Row) -> str:
    runs = sum(map(len, record["test"]))
    finite = record["num_finite"]
    return f"{runs}" if finite == runs else f"{finite} of {runs} finite"


def _gain(ours: dict[Key, Row], key: Key, base: str) -> str:
    """Gain of a model over another one, if there are the same runs of both."""
    dataset, model, split_kind = key
    row, base_row = ours.get(key), ours.get((dataset, base, split_kind))
    return "" if row is None or base_row is None else _difference(row, base_row)


def _difference(row: Row, other: Row) -> str:
    scores, others = _same_runs(row, other), _same_runs(other, row)
    gain = paired_difference(scores, others, "clustered")
    text = f"{gain.mean:+z.2f} ± {gain.half:.2f}"
    is_apart = is_separated(_summary(scores), _summary(others))
    return f"**{text}**" if is_apart else text


def _same_runs(row: Row, other: Row) -> Float[np.ndarray, "S R"]:
    """Scores of the seeds that another row has as well: the first ones."""
    scores = finite_scores(row)
    return scores[:, : finite_scores(other).shape[1]]


def _summary(scores: Float[np.ndarray, "S R"]) -> Row:
    ours = interval(scores)
    return {"mean": ours.mean, "ci95": ours.half}


def _printed_gain(theirs: dict[Key, Row], key: Key, base: str) -> str:
    dataset, model, split_kind = key
    row, base_row = theirs.get(key), theirs.get((dataset, base, split_kind))
    if row is not None and "gain" in row:
        return f"{row['gain']:+z.2f}"
    if row is None or base_row is None:
        return ""
    text = f"{row['mean'] - base_row['mean']:+z.2f}"
    return f"**{text}**" if is_separated(row, base_row) else text


def _gains(ours: dict[Key, Row], theirs: dict[Key, Row]) -> str:
    pairs = [(f"dsf-{base}-{variant}", base) for variant in "ri" for base in BASES]
    rows, lines = [], []
    for model, base in [*pairs, ("pa-gnn", "gpr")]:
        wins, losses, both = [], [], []
        for dataset, title in DATASETS.items():
            key = dataset, model, "stratified"
            mine = _gain(ours, key, base)
            if not mine:
                continue
            names = f"{TITLES[model]} over {TITLES[base]}"
            rows.append([names, title, mine, _printed_gain(theirs, key, base)])
            both.append(title)
            if mine.startswith("**"):
                (losses if mine.startswith("**-") else wins).append(title)
        if both and model.endswith("-r"):
            lines.append(
                f"- {TITLES[model]} beats {TITLES[base]} with separated intervals on "
                f"{len(wins)} of {len(both)} graphs{_named(wins)}, and loses on "
                f"{len(losses)}{_named(losses)}."
            )
    if not rows:
        return ""
    header = ("models", "graph", "our gain", "the paper's")
    count = "\n".join(lines)
    return f"## Gain of diverse filters\n\n{count}\n\n{_table(header, rows)}"


def _named(titles: list[str]) -> str:
    return f" ({', '.join(titles)})" if titles else ""


def _rivals(ours: dict[Key, Row]) -> str:
    """Where a baseline beats every DSF model under equal tuning."""
    lines = []
    for dataset, title in DATASETS.items():
        cells = {
            model: ours[dataset, model, "stratified"]
            for model in TITLES
            if (dataset, model, "stratified") in ours
        }
        dsf = [model for model in cells if model.startswith("dsf-")]
        if not dsf:
            continue
        best = max(dsf, key=lambda model: cells[model]["mean"])
        above = [
            f"{TITLES[model]} ({cells[model]['mean']:.2f}"
            + (", separated)" if is_separated(cells[model], cells[best]) else ")")
            for model in cells
            if model not in dsf and cells[model]["mean"] > cells[best]["mean"]
        ]
        lines.append(
            f"- {title}: the best DSF model is {TITLES[best]} "
            f"({cells[best]['mean']:.2f}); above it: {', '.join(above) or 'none'}."
        )
    return "## Best models\n\n" + "\n".join(lines) + "\n" if lines else ""


def _ablations(ours: dict[Key, Row], theirs: dict[Key, Row]) -> str:
    rows = []
    for dataset, title in DATASETS.items():
        for part, name in PARTS.items():
            key = dataset, f"dsf-gpr-r-no-{part}", "stratified"
            if key in ours:
                rows.append(
                    [
                        f"without {name}",
                        title,
                        _value(ours[key]),
                        _gain(ours, key, "dsf-gpr-r"),
                        _gain(ours, key, "gpr"),
                        _printed_gain(theirs, key, "gpr"),
                    ]
                )
    header = ("DSF-GPR-R", "graph", "ours", "over DSF-GPR-R", "over GPR-GNN", "paper's")
    text = (
        "## Ablations\n\nWith the settings of DSF-GPR-R, not tuned again. The paper "
        "prints the last column for IPE only.\n\n"
    )
    return text + _table(header, rows) if rows else ""


def _sparse(ours: dict[Key, Row], theirs: dict[Key, Row]) -> str:
    rows = []
    for (dataset, model, split_kind), mine in ours.items():
        if split_kind == "sparse":
            key = dataset, model, split_kind
            printed = theirs[key]
            gain = _gain(ours, key, "gpr") if model != "gpr" else ""
            rows.append(
                [
                    f"{TITLES[model]}, {DATASETS[dataset]}",
                    *(_value(mine), _value(printed), compare(mine, printed), gain),
                ]
            )
    header = ("model, graph", "ours", "paper", "difference", "gain")
    title = "## Sparse splits (2.5 / 2.5 / 95 %)\n\n"
    return title + _table(header, rows) if rows else ""


def _choices(rows: list[Row], ours: dict[Key, Row]) -> str:
    """What the paper leaves open, beside the same runs without the choice."""
    as_run = {_by_settings(row): row for row in rows if row["text"] == AS_RUN}
    graphs, models = list(DATASETS), list(TITLES)
    rows = sorted(
        (row for row in rows if row["text"] != AS_RUN),
        key=lambda row: (graphs.index(row["dataset"]), models.index(row["model"])),
    )
    lines = []
    for row in rows:
        dataset, model = row["dataset"], row["model"]
        in_table = ours.get((dataset, model, "stratified"))
        reference = as_run.get(_by_settings(row), in_table)
        if reference is None:
            continue  # the cell is to be run again
        is_published = row["settings_source"].startswith("published")
        lines.append(
            [
                f"{TITLES[model]}, {DATASETS[dataset]}: {row['text']}"
                + (" (published settings)" if is_published else ""),
                _value(_summary(_same_runs(row, reference))),
                _value(_summary(_same_runs(reference, row))),
                _difference(row, reference),
            ]
        )
    header = ("choice", "with it", "without it", "difference")
    return OPEN_CHOICES + _table(header, lines) if lines else ""


def _by_settings(row: Row) -> tuple[str, str, str]:
    return row["dataset"], row["model"], row["settings_source"]
