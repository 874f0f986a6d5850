"""Dropout masks, drawn apart from the model that uses them.

A mask needs many random bits but not the best ones. Each step has a key of its own from
JAX's generator, and the bits of that step are a hash of (key, position in the mask): a
dozen integer operations that fuse with the use of the mask.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Int, Key, UInt32


def draw_mask(
    key: Key[Array, ""],
    rate: Any,
    shape: tuple[int, ...],
    *,
    dtype: Any,
    rows: Int[Array, " M"] | None = None,
) -> Float[Array, "..."]:
    """Factors of a dropout rate: 0 with that probability, else 1 / (1 - rate).

    The rate is met to 2^-24, and the factor belongs to the rate that is met. `rows`
    are those of a larger mask, of which this is a part.

    Example:
      >>> draw_mask(jax.random.key(0), 0.0, (2,), dtype=float).tolist()
      [1.0, 1.0]
    """
    keep = jnp.round(2**24 * (1 - jnp.asarray(rate, dtype=dtype)))
    bits = (hash_bits(key, shape, rows) >> 8).astype(jnp.int32).astype(dtype)
    return jnp.where(bits < keep, 2**24 / keep, 0.0)


def hash_bits(
    key: Key[Array, ""], shape: tuple[int, ...], rows: Int[Array, " M"] | None = None
) -> UInt32[Array, "..."]:
    """32 random bits per entry: a hash of the two words of the key and the position.

        x = mix(position ^ word_0),    bits = mix(x ^ word_1)

    Independent of `jax.vmap`, like JAX's own generator, which costs ten times as much
    on a CPU. For dropout, not for anything that needs proven quality.

    Example:
      >>> bits = hash_bits(jax.random.key(0), (4, 3))
      >>> part = hash_bits(jax.random.key(0), (2, 3), jnp.asarray([3, 1]))
      >>> bits.shape, bool(jnp.all(part == bits[jnp.asarray([3, 1])]))
      ((4, 3), True)
    """
    words = jax.random.key_data(key)
    position = jnp.arange(math.prod(shape), dtype=jnp.uint32)
    if rows is not None:
        width = position.size // shape[0]
        first = jnp.repeat(rows.astype(jnp.uint32), width) * jnp.uint32(width)
        position = first + position % jnp.uint32(width)
    return _mix(_mix(position ^ words[0]) ^ words[1]).reshape(shape)


def _mix(x: UInt32[Array, " M"]) -> UInt32[Array, " M"]:
    """A bijection of words: each bit in flips each bit out about half the time.

    Constants of the search github.com/skeeto/hash-prospector for two multiplications.
    """
    x = (x ^ (x >> 16)) * jnp.uint32(0x21F0AAAD)
    x = (x ^ (x >> 15)) * jnp.uint32(0x735A2D97)
    return x ^ (x >> 15)
