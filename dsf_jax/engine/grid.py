"""A queue of training jobs on all devices, in short pieces, with progress.

Lanes are spread over a one-dimensional `jax.sharding.Mesh`, and each device works on a
queue of its own: every D-th job. A piece runs the same compiled program for a number of
epochs that takes about three seconds; then the host looks, reports what has ended, and
goes on. So nothing that has ended is lost, Ctrl-C is heard at once, and no device waits
in a collective for loops of another length. The results are those of
`dsf_jax.train.run_jobs`, to the rounding that it names.
"""

import atexit
import contextlib
import ctypes
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Int

from dsf_jax.engine.metrics import Summary, summarise
from dsf_jax.engine.queue import (
    Occupancy,
    Program,
    Queue,
    advance,
    occupancy,
    open_queue,
)
from dsf_jax.engine.sharded import (
    QUEUE,
    Sharded,
    check_programs,
    check_shardable,
)
from dsf_jax.models.model import Model
from dsf_jax.ops.correlation import BLOCK_ROWS
from dsf_jax.ops.nodes import NODES
from dsf_jax.train import JobResults, Jobs, TrainConfig, TrainData, make_program

PIECE_SECONDS = 3.0  # each takes its memory anew: in 1 s, 8 % of the time on Pubmed
POLL_SECONDS = 0.01
MANY_NEIGHBOURS = 16  # of a node, on average: products are then most of the work
MEMORY = Path("/proc/meminfo")


class Progress(NamedTuple):
    """What is known after a piece."""

    finished: Int[np.ndarray, " M"]  # jobs that ended in this piece
    results: JobResults  # theirs, in NumPy; leaves [M, ...]
    num_done: int  # jobs that have ended so far
    num_jobs: int
    epochs: int  # of all jobs together
    best_val: float  # so far; NaN before the first job ends
    occupancy: float  # share of lanes at work so far
    seconds: float  # since the compilation
    seconds_left: float  # estimate; NaN before the first job ends

    @property
    def status(self) -> str:
        """What is known so far, for people."""
        known = [f"{self.epochs:,} epochs", f"lanes {self.occupancy:.0%} busy"]
        if self.num_done > 0:
            known += [f"best val {100 * self.best_val:.1f}"]
            known += [f"{self.seconds_left:.0f} s left"]
        return ", ".join(known)


class GridReport(NamedTuple):
    """Result of `run_grid`, on the host."""

    jobs: JobResults  # leaves [J, ...]
    summary: Summary
    occupancy: Occupancy
    seconds: float  # without compilation
    compile_seconds: float


def run_grid(
    jobs: Jobs,
    data: TrainData | Sharded,
    *,
    model: Model,
    train_config: TrainConfig,
    devices: Sequence[Any] | None = None,
    pad_to: int = 1,
    on_progress: Callable[[Progress], None] | None = None,
) -> GridReport:
    """Run every job of the queue on several devices, piece by piece.

    Args:
      jobs: the queue, at least one job.
      data: the data set; or its parts, from `dsf_jax.engine.sharded.shard`, and the
        whole queue runs on the devices that have them.
      model: the model.
      train_config: the protocol, and the number of lanes of all devices together.
      devices: where to run; all devices by default. On a CPU one device per core, set
        by `jax.config.update("jax_num_cpu_devices", n)` before the first use of JAX,
        is faster than one device with n threads.
      pad_to: compile for at least this many jobs, so that a shorter queue later needs
        no new program.
      on_progress: called after every piece. What it raises ends the run.

    Returns:
      As from `run_jobs`, in the order of the queue.

    Example:
      >>> from dsf_jax import MODELS, make_splits, prepare, regions
      >>> dataset, model = regions(60), MODELS["gpr"]
      >>> data = prepare(dataset, make_splits(dataset, num_splits=1), model=model)
      >>> from dsf_jax import HyperParams, grid_jobs
      >>> jobs = grid_jobs(HyperParams(), num_splits=1, num_seeds=3, seed=0)
      >>> settings = TrainConfig(num_classes=2, epochs=2, lanes=2)
      >>> seen = []
      >>> result = run_grid(
      ...     jobs,
      ...     data,
      ...     model=model,
      ...     train_config=settings,
      ...     on_progress=lambda progress: seen.extend(progress.finished.tolist()),
      ... )
      >>> result.jobs.test.shape, sorted(seen)
      ((3,), [0, 1, 2])
    """
    num_jobs = jobs.split.shape[0]
    devices = jax.devices() if devices is None else devices
    if isinstance(data, Sharded):
        check_shardable(model)
        check_programs(data.mesh)
        mesh, shared = data.mesh, data.data
    else:
        num_devices = max(min(len(devices), train_config.lanes, num_jobs), 1)
        mesh = Mesh(np.asarray(devices[:num_devices]), (QUEUE,))
        shared = _place(data, NamedSharding(mesh, PartitionSpec()))
    num_devices = mesh.shape[QUEUE]
    deal = _Deal(num_jobs, num_devices, pad_to)
    task = _Task(model, train_config, mesh)
    lanes = -(-min(train_config.lanes, num_jobs) // num_devices)
    own_jobs, counts = _place(
        (deal.spread(jobs), deal.counts), NamedSharding(mesh, PartitionSpec(QUEUE))
    )
    began = time.perf_counter()
    queue = _open(own_jobs, counts, shared, task=task, lanes=lanes)
    go_on = partial(_advance, jobs=own_jobs, data=shared, task=task)
    queue = go_on(queue, max_epochs=0)  # compiles, no epoch
    compile_seconds = time.perf_counter() - began
    _give_back()
    queue = _run_pieces(queue, go_on, deal, on_progress)
    ended = _to_host(queue._replace(states=None))
    results = deal.collect(ended.results)
    return GridReport(
        jobs=results,
        summary=summarise(jnp.asarray(results.test), jnp.asarray(results.is_finite)),
        occupancy=occupancy(ended),
        seconds=time.perf_counter() - began - compile_seconds,
        compile_seconds=compile_seconds,
    )


def choose_lanes(data: TrainData, *, model: Model) -> int:
    """Number of lanes, of all devices together, by a rule from measurements.

    On a CPU lanes pay as long as the widest signal of all lanes of a device stays
    within 2 MiB, and no more than four do. Where nodes have many neighbours products
    are most of the work, and two lanes, which read the graph once, pay up to 8 MiB.
    With a correlation S of many blocks, which lanes do not share, none does. An
    accelerator takes as many as fit in a quarter of its memory, up to 64 (not
    measured).

    Example:
      >>> from dsf_jax import MODELS, make_splits, prepare, regions
      >>> dataset, model = regions(60), MODELS["gpr"]
      >>> data = prepare(dataset, make_splits(dataset, num_splits=1), model=model)
      >>> choose_lanes(data, model=model) % jax.device_count()
      0
    """
    num_nodes, num_features = data.inputs.features.shape
    total = lane_bytes(num_nodes, num_features, model=model)
    device = jax.devices()[0]
    if device.platform == "cpu":
        most, memory = 4, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        signal = num_nodes * model.signal_width * jnp.zeros(()).dtype.itemsize
        fitting = 2 ** math.floor(math.log2(2**21 / signal))
        degree = data.inputs.filter_op.weights.size / num_nodes
        is_dense = degree > MANY_NEIGHBOURS and data.inputs.edges is None
        if is_dense and 2 * signal <= 2**23:
            fitting = max(fitting, 2)
        if model.has_correlation and num_nodes > BLOCK_ROWS:
            most = 1
        memory //= jax.device_count()
    else:
        most, fitting = 64, 64
        memory = (device.memory_stats() or {}).get("bytes_limit", 2**33)
    lanes = max(1, min(most, fitting, memory // 4 // total))
    return int(lanes) * jax.device_count()


def lane_bytes(num_nodes: int, num_features: int, *, model: Model) -> int:
    """Memory that one run takes, about.

    Positions of all orders and about 25 more signals, measured with DSF-GPR-R on
    200,000 and a million nodes; four copies of the parameters.

    Example:
      >>> from dsf_jax import MODELS
      >>> 1e9 < lane_bytes(200_000, 64, model=MODELS["dsf-gpr-r"]) < 4e9
      True
    """
    item = jnp.zeros(()).dtype.itemsize
    signal = num_nodes * model.signal_width * item
    return (model.order + 25) * signal + 4 * num_features * model.hidden * item


def free_memory() -> int:
    """Bytes that programs may still take on the device; on a CPU, of the computer.

    Example:
      >>> free_memory() > 0
      True
    """
    device = jax.devices()[0]
    if device.platform != "cpu":
        stats = device.memory_stats() or {}
        return int(stats.get("bytes_limit", 2**33) - stats.get("bytes_in_use", 0))
    if not MEMORY.exists():
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    lines = dict(line.split(":") for line in MEMORY.read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024


class _Deal:
    """Job j goes to device j mod D; short hands are filled up with jobs not to be run.

    Neighbours in a grid share their split, so this gives every device some of each.
    """

    def __init__(self, num_jobs: int, num_devices: int, pad_to: int) -> None:
        self.num_jobs = num_jobs
        jobs = np.arange(num_jobs)
        self._place = jobs % num_devices, jobs // num_devices
        length = -(-max(num_jobs, pad_to) // num_devices)
        self._order = np.zeros((num_devices, length), dtype=int)
        self._order[self._place] = jobs
        self.counts = np.bincount(self._place[0], minlength=num_devices)

    def spread(self, tree: Any) -> Any:
        """Leaves [J, ...] -> [D, J / D, ...]."""
        return jax.tree.map(lambda leaf: leaf[self._order], tree)

    def collect(self, tree: Any) -> Any:
        """Leaves [D, J / D, ...] -> [J, ...]."""
        return jax.tree.map(lambda leaf: leaf[self._place], tree)


def _place(tree: Any, sharding: NamedSharding) -> Any:
    """Put arrays on devices; every process has the same ones."""

    def put(leaf: Any) -> Array:
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.device_put(leaf, sharding)
        words = jax.device_put(np.asarray(jax.random.key_data(leaf)), sharding)
        return jax.random.wrap_key_data(words, impl=jax.random.key_impl(leaf))

    return jax.tree.map(put, tree)


def _on_each_device(
    fn: Callable[..., Any], mesh: Mesh, own: Sequence[Any], data: Any, *more: Any
) -> Any:
    """Call fn on every device, with its own queue and its own part of the data."""
    per_device, everywhere = PartitionSpec(QUEUE), PartitionSpec()
    is_split = NODES in mesh.axis_names

    def local(own: Any, data: Any, *more: Any) -> Any:
        mine = jax.tree.map(lambda leaf: leaf[0], own)
        data = jax.tree.map(lambda leaf: leaf[0], data) if is_split else data
        out = fn(*mine, data, *more)
        return jax.tree.map(lambda leaf: leaf[None], out)

    of_data = PartitionSpec(NODES) if is_split else everywhere
    specs = (per_device, of_data, *[everywhere] * len(more))
    sharded = jax.shard_map(
        local, mesh=mesh, in_specs=specs, out_specs=per_device, check_vma=False
    )
    return sharded(own, data, *more)


class _Task(NamedTuple):
    """What a program is compiled for; hashable."""

    model: Model
    train_config: TrainConfig
    mesh: Mesh

    def program(self, data: TrainData) -> Program:
        """What a device does."""
        return make_program(data, model=self.model, train_config=self.train_config)


@partial(jax.jit, static_argnames=("task", "lanes"))
def _open(
    jobs: Jobs, counts: Int[Array, " D"], data: TrainData, *, task: _Task, lanes: int
) -> Queue:
    def run(jobs: Jobs, count: Array, data: TrainData) -> Queue:
        return open_queue(jobs, task.program(data), lanes=lanes, num_jobs=count)

    return _on_each_device(run, task.mesh, (jobs, counts), data)


@partial(jax.jit, static_argnames="task", donate_argnames="queue")
def _advance(
    queue: Queue, jobs: Jobs, data: TrainData, max_epochs: Any, *, task: _Task
) -> Queue:
    def run(queue: Queue, jobs: Jobs, data: TrainData, max_epochs: Array) -> Queue:
        return advance(queue, jobs, task.program(data), max_epochs=max_epochs)

    own = queue, jobs
    return _on_each_device(run, task.mesh, own, data, jnp.asarray(max_epochs))


def _run_pieces(
    queue: Queue,
    go_on: Callable[..., Queue],
    deal: _Deal,
    on_progress: Callable[[Progress], None] | None,
) -> Queue:
    """Advance until all jobs have ended; the last piece sets the length of the next."""
    began, known, num_epochs = time.perf_counter(), np.zeros(deal.num_jobs, bool), 1
    while not known.all():
        piece_began = time.perf_counter()
        queue = go_on(queue, max_epochs=num_epochs)
        _under_way[:] = [queue.epochs]
        _wait(queue.epochs)
        results = queue.results._replace(params=None)
        seen = _to_host(queue._replace(states=None, results=results))
        now = time.perf_counter()
        is_done = deal.collect(seen.is_done)
        is_new = is_done & ~known
        if on_progress is not None:
            if is_new.any():  # their parameters too, where they are kept
                params = _to_host(queue.results.params)
                seen = seen._replace(results=seen.results._replace(params=params))
            on_progress(_progress(seen, deal, is_new, now - began))
        known = is_done
        per_epoch = (now - piece_began) / num_epochs
        # not much longer than the last, in case that one was a lucky one
        num_epochs = max(1, min(int(PIECE_SECONDS / per_epoch), 8 * num_epochs))
        if jax.process_count() > 1:  # parts of one run must not go apart
            num_epochs = int(multihost_utils.broadcast_one_to_all(num_epochs))
    return queue


def _progress(seen: Queue, deal: _Deal, is_new: np.ndarray, seconds: float) -> Progress:
    results, is_done = deal.collect(seen.results), deal.collect(seen.is_done)
    num_done, epochs = int(is_done.sum()), int(seen.work.sum())
    best_val = seconds_left = float("nan")
    if num_done > 0:
        best_val = float(np.max(results.val[is_done]))
        expected = np.mean(results.epochs_run[is_done]) * deal.num_jobs
        seconds_left = seconds * max(float(expected) / epochs - 1, 0.0)
    return Progress(
        finished=np.flatnonzero(is_new),
        results=jax.tree.map(lambda leaf: leaf[is_new], results),
        num_done=num_done,
        num_jobs=deal.num_jobs,
        epochs=epochs,
        best_val=best_val,
        occupancy=float(occupancy(seen).overall),
        seconds=seconds,
        seconds_left=0.0 if num_done == deal.num_jobs else seconds_left,
    )


def _give_back() -> None:
    """Return what the compiler has freed to the system: 0.3 GB, which glibc keeps."""
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


def _wait(array: Any) -> None:
    """Block until the array is computed, but awake: Python then hears Ctrl-C."""
    while not array.is_ready():
        time.sleep(POLL_SECONDS)


_under_way: list[Any] = []  # of the last piece


@atexit.register
def _let_it_end() -> None:
    """After a Ctrl-C the piece runs on; Python must not be gone before it ends."""
    jax.block_until_ready([a for a in _under_way if not a.is_deleted()])


def _to_host(tree: Any) -> Any:
    if jax.process_count() == 1:
        return jax.device_get(tree)
    # every process has just run the same number of epochs, so none waits for long
    return multihost_utils.process_allgather(tree, tiled=True)
