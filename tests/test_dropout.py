"""Dropout bits: a hash that must look like chance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from dsf_jax.ops.dropout import hash_bits

KEYS = jax.random.split(jax.random.key(1), 200)


@pytest.fixture(scope="module")
def bits():
    """One row per key, 32 bits per entry."""
    return np.asarray(jax.vmap(lambda key: hash_bits(key, (2000,)))(KEYS))


def test_hash_equals_python_integers():
    def mix(x):
        x = ((x ^ (x >> 16)) * 0x21F0AAAD) % 2**32
        x = ((x ^ (x >> 15)) * 0x735A2D97) % 2**32
        return x ^ (x >> 15)

    key = jax.random.key(7)
    first, second = map(int, jax.random.key_data(key))
    expected = [mix(mix(i ^ first) ^ second) for i in range(6)]
    assert hash_bits(key, (2, 3)).ravel().tolist() == expected


def test_every_bit_is_a_fair_coin(bits):
    for position in range(32):
        ones = int(((bits >> position) & 1).sum())
        assert scipy.stats.binomtest(ones, bits.size).pvalue > 1e-4


@pytest.mark.parametrize(("rows", "columns"), [(1, 0), (0, 1), (0, 2), (0, 64), (1, 1)])
def test_neighbours_are_independent(bits, rows, columns):
    """Of keys and of positions: the top four bits of pairs fill all 256 cells alike."""
    top = bits >> 28
    first = top[: len(top) - rows, : top.shape[1] - columns]
    second = top[rows:, columns:]
    cells = np.bincount((16 * first + second).ravel(), minlength=256)
    assert scipy.stats.chisquare(cells).pvalue > 1e-4


def test_masks_do_not_depend_on_the_batch():
    alone = jnp.stack([hash_bits(key, (5, 3)) for key in KEYS[:4]])
    together = jax.vmap(lambda key: hash_bits(key, (5, 3)))(KEYS[:4])
    np.testing.assert_array_equal(alone, together)
