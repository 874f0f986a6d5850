"""The correlation S of positions in variant I (Eq. 6), in blocks.

S is N x N, but S P is a sum over nodes: each block of S is made, used and forgotten, in
the backward pass too. In the authors' form S is symmetric, and a block of rows i and
columns j serves rows j as well. On large graphs the sum may be estimated from a sample
of the nodes.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int, Key

# Rows of a block: large enough for fast products, on two cores too, and a block of S
# (1 MB in float32, 40 MB without symmetry on 20,000 nodes) stays small.
BLOCK_ROWS = 512


class Correlation(NamedTuple):
    """Parameters of S in variant I.

        S = σ(P W Pᵀ)                    without bias: a free W, as in the paper
        S = σ((P W + b)(P W + b)ᵀ)       with bias, as in the authors' code

    Example:
      >>> Correlation(w=jnp.eye(2)).bias is None
      True
    """

    w: Float[Array, "D D"]
    bias: Float[Array, " D"] | None = None


def correlate(
    correlation: Correlation, pos: Float[Array, "N D"]
) -> Float[Array, "N D"]:
    """The product S P of Eq. 6, in blocks: no N x N array, values or gradient.

    Example:
      >>> correlate(Correlation(w=jnp.zeros((1, 1))), jnp.ones((4, 1))).tolist()
      [[2.0], [2.0], [2.0], [2.0]]
    """
    num_nodes, width = pos.shape
    left = pos @ correlation.w
    if correlation.bias is None:

        @jax.checkpoint  # the backward pass makes each block of S again
        def rows(block: Float[Array, "R D"]) -> Float[Array, "R D"]:
            return jax.nn.sigmoid(block @ pos.T) @ pos

        blocks = jax.lax.map(rows, _to_blocks(left))
    else:
        q = left + correlation.bias[None, :]
        blocks = _symmetric_product(_to_blocks(q), _to_blocks(pos))
    return blocks.reshape(-1, width)[:num_nodes]


def draw_sample(
    key: Key[Array, ""], num_nodes: int, num_sampled: int
) -> Int[Array, " M"]:
    """Different nodes, each with the same chance; all, where there are no more.

    Example:
      >>> sorted(draw_sample(jax.random.key(0), 3, 3).tolist())
      [0, 1, 2]
    """
    shape = (min(num_sampled, num_nodes),)
    return jax.random.choice(key, num_nodes, shape, replace=False)


def correlate_sampled(
    correlation: Correlation, pos: Float[Array, "N D"], sample: Int[Array, " M"]
) -> Float[Array, "N D"]:
    """S P, estimated from some of the nodes.

        Σ_j S_ij P_j ≈ (N / M) Σ_{j in the sample} S_ij P_j

    The mean over samples is the sum itself; the sample of all nodes is exact. Costs
    N M numbers in the place of N².

    Example:
      >>> flat = Correlation(w=jnp.zeros((1, 1)))
      >>> correlate_sampled(flat, jnp.ones((4, 1)), jnp.asarray([0, 2])).tolist()
      [[2.0], [2.0], [2.0], [2.0]]
    """
    chosen, q = pos[sample], pos @ correlation.w
    if correlation.bias is None:
        others = chosen
    else:
        q = q + correlation.bias[None, :]
        others = q[sample]
    return len(pos) / len(sample) * jax.nn.sigmoid(q @ others.T) @ chosen


def _to_blocks(x: Float[Array, "N D"]) -> Float[Array, "B R D"]:
    num_nodes, width = x.shape
    num_blocks = math.ceil(num_nodes / BLOCK_ROWS)
    num_rows = math.ceil(num_nodes / num_blocks)
    padded = jnp.pad(x, ((0, -num_nodes % num_rows), (0, 0)))
    return padded.reshape(-1, num_rows, width)


@jax.custom_vjp
def _symmetric_product(
    q: Float[Array, "B R D"], p: Float[Array, "B R D"]
) -> Float[Array, "B R D"]:
    """σ(Q Qᵀ) P by blocks; rows that only fill a block have p = 0."""
    p_t = _transpose(p)

    def pair(i: Array, j: Array) -> tuple[Array, Array]:
        s = jax.nn.sigmoid(q[i] @ q[j].T)
        return s @ p[j], p_t[i] @ s

    return _sum_pairs(pair, len(q))


def _symmetric_bwd(qp: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    """Gradients (S (1 - S) ⊙ (G Pᵀ + P Gᵀ)) Q and S G."""
    q, p = qp
    q_t, g_t = _transpose(q), _transpose(g)
    g_p, p_g = jnp.concatenate([g, p], axis=2), jnp.concatenate([p, g], axis=2)

    def pair(i: Array, j: Array) -> Any:
        s = jax.nn.sigmoid(q[i] @ q[j].T)
        both = s * (1 - s) * (g_p[i] @ p_g[j].T)
        return (both @ q[j], s @ g[j]), (q_t[i] @ both, g_t[i] @ s)

    return _sum_pairs(pair, len(q))


_symmetric_product.defvjp(
    lambda q, p: (_symmetric_product(q, p), (q, p)), _symmetric_bwd
)


def _transpose(x: Float[Array, "B _ _"]) -> Float[Array, "B _ _"]:
    return jnp.swapaxes(x, 1, 2)


def _sum_pairs(pair: Callable[[Array, Array], Any], num_blocks: int) -> Any:
    """For each block, the sum of what all blocks give it.

    `pair(i, j)` is what block j gives to i, and what i gives to j, transposed: Xᵀ S,
    as XLA needs twice as long for Sᵀ X.
    """
    to_itself = jax.lax.map(lambda i: pair(i, i)[0], jnp.arange(num_blocks))
    nothing = jax.tree.map(lambda x: jnp.zeros_like(_transpose(x)), to_itself)

    def step(sums: Any, ij: tuple[Array, Array]) -> tuple[Any, None]:
        return tuple(
            jax.tree.map(lambda x, y, b=block: x.at[b].add(y), total, gift)
            for total, block, gift in zip(sums, ij, pair(*ij), strict=True)
        ), None

    rows, columns = map(jnp.asarray, np.triu_indices(num_blocks, 1))
    sums, _ = jax.lax.scan(step, (to_itself, nothing), (rows, columns))
    return jax.tree.map(lambda x, y: x + _transpose(y), *sums)


def correlate_lanes(
    is_on: Bool[Array, ""],
    correlation: Correlation,
    pos: Float[Array, "N L D"],
    sample: Int[Array, "_ M"] | None = None,
) -> Float[Array, "N L D"]:
    """S P of every lane in turn: each is a matrix product that fills the machine.

    Args:
      is_on: one flag for all lanes; without it the result is 0 and costs nothing.
      correlation: parameters with a lane axis in front, of length L or 1.
      pos: positions of every lane.
      sample: nodes that the sum is estimated from, lanes in front; None: all nodes.

    Returns:
      The products.

    Example:
      >>> off = jnp.asarray(False)
      >>> one_lane = Correlation(w=jnp.ones((1, 2, 2)))
      >>> correlate_lanes(off, one_lane, jnp.ones((3, 1, 2))).sum().tolist()
      0.0
    """

    def all_lanes(correlation: Correlation, pos: Array) -> Array:
        wide, own = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (pos.shape[1], *leaf.shape[1:])),
            (correlation, sample),
        )

        def one_lane(lane: Any) -> Array:
            correlation, pos, sample = lane
            if sample is None:
                return correlate(correlation, pos)
            return correlate_sampled(correlation, pos, sample)

        results = jax.lax.map(one_lane, (wide, jnp.moveaxis(pos, 1, 0), own))
        return jnp.moveaxis(results, 0, 1)

    operands = correlation, pos
    return jax.lax.cond(is_on, all_lanes, lambda _, p: jnp.zeros_like(p), *operands)
