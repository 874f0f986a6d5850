"""Polynomial bases P_k and the filters on them.

Every filter of the paper is z_i = Σ_k β_{k,i} [P_k(L̂) x]_i, with β_{k,i} = α_k when all
nodes share one filter (Eq. 2). A basis is a three-term recurrence, so its K + 1 terms
cost K products. A basis without one borrows Chebyshev's: if P_k = Σ_j M_{kj} Q_j then

    z_i = Σ_j (Σ_k β_{k,i} M_{kj}) [Q_j(L̂) x]_i,

and it is the small weights that change basis, not the signals: Bernstein costs K
products too, not K + K(K+1)/2.

Functions take an operator `op` and mean L̂ = I - op: pass `a_hat(graph)` for the paper's
Laplacian, `a_tilde(graph)` for the one with self-loops. λ is an eigenvalue of I - op.
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

from dsf_jax.recurrence import Recurrence, recurrence_terms
from dsf_jax.sparse import Operator


def identity_matrix(order: int) -> np.ndarray:
    """M = I: the basis is its own recurrence."""
    return np.eye(order + 1)


Scalar = float | Float[Array, ""]  # the latter may be traced


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
      >>> mine = Basis(second_kind)
      >>> response(jnp.asarray([0.0, 0.0, 1.0]), jnp.asarray([0.0, 2.0]), mine).tolist()
      [3.0, 3.0]
    """

    recurrence: Callable[[int], Recurrence]
    matrix: Callable[[int], np.ndarray] = identity_matrix


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
      >>> weights = jnp.asarray([1.0, 0.0, 1.0])  # 1 + λ²
      >>> response(weights, jnp.asarray([0.0, 2.0]), powers).round(5).tolist()
      [1.0, 5.0]
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


def basis_terms(
    op: Operator, x: Float[Array, "N C"], basis: Basis, order: int
) -> Float[Array, "K1 N C"]:
    """All terms P_k(L̂) x, k = 0..K, with K products.

    For reading and testing; the filters below never change the basis of a signal.

    Example:
      >>> from dsf_jax import Graph, a_hat
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> basis_terms(a_hat(edge), jnp.eye(2), monomial, 3).shape
      (4, 2, 2)
    """
    matrix = jnp.asarray(basis.matrix(order), dtype=x.dtype)
    terms = recurrence_terms(op, basis.recurrence(order), x)
    return jnp.einsum("kj,jnc->knc", matrix, terms)


def shared_filter(
    op: Operator, x: Float[Array, "N C"], alpha: Float[Array, "K1 ..."], basis: Basis
) -> Float[Array, "N C"]:
    """Filter all nodes with one polynomial (Eq. 2).

        z = Σ_k α_k P_k(L̂) x

    Args:
      op: `a_hat(graph)` or `a_tilde(graph)`; L̂ = I - op.
      x: the signal.
      alpha: weight of each order, [K1], or [K1, C] for one filter per channel.
      basis: the polynomials P_k.

    Returns:
      The filtered signal.

    Example:
      >>> from dsf_jax import Graph, a_hat
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> low_pass = jnp.asarray([0.5, 0.5])  # (1 + (1 - λ)) / 2 keeps the mean
      >>> x = jnp.asarray([[1.0], [3.0]])
      >>> shared_filter(a_hat(edge), x, low_pass, monomial).tolist()
      [[2.0], [2.0]]
    """
    weights = _recurrence_weights(alpha, basis)
    terms = recurrence_terms(op, basis.recurrence(alpha.shape[0] - 1), x)
    per_channel = weights if weights.ndim == 2 else weights[:, None]
    return jnp.sum(per_channel[:, None, :] * terms, axis=0)


def diverse_filter(
    op: Operator, x: Float[Array, "N C"], beta: Float[Array, "K1 N"], basis: Basis
) -> Float[Array, "N C"]:
    """Filter each node with its own polynomial (Sec. 4.2, 4.3.1; Alg. 1, lines 8-16).

        z_i = Σ_k β_{k,i} [P_k(L̂) x]_i        (β_{k,i} = α_k gives Eq. 2)

    Args:
      op: `a_hat(graph)` or `a_tilde(graph)`; L̂ = I - op.
      x: the signal.
      beta: weight of each order and node, γ_k θ_{k,i} in the paper.
      basis: the polynomials P_k.

    Returns:
      The filtered signal.

    Example:
      >>> from dsf_jax import Graph, a_hat
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> beta = jnp.asarray([[1.0, 0.0], [0.0, 1.0]])  # node 0 keeps, node 1 receives
      >>> x = jnp.asarray([[1.0], [3.0]])
      >>> diverse_filter(a_hat(edge), x, beta, monomial).tolist()
      [[1.0], [1.0]]
    """
    weights = _recurrence_weights(beta, basis)
    terms = recurrence_terms(op, basis.recurrence(beta.shape[0] - 1), x)
    return jnp.sum(weights[:, :, None] * terms, axis=0)


def cumulative_weights(
    gamma: Float[Array, " K1"], rho: Float[Array, "K N"]
) -> Float[Array, "K1 N"]:
    """Weights of JacobiConv's decomposition, node by node (Sec. 4.2.2, App. C).

        β_{k,i} = γ_k ∏_{s=1..k} ρ_{s,i}

    Used with `diverse_filter` this is the paper's form, factors outside of P_k(L̂).

    Example:
      >>> cumulative_weights(jnp.ones(3), jnp.full((2, 1), 0.5)).tolist()
      [[1.0], [0.5], [0.25]]
    """
    products = jnp.concatenate([jnp.ones_like(rho[:1]), jnp.cumprod(rho, axis=0)])
    return gamma[:, None] * products[: gamma.shape[0]]


def diverse_recurrence_filter(
    op: Operator,
    x: Float[Array, "N C"],
    gamma: Float[Array, "K1 ..."],
    rho: Float[Array, "K N"],
    basis: Basis,
) -> Float[Array, "N C"]:
    """Filter with node factors inside the recurrence, as the authors' code does.

        X_k = ρ_k ⊙ (slope_k op + shift_k) X_{k-1} - ρ_k ρ_{k-1} ⊙ back_k X_{k-2}
        z   = Σ_k γ_k X_k,    X_0 = x

    A factor is carried on by the later products, so this is no diag(β_k) P_k(L̂) x: it
    equals `diverse_filter` with `cumulative_weights` only if each ρ_k is the same at
    all nodes.

    Args:
      op: `a_hat(graph)` or `a_tilde(graph)`.
      x: the signal.
      gamma: weight of each order, [K1], or [K1, C] for one per channel.
      rho: factors ρ_{s,i}, s = 1..K.
      basis: one that is its own recurrence (not Bernstein).

    Returns:
      The filtered signal.

    Raises:
      ValueError: if the basis borrows the recurrence of another one.

    Example:
      >>> from dsf_jax import Graph, a_hat
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> rho = jnp.asarray([[0.5, 1.0]])
      >>> x, gamma = jnp.asarray([[1.0], [3.0]]), jnp.ones(2)
      >>> diverse_recurrence_filter(a_hat(edge), x, gamma, rho, monomial).tolist()
      [[2.5], [4.0]]
    """
    if basis.matrix is not identity_matrix:
        raise ValueError(
            "basis must be its own recurrence to take factors inside it, got one with "
            "a change of basis (bernstein, or from polynomial_basis); use "
            "diverse_filter with cumulative_weights."
        )
    coefficients = basis.recurrence(rho.shape[0])
    slope, shift, back = (jnp.asarray(c, dtype=rho.dtype) for c in coefficients)
    previous = jnp.concatenate([jnp.ones_like(rho[:1]), rho])[:-1]
    per_node = Recurrence(
        slope=slope[:, None] * rho,
        shift=shift[:, None] * rho,
        back=back[:, None] * rho * previous,
    )
    terms = recurrence_terms(op, per_node, x)
    per_channel = gamma if gamma.ndim == 2 else gamma[:, None]
    return jnp.sum(per_channel[:, None, :] * terms, axis=0)


def evaluate_basis(
    basis: Basis, lam: Float[Array, " G"], order: int
) -> Float[Array, "K1 G"]:
    """Values P_k(λ) of every order on a grid of frequencies.

    Example:
      >>> evaluate_basis(monomial, jnp.asarray([0.5]), 2).tolist()
      [[1.0], [0.5], [0.25]]
    """
    matrix = jnp.asarray(basis.matrix(order), dtype=lam.dtype)
    return matrix @ _evaluate_recurrence(basis.recurrence(order), lam)


def response(
    weights: Float[Array, "K1 ..."], lam: Float[Array, " G"], basis: Basis
) -> Float[Array, "... G"]:
    """Frequency response on a grid of λ (Sec. 4.3.1).

        g_i(λ) = Σ_k β_{k,i} P_k(λ)

    Args:
      weights: alpha [K1] of a shared filter, or beta [K1, N] of a diverse one; select
        columns for some of the nodes.
      lam: frequencies, usually in [0, 2].
      basis: the polynomials P_k.

    Returns:
      One curve [G], or one per node [N, G].

    Example:
      >>> weights = jnp.asarray([0.0, 1.0])
      >>> response(weights, jnp.asarray([0.0, 1.0, 2.0]), monomial).tolist()
      [1.0, 0.0, -1.0]
    """
    order = weights.shape[0] - 1
    values = _evaluate_recurrence(basis.recurrence(order), lam)
    return jnp.einsum("k...,kg->...g", _recurrence_weights(weights, basis), values)


def _recurrence_weights(
    weights: Float[Array, "K1 ..."], basis: Basis
) -> Float[Array, "K1 ..."]:
    """Weights on Q_j for weights on P_k: Σ_k β_k M_{kj}."""
    if basis.matrix is identity_matrix:
        return weights
    matrix = jnp.asarray(basis.matrix(weights.shape[0] - 1), dtype=weights.dtype)
    return jnp.einsum("kj,k...->j...", matrix, weights)


def _evaluate_recurrence(
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
