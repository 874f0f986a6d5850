"""Fit, predict, save: one trained model of a data set, for use and not for tables.

fitted = fit(dataset, "dsf-gpr-r")
predict(fitted).classes
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from dsf_jax.data.dataset import Dataset, check_dataset
from dsf_jax.data.splits import check_masks, make_splits
from dsf_jax.engine.grid import Progress, run_grid
from dsf_jax.engine.sharded import check_shardable, shard
from dsf_jax.experiments.evaluation import dataset_inputs
from dsf_jax.experiments.presets import Settings, choose_settings
from dsf_jax.experiments.saved import load_params, save_params
from dsf_jax.models.layers import Inputs
from dsf_jax.models.model import Model
from dsf_jax.models.settings import HyperParams
from dsf_jax.models.zoo import find_model
from dsf_jax.train import TrainConfig, TrainData, grid_jobs


class Fitted(NamedTuple):
    """A trained model with what it was trained on; from `fit` or `load`.

    Example:
      >>> from dsf_jax import regions
      >>> fitted = fit(regions(60), "gpr", epochs=3)
      >>> sorted(fitted.scores)
      ['epochs', 'test', 'val']
    """

    model: Model
    params: Any  # at the epoch with the best validation score
    hparams: HyperParams
    dataset: Dataset
    inputs: Inputs
    scores: dict[str, float]  # val and test in percent, epochs until training stopped


class Prediction(NamedTuple):
    """What `predict` returns, for every node, labelled or not.

    Example:
      >>> from dsf_jax import regions
      >>> predict(fit(regions(60), "gpr", epochs=3)).probabilities.shape
      (60, 2)
    """

    classes: Int[np.ndarray, " N"]  # the most likely class
    probabilities: Float[np.ndarray, "N C"]  # rows sum to 1


def fit(
    dataset: Dataset,
    model: str | Model,
    settings: Settings | None = None,
    *,
    masks: Any = None,
    split_kind: str | None = None,
    seed: int = 0,
    epochs: int = 1000,
    patience: int = 100,
    num_parts: int = 1,
    on_progress: Callable[[Progress], None] | None = None,
    on_positions: Callable[[float], None] | None = None,
) -> Fitted:
    """Train once and keep the parameters with the best validation score.

    Args:
      dataset: from `load_dataset` or `make_dataset`; nodes of class -1 are unlabelled.
      model: a name in `MODELS`, or a model of your own.
      settings: `HyperParams`, or a dictionary of those that differ from the settings
        that ship for the data set (or suit an unknown one), which are the default.
      masks: training, validation and test nodes as boolean arrays [N]; test may be
        left out. By default one split by a rule.
      split_kind: that rule, one of `SPLIT_KINDS`; by default `fixed` where your own
        graph brings masks, else `stratified`.
      seed: of the split, the start and the dropout.
      epochs: most epochs.
      patience: epochs without a better validation score before training stops.
      num_parts: share the nodes out over as many devices; see docs/scale.md.
      on_progress: called about every second.
      on_positions: as in `prepare`.

    Returns:
      The trained model; `test` is NaN where there are no test nodes.

    Raises:
      ValueError: if settings or masks break a rule, or the loss became infinite or not
        a number.

    Example:
      >>> from dsf_jax import regions
      >>> fitted = fit(regions(60), "gpr", {"lr": 0.05}, epochs=3)
      >>> fitted.hparams.lr, fitted.scores["epochs"]
      (0.05, 3.0)
    """
    check_dataset(dataset)
    model = find_model(model)
    if num_parts != 1:
        check_shardable(model)
    split_kind = dataset.split_kind if split_kind is None else split_kind
    hparams = choose_settings(dataset, model, settings, split_kind=split_kind)
    if masks is None:
        split = make_splits(dataset, kind=split_kind, num_splits=1, seed=seed)
    else:
        split = check_masks(masks, dataset.labels)
    inputs = dataset_inputs(dataset, model, on_positions=on_positions)
    labels = jnp.asarray(dataset.labels)
    data = TrainData(inputs, labels, *map(jnp.asarray, split))
    report = run_grid(
        grid_jobs(hparams, num_splits=1, num_seeds=1, seed=seed),
        data if num_parts == 1 else shard(data, num_parts=num_parts),
        model=model,
        train_config=TrainConfig(
            num_classes=dataset.num_classes,
            epochs=epochs,
            patience=patience,
            metric=dataset.metric,
            keeps_params=True,
        ),
        devices=jax.devices()[:1],
        on_progress=on_progress,
    )
    run = jax.tree.map(lambda leaf: leaf[0], report.jobs)
    if not run.is_finite:
        raise ValueError(
            f"training must have a finite loss, got {float(run.train_loss)} after "
            f"{int(run.epochs_run)} epochs; use smaller learning rates."
        )
    test = 100 * float(run.test) if split.test.any() else float("nan")
    scores = {
        "val": 100 * float(run.val),
        "test": test,
        "epochs": float(run.epochs_run),
    }
    params = jax.tree.map(jnp.asarray, run.params)
    return Fitted(model, params, hparams, dataset, inputs, scores)


def predict(fitted: Fitted) -> Prediction:
    """Classes and probabilities of all nodes, unlabelled ones included.

    Example:
      >>> from dsf_jax import regions
      >>> dataset = regions(60)
      >>> predict(fit(dataset, "gpr", epochs=3)).classes.shape == dataset.labels.shape
      True
    """
    output = fitted.model.apply(fitted.params, fitted.inputs, fitted.hparams)
    probabilities = np.asarray(jax.nn.softmax(output.logits), dtype=np.float64)
    return Prediction(probabilities.argmax(axis=1), probabilities)


def save(path: str | os.PathLike[str], fitted: Fitted) -> None:
    """Write a trained model to a file; `load` reads it for the same graph.

    Example:
      >>> import tempfile
      >>> from dsf_jax import regions
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     save(f"{folder}/gpr.msgpack", fit(regions(60), "gpr", epochs=3))
      ...     os.listdir(folder)
      ['gpr.msgpack']
    """
    save_params(
        Path(path),
        fitted.params,
        fitted.hparams,
        fitted.dataset,
        model=fitted.model,
        scores=fitted.scores,
    )


def load(path: str | os.PathLike[str], dataset: Dataset) -> Fitted:
    """A trained model from a file, for the data set it was trained on.

    Example:
      >>> import tempfile
      >>> from dsf_jax import regions
      >>> dataset = regions(60)
      >>> fitted = fit(dataset, "gpr", epochs=3)
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     save(f"{folder}/gpr.msgpack", fitted)
      ...     again = load(f"{folder}/gpr.msgpack", dataset)
      >>> bool(np.all(predict(again).classes == predict(fitted).classes))
      True
    """
    check_dataset(dataset)
    saved = load_params(path, dataset)
    inputs = dataset_inputs(dataset, saved.model)
    return Fitted(
        saved.model, saved.params, saved.hparams, dataset, inputs, saved.scores
    )
