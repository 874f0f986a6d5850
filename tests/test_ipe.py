"""Iterative positional encoding against naive NumPy and plain autodiff."""

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from jax.extend.core import jaxprs_in_params

from dsf_jax import Graph
from dsf_jax.ipe import (
    Heads,
    encode,
    gradient_step,
    objective,
    orthogonality_loss,
)
from dsf_jax.ops import a_hat, a_tilde
from dsf_jax.ops import correlation as correlation_module
from dsf_jax.ops.correlation import Correlation, correlate
from tests import reference
from tests.graphs import GRAPHS, random_edges
from tests.test_sparse import products_in

GRAPH = GRAPHS["isolated"]
WIDTH = 4
ORDER = 5


def draw(rng, *shape):
    return jnp.asarray(0.5 * rng.normal(size=shape))


jitted_encode = jax.jit(encode, static_argnames="has_correlation")


def draw_heads(rng, order=ORDER):
    return Heads(w=draw(rng, order + 1, WIDTH), bias=draw(rng, order + 1))


@pytest.fixture(params=["R", "I free", "I affine", "I mean"])
def case(request, rng):
    """Correlation, settings and their naive counterparts."""
    w, bias = draw(rng, WIDTH, WIDTH), draw(rng, WIDTH)
    affine = {"w": np.asarray(w), "bias": np.asarray(bias)}
    settings = {"eta1": 0.3, "eta2": 0.6}
    match request.param:
        case "R":
            return None, {"eta1": 0.3, "eta2": 0.0}, {}
        case "I free":
            return Correlation(w), settings, {"w": np.asarray(w)}
        case "I affine":
            return Correlation(w, bias), settings, affine
        case "I mean":
            mean = settings | {"scale": 1 / GRAPH.num_nodes}
            return Correlation(w, bias), mean, affine


@pytest.mark.parametrize("order", [0, 1, ORDER])
def test_encoding_equals_naive(case, order, rng):
    correlation, settings, naive = case
    op = a_tilde(GRAPH)
    pos0, heads = draw(rng, GRAPH.num_nodes, WIDTH), draw_heads(rng, order)
    encoding = jitted_encode(op, pos0, heads, correlation, **settings)
    stack = reference.positions(
        op.to_dense(), np.asarray(pos0), order, **settings, **naive
    )
    np.testing.assert_allclose(encoding.pos, stack[-1], atol=1e-12)
    np.testing.assert_allclose(
        encoding.logits, reference.head_logits(stack, *heads), atol=1e-12
    )
    np.testing.assert_allclose(encoding.positions, stack, atol=1e-12)


def plain_positions(op, pos0, order, correlation, *, eta1, eta2=0.0, scale=1.0):
    """Eq. 6, step by step, with a dense operator."""
    stack, dense = [pos0], op.to_dense()
    for _ in range(order):
        smooth = (1 + eta2) * dense @ stack[-1]
        if correlation is not None:
            smooth = smooth - eta2 * scale * correlate(correlation, stack[-1])
        stack.append(jnp.tanh(eta1 * pos0 + (1 - eta1) * smooth))
    return jnp.stack(stack)


def plain_loss(op, correlation, heads, pos0, settings):
    """Something that depends on all outputs, by plain autodiff."""
    stack = plain_positions(op, pos0, len(heads.bias) - 1, correlation, **settings)
    logits = jnp.einsum("knd,kd->kn", stack, heads.w) + heads.bias[:, None]
    return jnp.sum(jnp.sin(logits)) + jnp.sum(stack[-1] ** 3)


def our_loss(op, correlation, heads, pos0, settings):
    encoding = encode(op, pos0, heads, correlation, **settings)
    return jnp.sum(jnp.sin(encoding.logits)) + jnp.sum(encoding.pos**3)


def assert_trees_close(ours, theirs, atol=1e-10):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=atol), ours, theirs)


@pytest.mark.parametrize("order", [0, 1, ORDER])
def test_gradient_rule_equals_plain_autodiff(case, order, rng):
    correlation, settings, _ = case
    op = a_tilde(GRAPH, kernel="csr")
    pos0, heads = draw(rng, GRAPH.num_nodes, WIDTH), draw_heads(rng, order)

    def gradients(loss):
        return jax.jit(
            jax.grad(
                lambda correlation, heads, pos0: loss(
                    op, correlation, heads, pos0, settings
                ),
                argnums=(0, 1, 2),
            )
        )(correlation, heads, pos0)

    assert_trees_close(gradients(our_loss), gradients(plain_loss))


def test_lanes_equal_a_loop(case, rng):
    """Runs with their own positions, heads, correlation and settings, side by side."""
    correlation, settings, _ = case
    op = a_tilde(GRAPH)
    lanes = 3
    pos0 = draw(rng, lanes, GRAPH.num_nodes, WIDTH)
    heads = jax.tree.map(lambda leaf: draw(rng, lanes, *leaf.shape), draw_heads(rng))
    correlation = jax.tree.map(lambda leaf: draw(rng, lanes, *leaf.shape), correlation)
    settings = {
        name: value * jnp.asarray([1.0, 0.5, 0.9]) for name, value in settings.items()
    }

    @jax.jit
    def run(correlation, heads, pos0, settings):
        return jax.value_and_grad(our_loss, argnums=(1, 2, 3))(
            op, correlation, heads, pos0, settings
        )

    together = jax.jit(jax.vmap(run))(correlation, heads, pos0, settings)
    shared_start = jax.jit(jax.vmap(run, in_axes=(0, 0, None, 0)))(
        correlation, heads, pos0[0], settings
    )
    for lane in range(lanes):

        def pick(tree, lane=lane):
            return jax.tree.map(lambda leaf: np.asarray(leaf)[lane], tree)

        alone = run(pick(correlation), pick(heads), pos0[lane], pick(settings))
        assert_trees_close(pick(together), alone)
        alone = run(pick(correlation), pick(heads), pos0[0], pick(settings))
        assert_trees_close(pick(shared_start), alone)


def test_many_gradients_of_the_same_positions_equal_a_loop(case, rng):
    """Only the cotangents have lanes, as for a Jacobian."""
    correlation, settings, _ = case
    pos0, heads = draw(rng, GRAPH.num_nodes, WIDTH), draw_heads(rng)

    op, args = a_tilde(GRAPH), (correlation, heads, pos0)

    def run(correlation, heads, pos0):
        encoding = encode(op, pos0, heads, correlation, **settings)
        return encoding.logits, encoding.pos

    @jax.jit
    def pull(*bars):
        return jax.vjp(run, *args)[1](bars)

    bars = draw(rng, 3, ORDER + 1, GRAPH.num_nodes), draw(rng, 3, *pos0.shape)
    together = jax.jit(jax.vmap(pull))(*bars)
    one_by_one = [pull(*(np.asarray(bar)[i] for bar in bars)) for i in range(3)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *one_by_one)
    assert_trees_close(together, stacked)


def test_vmapped_gradient_has_wide_products_only(rng):
    op = a_tilde(GRAPHS["random"], kernel="csr")
    pos0 = draw(rng, 6, 20, WIDTH)
    heads = draw_heads(rng)

    def loss(pos0):
        return our_loss(op, None, heads, pos0, {"eta1": 0.4})

    jaxpr = jax.make_jaxpr(jax.vmap(jax.value_and_grad(loss)))(pos0)
    products = [found for found in products_in(jaxpr.jaxpr) if found[0] == "csr"]
    # one loop forward; one back, whose last product is outside of it
    assert products == [("csr", (20, 6 * WIDTH))] * 3


@settings(deadline=None, max_examples=20)
@given(
    kappa2=st.floats(0.01, 1.0),
    excess=st.floats(0.1, 2.0),
    edges=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12),
    seed=st.integers(0, 2**16),
)
def test_equation_5_is_a_gradient_step_on_equation_4(kappa2, excess, edges, seed):
    rng = np.random.default_rng(seed)
    op = a_hat(Graph.from_edges(edges, num_nodes=6), kernel="csr")
    pos, x_pos = draw(rng, 6, 3), draw(rng, 6, 3)
    kappa1 = 2 * kappa2 + excess
    eta1 = 1 / (1 + kappa1 - 2 * kappa2)
    eta2 = 2 * kappa2 / (kappa1 - 2 * kappa2)
    slope = jax.grad(
        lambda pos: objective(op, pos, x_pos, kappa1=kappa1, kappa2=kappa2)
    )(pos)
    np.testing.assert_allclose(
        gradient_step(op, pos, x_pos, eta1=eta1, eta2=eta2),
        pos - eta1 / 2 * slope,
        atol=1e-10,
    )


def test_objective_equals_dense_formula(rng):
    op = a_hat(GRAPH)
    pos, x_pos = rng.normal(size=(13, 3)), rng.normal(size=(13, 3))
    laplacian = np.eye(13) - op.to_dense()
    expected = (
        np.linalg.norm(x_pos - pos) ** 2
        + 0.7 * np.trace(pos.T @ laplacian @ pos)
        + 0.2 * np.linalg.norm(pos.T @ pos - np.eye(3)) ** 2
    )
    ours = objective(op, jnp.asarray(pos), jnp.asarray(x_pos), kappa1=0.7, kappa2=0.2)
    np.testing.assert_allclose(ours, expected, rtol=1e-12)


def test_no_eta2_makes_i_equal_r(rng):
    op, heads = a_tilde(GRAPH), draw_heads(rng)
    pos0 = draw(rng, GRAPH.num_nodes, WIDTH)
    correlation = Correlation(draw(rng, WIDTH, WIDTH), draw(rng, WIDTH))
    assert_trees_close(
        jitted_encode(op, pos0, heads, correlation, eta1=0.3, eta2=0.0),
        jitted_encode(op, pos0, heads, eta1=0.3),
    )


def test_eta1_of_one_ignores_the_graph(case, rng):
    correlation, settings, _ = case
    pos0, heads = draw(rng, GRAPH.num_nodes, WIDTH), draw_heads(rng)
    settings = settings | {"eta1": 1.0}
    op = a_tilde(GRAPH)
    encoding = jitted_encode(op, pos0, heads, correlation, **settings)
    for pos in encoding.positions[1:]:
        np.testing.assert_allclose(pos, np.tanh(pos0), atol=1e-14)


def test_flag_skips_the_correlation(rng):
    op, heads = a_tilde(GRAPH), draw_heads(rng)
    pos0 = draw(rng, GRAPH.num_nodes, WIDTH)
    correlation = Correlation(draw(rng, WIDTH, WIDTH))
    off = {"eta1": 0.3, "eta2": 0.5, "has_correlation": False}
    plain = jitted_encode(op, pos0, heads, eta1=0.3, eta2=0.5)
    assert_trees_close(jitted_encode(op, pos0, heads, correlation, **off), plain)
    gradient = jax.grad(
        lambda correlation: jitted_encode(op, pos0, heads, correlation, **off).pos.sum()
    )(correlation)
    assert not np.any(gradient.w)


@pytest.mark.parametrize("block_rows", [1, 3, 8, 13, 50])
@pytest.mark.parametrize("has_bias", [False, True])
def test_blocks_equal_the_dense_formula(block_rows, has_bias, rng, monkeypatch):
    monkeypatch.setattr(correlation_module, "BLOCK_ROWS", block_rows)
    pos, v = draw(rng, 13, WIDTH), draw(rng, 13, WIDTH)
    bias = draw(rng, WIDTH) if has_bias else None
    correlation = Correlation(draw(rng, WIDTH, WIDTH), bias)

    def dense(correlation, pos):
        left = pos @ correlation.w
        right = pos
        if has_bias:
            left = right = left + correlation.bias[None]
        return jax.nn.sigmoid(left @ right.T) @ pos

    naive = [None if part is None else np.asarray(part) for part in correlation]
    expected = reference.correlation(np.asarray(pos), *naive) @ np.asarray(pos)
    found = jax.jit(lambda c, p: correlate(c, p))(correlation, pos)
    np.testing.assert_allclose(found, expected, atol=1e-12)

    def gradients(fn):
        slope = jax.grad(lambda c, p: jnp.sum(fn(c, p) * v), argnums=(0, 1))
        return jax.jit(slope)(correlation, pos)

    assert_trees_close(gradients(correlate), gradients(dense), atol=1e-12)


def largest_array(jaxpr):
    """Elements of the largest intermediate of a program, sub-programs included."""
    sizes = [1]
    for eqn in jaxpr.eqns:
        sizes += [int(np.prod(var.aval.shape)) for var in eqn.outvars]
        sizes += [largest_array(sub) for sub in jaxprs_in_params(eqn.params)]
    return max(sizes)


def test_no_array_of_size_n_by_n(rng):
    num_nodes = 2_000
    edges = random_edges(num_nodes, 4_000, seed=0)
    op = a_tilde(Graph.from_edges(edges, num_nodes=num_nodes), kernel="csr")
    pos0, heads = draw(rng, num_nodes, WIDTH), draw_heads(rng)
    correlation = Correlation(draw(rng, WIDTH, WIDTH), draw(rng, WIDTH))

    def loss(correlation, heads, pos0):
        settings = {"eta1": 0.3, "eta2": 0.6}
        return our_loss(op, correlation, heads, pos0, settings)

    jaxpr = jax.make_jaxpr(jax.grad(loss, argnums=(0, 1, 2)))(correlation, heads, pos0)
    assert largest_array(jaxpr.jaxpr) <= correlation_module.BLOCK_ROWS * num_nodes


@pytest.mark.parametrize("normalize", [True, False])
def test_orthogonality_loss_equals_naive(normalize, rng):
    pos = draw(rng, 13, WIDTH)
    expected = reference.orthogonality_loss(np.asarray(pos), normalize)
    for flag in (normalize, jnp.asarray(normalize)):
        np.testing.assert_allclose(
            orthogonality_loss(pos, normalize=flag), expected, rtol=1e-12
        )


def test_orthogonality_loss_of_a_constant_column_has_a_finite_gradient():
    pos = jnp.stack([jnp.ones(5), jnp.arange(5.0)], axis=1)
    for normalize in (True, False):
        gradient = jax.grad(
            lambda pos, flag=normalize: orthogonality_loss(pos, normalize=flag)
        )(pos)
        assert np.all(np.isfinite(gradient))


def test_float32_stays_float32(rng):
    op = a_tilde(GRAPH)

    def cast(tree):
        return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), tree)

    pos0, heads = cast(draw(rng, 13, WIDTH)), cast(draw_heads(rng))
    correlation = cast(Correlation(draw(rng, WIDTH, WIDTH), draw(rng, WIDTH)))
    encoding = jitted_encode(op, pos0, heads, correlation, eta1=0.3, eta2=0.2)
    assert encoding.logits.dtype == encoding.pos.dtype == jnp.float32
