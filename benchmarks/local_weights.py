"""Do diverse filters pay that start at their base model? A study with controls.

    python benchmarks/local_weights.py --datasets chameleon --models dsf-gpr-residual
    python benchmarks/local_weights.py --contrast
    python benchmarks/local_weights.py --fresh
    python benchmarks/local_weights.py --render

Every model of a graph has the same search: 24 trials on 2 splits, the 5 best again on
10, from the same default settings, and validation chooses. Then 10 splits x 4 seeds.
Controls have the settings that the residual form was given, with one thing changed:

    shuffled   columns of the nodes in another order: the gain must go
    degree     log-degrees alone
    features   the base model, with the columns appended to its features
    wide       the base model, with a hidden layer as large as the extra parameters

Base model and residual form are also tested apart (same runs) on test nodes that have a
`twin` among the training nodes, one with the same neighbours, and on `lone` ones.

When does it pay? `--contrast` runs `regions` from two regions that are linked alike
(contrast 0) to opposite ones (1), each searched on its own, and draws the gains. What
is known of a graph before training stands in `results/local_measures.jsonl`. `--fresh`
runs Chameleon on ten splits that no search has seen.

One record per case in `results/local_weights.jsonl`, settings in
`results/local_weights_tuned.jsonl`; what is there is skipped, and what is on its way
keeps journals in `results/unfinished`. Writes `docs/local-weights.md`.
"""

import argparse
import dataclasses
import functools
from typing import Any

import jax
import numpy as np
import scipy.sparse as sp
from common import note, print_case, use_whole_computer
from jaxtyping import Bool
from local_weights_page import (
    BACKBONES,
    CONTRAST_MODELS,
    CONTRASTS,
    CONTROLS,
    DATASETS,
    MODEL_NAMES,
    PARTS,
    Case,
    case_of,
    chosen,
    draw_contrast,
    render,
)
from table2 import ROOT, UNFINISHED, append_row, read_rows

from dsf_jax.data.catalog import load_dataset
from dsf_jax.data.dataset import Dataset
from dsf_jax.data.splits import make_splits
from dsf_jax.data.synthetic import regions
from dsf_jax.experiments.evaluation import evaluate
from dsf_jax.experiments.presets import default_settings
from dsf_jax.experiments.search import tune
from dsf_jax.graph.locality import count_local_edges, twin_groups, unevenness
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
MEASURES = RESULTS / "local_measures.jsonl"
PAGE = ROOT / "docs" / "local-weights.md"
CONTRAST_FIGURE = ROOT / "docs" / "figures" / "contrast.svg"
SEARCH = {"num_trials": 24, "num_splits": 2, "num_finalists": 5}
SEEDS = 4
FRESH_SEED = 100  # of the first of the splits that no search has seen


def _controls(dataset: str) -> tuple[Case, ...]:
    own = tuple(
        Case(dataset, f"dsf-{backbone}-residual", control)
        for backbone in BACKBONES
        for control in CONTROLS
    )
    if not all(np.any(mask, axis=1).all() for mask in _test_masks(dataset).values()):
        return own
    return own + tuple(
        Case(dataset, model, part)
        for backbone in BACKBONES
        for model in (backbone, f"dsf-{backbone}-residual")
        for part in PARTS
    )


def _test_masks(name: str) -> dict[str, Bool[np.ndarray, "S N"]]:
    """Test nodes of every split with a twin among its training nodes, and without."""
    dataset = _load(name)
    splits, groups = make_splits(dataset), twin_groups(dataset.graph)
    has_twin = np.stack([np.isin(groups, groups[train]) for train in splits.train])
    return {part: splits.test & (has_twin == twin) for part, twin in PARTS.items()}


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


CHANGES = dict(zip(CONTROLS, (shuffled, degree, features, wide), strict=True))


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
    splits: dict[str, Any] = {}
    more: dict[str, Any] = {}
    if case.control in CONTROLS:
        dataset, model, hparams = CHANGES[case.control](dataset, model, hparams)
    elif case.control in PARTS:
        test = _test_masks(case.dataset)[case.control]
        dataset = dataset._replace(fixed=make_splits(dataset)._replace(test=test))
        splits, more = {"split_kind": "fixed"}, {"num_test": int(test.sum())}
    elif case.control == "fresh":
        splits = {"seed": FRESH_SEED}
    journal = UNFINISHED / f"local-{'-'.join(filter(None, case))}.journal"
    record = evaluate(
        dataset, model, hparams, num_seeds=SEEDS, spread=True, journal=journal, **splits
    )
    append_row(RECORDS, record | case._asdict() | more)
    journal.unlink()
    print_case(**case._asdict(), mean=record["mean"], ci95=record["ci95"])


def measure(name: str) -> None:
    """Append what is known of a graph before training, unless it is there."""
    if any(row["dataset"] == name for row in read_rows(MEASURES)):
        return
    dataset = _load(name)
    graph, labels = dataset.graph, dataset.labels
    uneven = unevenness(graph, labels, count_local_edges(graph, labels))
    row = {"dataset": name, "nodes": graph.num_nodes} | uneven._asdict()
    append_row(MEASURES, row)


def _fresh_models() -> tuple[str, ...]:
    """Base models, the published form, and the form that validation chose."""
    found = {case_of(row): row for row in read_rows(RECORDS)}
    kinds = {backbone: chosen(found, "chameleon", backbone) for backbone in BACKBONES}
    return tuple(
        name
        for backbone, kind in kinds.items()
        if kind is not None
        for name in (backbone, f"dsf-{backbone}-r", f"dsf-{backbone}-{kind}")
    )


def main() -> None:
    """Parse the arguments and run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--models", nargs="+", default=MODEL_NAMES)
    parser.add_argument("--controls", action="store_true", help="run controls, too")
    parser.add_argument("--contrast", action="store_true", help="only these graphs")
    parser.add_argument("--fresh", action="store_true", help="only Chameleon's others")
    parser.add_argument("--render", action="store_true", help="only write the page")
    arguments = parser.parse_args()
    if arguments.contrast:
        arguments.datasets, arguments.models = CONTRASTS, CONTRAST_MODELS
    if arguments.fresh:
        arguments.datasets, arguments.models = ("chameleon",), _fresh_models()
    use_whole_computer()
    for dataset in () if arguments.render else arguments.datasets:
        measure(dataset)
        cases = tuple(Case(dataset, model) for model in arguments.models)
        if arguments.fresh:
            cases = tuple(case._replace(control="fresh") for case in cases)
        for case in (*cases, *(_controls(dataset) if arguments.controls else ())):
            if case not in map(case_of, read_rows(RECORDS)):
                run_case(case)
                jax.clear_caches()
    rows = read_rows(RECORDS)
    PAGE.write_text(render(rows, read_rows(MEASURES)), encoding="utf-8")
    draw_contrast(rows, CONTRAST_FIGURE)


if __name__ == "__main__":
    main()
