"""Eigenvectors of a large sparse Â, with every copy of repeated eigenvalues.

A Lanczos solver has one start vector: `scipy.sparse.linalg.eigsh` misses copies of
repeated eigenvalues (a binary tree of 2,047 nodes is enough), and its restarts are
random. Iterating on a block of vectors misses none and always gives the same result.
"""

import math

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

_SPARE = 32  # extra columns: their eigenvalues are the gap that decides convergence
_MARGIN = 0.05  # a gap even where one eigenvalue fills all columns
_GROWTH = 1e8  # of the leading column in a round; more would drown the others
_MIN_GAP = 1e-3  # limits the degree of a round to about 430
_RESIDUAL = 1e-12
_ROUNDED = 1e-9  # enough where rounding, about 1e-16 / gap, stops the progress
_MAX_ROUNDS = 40  # the graphs of the paper need eight or fewer


def leading_eigenpairs(
    a_hat: sp.csr_array, null: Float[np.ndarray, " n"], count: int
) -> tuple[Float[np.ndarray, " c"], Float[np.ndarray, "n c"]]:
    """Largest eigenvalues of M = Â - 2 u uᵀ, ascending, with their vectors.

    Chebyshev-filtered subspace iteration: a round multiplies the columns by T_m of M,
    scaled so that |T_m| <= 1 on [-1, cut] and grows above, then solves in their span.

    Args:
      a_hat: normalised adjacency of a connected component.
      null: its null vector u of L̂, of unit norm; it is moved out of the way.
      count: number of eigenpairs, well below the number of nodes.

    Returns:
      Eigenvalues and vectors of Â, the null vector left out.

    Raises:
      RuntimeError: if the eigenvalues are too close to each other to converge.

    Example:
      >>> ring = sp.csr_array(np.roll(np.eye(200), 1, 0) + np.roll(np.eye(200), -1, 0))
      >>> values, _ = leading_eigenpairs(ring / 2, np.full(200, 200**-0.5), 2)
      >>> np.allclose(values, np.cos(2 * np.pi / 200))  # a double eigenvalue
      True
    """

    def product(x: Float[np.ndarray, "n w"]) -> Float[np.ndarray, "n w"]:
        # einsum: a threaded BLAS product costs twice the time on a busy machine
        return a_hat @ x - null[:, None] * np.einsum("n,nw->w", 2 * null, x)

    rng = np.random.Generator(np.random.PCG64(0))
    x = rng.standard_normal((len(null), count + _SPARE))
    cut, top, error = 0.0, 1.0, np.inf
    for _ in range(_MAX_ROUNDS):
        centre, radius = (cut - 1) / 2, (cut + 1) / 2
        gap = max((top - cut) / radius, _MIN_GAP)
        degree = math.ceil(math.acosh(_GROWTH) / math.acosh(1 + gap))
        last, x = x, (product(x) - centre * x) / radius
        for _ in range(degree - 1):
            last, x = x, (product(x) - centre * x) * (2 / radius) - last
        basis = np.linalg.qr(x).Q
        image = product(basis)
        values, rotation = np.linalg.eigh(basis.T @ image)
        x = basis @ rotation
        previous = error
        error = np.linalg.norm(image @ rotation - x * values, axis=0)[-count:].max()
        if error < _RESIDUAL or previous / 2 < error < _ROUNDED:
            return values[-count:], x[:, -count:]
        cut, top = values[0] - _MARGIN * (1 - values[0]), values[-1]
    raise RuntimeError(
        f"LapPE of a component of {len(null)} nodes must reach a residual of "
        f"{_ROUNDED}, got {error:.1e} after {_MAX_ROUNDS} rounds; its eigenvalues are "
        "too close to each other, so use random_walk_features."
    )
