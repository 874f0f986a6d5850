"""Iterative positional encoding: positions P^(k), local weights θ, orthogonality loss.

    P^(k) = tanh( η1 P^(0) + (1 - η1) [(1 + η2) op P^(k-1) - η2 S P^(k-1)] )    (Eq. 6)
    t_{k,i} = W^(k)ᵀ P_i^(k) + b^(k),    θ_{k,i} = σ_p(t_{k,i})                 (Eq. 7)

for k = 1..K, with S the correlation of positions. Variant R has η2 = 0 and no S at all.
One scan carries P and emits t; its gradient is written by hand and needs only the
P^(k), and under `jax.vmap` the runs stay side by side in [N, L, D]
(`dsf_jax.ops.lanes`).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from dsf_jax.bases import Scalar
from dsf_jax.ops.correlation import Correlation, correlate_lanes
from dsf_jax.ops.lanes import fold_lanes
from dsf_jax.ops.nodes import keep_nodes, mean_nodes, total
from dsf_jax.ops.operator import Operator, propagate, propagate_lanes


class Heads(NamedTuple):
    """Parameters of Eq. 7: one map from position to weight per order.

    Example:
      >>> Heads(w=jnp.ones((11, 64)), bias=jnp.zeros(11)).w.shape
      (11, 64)
    """

    w: Float[Array, "K1 D"]
    bias: Float[Array, " K1"]


class Encoding(NamedTuple):
    """What `encode` returns."""

    logits: Float[Array, "K1 N"]  # t_{k,i}; θ = σ_p(t)
    pos: Float[Array, "N D"]  # the last positions P^(K), for the orthogonality loss
    positions: Float[Array, "K1 N D"]  # all of them, to read: no gradient


def encode(
    op: Operator,
    pos0: Float[Array, "N D"],
    heads: Heads,
    correlation: Correlation | None = None,
    *,
    eta1: Scalar,
    eta2: Scalar = 0.0,
    scale: Scalar = 1.0,
    has_correlation: bool | Bool[Array, ""] = True,
    sample: Int[Array, " M"] | None = None,
) -> Encoding:
    """Run the recurrence (Eq. 6) and read a weight off each step (Eq. 7).

    K is the number of heads less one. Reverse mode only, to first order; the settings
    after `*` are constant under differentiation.

    Args:
      op: `a_hat(graph)` as in the paper. The authors ran `a_tilde(graph)`, and
        `a_plus_i(graph)` in the Jacobi models.
      pos0: P^(0).
      heads: maps of Eq. 7.
      correlation: parameters of S; None for variant R, where η2 = 0.
      eta1: pull towards P^(0), in [0, 1]. With 1 every P^(k) is tanh(P^(0)).
      eta2: strength of S, in [0, 1].
      scale: factor of S; 1 for the sum over all nodes as published, which saturates
        the positions, 1/N for its mean.
      has_correlation: False skips S, for all runs of a batch: for queues in which no
        run has (1 - eta1) eta2 > 0.
      sample: nodes that the sums of S over all nodes are estimated from; None: all.

    Returns:
      The logits of every order, the last positions, and those of every order.

    Example:
      >>> from dsf_jax import Graph
      >>> from dsf_jax.ops import a_tilde
      >>> op = a_tilde(Graph.from_edges([(0, 1), (1, 2)], num_nodes=3))
      >>> heads = Heads(w=jnp.ones((4, 2)), bias=jnp.zeros(4))
      >>> encoding = encode(op, jnp.ones((3, 2)), heads, eta1=0.5)
      >>> encoding.logits.shape, encoding.positions.shape
      ((4, 3), (4, 3, 2))
    """
    strengths = jnp.stack(
        [jnp.asarray(value, dtype=pos0.dtype) for value in (eta1, eta2, scale)]
    )
    logits, pos, later = _encode(
        op,
        jnp.asarray(has_correlation),
        jax.lax.stop_gradient(strengths)[:, None],
        None if sample is None else sample[None],
        jax.tree.map(lambda leaf: leaf[None], correlation),
        jax.tree.map(lambda leaf: leaf[:, None], heads),
        pos0[:, None],
    )
    stack = jnp.concatenate([pos0[None], later[:, :, 0]])
    return Encoding(logits[:, 0], pos[:, 0], jax.lax.stop_gradient(stack))


def objective(
    op: Operator,
    pos: Float[Array, "N D"],
    x_pos: Float[Array, "N D"],
    *,
    kappa1: Scalar,
    kappa2: Scalar,
) -> Float[Array, ""]:
    """The objective that the recurrence descends (Eq. 4).

        L_p = ‖X_p - P‖²_F + κ1 tr(Pᵀ L̂ P) + κ2 ‖PᵀP - I‖²_F,    L̂ = I - op

    Example:
      >>> from dsf_jax import Graph
      >>> from dsf_jax.ops import a_hat
      >>> op = a_hat(Graph.from_edges([(0, 1)], num_nodes=2))
      >>> pos = jnp.asarray([[1.0], [0.0]])
      >>> float(objective(op, pos, pos, kappa1=2.0, kappa2=1.0))
      2.0
    """
    smoothness = jnp.sum(pos * (pos - propagate(op, pos)))
    gram = pos.T @ pos - jnp.eye(pos.shape[1], dtype=pos.dtype)
    distance = jnp.sum((x_pos - pos) ** 2)
    return distance + kappa1 * smoothness + kappa2 * jnp.sum(gram**2)


def gradient_step(
    op: Operator,
    pos: Float[Array, "N D"],
    x_pos: Float[Array, "N D"],
    *,
    eta1: Scalar,
    eta2: Scalar,
) -> Float[Array, "N D"]:
    """One step of gradient descent on `objective`, of size η1 / 2 (Eq. 5).

        P' = η1 X_p + (1 - η1) [(1 + η2) op - η2 P Pᵀ] P
        η1 = 1 / (1 + κ1 - 2 κ2),    η2 = 2 κ2 / (κ1 - 2 κ2)

    Eq. 6 puts σ(P W Pᵀ) in the place of P Pᵀ.

    Example:
      >>> from dsf_jax import Graph
      >>> from dsf_jax.ops import a_hat
      >>> op = a_hat(Graph.from_edges([(0, 1)], num_nodes=2))
      >>> pos = jnp.asarray([[1.0], [0.0]])
      >>> gradient_step(op, pos, pos, eta1=0.5, eta2=1.0).tolist()
      [[0.0], [1.0]]
    """
    smooth = (1 + eta2) * propagate(op, pos) - eta2 * pos @ (pos.T @ pos)
    return eta1 * x_pos + (1 - eta1) * smooth


def orthogonality_loss(
    pos: Float[Array, "N D"],
    *,
    normalize: bool | Bool[Array, ""] = True,
    is_node: Bool[Array, " N"] | None = None,
) -> Float[Array, ""]:
    """How far the columns of the positions are from orthogonal, divided by D.

        ‖P̂ᵀP̂ - I‖²_F / D                  normalised: Eq. 8, its transpose restored;
                                           columns of P̂ centred, then of length 1
        Σ_{i≠j} (PᵀP)²_{ij} / D            not normalised: two of the three published
                                           settings of variant R

    Args:
      pos: the last positions P^(K).
      normalize: which of the two; may be traced.
      is_node: rows that count, where some are there to fill up; by default all.

    Returns:
      The loss.

    Example:
      >>> float(orthogonality_loss(jnp.asarray([[1.0, 1.0], [-1.0, 1.0]])))
      0.5
      >>> columns = jnp.asarray([[1.0, 1.0], [1.0, 1.0]])
      >>> float(orthogonality_loss(columns, normalize=False))
      4.0
    """
    pos = keep_nodes(pos, is_node)
    centred = keep_nodes(pos - mean_nodes(pos, is_node)[None, :], is_node)
    # one Gram matrix serves both forms, and its diagonal has the lengths of the columns
    gram = total(_gram(jnp.where(normalize, centred, pos)))
    squares = jnp.diagonal(gram)
    # a constant column stays 0, gradient included
    scale = jax.lax.rsqrt(jnp.where(squares > 0, squares, 1.0))
    gram = jnp.where(normalize, scale[:, None] * gram * scale[None, :], gram)
    identity = jnp.eye(pos.shape[1], dtype=pos.dtype)
    difference = jnp.where(normalize, gram - identity, gram * (1 - identity))
    return jnp.sum(difference**2) / pos.shape[1]


@jax.custom_vjp
def _gram(x: Float[Array, "N D"]) -> Float[Array, "D D"]:
    """XᵀX with one product in its gradient, X (G + Gᵀ), where autodiff makes two."""
    return x.T @ x


_gram.defvjp(lambda x: (_gram(x), x), lambda x, g: (x @ (g + g.T),))


# Lane layout: pos [N, L, D], stacks of it [K, N, L, D], heads [K1, L, D] and [K1, L],
# logits [K1, L, N], strengths (η1, η2, scale) [3, L], sample [L, M], correlation
# [L, ...]. Operator and flag have no lanes.
_LANES = (None, None, 1, 0, 0, 1, 1)


def _forward(
    op: Operator,
    is_on: Bool[Array, ""],
    strengths: Float[Array, "3 _"],
    sample: Int[Array, "_ M"] | None,
    correlation: Correlation | None,
    heads: Heads,
    pos0: Float[Array, "N _ D"],
) -> tuple[Array, Array, Array]:
    """Logits, the last positions, and P^(1)..P^(K) for the gradient."""
    of_s = jax.tree.leaves((sample, correlation))
    own = (*map(len, of_s), *(h.shape[1] for h in heads))
    lanes = max(*own, strengths.shape[1], pos0.shape[1])
    pos0 = jnp.broadcast_to(pos0, (pos0.shape[0], lanes, pos0.shape[2]))
    eta1, eta2, scale = strengths[:, None, :, None]

    def step(pos: Array, head: Heads) -> tuple[Array, tuple[Array, Array]]:
        smooth = (1 + eta2) * propagate_lanes(op, pos)
        if correlation is not None:
            correlated = correlate_lanes(is_on, correlation, pos, sample)
            smooth = smooth - eta2 * scale * correlated
        pos = jnp.tanh(eta1 * pos0 + (1 - eta1) * smooth)
        return pos, (_read_head(head, pos), pos)

    first = jax.tree.map(lambda leaf: leaf[0], heads)
    rest = jax.tree.map(lambda leaf: leaf[1:], heads)
    last, (logits, stack) = jax.lax.scan(step, pos0, rest)
    return jnp.concatenate([_read_head(first, pos0)[None], logits]), last, stack


def _backward(
    op: Operator,
    is_on: Bool[Array, ""],
    strengths: Float[Array, "3 _"],
    sample: Int[Array, "_ M"] | None,
    correlation: Correlation | None,
    heads: Heads,
    pos0: Float[Array, "N _ D"],
    stack: Float[Array, "K N _ D"],
    logits_bar: Float[Array, "K1 _ N"],
    last_bar: Float[Array, "N _ D"],
) -> tuple[Correlation | None, Heads, Array]:
    """Gradients of the parameters and of P^(0), from the last step to the first."""
    lanes = max(stack.shape[2], logits_bar.shape[1], last_bar.shape[1])
    shape = (pos0.shape[0], lanes, pos0.shape[2])
    pos0, last_bar = jnp.broadcast_to(pos0, shape), jnp.broadcast_to(last_bar, shape)
    logits_bar = jnp.broadcast_to(logits_bar, (len(logits_bar), lanes, len(pos0)))
    eta1, eta2, scale = strengths[:, None, :, None]
    correlation = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (lanes, *leaf.shape[1:])), correlation
    )
    correlation_bar = jax.tree.map(jnp.zeros_like, correlation)
    heads_bar = Heads(
        w=jnp.concatenate(
            [_sum_nodes(logits_bar[:1], pos0[None]), _sum_nodes(logits_bar[1:], stack)]
        ),
        bias=logits_bar.sum(axis=2),
    )

    def read_back(k: Any) -> Array:  # what t_k adds to the gradient of P^(k)
        return logits_bar[k].T[:, :, None] * heads.w[k][None]

    def step_back(raw_bar: Array, before: Array) -> tuple[Array, Correlation | None]:
        """From before the tanh of one step to the positions before that step."""
        before_bar = (1 - eta1) * (1 + eta2) * propagate_lanes(op, raw_bar)
        if correlation is None:
            return before_bar, None
        before = jnp.broadcast_to(before, shape)
        _, pullback = jax.vjp(
            lambda c, p: correlate_lanes(is_on, c, p, sample), correlation, before
        )
        own_bar, p_bar = pullback(-eta2 * scale * (1 - eta1) * raw_bar)
        return before_bar + p_bar, own_bar

    # carries the gradient before the tanh, as product and sum both read that: XLA would
    # make it twice, or copy it, if it were made and used within a step
    def step(carry: Any, k: Array) -> tuple[Any, None]:
        raw_bar, total_bar, correlation_bar = carry
        pos = jax.lax.dynamic_index_in_dim(stack, k - 1, keepdims=False)
        pos_bar, own_bar = step_back(raw_bar, pos)
        correlation_bar = jax.tree.map(jnp.add, correlation_bar, own_bar)
        # tanh' = 1 - tanh²
        raw_bar = (1 - pos**2) * (pos_bar + read_back(k))
        return (raw_bar, total_bar + raw_bar, correlation_bar), None

    order = len(stack)
    if order == 0:
        return correlation_bar, heads_bar, last_bar + read_back(0)
    raw_bar = (1 - stack[-1] ** 2) * (last_bar + read_back(order))
    carry = (raw_bar, raw_bar, correlation_bar)
    carry, _ = jax.lax.scan(step, carry, jnp.arange(1, order), reverse=True)
    raw_bar, total_bar, correlation_bar = carry
    pos_bar, own_bar = step_back(raw_bar, pos0)
    correlation_bar = jax.tree.map(jnp.add, correlation_bar, own_bar)
    pos0_bar = pos_bar + eta1 * total_bar + read_back(0)
    return correlation_bar, heads_bar, pos0_bar


_encode = jax.custom_vjp(fold_lanes(_forward, lane_axes=_LANES, out_axes=(1, 1, 2)))
_gradients = fold_lanes(_backward, lane_axes=(*_LANES, 2, 1, 1), out_axes=(0, 1, 1))
_encode.defvjp(
    lambda *args: (out := _encode(*args), (*args, out[2])),
    lambda kept, bars: (*[None] * 4, *_gradients(*kept, *bars[:2])),
)


# Sums as matrix products, which read the positions once: XLA's own are slower, and an
# einsum over lanes would change the layout of the positions first.


def _read_head(head: Heads, pos: Float[Array, "N L D"]) -> Float[Array, "L N"]:
    if pos.shape[1] == 1:
        return (pos[:, 0] @ head.w[0])[None] + head.bias[:, None]
    ones = jnp.ones(pos.shape[2], dtype=pos.dtype)
    return ((pos * head.w[None]) @ ones).T + head.bias[:, None]


def _sum_nodes(
    t: Float[Array, "K L N"], pos: Float[Array, "K N _ D"]
) -> Float[Array, "K L D"]:
    # of every pair of lanes, which costs less than a pass that writes the products
    (num_orders, lanes, num_nodes), width = t.shape, pos.shape[3]
    pos = jnp.broadcast_to(pos, (num_orders, num_nodes, lanes, width))
    sums = t @ pos.reshape(num_orders, num_nodes, lanes * width)
    lane = jnp.arange(lanes)
    return sums.reshape(num_orders, lanes, lanes, width)[:, lane, lane]
