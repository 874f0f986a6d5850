"""Weighted sums over orders against einsum: values, gradients of any order, lanes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from dsf_jax.ops.recurrence import weigh_terms

ORDERS, NODES = 4, 6


def draw(nodes, width, channels, seed=0):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(ORDERS, nodes, width))
    return weights, rng.normal(size=(ORDERS, NODES, channels))


# weights for all nodes and channels, or by node, channel, or both; many channels
SHAPES = [(1, 1, 3), (NODES, 1, 3), (1, 3, 3), (NODES, 3, 3), (NODES, 1, 20), (1, 1, 1)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sum_and_gradients_equal_einsum(shape):
    weights, terms = draw(*shape)
    direction = np.random.default_rng(1).normal(size=(NODES, shape[2]))

    @jax.jit
    def naive(weights, terms):
        full = jnp.broadcast_to(weights, terms.shape)
        return jnp.einsum("knc,knc->nc", full, terms)

    def inner(fn):
        return lambda *args: jnp.sum(fn(*args) * direction)

    found = jax.jit(weigh_terms)(weights, terms)
    np.testing.assert_allclose(found, naive(weights, terms))
    ours, expected = (
        jax.jit(jax.grad(inner(fn), argnums=(0, 1)))(weights, terms)
        for fn in (weigh_terms, naive)
    )
    for leaf, other in zip(ours, expected, strict=True):
        np.testing.assert_allclose(leaf, other, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES[:3], ids=str)
def test_gradients_to_third_order(shape):
    @jax.jit
    def curved(weights, terms):
        return jnp.sin(weigh_terms(jnp.asarray(weights), jnp.asarray(terms)))

    check_grads(curved, draw(*shape), order=3, modes=["rev"])


@pytest.mark.parametrize("in_axes", [(0, 0), (None, 0), (0, None)])
def test_lanes_equal_a_loop(in_axes):
    lanes = [draw(NODES, 1, 3, seed) for seed in range(3)]
    stacked = [
        lanes[0][i] if axis is None else np.stack([lane[i] for lane in lanes])
        for i, axis in enumerate(in_axes)
    ]

    def value(weights, terms):
        return jnp.sum(weigh_terms(weights, terms) ** 2)

    gradient = jax.grad(value, argnums=(0, 1))
    alone = jax.jit(gradient)

    def one(i):
        args = [x if a is None else x[i] for x, a in zip(stacked, in_axes, strict=True)]
        return alone(*args)

    together = jax.jit(jax.vmap(gradient, in_axes))(*stacked)
    for i in range(3):
        for leaf, other in zip(together, one(i), strict=True):
            np.testing.assert_allclose(leaf[i], other, atol=1e-12)
