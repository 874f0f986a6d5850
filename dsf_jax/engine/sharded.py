"""One run on several devices: each has a part of the nodes, and all have the weights.

    parts = shard(data, num_parts=2)
    report = run_grid(jobs, parts, model=model, train_config=train_config)

The functions of the model are the same (`dsf_jax.ops.nodes`): in a product every device
sends every other the rows that its edges need, and what is summed over nodes is summed
over devices. Rows are filled up, so that all parts are equal; those that are no nodes
have no edges, features, labels or masks, and count nowhere. Dropout is that of one
device, entry by entry, so results differ in rounding alone.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
import scipy.sparse as sp
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Int

from dsf_jax.graph.partition import Partition, partition_nodes
from dsf_jax.models.layers import Inputs
from dsf_jax.models.model import Model
from dsf_jax.ops.matrix import SparseFeatures
from dsf_jax.ops.nodes import NODES, Halo, Places
from dsf_jax.ops.operator import Operator
from dsf_jax.train import TrainData

Exchange = Literal["halo", "all"]
QUEUE = "queue"  # the other axis of meshes: devices with a queue of jobs of their own
# Compiled programs that JAX 0.12 loads from disk have lost the order of their
# exchanges: two devices soon wait for each other, and XLA ends the process after 40 s.
LOSES_ORDER = jax.__version_info__ >= (0, 12)


class Sharded(NamedTuple):
    """A data set in parts, each on its device; from `shard`.

    Example:
      >>> from dsf_jax import make_splits, prepare, regions
      >>> dataset = regions(60)
      >>> data = prepare(dataset, make_splits(dataset, num_splits=1), model="gpr")
      >>> shard(data, num_parts=2).data.train.shape[:2]
      (2, 1)
    """

    data: TrainData  # leaves [P, ...]
    mesh: Mesh
    partition: Partition
    nodes: Int[np.ndarray, "P n"]  # of every row; -1 for one that is there to fill up

    def collect(self, per_row: Any) -> np.ndarray:
        """Values of all nodes in their order, from those of all rows, [P, n, ...]."""
        is_node = self.nodes >= 0
        return np.asarray(per_row)[is_node][np.argsort(self.nodes[is_node])]


def shard(
    data: TrainData,
    *,
    num_parts: int,
    exchange: Exchange = "halo",
    method: str = "auto",
    devices: Sequence[Any] | None = None,
) -> Sharded:
    """Share out the nodes of a data set, and put every part on its device.

    Every process is given the whole, and keeps the parts of its own devices.

    Args:
      data: the data set.
      num_parts: P, the number of devices.
      exchange: `halo` sends the rows that a device needs, `all` every row to every
        device, whatever it needs: simpler, and as good where parts need most rows.
      method: see `partition_nodes`.
      devices: at least P; all by default, of which the first ones are taken.

    Returns:
      The parts; `print(parts.partition)` tells how large the halo is.

    Example:
      See `Sharded`.
    """
    mesh, whole = _make_mesh(num_parts, devices), data.inputs
    partition = partition_nodes(whole.filter_op.to_scipy(), num_parts, method=method)
    nodes: Any = np.full((num_parts, partition.sizes.max()), -1, dtype=np.int32)
    for own, part in zip(nodes, range(num_parts), strict=True):
        found = np.flatnonzero(partition.part == part)
        own[: len(found)] = found

    def rows(array: Any, fill: Any = 0) -> Any:
        """[N, ...] -> [P, n, ...]."""
        if array is None:
            return None
        array = np.asarray(array)
        blank = nodes.reshape(*nodes.shape, *[1] * (array.ndim - 1)) < 0
        return np.where(blank, np.asarray(fill, array.dtype), array[nodes])

    def columns(array: Any) -> Any:
        """[S, N, ...] -> [P, S, n, ...]."""
        if array is None:
            return None
        return np.moveaxis(rows(np.moveaxis(np.asarray(array), 1, 0)), 2, 1)

    filter_op = _split_operator(whole.filter_op, nodes, exchange)
    pos_op = filter_op
    if whole.pos_op is not whole.filter_op:
        pos_op = _split_operator(whole.pos_op, nodes, exchange)
    features: Any
    values: Any
    if isinstance(whole.features, SparseFeatures):
        features, values = _split_features(whole.features, nodes)
    else:
        features, values = rows(whole.features), None
    inputs = Inputs(
        filter_op,
        pos_op,
        features,
        columns(whole.x_pos),
        embedding=rows(whole.embedding),
        columns=rows(whole.columns),
        places=Places(nodes, values),
    )
    masks = map(columns, (data.train, data.val, data.test))
    parts = TrainData(inputs, rows(data.labels, -1), *masks)
    return Sharded(_place(parts, mesh), mesh, partition, nodes)


def run_on_parts(fn: Callable[..., Any], parts: Sharded, *args: Any) -> Any:
    """Call fn(data, *args) on every device with its part of the data.

    For logits, gradients or weights of a trained model on a graph that is too large
    for one device; gradients of parameters need `dsf_jax.ops.nodes.average`.

    Args:
      fn: a function of `TrainData` and the other arguments; compiled.
      parts: from `shard`.
      args: the same on every device.

    Returns:
      What fn returns on every device, leaves [P, ...]; `Sharded.collect` puts what is
      there for each row in the order of the nodes.

    Example:
      >>> from dsf_jax import make_splits, prepare, regions
      >>> dataset = regions(60)
      >>> data = prepare(dataset, make_splits(dataset, num_splits=1), model="gpr")
      >>> parts = shard(data, num_parts=1)
      >>> labels = run_on_parts(lambda data: data.labels, parts)
      >>> bool(np.all(parts.collect(labels) == dataset.labels))
      True
    """
    check_programs(parts.mesh)
    each, same = PartitionSpec(NODES), PartitionSpec()

    def local(data: TrainData, *args: Any) -> Any:
        out = fn(jax.tree.map(lambda leaf: leaf[0], data), *args)
        return jax.tree.map(lambda leaf: leaf[None], out)

    specs = (each, *[same] * len(args))
    mapped = jax.shard_map(
        local, mesh=parts.mesh, in_specs=specs, out_specs=each, check_vma=False
    )
    return jax.jit(mapped)(parts.data, *args)


def check_shardable(model: Model) -> None:
    """Refuse models whose nodes meet elsewhere than in products.

    Example:
      >>> from dsf_jax import MODELS
      >>> check_shardable(MODELS["dsf-gpr-r"])
    """
    if not model.is_shardable:
        raise ValueError(
            "model must leave nodes to products to be run in parts, got one with a "
            "correlation of all nodes (variant I), weights of single nodes or edges, "
            "or a learnt basis; take gpr, bern, jacobi, gcn, cheb or a variant R."
        )


def check_programs(mesh: Mesh) -> None:
    """Refuse to run parts where JAX would load programs that hang, see `LOSES_ORDER`.

    Example:
      >>> check_programs(Mesh(np.asarray(jax.devices()[:1]), (NODES,)))
    """
    folder = jax.config.values["jax_compilation_cache_dir"]
    is_used = folder is not None and jax.config.values["jax_enable_compilation_cache"]
    has_cpus = mesh.devices.size > 1 and mesh.devices.flat[0].platform == "cpu"
    if LOSES_ORDER and is_used and has_cpus:
        raise ValueError(
            "jax_compilation_cache_dir must not be set for parts on CPU devices, got "
            f"{str(folder)!r}; JAX {jax.__version__} hangs in programs that it loads "
            "from there, so leave it out (also JAX_COMPILATION_CACHE_DIR)."
        )


def _make_mesh(num_parts: int, devices: Sequence[Any] | None) -> Mesh:
    devices = jax.devices() if devices is None else devices
    if len(devices) < num_parts:
        raise ValueError(
            f"num_parts must be at most the number of devices, got {num_parts} for "
            f"{len(devices)}; on a CPU call dsf_jax.use_all_cores() first, or start "
            "more processes."
        )
    return Mesh(np.asarray(devices[:num_parts])[None], (QUEUE, NODES))


def _place(parts: TrainData, mesh: Mesh) -> TrainData:
    sharding = NamedSharding(mesh, PartitionSpec(NODES))
    placed: dict[int, Array] = {}

    def put(leaf: np.ndarray) -> Array:
        if id(leaf) not in placed:  # both operators may be the same one
            # a copy: JAX may keep a view, and with it the parts of all devices
            placed[id(leaf)] = jax.make_array_from_callback(
                leaf.shape, sharding, lambda index: np.array(leaf[index])
            )
        return placed[id(leaf)]

    return jax.tree.map(put, parts)


def _split_operator(
    op: Operator, nodes: Int[np.ndarray, "P n"], exchange: Exchange
) -> Operator:
    """The rows of every part, with columns as `Halo` says."""
    matrix = op.to_scipy()
    num_parts, num_rows = nodes.shape
    owner, slot = np.empty((2, matrix.shape[0]), dtype=np.int64)
    is_node = nodes >= 0
    owner[nodes[is_node]], slot[nodes[is_node]] = np.nonzero(is_node)
    blocks = [_take_rows(matrix, own) for own in nodes]
    if exchange == "all":
        places, sends = [owner * num_rows + slot] * num_parts, None
        num_columns = num_parts * num_rows
    else:
        places, sends = _meet(blocks, owner, slot, num_rows)
        num_columns = num_rows + num_parts * sends.shape[2]
    most = max(block.nnz for block in blocks)
    locals_ = []
    for part, (block, place) in enumerate(zip(blocks, places, strict=True)):
        indices = place[block.indices]
        shape = num_rows, num_columns
        local = sp.csr_array((block.data, indices, block.indptr), shape=shape)
        local.sort_indices()
        local = _fill_up(local, most)
        receivers: Any = np.repeat(np.arange(num_rows), np.diff(local.indptr))
        locals_.append(
            Operator(
                weights=local.data,
                senders=local.indices.astype(np.int32),
                receivers=receivers.astype(np.int32),
                indptr=local.indptr.astype(np.int32),
                dense=None,
                twins=None,
                kernel="csr" if jax.default_backend() == "cpu" else "segment",
                halo=Halo(None if sends is None else sends[part]),
            )
        )
    return _stack(locals_)


def _meet(
    blocks: Sequence[sp.csr_array],
    owner: Int[np.ndarray, " N"],
    slot: Int[np.ndarray, " N"],
    num_rows: int,
) -> tuple[list[np.ndarray], Int[np.ndarray, "P P H"]]:
    """Column of every node in every block, and rows that each part sends each other."""
    num_parts = len(blocks)
    foreign, counts = [], []
    for part, block in enumerate(blocks):
        needed = np.unique(block.indices)
        needed = needed[owner[needed] != part]
        foreign.append(needed[np.argsort(owner[needed], kind="stable")])
        counts.append(np.bincount(owner[needed], minlength=num_parts))
    width = max(1, int(np.max(counts)))
    sends = np.zeros((num_parts, num_parts, width), dtype=np.int32)
    places = []
    for part, (needed, count) in enumerate(zip(foreign, counts, strict=True)):
        turn = np.arange(len(needed)) - np.repeat(np.cumsum(count) - count, count)
        sends[owner[needed], part, turn] = slot[needed]
        place = slot.copy()
        place[needed] = num_rows + owner[needed] * width + turn
        places.append(place)
    return places, sends


def _split_features(
    features: SparseFeatures, nodes: Int[np.ndarray, "P n"]
) -> tuple[SparseFeatures, Int[np.ndarray, "P Z"]]:
    """Rows of every part, and which of all stored values they have."""
    _, columns, indptr = map(np.asarray, features.entries)
    values = np.asarray(features.values)

    def split(values: np.ndarray) -> list[sp.csr_array]:
        csr = sp.csr_array((values, columns, indptr), shape=features.shape)
        blocks = [_take_rows(csr, own) for own in nodes]
        return [_fill_up(block, max(b.nnz for b in blocks)) for block in blocks]

    numbers = np.stack([block.data for block in split(np.arange(len(values)))])
    return _stack([SparseFeatures.of(block) for block in split(values)]), numbers


def _take_rows(matrix: sp.csr_array, nodes: Int[np.ndarray, " n"]) -> sp.csr_array:
    """Rows of the nodes; those that are none are empty, at the end."""
    block = sp.csr_array(matrix[nodes[nodes >= 0]])
    block.resize((len(nodes), matrix.shape[1]))
    return block


def _fill_up(csr: sp.csr_array, num_entries: int) -> sp.csr_array:
    """Stored zeros in the last row and column, so that all parts have as many."""
    more = num_entries - csr.nnz
    data = np.concatenate([csr.data, np.zeros(more, csr.data.dtype)])
    indices = np.concatenate([csr.indices, np.full(more, csr.shape[1] - 1)])
    indptr = csr.indptr.copy()
    indptr[-1] += more
    return sp.csr_array((data, indices, indptr), shape=csr.shape)


def _stack(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(list(map(np.asarray, leaves))), *trees)
