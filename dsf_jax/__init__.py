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
from dsf_jax.correlation import Correlation
from dsf_jax.datasets import Dataset, Split, load_dataset, stratified_split
from dsf_jax.dropout import Masks, draw_masks
from dsf_jax.features import SparseFeatures
from dsf_jax.filters import (
    basis_terms,
    cumulative_weights,
    diverse_filter,
    diverse_recurrence_filter,
    local_frequency_filter,
    response,
    shared_filter,
)
from dsf_jax.graph import Graph
from dsf_jax.ipe import (
    Heads,
    encode,
    orthogonality_loss,
    positions,
)
from dsf_jax.models import (
    LocalWeights,
    Output,
    apply,
    local_weights,
    loss,
    node_positions,
)
from dsf_jax.params import Inputs, Params, init, make_inputs
from dsf_jax.positional import (
    PositionalFeatures,
    positional_features,
)
from dsf_jax.recurrence import Recurrence
from dsf_jax.settings import BACKBONES, MODELS, Backbone, HyperParams, ModelConfig
from dsf_jax.sparse import Operator, a_hat, a_tilde, l_hat, propagate

__version__ = "0.1.0"

__all__ = [
    "BACKBONES",
    "Backbone",
    "Basis",
    "Correlation",
    "Dataset",
    "Graph",
    "Heads",
    "HyperParams",
    "Inputs",
    "LocalWeights",
    "MODELS",
    "Masks",
    "ModelConfig",
    "Operator",
    "Output",
    "Params",
    "PositionalFeatures",
    "Recurrence",
    "SparseFeatures",
    "Split",
    "a_hat",
    "a_tilde",
    "apply",
    "basis_terms",
    "bernstein",
    "chebyshev",
    "cumulative_weights",
    "diverse_filter",
    "diverse_recurrence_filter",
    "draw_masks",
    "encode",
    "evaluate_basis",
    "init",
    "jacobi",
    "l_hat",
    "legendre",
    "load_dataset",
    "local_frequency_filter",
    "local_weights",
    "loss",
    "make_inputs",
    "monomial",
    "node_positions",
    "orthogonality_loss",
    "polynomial_basis",
    "positional_features",
    "positions",
    "propagate",
    "released_jacobi",
    "response",
    "shared_filter",
    "stratified_split",
]
