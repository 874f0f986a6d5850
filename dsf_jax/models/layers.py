"""What models share: inputs, dropout masks, affine maps and how they start."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Int, Key

from dsf_jax.ops.matrix import SparseFeatures, project
from dsf_jax.ops.nodes import Places
from dsf_jax.ops.operator import Operator


class Inputs(NamedTuple):
    """What a model reads of a data set; from `Model.make_inputs`.

    Example:
      >>> from dsf_jax import Graph, MODELS
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> MODELS["gpr"].make_inputs(edge, jnp.eye(2)).filter_op.num_nodes
      2
    """

    filter_op: Operator
    pos_op: Operator  # of the positions
    features: SparseFeatures | Float[Array, "N F"]
    x_pos: Float[Array, "2 N 32"] | None = None  # LapPE and RWPE
    edges: SparseFeatures | None = None  # N x N, for models that weigh edges
    embedding: Float[Array, "N M"] | None = None  # NetMF, for PA-GNN
    columns: Float[Array, "N 66"] | None = None  # for weights that start at their base
    places: Places | None = None  # of the rows, where nodes are shared out over devices

    @property
    def is_node(self) -> Bool[Array, " N"] | None:
        """Rows that are nodes; None: all are."""
        return None if self.places is None else self.places.is_node


class Masks(NamedTuple):
    """Dropout factors, 0 or 1 / (1 - p); None for no dropout, as in evaluation.

    The mask of name m has the rate `dropout_m` of `HyperParams`.
    """

    x: Float[Array, "..."] | None = None  # of stored values [Z], or [N, F] if dense
    h: Float[Array, "N H"] | None = None
    z: Float[Array, "N C"] | None = None
    pos: Float[Array, "N D"] | None = None
    edge: Float[Array, "..."] | None = None  # of edges, for each head or layer
    noise: Float[Array, "N H"] | None = None  # normal, of OptBasisGNN; no factor
    sample: Int[Array, " M"] | None = None  # nodes of the sum in S; no factor


def drop(x: Array, mask: Array | None) -> Array:
    """Dropout by a mask; none in evaluation.

    Example:
      >>> drop(jnp.ones(2), jnp.asarray([0.0, 2.0])).tolist()
      [0.0, 2.0]
    """
    return x if mask is None else x * mask


class Linear(NamedTuple):
    """An affine map x W + b.

    Example:
      >>> Linear(w=jnp.ones((2, 3)), bias=jnp.zeros(3)).w.shape
      (2, 3)
    """

    w: Float[Array, "I O"]
    bias: Float[Array, " O"]


class Perceptron(NamedTuple):
    """Two maps, features -> hidden -> classes; `hidden` is None where there is one.

    Example:
      >>> init_perceptron(jax.random.split(jax.random.key(0)), 5, 4, 3).out.w.shape
      (4, 3)
    """

    hidden: Linear | None
    out: Linear


def init_linear(
    key: Key[Array, ""], num_in: int, num_out: int, fan_in: ArrayLike | None = None
) -> Linear:
    """Weights and bias uniform within ±1/√(fan-in).

    Example:
      >>> init_linear(jax.random.key(0), 2, 3).w.shape
      (2, 3)
    """
    bound = jnp.asarray(num_in if fan_in is None else fan_in, dtype=float) ** -0.5
    w_key, bias_key = jax.random.split(key)
    return Linear(
        w=bound * jax.random.uniform(w_key, (num_in, num_out), float, -1.0, 1.0),
        bias=bound * jax.random.uniform(bias_key, (num_out,), float, -1.0, 1.0),
    )


def init_perceptron(
    keys: Key[Array, " 2"], num_in: int, hidden: int | None, num_out: int
) -> Perceptron:
    """Both maps by `init_linear`; without a hidden layer a single one.

    Example:
      >>> init_perceptron(jax.random.split(jax.random.key(0)), 5, None, 3).out.w.shape
      (5, 3)
    """
    first = None if hidden is None else init_linear(keys[0], num_in, hidden)
    return Perceptron(first, init_linear(keys[1], hidden or num_in, num_out))


def glorot(key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Uniform within ±√(6 / (fan-in + fan-out)), the last two axes.

    Example:
      >>> glorot(jax.random.key(0), (2, 4)).shape
      (2, 4)
    """
    bound = (6 / (shape[-2] + shape[-1])) ** 0.5
    return jax.random.uniform(key, shape, float, -bound, bound)


def affine(linear: Linear, x: Float[Array, "N I"]) -> Float[Array, "N O"]:
    """X W + b.

    Example:
      >>> affine(Linear(jnp.ones((2, 1)), jnp.ones(1)), jnp.eye(2)).tolist()
      [[2.0], [2.0]]
    """
    return x @ linear.w + linear.bias[None, :]


def project_features(
    linear: Linear, inputs: Inputs, masks: Masks
) -> Float[Array, "N O"]:
    """drop(X) W + b for features that may be sparse.

    Example:
      See `hidden_features`.
    """
    return project(inputs.features, linear.w, masks.x) + linear.bias[None, :]


def hidden_features(
    linear: Linear, inputs: Inputs, masks: Masks
) -> Float[Array, "N H"]:
    """drop(ReLU(drop(X) W_1 + b_1)).

    Example:
      >>> from dsf_jax import Graph, MODELS
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> inputs = MODELS["gcn"].make_inputs(edge, jnp.eye(2))
      >>> negative = Linear(-jnp.ones((2, 1)), jnp.zeros(1))
      >>> project_features(negative, inputs, Masks()).tolist()
      [[-1.0], [-1.0]]
      >>> hidden_features(negative, inputs, Masks()).tolist()
      [[0.0], [0.0]]
    """
    return drop(jax.nn.relu(project_features(linear, inputs, masks)), masks.h)
