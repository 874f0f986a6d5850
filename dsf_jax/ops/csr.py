"""Products with a sparse matrix on the native CPU kernel."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import scipy.sparse as sp
from jax import Array
from jaxtyping import Float, Int

CSR_COLUMNS = 8  # the native CPU kernel needs 4x longer off multiples of 8 columns


class Csr(NamedTuple):
    """An M x N matrix by rows.

    Example:
      >>> matrix = Csr.from_scipy(sp.csr_array([[0.0, 2.0]]))
      >>> csr_matmul(*matrix, jnp.asarray([[3.0], [4.0]])).tolist()
      [[8.0]]
    """

    values: Float[Array, " Z"]
    columns: Int[Array, " Z"]
    indptr: Int[Array, " M1"]  # entries of row i are indptr[i]:indptr[i + 1]

    @classmethod
    def from_scipy(cls, matrix: Any) -> "Csr":
        """The same matrix on the device."""
        csr = sp.csr_array(matrix)
        return cls(
            values=jnp.asarray(csr.data),
            columns=jnp.asarray(csr.indices, dtype=jnp.int32),
            indptr=jnp.asarray(csr.indptr, dtype=jnp.int32),
        )


def csr_matmul(
    values: Float[Array, " Z"],
    columns: Int[Array, " Z"],
    indptr: Int[Array, " M1"],
    x: Float[Array, "N C"],
) -> Float[Array, "M C"]:
    """Product of an M x N matrix in CSR form with x, on the native CPU kernel.

    The only use of JAX's sparse arrays, which are no longer developed. Neither batching
    nor differentiation keeps the native kernel: callers bring their own rules.

    Example:
      >>> one_row = jnp.asarray([2.0]), jnp.asarray([1]), jnp.asarray([0, 1])
      >>> csr_matmul(*one_row, jnp.asarray([[3.0], [4.0]])).tolist()
      [[8.0]]
    """
    from jax.experimental.sparse import BCSR

    width = x.shape[1]
    padded = jnp.pad(x, ((0, 0), (0, -width % CSR_COLUMNS)))
    shape = (indptr.shape[0] - 1, x.shape[0])
    matrix = BCSR((values.astype(x.dtype), columns, indptr), shape=shape)
    return (matrix @ padded)[:, :width]
