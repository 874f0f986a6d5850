"""Projection of dense and sparse features, alone and in lanes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

from dsf_jax.ops.matrix import SparseFeatures, project
from tests.test_sparse import products_in

NODES, FEATURES, HIDDEN = 7, 11, 3


@pytest.fixture
def dense(rng):
    """Features with empty rows and columns."""
    x = rng.normal(size=(NODES, FEATURES)) * (rng.uniform(size=(NODES, FEATURES)) < 0.3)
    x[2] = 0
    x[:, 5] = 0
    return x


@pytest.fixture
def sparse(dense):
    return SparseFeatures.from_scipy(sp.csr_array(dense))


def dense_mask(dense, mask):
    """The mask of the non-zeros as a full matrix."""
    full = np.ones_like(dense)
    full[np.nonzero(dense)] = mask
    return full


def test_sparse_equals_dense(dense, sparse, rng):
    w = jnp.asarray(rng.normal(size=(FEATURES, HIDDEN)))
    mask = jnp.asarray(rng.uniform(size=sparse.values.shape))
    assert sparse.shape == dense.shape
    np.testing.assert_allclose(project(sparse, w), dense @ w, atol=1e-12)
    full = dense_mask(dense, mask)
    np.testing.assert_allclose(project(sparse, w, mask), (dense * full) @ w, atol=1e-12)
    np.testing.assert_allclose(
        project(jnp.asarray(dense), w, jnp.asarray(full)),
        (dense * full) @ w,
        atol=1e-12,
    )


def loss(features, w, mask):
    return jnp.sum(jnp.sin(project(features, w, mask)))


def test_gradient_equals_dense(dense, sparse, rng):
    w = jnp.asarray(rng.normal(size=(FEATURES, HIDDEN)))
    mask = jnp.asarray(rng.uniform(size=sparse.values.shape))
    full = jnp.asarray(dense_mask(dense, mask))
    np.testing.assert_allclose(
        jax.grad(loss, argnums=1)(sparse, w, mask),
        jax.grad(loss, argnums=1)(jnp.asarray(dense), w, full),
        atol=1e-12,
    )


@pytest.mark.parametrize("shared", ["none", "mask", "w"])
def test_lanes_equal_a_loop(sparse, shared, rng):
    w = jnp.asarray(rng.normal(size=(4, FEATURES, HIDDEN)))
    mask = jnp.asarray(rng.uniform(size=(4, *sparse.values.shape)))
    w = w[0] if shared == "w" else w
    mask = mask[0] if shared == "mask" else mask
    axes = (None, None if shared == "w" else 0, None if shared == "mask" else 0)
    run = jax.value_and_grad(loss, argnums=1)
    together = jax.jit(jax.vmap(run, in_axes=axes))(sparse, w, mask)
    for lane in range(4):
        alone = run(
            sparse,
            w if shared == "w" else w[lane],
            mask if shared == "mask" else mask[lane],
        )
        np.testing.assert_allclose(together[0][lane], alone[0], atol=1e-12)
        np.testing.assert_allclose(together[1][lane], alone[1], atol=1e-12)


def test_lanes_with_their_own_values_are_one_product_and_no_scatter(sparse):
    w, mask = jnp.ones((4, FEATURES, 8)), jnp.ones((4, *sparse.values.shape))
    run = jax.vmap(jax.grad(loss, argnums=1), in_axes=(None, 0, 0))
    products = products_in(jax.make_jaxpr(run)(sparse, w, mask).jaxpr)
    assert products == [("csr", (4 * NODES, 8)), ("csr", (4 * FEATURES, 8))]


def test_empty_features():
    nothing = SparseFeatures.from_scipy(sp.csr_array((3, 2)))
    assert project(nothing, jnp.ones((2, 1))).tolist() == [[0.0]] * 3
