"""Node features: X @ W for dense X, and for sparse X with its own values in every run.

Raw features are 0.5-5 % dense on most graphs, so they are multiplied as sparse and
dropout acts on the non-zeros only. Under `jax.vmap` every run then has its own values
on the same pattern: the runs are stacked block-diagonally into one CSR product, and the
gradient uses the stored transpose. Nothing is scattered.
"""

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax import Array
from jaxtyping import Float, Int

from dsf_jax.ops.csr import csr_matmul
from dsf_jax.ops.lanes import fold_lanes


@flax.struct.dataclass
class SparseFeatures:
    """Sparse N x F matrix in CSR order, with the pattern of its transpose.

    Example:
      >>> x = SparseFeatures.from_scipy(sp.csr_array([[0.0, 2.0], [1.0, 0.0]]))
      >>> x.shape, project(x, jnp.eye(2)).tolist()
      ((2, 2), [[0.0, 2.0], [1.0, 0.0]])
    """

    __no_type_check__ = True  # JAX fills pytrees with tracers, flags, specs ...

    values: Float[Array, " Z"]
    columns: Int[Array, " Z"]
    indptr: Int[Array, " N1"]
    entry_rows: Int[Array, " Z"]  # row of each entry
    transpose_order: Int[Array, " Z"]  # values[transpose_order] are in CSC order
    rows: Int[Array, " Z"]  # row of each entry, in CSC order
    transpose_indptr: Int[Array, " F1"]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of nodes N and of features F."""
        return self.indptr.shape[0] - 1, self.transpose_indptr.shape[0] - 1

    @classmethod
    def from_scipy(cls, matrix: Any) -> "SparseFeatures":
        """Features from a scipy sparse matrix; stored zeros are dropped."""
        csr = sp.csr_array(matrix, copy=True)
        csr.sum_duplicates()
        csr.eliminate_zeros()
        numbered = sp.csr_array(
            (np.arange(csr.nnz), csr.indices, csr.indptr), csr.shape
        )
        transpose = sp.csc_array(numbered)
        return cls(
            values=jnp.asarray(csr.data, dtype=float),
            columns=jnp.asarray(csr.indices, dtype=jnp.int32),
            indptr=jnp.asarray(csr.indptr, dtype=jnp.int32),
            entry_rows=jnp.asarray(
                np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr)), dtype=jnp.int32
            ),
            transpose_order=jnp.asarray(transpose.data, dtype=jnp.int32),
            rows=jnp.asarray(transpose.indices, dtype=jnp.int32),
            transpose_indptr=jnp.asarray(transpose.indptr, dtype=jnp.int32),
        )


def project(
    features: SparseFeatures | Float[Array, "N F"],
    w: Float[Array, "F H"],
    mask: Float[Array, "..."] | None = None,
) -> Float[Array, "N H"]:
    """X @ W; with a mask, (X ⊙ mask) @ W. Features and mask are constants.

    Args:
      features: sparse or dense features.
      w: the map, differentiable.
      mask: factor of each stored value, [Z] if sparse and [N, F] if dense.

    Returns:
      The projected features, in the dtype of w.

    Example:
      >>> project(jnp.eye(2), jnp.ones((2, 3))).shape
      (2, 3)
    """
    if not isinstance(features, SparseFeatures):
        x = features.astype(w.dtype)
        return (x if mask is None else x * mask) @ w
    values = features.values.astype(w.dtype)
    values = values if mask is None else values * mask
    return _project(features, values[None], w[None])[0]


def multiply(
    features: SparseFeatures, values: Float[Array, "_ Z"], w: Float[Array, "_ F H"]
) -> Float[Array, "L N H"]:
    """Products X W of lanes that may have their own values on the pattern of X.

    Not differentiable, and without a rule for `jax.vmap`: see `project`.

    Example:
      >>> x = SparseFeatures.from_scipy(sp.csr_array([[0.0, 2.0], [1.0, 0.0]]))
      >>> multiply(x, jnp.asarray([[3.0, 4.0]]), jnp.eye(2)[None]).tolist()
      [[[0.0, 3.0], [4.0, 0.0]]]
    """
    return _lane_product(features.columns, features.indptr, values, w)


def multiply_transposed(
    features: SparseFeatures, values: Float[Array, "_ Z"], g: Float[Array, "_ N H"]
) -> Float[Array, "L F H"]:
    """Products Xᵀ G, as `multiply`.

    Example:
      >>> x = SparseFeatures.from_scipy(sp.csr_array([[0.0, 2.0], [1.0, 0.0]]))
      >>> multiply_transposed(x, jnp.asarray([[3.0, 4.0]]), jnp.eye(2)[None]).tolist()
      [[[0.0, 4.0], [3.0, 0.0]]]
    """
    in_csc_order = values[:, features.transpose_order]
    return _lane_product(features.rows, features.transpose_indptr, in_csc_order, g)


def _lane_product(
    columns: Int[Array, " Z"],
    indptr: Int[Array, " M1"],
    values: Float[Array, "_ Z"],
    x: Float[Array, "_ N H"],
) -> Float[Array, "L M H"]:
    """Products of matrices on one pattern, one per lane."""
    num_rows = indptr.shape[0] - 1
    _, num_columns, width = x.shape
    if values.shape[0] == 1:  # the same matrix for all lanes: one wide product
        wide = jnp.moveaxis(x, 0, 1).reshape(num_columns, -1)
        product = csr_matmul(values[0], columns, indptr, wide)
        return jnp.moveaxis(product.reshape(num_rows, -1, width), 1, 0)
    lanes, num_entries = values.shape
    lane = jnp.arange(lanes, dtype=jnp.int32)[:, None]
    starts = (indptr[None, :-1] + num_entries * lane).reshape(-1)
    product = csr_matmul(
        values.reshape(-1),
        (columns[None] + num_columns * lane).reshape(-1),
        jnp.append(starts, jnp.int32(lanes * num_entries)),
        jnp.broadcast_to(x, (lanes, num_columns, width)).reshape(-1, width),
    )
    return product.reshape(lanes, num_rows, width)


_folded = fold_lanes(multiply, lane_axes=(None, 0, 0), out_axes=0)
_folded_transposed = fold_lanes(multiply_transposed, lane_axes=(None, 0, 0), out_axes=0)


@jax.custom_vjp
def _project(features: SparseFeatures, values: Array, w: Array) -> Array:
    return _folded(features, values, w)


def _project_fwd(
    features: SparseFeatures, values: Array, w: Array
) -> tuple[Array, tuple[SparseFeatures, Array]]:
    return _folded(features, values, w), (features, values)


def _project_bwd(residuals: Any, g: Array) -> tuple[None, None, Array]:
    return None, None, _folded_transposed(*residuals, g)


_project.defvjp(_project_fwd, _project_bwd)
