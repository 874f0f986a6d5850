"""Eigenvectors of Â on graphs of up to millions of nodes, to a stated tolerance.

A block Lanczos process with restarts, on a polynomial of Â. Per eigenvector it needs a
small share of the products of `eigensolver`, which multiplies all columns in every
step; in return its result is as good as the tolerance, not as rounding.
"""

import math
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from dsf_jax.graph.products import RowProduct

TOLERANCE = 1e-6  # |L̂ x - μ x| as a share of the eigenvalue μ of L̂

_BLOCK = 8  # columns per step; of float64 a row is one line of the cache
_SPARE = 16  # vectors kept beyond those that are asked for
_STEPS = 14  # blocks between restarts; memory is N (count + 16 + 8 * 15) numbers
_DEGREE = 16  # of the polynomial: products then cost what keeping orthogonal does
_GROWTH = 1e4  # of the leading column by the polynomial; more would drown the others
_CHUNK = 2**14  # nodes at a time where vectors are replaced
_LOST = 1e-12  # what is left of a column that was in the space before
_ROUNDING = 1e-13  # no residual is asked to be below
_MAX_CYCLES = 60


def large_eigenpairs(
    a_hat: sp.csr_array,
    null: Float[np.ndarray, " n"],
    count: int,
    *,
    on_progress: Callable[[float], None] | None = None,
) -> tuple[Float[np.ndarray, " c"], Float[np.ndarray, "n c"]]:
    """Largest eigenvalues of M = Â - 2 u uᵀ, ascending, with their vectors.

    The process runs on T_d of M, scaled so that |T_d| <= 1 below the kept eigenvalues.
    One start block finds at most 8 copies of a repeated eigenvalue. So, when all have
    converged, a cycle with a fresh random block looks for others that were missed, and
    again until there are none.

    Args:
      a_hat: normalised adjacency of a connected component.
      null: its null vector u of L̂, of unit norm; it is moved out of the way.
      count: number of eigenpairs, well below the number of nodes.
      on_progress: called with a rough share of the work after each cycle.

    Returns:
      Eigenvalues and vectors of Â, the null vector left out, with residuals of at most
      `TOLERANCE` (1 - eigenvalue), or what sixty cycles have reached.

    Example:
      >>> ring = sp.csr_array(np.roll(np.eye(400), 1, 0) + np.roll(np.eye(400), -1, 0))
      >>> values, _ = large_eigenpairs(ring / 2, np.full(400, 400**-0.5), 2)
      >>> np.allclose(values, np.cos(2 * np.pi / 400))  # a double eigenvalue
      True
    """
    found, first = np.full(count, np.inf), 0.0
    with RowProduct(a_hat) as rows:
        space = _Space(rows, null, count + _SPARE)
        for _ in range(_MAX_CYCLES):
            space.fill()
            values, vectors, residuals = (
                part[..., -count:] for part in space.restart()
            )
            allowed = np.maximum(TOLERANCE * (1 - values), _ROUNDING)
            missing = np.log(np.maximum(residuals / allowed, 1)).sum()
            if on_progress is not None:
                first = max(first, missing)
                on_progress(1 - missing / max(first, 1.0))
            if missing > 0:
                space.tune()
                continue
            is_new = np.abs(values - found) > 10 * allowed
            if not is_new.any():
                break
            found = values
            space.refresh()
    return values, vectors


class _Space:
    """Orthonormal vectors, the polynomial p(M) between them, and the next block."""

    def __init__(
        self, rows: RowProduct, null: Float[np.ndarray, " n"], num_kept: int
    ) -> None:
        self._rows, self._null = rows, null
        self._num_kept = _BLOCK * math.ceil(num_kept / _BLOCK)
        self._size = self._num_kept + _STEPS * _BLOCK
        self._basis = np.empty((self._size + _BLOCK, len(null)))  # vectors are rows
        self._inner = np.zeros((self._size, self._size))
        self._rng = np.random.Generator(np.random.PCG64(0))
        self._degree, self._cut, self._gap = 1, -1.0, np.inf
        self._values = np.zeros(self._num_kept)
        self._used = 0
        self.refresh()

    def fill(self) -> None:
        """Steps of the process, until the space is full and one block is left over."""
        while self._used <= self._size:
            last = slice(self._used - _BLOCK, self._used)
            y = self._polynomial(np.ascontiguousarray(self._basis[last].T))
            inner = self._basis[: self._used] @ y
            self._inner[: self._used, last] = inner
            self._inner[last, : self._used] = inner.T
            self._append(y)

    def restart(
        self,
    ) -> tuple[
        Float[np.ndarray, " k"], Float[np.ndarray, "n k"], Float[np.ndarray, " k"]
    ]:
        """Keep the leading vectors; their eigenvalues of M, vectors and residuals."""
        num_kept, size = self._num_kept, self._size
        theta, rotation = np.linalg.eigh(self._inner)
        rotation = rotation[:, -num_kept:].T
        for start in range(0, self._basis.shape[1], _CHUNK):  # in place
            part = self._basis[:, start : start + _CHUNK]
            part[:num_kept] = rotation @ part[:size]
        self._inner[:num_kept, :num_kept] = np.diag(theta[-num_kept:])
        self._basis[num_kept : num_kept + _BLOCK] = self._basis[size:]
        self._used = num_kept + _BLOCK

        x = np.ascontiguousarray(self._basis[:num_kept].T)
        image = self._product(x)
        self._values, rotation = np.linalg.eigh(x.T @ image)
        x, image = x @ rotation, image @ rotation
        image -= x * self._values
        return self._values, x, np.linalg.norm(image, axis=0)

    def tune(self) -> None:
        """A new polynomial where the eigenvalues that are left are closer than before.

        The process then begins anew, from a random mixture of the kept vectors.
        """
        cut, top = self._values[0], self._values[-1]
        gap = 2 * (top - cut) / (1 + cut)
        if gap > self._gap / 2:
            return
        growth = math.acosh(_GROWTH) / math.acosh(1 + gap)
        self._degree = max(1, min(_DEGREE, int(growth)))
        self._cut, self._gap = cut, gap
        weights = self._rng.standard_normal((self._num_kept, _BLOCK))
        mixture = self._basis[: self._num_kept].T @ weights
        self._used = 0
        self._append(mixture)

    def refresh(self) -> None:
        """A random next block."""
        self._used = min(self._used, self._num_kept)
        self._append(self._rng.standard_normal((len(self._null), _BLOCK)))

    def _append(self, x: Float[np.ndarray, "n w"]) -> None:
        """Add columns, made orthonormal; twice, as once leaves rounding.

        Where the process has nothing new to add, random columns stand in.
        """
        kept, size = self._basis[: self._used], np.linalg.norm(x)
        x, r = np.linalg.qr(x - kept.T @ (kept @ x))
        is_lost = np.abs(np.diag(r)) <= _LOST * size
        x[:, is_lost] = self._rng.standard_normal((len(x), is_lost.sum()))
        x = np.linalg.qr(x - kept.T @ (kept @ x)).Q
        self._basis[self._used : self._used + _BLOCK] = x.T
        self._used += _BLOCK

    def _polynomial(self, x: Float[np.ndarray, "n w"]) -> Float[np.ndarray, "n w"]:
        """T_d of M, scaled from [-1, cut] to [-1, 1]; M itself to begin with."""
        if self._degree == 1:
            return self._product(x)
        centre, radius = (self._cut - 1) / 2, (self._cut + 1) / 2
        last, x = x, (self._product(x) - centre * x) / radius
        for _ in range(self._degree - 1):
            y = self._product(x)
            y -= centre * x
            y *= 2 / radius
            y -= last
            last, x = x, y
        return x

    def _product(self, x: Float[np.ndarray, "n w"]) -> Float[np.ndarray, "n w"]:
        result = self._rows(x)
        result -= self._null[:, None] * (2 * self._null @ x)
        return result
