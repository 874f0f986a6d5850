"""propagate: every kernel under every transformation equals op_dense @ x."""

import inspect
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from jax.extend.core import jaxprs_in_params

from dsf_jax import Graph
from dsf_jax.ops import Operator, a_hat, a_tilde, l_hat, propagate
from dsf_jax.ops import operator as sparse_module
from dsf_jax.ops.operator import has_slow_scatter, resolve_kernel
from tests.graphs import GRAPHS

KERNELS = ("segment", "csr", "twins", "dense")


@pytest.fixture(params=KERNELS)
def kernel(request):
    return request.param


@pytest.fixture(params=[jnp.float32, jnp.float64], ids=["float32", "float64"])
def tolerance(request):
    """Dtype under test and the error it allows."""
    return request.param, {jnp.float32: 1e-5, jnp.float64: 1e-12}[request.param]


def signal(rng, shape, dtype=jnp.float64):
    return jnp.asarray(rng.normal(size=shape), dtype=dtype)


jitted_propagate = jax.jit(propagate)


def test_product_equals_dense(graph, kernel, tolerance, rng):
    dtype, atol = tolerance
    for build in (a_hat, a_tilde, l_hat) if dtype == jnp.float64 else (a_tilde,):
        op = build(graph, kernel=kernel)
        x = signal(rng, (graph.num_nodes, 5), dtype)
        y = jitted_propagate(op, x)
        assert y.dtype == dtype
        np.testing.assert_allclose(y, op.to_dense() @ np.asarray(x), atol=atol)


@pytest.mark.parametrize("columns", [0, 1, 7, 8, 9, 64])
def test_any_number_of_columns(columns, kernel, rng):
    op = a_tilde(GRAPHS["random"], kernel=kernel)
    x = signal(rng, (20, columns))
    found = jitted_propagate(op, x)
    np.testing.assert_allclose(found, op.to_dense() @ np.asarray(x), atol=1e-12)


@pytest.mark.parametrize("name", ["isolated", "edgeless"])
def test_vmap_and_nested_vmap(name, kernel, tolerance, rng):
    graph = GRAPHS[name]
    dtype, atol = tolerance
    op = a_tilde(graph, kernel=kernel)
    x = signal(rng, (2, 3, graph.num_nodes, 4), dtype)
    expected = op.to_dense() @ np.asarray(x)

    def over(axis):
        return jax.vmap(propagate, in_axes=(None, axis), out_axes=axis)

    @jax.jit
    def both(op, x):
        columns_first = jnp.moveaxis(x[0], 0, 2)  # batch in the last axis
        nested = jax.vmap(over(0), in_axes=(None, 0))
        return nested(op, x), over(2)(op, columns_first)

    twice, last = both(op, x)
    np.testing.assert_allclose(twice, expected, atol=atol)
    np.testing.assert_allclose(last, np.moveaxis(expected[0], 0, 2), atol=atol)


@pytest.mark.parametrize("name", ["isolated", "edgeless"])
def test_gradients_to_second_order(name, kernel, tolerance, rng):
    graph = GRAPHS[name]
    dtype, atol = tolerance
    op = a_hat(graph, kernel=kernel)
    dense = jnp.asarray(op.to_dense(), dtype)
    x = signal(rng, (graph.num_nodes, 3), dtype)
    v = signal(rng, (graph.num_nodes, 3), dtype)

    batch = signal(rng, (4, graph.num_nodes, 3), dtype)

    @partial(jax.jit, static_argnums=0)
    def gradients(product):
        def loss(x):
            return jnp.sum(jnp.tanh(product(x)) ** 2 * v)

        first = jax.grad(loss)
        second = jax.grad(lambda x: jnp.sum(first(x) * v))
        remat = jax.grad(jax.checkpoint(loss))
        return first(x), second(x), remat(x), jax.vmap(first)(batch)

    ours = gradients(lambda x: propagate(op, x))
    for found, expected, factor in zip(
        ours, gradients(lambda x: dense @ x), (1, 10, 1, 1), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=factor * atol)


def products_in(jaxpr):
    """Names and widths of the products in a program, sub-programs included."""
    found = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "bcsr_dot_general":
            found.append(("csr", eqn.outvars[0].aval.shape))
        if eqn.primitive.name == "scatter-add":
            found.append(("segment", eqn.outvars[0].aval.shape))
        if eqn.primitive.name == "dot_general":
            found.append(("dense", eqn.outvars[0].aval.shape))
        for sub in jaxprs_in_params(eqn.params):
            found += products_in(sub)
    return found


def wide_products(op, columns):
    """What one product should be: a single call, or three with groups of twins."""
    if op.kernel != "twins":
        return [(op.kernel, (op.num_nodes, columns))]
    num_groups = op.twins.between.indptr.shape[0] - 1
    return [("csr", (rows, columns)) for rows in (num_groups, num_groups, op.num_nodes)]


def test_a_vmapped_call_is_one_wide_product(kernel):
    graph = GRAPHS["random"]
    op = a_hat(graph, kernel=kernel)
    batch = jnp.ones((2, 5, graph.num_nodes, 4))
    jaxpr = jax.make_jaxpr(jax.vmap(jax.vmap(lambda x: propagate(op, x))))(batch)
    assert products_in(jaxpr.jaxpr) == wide_products(op, 2 * 5 * 4)


def test_a_vmapped_gradient_is_two_wide_products(kernel):
    graph = GRAPHS["random"]
    op = a_hat(graph, kernel=kernel)
    batch = jnp.ones((4, graph.num_nodes, 2))

    def loss(x):
        return jnp.sum(propagate(op, x) ** 2)

    jaxpr = jax.make_jaxpr(jax.vmap(jax.value_and_grad(loss)))(batch)
    assert products_in(jaxpr.jaxpr) == wide_products(op, 8) * 2


def test_batched_operators_work_one_by_one(kernel, rng):
    stars = [(0, i) for i in range(1, 7)], [(i, 6) for i in range(6)]
    graphs = [Graph.from_edges(edges, num_nodes=7) for edges in stars]
    ops = [a_hat(g, kernel=kernel) for g in graphs]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *ops)
    x = rng.normal(size=(2, 7, 3))
    both = jax.jit(jax.vmap(propagate))(stacked, x)
    shared = jax.jit(jax.vmap(propagate, in_axes=(0, None)))(stacked, x[0])
    for i, op in enumerate(ops):
        np.testing.assert_allclose(both[i], op.to_dense() @ x[i], atol=1e-12)
        np.testing.assert_allclose(shared[i], op.to_dense() @ x[0], atol=1e-12)


def test_forward_mode_raises(kernel):
    op = a_hat(GRAPHS["path"], kernel=kernel)
    x = jnp.ones((7, 1))
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(lambda x: propagate(op, x), (x,), (x,))
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jacfwd(lambda x: propagate(op, x))(x)


def test_operator_is_constant_under_differentiation():
    op = a_hat(GRAPHS["path"])
    gradient = jax.grad(
        lambda weights: propagate(op.replace(weights=weights), jnp.ones((7, 2))).sum()
    )(op.weights)
    assert not np.any(gradient)


def test_relabelled_nodes_permute_the_product(graph, rng):
    permutation = rng.permutation(graph.num_nodes)
    relabelled = Graph.from_scipy(graph.to_scipy()[permutation][:, permutation])
    x = rng.normal(size=(graph.num_nodes, 2))
    np.testing.assert_allclose(
        jitted_propagate(a_tilde(relabelled), x[permutation]),
        jitted_propagate(a_tilde(graph), x)[permutation],
        atol=1e-14,
    )


@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        (jnp.ones((7, 2), dtype=jnp.int32), TypeError, ["x", "int32", "astype"]),
        (jnp.ones((6, 2)), ValueError, ["x", "[7, C]", "[6, 2]"]),
        (jnp.ones(7), ValueError, ["x", "[7, C]", "[7]", "x[:, None]"]),
    ],
)
def test_propagate_explains_bad_signals(x, error, words):
    with pytest.raises(error) as caught:
        sparse_module.propagate.__wrapped__(a_hat(GRAPHS["path"]), x)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (sp.csr_array([[0.0, 1.0], [0.5, 0.0]]), ["symmetric", "0.5"]),
        (sp.csr_array((2, 3)), ["square", "(2, 3)"]),
        (sp.csr_array((0, 0)), ["at least one row"]),
        (sp.csr_array([[np.nan]]), ["finite", "nan"]),
    ],
)
def test_operator_explains_bad_matrices(matrix, words):
    with pytest.raises(ValueError, match="matrix must be") as caught:
        Operator.from_scipy(matrix)
    for word in words:
        assert word in str(caught.value)


def choose(kernel, num_nodes, num_entries):
    return inspect.unwrap(resolve_kernel)(
        kernel, num_nodes=num_nodes, num_entries=num_entries
    )


def test_kernel_choice(monkeypatch):
    assert choose("auto", 2277, 65_019) == "csr"
    assert choose("auto", 100, 9_000) == "dense"
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    assert choose("auto", 2277, 65_019) == "dense"
    assert choose("auto", 20_000, 90_000) == "segment"


def test_slow_scatter_versions_avoid_scatters_or_warn(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(sparse_module, "_JAXLIB", "0.11.0")
    assert choose("auto", 10_000, 90_000) == "dense"
    with pytest.warns(UserWarning, match="openxla issue 46225"):
        assert choose("auto", 20_000, 90_000) == "segment"
    assert not has_slow_scatter("gpu", "0.11.1")
    assert not has_slow_scatter("tpu", "0.11.0")


def test_unknown_kernel_is_refused():
    names = "segment, csr, twins, dense or auto, got 'fast'"
    with pytest.raises(ValueError, match=names):
        choose("fast", 4, 4)
