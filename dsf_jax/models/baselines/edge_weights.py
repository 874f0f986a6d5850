"""GAT and FAGCN, which weigh every edge by its two ends.

Both weigh an edge by a function of one number for each end: sums over neighbours, with
their gradients, are `dsf_jax.ops.edge_sums.edge_sum`. No array has N x N entries.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jraph
from jax import Array
from jaxtyping import Float

from dsf_jax.models.baselines.network import (
    BaselineOutput,
    BaselineParams,
    Network,
    Perceptron,
    glorot,
    project_features,
)
from dsf_jax.models.dropout import Masks, drop
from dsf_jax.models.params import Inputs, Linear, affine, init_linear
from dsf_jax.models.settings import BaselineConfig, HyperParams
from dsf_jax.ops.edge_sums import edge_sum, unit_matrix
from dsf_jax.ops.matrix import project
from dsf_jax.ops.operator import Operator

NEGATIVE_SLOPE = 0.2  # of GAT's LeakyReLU


class AttentionLayer(NamedTuple):
    """A layer of GAT with heads of U units each.

    Example:
      >>> AttentionLayer._fields
      ('w', 'receiver', 'sender', 'bias')
    """

    w: Float[Array, "I O"]  # O = heads x U
    receiver: Float[Array, "M U"]  # a_dst of each head
    sender: Float[Array, "M U"]  # a_src
    bias: Float[Array, " O"]


class Gates(NamedTuple):
    """Gates of FAGCN, one for each layer.

    Example:
      >>> Gates._fields
      ('receiver', 'sender', 'bias')
    """

    receiver: Float[Array, "L H"]
    sender: Float[Array, "L H"]
    bias: Float[Array, " L"]


class GatedMaps(NamedTuple):
    """Parameters of FAGCN.

    Example:
      >>> GatedMaps._fields
      ('ends', 'gates')
    """

    ends: Perceptron  # t_1 and t_2
    gates: Gates


def attention(
    op: Operator, p: Float[Array, "N M"], q: Float[Array, "N M"]
) -> Float[Array, "E M"]:
    """Attention of every node to its neighbours and itself, head by head (GAT).

    To look at: the model divides sums of the same numerators, never all α_ij.

        e_ij = LeakyReLU(p_i + q_j),    α_ij = softmax over j of e_ij

    Args:
      op: operator whose entries (i, j) are the edges, self-loops included.
      p: a_dst·W h_i of each head.
      q: a_src·W h_j of each head.

    Returns:
      α_ij of each entry; those of a row sum to one.

    Example:
      >>> from dsf_jax import Graph, a_tilde
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> attention(a_tilde(edge), jnp.ones((2, 1)), jnp.ones((2, 1)))[:, 0].tolist()
      [0.5, 0.5, 0.5, 0.5]
    """
    weights, _ = _exponentials(op, p, q)
    sums = jraph.segment_sum(
        weights, op.receivers, op.num_nodes, indices_are_sorted=True
    )
    return weights / sums[op.receivers]


def _exponentials(
    op: Operator, p: Float[Array, "N M"], q: Float[Array, "N M"]
) -> tuple[Float[Array, "E M"], Float[Array, "E M"]]:
    """exp(e_ij) over the largest of its row, and the slope with respect to p_i + q_j.

    Numerators of the softmax. It does not depend on the largest one, which therefore
    counts as a constant.
    """
    scores = p[op.receivers] + q[op.senders]
    e = jax.nn.leaky_relu(scores, NEGATIVE_SLOPE)
    largest = jraph.segment_max(e, op.receivers, op.num_nodes, indices_are_sorted=True)
    weights = jnp.exp(e - largest[op.receivers])
    return weights, weights * jnp.where(scores >= 0, 1.0, NEGATIVE_SLOPE)


def gate(
    op: Operator, p: Float[Array, "N M"], q: Float[Array, "N M"]
) -> Float[Array, "E M"]:
    """Gate of every edge in (-1, 1): g_ij = tanh(p_i + q_j) (FAGCN).

    With p_i + q_j = a·[h_i, h_j] + b, the bias b in p.

    Example:
      >>> from dsf_jax import Graph, a_hat
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> gate(a_hat(edge), jnp.ones((2, 1)), -jnp.ones((2, 1)))[:, 0].tolist()
      [0.0, 0.0]
    """
    return jnp.tanh(p[op.receivers] + q[op.senders])


def _init_gat(
    key: Array,
    inputs: Inputs,
    hparams: HyperParams,
    config: BaselineConfig,
    num_classes: int,
) -> BaselineParams:
    def layer(key: Array, num_in: int, heads: int, units: int) -> AttentionLayer:
        w_key, receiver_key, sender_key = jax.random.split(key, 3)
        return AttentionLayer(
            w=glorot(w_key, (num_in, heads * units)),
            receiver=glorot(receiver_key, (heads, units)),
            sender=glorot(sender_key, (heads, units)),
            bias=jnp.zeros(heads * units),
        )

    hidden_key, out_key = jax.random.split(key)
    units = config.hidden // config.heads
    return BaselineParams(
        (
            layer(hidden_key, inputs.features.shape[1], config.heads, units),
            layer(out_key, config.hidden, 1, num_classes),
        )
    )


def _apply_gat(
    params: BaselineParams,
    inputs: Inputs,
    hparams: HyperParams,
    config: BaselineConfig,
    masks: Masks,
    max_depth: Any,
) -> BaselineOutput:
    """Two layers h_i ← Σ_j drop(α_ij) W h_j + b: heads side by side, ELU; one head."""

    def layer(
        x: Any, mask: Array | None, maps: AttentionLayer, columns: slice
    ) -> Array:
        heads, units = maps.receiver.shape
        mapped = project(x, maps.w, mask)
        of_units = unit_matrix(heads, units, mapped.dtype)
        p, q = (
            mapped @ (of_units * a.reshape(-1, 1)) for a in (maps.receiver, maps.sender)
        )
        weights, slopes = _exponentials(inputs.filter_op, p, q)
        ones = jnp.ones((*p.shape, 1), mapped.dtype)
        total = edge_sum(edges, weights, slopes, p, q, ones)[:, :, 0]
        kept = None if masks.edge is None else masks.edge[:, columns]
        weights, slopes = drop(weights, kept), drop(slopes, kept)
        by_heads = mapped.reshape(-1, heads, units)
        summed = edge_sum(edges, weights, slopes, p, q, by_heads).reshape(mapped.shape)
        scale = jnp.matmul(1 / total, of_units.T, precision="highest")
        return summed * scale + maps.bias[None, :]

    assert inputs.edges is not None
    edges = inputs.edges
    first, second = params.maps
    hidden = layer(inputs.features, masks.x, first, slice(None, -1))
    logits = layer(jax.nn.elu(hidden), masks.h, second, slice(-1, None))
    return BaselineOutput(logits)


def _gat_mask_shapes(
    params: BaselineParams, inputs: Inputs, config: BaselineConfig
) -> dict[str, tuple[int, ...]]:
    num_edges, num_nodes = inputs.filter_op.senders.shape[0], inputs.features.shape[0]
    return {"h": (num_nodes, config.hidden), "edge": (num_edges, config.heads + 1)}


def _init_fagcn(
    key: Array,
    inputs: Inputs,
    hparams: HyperParams,
    config: BaselineConfig,
    num_classes: int,
) -> BaselineParams:
    """Weights normal with deviation √2 √(2 / (fan-in + fan-out)), biases uniform."""

    def linear(key: Array, num_in: int, num_out: int) -> Linear:
        w_key, bias_key = jax.random.split(key)
        deviation = 2 / (num_in + num_out) ** 0.5
        bias = init_linear(bias_key, num_in, num_out).bias
        return Linear(deviation * jax.random.normal(w_key, (num_in, num_out)), bias)

    hidden_key, out_key, gate_key = jax.random.split(key, 3)
    hidden = config.hidden
    gate_maps = jax.vmap(lambda key: linear(key, 2 * hidden, 1))(
        jax.random.split(gate_key, config.layers)
    )
    ends = Perceptron(
        hidden=linear(hidden_key, inputs.features.shape[1], hidden),
        out=linear(out_key, hidden, num_classes),
    )
    w, bias = gate_maps.w[:, :, 0], gate_maps.bias[:, 0]
    return BaselineParams(GatedMaps(ends, Gates(w[:, :hidden], w[:, hidden:], bias)))


def _apply_fagcn(
    params: BaselineParams,
    inputs: Inputs,
    hparams: HyperParams,
    config: BaselineConfig,
    masks: Masks,
    max_depth: Any,
) -> BaselineOutput:
    """Layers h_i ← ε h_{0,i} + Σ_j drop(g_ij Â_ij) h_j between two maps.

    Layers from the depth of the run on are passed by; those that no run beside it has
    are skipped.
    """
    (hidden_map, out_map), gates = params.maps
    assert inputs.edges is not None
    edges, op = inputs.edges, inputs.filter_op
    h0 = drop(jax.nn.relu(project_features(hidden_map, inputs, masks)), masks.h)
    epsilon = jnp.asarray(hparams.epsilon, dtype=h0.dtype)

    def layer(h: Array, own: tuple[Array, Gates, Array | None]) -> tuple[Array, None]:
        number, gates, mask = own

        def go_on(h: Array) -> Array:
            p = (h @ gates.receiver + gates.bias)[:, None]
            q = (h @ gates.sender)[:, None]
            g = gate(op, p, q)
            a = drop(edges.values.astype(h.dtype), mask)[:, None]
            summed = edge_sum(edges, a * g, a * (1 - g**2), p, q, h[:, None, :])
            new = epsilon * h0 + summed[:, 0, :]
            return jnp.where(number < jnp.asarray(hparams.depth), new, h)

        return jax.lax.cond(number < max_depth, go_on, lambda h: h, h), None

    numbers = jnp.arange(config.layers)
    h, _ = jax.lax.scan(layer, h0, (numbers, gates, masks.edge))
    return BaselineOutput(affine(out_map, h))


def _fagcn_mask_shapes(
    params: BaselineParams, inputs: Inputs, config: BaselineConfig
) -> dict[str, tuple[int, ...]]:
    num_edges, num_nodes = inputs.filter_op.senders.shape[0], inputs.features.shape[0]
    return {"h": (num_nodes, config.hidden), "edge": (config.layers, num_edges)}


GAT = Network(_init_gat, _gat_mask_shapes, _apply_gat)
FAGCN = Network(_init_fagcn, _fagcn_mask_shapes, _apply_fagcn)
