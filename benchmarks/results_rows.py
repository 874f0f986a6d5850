"""The results as rows of numbers, for the tables in CSV and the figures."""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from results_checks import chosen_rows, with_spreads
from results_format import (
    BASES,
    DATASETS,
    TITLES,
    Key,
    Row,
    by_key,
    half_over_splits,
    mark_over_runs,
    mark_over_splits,
    paired_gain,
    printed,
    printed_gain,
    same_runs,
)

AS_RUN = "as the authors ran it"
PAIRS = (
    *((f"dsf-{base}-{variant}", base) for base in BASES for variant in "ri"),
    ("pa-gnn", "gpr"),
    *((f"dsf-gpr-r-no-{part}", "dsf-gpr-r") for part in ("ipe", "lgwd", "orth")),
)


class Cell(NamedTuple):
    """A model on a graph: ours, the paper's, and ours less the paper's; in %."""

    graph: str
    model: str
    split_kind: str
    mean: float
    half_over_runs: float
    half_over_splits: float
    finite_runs: int
    paper_mean: float | None
    paper_half: float | None
    difference: float | None
    mark_over_splits: str  # =, + or -: whether the difference is more than chance
    mark_over_runs: str
    settings: str


class Gain(NamedTuple):
    """One model less another on the same runs, with its interval over splits; in %."""

    graph: str
    model: str
    base: str
    split_kind: str
    gain: float
    low: float
    high: float
    paper_gain: float | None
    spread: float | None  # median over the runs


class Choice(NamedTuple):
    """The same runs with a choice that the paper leaves open and without it; in %."""

    graph: str
    model: str
    choice: str
    with_it: float
    without_it: float
    gain: float
    low: float
    high: float
    settings: str


def table_rows(records: Iterable[Row], spreads: Iterable[Row]) -> dict[Key, Row]:
    """Our rows of Table 2, with their spreads."""
    return with_spreads(by_key(chosen_rows(list(records))), by_key(spreads))


def cells(ours: dict[Key, Row], theirs: dict[Key, Row]) -> list[Cell]:
    """All that was run, graph by graph."""
    return [_cell(key, row, printed(theirs, key)) for key, row in _ordered(ours)]


def _ordered(ours: dict[Key, Row]) -> list[tuple[Key, Row]]:
    places = {name: place for place, name in enumerate(DATASETS)}  # others come last
    return sorted(ours.items(), key=lambda item: places.get(item[0][0], len(places)))


def _cell(key: Key, row: Row, paper: Row | None) -> Cell:
    return Cell(
        *key,
        mean=row["mean"],
        half_over_runs=row["ci95"],
        half_over_splits=half_over_splits(row),
        finite_runs=row["num_finite"],
        paper_mean=paper["mean"] if paper else None,
        paper_half=paper["ci95"] if paper else None,
        difference=row["mean"] - paper["mean"] if paper else None,
        mark_over_splits=mark_over_splits(row, paper) if paper else "",
        mark_over_runs=mark_over_runs(row, paper) if paper else "",
        settings=row["settings_source"],
    )


def gains(ours: dict[Key, Row], theirs: dict[Key, Row]) -> list[Gain]:
    """Gain of each model over its base, where both were run."""
    rows = []
    for (graph, model, split_kind), row in _ordered(ours):
        for name, base in PAIRS:
            other = ours.get((graph, base, split_kind))
            if name != model or other is None:
                continue
            found = paired_gain(row, other)
            paper = printed_gain(theirs, (graph, model, split_kind), base)
            spread = float(np.nanmedian(row["spread"])) if "spread" in row else None
            rows.append(
                Gain(
                    *(graph, model, base, split_kind),
                    *(found.mean, found.low, found.high, paper, spread),
                )
            )
    return rows


def choices(rows: Iterable[Row], ours: dict[Key, Row]) -> list[Choice]:
    """What the paper leaves open, with the gain of each choice."""
    found = []
    for row, reference in compared_choices(rows, ours):
        gain = paired_gain(row, reference)
        found.append(
            Choice(
                *(row["dataset"], row["model"], row["text"]),
                float(np.nanmean(same_runs(row, reference))),
                float(np.nanmean(same_runs(reference, row))),
                *(gain.mean, gain.low, gain.high, row["settings_source"]),
            )
        )
    return found


def compared_choices(
    rows: Iterable[Row], ours: dict[Key, Row]
) -> Iterator[tuple[Row, Row]]:
    """Each choice beside the runs without it: as the authors ran it, or Table 2's."""
    rows = list(rows)
    as_run = {_by_settings(row): row for row in rows if row["text"] == AS_RUN}
    graphs, models = list(DATASETS), list(TITLES)
    for row in sorted(
        (row for row in rows if row["text"] != AS_RUN),
        key=lambda row: (graphs.index(row["dataset"]), models.index(row["model"])),
    ):
        in_table = ours.get((row["dataset"], row["model"], "stratified"))
        reference = as_run.get(_by_settings(row), in_table)
        if reference is not None:  # else the cell is to be run again
            yield row, reference


def _by_settings(row: Row) -> tuple[str, str, str]:
    return row["dataset"], row["model"], row["settings_source"]


def to_csv(rows: Iterable[Cell | Gain | Choice]) -> str:
    """Rows with a header; numbers with four digits after the point."""
    rows, stream = list(rows), io.StringIO()
    if rows:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(rows[0]._fields)
        writer.writerows([_text(value) for value in row] for row in rows)
    return stream.getvalue()


def _text(value: object) -> object:
    return f"{value:z.4f}" if isinstance(value, float) else value
