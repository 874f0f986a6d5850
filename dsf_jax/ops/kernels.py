"""Kernels of sparse products on a CPU: by rows, and by groups of nodes that are twins.

Rows i and j of a symmetric matrix M are twins if they are proportional off the
diagonal: nodes with the same neighbours, for every normalisation of a graph. With s_i
the length of such a row and R the N x G matrix of the groups of twins, R_{i g} = s_i,

    M = diag(c) + R B Rᵀ        B: G x G, one row and column for each group

exactly. On Chameleon 2,277 nodes are 1,223 groups, and B has 29,104 entries where M has
65,019.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax import Array
from jaxtyping import Float, Int

CSR_COLUMNS = 8  # the native CPU kernel needs 4x longer off multiples of 8 columns
DIGITS = 12  # to which rows of length 1 must agree


class Csr(NamedTuple):
    """An M x N matrix by rows.

    Example:
      >>> matrix = Csr.from_scipy(sp.csr_array([[0.0, 2.0]]))
      >>> csr_matmul(matrix, jnp.asarray([[3.0], [4.0]])).tolist()
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


def csr_matmul(matrix: Csr, x: Float[Array, "N C"]) -> Float[Array, "M C"]:
    """Product of an M x N matrix by rows with x, on the native CPU kernel.

    The only use of JAX's sparse arrays, which are no longer developed. Neither batching
    nor differentiation keeps the native kernel: callers bring their own rules.

    Example:
      >>> one_row = Csr(jnp.asarray([2.0]), jnp.asarray([1]), jnp.asarray([0, 1]))
      >>> csr_matmul(one_row, jnp.asarray([[3.0], [4.0]])).tolist()
      [[8.0]]
    """
    from jax.experimental.sparse import BCSR

    width = x.shape[1]
    padded = jnp.pad(x, ((0, 0), (0, -width % CSR_COLUMNS)))
    values, columns, indptr = matrix
    shape = (indptr.shape[0] - 1, x.shape[0])
    product = BCSR((values.astype(x.dtype), columns, indptr), shape=shape) @ padded
    return product[:, :width]


class Twins(NamedTuple):
    """A symmetric matrix as diag(c) + R B Rᵀ.

    Example:
      >>> star = sp.csr_array([[0.0, 2.0, 4.0], [2.0, 1.0, 0.0], [4.0, 0.0, 1.0]])
      >>> twins = find_twins(star)
      >>> multiply_twins(twins, jnp.asarray([[1.0], [0.0], [1.0]])).tolist()
      [[4.0], [2.0], [5.0]]
    """

    diagonal: Float[Array, " N"]
    gather: Csr  # Rᵀ
    between: Csr  # B
    spread: Csr  # R

    @property
    def num_entries(self) -> int:
        """Numbers that a product multiplies each column with."""
        parts = (self.gather, self.between, self.spread)
        return len(self.diagonal) + sum(len(part.values) for part in parts)


def find_twins(matrix: sp.csr_array) -> Twins:
    """Groups of proportional rows of a symmetric matrix, on the host.

    A node without a twin is a group of its own.

    Example:
      >>> path = sp.csr_array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
      >>> len(find_twins(path).between.values)  # between the ends and the middle
      2
    """
    diagonal = matrix.diagonal()
    off = sp.csr_array(matrix - sp.diags_array(diagonal))
    off.eliminate_zeros()
    off.sort_indices()
    lengths = np.sqrt(off.power(2).sum(axis=1))
    lengths[lengths == 0] = 1.0
    groups = _number_equal_rows(sp.csr_array(sp.diags_array(1 / lengths) @ off))
    first = np.unique(groups, return_index=True)[1]  # one node of each group
    scale = sp.diags_array(1 / lengths[first])
    spread = sp.csr_array((lengths, (np.arange(len(groups)), groups)))
    return Twins(
        diagonal=jnp.asarray(diagonal),
        gather=Csr.from_scipy(spread.T),
        between=Csr.from_scipy(scale @ off[first][:, first] @ scale),
        spread=Csr.from_scipy(spread),
    )


def _number_equal_rows(matrix: sp.csr_array) -> Int[np.ndarray, " N"]:
    values = matrix.data.round(DIGITS)
    seen: dict[tuple[bytes, bytes], int] = {}
    numbers = np.empty(matrix.shape[0], dtype=int)
    for i, (start, end) in enumerate(
        zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    ):
        row = matrix.indices[start:end].tobytes(), values[start:end].tobytes()
        numbers[i] = seen.setdefault(row, len(seen))
    return numbers


def multiply_twins(twins: Twins, x: Float[Array, "N C"]) -> Float[Array, "N C"]:
    """Product with the matrix: sums of twins, between groups, back to the nodes.

    Example:
      >>> multiply_twins(find_twins(sp.eye_array(2).tocsr()), jnp.ones((2, 1))).tolist()
      [[1.0], [1.0]]
    """
    sums = csr_matmul(twins.between, csr_matmul(twins.gather, x))
    own = twins.diagonal.astype(x.dtype)[:, None] * x
    return csr_matmul(twins.spread, sums) + own
