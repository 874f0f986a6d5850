"""Sums over neighbours against dense ones: values, gradients, lanes, cost."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

from dsf_jax.ops.edge_sums import edge_sum
from dsf_jax.ops.matrix import SparseFeatures
from tests.test_sparse import products_in

NODES, UNITS = 7, 5


@pytest.fixture
def pattern():
    """Not symmetric, with an empty row and an empty column."""
    rng = np.random.default_rng(0)
    entries = rng.uniform(size=(NODES, NODES)) < 0.4
    entries[2] = entries[:, 5] = False
    return SparseFeatures.from_scipy(sp.csr_array(entries))


def draw(heads, lanes=()):
    rng = np.random.default_rng(1)
    shapes = ((NODES, heads), (NODES, heads), (NODES, heads, UNITS))
    return tuple(jnp.asarray(rng.normal(size=(*lanes, *shape))) for shape in shapes)


def ours(pattern, factors, p, q, x):
    """Weights sin(p_i + q_j), times a factor of each entry, as a caller makes them."""
    scores = p[pattern.entries.rows] + q[pattern.entries.columns]
    weights, slopes = factors * jnp.sin(scores), factors * jnp.cos(scores)
    return jnp.sum(jnp.cos(edge_sum(pattern, weights, slopes, p, q, x)))


def dense(pattern, factors, p, q, x):
    """The same by autodiff of [N, N] matrices."""
    entries = pattern.entries.rows, pattern.entries.columns
    matrix = jnp.zeros((NODES, NODES, p.shape[1])).at[entries].set(factors)
    weights = matrix * jnp.sin(p[:, None] + q[None])
    return jnp.sum(jnp.cos(jnp.einsum("ijm,jmu->imu", weights, x)))


def compare(fn, other, *args, argnums):
    jax.tree.map(
        partial(np.testing.assert_allclose, atol=1e-12),
        jax.jit(jax.value_and_grad(fn, argnums))(*args),
        jax.jit(jax.value_and_grad(other, argnums))(*args),
    )


@pytest.mark.parametrize(("heads", "block"), [(1, 2048), (3, 2048), (3, 5)])
def test_sums_and_gradients_equal_dense_ones(heads, block, pattern, monkeypatch):
    assert len(pattern.values) % 5 > 0
    monkeypatch.setattr("dsf_jax.ops.edge_sums.BLOCK", block)
    factors = jnp.asarray(
        np.random.default_rng(2).uniform(size=(len(pattern.values), 1))
    )
    compare(
        partial(ours, pattern, factors),
        partial(dense, pattern, factors),
        *draw(heads),
        argnums=(0, 1, 2),
    )


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("shared", ["nothing", "weights", "x"])
def test_lanes_equal_dense_ones(heads, shared, pattern):
    factors = jnp.ones((len(pattern.values), 1))
    p, q, x = draw(heads, lanes=(3,))
    axes = (0, 0, 0)
    if shared == "weights":
        p, q, axes = p[0], q[0], (None, None, 0)
    elif shared == "x":
        x, axes = x[0], (0, 0, None)

    def total(fn, *args):
        return jnp.sum(jax.vmap(partial(fn, pattern, factors), axes)(*args))

    both = (partial(total, fn) for fn in (ours, dense))
    compare(*both, p, q, x, argnums=(0, 1, 2))


def test_lanes_of_one_head_are_sparse_products_of_all(pattern):
    """One forward and three backward, whatever the number of lanes."""
    run = jax.grad(
        partial(ours, pattern, jnp.ones((len(pattern.values), 1))), (0, 1, 2)
    )
    jaxpr = jax.make_jaxpr(jax.vmap(run))(*draw(1, lanes=(4,)))
    over_nodes = [found for found in products_in(jaxpr.jaxpr) if found[0] != "dense"]
    assert over_nodes == [("csr", (4 * NODES, 8))] * 4
