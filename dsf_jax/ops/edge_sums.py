"""Sums over neighbours with a weight for every edge, made from its two ends.

    z_i = Σ_j w_ij x_j,    w_ij = w(p_i + q_j)

The gradients with respect to p and q are sums of the same kind, with the slopes w'_ij
in place of the weights: with g for the gradient with respect to z,

    ∂p_i = g_i · Σ_j w'_ij x_j,    ∂q_j = x_j · Σ_i w'_ij g_i,    ∂x_j = Σ_i w_ij g_i

so nothing is gathered for an edge and summed for a node but what a product gathers and
sums anyway. Runs side by side have their own weights on one pattern.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from dsf_jax.ops.lanes import fold_lanes
from dsf_jax.ops.matrix import Pattern, SparseFeatures, multiply

BLOCK = 2048  # edges at a time; 512 to 8192 differ by about 10 %


def edge_sum(
    pattern: SparseFeatures,
    weights: Float[Array, "E M"],
    slopes: Float[Array, "E M"],
    p: Float[Array, "N M"],
    q: Float[Array, "N M"],
    x: Float[Array, "N M U"],
) -> Float[Array, "N M U"]:
    """Sums z_i = Σ_j w_ij x_j over the entries (i, j) of a square pattern, M at once.

    Weights and slopes are constants under differentiation: the caller computes both
    from p and q, times any factor that is constant, such as a dropout mask. Gradients
    go to p and q by the slopes.

    Args:
      pattern: its entries are the edges; their values are not used.
      weights: w(p_i + q_j) of each entry, in CSR order, for each of M heads.
      slopes: w'(p_i + q_j).
      p: number of each receiver.
      q: number of each sender.
      x: signal of each head.

    Returns:
      The sums.

    Example:
      >>> import scipy.sparse as sp
      >>> edge = SparseFeatures.from_scipy(sp.csr_array([[0.0, 1.0], [1.0, 0.0]]))
      >>> zeros, x = jnp.zeros((2, 1)), jnp.asarray([[[1.0]], [[2.0]]])
      >>> weights = jnp.asarray([[0.5], [3.0]])
      >>> edge_sum(edge, weights, jnp.zeros((2, 1)), zeros, zeros, x)[:, 0, 0].tolist()
      [1.0, 3.0]
    """
    constants = jax.lax.stop_gradient((weights, slopes))
    lanes = (leaf[None] for leaf in (*constants, p, q, x))
    return _edge_sum(pattern, *lanes)[0]


def unit_matrix(heads: int, units: int, dtype: Any) -> Float[Array, "O M"]:
    """0/1 matrix [M U, M] that sums the units of each head; its transpose repeats.

    As matrix products both are ten times faster than XLA's sums over a short axis, and
    so are their gradients. They stand for sums: multiply at the highest precision.

    Example:
      >>> (jnp.asarray([[1.0, 2.0, 3.0, 4.0]]) @ unit_matrix(2, 2, float)).tolist()
      [[3.0, 7.0]]
    """
    return jnp.repeat(jnp.eye(heads, dtype=dtype), units, axis=0)


def _run_sum(
    pattern: Pattern, values: Float[Array, "_ E M"], x: Float[Array, "_ N M U"]
) -> Float[Array, "L N M U"]:
    """Heads side by side in one sorted segment sum, a block of edges at a time.

    A sparse product for each head would have few columns: 8 heads of 8 units cost it
    five times as much as 64 columns. Blocks, and lanes one after another, stay in
    cache: an array of [E, M U] would not.
    """
    _, num_nodes, heads, units = x.shape
    if heads == 1:
        return multiply(pattern, values[..., 0], x[..., 0, :])[:, :, None, :]
    lanes = max(values.shape[0], x.shape[0])

    def one_lane(own: tuple[Array, Array]) -> Array:
        weights, signal = own
        wide = signal.reshape(num_nodes, heads * units)

        def add(z: Array, block: tuple[Array, Array, Array]) -> tuple[Array, None]:
            weights, senders, receivers = block
            messages = jnp.repeat(weights, units, axis=1) * wide[senders]
            rows = z.at[receivers]
            return rows.add(messages, mode="drop", indices_are_sorted=True), None

        blocks = (
            _in_blocks(weights, 0),
            _in_blocks(pattern.columns, 0),
            _in_blocks(pattern.rows, num_nodes),  # past the end: dropped
        )
        return jax.lax.scan(add, jnp.zeros_like(wide), blocks)[0]

    every = tuple(jnp.broadcast_to(a, (lanes, *a.shape[1:])) for a in (values, x))
    return jax.lax.map(one_lane, every).reshape(lanes, num_nodes, heads, units)


def _in_blocks(x: Array, fill: int) -> Array:
    """The first axis as [blocks, BLOCK], filled up at the end."""
    missing = -x.shape[0] % BLOCK
    full = jnp.pad(x, [(0, missing), *[(0, 0)] * (x.ndim - 1)], constant_values=fill)
    return full.reshape(-1, BLOCK, *x.shape[1:])


_sum = fold_lanes(_run_sum, lane_axes=(None, 0, 0), out_axes=0)


@jax.custom_vjp
def _edge_sum(
    edges: SparseFeatures, weights: Array, slopes: Array, p: Array, q: Array, x: Array
) -> Array:
    return _sum(edges.entries, weights, x)


def _edge_sum_bwd(residuals: Any, g: Array) -> tuple[Any, ...]:
    edges, weights, slopes, x = residuals
    p_gradient = _inner(g, _sum(edges.entries, slopes, x))
    q_gradient = _inner(x, _sum(edges.transposed, slopes[:, edges.order], g))
    x_gradient = _sum(edges.transposed, weights[:, edges.order], g)
    return None, None, None, p_gradient, q_gradient, x_gradient


def _inner(
    x: Float[Array, "_ N M U"], y: Float[Array, "_ N M U"]
) -> Float[Array, "L N M"]:
    """Products x_i·y_i of every head."""
    *_, heads, units = x.shape
    products = jax.lax.collapse(x * y, 2)
    return jnp.matmul(products, unit_matrix(heads, units, x.dtype), precision="highest")


_edge_sum.defvjp(lambda *args: (_edge_sum(*args), (*args[:3], args[5])), _edge_sum_bwd)
