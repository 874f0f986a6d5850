"""GAT and FAGCN, which weigh every edge by its two ends.

Both weigh an edge by a function of one number for each end: sums over neighbours, with
their gradients, are `dsf_jax.ops.edge_sums.edge_sum`. No array has N x N entries.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jraph
from jax import Array
from jaxtyping import Float, Key

from dsf_jax.models.layers import (
    Inputs,
    Linear,
    Perceptron,
    affine,
    drop,
    glorot,
    hidden_features,
    init_linear,
)
from dsf_jax.models.model import Flags, Model, Output, Run
from dsf_jax.models.settings import HyperParams
from dsf_jax.ops.edge_sums import edge_sum, unit_matrix
from dsf_jax.ops.matrix import project
from dsf_jax.ops.operator import Operator

NEGATIVE_SLOPE = 0.2  # of GAT's LeakyReLU


class AttentionLayer(NamedTuple):
    """A layer of GAT with heads of U units each."""

    w: Float[Array, "I O"]  # O = heads x U
    receiver: Float[Array, "M U"]  # a_dst of each head
    sender: Float[Array, "M U"]  # a_src
    bias: Float[Array, " O"]


class Gates(NamedTuple):
    """Gates of FAGCN, one for each layer."""

    receiver: Float[Array, "L H"]
    sender: Float[Array, "L H"]
    bias: Float[Array, " L"]


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
      >>> from dsf_jax import Graph
      >>> from dsf_jax.ops import a_tilde
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
      >>> from dsf_jax import Graph
      >>> from dsf_jax.ops import a_hat
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> gate(a_hat(edge), jnp.ones((2, 1)), -jnp.ones((2, 1)))[:, 0].tolist()
      [0.0, 0.0]
    """
    return jnp.tanh(p[op.receivers] + q[op.senders])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gat(Model):
    """Two layers h_i ← Σ_j drop(α_ij) W h_j + b: heads side by side, ELU; one head.

    Example:
      >>> Gat().heads
      8
    """

    heads: int = 8  # of the first layer, together as wide as `hidden`
    weighs_edges = True
    least = Model.least | {"heads": 1}
    reads = Model.reads | {"dropout_edge"}

    def __post_init__(self) -> None:
        """Check what the annotations cannot."""
        super().__post_init__()
        if self.hidden % self.heads > 0:
            raise ValueError(
                f"hidden must be a multiple of heads, got {self.hidden} for "
                f"{self.heads} heads; each head has hidden / heads units."
            )

    @property
    def signal_width(self) -> int:
        """All heads."""
        return self.hidden

    def start(self, key: Key[Array, ""], run: Run, num_classes: int) -> Any:
        """Glorot's uniform rule, biases 0."""

        def layer(key: Array, num_in: int, heads: int, units: int) -> AttentionLayer:
            w_key, receiver_key, sender_key = jax.random.split(key, 3)
            return AttentionLayer(
                w=glorot(w_key, (num_in, heads * units)),
                receiver=glorot(receiver_key, (heads, units)),
                sender=glorot(sender_key, (heads, units)),
                bias=jnp.zeros(heads * units),
            )

        hidden_key, out_key = jax.random.split(key)
        num_features, units = run.inputs.features.shape[1], self.hidden // self.heads
        return (
            layer(hidden_key, num_features, self.heads, units),
            layer(out_key, self.hidden, 1, num_classes),
        )

    def mask_shapes(self, params: Any, inputs: Inputs) -> dict[str, tuple[int, ...]]:
        """Of both layers' edges side by side, head by head."""
        num_edges = len(inputs.filter_op.senders)
        return super().mask_shapes(params, inputs) | {
            "edge": (num_edges, self.heads + 1)
        }

    def forward(self, params: Any, run: Run) -> Output:
        """Sums of numerators over sums of numerators."""
        edges, op, masks = run.inputs.edges, run.inputs.filter_op, run.masks
        assert edges is not None

        def layer(
            x: Any, mask: Array | None, maps: AttentionLayer, columns: slice
        ) -> Array:
            heads, units = maps.receiver.shape
            mapped = project(x, maps.w, mask)
            of_units = unit_matrix(heads, units, mapped.dtype)
            p, q = (
                mapped @ (of_units * a.reshape(-1, 1))
                for a in (maps.receiver, maps.sender)
            )
            weights, slopes = _exponentials(op, p, q)
            ones = jnp.ones((*p.shape, 1), mapped.dtype)
            total = edge_sum(edges, weights, slopes, p, q, ones)[:, :, 0]
            kept = None if masks.edge is None else masks.edge[:, columns]
            weights, slopes = drop(weights, kept), drop(slopes, kept)
            by_heads = mapped.reshape(-1, heads, units)
            summed = edge_sum(edges, weights, slopes, p, q, by_heads)
            scale = jnp.matmul(1 / total, of_units.T, precision="highest")
            return summed.reshape(mapped.shape) * scale + maps.bias[None, :]

        first, second = params
        hidden = layer(run.inputs.features, masks.x, first, slice(None, -1))
        return Output(layer(jax.nn.elu(hidden), masks.h, second, slice(-1, None)))


class GatedMaps(NamedTuple):
    """Parameters of FAGCN."""

    ends: Perceptron  # t_1 and t_2
    gates: Gates


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fagcn(Model):
    """Layers h_i ← ε h_{0,i} + Σ_j drop(g_ij Â_ij) h_j between two maps.

    Example:
      >>> Fagcn().layers
      8
    """

    layers: int = 8
    filter_op = "a_hat"
    weighs_edges = True
    least = Model.least | {"layers": 1}
    reads = Model.reads | {"dropout_edge", "epsilon", "depth"}

    @property
    def signal_width(self) -> int:
        """Layers are kept."""
        return 2 * self.hidden

    def flags(self, hparams: HyperParams) -> Flags:
        """The largest depth of a job: later layers are skipped."""
        return {"max_depth": jnp.max(jnp.asarray(hparams.depth), initial=1)}

    def start(self, key: Key[Array, ""], run: Run, num_classes: int) -> GatedMaps:
        """Weights normal, deviation √2 √(2 / (fan-in + fan-out)); biases uniform."""

        def linear(key: Array, num_in: int, num_out: int) -> Linear:
            w_key, bias_key = jax.random.split(key)
            deviation = 2 / (num_in + num_out) ** 0.5
            bias = init_linear(bias_key, num_in, num_out).bias
            return Linear(deviation * jax.random.normal(w_key, (num_in, num_out)), bias)

        hidden_key, out_key, gate_key = jax.random.split(key, 3)
        hidden = self.hidden
        gate_maps = jax.vmap(lambda key: linear(key, 2 * hidden, 1))(
            jax.random.split(gate_key, self.layers)
        )
        w, bias = gate_maps.w[:, :, 0], gate_maps.bias[:, 0]
        return GatedMaps(
            ends=Perceptron(
                hidden=linear(hidden_key, run.inputs.features.shape[1], hidden),
                out=linear(out_key, hidden, num_classes),
            ),
            gates=Gates(w[:, :hidden], w[:, hidden:], bias),
        )

    def mask_shapes(self, params: Any, inputs: Inputs) -> dict[str, tuple[int, ...]]:
        """Of every layer's edges."""
        num_edges = len(inputs.filter_op.senders)
        return super().mask_shapes(params, inputs) | {"edge": (self.layers, num_edges)}

    def forward(self, params: GatedMaps, run: Run) -> Output:
        """Layers from the depth of the run on are passed by."""
        (hidden_map, out_map), gates = params
        inputs, hparams, masks, flags, _ = run
        edges, op = inputs.edges, inputs.filter_op
        assert edges is not None
        assert hidden_map is not None
        h0 = hidden_features(hidden_map, inputs, masks)
        epsilon = jnp.asarray(hparams.epsilon, dtype=h0.dtype)

        def layer(
            h: Array, own: tuple[Array, Gates, Array | None]
        ) -> tuple[Array, None]:
            number, gates, mask = own

            def go_on(h: Array) -> Array:
                p = (h @ gates.receiver + gates.bias)[:, None]
                q = (h @ gates.sender)[:, None]
                g = gate(op, p, q)
                a = drop(edges.values.astype(h.dtype), mask)[:, None]
                summed = edge_sum(edges, a * g, a * (1 - g**2), p, q, h[:, None, :])
                new = epsilon * h0 + summed[:, 0, :]
                return jnp.where(number < jnp.asarray(hparams.depth), new, h)

            is_used = number < flags.get("max_depth", self.layers)
            return jax.lax.cond(is_used, go_on, lambda h: h, h), None

        numbers = jnp.arange(self.layers)
        h, _ = jax.lax.scan(layer, h0, (numbers, gates, masks.edge))
        return Output(affine(out_map, h))
