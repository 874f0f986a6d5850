"""Do diverse filters pay that start at their base model? A study with controls.

    python benchmarks/local_weights.py --datasets chameleon --models dsf-gpr-residual
    python benchmarks/local_weights.py --contrast
    python benchmarks/local_weights.py --render

Every model of a graph has the same search: 24 trials on 2 splits, the 5 best again on
10, from the same default settings, and validation chooses. Then 10 splits x 4 seeds.
Controls have the settings that the residual form was given, with one thing changed:

    shuffled   columns of the nodes in another order: the gain must go
    degree     log-degrees alone
    features   the base model, with the columns appended to its features
    wide       the base model, with a hidden layer as large as the extra parameters

When does it pay? `--contrast` runs `regions` from two regions that are linked alike
(contrast 0) to opposite ones (1), each searched on its own, and draws the gains.

One record per case in `results/local_weights.jsonl`, settings in
`results/local_weights_tuned.jsonl`; what is there is skipped, and what is on its way
keeps journals in `results/unfinished`. Writes `docs/local-weights.md`.
"""

import argparse
import dataclasses
import functools
import textwrap
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.sparse as sp
from common import note, print_case
from results_format import Row, difference, same_runs, table, value
from table2 import ROOT, UNFINISHED, append_row, read_rows

from dsf_jax.data.catalog import load_dataset
from dsf_jax.data.dataset import Dataset
from dsf_jax.data.synthetic import regions
from dsf_jax.engine.grid import use_all_cores
from dsf_jax.experiments.evaluation import evaluate
from dsf_jax.experiments.intervals import paired_difference
from dsf_jax.experiments.presets import default_settings
from dsf_jax.experiments.search import tune
from dsf_jax.graph.locality import count_local_edges, unevenness
from dsf_jax.graph.positional import positional_features
from dsf_jax.models.anchored import (
    NUM_COLUMNS,
    Residual,
    columns_in_use,
    node_columns,
)
from dsf_jax.models.local import shared
from dsf_jax.models.model import Model
from dsf_jax.models.settings import HyperParams, restrict, settings_from_json
from dsf_jax.models.zoo import MODELS

RESULTS = ROOT / "benchmarks" / "results"
RECORDS, TUNED = RESULTS / "local_weights.jsonl", RESULTS / "local_weights_tuned.jsonl"
PAGE = ROOT / "docs" / "local-weights.md"
CONTRAST_FIGURE = ROOT / "docs" / "figures" / "contrast.svg"
BACKBONES = {"gpr": "GPR-GNN", "bern": "BernNet"}
LOCALS = ("r", "residual", "mixture", "content")
DATASETS = (
    *("regions", "texas", "wisconsin", "cornell", "chameleon", "cora", "citeseer"),
    *("actor", "chameleon-filtered", "squirrel-filtered"),
)
CONTRASTS = {f"regions-{percent}": percent / 100 for percent in (0, 25, 50, 75, 100)}
CONTRAST_MODELS = ("gpr", "dsf-gpr-r", "dsf-gpr-residual")
SEARCH = {"num_trials": 24, "num_splits": 2, "num_finalists": 5}
SEEDS = 4
MODEL_NAMES = tuple(
    name
    for backbone in BACKBONES
    for name in (backbone, *(f"dsf-{backbone}-{kind}" for kind in LOCALS))
)


class Case(NamedTuple):
    """One grid of runs; a control stands beside the residual form of its backbone."""

    dataset: str
    model: str
    control: str = ""


def case_of(row: Row) -> Case:
    """The case of a record."""
    return Case(*(row[field] for field in Case._fields))


def _controls(dataset: str) -> tuple[Case, ...]:
    return tuple(
        Case(dataset, f"dsf-{backbone}-residual", control)
        for backbone in BACKBONES
        for control in CONTROLS
    )


@dataclasses.dataclass(frozen=True)
class Shuffled(Residual):
    """A residual that is given the columns of other nodes."""

    def extend(self, inputs: Any, graph: Any, backbone: Any) -> Any:
        """The same columns in an order of their own."""
        inputs = super().extend(inputs, graph, backbone)
        order = np.random.default_rng(0).permutation(len(inputs.columns))
        return inputs._replace(columns=inputs.columns[order])


Controlled = tuple[Dataset, Model, HyperParams]


def shuffled(dataset: Dataset, model: Any, hparams: HyperParams) -> Controlled:
    """Columns of other nodes."""
    local = Shuffled(**dataclasses.asdict(model.local))
    return dataset, dataclasses.replace(model, local=local), hparams


def degree(dataset: Dataset, model: Any, hparams: HyperParams) -> Controlled:
    """Log-degrees alone."""
    index = HyperParams(pos_columns="degree").pos_columns
    return dataset, model, hparams._replace(pos_columns=index)


def features(dataset: Dataset, model: Any, hparams: HyperParams) -> Controlled:
    """The base model with the columns in use appended to its features."""
    x_pos = np.asarray(positional_features(dataset.graph).x_pos)
    columns = node_columns(dataset.graph, x_pos)[:, np.asarray(columns_in_use(hparams))]
    own = dataset.features
    joined = (
        sp.csr_array(sp.hstack([own, columns]))
        if sp.issparse(own)
        else np.hstack([own, columns])
    )
    base = dataclasses.replace(model, local=shared())
    return dataset._replace(features=joined), base, restrict(hparams, base.reads)


def wide(dataset: Dataset, model: Any, hparams: HyperParams) -> Controlled:
    """The base model with as many parameters more in its hidden layer."""
    local = model.local
    extra = (NUM_COLUMNS + 1) * local.width + (model.order + 1) * (local.width + 1)
    per_unit = dataset.features.shape[1] + 1 + int(dataset.labels.max()) + 1
    hidden = model.hidden + max(round(extra / per_unit), 1)
    base = dataclasses.replace(model, local=shared(), hidden=hidden)
    return dataset, base, restrict(hparams, base.reads)


CONTROLS = {
    "shuffled": shuffled,
    "degree": degree,
    "features": features,
    "wide": wide,
}


@functools.cache
def _load(name: str) -> Dataset:
    if name in CONTRASTS:
        return regions(contrast=CONTRASTS[name])._replace(name=name)
    return regions() if name == "regions" else load_dataset(name)


def settings_of(case: Case) -> HyperParams:
    """Those that its search chose; it runs if there are none yet."""
    for row in read_rows(TUNED):
        if (row["dataset"], row["model"]) == case[:2]:
            return settings_from_json(row["settings"])
    UNFINISHED.mkdir(parents=True, exist_ok=True)
    storage = UNFINISHED / f"local-{case.dataset}-{case.model}.study"
    found = tune(
        _load(case.dataset),
        case.model,
        storage=storage,
        base=default_settings(case.model),
        **SEARCH,
    )
    append_row(TUNED, found)
    storage.unlink()
    return settings_from_json(found["settings"])


def run_case(case: Case) -> None:
    """Search if need be, evaluate, append the record."""
    note("-".join(filter(None, case)))
    dataset, model, hparams = _load(case.dataset), MODELS[case.model], settings_of(case)
    if case.control:
        dataset, model, hparams = CONTROLS[case.control](dataset, model, hparams)
    journal = UNFINISHED / f"local-{'-'.join(filter(None, case))}.journal"
    record = evaluate(
        dataset, model, hparams, num_seeds=SEEDS, spread=True, journal=journal
    )
    append_row(RECORDS, record | case._asdict())
    journal.unlink()
    print_case(**case._asdict(), mean=record["mean"], ci95=record["ci95"])


def render(rows: list[Row]) -> str:
    """The page."""
    found = {case_of(row): row for row in rows}
    parts = [_HEAD, _count(found)]
    missing = [name for name in DATASETS if all(name != case.dataset for case in found)]
    if missing:
        parts.append(textwrap.fill(f"Not run yet: {', '.join(missing)}.", 88) + "\n")
    for backbone, title in BACKBONES.items():
        if any(case.model == backbone for case in found):
            parts.append(f"## {title}\n\n{_gains(found, backbone)}")
    if contrast := _contrast_rows(found):
        header = [
            "contrast",
            "spread of h_i",
            "by chance",
            "GPR-GNN",
            *_CONTRAST_TITLES,
        ]
        text = f"{_CONTRAST_TEXT}\n{table(header, contrast)}"
        parts.append(f"## When does it pay?\n\n{text}")
    parts.append(f"## Controls\n\n{_CONTROLS_TEXT}\n{_control_table(found)}")
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


def _contrast_rows(found: dict[Case, Row]) -> list[list[str]]:
    lines = []
    for name, contrast in CONTRASTS.items():
        base, *rows = (found.get(Case(name, model)) for model in CONTRAST_MODELS)
        if base is None:
            continue
        graph, labels = _load(name).graph, _load(name).labels
        uneven = unevenness(graph, labels, count_local_edges(graph, labels))
        cells = ("" if row is None else _gain(row, base) for row in rows)
        figures = (f"{contrast:g}", f"{uneven.spread:.2f}", f"{uneven.chance:.2f}")
        lines.append([*figures, value(base), *cells])
    return lines


def draw_contrast(rows: list[Row]) -> None:
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
        gains = [
            paired_difference(same_runs(own, base), same_runs(base, own), "clustered")
            for own, base in pairs
        ]
        means, halves = zip(*((gain.mean, gain.half) for gain in gains), strict=True)
        x = list(CONTRASTS.values())
        ax.errorbar(x, means, halves, fmt="o-", capsize=3, label=title)
    ax.axhline(0, color="0.6", lw=0.8)
    ax.set(xlabel="contrast of the regions", ylabel="points above GPR-GNN")
    ax.legend()
    figure.savefig(CONTRAST_FIGURE, metadata={"Date": None})


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


def _count(found: dict[Case, Row]) -> str:
    """How often validation's choice beats its base, loses, or neither."""
    counts = dict.fromkeys(("beats", "loses", "neither"), 0)
    for dataset in DATASETS:
        for backbone in BACKBONES:
            base = found.get(Case(dataset, backbone))
            rows = [
                found.get(Case(dataset, f"dsf-{backbone}-{kind}"))
                for kind in LOCALS[1:]
            ]
            known = [row for row in rows if row is not None]
            if base is None or not known:
                continue
            best = max(known, key=lambda row: np.nanmean(np.asarray(row["val"], float)))
            scores = same_runs(best, base), same_runs(base, best)
            gain = paired_difference(*scores, "clustered")
            is_apart = abs(gain.mean) > gain.half
            counts[
                ("beats" if gain.mean > 0 else "loses") if is_apart else "neither"
            ] += 1
    return (
        f"Pairs of a graph and a backbone: {sum(counts.values())}. The form that "
        f"validation chose\nbeats its base model on {counts['beats']}, loses to it on "
        f"{counts['loses']}, and does neither on {counts['neither']} (interval over "
        "splits).\n"
    )


_HEAD = """# Local weights that start at their base model

Rendered by `python benchmarks/local_weights.py --render` from
`benchmarks/results/local_weights.jsonl`. These forms are ours, not the paper's; their
equations are in [equations.md](equations.md). All models of a graph had the same
search: 24 trials on 2 splits, 5 finalists on 10, and validation chose. Differences are
paired, run by run, ± half of the 95 % interval over the ten splits; bold where the
intervals over the runs do not overlap. In brackets: the spread of the filters between
nodes, in percent of the shared filter.
"""
_CONTRAST_TITLES = ("DSF-R as published", "residual")
_CONTRAST_TEXT = """`regions` with two regions that are linked alike (contrast 0), to
those that need opposite filters (1); links of the third region say nothing throughout.
Each graph has searches of its own. The spread of the local homophily h_i
(`dsf_jax.graph.unevenness`), and what chance alone would make of it, are known before
any training. Controls were not run on these graphs.

![Gains over GPR-GNN by the contrast of the regions](figures/contrast.svg)
"""
_CONTROLS_TEXT = """The residual form less its base model, and the same with one thing
changed: columns of other nodes (`shuffled`), log-degrees alone (`degree`), the base
with the columns among its features (`features`), the base with as many more parameters
(`wide`).
"""


def main() -> None:
    """Parse the arguments and run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--models", nargs="+", default=MODEL_NAMES)
    parser.add_argument("--controls", action="store_true", help="run controls, too")
    parser.add_argument("--contrast", action="store_true", help="only these graphs")
    parser.add_argument("--render", action="store_true", help="only write the page")
    arguments = parser.parse_args()
    if arguments.contrast:
        arguments.datasets, arguments.models = CONTRASTS, CONTRAST_MODELS
    use_all_cores()
    for dataset in () if arguments.render else arguments.datasets:
        cases = tuple(Case(dataset, model) for model in arguments.models)
        for case in (*cases, *(_controls(dataset) if arguments.controls else ())):
            if case not in map(case_of, read_rows(RECORDS)):
                run_case(case)
                jax.clear_caches()
    PAGE.write_text(render(read_rows(RECORDS)), encoding="utf-8")
    draw_contrast(read_rows(RECORDS))


if __name__ == "__main__":
    main()
