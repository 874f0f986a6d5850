"""The correlation S of positions in variant I (Eq. 6), in blocks of rows.

S is N x N, but S P is a sum over nodes without any coupling between rows: each block of
rows is made, used and forgotten, in the backward pass too.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float

# Rows of S at a time: 256 rows of 20,000 nodes are 20 MB in float32.
BLOCK_ROWS = 256


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
    """The product S P of Eq. 6, in blocks of rows: no N x N array, values or gradient.

    Example:
      >>> correlate(Correlation(w=jnp.zeros((1, 1))), jnp.ones((4, 1))).tolist()
      [[2.0], [2.0], [2.0], [2.0]]
    """
    left = pos @ correlation.w
    right = pos
    if correlation.bias is not None:
        left = right = left + correlation.bias[None, :]

    @jax.checkpoint  # the backward pass makes each block of S again
    def rows(block: Float[Array, "R D"]) -> Float[Array, "R D"]:
        return jax.nn.sigmoid(block @ right.T) @ pos

    num_nodes, width = pos.shape
    num_rows = min(BLOCK_ROWS, num_nodes)
    padded = jnp.pad(left, ((0, -num_nodes % num_rows), (0, 0)))
    blocks = jax.lax.map(rows, padded.reshape(-1, num_rows, width))
    return blocks.reshape(-1, width)[:num_nodes]


def correlate_lanes(
    is_on: Bool[Array, ""], correlation: Correlation, pos: Float[Array, "N L D"]
) -> Float[Array, "N L D"]:
    """S P of every lane in turn: each is a matrix product that fills the machine.

    Args:
      is_on: one flag for all lanes; without it the result is 0 and costs nothing.
      correlation: parameters with a lane axis in front, of length L or 1.
      pos: positions of every lane.

    Returns:
      The products.

    Example:
      >>> off = jnp.asarray(False)
      >>> one_lane = Correlation(w=jnp.ones((1, 2, 2)))
      >>> correlate_lanes(off, one_lane, jnp.ones((3, 1, 2))).sum().tolist()
      0.0
    """

    def all_lanes(correlation: Correlation, pos: Array) -> Array:
        wide = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (pos.shape[1], *leaf.shape[1:])),
            correlation,
        )
        results = jax.lax.map(
            lambda lane: correlate(*lane), (wide, jnp.moveaxis(pos, 1, 0))
        )
        return jnp.moveaxis(results, 0, 1)

    def no_lanes(_: Correlation, pos: Array) -> Array:
        return jnp.zeros_like(pos)

    return jax.lax.cond(is_on, all_lanes, no_lanes, correlation, pos)
