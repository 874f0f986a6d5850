"""Filters on polynomial bases: shared, node by node, and their response.

Every filter of the paper is z_i = Σ_k β_{k,i} [P_k(L̂) x]_i, with β_{k,i} = α_k when all
nodes share one filter (Eq. 2). A basis is a three-term recurrence, so its K + 1 terms
cost K products. A basis without one borrows Chebyshev's: if P_k = Σ_j M_{kj} Q_j then

    z_i = Σ_j (Σ_k β_{k,i} M_{kj}) [Q_j(L̂) x]_i,

and it is the small weights that change basis, not the signals: Bernstein costs K
products too, not K + K(K+1)/2.

Functions take an operator `op` and mean L̂ = I - op: pass `a_hat(graph)` for the paper's
Laplacian, `a_tilde(graph)` for the one with self-loops. λ is an eigenvalue of I - op.
"""

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from dsf_jax.bases import Basis, evaluate_recurrence, identity_matrix
from dsf_jax.ops.operator import Operator, check_operator
from dsf_jax.ops.recurrence import Recurrence, recurrence_terms, weigh_terms


def basis_terms(
    op: Operator, x: Float[Array, "N C"], basis: Basis, order: int
) -> Float[Array, "K1 N C"]:
    """All terms P_k(L̂) x, k = 0..K, with K products.

    For reading and testing; the filters below never change the basis of a signal.

    Example:
      >>> from dsf_jax import Graph
      >>> from dsf_jax.bases import monomial
      >>> from dsf_jax.ops import a_hat
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
      >>> from dsf_jax import Graph
      >>> from dsf_jax.bases import monomial
      >>> from dsf_jax.ops import a_hat
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> low_pass = jnp.asarray([0.5, 0.5])  # (1 + (1 - λ)) / 2 keeps the mean
      >>> x = jnp.asarray([[1.0], [3.0]])
      >>> shared_filter(a_hat(edge), x, low_pass, monomial).tolist()
      [[2.0], [2.0]]
    """
    return diverse_filter(op, x, alpha[:, None], basis)


def diverse_filter(
    op: Operator, x: Float[Array, "N C"], beta: Float[Array, "K1 _ ..."], basis: Basis
) -> Float[Array, "N C"]:
    """Filter each node with its own polynomial (Sec. 4.2, 4.3.1; Alg. 1, lines 8-16).

        z_i = Σ_k β_{k,i} [P_k(L̂) x]_i        (β_{k,i} = α_k gives Eq. 2)

    Args:
      op: `a_hat(graph)` or `a_tilde(graph)`; L̂ = I - op.
      x: the signal.
      beta: weight of each order and node, γ_k θ_{k,i} in the paper; [K1, N], or
        [K1, N, C] if they differ by channel too; 1 in the place of N for all nodes.
      basis: the polynomials P_k.

    Returns:
      The filtered signal.

    Example:
      >>> from dsf_jax import Graph
      >>> from dsf_jax.bases import monomial
      >>> from dsf_jax.ops import a_hat
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> beta = jnp.asarray([[1.0, 0.0], [0.0, 1.0]])  # node 0 keeps, node 1 receives
      >>> x = jnp.asarray([[1.0], [3.0]])
      >>> diverse_filter(a_hat(edge), x, beta, monomial).tolist()
      [[1.0], [1.0]]
    """
    check_operator(op)
    if beta.ndim not in (2, 3) or beta.shape[1] not in (1, x.shape[0]):
        raise ValueError(
            f"beta must have shape [K + 1, {x.shape[0]}], orders first, got "
            f"{list(beta.shape)}; transpose it if nodes come first."
        )
    weights = _recurrence_weights(beta, basis)
    terms = recurrence_terms(op, basis.recurrence(beta.shape[0] - 1), x)
    return weigh_terms(weights, terms)


def cumulative_weights(
    gamma: Float[Array, "K1 ..."], rho: Float[Array, "K N"]
) -> Float[Array, "K1 N ..."]:
    """Weights of JacobiConv's decomposition, node by node (Sec. 4.2.2, App. C).

        β_{k,i} = γ_k ∏_{s=1..k} ρ_{s,i}

    Used with `diverse_filter` this is the paper's form, factors outside of P_k(L̂).
    With one γ per channel, [K1, C], so are the weights, [K1, N, C].

    Example:
      >>> cumulative_weights(jnp.ones(3), jnp.full((2, 1), 0.5)).tolist()
      [[1.0], [0.5], [0.25]]
    """
    products = jnp.concatenate([jnp.ones_like(rho[:1]), jnp.cumprod(rho, axis=0)])
    if gamma.ndim == 1:
        return gamma[:, None] * products
    return gamma[:, None, :] * products[:, :, None]


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
      >>> from dsf_jax import Graph
      >>> from dsf_jax.bases import monomial
      >>> from dsf_jax.ops import a_hat
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
    return weigh_terms(gamma[:, None], recurrence_terms(op, per_node, x))


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
      >>> from dsf_jax.bases import monomial
      >>> weights = jnp.asarray([0.0, 1.0])
      >>> response(weights, jnp.asarray([0.0, 1.0, 2.0]), monomial).tolist()
      [1.0, 0.0, -1.0]
    """
    order = weights.shape[0] - 1
    values = evaluate_recurrence(basis.recurrence(order), lam)
    return jnp.einsum("k...,kg->...g", _recurrence_weights(weights, basis), values)


def local_frequency_filter(
    eigvecs: Float[Array, "N N"],
    local_eigvals: Float[Array, "N N"],
    x: Float[Array, "N C"],
    alpha: Float[Array, " K1"],
    basis: Basis,
) -> Float[Array, "N C"]:
    """Filter with local frequencies in place of global ones (Eq. 3).

        z_i = Σ_n [ Σ_k α_k P_k(λ_{n,i}) ] s_n u_{n,i},    s = Uᵀ x

    The idea behind diverse filters, by dense eigendecomposition: a reference for small
    graphs. With λ_{n,i} = ξ_i λ_n it is a `diverse_filter` (Prop. 1), with
    λ_{n,i} = λ_n a `shared_filter`.

    Args:
      eigvecs: eigenvectors u_n of L̂ in columns, U.
      local_eigvals: λ_{n,i} of Definition 2 in row n, column i.
      x: the signal.
      alpha: weight of each order.
      basis: the polynomials P_k.

    Returns:
      The filtered signal.

    Example:
      >>> from dsf_jax.bases import monomial
      >>> flat, x = jnp.zeros((2, 2)), jnp.asarray([[1.0], [3.0]])
      >>> local_frequency_filter(jnp.eye(2), flat, x, jnp.ones(3), monomial).tolist()
      [[3.0], [9.0]]
    """
    gains = response(alpha, local_eigvals.reshape(-1), basis)
    coefficients = eigvecs.T @ x  # s_n
    return jnp.einsum(
        "ni,in,nc->ic", gains.reshape(local_eigvals.shape), eigvecs, coefficients
    )


def _recurrence_weights(
    weights: Float[Array, "K1 ..."], basis: Basis
) -> Float[Array, "K1 ..."]:
    """Weights on Q_j for weights on P_k: Σ_k β_k M_{kj}."""
    if basis.matrix is identity_matrix:
        return weights
    matrix = jnp.asarray(basis.matrix(weights.shape[0] - 1), dtype=weights.dtype)
    return jnp.einsum("kj,k...->j...", matrix, weights)
