"""`docs/local-weights.md` from the records of `local_weights.py`.

A pure function from records, and from what is known of the graphs before training, to
the text of the page; `local_weights.py --render` writes it.
"""

import textwrap
from pathlib import Path
from typing import NamedTuple

import numpy as np
from results_format import Row, difference, paired_gain, table, value
from scipy.stats import spearmanr

BACKBONES = {"gpr": "GPR-GNN", "bern": "BernNet"}
LOCALS = ("r", "residual", "mixture", "content")
DATASETS = (
    *("regions", "texas", "wisconsin", "cornell", "chameleon", "cora", "citeseer"),
    *("actor", "chameleon-filtered", "squirrel-filtered"),
)
CONTRASTS = {f"regions-{percent}": percent / 100 for percent in (0, 25, 50, 75, 100)}
CONTRAST_MODELS = ("gpr", "dsf-gpr-r", "dsf-gpr-residual")
MIN_POINTS = 10  # gains, for a correlation with them
CONTROLS = ("shuffled", "degree", "features", "wide")
PARTS = {"twin": True, "lone": False}  # of the test nodes
MODEL_NAMES = tuple(
    name
    for backbone in BACKBONES
    for name in (backbone, *(f"dsf-{backbone}-{kind}" for kind in LOCALS))
)


class Case(NamedTuple):
    """One grid of runs."""

    dataset: str
    model: str
    control: str = ""  # or twin, lone, fresh: the same model, tested elsewhere


def case_of(row: Row) -> Case:
    """The case of a record."""
    return Case(*(row[field] for field in Case._fields))


def render(rows: list[Row], measures: list[Row]) -> str:
    """The page."""
    found = {case_of(row): row for row in rows}
    known = {row["dataset"]: row for row in measures}
    parts = [_TITLE, _count(found), _HEAD]
    missing = [name for name in DATASETS if all(name != case.dataset for case in found)]
    if missing:
        parts.append(_fill(f"Not run yet: {', '.join(missing)}."))
    for backbone, title in BACKBONES.items():
        if any(case.model == backbone for case in found):
            parts.append(f"## {title}\n\n{_gains(found, backbone)}")
    if fresh := _fresh_rows(found):
        header = ["backbone", "base", "DSF-R as published", "chosen form", ""]
        text = f"{_FRESH_TEXT}\n{table(header, fresh)}"
        parts.append(f"## Chameleon, ten other splits\n\n{text}")
    parts.append(f"## When does it pay?\n\n{_PAYS_TEXT}\n{_pays_table(found, known)}")
    if contrast := _contrast_rows(found, known):
        header = [*_MEASURED[:2], "GPR-GNN", *_CONTRAST_TITLES]
        text = f"{_CONTRAST_TEXT}\n{table(['contrast', *header], contrast)}"
        parts.append(f"### One knob\n\n{text}")
    parts.append(f"## Controls\n\n{_CONTROLS_TEXT}\n{_control_table(found)}")
    if twins := _twin_rows(found):
        header = [
            "graph",
            "test nodes",
            *("base, twins", "gain"),
            *("base, others", "gain"),
        ]
        parts.append(f"{_TWINS_TEXT}\n{table(header, twins)}")
    return "\n".join(parts)


def _gains(found: dict[Case, Row], backbone: str) -> str:
    header = ["graph", title_of(backbone), *(title_of(kind) for kind in LOCALS)]
    lines = []
    for dataset in DATASETS:
        base = found.get(Case(dataset, backbone))
        if base is None:
            continue
        own = (found.get(Case(dataset, f"dsf-{backbone}-{kind}")) for kind in LOCALS)
        cells = ("" if row is None else _gain(row, base) for row in own)
        lines.append([dataset, value(base), *cells])
    return table(header, lines)


def chosen(found: dict[Case, Row], dataset: str, backbone: str) -> str | None:
    """The form that validation chose, if its base model was run, too."""
    known = {
        kind: np.nanmean(np.asarray(row["val"], float))
        for kind in LOCALS[1:]
        if (row := found.get(Case(dataset, f"dsf-{backbone}-{kind}"))) is not None
    }
    if not known or Case(dataset, backbone) not in found:
        return None
    return max(known, key=lambda kind: known[kind])


def _fresh_rows(found: dict[Case, Row]) -> list[list[str]]:
    lines = []
    for backbone, title in BACKBONES.items():
        kind = chosen(found, "chameleon", backbone)
        names = (backbone, f"dsf-{backbone}-r", f"dsf-{backbone}-{kind}")
        rows = [found.get(Case("chameleon", name, "fresh")) for name in names]
        if kind is not None and rows[0] is not None:
            cells = ("" if row is None else _gain(row, rows[0]) for row in rows[1:])
            lines.append([title, value(rows[0]), *cells, kind])
    return lines


def _pays_table(found: dict[Case, Row], known: dict[str, Row]) -> str:
    """Measures of a graph beside the gain of the chosen form, and how they go along."""
    lines: list[list[str]] = []
    points: list[list[float]] = []
    for dataset in DATASETS:
        for backbone in BACKBONES:
            kind = chosen(found, dataset, backbone)
            if kind is None or dataset not in known:
                continue
            own = found[Case(dataset, f"dsf-{backbone}-{kind}")]
            base, row = found[Case(dataset, backbone)], known[dataset]
            figures = [row["spread"], row["chance"], row["unlike"], row["twins"]]
            points.append([*figures, row["nodes"], paired_gain(own, base).mean])
            cells = [f"{figure:.2f}" for figure in figures]
            name = f"{dataset}, {BACKBONES[backbone]}"
            lines.append([name, *cells, str(row["nodes"]), difference(own, base), kind])
    if len(points) >= MIN_POINTS:
        *columns, gains = np.transpose(points)
        ranks = (float(spearmanr(column, gains).statistic) for column in columns)
        lines.append(["rank correlation", *(f"{rank:+.2f}" for rank in ranks), "", ""])
    return table(["graph", *_MEASURED, "gain", "form"], lines)


def _contrast_rows(found: dict[Case, Row], known: dict[str, Row]) -> list[list[str]]:
    lines = []
    for name, contrast in CONTRASTS.items():
        base, *rows = (found.get(Case(name, model)) for model in CONTRAST_MODELS)
        if base is None:
            continue
        cells = ("" if row is None else _gain(row, base) for row in rows)
        row = known[name]
        figures = (f"{contrast:g}", f"{row['spread']:.2f}", f"{row['chance']:.2f}")
        lines.append([*figures, value(base), *cells])
    return lines


def draw_contrast(rows: list[Row], file: Path) -> None:
    """Gains by contrast with intervals over splits, where all cases are known."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    found = {case_of(row): row for row in rows}
    if any(Case(name, m) not in found for name in CONTRASTS for m in CONTRAST_MODELS):
        return
    mpl.rcParams["svg.hashsalt"] = "contrast"  # equal records, equal bytes
    figure, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
    for model, title in zip(CONTRAST_MODELS[1:], _CONTRAST_TITLES, strict=True):
        pairs = ((found[Case(n, model)], found[Case(n, "gpr")]) for n in CONTRASTS)
        gains = [paired_gain(own, base) for own, base in pairs]
        means, halves = zip(*((gain.mean, gain.half) for gain in gains), strict=True)
        x = list(CONTRASTS.values())
        ax.errorbar(x, means, halves, fmt="o-", capsize=3, label=title)
    ax.axhline(0, color="0.6", lw=0.8)
    ax.set(xlabel="contrast of the regions", ylabel="points above GPR-GNN")
    ax.legend()
    figure.savefig(file, metadata={"Date": None})


def _gain(row: Row, base: Row) -> str:
    spread = np.nanmean(np.asarray(row["spread"], dtype=float))
    return f"{difference(row, base)} ({spread:.1f} %)"


def title_of(kind: str) -> str:
    """A word for people."""
    return ({"r": "DSF-R as published"} | BACKBONES).get(kind, kind)


def _control_table(found: dict[Case, Row]) -> str:
    lines = []
    for dataset in DATASETS:
        for backbone in BACKBONES:
            base = found.get(Case(dataset, backbone))
            rows = [
                found.get(Case(dataset, f"dsf-{backbone}-residual", control))
                for control in ("", *CONTROLS)
            ]
            if base is None or all(row is None for row in rows[1:]):
                continue
            cells = ("" if row is None else difference(row, base) for row in rows)
            lines.append([f"{dataset}, {BACKBONES[backbone]}", *cells])
    return table(["less the base", "residual", *CONTROLS], lines)


def _twin_rows(found: dict[Case, Row]) -> list[list[str]]:
    """Scores and gains on test nodes with a twin in training, and on the others."""
    lines = []
    for dataset in DATASETS:
        for backbone, title in BACKBONES.items():
            names = backbone, f"dsf-{backbone}-residual"
            cases = [Case(dataset, name, part) for part in PARTS for name in names]
            if not all(case in found for case in cases):
                continue
            base_twin, own_twin, base_lone, own_lone = map(found.get, cases)
            twins, lone = (found[case]["num_test"] for case in (cases[0], cases[2]))
            gains = difference(own_twin, base_twin), difference(own_lone, base_lone)
            share = f"{100 * twins / (twins + lone):.0f} % with"
            line = [f"{dataset}, {title}", share, value(base_twin), gains[0]]
            lines.append([*line, value(base_lone), gains[1]])
    return lines


def _count(found: dict[Case, Row]) -> str:
    """Where validation's choice beats its base, loses, or neither."""
    names: dict[str, list[str]] = {"beats": [], "loses": [], "neither": []}
    for dataset in DATASETS:
        for backbone, title in BACKBONES.items():
            kind = chosen(found, dataset, backbone)
            if kind is None:
                continue
            own = found[Case(dataset, f"dsf-{backbone}-{kind}")]
            gain = paired_gain(own, found[Case(dataset, backbone)])
            is_apart = abs(gain.mean) > gain.half
            verdict = ("beats" if gain.mean > 0 else "loses") if is_apart else "neither"
            names[verdict].append(f"{dataset} ({title})")
    beats, loses, neither = (
        f"{len(group)}{': ' * bool(group)}{', '.join(group)}"
        for group in names.values()
    )
    text = (
        f"Of {sum(map(len, names.values()))} pairs of a graph and a backbone, the form "
        f"that validation chose beats its base model (interval over splits above 0) on "
        f"{beats}. It loses on {loses}. Neither: {neither}."
    )
    return _fill(text)


def _fill(text: str) -> str:
    return textwrap.fill(text, 88, break_on_hyphens=False) + "\n"


_TITLE = "# Local weights that start at their base model\n"
_HEAD = """Rendered by `python benchmarks/local_weights.py --render` from
`benchmarks/results/local_weights.jsonl`. These forms are ours, not the paper's; their
equations are in [equations.md](equations.md). All models of a graph had the same
search: 24 trials on 2 splits, 5 finalists on 10, and validation chose. Differences are
paired, run by run, ± half of the 95 % interval over the ten splits; bold where the
intervals over the runs do not overlap. In brackets: the spread of the filters between
nodes, in percent of the shared filter.
"""
_MEASURED = ("spread of h_i", "by chance", "unlike", "twins", "nodes")
_PAYS_TEXT = """What is known of a graph before any training
(`dsf_jax.graph.unevenness`, printed by `dsf-jax explain`): the spread of the local
homophily h_i between nodes, what chance alone would make of it, the share of nodes
whose h_i is more than 0.2 from that of the whole graph, and the share of nodes that
have a twin, one with the same neighbours. Beside it is the gain of the form that
validation chose. Where there are ten gains or more, the last line has Spearman's rank
correlation with them.
"""
_FRESH_TEXT = """Form and settings were chosen and committed before; these splits (seeds
100 to 109) were run once.
"""
_TWINS_TEXT = """The same runs, tested apart on nodes that have a twin in training, and
on the others: a gain that twins alone have comes from recognising nodes.
"""
_CONTRAST_TITLES = ("DSF-R as published", "residual")
_CONTRAST_TEXT = """`regions` with two regions that are linked alike (contrast 0), to
those that need opposite filters (1); links of the third region say nothing throughout.
Each graph has searches of its own. Controls were not run on these graphs.

![Gains over GPR-GNN by the contrast of the regions](figures/contrast.svg)
"""
_CONTROLS_TEXT = """The residual form less its base model, and the same with one thing
changed: columns of other nodes (`shuffled`), log-degrees alone (`degree`), the base
with the columns among its features (`features`), the base with as many more parameters
(`wide`).
"""
