"""One training run that keeps its parameters: from a data set to a model to look at."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from dsf_jax.data.dataset import Dataset
from dsf_jax.data.splits import make_splits
from dsf_jax.engine.grid import Progress, run_grid
from dsf_jax.models.params import Inputs, Params
from dsf_jax.models.settings import HyperParams, ModelConfig
from dsf_jax.train import TrainConfig, TrainData, grid_jobs


class Fit(NamedTuple):
    """A trained model.

    Example:
      >>> Fit._fields
      ('params', 'val', 'test', 'epochs')
    """

    params: Params  # at the epoch with the best validation score
    val: float
    test: float
    epochs: int  # until training stopped


def fit(
    dataset: Dataset,
    inputs: Inputs,
    hparams: HyperParams,
    *,
    config: ModelConfig,
    seed: int = 0,
    epochs: int = 1000,
    patience: int = 100,
    on_progress: Callable[[Progress], None] | None = None,
) -> Fit:
    """Train once on a stratified 60/20/20 split and keep the best parameters.

    Args:
      dataset: the data set.
      inputs: from `dsf_jax.experiments.evaluation.dataset_inputs`.
      hparams: settings.
      config: the model.
      seed: of the split, the start and the dropout.
      epochs: most epochs.
      patience: epochs without a better validation score before training stops.
      on_progress: called about every second.

    Returns:
      The trained model and its scores.

    Raises:
      ValueError: if the loss became infinite or not a number.

    Example:
      >>> import tempfile
      >>> from dsf_jax import MODELS, regions
      >>> from dsf_jax.experiments.evaluation import dataset_inputs
      >>> dataset, config = regions(60), MODELS["gpr"]
      >>> with tempfile.TemporaryDirectory() as cache:
      ...     inputs = dataset_inputs(dataset, config, cache=cache)
      >>> settings = {"config": config, "epochs": 2}
      >>> fit(dataset, inputs, HyperParams(), **settings).epochs
      2
    """
    splits = make_splits(dataset, kind="stratified", num_splits=1, seed=seed)
    data = TrainData(inputs, jnp.asarray(dataset.labels), *map(jnp.asarray, splits))
    report = run_grid(
        grid_jobs(hparams, num_splits=1, num_seeds=1, seed=seed),
        data,
        config=config,
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
    assert run.params is not None
    params = jax.tree.map(jnp.asarray, run.params)
    return Fit(params, float(run.val), float(run.test), int(run.epochs_run))
