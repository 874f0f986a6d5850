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


def a_plus_i(a):
    """A + I, not normalised."""
    return a + np.eye(len(a))


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


def perceptron(p, x, masks):
    """H of APPNP, GNN-LF and GNN-HF: drop, lin, ReLU, drop, lin."""
    (w1, b1), (w2, b2) = p
    return (relu((x * masks["x"]) @ w1 + b1) * masks["h"]) @ w2 + b2


def gcn(a_dense, p, x, masks):
    """Two dense matrix products."""
    (w1, b1), (w2, b2) = p
    hidden = relu(a_dense @ (x * masks["x"]) @ w1 + b1) * masks["h"]
    return a_dense @ hidden @ w2 + b2


def cheb(a_dense, p, x, masks, degree):
    """Two layers Σ_k T_k(-Â) X Θ_k + b, the polynomials as matrices."""
    laplacian = -a_dense
    polynomials = [np.eye(len(a_dense)), laplacian]
    while len(polynomials) <= degree:
        polynomials.append(2 * laplacian @ polynomials[-1] - polynomials[-2])

    def layer(x, theta, bias):
        return sum(polynomials[k] @ x @ theta[k] for k in range(degree + 1)) + bias

    hidden = relu(layer(x * masks["x"], *p[0])) * masks["h"]
    return layer(hidden, *p[1])


def appnp(a_dense, h, order, alpha):
    z = h
    for _ in range(order):
        z = (1 - alpha) * a_dense @ z + alpha * h
    return z


def gnn_lf(a_dense, h, order, alpha, mu):
    s = 1 + alpha * mu - alpha
    z = z0 = (mu * h + (1 - mu) * a_dense @ h) / s
    for _ in range(order):
        z = (1 + alpha * mu - 2 * alpha) / s * a_dense @ z + alpha * z0
    return z


def gnn_lf_closed(a_dense, h, alpha, mu):
    eye = np.eye(len(a_dense))
    left = (1 + alpha * mu - alpha) * eye + (2 * alpha - alpha * mu - 1) * a_dense
    return alpha * np.linalg.solve(left, (mu * eye + (1 - mu) * a_dense) @ h)


def gnn_hf(a_dense, h, order, alpha, beta):
    t, laplacian = 1 + alpha * beta, np.eye(len(a_dense)) - a_dense
    z = z0 = (h + beta * laplacian @ h) / t
    for _ in range(order):
        z = (alpha * beta + 1 - alpha) / t * a_dense @ z + alpha * z0
    return z


def gnn_hf_closed(a_dense, h, alpha, beta):
    eye = np.eye(len(a_dense))
    laplacian = eye - a_dense
    left = alpha * eye + (alpha * beta + 1 - alpha) * laplacian
    return alpha * np.linalg.solve(left, (eye + beta * laplacian) @ h)


def appnp_closed(a_dense, h, alpha):
    return alpha * np.linalg.solve(np.eye(len(h)) - (1 - alpha) * a_dense, h)


def edge_matrix(column, pattern):
    """A mask of edges as a matrix: edges are listed row by row."""
    out = np.zeros(pattern.shape)
    out[np.nonzero(pattern)] = column
    return out


def gat_layer(pattern, x, w, receiver, sender, bias, edge_mask):
    """Heads side by side; node by node, neighbour by neighbour."""
    heads, units = receiver.shape
    mapped = (x @ w).reshape(len(x), heads, units)
    out = np.zeros((len(x), heads, units))
    for m in range(heads):
        mask = edge_matrix(edge_mask[:, m], pattern)
        for i in range(len(x)):
            neighbours = np.flatnonzero(pattern[i])
            scores = np.array(
                [
                    receiver[m] @ mapped[i, m] + sender[m] @ mapped[j, m]
                    for j in neighbours
                ]
            )
            scores = np.where(scores > 0, scores, 0.2 * scores)
            weights = np.exp(scores - scores.max())
            weights = weights / weights.sum()
            for j, weight in zip(neighbours, weights, strict=True):
                out[i, m] += mask[i, j] * weight * mapped[j, m]
    return out.reshape(len(x), -1) + bias


def gat(pattern, p, x, masks):
    hidden = gat_layer(pattern, x * masks["x"], *p[0], masks["edge"][:, :-1])
    hidden = np.where(hidden > 0, hidden, np.expm1(hidden)) * masks["h"]
    return gat_layer(pattern, hidden, *p[1], masks["edge"][:, -1:])


def fagcn(a_dense, p, x, masks, depth, epsilon):
    """Layer by layer, edge by edge; `a_dense` has 1 / √(d_i d_j)."""
    ((w1, b1), (w2, b2)), (receiver, sender, bias) = p
    h = h0 = relu((x * masks["x"]) @ w1 + b1) * masks["h"]
    for layer in range(depth):
        mask = edge_matrix(masks["edge"][layer], a_dense)
        z = np.zeros_like(h)
        for i, j in zip(*np.nonzero(a_dense), strict=True):
            joined = np.concatenate([h[i], h[j]])
            weights = np.concatenate([receiver[layer], sender[layer]])
            gate = np.tanh(weights @ joined + bias[layer])
            z[i] += mask[i, j] * gate * a_dense[i, j] * h[j]
        h = epsilon * h0 + z
    return h @ w2 + b2


def pa_gnn(a_dense, p, gamma, local, x, embedding, masks):
    """Logits, and the offsets [K1, N]."""
    (w, b), phi, ((wa, ba), (wb, bb)) = local
    u = np.hstack([relu((x * masks["x"]) @ w + b), embedding]) * masks["pos"]
    ones = np.ones((len(phi), len(x)))
    filtered = gpr_logits(a_dense, u, phi, ones)
    delta = (relu(filtered @ wa + ba) @ wb + bb).T
    h = perceptron(p, x, masks) * masks["z"]
    terms = [np.linalg.matrix_power(a_dense, k) @ h for k in range(len(gamma))]
    z = sum((gamma[k] + delta[k])[:, None] * term for k, term in enumerate(terms))
    return z, delta


def netmf_matrix(a, window, negatives):
    """NetMF: log max(M, 1), with the pseudo-inverse of D."""
    degrees = a.sum(axis=1)
    inverse = np.diag([1 / d if d > 0 else 0.0 for d in degrees])
    walks = sum(np.linalg.matrix_power(inverse @ a, r + 1) for r in range(window))
    m = degrees.sum() / (negatives * window) * walks @ inverse
    return np.log(np.maximum(m, 1))
