"""Nodes that are shared out over devices: sums over all, and rows of other devices.

In `jax.shard_map` over a mesh with an axis `NODES` every device has rows of its own
(`dsf_jax.engine.sharded`), and the functions of a model run as they are: a product
fetches the rows that it needs, and a sum over nodes is added up over devices. Outside,
`total` and the others return what they are given.

Gradients are those of all devices' outputs together: of a loss that every device has,
the gradient of the parameters is the `average` over devices.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

NODES = "nodes"
"""Axis of a mesh over which nodes are shared out."""


class Places(NamedTuple):
    """Which of all nodes the rows of a device are.

    Example:
      >>> Places(jnp.asarray([4, 2, -1]), None).is_node.tolist()
      [True, True, False]
    """

    nodes: Int[Array, " N"]  # -1 for a row that is there to fill up
    values: Int[Array, " Z"] | None  # the same of stored values of sparse features

    @property
    def is_node(self) -> Bool[Array, " N"]:
        """Rows that count."""
        return self.nodes >= 0


class Halo(NamedTuple):
    """What a product needs of other devices.

    Columns of the operator of a device are its own n rows, then the H rows that each
    of the P devices sends it; or all P n rows, if `sends` is None.
    """

    sends: Int[Array, "P H"] | None  # own rows for each device, filled up with row 0


def fetch_rows(halo: Halo, x: Float[Array, "N C"]) -> Float[Array, "M C"]:
    """Own rows and those of other devices, in the order of the operator's columns."""
    if halo.sends is None:
        return jax.lax.all_gather(x, NODES, tiled=True)
    received = jax.lax.all_to_all(x[halo.sends], NODES, split_axis=0, concat_axis=0)
    return jnp.concatenate([x, received.reshape(-1, x.shape[1])])


def total(partial: Any) -> Any:
    """A sum over all nodes, from the sum over the nodes of this device.

    Example:
      >>> int(total(jnp.sum(jnp.asarray([1, 2]))))
      3
    """
    return jax.lax.psum(partial, NODES) if _is_sharded() else partial


def gather(x: Array) -> Array:
    """Values of all nodes, from those of this device, in the order of the devices.

    Example:
      >>> gather(jnp.asarray([1, 2])).tolist()
      [1, 2]
    """
    return jax.lax.all_gather(x, NODES, tiled=True) if _is_sharded() else x


def average(tree: Any) -> Any:
    """The mean of what the devices have.

    Example:
      >>> average({"w": jnp.ones(1)})["w"].tolist()
      [1.0]
    """
    return jax.lax.pmean(tree, NODES) if _is_sharded() else tree


def mean_nodes(
    x: Float[Array, "N ..."], is_node: Bool[Array, " N"] | None
) -> Float[Array, "..."]:
    """Mean over the rows that are nodes; None: all are.

    Example:
      >>> float(mean_nodes(jnp.asarray([1.0, 3.0, 9.0]), jnp.arange(3) < 2))
      2.0
    """
    if is_node is None:
        return jnp.mean(x, axis=0)
    count = total(jnp.sum(is_node)).astype(x.dtype)
    return total(jnp.sum(keep_nodes(x, is_node), axis=0)) / count


def keep_nodes(
    x: Float[Array, "N ..."], is_node: Bool[Array, " N"] | None
) -> Float[Array, "N ..."]:
    """0 in rows that are no nodes; None: all are.

    Example:
      >>> keep_nodes(jnp.ones((2, 1)), jnp.asarray([True, False])).tolist()
      [[1.0], [0.0]]
    """
    if is_node is None:
        return x
    return jnp.where(is_node.reshape(-1, *[1] * (x.ndim - 1)), x, 0.0)


def _is_sharded() -> bool:
    return NODES in jax.sharding.get_abstract_mesh().manual_axes
