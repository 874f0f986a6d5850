"""Parts that baselines share: parameters, outputs, initialisers, the perceptron."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax import Array
from jaxtyping import Float, Key

from dsf_jax.models.dropout import Masks, drop
from dsf_jax.models.params import Inputs, Linear, affine, init_linear
from dsf_jax.ops.matrix import project


class BaselineParams(NamedTuple):
    """Parameters of a baseline, by groups of `HyperParams`; None where it has none.

    Example:
      >>> BaselineParams._fields
      ('maps', 'gamma', 'local')
    """

    maps: Any  # lr, decay
    gamma: Float[Array, " K1"] | None = None  # lr_gamma, decay_gamma
    local: Any = None  # lr_pos, decay_pos


class BaselineOutput(NamedTuple):
    """What a baseline returns.

    Example:
      >>> BaselineOutput._fields
      ('logits', 'penalty')
    """

    logits: Float[Array, "N C"]
    penalty: Float[Array, ""] | None = None  # of PA-GNN


class Network(NamedTuple):
    """Functions that make a baseline.

    Example:
      >>> Network._fields
      ('init', 'mask_shapes', 'apply')
    """

    # (key, inputs, hparams, config, num_classes) -> params
    init: Callable[..., BaselineParams]
    # (params, inputs, config) -> shapes of the masks it uses, by name, features apart
    mask_shapes: Callable[..., dict[str, tuple[int, ...]]]
    # (params, inputs, hparams, config, masks, max_depth) -> output
    apply: Callable[..., BaselineOutput]


class Perceptron(NamedTuple):
    """Two maps, features -> hidden -> classes.

    Example:
      >>> Perceptron._fields
      ('hidden', 'out')
    """

    hidden: Linear
    out: Linear


def init_perceptron(
    key: Key[Array, ""], num_in: int, hidden: int, num_out: int
) -> Perceptron:
    """Maps with biases, uniform within ±1/√(fan-in).

    Example:
      >>> init_perceptron(jax.random.key(0), 5, 4, 3).out.w.shape
      (4, 3)
    """
    hidden_key, out_key = jax.random.split(key)
    return Perceptron(
        hidden=init_linear(hidden_key, num_in, hidden),
        out=init_linear(out_key, hidden, num_out),
    )


def encode_features(
    maps: Perceptron, inputs: Inputs, masks: Masks
) -> Float[Array, "N C"]:
    """The perceptron: drop(ReLU(drop(X) W_1 + b_1)) W_2 + b_2.

    Example:
      >>> import jax.numpy as jnp
      >>> from dsf_jax import MODELS, Graph, make_inputs
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> inputs = make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)), MODELS["appnp"])
      >>> maps = init_perceptron(jax.random.key(0), 2, 4, 3)
      >>> encode_features(maps, inputs, Masks()).shape
      (2, 3)
    """
    hidden = project_features(maps.hidden, inputs, masks)
    return affine(maps.out, drop(jax.nn.relu(hidden), masks.h))


def project_features(map_: Linear, inputs: Inputs, masks: Masks) -> Float[Array, "N O"]:
    """drop(X) W + b for features that may be sparse.

    Example:
      See `encode_features`.

      >>> project_features.__name__
      'project_features'
    """
    return project(inputs.features, map_.w, masks.x) + map_.bias[None, :]


def glorot(key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Uniform within ±√(6 / (fan-in + fan-out)), the last two axes.

    Example:
      >>> glorot(jax.random.key(0), (2, 4)).shape
      (2, 4)
    """
    bound = (6 / (shape[-2] + shape[-1])) ** 0.5
    return jax.random.uniform(key, shape, float, -bound, bound)
