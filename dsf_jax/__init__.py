"""Diverse spectral filtering: every node learns its own polynomial graph filter."""

from dsf_jax.bases import (
    Basis,
    bernstein,
    chebyshev,
    evaluate_basis,
    jacobi,
    legendre,
    monomial,
    polynomial_basis,
    released_jacobi,
)
from dsf_jax.data.catalog import (
    DATASETS,
    Description,
    describe_dataset,
    load_dataset,
)
from dsf_jax.data.dataset import Dataset, Source, make_dataset
from dsf_jax.data.splits import (
    SPLIT_KINDS,
    Split,
    SplitReport,
    balanced_split,
    make_splits,
    report_splits,
    sparse_split,
    stratified_split,
)
from dsf_jax.data.synthetic import csbm, region_of, regions
from dsf_jax.engine.grid import (
    GridReport,
    Progress,
    choose_lanes,
    run_grid,
    use_all_cores,
)
from dsf_jax.experiments.evaluation import evaluate, finite_scores, prepare
from dsf_jax.experiments.intervals import interval, paired_difference
from dsf_jax.experiments.presets import Preset, preset
from dsf_jax.experiments.spaces import SPACES
from dsf_jax.filters import (
    basis_terms,
    cumulative_weights,
    diverse_filter,
    diverse_recurrence_filter,
    local_frequency_filter,
    response,
    shared_filter,
)
from dsf_jax.graph.graph import Graph
from dsf_jax.graph.homophily import class_homophily, edge_homophily
from dsf_jax.graph.positional import (
    PositionalFeatures,
    positional_features,
)
from dsf_jax.ipe import (
    Heads,
    encode,
    orthogonality_loss,
    positions,
)
from dsf_jax.models.dropout import Masks, draw_masks
from dsf_jax.models.dsf import (
    LocalWeights,
    Output,
    apply,
    local_weights,
    loss,
    node_positions,
)
from dsf_jax.models.params import Inputs, Params, init, make_inputs
from dsf_jax.models.settings import (
    BACKBONES,
    MODELS,
    Backbone,
    BaselineConfig,
    HyperParams,
    ModelConfig,
)
from dsf_jax.ops.correlation import Correlation
from dsf_jax.ops.matrix import SparseFeatures
from dsf_jax.ops.operator import Operator, a_hat, a_plus_i, a_tilde, l_hat, propagate
from dsf_jax.ops.recurrence import Recurrence
from dsf_jax.train import (
    GridResult,
    JobResults,
    Jobs,
    TrainConfig,
    TrainData,
    grid_jobs,
    run_jobs,
)

__version__ = "0.1.0"

__all__ = [
    "BACKBONES",
    "Backbone",
    "BaselineConfig",
    "Basis",
    "Correlation",
    "DATASETS",
    "Dataset",
    "Description",
    "Graph",
    "GridReport",
    "GridResult",
    "Heads",
    "HyperParams",
    "Inputs",
    "JobResults",
    "Jobs",
    "LocalWeights",
    "MODELS",
    "Masks",
    "ModelConfig",
    "Operator",
    "Output",
    "Params",
    "PositionalFeatures",
    "Preset",
    "Progress",
    "Recurrence",
    "SPACES",
    "SPLIT_KINDS",
    "Source",
    "SparseFeatures",
    "Split",
    "SplitReport",
    "TrainConfig",
    "TrainData",
    "a_hat",
    "a_plus_i",
    "a_tilde",
    "apply",
    "balanced_split",
    "basis_terms",
    "bernstein",
    "chebyshev",
    "choose_lanes",
    "class_homophily",
    "csbm",
    "cumulative_weights",
    "describe_dataset",
    "diverse_filter",
    "diverse_recurrence_filter",
    "draw_masks",
    "edge_homophily",
    "encode",
    "evaluate",
    "evaluate_basis",
    "finite_scores",
    "grid_jobs",
    "init",
    "interval",
    "jacobi",
    "l_hat",
    "legendre",
    "load_dataset",
    "local_frequency_filter",
    "local_weights",
    "loss",
    "make_dataset",
    "make_inputs",
    "make_splits",
    "monomial",
    "node_positions",
    "orthogonality_loss",
    "paired_difference",
    "polynomial_basis",
    "positional_features",
    "positions",
    "prepare",
    "preset",
    "propagate",
    "region_of",
    "regions",
    "released_jacobi",
    "report_splits",
    "response",
    "run_grid",
    "run_jobs",
    "shared_filter",
    "sparse_split",
    "stratified_split",
    "use_all_cores",
]
