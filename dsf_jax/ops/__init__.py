"""Products, with gradient and batching rules of their own: where the time goes.

Operators of a graph and sparse matrices, three-term recurrences, sums over orders and
over edges, the correlation S; all keep runs side by side in one layout (`lanes`).
"""

from dsf_jax.ops.correlation import Correlation, correlate
from dsf_jax.ops.dropout import draw_mask
from dsf_jax.ops.edge_sums import edge_sum
from dsf_jax.ops.matrix import SparseFeatures, project
from dsf_jax.ops.operator import (
    OPERATORS,
    Operator,
    a_hat,
    a_plus_i,
    a_tilde,
    l_hat,
    propagate,
)
from dsf_jax.ops.recurrence import Recurrence

__all__ = [
    "Correlation",
    "OPERATORS",
    "Operator",
    "Recurrence",
    "SparseFeatures",
    "a_hat",
    "a_plus_i",
    "a_tilde",
    "correlate",
    "draw_mask",
    "edge_sum",
    "l_hat",
    "project",
    "propagate",
]
