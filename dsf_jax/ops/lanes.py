"""Lanes: independent runs that share one pass over the graph.

Under `jax.vmap` a sparse product on [B, N, C] would become B products, or one product
between two transposes. A function that takes its arrays with a *lane axis*, say
[N, L, C], can do better: the batch joins the lanes, [N, B * L, C], and the whole
function, loop included, runs once. `fold_lanes` teaches `vmap` that rule.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import custom_vmap, sequential_vmap


def fold_lanes(
    fn: Callable[..., Any],
    *,
    lane_axes: Sequence[int | None],
    out_axes: int | tuple[int, ...],
) -> Callable[..., Any]:
    """Give `fn` a batching rule that merges the batch into its lane axis.

    `fn` must treat lanes independently. An array whose lane axis has length 1 is shared
    by all lanes; every output has as many lanes as the input with the most.

    The result is not differentiable by itself: wrap it in `jax.custom_vjp`.

    Args:
      fn: function of arrays (or pytrees of arrays) with a lane axis.
      lane_axes: lane axis of each positional argument, None for one without lanes (an
        operator). A batch of those is not one product any more: it runs in sequence.
      out_axes: lane axis of the output, or of each output of a tuple.

    Returns:
      A function like `fn`, for which a vmapped call is one call with more lanes.

    Example:
      >>> double = fold_lanes(lambda x: 2 * x, lane_axes=(1,), out_axes=1)
      >>> jax.vmap(double)(jnp.ones((5, 3, 1))).shape  # one call on [3, 5 * 1]
      (5, 3, 1)
    """
    folded = custom_vmap(fn)

    @folded.def_vmap
    def rule(axis_size: int, in_batched: Any, *args: Any) -> tuple[Any, Any]:
        triples = list(zip(args, in_batched, lane_axes, strict=True))
        if any(jax.tree.leaves([b for _, b, axis in triples if axis is None])):
            in_axes = jax.tree.map(lambda b: 0 if b else None, tuple(in_batched))
            out = jax.vmap(sequential_vmap(folded), in_axes)(*args)
            return out, jax.tree.map(lambda _: True, out)
        lanes = max(
            leaf.shape[axis + is_batched]
            for arg, batched, axis in triples
            if axis is not None
            for leaf, is_batched in zip(
                jax.tree.leaves(arg), jax.tree.leaves(batched), strict=True
            )
        )

        def merge(axis: int, leaf: Array, is_batched: bool) -> Array:
            if not is_batched and leaf.shape[axis] == 1:
                return leaf  # shared by all lanes as it is
            leaf = leaf if is_batched else leaf[None]
            shape = list(leaf.shape)
            shape[0], shape[axis + 1] = axis_size, lanes
            leaf = jnp.moveaxis(jnp.broadcast_to(leaf, shape), 0, axis)
            return jax.lax.collapse(leaf, axis, axis + 2)

        def split(axis: int, leaf: Array) -> Array:
            shape = list(leaf.shape)
            shape[axis : axis + 1] = [axis_size, lanes]
            return jnp.moveaxis(leaf.reshape(shape), axis, 0)

        merged = [
            arg if axis is None else jax.tree.map(partial(merge, axis), arg, batched)
            for arg, batched, axis in triples
        ]
        out = jax.tree.map(
            lambda axis, part: jax.tree.map(partial(split, axis), part),
            *(out_axes, folded(*merged)),
        )
        return out, jax.tree.map(lambda _: True, out)

    return folded
