"""From a data set and a model to mean and interval: the evaluation of the paper.

Splits x seeds are one queue (`dsf_jax.engine.grid`). The result is a record: a
dictionary that JSON can hold, with the scores of every run and all that they depend on.
"""

import contextlib
import dataclasses
import datetime
import importlib.metadata
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from dsf_jax.data.dataset import Dataset, check_dataset
from dsf_jax.data.splits import Split, make_splits, report_splits
from dsf_jax.engine.grid import GridReport, Progress, choose_lanes, run_grid
from dsf_jax.engine.metrics import summarise
from dsf_jax.experiments.journal import Journal
from dsf_jax.experiments.presets import Settings, choose_settings
from dsf_jax.graph.positional import positional_features
from dsf_jax.models.diversity import measure_diversity
from dsf_jax.models.layers import Inputs
from dsf_jax.models.model import Model
from dsf_jax.models.settings import settings_to_json
from dsf_jax.models.zoo import find_model, name_of
from dsf_jax.ops.matrix import SparseFeatures
from dsf_jax.storage import digest
from dsf_jax.train import (
    JobResults,
    Jobs,
    Selection,
    TrainConfig,
    TrainData,
    grid_jobs,
    score_split,
)

# what a journal keeps of a job, and a record of all of them
_SCORES = ("test", "val")
_COUNTS = ("best_epoch", "epochs_run")
_LOSSES = ("train_loss", "val_loss")  # NaN where a run diverged
_DIVERSITY = ("spread", "saturated")  # only if asked for


def dataset_inputs(
    dataset: Dataset,
    model: Model,
    *,
    cache: str | os.PathLike[str] | None = None,
    on_positions: Callable[[float], None] | None = None,
) -> Inputs:
    """What a model reads of a data set: operators, features, positional features.

    Args:
      dataset: the data set.
      model: the model.
      cache: folder of positional features, as in `positional_features`.
      on_positions: `on_progress` of `positional_features`.

    Returns:
      The inputs.

    Example:
      >>> import tempfile
      >>> from dsf_jax import MODELS, regions
      >>> with tempfile.TemporaryDirectory() as cache:
      ...     dataset_inputs(regions(60), MODELS["dsf-gpr-r"], cache=cache).x_pos.shape
      (2, 60, 32)
    """
    features = (
        SparseFeatures.from_scipy(dataset.features)
        if sp.issparse(dataset.features)
        else jnp.asarray(dataset.features, dtype=float)
    )
    x_pos = None
    if model.uses_positions:
        found = positional_features(
            dataset.graph, cache=cache, on_progress=on_positions
        )
        x_pos = jnp.asarray(found.x_pos, dtype=float)
    return model.make_inputs(dataset.graph, features, x_pos)


def prepare(
    dataset: Dataset,
    splits: Split,
    *,
    model: str | Model,
    on_positions: Callable[[float], None] | None = None,
) -> TrainData:
    """A data set as the engine takes it; positional features are computed or cached.

    Args:
      dataset: from `load_dataset` or `make_dataset`.
      splits: from `make_splits`, masks [S, N].
      model: a name in `MODELS`, or a model of your own.
      on_positions: called with the share that is done while positions are computed,
        which takes minutes on large graphs.

    Returns:
      Arrays on the default device.

    Example:
      >>> from dsf_jax import make_splits, regions
      >>> dataset = regions(60)
      >>> prepare(dataset, make_splits(dataset), model="gpr").train.shape
      (10, 60)
    """
    inputs = dataset_inputs(dataset, find_model(model), on_positions=on_positions)
    return TrainData(inputs, jnp.asarray(dataset.labels), *map(jnp.asarray, splits))


def evaluate(
    dataset: Dataset,
    model: str | Model,
    settings: Settings | None = None,
    *,
    num_splits: int = 10,
    num_seeds: int = 10,
    split_kind: str = "stratified",
    seed: int = 0,
    epochs: int = 1000,
    patience: int = 100,
    selection: Selection = "first-best",
    lanes: int | None = None,
    spread: bool = False,
    journal: str | os.PathLike[str] | None = None,
    mixed: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    on_positions: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Train and test on splits x seeds.

    A run does not depend on the lanes beside it, except in rounding: in float64 scores
    are the same for any number of lanes, in float32 some differ (docs/decisions.md,
    "Lanes"). So the record says how many lanes there were, and a journal goes on with
    the lanes it was begun with.

    Args:
      dataset: from `load_dataset` or `make_dataset`.
      model: a name in `MODELS`, or a model of your own.
      settings: `HyperParams`, where those that the model does not read must have their
        defaults, or a dictionary of those that differ from the settings that ship for
        the data set (or suit an unknown one), which are the default.
      num_splits: S.
      num_seeds: R.
      split_kind: one of `SPLIT_KINDS`.
      seed: of the first split, and of the runs.
      epochs: most updates of a run.
      patience: epochs without a better validation score before a run ends.
      selection: which epoch counts, and when a run ends; see `TrainConfig`.
      lanes: runs side by side; if not given, those of the journal, or chosen by
        `choose_lanes`.
      spread: report how diverse the filters of each run are, at its chosen epoch.
      journal: file that keeps finished runs; the next call with it runs the others.
      mixed: go on with a journal of another precision, version, number of devices or
        lanes; the record then lists them as `mixed_with`.
      on_progress: called about once a second.
      on_positions: as in `prepare`.

    Returns:
      The record, scores in percent: `dataset, model, metric, mean, ci95, std,
      num_finite, test, val, best_epoch, epochs_run, is_finite` (S x R), `settings,
      split_kind, splits` (their sizes)`, seed, data_digest, split_digest, seconds,
      compile_seconds, lanes, occupancy, versions, device, date` and more. With
      `spread` also `spread` (of g_i between nodes, in percent of the shared filter) and
      `saturated` (percent of entries of the positions beyond ±0.99), S x R each.

    Raises:
      ValueError: if a setting breaks its rule or is not read, or if `spread` is asked
        of a model without a filter per node, or if the journal is of other runs, made
        with something else, or open in another process.

    Example:
      >>> from dsf_jax import regions
      >>> few = {"num_splits": 2, "num_seeds": 1, "epochs": 3, "lanes": 1}
      >>> record = evaluate(regions(60), "gpr", {"lr": 0.05}, **few)
      >>> np.shape(record["test"]), record["interval"]
      ((2, 1), 'student-t')
    """
    model, name = find_model(model), name_of(model)
    check_dataset(dataset)
    hparams = choose_settings(dataset, model, settings, split_kind=split_kind)
    _check_spread(spread, model, name)
    splits = make_splits(dataset, kind=split_kind, num_splits=num_splits, seed=seed)
    jobs = grid_jobs(hparams, num_splits=num_splits, num_seeds=num_seeds, seed=seed)
    data = prepare(dataset, splits, model=model, on_positions=on_positions)
    train_config = protocol(
        dataset, data, model=model, epochs=epochs, patience=patience, lanes=lanes
    )
    train_config = dataclasses.replace(
        train_config,
        selection=selection,
        keeps_params=spread or model.exact != model,
    )
    what = {
        "dataset": dataset.name,
        "model": name,
        "metric": dataset.metric,
        "settings": settings_to_json(hparams),
        "split_kind": split_kind,
        "num_splits": num_splits,
        "num_seeds": num_seeds,
        "seed": seed,
        "epochs": epochs,
        "patience": patience,
        "data_digest": data_digest(dataset),
        "split_digest": digest(*splits),
    }
    if selection != TrainConfig.selection:  # headers of older journals have none
        what["selection"] = selection
    if spread:
        what["measured"] = list(_DIVERSITY)
    more = {}
    with contextlib.ExitStack() as stack:
        memory = None
        if journal:
            own = made_with() | ({} if lanes is None else {"lanes": lanes})
            chosen = {"lanes": train_config.lanes} if lanes is None else {}
            memory = Journal(Path(journal), what, own, chosen=chosen, mixed=mixed)
            stack.enter_context(memory)
            train_config = dataclasses.replace(train_config, lanes=memory.own["lanes"])
            if others := [made for made in memory.made_with if made != memory.own]:
                more["mixed_with"] = others
        finished, report = _run_missing(
            *(jobs, data, model, train_config, memory, on_progress),
            has_diversity=spread,
        )
    return (
        what
        | more
        | _scores(finished, (num_splits, num_seeds))
        | {
            "splits": str(report_splits(dataset.labels, splits)),
            "lanes": train_config.lanes,
            **_times(report),
            **environment(),
        }
    )


def _check_spread(spread: bool, model: Model, name: str) -> None:
    if spread and not model.has_filters:
        raise ValueError(
            f"spread must be False for {name!r}, got True; only GPR, Bern, Jacobi "
            "and the DSF models have filters to compare."
        )


def _times(report: GridReport | None) -> dict[str, float]:
    """What is known of a grid beside its runs; None if nothing was left to run."""
    if report is None:
        return {
            "seconds": 0.0,
            "compile_seconds": 0.0,
            "occupancy": 1.0,
            "occupancy_while_queued": 1.0,
        }
    return {
        "seconds": report.seconds,
        "compile_seconds": report.compile_seconds,
        "occupancy": float(report.occupancy.overall),
        "occupancy_while_queued": float(report.occupancy.while_queued),
    }


def finite_scores(record: Mapping[str, Any]) -> Float[np.ndarray, "S R"]:
    """Test scores of a record, NaN where a run diverged; for `interval`.

    Example:
      >>> finite_scores({"test": [[90.0, 20.0]], "is_finite": [[True, False]]}).tolist()
      [[90.0, nan]]
    """
    return np.where(record["is_finite"], record["test"], np.nan)


def protocol(
    dataset: Dataset,
    data: TrainData,
    *,
    model: Model,
    epochs: int,
    patience: int,
    lanes: int | None,
) -> TrainConfig:
    """The protocol of training on a data set; `lanes=None` leaves them to the rule.

    Example:
      >>> from dsf_jax import MODELS, make_splits, regions
      >>> dataset, model = regions(60), MODELS["gpr"]
      >>> data = prepare(dataset, make_splits(dataset), model=model)
      >>> limits = {"epochs": 9, "patience": 3, "lanes": 2}
      >>> protocol(dataset, data, model=model, **limits).num_classes
      2
    """
    return TrainConfig(
        num_classes=dataset.num_classes,
        epochs=epochs,
        patience=patience,
        lanes=choose_lanes(data, model=model) if lanes is None else lanes,
        metric=dataset.metric,
    )


def data_digest(dataset: Dataset) -> str:
    """SHA-256 of graph, features and labels as they are used; of weights if not 1.

    Example:
      >>> from dsf_jax import regions
      >>> data_digest(regions(60)) == data_digest(regions(60, seed=1))
      False
    """
    x, graph = sp.csr_array(dataset.features), dataset.graph
    parts = [graph.senders, graph.receivers, x.data, x.indices, x.indptr]
    parts.append(dataset.labels)
    if np.any(np.asarray(graph.weights) != 1):  # digests of others stay what they were
        parts.append(graph.weights)
    return digest(*parts)


def made_with() -> dict[str, Any]:
    """What results depend on in rounding, beside the lanes: for headers of journals.

    Example:
      >>> sorted(made_with())
      ['device', 'dsf_jax', 'jax', 'num_devices', 'precision']
    """
    facts = environment()
    versions = {name: facts["versions"][name] for name in ("dsf_jax", "jax")}
    places = {name: facts[name] for name in ("precision", "device", "num_devices")}
    return places | versions


def environment() -> dict[str, Any]:
    """Versions, precision, device and date, for records.

    Example:
      >>> sorted(environment())
      ['date', 'device', 'num_devices', 'precision', 'versions']
    """
    return {
        "precision": jnp.zeros(()).dtype.name,
        "versions": {
            "dsf_jax": importlib.metadata.version("dsf-jax"),
            "jax": jax.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "device": jax.devices()[0].device_kind,
        "num_devices": jax.device_count(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def _run_missing(
    jobs: Jobs,
    data: TrainData,
    model: Model,
    train_config: TrainConfig,
    journal: Journal | None,
    on_progress: Callable[[Progress], None] | None,
    *,
    has_diversity: bool,
) -> tuple[dict[int, dict[str, Any]], GridReport | None]:
    """Results of all jobs; those of the journal are not run again."""
    finished = {} if journal is None else dict(journal.finished)
    num_jobs = jobs.split.shape[0]
    missing = np.setdiff1d(np.arange(num_jobs), list(finished))
    if len(missing) == 0:
        return finished, None

    measure = jax.jit(measure_diversity, static_argnames="model")
    rescore = jax.jit(_score_params, static_argnames=("model", "is_binary"))
    is_binary = train_config.metric == "roc_auc"

    def fields(result: JobResults, number: int) -> dict[str, Any]:
        names = (*_SCORES, *_COUNTS, *_LOSSES, "is_finite")
        found = {name: getattr(result, name) for name in names}
        job = jax.tree.map(lambda leaf: leaf[number], jobs)
        own: Any = {"model": model.exact}
        if model.exact != model:  # an estimate is for training and stopping alone
            found |= rescore(result.params, data, job, is_binary=is_binary, **own)
        if has_diversity:
            hparams = job.hparams
            found |= measure(result.params, data.inputs, hparams, **own)._asdict()
        return {name: value.item() for name, value in found.items()}

    def report(progress: Progress) -> None:
        new = {}
        for i, place in enumerate(progress.finished):
            job = int(missing[place])
            result = jax.tree.map(lambda leaf, i=i: leaf[i], progress.results)
            new[job] = fields(result, job)
        finished.update(new)
        if journal is not None:
            journal.append(new)
        if on_progress is not None:
            on_progress(progress)

    result = run_grid(
        jax.tree.map(lambda leaf: leaf[missing], jobs),
        data,
        model=model,
        train_config=train_config,
        on_progress=report,
    )
    return finished, result


def _score_params(
    params: Any, data: TrainData, job: Jobs, *, model: Model, is_binary: bool
) -> dict[str, Any]:
    """Scores of trained parameters on the split of their job."""
    logits = model.apply(params, data.inputs, job.hparams).logits
    val, test = score_split(logits, data, job.split, is_binary=is_binary)
    return {"val": val, "test": test}


def _scores(
    finished: dict[int, dict[str, Any]], shape: tuple[int, int]
) -> dict[str, Any]:
    """Mean, interval, and tables [S, R]; scores in percent."""

    def table(name: str) -> np.ndarray:
        values = [finished[job][name] for job in range(len(finished))]
        return np.asarray(values).reshape(shape)

    test, is_finite = 100 * table("test"), table("is_finite")
    summary = summarise(jnp.asarray(test.ravel()), jnp.asarray(is_finite.ravel()))
    return {
        "mean": float(summary.mean),
        "ci95": float(summary.ci95),
        "std": float(summary.std),
        "interval": "student-t",
        "num_finite": int(summary.num_finite),
        **{name: (100 * table(name)).round(4).tolist() for name in _SCORES},
        **{name: table(name).tolist() for name in (*_COUNTS, *_LOSSES)},
        "is_finite": is_finite.tolist(),
        **{
            name: (100 * table(name)).round(6).tolist()
            for name in _DIVERSITY
            if name in finished[0]
        },
    }
