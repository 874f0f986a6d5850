"""Bases and filters against the dense eigendecomposition."""

import math

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from jax.extend.core import jaxprs_in_params
from jax.test_util import check_grads
from numpy.polynomial import chebyshev as np_chebyshev
from numpy.polynomial import legendre as np_legendre
from scipy import sparse as sp
from scipy import special

from dsf_jax import Basis, Graph, polynomial_basis
from dsf_jax.bases import (
    bernstein,
    chebyshev,
    evaluate_basis,
    jacobi,
    legendre,
    monomial,
)
from dsf_jax.filters import (
    basis_terms,
    cumulative_weights,
    diverse_filter,
    diverse_recurrence_filter,
    local_frequency_filter,
    response,
    shared_filter,
)
from dsf_jax.ops import Recurrence, a_hat, a_tilde
from tests import reference
from tests.graphs import GRAPHS, random_edges
from tests.test_sparse import products_in

ORDERS = (0, 1, 2, 5, 10, 20)


def _each_order(fn):
    return lambda lam, order: np.stack([fn(k, order, lam) for k in range(order + 1)])


def _bernstein(k, order, lam):
    return math.comb(order, k) * lam**k * (2 - lam) ** (order - k) / 2**order


# basis -> (ours, its values from NumPy or scipy)
BASES = {
    "monomial": (monomial, _each_order(lambda k, _, lam: (1 - lam) ** k)),
    "chebyshev": (
        chebyshev,
        _each_order(lambda k, _, lam: np_chebyshev.chebval(lam - 1, np.eye(k + 1)[k])),
    ),
    "legendre": (
        legendre,
        _each_order(lambda k, _, lam: np_legendre.legval(lam - 1, np.eye(k + 1)[k])),
    ),
    "bernstein": (bernstein, _each_order(_bernstein)),
} | {
    f"jacobi({a}, {b})": (
        jacobi(a, b),
        _each_order(lambda k, _, lam, a=a, b=b: special.eval_jacobi(k, a, b, 1 - lam)),
    )
    for a, b in [(0.0, 0.0), (0.2, 0.5), (2.0, -0.25), (-0.5, 0.75), (-0.5, -0.5)]
}


@pytest.fixture(params=BASES)
def basis_and_values(request):
    return BASES[request.param]


@pytest.mark.parametrize("order", ORDERS)
def test_terms_equal_the_eigendecomposition(basis_and_values, order, rng):
    """On all graphs at once, side by side in one: each has its own decomposition."""
    basis, values = basis_and_values
    side_by_side = Graph.from_scipy(
        sp.block_diag([graph.to_scipy() for graph in GRAPHS.values()])
    )
    x = jnp.asarray(rng.normal(size=(side_by_side.num_nodes, 3)))
    terms = np.asarray(basis_terms(a_hat(side_by_side), x, basis, order))
    start = 0
    for graph in GRAPHS.values():
        rows = slice(start, start + graph.num_nodes)
        expected = reference.spectral_terms(
            lambda lam: values(lam, order),
            reference.a_hat(graph.to_scipy().toarray()),
            np.asarray(x)[rows],
        )
        np.testing.assert_allclose(terms[:, rows], expected, atol=1e-9, rtol=1e-9)
        start = rows.stop


@pytest.mark.parametrize("name", ["monomial", "bernstein"])
def test_each_graph_alone(graph, name, rng):
    basis, values = BASES[name]
    x = jnp.asarray(rng.normal(size=(graph.num_nodes, 3)))
    expected = reference.spectral_terms(
        lambda lam: values(lam, 4), a_tilde(graph).to_dense(), np.asarray(x)
    )
    np.testing.assert_allclose(
        basis_terms(a_tilde(graph), x, basis, 4), expected, atol=1e-12
    )


@pytest.mark.parametrize(("order", "tolerance"), [(10, 2e-6), (30, 1e-5)])
def test_bernstein_in_float32(order, tolerance, rng):
    graph = Graph.from_edges(random_edges(200, 700, seed=5), num_nodes=200)
    op = a_hat(graph)
    x = rng.normal(size=(200, 4))
    beta = rng.uniform(size=(order + 1, 200))
    values = BASES["bernstein"][1]
    terms = reference.spectral_terms(lambda lam: values(lam, order), op.to_dense(), x)
    expected = np.sum(beta[:, :, None] * terms, axis=0)
    result = diverse_filter(
        op, jnp.asarray(x, jnp.float32), jnp.asarray(beta, jnp.float32), bernstein
    )
    assert result.dtype == jnp.float32
    error = np.abs(np.asarray(result) - expected).max() / np.abs(expected).max()
    assert error < tolerance


@pytest.mark.parametrize(("order", "channels"), [(0, 1), (1, 6), (30, 1), (30, 6)])
def test_filters_are_weighted_sums_of_terms(basis_and_values, order, channels, rng):
    basis, values = basis_and_values
    graph = GRAPHS["isolated"]
    op = a_tilde(graph)
    x = jnp.asarray(rng.normal(size=(graph.num_nodes, channels)))
    alpha = jnp.asarray(rng.normal(size=order + 1))
    per_channel = jnp.asarray(rng.normal(size=(order + 1, channels)))
    beta = jnp.asarray(rng.normal(size=(order + 1, graph.num_nodes)))
    terms = reference.spectral_terms(
        lambda lam: values(lam, order), op.to_dense(), np.asarray(x)
    )
    atol = 1e-9 * max(1, np.abs(terms).max())
    for result, subscripts, weights in [
        (shared_filter(op, x, alpha, basis), "k,knc->nc", alpha),
        (shared_filter(op, x, per_channel, basis), "kc,knc->nc", per_channel),
        (diverse_filter(op, x, beta, basis), "kn,knc->nc", beta),
    ]:
        expected = np.einsum(subscripts, weights, terms)
        np.testing.assert_allclose(result, expected, atol=atol)


def test_equal_nodes_give_the_shared_filter(basis_and_values, rng):
    basis, _ = basis_and_values
    graph = GRAPHS["isolated"]
    x = jnp.asarray(rng.normal(size=(graph.num_nodes, 2)))
    alpha = jnp.asarray(rng.normal(size=6))
    theta = jnp.ones((6, graph.num_nodes))
    np.testing.assert_allclose(
        diverse_filter(a_hat(graph), x, alpha[:, None] * theta, basis),
        shared_filter(a_hat(graph), x, alpha, basis),
        atol=1e-12,
    )


@pytest.mark.parametrize("order", ORDERS)
def test_bernstein_terms_sum_to_the_identity(order, rng):
    graph = GRAPHS["isolated"]
    x = jnp.asarray(rng.normal(size=(graph.num_nodes, 2)))
    ones = jnp.ones(order + 1)
    np.testing.assert_allclose(
        shared_filter(a_hat(graph), x, ones, bernstein), x, atol=1e-12
    )


@pytest.mark.parametrize("basis", [bernstein, chebyshev, monomial, jacobi(0.2, 0.5)])
def test_filters_cost_one_product_per_order(basis):
    op = a_hat(GRAPHS["random"], kernel="csr")
    x, beta = jnp.ones((20, 8)), jnp.ones((11, 20))

    def loss(x, beta):
        return diverse_filter(op, x, beta, basis).sum()

    def count(jaxpr, times=1):
        total = 0
        for eqn in jaxpr.eqns:
            length = eqn.params["length"] if eqn.primitive.name == "scan" else 1
            total += times * (eqn.primitive.name == "bcsr_dot_general")
            for sub in jaxprs_in_params(eqn.params):
                total += count(sub, times * length)
        return total

    forward = jax.make_jaxpr(loss)(x, beta)
    assert count(forward.jaxpr) == 10
    # the gradient of the recurrence coefficients is dead code that jit removes
    backward = jax.jit(jax.grad(loss, argnums=(0, 1))).trace(x, beta).jaxpr
    live, _ = jax.interpreters.partial_eval.dce_jaxpr(backward.jaxpr, [True, True])
    assert count(live) == 20


@settings(deadline=None, max_examples=12)
@given(
    xi=st.floats(0.05, 1.0),
    name=st.sampled_from(sorted(BASES)),
    seed=st.integers(0, 2**16),
)
def test_proposition_1(xi, name, seed):
    """f(ξλ) is a polynomial in λ with other weights on the same basis, at every λ."""
    basis, _ = BASES[name]
    order = 6
    alpha = jnp.asarray(np.random.default_rng(seed).normal(size=order + 1))
    nodes = jnp.linspace(0.0, 2.0, order + 1)
    grid = jnp.linspace(0.0, 2.0, 41)
    beta = jnp.linalg.solve(
        evaluate_basis(basis, nodes, order).T, response(alpha, xi * nodes, basis)
    )
    np.testing.assert_allclose(
        response(beta, grid, basis), response(alpha, xi * grid, basis), atol=1e-7
    )


@pytest.mark.parametrize("name", ["monomial", "bernstein", "jacobi(0.2, 0.5)"])
def test_local_frequencies_that_scale_are_a_diverse_filter(name, rng):
    """Eq. 3 with λ_{n,i} = ξ_i λ_n is the diverse filter of Prop. 1; ξ = 1 is Eq. 2."""
    basis, _ = BASES[name]
    op = a_hat(GRAPHS["isolated"])
    eigvals, eigvecs = map(jnp.asarray, np.linalg.eigh(np.eye(13) - op.to_dense()))
    x, alpha = jnp.asarray(rng.normal(size=(13, 2))), jnp.asarray(rng.normal(size=5))
    nodes = jnp.linspace(0.0, 2.0, 5)
    for xi in (jnp.asarray(rng.uniform(0.2, 1, size=13)), jnp.ones(13)):
        local = xi[None, :] * eigvals[:, None]
        expected = local_frequency_filter(eigvecs, local, x, alpha, basis)
        rescaled = jax.vmap(lambda xi: response(alpha, xi * nodes, basis))(xi)
        beta = jnp.linalg.solve(evaluate_basis(basis, nodes, 4).T, rescaled.T)
        np.testing.assert_allclose(
            diverse_filter(op, x, beta, basis), expected, atol=1e-8
        )
    shared = shared_filter(op, x, alpha, basis)
    np.testing.assert_allclose(expected, shared, atol=1e-9)


def test_relabelled_nodes_permute_the_output(basis_and_values, rng):
    basis, _ = basis_and_values
    graph = GRAPHS["weighted"]
    permutation = rng.permutation(graph.num_nodes)
    relabelled = Graph.from_scipy(graph.to_scipy()[permutation][:, permutation])
    x = jnp.asarray(rng.normal(size=(graph.num_nodes, 2)))
    beta = jnp.asarray(rng.normal(size=(5, graph.num_nodes)))
    np.testing.assert_allclose(
        diverse_filter(a_hat(relabelled), x[permutation], beta[:, permutation], basis),
        diverse_filter(a_hat(graph), x, beta, basis)[permutation],
        atol=1e-12,
    )


@settings(deadline=None, max_examples=12)
@given(
    edges=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20),
    name=st.sampled_from(sorted(BASES)),
    order=st.integers(0, 12),
    seed=st.integers(0, 2**16),
)
def test_random_graphs(edges, name, order, seed):
    basis, values = BASES[name]
    rng = np.random.default_rng(seed)
    x, beta = rng.normal(size=(8, 2)), rng.normal(size=(order + 1, 8))
    a_dense = reference.a_hat(reference.adjacency(edges, 8))
    terms = reference.spectral_terms(lambda lam: values(lam, order), a_dense, x)
    graph = Graph.from_edges(edges, num_nodes=8)
    np.testing.assert_allclose(
        diverse_filter(a_hat(graph), jnp.asarray(x), jnp.asarray(beta), basis),
        np.einsum("kn,knc->nc", beta, terms),
        atol=1e-9 * max(1, np.abs(terms).max()),
    )


def test_response_is_what_the_filter_does_to_an_eigenvector(basis_and_values, rng):
    basis, values = basis_and_values
    op = a_hat(GRAPHS["random"])
    beta = jnp.asarray(rng.normal(size=(6, 20)))
    eigvals, eigvecs = np.linalg.eigh(np.eye(20) - op.to_dense())
    curves = response(beta, jnp.asarray(eigvals), basis)
    assert curves.shape == (20, 20)
    for n in (0, 7, 19):
        filtered = diverse_filter(op, jnp.asarray(eigvecs[:, [n]]), beta, basis)
        expected = curves[:, n] * eigvecs[:, n]
        np.testing.assert_allclose(filtered[:, 0], expected, atol=1e-10)
    shared = response(beta[:, 3], jnp.asarray(eigvals), basis)
    np.testing.assert_allclose(shared, curves[3], atol=1e-12)
    np.testing.assert_allclose(
        evaluate_basis(basis, jnp.asarray(eigvals), 5), values(eigvals, 5), atol=1e-9
    )


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (0.2, 0.5), (2.0, -0.25)])
@pytest.mark.parametrize("order", [0, 1, 2, 8])
def test_factors_inside_the_recurrence(a, b, order, rng):
    graph = GRAPHS["isolated"]
    op = a_hat(graph)
    x = rng.normal(size=(graph.num_nodes, 2))
    gamma = rng.normal(size=order + 1)
    rho = rng.uniform(-1, 1, size=(order, graph.num_nodes))
    result = diverse_recurrence_filter(
        op, jnp.asarray(x), jnp.asarray(gamma), jnp.asarray(rho), jacobi(a, b)
    )
    expected = reference.jacobi_inside(op.to_dense(), x, gamma, rho, a, b)
    np.testing.assert_allclose(result, expected, atol=1e-10)


def test_factors_equal_at_all_nodes_may_stand_outside(rng):
    graph = GRAPHS["isolated"]
    basis = jacobi(0.2, 0.5)
    x = jnp.asarray(rng.normal(size=(graph.num_nodes, 3)))
    gamma = jnp.asarray(rng.normal(size=6))
    rho = jnp.tile(jnp.asarray(rng.normal(size=(5, 1))), (1, graph.num_nodes))
    np.testing.assert_allclose(
        diverse_recurrence_filter(a_hat(graph), x, gamma, rho, basis),
        diverse_filter(a_hat(graph), x, cumulative_weights(gamma, rho), basis),
        atol=1e-10,
    )
    per_channel = jnp.tile(gamma[:, None], (1, 3))
    np.testing.assert_allclose(
        diverse_recurrence_filter(a_hat(graph), x, per_channel, rho, basis),
        diverse_recurrence_filter(a_hat(graph), x, gamma, rho, basis),
        atol=1e-12,
    )


def test_factors_inside_need_a_recurrence_of_their_own():
    op = a_hat(GRAPHS["path"])
    with pytest.raises(ValueError, match="use diverse_filter with cumulative_weights"):
        diverse_recurrence_filter(
            op, jnp.ones((7, 1)), jnp.ones(3), jnp.ones((2, 7)), bernstein
        )


def test_users_add_a_basis_by_recurrence_or_by_values(rng):
    """Gegenbauer polynomials C_k with parameter 1.5, two ways, against scipy."""

    def gegenbauer(order):
        k = np.arange(1, order + 1)
        slope = -2 * (k + 0.5) / k
        return Recurrence(slope, np.zeros(order), (k + 1) / k)

    values = _each_order(lambda k, _, lam: special.eval_gegenbauer(k, 1.5, lam - 1))
    op = a_hat(GRAPHS["isolated"])
    x = jnp.asarray(rng.normal(size=(13, 2)))
    expected = reference.spectral_terms(
        lambda lam: values(lam, 8), op.to_dense(), np.asarray(x)
    )
    for basis in (Basis(gegenbauer), polynomial_basis(values)):
        np.testing.assert_allclose(basis_terms(op, x, basis, 8), expected, atol=1e-9)


def test_values_of_the_wrong_shape_are_refused():
    basis = polynomial_basis(lambda lam, order: [lam])
    with pytest.raises(ValueError, match=r"shape \[4, 4\] for K = 3.*got \[1, 4\]"):
        basis.matrix(3)


def test_jacobi_outside_its_domain_is_refused():
    with pytest.raises(ValueError, match=r"a \+ b must be greater than -2, got a = -1"):
        jacobi(-1.0, -1.0)


def dense_loss(basis, a_dense, x, beta):
    """The filter on a dense matrix, for automatic differentiation."""
    recurrence = basis.recurrence(beta.shape[0] - 1)
    terms = [x]
    for k in range(beta.shape[0] - 1):
        slope, shift, back = (jnp.asarray(c)[k] for c in recurrence)
        before = terms[-2] if k else jnp.zeros_like(x)
        terms.append(slope * (a_dense @ terms[-1]) + shift * terms[-1] - back * before)
    weights = jnp.asarray(basis.matrix(beta.shape[0] - 1)).T @ beta
    filtered = sum(w[:, None] * t for w, t in zip(weights, terms, strict=True))
    return jnp.sum(jnp.sin(filtered))


@pytest.mark.parametrize(
    ("basis", "order"),
    [(monomial, 0), (monomial, 1), (bernstein, 6), (jacobi(0.2, 0.5), 6)],
)
def test_gradients_to_second_order(basis, order, rng):
    op = a_hat(GRAPHS["isolated"])
    a_dense = jnp.asarray(op.to_dense())
    x = jnp.asarray(rng.normal(size=(13, 2)))
    beta = jnp.asarray(rng.normal(size=(order + 1, 13)))
    v = jnp.asarray(rng.normal(size=(13, 2)))

    def ours(x, beta):
        return jnp.sum(jnp.sin(diverse_filter(op, x, beta, basis)))

    def theirs(x, beta):
        return dense_loss(basis, a_dense, x, beta)

    def twice(loss):
        first = jax.grad(loss)
        along = jax.grad(lambda x, beta: jnp.sum(first(x, beta) * v), argnums=(0, 1))
        return jax.jit(along)

    def once(loss):
        return jax.jit(jax.grad(loss, argnums=(0, 1)))

    for transform in (once, twice):
        expected = transform(theirs)(x, beta)
        for left, right in zip(transform(ours)(x, beta), expected, strict=True):
            atol = 1e-9 * max(1, np.abs(right).max())
            np.testing.assert_allclose(left, right, atol=atol)


def test_gradient_of_recurrence_coefficients(rng):
    """Jacobi's a and b, and node factors, can be learnt."""
    graph = GRAPHS["isolated"]
    op, a_dense = a_hat(graph), jnp.asarray(a_hat(graph).to_dense())
    x = jnp.asarray(rng.normal(size=(13, 2)))
    beta = jnp.asarray(rng.normal(size=(6, 13)))
    a, b = jnp.asarray(0.2), jnp.asarray(0.5)

    def ours(a, b):
        return jnp.sum(jnp.sin(diverse_filter(op, x, beta, jacobi(a, b))))

    def theirs(a, b):
        return dense_loss(jacobi(a, b), a_dense, x, beta)

    for left, right in zip(
        jax.jit(jax.grad(ours, argnums=(0, 1)))(a, b),
        jax.jit(jax.grad(theirs, argnums=(0, 1)))(a, b),
        strict=True,
    ):
        np.testing.assert_allclose(left, right, rtol=1e-9)

    rho = jnp.asarray(rng.uniform(-1, 1, size=(5, 13)))

    @jax.jit
    def inside(rho):
        rho = jnp.asarray(rho)
        filtered = diverse_recurrence_filter(op, x, jnp.ones(6), rho, jacobi(a, b))
        return jnp.sum(jnp.sin(filtered))

    check_grads(inside, (rho,), order=2, modes=["rev"])


def test_lanes_of_every_argument_equal_a_loop(rng):
    """Lanes of signals, weights and Jacobi parameters, nested too, are a loop."""
    op = a_hat(GRAPHS["isolated"])
    x = jnp.asarray(rng.normal(size=(2, 3, 13, 2)))
    beta = jnp.asarray(rng.normal(size=(2, 3, 6, 13)))
    a = jnp.asarray(rng.uniform(0, 1, size=2))

    @jax.jit
    def value_and_gradients(x, beta, a):
        def loss(x, beta, a):
            return jnp.sum(jnp.sin(diverse_filter(op, x, beta, jacobi(a, 0.5))))

        return jax.value_and_grad(loss, argnums=(0, 1, 2))(x, beta, a)

    inner = jax.vmap(value_and_gradients, in_axes=(0, 0, None))
    together = jax.jit(jax.vmap(inner))(x, beta, a)
    outer = jax.vmap(jax.vmap(value_and_gradients), in_axes=(0, 0, None))
    shared_x = jax.vmap(value_and_gradients, in_axes=(None, None, 0))
    for i in range(2):
        for j in range(3):
            alone = value_and_gradients(x[i, j], beta[i, j], a[i])
            jax.tree.map(
                lambda all_, one, i=i, j=j: np.testing.assert_allclose(
                    all_[i, j], one, atol=1e-10
                ),
                together,
                alone,
            )
        jax.tree.map(
            lambda all_, one, i=i: np.testing.assert_allclose(all_[i], one, atol=1e-10),
            shared_x(x[0, 0], beta[0, 0], a),
            value_and_gradients(x[0, 0], beta[0, 0], a[i]),
        )
    crossed = outer(x, beta, jnp.asarray([0.1, 0.2, 0.3]))
    alone = value_and_gradients(x[1, 2], beta[1, 2], jnp.asarray(0.3))
    np.testing.assert_allclose(crossed[0][1, 2], alone[0], atol=1e-10)


def test_a_vmapped_filter_is_one_loop_of_wide_products(rng):
    op = a_hat(GRAPHS["random"], kernel="csr")
    x, beta = jnp.ones((4, 20, 2)), jnp.ones((4, 6, 20))
    lanes = jax.vmap(lambda x, beta: diverse_filter(op, x, beta, chebyshev))
    jaxpr = jax.make_jaxpr(lanes)(x, beta)
    products = [found for found in products_in(jaxpr.jaxpr) if found[0] == "csr"]
    assert products == [("csr", (20, 4 * 2))]


def test_no_retrace_for_new_jacobi_parameters():
    traces = 0
    op = a_hat(GRAPHS["path"])

    @jax.jit
    def apply(x, a, b):
        nonlocal traces
        traces += 1
        return shared_filter(op, x, jnp.ones(4), jacobi(a, b))

    for a, b in [(0.1, 0.2), (1.0, -0.5)]:
        apply(jnp.ones((7, 1)), a, b)
    assert traces == 1
