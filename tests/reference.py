"""Naive NumPy versions of the formulas, written without looking at the library."""

import math

import numpy as np


def adjacency(edges, num_nodes, weights=None):
    """Dense A: symmetric, zero diagonal, the largest weight of parallel edges."""
    weights = np.ones(len(edges)) if weights is None else weights
    a = np.zeros((num_nodes, num_nodes))
    for (i, j), w in zip(edges, weights, strict=True):
        if i != j:
            a[i, j] = a[j, i] = max(a[i, j], w)
    return a


def a_hat(a):
    """D^-1/2 A D^-1/2, entry by entry."""
    degrees = a.sum(axis=1)
    out = np.zeros_like(a)
    for i, j in zip(*np.nonzero(a), strict=True):
        out[i, j] = a[i, j] / np.sqrt(degrees[i] * degrees[j])
    return out


def a_tilde(a):
    """(D + I)^-1/2 (A + I) (D + I)^-1/2."""
    return a_hat(a + np.eye(len(a)))


def spectral_terms(values, a_dense, x):
    """U P_k(Λ) Uᵀ x for every k by eigendecomposition of I - A_hat.

    `values` maps the eigenvalues [N] to P_k of them, [K1, N].
    """
    eigvals, eigvecs = np.linalg.eigh(np.eye(len(a_dense)) - a_dense)
    return np.stack([eigvecs @ np.diag(p) @ eigvecs.T @ x for p in values(eigvals)])


def jacobi_inside(a_dense, x, gamma, rho, a, b):
    """The authors' recurrence with node factors inside, correct sign, order by order.

    `rho[s - 1]` is the factor of order s.
    """
    terms = [x]
    for k in range(1, len(gamma)):
        if k == 1:
            new = (a - b) / 2 * x + (a + b + 2) / 2 * (a_dense @ x)
            terms.append(rho[0][:, None] * new)
            continue
        c = 2 * k * (k + a + b) * (2 * k + a + b - 2)
        first = (2 * k + a + b - 1) * (2 * k + a + b) * (2 * k + a + b - 2) / c
        second = (2 * k + a + b - 1) * (a**2 - b**2) / c
        third = 2 * (k + a - 1) * (k + b - 1) * (2 * k + a + b) / c
        new = first * (a_dense @ terms[-1]) + second * terms[-1]
        old = (rho[k - 1] * rho[k - 2])[:, None] * third * terms[-2]
        terms.append(rho[k - 1][:, None] * new - old)
    return sum(g * term for g, term in zip(gamma, terms, strict=True))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def correlation(pos, w, bias=None):
    """S, N x N: σ(P W Pᵀ), or σ of one affine map on both sides."""
    if bias is None:
        return sigmoid(pos @ w @ pos.T)
    mapped = pos @ w + bias
    return sigmoid(mapped @ mapped.T)


def positions(a_dense, pos0, order, eta1, eta2=0.0, scale=1.0, w=None, bias=None):
    """P^(0)..P^(K) of Eq. 6 with tanh."""
    stack = [pos0]
    for _ in range(order):
        pos = stack[-1]
        smooth = (1 + eta2) * a_dense @ pos
        if w is not None:
            smooth = smooth - eta2 * scale * correlation(pos, w, bias) @ pos
        stack.append(np.tanh(eta1 * pos0 + (1 - eta1) * smooth))
    return np.stack(stack)


def head_logits(pos_stack, w, bias):
    """t_{k,i} of Eq. 7, order by order."""
    return np.stack([p @ w[k] + bias[k] for k, p in enumerate(pos_stack)])


def orthogonality_loss(pos, normalize):
    """Eq. 8 with its transpose, or the un-normalised form, divided by the width."""
    width = pos.shape[1]
    if normalize:
        centred = pos - pos.mean(axis=0)
        unit = centred / np.linalg.norm(centred, axis=0)
        return np.linalg.norm(unit.T @ unit - np.eye(width)) ** 2 / width
    gram = pos.T @ pos
    return (
        sum(gram[i, j] ** 2 for i in range(width) for j in range(width) if i != j)
        / width
    )


def relu(x):
    return np.maximum(x, 0)


def mlp_signal(p, x, masks):
    """H of facts 1.2: drop, lin, ReLU, drop, lin, drop."""
    h = relu((x * masks["x"]) @ p["w1"] + p["b1"]) * masks["h"]
    return (h @ p["w2"] + p["b2"]) * masks["z"]


def linear_signal(p, x, masks):
    """H of JacobiConv: drop, one affine map, drop."""
    return ((x * masks["x"]) @ p["w2"] + p["b2"]) * masks["z"]


def gpr_logits(a_dense, h, gamma, theta):
    """Σ_k γ_k θ_k ⊙ Ã^k H."""
    z, power = np.zeros_like(h), h
    for k in range(len(gamma)):
        z = z + gamma[k] * theta[k][:, None] * power
        power = a_dense @ power
    return z


def bern_logits(a_dense, h, gamma, theta):
    """Σ_k 2^-K binom(K, k) ReLU(γ_k) θ_k ⊙ L^k (2I - L)^(K-k) H, by matrix powers."""
    order, eye = len(gamma) - 1, np.eye(len(a_dense))
    laplacian = eye - a_dense
    z = np.zeros_like(h)
    for k in range(order + 1):
        left = np.linalg.matrix_power(laplacian, k)
        right = np.linalg.matrix_power(2 * eye - laplacian, order - k)
        term = math.comb(order, k) / 2**order * left @ right @ h
        z = z + relu(gamma[k]) * theta[k][:, None] * term
    return z


def bernstein_values(order, lam):
    """binom(K, k) (λ/2)^k (1 - λ/2)^(K-k), one row per k."""
    half = lam / 2
    return np.asarray(
        [
            math.comb(order, k) * half**k * (1 - half) ** (order - k)
            for k in range(order + 1)
        ]
    )


def released_jacobi_terms(a_dense, h, rho, a, b):
    """X_0..X_K of facts 1.4, with the flipped sign; rho[s - 1] is ρ_s, per node."""
    terms = [h]
    for k in range(1, len(rho) + 1):
        factor = rho[k - 1][:, None]
        if k == 1:
            terms.append(factor * ((a - b) / 2 * h + (a + b + 2) / 2 * a_dense @ h))
            continue
        c = 2 * k * (k + a + b) * (2 * k + a + b - 2)
        t0 = (2 * k + a + b - 1) * (2 * k + a + b) * (2 * k + a + b - 2) / c
        t1 = (2 * k + a + b - 1) * (a**2 - b**2) / c
        t2 = 2 * (k + a - 1) * (k + b - 1) * (2 * k + a + b) / c
        new = factor * (t0 * a_dense @ terms[-1] - t1 * terms[-1])
        terms.append(new - factor * rho[k - 2][:, None] * t2 * terms[-2])
    return terms


def cross_entropy(logits, labels, mask):
    """Mean negative log-likelihood of the masked nodes."""
    total = 0.0
    for i in np.flatnonzero(mask):
        shifted = logits[i] - logits[i].max()
        total -= shifted[labels[i]] - np.log(np.exp(shifted).sum())
    return total / mask.sum()
