"""Weighted sums over orders, and their gradients, with lanes side by side.

    z = Σ_k w_k ⊙ q_k,    w_k constant over nodes or channels, or not

is linear in w and in q, so its gradients are of the same kind: with ⟨w, q, z⟩ for the
sum of all products, `_weigh` is its derivative by z, `_inner` by w, `_spread` by q, and
the derivatives of each are the other two, to any order. Arrays are [K1, N, L, C] with a
lane axis L as in `dsf_jax.ops.recurrence`, where the terms come from: under `jax.vmap`
the stack of terms, the largest array of a filter, keeps its layout.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from dsf_jax.ops.lanes import fold_lanes


def weigh_terms(
    weights: Float[Array, "K1 _ _"], terms: Float[Array, "K1 N C"]
) -> Float[Array, "N C"]:
    """Sum of the terms, each times its weight.

    Args:
      weights: [K1, N or 1, C or 1].
      terms: from `recurrence_terms`.

    Returns:
      The sum.

    Example:
      >>> import jax.numpy as jnp
      >>> weights = jnp.asarray([1.0, 10.0])[:, None, None]
      >>> weigh_terms(weights, jnp.asarray([[[1.0, 2.0]], [[3.0, 4.0]]])).tolist()
      [[31.0, 42.0]]
    """
    return _weigh(weights[:, :, None, :], terms[:, :, None, :])[:, 0, :]


def _run_weigh(
    w: Float[Array, "K1 _ _ _"], q: Float[Array, "K1 N _ C"]
) -> Float[Array, "N L C"]:
    # not a reduction: XLA runs through all terms at once, as they lie in memory
    return sum((w[k] * q[k] for k in range(1, len(q))), start=w[0] * q[0])


def _run_inner(
    q: Float[Array, "K1 N _ C"], z: Float[Array, "N _ C"], axes: tuple[int, ...]
) -> Float[Array, "K1 _ L _"]:
    products = q * z[None]
    if 1 in axes:  # as a matrix product: XLA's sum over nodes is six times slower
        num_orders, num_nodes = products.shape[:2]
        ones = jnp.ones((num_orders, 1, num_nodes), dtype=products.dtype)
        columns = ones @ products.reshape(num_orders, num_nodes, -1)
        products = columns.reshape(num_orders, 1, *products.shape[2:])
    return _sum_channels(products) if 3 in axes else products


def _sum_channels(x: Float[Array, "K1 _ L C"]) -> Float[Array, "K1 _ L 1"]:
    # there are few, and XLA's sum along the last axis is up to 15 times slower
    if x.shape[3] > 16:
        return x.sum(axis=3, keepdims=True)
    columns = (x[..., c : c + 1] for c in range(1, x.shape[3]))
    return sum(columns, start=x[..., :1])


def _run_spread(
    w: Float[Array, "K1 _ _ _"], z: Float[Array, "N _ C"]
) -> Float[Array, "K1 N L C"]:
    return w * z[None]


_folded_weigh = fold_lanes(_run_weigh, lane_axes=(2, 2), out_axes=1)
_folded_spread = fold_lanes(_run_spread, lane_axes=(2, 1), out_axes=2)


@jax.custom_vjp
def _weigh(w: Array, q: Array) -> Array:
    return _folded_weigh(w, q)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _inner(q: Array, z: Array, axes: tuple[int, ...]) -> Array:
    folded = fold_lanes(partial(_run_inner, axes=axes), lane_axes=(2, 1), out_axes=2)
    return folded(q, z)


@jax.custom_vjp
def _spread(w: Array, z: Array) -> Array:
    return _folded_spread(w, z)


def _shared_axes(w: Array) -> tuple[int, ...]:
    """Axes of nodes and channels along which weights are constant."""
    return tuple(axis for axis in (1, 3) if w.shape[axis] == 1)


_weigh.defvjp(
    lambda w, q: (_weigh(w, q), (w, q)),
    lambda wq, g: (_inner(wq[1], g, _shared_axes(wq[0])), _spread(wq[0], g)),
)
_spread.defvjp(
    lambda w, z: (_spread(w, z), (w, z)),
    lambda wz, g: (_inner(g, wz[1], _shared_axes(wz[0])), _weigh(wz[0], g)),
)


def _inner_fwd(q: Array, z: Array, axes: tuple[int, ...]) -> tuple[Array, Any]:
    return _inner(q, z, axes), (q, z)


def _inner_bwd(_: tuple[int, ...], qz: Any, g: Array) -> tuple[Array, Array]:
    return _spread(g, qz[1]), _weigh(g, qz[0])


_inner.defvjp(_inner_fwd, _inner_bwd)
