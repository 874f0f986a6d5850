"""`docs/results.md` from records: our mean beside the paper's, gains, ablations.

A pure function from the records of `table2.py` and its neighbours, and the printed
values of the paper (`results/paper.jsonl`), to the text of the page; `table2.py
--render` writes it.
"""

import itertools
from collections import Counter
from collections.abc import Iterable

from results_checks import (
    authors_split,
    published_bases,
    scalings,
    spread_of,
)
from results_format import (
    BASES,
    DATASETS,
    TITLES,
    Key,
    Row,
    by_key,
    difference,
    half_over_splits,
    is_separated,
    mark_over_runs,
    mark_over_splits,
    marks,
    printed,
    printed_gain,
    same_runs,
    summary,
    table,
    value,
)
from results_rows import compared_choices, table_rows

PARTS = {"ipe": "IPE", "lgwd": "LGWD", "orth": "L_Orth"}

INTRODUCTION = """\
# Results

Rendered by `python benchmarks/table2.py --render` from every score of every run
(`benchmarks/results/table2.jsonl`) and what the paper prints in Tables 2, 3 and 5
(`benchmarks/results/paper.jsonl`). Test accuracy in %, ± half of the 95 % Student-t
interval over the runs. Protocol, searches and what did not reproduce:
[reproducing.md](reproducing.md).

- **± over splits**: the same with each split as one observation: how well the mean over
  all splits is known. Ten other splits would give another mean.
- **difference**: our mean less the paper's, with two marks, `=`, `+` or `-`. The first
  is the fair one: the authors' splits are not ours, so both means differ by their
  splits. It asks whether the difference is more than √(w² + w²), w our half-interval
  over splits; the same is assumed on their side, which prints none. The second asks
  whether the intervals over the runs are apart, as if the splits were the same.
- **spread**: how much the filters g_i of the nodes differ, in % of the shared one: the
  median of the runs, and their range. Below 1 % all nodes have the same filter,
  whatever the model could do. **saturated**: entries of the positions beyond ±0.99,
  in %, where tanh is flat.
- **gain**: one model less another, run by run on the same splits and seeds; ± is half
  of the 95 % interval over the means of the splits. **Bold** where the intervals of
  the two models are separated.
- PA-GNN has no mean in the paper. Of its other graphs Twitch-DE, Pubmed, Computers and
  Photo have not been run.

The same as tables of numbers, for programs: [Table 2](results/table2.csv),
[gains](results/gains.csv), [open choices](results/choices.csv).

![Gains of DSF over its base, ours with intervals, and the paper's](figures/gains.svg)

![Our mean less the paper's, model by model and graph by graph](figures/table2.svg)
"""

OPEN_CHOICES = """\
## Open choices

What the paper leaves open, or its code does otherwise (`python benchmarks/choices.py`):
the same runs with a choice and without it, with the settings of Table 2, or published
ones where it says so, not tuned again unless it says so; the last column as gains.

"""


def render(
    records: Iterable[Row],
    paper: Iterable[Row],
    choices: Iterable[Row] = (),
    published: Iterable[Row] = (),
    spreads: Iterable[Row] = (),
) -> str:
    """The page."""
    records, published = list(records), list(published)
    ours, theirs = table_rows(records, spreads), by_key(paper)
    parts = [
        INTRODUCTION,
        _overview(ours, theirs),
        _table_2(ours, theirs),
        _gains(ours, theirs),
        published_bases(ours, theirs, published),
        authors_split(theirs, published),
        scalings(records, theirs),
        _rivals(ours),
        _ablations(ours, theirs),
        _sparse(ours, theirs),
        _choices(choices, ours),
    ]
    return "\n".join(part for part in parts if part)


def _overview(ours: dict[Key, Row], theirs: dict[Key, Row]) -> str:
    """Table 2 in the paper's own shape, the best of each graph in bold."""
    run = {dataset for dataset, _, split_kind in ours if split_kind == "stratified"}
    graphs = {name: title for name, title in DATASETS.items() if name in run}
    keys = [[(dataset, model, "stratified") for dataset in graphs] for model in TITLES]
    best = [
        max((ours[key]["mean"] for key in column if key in ours), default=None)
        for column in zip(*keys, strict=True)
    ]
    compared = {
        key: row
        for key in itertools.chain.from_iterable(keys)
        if key in ours and (row := printed(theirs, key)) is not None
    }

    def cell(key: Key, highest: float | None) -> str:
        if key not in ours:
            return ""
        mean = ours[key]["mean"]
        text = f"**{mean:.1f}**" if mean == highest else f"{mean:.1f}"
        return f"{text} {marks(ours[key], compared[key])}" if key in compared else text

    rows = [
        [name, *map(cell, line, best)]
        for name, line in zip(TITLES.values(), keys, strict=True)
        if any(key in ours for key in line)
    ]
    lines = []
    for name, mark in (("splits", mark_over_splits), ("runs", mark_over_runs)):
        counts = Counter(mark(ours[key], row) for key, row in compared.items())
        lines.append(
            f"- By the intervals over {name} {counts['=']} of {len(compared)} cells "
            f"agree with the paper, {counts['+']} are above and {counts['-']} below it."
        )
    count = "\n".join(lines)
    return f"## Overview\n\n{count}\n\n{table(('model', *graphs.values()), rows)}"


def _table_2(ours: dict[Key, Row], theirs: dict[Key, Row]) -> str:
    sections = []
    for dataset, title in DATASETS.items():
        rows = []
        for model, name in TITLES.items():
            key = dataset, model, "stratified"
            if key not in ours:
                continue
            mine, theirs_row = ours[key], printed(theirs, key)
            rows.append(
                [
                    name,
                    value(mine),
                    f"{half_over_splits(mine):.2f}",
                    value(theirs_row) if theirs_row else "",
                    _compare(mine, theirs_row) if theirs_row else "",
                    _count_runs(mine),
                    mine["settings_source"].partition(",")[0],
                ]
            )
        if rows:
            header = (
                *("model", "ours", "± over splits", "paper", "difference"),
                *("runs", "settings"),
            )
            sections.append(f"## {title}\n\n" + table(header, rows))
    return "\n".join(sections)


def _compare(ours: Row, theirs: Row) -> str:
    """Our mean less the paper's, and both marks."""
    return f"{ours['mean'] - theirs['mean']:+z.2f} {marks(ours, theirs)}"


def _count_runs(record: Row) -> str:
    runs = sum(map(len, record["test"]))
    finite = record["num_finite"]
    return f"{runs}" if finite == runs else f"{finite} of {runs} finite"


def _gain(ours: dict[Key, Row], key: Key, base: str) -> str:
    """Gain of a model over another one, if there are the same runs of both."""
    dataset, model, split_kind = key
    row, base_row = ours.get(key), ours.get((dataset, base, split_kind))
    return "" if row is None or base_row is None else difference(row, base_row)


def _printed_gain(theirs: dict[Key, Row], key: Key, base: str) -> str:
    gain = printed_gain(theirs, key, base)
    if gain is None:
        return ""
    row, base_row = theirs[key], theirs.get((key[0], base, key[2]))
    is_bold = "mean" in row and base_row is not None and is_separated(row, base_row)
    return f"**{gain:+z.2f}**" if is_bold else f"{gain:+z.2f}"


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
            rows.append(
                [names, title, mine, _printed_gain(theirs, key, base)]
                + spread_of(ours[key])
            )
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
    header = (
        *("models", "graph", "our gain", "the paper's"),
        *("spread, %", "saturated, %"),
    )
    count = "\n".join(lines)
    return f"## Gain of diverse filters\n\n{count}\n\n{table(header, rows)}"


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
                        value(ours[key]),
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
    return text + table(header, rows) if rows else ""


def _sparse(ours: dict[Key, Row], theirs: dict[Key, Row]) -> str:
    rows = []
    for (dataset, model, split_kind), mine in ours.items():
        if split_kind == "sparse":
            key = dataset, model, split_kind
            theirs_row = theirs[key]
            gain = _gain(ours, key, "gpr") if model != "gpr" else ""
            rows.append(
                [
                    f"{TITLES[model]}, {DATASETS[dataset]}",
                    *(value(mine), value(theirs_row)),
                    *(_compare(mine, theirs_row), gain),
                ]
            )
    header = ("model, graph", "ours", "paper", "difference", "gain")
    title = "## Sparse splits (2.5 / 2.5 / 95 %)\n\n"
    return title + table(header, rows) if rows else ""


def _choices(rows: Iterable[Row], ours: dict[Key, Row]) -> str:
    """What the paper leaves open, beside the same runs without the choice."""
    lines = []
    for row, reference in compared_choices(rows, ours):
        is_published = row["settings_source"].startswith("published")
        lines.append(
            [
                f"{TITLES[row['model']]}, {DATASETS[row['dataset']]}: {row['text']}"
                + (" (published settings)" if is_published else ""),
                value(summary(same_runs(row, reference))),
                value(summary(same_runs(reference, row))),
                difference(row, reference),
            ]
        )
    header = ("choice", "with it", "without it", "difference")
    return OPEN_CHOICES + table(header, lines) if lines else ""
