"""Dropout masks of a training step, drawn apart from the model that uses them.

A mask needs many random bits but not the best ones. Each step has a key of its own from
JAX's generator, and the bits of that step are a hash of (key, position in the mask): a
dozen integer operations that fuse with the use of the mask.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Key, UInt32

from dsf_jax.models.params import Inputs, Params
from dsf_jax.models.settings import HyperParams, ModelConfig
from dsf_jax.ops.matrix import SparseFeatures


class Masks(NamedTuple):
    """Dropout factors, 0 or 1 / (1 - p); None for no dropout, as in evaluation.

    Example:
      >>> Masks().x is None
      True
    """

    x: Float[Array, "..."] | None = None  # of stored values [Z], or [N, F] if dense
    h: Float[Array, "N H"] | None = None
    z: Float[Array, "N C"] | None = None
    pos: Float[Array, "N D"] | None = None
    edge: Float[Array, "..."] | None = None  # of edges, for each head or layer


def draw_masks(
    key: Key[Array, ""],
    params: Params,
    inputs: Inputs,
    hparams: HyperParams,
    *,
    config: ModelConfig,
    shares_positions: bool | Bool[Array, ""] = False,
) -> Masks:
    """Dropout masks of one training step.

    `shares_positions` says that no run of the batch has dropout on positions: then no
    random numbers are drawn for them.

    Example:
      >>> from dsf_jax import MODELS, Graph, init, make_inputs
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> config = MODELS["gpr"]
      >>> inputs = make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)), config)
      >>> hparams, key = HyperParams(dropout_x=0.0), jax.random.key(0)
      >>> params = init(key, inputs, hparams, config=config, num_classes=3)
      >>> draw_masks(key, params, inputs, hparams, config=config).x.tolist()
      [[1.0, 1.0], [1.0, 1.0]]
    """
    x_key, h_key, z_key, pos_key = jax.random.split(key, 4)
    dtype = params.out.w.dtype
    num_nodes, _ = inputs.features.shape
    draw = partial(draw_mask, dtype=dtype)
    return Masks(
        x=draw(x_key, hparams.dropout_x, stored_shape(inputs.features)),
        h=draw(h_key, hparams.dropout_h, (num_nodes, config.hidden))
        if config.has_hidden
        else None,
        z=draw(z_key, hparams.dropout_z, (num_nodes, params.out.bias.shape[0]))
        if config.project_first
        else None,
        pos=jax.lax.cond(
            jnp.asarray(shares_positions),
            lambda: jnp.ones((num_nodes, config.width), dtype),
            lambda: draw(pos_key, hparams.dropout_pos, (num_nodes, config.width)),
        )
        if config.uses_positions
        else None,
    )


def draw_mask(
    key: Key[Array, ""], rate: Any, shape: tuple[int, ...], *, dtype: Any
) -> Float[Array, "..."]:
    """Factors of a dropout rate: 0 with that probability, else 1 / (1 - rate).

    The rate is met to 2^-24, and the factor belongs to the rate that is met.

    Example:
      >>> draw_mask(jax.random.key(0), 0.0, (2,), dtype=float).tolist()
      [1.0, 1.0]
    """
    keep = jnp.round(2**24 * (1 - jnp.asarray(rate, dtype=dtype)))
    bits = (hash_bits(key, shape) >> 8).astype(jnp.int32).astype(dtype)
    return jnp.where(bits < keep, 2**24 / keep, 0.0)


def stored_shape(features: SparseFeatures | Float[Array, "N F"]) -> tuple[int, ...]:
    """Shape of the values that dropout on features acts on.

    Example:
      >>> stored_shape(jnp.eye(2))
      (2, 2)
    """
    stored = features.values if isinstance(features, SparseFeatures) else features
    return stored.shape


def drop(x: Array, mask: Array | None) -> Array:
    """Dropout by a mask; none in evaluation.

    Example:
      >>> drop(jnp.ones(2), jnp.asarray([0.0, 2.0])).tolist()
      [0.0, 2.0]
    """
    return x if mask is None else x * mask


def hash_bits(key: Key[Array, ""], shape: tuple[int, ...]) -> UInt32[Array, "..."]:
    """32 random bits per entry: a hash of the two words of the key and the position.

        x = mix(position ^ word_0),    bits = mix(x ^ word_1)

    Independent of `jax.vmap`, like JAX's own generator, which costs ten times as much
    on a CPU. For dropout, not for anything that needs proven quality.

    Example:
      >>> hash_bits(jax.random.key(0), (2, 3)).shape
      (2, 3)
    """
    words = jax.random.key_data(key)
    position = jnp.arange(math.prod(shape), dtype=jnp.uint32)
    return _mix(_mix(position ^ words[0]) ^ words[1]).reshape(shape)


def _mix(x: UInt32[Array, " M"]) -> UInt32[Array, " M"]:
    """A bijection of words: each bit in flips each bit out about half the time.

    Constants of the search github.com/skeeto/hash-prospector for two multiplications.
    """
    x = (x ^ (x >> 16)) * jnp.uint32(0x21F0AAAD)
    x = (x ^ (x >> 15)) * jnp.uint32(0x735A2D97)
    return x ^ (x >> 15)
