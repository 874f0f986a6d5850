"""fold_lanes: a vmapped call is one call with more lanes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dsf_jax.ops.lanes import fold_lanes


@pytest.fixture
def widths():
    """Widths of the calls that reached the function."""
    return []


@pytest.fixture
def scaled_sum(widths):
    """[N, L] with a lane axis 1, scaled per lane [L], shifted by a constant."""

    def fn(shift, scale, x):
        lanes = max(scale.shape[0], x.shape[1])
        widths.append(lanes)
        return shift + jnp.broadcast_to(scale, (lanes,))[None, :] * x

    return fold_lanes(fn, lane_axes=(None, 0, 1), out_axes=1)


def naive(shift, scale, x):
    return np.asarray(shift) + np.asarray(scale)[None, :] * np.asarray(x)


def test_batches_join_the_lanes(scaled_sum, widths, rng):
    shift, scale = jnp.asarray(0.5), jnp.asarray(rng.normal(size=(4, 1)))
    x = jnp.asarray(rng.normal(size=(3, 4, 5, 1)))
    inner = jax.vmap(scaled_sum, in_axes=(None, 0, 0))
    result = jax.vmap(inner, in_axes=(None, None, 0))(shift, scale, x)
    assert widths[-1] == 12
    for i in range(3):
        for j in range(4):
            expected = naive(shift, scale[j], x[i, j])
            np.testing.assert_allclose(result[i, j], expected)


def test_shared_arrays_stay_shared(scaled_sum, widths, rng):
    scale, x = (
        jnp.asarray(rng.normal(size=(6, 1))),
        jnp.asarray(rng.normal(size=(5, 1))),
    )
    result = jax.vmap(scaled_sum, in_axes=(None, 0, None))(jnp.zeros(()), scale, x)
    assert widths[-1] == 6
    np.testing.assert_allclose(result[4], naive(0.0, scale[4], x))


def test_a_batch_without_a_lane_axis_runs_in_sequence(scaled_sum, widths, rng):
    shift, scale = jnp.asarray([1.0, 2.0]), jnp.ones(1)
    x = jnp.asarray(rng.normal(size=(2, 5, 1)))
    result = jax.vmap(scaled_sum, in_axes=(0, None, 0))(shift, scale, x)
    assert widths[-1] == 1
    for i in range(2):
        np.testing.assert_allclose(result[i], naive(shift[i], scale, x[i]))
