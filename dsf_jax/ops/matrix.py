"""Node features: X @ W for dense X, and for sparse X with its own values in every run.

Raw features are 0.5-5 % dense on most graphs, so they are multiplied as sparse and
dropout acts on the non-zeros only. Under `jax.vmap` every run then has its own values
on the same pattern: the runs are stacked block-diagonally into one CSR product, and the
gradient uses the stored transpose. Nothing is scattered.
"""

from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax import Array
from jaxtyping import Float, Int

from dsf_jax.ops.kernels import Csr, csr_matmul
from dsf_jax.ops.lanes import fold_lanes


class Pattern(NamedTuple):
    """Where the entries of an M x N matrix are, row by row.

    Example:
      >>> Pattern.of(sp.csr_array([[0.0, 2.0], [1.0, 0.0]])).columns.tolist()
      [1, 0]
    """

    rows: Int[Array, " Z"]
    columns: Int[Array, " Z"]
    indptr: Int[Array, " M1"]  # entries of row i are indptr[i]:indptr[i + 1]

    @classmethod
    def of(cls, csr: sp.csr_array) -> "Pattern":
        """That of a matrix on the host."""
        rows = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
        parts = rows, csr.indices, csr.indptr
        return cls(*(jnp.asarray(part, dtype=jnp.int32) for part in parts))


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
    entries: Pattern
    transposed: Pattern
    order: Int[Array, " Z"]  # values[order] are those of the transpose

    @property
    def shape(self) -> tuple[int, int]:
        """Number of nodes N and of features F."""
        return len(self.entries.indptr) - 1, len(self.transposed.indptr) - 1

    @classmethod
    def from_scipy(cls, matrix: Any) -> "SparseFeatures":
        """Features from a scipy sparse matrix; stored zeros are dropped."""
        csr = sp.csr_array(matrix, copy=True)
        csr.sum_duplicates()
        csr.eliminate_zeros()
        return cls.of(csr)

    @classmethod
    def of(cls, csr: sp.csr_array) -> "SparseFeatures":
        """As `from_scipy`, entry by entry: stored zeros stay."""
        numbers = (np.arange(csr.nnz), csr.indices, csr.indptr)
        numbered = sp.csr_array(sp.csr_array(numbers, csr.shape).T)
        return cls(
            values=jnp.asarray(csr.data, dtype=float),
            entries=Pattern.of(csr),
            transposed=Pattern.of(numbered),
            order=jnp.asarray(numbered.data, dtype=jnp.int32),
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
    pattern: Pattern, values: Float[Array, "_ Z"], x: Float[Array, "_ N H"]
) -> Float[Array, "L M H"]:
    """Products of lanes that may have their own values on one pattern.

    Not differentiable, and without a rule for `jax.vmap`: see `project`.

    Example:
      >>> pattern = Pattern.of(sp.csr_array([[0.0, 2.0], [1.0, 0.0]]))
      >>> multiply(pattern, jnp.asarray([[3.0, 4.0]]), jnp.eye(2)[None]).tolist()
      [[[0.0, 3.0], [4.0, 0.0]]]
    """
    _, columns, indptr = pattern
    num_rows = indptr.shape[0] - 1
    _, num_columns, width = x.shape
    if values.shape[0] == 1:  # the same matrix for all lanes: one wide product
        wide = jnp.moveaxis(x, 0, 1).reshape(num_columns, -1)
        product = csr_matmul(Csr(values[0], columns, indptr), wide)
        return jnp.moveaxis(product.reshape(num_rows, -1, width), 1, 0)
    lanes, num_entries = values.shape
    lane = jnp.arange(lanes, dtype=jnp.int32)[:, None]
    starts = (indptr[None, :-1] + num_entries * lane).reshape(-1)
    stacked = Csr(
        values=values.reshape(-1),
        columns=(columns[None] + num_columns * lane).reshape(-1),
        indptr=jnp.append(starts, jnp.int32(lanes * num_entries)),
    )
    wide = jnp.broadcast_to(x, (lanes, num_columns, width)).reshape(-1, width)
    return csr_matmul(stacked, wide).reshape(lanes, num_rows, width)


_multiply = fold_lanes(multiply, lane_axes=(None, 0, 0), out_axes=0)


@jax.custom_vjp
def _project(features: SparseFeatures, values: Array, w: Array) -> Array:
    return _multiply(features.entries, values, w)


def _project_bwd(residuals: Any, g: Array) -> tuple[None, None, Array]:
    features, values = residuals
    return None, None, _multiply(features.transposed, values[:, features.order], g)


_project.defvjp(
    lambda features, *args: (_project(features, *args), (features, args[0])),
    _project_bwd,
)
