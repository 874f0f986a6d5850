"""Lanes: independent runs that share one pass over the graph.

Under `jax.vmap` a sparse product on [B, N, C] would become B products, or one product
between two transposes. A function that takes its arrays with a *lane axis*, say
[N, L, C], can do better: the batch joins the lanes, [N, B * L, C], and the whole
function, loop included, runs once. `fold_lanes` teaches `vmap` that rule.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import custom_vmap


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
        without_lanes = [
            batched
            for batched, axis in zip(in_batched, lane_axes, strict=True)
            if axis is None
        ]
        if any(jax.tree.leaves(without_lanes)):
            out = _one_by_one(folded, axis_size, in_batched, args)
        else:
            out = _all_at_once(folded, axis_size, in_batched, args, lane_axes, out_axes)
        return out, jax.tree.map(lambda _: True, out)

    return folded


def num_lanes(args: Sequence[Any], lane_axes: Sequence[int | None]) -> int:
    """Lanes of the argument that has the most.

    Example:
      >>> num_lanes([jnp.ones((3, 1)), jnp.ones((4, 2, 5))], [1, 0])
      4
    """
    return max(
        leaf.shape[axis]
        for arg, axis in zip(args, lane_axes, strict=True)
        if axis is not None
        for leaf in jax.tree.leaves(arg)
    )


def _all_at_once(
    fn: Callable[..., Any],
    axis_size: int,
    in_batched: Any,
    args: Sequence[Any],
    lane_axes: Sequence[int | None],
    out_axes: int | tuple[int, ...],
) -> Any:
    """Merge the batch into the lanes, call once, take the batch out again."""
    lanes = max(
        leaf.shape[axis + is_batched]
        for arg, batched, axis in zip(args, in_batched, lane_axes, strict=True)
        if axis is not None
        for leaf, is_batched in zip(
            jax.tree.leaves(arg), jax.tree.leaves(batched), strict=True
        )
    )

    def merge(leaf: Array, is_batched: bool, axis: int) -> Array:
        if not is_batched and leaf.shape[axis] == 1:
            return leaf  # shared by all lanes as it is
        leaf = leaf if is_batched else leaf[None]
        shape = list(leaf.shape)
        shape[0], shape[axis + 1] = axis_size, lanes
        leaf = jnp.moveaxis(jnp.broadcast_to(leaf, shape), 0, axis)
        return jax.lax.collapse(leaf, axis, axis + 2)

    def split(leaf: Array, axis: int) -> Array:
        shape = list(leaf.shape)
        shape[axis : axis + 1] = [axis_size, lanes]
        return jnp.moveaxis(leaf.reshape(shape), axis, 0)

    def split_all(out: Any, axis: int) -> Any:
        return jax.tree.map(lambda leaf: split(leaf, axis), out)

    merged = [
        arg
        if axis is None
        else jax.tree.map(lambda leaf, b, axis=axis: merge(leaf, b, axis), arg, batched)
        for arg, batched, axis in zip(args, in_batched, lane_axes, strict=True)
    ]
    out = fn(*merged)
    if isinstance(out_axes, int):
        return split_all(out, out_axes)
    return tuple(map(split_all, out, out_axes))


def _one_by_one(
    fn: Callable[..., Any], axis_size: int, in_batched: Any, args: Sequence[Any]
) -> Any:
    """Loop over the batch; arrays that are not batched are shared."""
    leaves, treedef = jax.tree.flatten(list(args))
    batched = jax.tree.leaves(in_batched)

    def call(i: Array) -> Any:
        element = [
            leaf[i] if is_batched else leaf
            for leaf, is_batched in zip(leaves, batched, strict=True)
        ]
        return fn(*jax.tree.unflatten(treedef, element))

    return jax.lax.map(call, jnp.arange(axis_size))
