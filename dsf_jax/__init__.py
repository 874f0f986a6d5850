"""Diverse spectral filtering: every node learns its own polynomial graph filter.

Flat names are the everyday path; the rest lives in the rooms: `data`, `graph`, `ops`,
`bases`, `filters`, `ipe`, `models`, `train`, `engine`, `experiments`, `explain`.
"""

from dsf_jax import (
    bases,
    data,
    engine,
    experiments,
    explain,
    filters,
    graph,
    ipe,
    models,
    ops,
    train,
)
from dsf_jax.bases import Basis, polynomial_basis
from dsf_jax.data.catalog import DATASETS, load_dataset
from dsf_jax.data.dataset import Dataset, make_dataset
from dsf_jax.data.own import read_dataset
from dsf_jax.data.splits import make_splits
from dsf_jax.data.synthetic import regions
from dsf_jax.engine.grid import run_grid
from dsf_jax.engine.process import use_all_cores
from dsf_jax.experiments.evaluation import evaluate, prepare
from dsf_jax.experiments.fitting import Fitted, fit, load, predict, save
from dsf_jax.experiments.intervals import interval, paired_difference
from dsf_jax.experiments.presets import preset
from dsf_jax.explain.reading import node_filters
from dsf_jax.graph.graph import Graph
from dsf_jax.graph.positional import positional_features
from dsf_jax.models.backbones import BACKBONES, Backbone
from dsf_jax.models.local import positional
from dsf_jax.models.model import Model
from dsf_jax.models.settings import HyperParams
from dsf_jax.models.spectral import diverse
from dsf_jax.models.zoo import MODELS
from dsf_jax.train import TrainConfig, TrainData, grid_jobs, run_jobs

__version__ = "0.1.0"

__all__ = [
    "BACKBONES",
    "Backbone",
    "Basis",
    "DATASETS",
    "Dataset",
    "Fitted",
    "Graph",
    "HyperParams",
    "MODELS",
    "Model",
    "TrainConfig",
    "TrainData",
    "bases",
    "data",
    "diverse",
    "engine",
    "evaluate",
    "experiments",
    "explain",
    "filters",
    "fit",
    "graph",
    "grid_jobs",
    "interval",
    "ipe",
    "load",
    "load_dataset",
    "make_dataset",
    "make_splits",
    "models",
    "node_filters",
    "ops",
    "paired_difference",
    "polynomial_basis",
    "positional",
    "positional_features",
    "predict",
    "prepare",
    "preset",
    "read_dataset",
    "regions",
    "run_grid",
    "run_jobs",
    "save",
    "train",
    "use_all_cores",
]
