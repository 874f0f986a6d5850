"""Polynomial bases P_k on the spectrum [0, 2] of a normalised Laplacian.

A basis is a three-term recurrence in op = 1 - λ, or it borrows Chebyshev's: then it is
the matrix M of its expansion P_k = Σ_j M_{kj} T_j. Either way its K + 1 terms cost K
products with a graph operator (see `dsf_jax.filters`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float
from scipy.special import binom

from dsf_jax.ops.recurrence import Recurrence


def identity_matrix(order: int) -> np.ndarray:
    """M = I: the basis is its own recurrence."""
    return np.eye(order + 1)


Scalar = int | float | Float[Array, ""]  # the latter may be traced


class Basis(NamedTuple):
    """A polynomial basis P_0..P_K on the spectrum [0, 2], for any order K.

    Args:
      recurrence: K -> the recurrence of Q_0..Q_K.
      matrix: K -> M [K1, K1] with P_k = Σ_j M_{kj} Q_j.

    Example:
      A basis of your own, Chebyshev polynomials of the second kind in λ - 1:

      >>> def second_kind(order):  # U_k = 2 (λ - 1) U_{k-1} - U_{k-2}, and op = 1 - λ
      ...     ones = np.ones(order)
      ...     return Recurrence(slope=-2 * ones, shift=0 * ones, back=ones)
      >>> evaluate_basis(Basis(second_kind), jnp.asarray([0.0, 2.0]), 2).tolist()
      [[1.0, 1.0], [-2.0, 2.0], [3.0, 3.0]]
    """

    recurrence: Callable[[int], Recurrence]
    matrix: Callable[[int], np.ndarray | Array] = identity_matrix


def polynomial_basis(
    fn: Callable[[np.ndarray, int], ArrayLike],
) -> Basis:
    """Basis from its values: any polynomials of degree at most K, on K products.

    M is the Chebyshev expansion of each P_k, interpolated at the K + 1 Chebyshev nodes
    in float64; it is exact for polynomials.

    Args:
      fn: (λ [G], K) -> P_0(λ)..P_K(λ) [K1, G], in NumPy.

    Returns:
      The basis, on Chebyshev's recurrence.

    Example:
      >>> def power_values(lam, order):
      ...     return [lam**k for k in range(order + 1)]
      >>> powers = polynomial_basis(power_values)
      >>> evaluate_basis(powers, jnp.asarray([2.0]), 2).round(5).tolist()
      [[1.0], [2.0], [4.0]]
    """

    def matrix(order: int) -> np.ndarray:
        # P(1 + cos φ) = Σ_j m_j cos(jφ) at φ = π (i + 1/2) / (K + 1): cosine transform
        angles = np.pi * (np.arange(order + 1) + 0.5) / (order + 1)
        values = np.asarray(fn(1 + np.cos(angles), order), dtype=np.float64)
        if values.shape != (order + 1, order + 1):
            raise ValueError(
                f"fn must return shape {[order + 1] * 2} for K = {order} and as many "
                f"points, got {list(values.shape)}; return one row per order."
            )
        cosines = np.cos(np.outer(angles, np.arange(order + 1)))
        norms = np.where(np.arange(order + 1) == 0, order + 1, (order + 1) / 2)
        return np.asarray(values @ cosines / norms)

    return Basis(chebyshev.recurrence, matrix)


def _monomial(order: int) -> Recurrence:
    return Recurrence(np.ones(order), np.zeros(order), np.zeros(order))


def _chebyshev(order: int) -> Recurrence:
    # T_1 = λ - 1 and T_k = 2 (λ - 1) T_{k-1} - T_{k-2}
    k = np.arange(1, order + 1)
    return Recurrence(np.where(k == 1, -1.0, -2.0), np.zeros(order), np.ones(order))


def _legendre(order: int) -> Recurrence:
    # k P_k = (2k - 1) (λ - 1) P_{k-1} - (k - 1) P_{k-2}
    k = np.arange(1, order + 1)
    return Recurrence(-(2 * k - 1) / k, np.zeros(order), (k - 1) / k)


def _bernstein_values(lam: np.ndarray, order: int) -> np.ndarray:
    k = np.arange(order + 1)[:, None]
    return np.asarray(binom(order, k) * (lam / 2) ** k * (1 - lam / 2) ** (order - k))


monomial = Basis(_monomial)
"""P_k(λ) = (1 - λ)^k, that is op^k: the basis of GPR-GNN."""

chebyshev = Basis(_chebyshev)
"""P_k(λ) = T_k(λ - 1), as in ChebNet."""

legendre = Basis(_legendre)
"""P_k(λ) = Legendre's P_k(λ - 1)."""

bernstein = polynomial_basis(_bernstein_values)
"""P_k(λ) = 2^-K binom(K, k) λ^k (2 - λ)^(K - k), as in BernNet; they sum to 1."""


def _node_matrix(order: int) -> np.ndarray:
    # x_j = cos((K - j + 1/2) π / (K + 1)), ascending; the term of T_0 counts half
    angles = np.pi * (order - np.arange(order + 1) + 0.5) / (order + 1)
    cosines = np.cos(np.outer(angles, np.arange(order + 1)))
    return 2 / (order + 1) * np.where(np.arange(order + 1) == 0, 0.5, 1.0) * cosines


chebyshev_nodes = Basis(_chebyshev, _node_matrix)
"""P_j is 1 at the Chebyshev node λ_j = 1 + x_j and 0 at the others, as in ChebNetII:
the weight of P_j is the value of the filter at λ_j, from low to high frequencies."""


def jacobi(a: Scalar, b: Scalar) -> Basis:
    """Jacobi basis P_k^{(a,b)}(1 - λ), as in JacobiConv; a and b may be traced.

        P_1 = (a + b + 2)/2 · (1 - λ) + (a - b)/2
        c_k = 2k (k + a + b)(2k + a + b - 2),  s = 2k + a + b
        P_k = [ (s - 1)(s (s - 2)(1 - λ) + a² - b²) P_{k-1}
                - 2 (k + a - 1)(k + b - 1) s P_{k-2} ] / c_k

    This is the classical recurrence (`scipy.special.eval_jacobi`). JacobiConv's code
    has the opposite sign before a² - b², which shows only for a ≠ b.

    Args:
      a: exponent at λ = 0; a + b > -2.
      b: exponent at λ = 2.

    Returns:
      The basis.

    Example:
      >>> evaluate_basis(jacobi(1.0, 0.5), jnp.asarray([0.0]), 1).tolist()
      [[1.0], [2.0]]
    """
    if isinstance(a, int | float) and isinstance(b, int | float) and not a + b > -2:
        raise ValueError(
            f"a + b must be greater than -2, got a = {a}, b = {b}; the recurrence "
            "divides by k + a + b, and the paper's base model searches a, b >= -1."
        )

    def recurrence(order: int) -> Recurrence:
        k = jnp.arange(1, order + 1, dtype=float)
        is_first = k == 1
        s = 2 * k + a + b
        # order 1 has its own formula; there c may vanish, so divide by 1 instead
        c = jnp.where(is_first, 1.0, 2 * k * (k + a + b) * (s - 2))
        slope = (s - 1) * s * (s - 2) / c
        shift = (s - 1) * (a**2 - b**2) / c
        back = 2 * (k + a - 1) * (k + b - 1) * s / c
        return Recurrence(
            slope=jnp.where(is_first, (a + b + 2) / 2, slope),
            shift=jnp.where(is_first, (a - b) / 2, shift),
            back=jnp.where(is_first, 0.0, back),
        )

    return Basis(recurrence)


def released_jacobi(a: Scalar, b: Scalar) -> Basis:
    """Jacobi basis as in JacobiConv's and the authors' code.

    The term a² - b² has the opposite sign from order 2 on. The span of the basis is the
    same; for a = b so are the polynomials.

    Example:
      >>> one = jnp.asarray([1.0])
      >>> evaluate_basis(released_jacobi(0.5, 0.5), one, 2).tolist() == (
      ...     evaluate_basis(jacobi(0.5, 0.5), one, 2).tolist()
      ... )
      True
    """

    def recurrence(order: int) -> Recurrence:
        classical = jacobi(a, b).recurrence(order)
        is_first = jnp.arange(order) == 0
        return classical._replace(
            shift=jnp.where(is_first, classical.shift, -classical.shift)
        )

    return Basis(recurrence)


def evaluate_basis(
    basis: Basis, lam: Float[Array, " G"], order: int
) -> Float[Array, "K1 G"]:
    """Values P_k(λ) of every order on a grid of frequencies.

    Example:
      >>> evaluate_basis(monomial, jnp.asarray([0.5]), 2).tolist()
      [[1.0], [0.5], [0.25]]
    """
    matrix = jnp.asarray(basis.matrix(order), dtype=lam.dtype)
    return matrix @ evaluate_recurrence(basis.recurrence(order), lam)


def evaluate_recurrence(
    recurrence: Recurrence, lam: Float[Array, " G"]
) -> Float[Array, "K1 G"]:
    """Q_k(λ) by the recurrence with the number 1 - λ in the place of op."""
    one = jnp.ones_like(lam)

    def step(carry: tuple[Array, Array], coefficient: Recurrence) -> Any:
        q, q_prev = carry
        slope, shift, back = coefficient
        q_next = (slope * (1 - lam) + shift) * q - back * q_prev
        return (q_next, q), q_next

    typed = Recurrence(*(jnp.asarray(c, dtype=lam.dtype) for c in recurrence))
    _, values = jax.lax.scan(step, (one, jnp.zeros_like(lam)), typed)
    return jnp.concatenate([one[None], values])
