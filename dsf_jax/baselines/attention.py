"""GAT and FAGCN, which weigh every edge by its two ends.

A weight per edge and run is a sparse matrix per run on one pattern: sums over
neighbours are `dsf_jax.features.weighted_sum`, and runs side by side are stacked into
one sparse product. No array has N x N entries.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jraph
from jax import Array
from jaxtyping import Float

from dsf_jax.baselines.network import (
    BaselineOutput,
    BaselineParams,
    Network,
    Perceptron,
    glorot,
    project_features,
)
from dsf_jax.dropout import Masks, drop
from dsf_jax.features import project, weighted_sum
from dsf_jax.params import Inputs, Linear, affine, init_linear
from dsf_jax.settings import BaselineConfig, HyperParams
from dsf_jax.sparse import Operator

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
    op: Operator,
    x: Float[Array, "N M U"],
    receiver: Float[Array, "M U"],
    sender: Float[Array, "M U"],
) -> Float[Array, "E M"]:
    """Attention of every node to its neighbours and itself, head by head (GAT).

        e_ij = LeakyReLU(a_dst·x_i + a_src·x_j),    α_ij = softmax over j of e_ij

    Args:
      op: operator whose entries (i, j) are the edges, self-loops included.
      x: mapped features W h, heads apart.
      receiver: a_dst of each head.
      sender: a_src of each head.

    Returns:
      α_ij of each entry; those of a row sum to one.

    Example:
      >>> from dsf_jax import Graph, a_tilde
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> x, a = jnp.ones((2, 1, 3)), jnp.ones((1, 3))
      >>> attention(a_tilde(edge), x, a, a)[:, 0].tolist()
      [0.5, 0.5, 0.5, 0.5]
    """
    to_receiver = jnp.einsum("nmu,mu->nm", x, receiver)
    from_sender = jnp.einsum("nmu,mu->nm", x, sender)
    scores = to_receiver[op.receivers] + from_sender[op.senders]
    return _softmax(jax.nn.leaky_relu(scores, NEGATIVE_SLOPE), op)


def _softmax(scores: Float[Array, "E M"], op: Operator) -> Float[Array, "E M"]:
    """Softmax over the entries of each row.

    As `jraph.segment_softmax`, without the gradient of the largest score, which is 0
    and costs more than the rest.
    """
    rows: dict[str, Any] = {
        "segment_ids": op.receivers,
        "num_segments": op.num_nodes,
        "indices_are_sorted": True,
    }
    largest = jax.lax.stop_gradient(jraph.segment_max(scores, **rows))
    powers = jnp.exp(scores - largest[op.receivers])
    return powers / jraph.segment_sum(powers, **rows)[op.receivers]


def gate(
    op: Operator,
    h: Float[Array, "N H"],
    receiver: Float[Array, " H"],
    sender: Float[Array, " H"],
    bias: Float[Array, ""],
) -> Float[Array, " E"]:
    """Gate of every edge in (-1, 1): g_ij = tanh(a·[h_i, h_j] + b) (FAGCN).

    Example:
      >>> from dsf_jax import Graph, a_hat
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> h, a = jnp.ones((2, 3)), jnp.zeros(3)
      >>> gate(a_hat(edge), h, a, a, jnp.asarray(0.0)).tolist()
      [0.0, 0.0]
    """
    to_receiver, from_sender = h @ receiver, h @ sender
    return jnp.tanh(to_receiver[op.receivers] + from_sender[op.senders] + bias)


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
        mapped = project(x, maps.w, mask).reshape(-1, heads, units)
        weights = attention(inputs.filter_op, mapped, maps.receiver, maps.sender)
        if masks.edge is not None:
            weights = weights * masks.edge[:, columns]
        per_head = jax.vmap(weighted_sum, in_axes=(None, 1, 1), out_axes=1)
        summed = per_head(edges, weights, mapped)
        return summed.reshape(-1, heads * units) + maps.bias[None, :]

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

    Layers from the depth of the run on are passed by; those that no run of the queue
    has are skipped.
    """
    (hidden_map, out_map), gates = params.maps
    assert inputs.edges is not None
    edges, op = inputs.edges, inputs.filter_op
    h0 = drop(jax.nn.relu(project_features(hidden_map, inputs, masks)), masks.h)
    epsilon = jnp.asarray(hparams.epsilon, dtype=h0.dtype)

    def layer(h: Array, own: tuple[Array, Gates, Array | None]) -> tuple[Array, None]:
        number, gates, mask = own

        def go_on(h: Array) -> Array:
            weights = drop(gate(op, h, *gates), mask)
            new = epsilon * h0 + weighted_sum(edges, weights, h)
            return jnp.where(number < jnp.asarray(hparams.depth), new, h)

        return jax.lax.cond(number < max_depth, go_on, lambda h: h, h), None

    numbers = jnp.arange(config.layers)
    edge_masks = None if masks.edge is None else masks.edge.T
    h, _ = jax.lax.scan(layer, h0, (numbers, gates, edge_masks))
    return BaselineOutput(affine(out_map, h))


def _fagcn_mask_shapes(
    params: BaselineParams, inputs: Inputs, config: BaselineConfig
) -> dict[str, tuple[int, ...]]:
    num_edges, num_nodes = inputs.filter_op.senders.shape[0], inputs.features.shape[0]
    return {"h": (num_nodes, config.hidden), "edge": (num_edges, config.layers)}


GAT = Network(_init_gat, _gat_mask_shapes, _apply_gat)
FAGCN = Network(_init_fagcn, _fagcn_mask_shapes, _apply_fagcn)
