"""Naive NumPy versions of the formulas, written without looking at the library."""

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
