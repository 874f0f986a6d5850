"""A queue of training jobs on all devices, in short pieces, with progress.

Lanes are spread over a one-dimensional `jax.sharding.Mesh`, and each device works on a
queue of its own: every D-th job. A piece runs the same compiled program for a number of
epochs that takes about a second; then the host looks, reports what has ended, and goes
on. So nothing that has ended is lost, Ctrl-C is heard at once, and no device waits in a
collective for loops of another length. The results are those of
`dsf_jax.train.run_jobs`.
"""

import atexit
import math
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Int

from dsf_jax.engine.metrics import Summary, summarise
from dsf_jax.engine.queue import Occupancy, Queue, advance, occupancy, open_queue
from dsf_jax.models.settings import Config
from dsf_jax.ops.correlation import BLOCK_ROWS
from dsf_jax.train import (
    JobResults,
    Jobs,
    TrainConfig,
    TrainData,
    make_program,
)

PIECE_SECONDS = 1.0  # a shorter one pays more for the memory it takes and gives back
POLL_SECONDS = 0.01
_AXIS = "device"


class Progress(NamedTuple):
    """What is known after a piece.

    Example:
      >>> Progress._fields[:3]
      ('finished', 'results', 'num_done')
    """

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
    """Result of `run_grid`, on the host.

    Example:
      >>> GridReport._fields[:3]
      ('jobs', 'summary', 'occupancy')
    """

    jobs: JobResults  # leaves [J, ...]
    summary: Summary
    occupancy: Occupancy
    seconds: float  # without compilation
    compile_seconds: float


def run_grid(
    jobs: Jobs,
    data: TrainData,
    *,
    config: Config,
    train_config: TrainConfig,
    devices: Sequence[Any] | None = None,
    pad_to: int = 1,
    on_progress: Callable[[Progress], None] | None = None,
) -> GridReport:
    """Run every job of the queue on several devices, piece by piece.

    Args:
      jobs: the queue, at least one job.
      data: the data set.
      config: the model.
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
      >>> from dsf_jax import MODELS, Graph, HyperParams, make_inputs
      >>> from dsf_jax.train import grid_jobs
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> config = MODELS["gpr"]
      >>> masks = jnp.ones((1, 2), dtype=bool)
      >>> inputs = make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)), config)
      >>> data = TrainData(inputs, jnp.asarray([0, 1]), masks, masks, masks)
      >>> jobs = grid_jobs(HyperParams(), num_splits=1, num_seeds=3, seed=0)
      >>> settings = TrainConfig(num_classes=2, epochs=2, lanes=2)
      >>> seen = []
      >>> result = run_grid(
      ...     jobs,
      ...     data,
      ...     config=config,
      ...     train_config=settings,
      ...     on_progress=lambda progress: seen.extend(progress.finished.tolist()),
      ... )
      >>> result.jobs.test.shape, sorted(seen)
      ((3,), [0, 1, 2])
    """
    num_jobs = jobs.split.shape[0]
    devices = jax.devices() if devices is None else devices
    num_devices = max(min(len(devices), train_config.lanes, num_jobs), 1)
    mesh = Mesh(np.asarray(devices[:num_devices]), (_AXIS,))
    deal = _Deal(num_jobs, num_devices, pad_to)
    compiled: dict[str, Any] = {
        "config": config,
        "train_config": train_config,
        "mesh": mesh,
    }
    lanes = -(-min(train_config.lanes, num_jobs) // num_devices)
    shared = _place(data, NamedSharding(mesh, PartitionSpec()))
    own_jobs, counts = _place(
        (deal.spread(jobs), deal.counts), NamedSharding(mesh, PartitionSpec(_AXIS))
    )
    began = time.perf_counter()
    queue = _open(own_jobs, counts, shared, lanes=lanes, **compiled)
    queue = _advance(queue, own_jobs, shared, 0, **compiled)  # compiles, no epoch
    compile_seconds = time.perf_counter() - began
    queue = _run_pieces(queue, own_jobs, shared, deal, compiled, on_progress)
    ended = _to_host(queue._replace(states=None))
    results = deal.collect(ended.results)
    return GridReport(
        jobs=results,
        summary=summarise(jnp.asarray(results.test), jnp.asarray(results.is_finite)),
        occupancy=occupancy(ended),
        seconds=time.perf_counter() - began - compile_seconds,
        compile_seconds=compile_seconds,
    )


def choose_lanes(data: TrainData, *, config: Config) -> int:
    """Number of lanes, of all devices together, by a rule from measurements.

    On a CPU lanes pay as long as the widest signal of all lanes of a device stays
    within 2 MiB, and no more than four do; with a correlation S of many blocks, which
    lanes do not share, none does. An accelerator takes as many as fit in a quarter of
    its memory, up to 64 (not measured).

    Example:
      >>> from dsf_jax import MODELS, Graph, make_inputs
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> config, mask = MODELS["gpr"], jnp.ones((1, 2), dtype=bool)
      >>> inputs = make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)), config)
      >>> data = TrainData(inputs, jnp.asarray([0, 1]), mask, mask, mask)
      >>> choose_lanes(data, config=config) % jax.device_count()
      0
    """
    num_nodes, num_features = data.inputs.features.shape
    item = jnp.zeros(()).dtype.itemsize
    signal = num_nodes * config.signal_width * item
    # positions of all orders and about ten more signals, four copies of the parameters
    total = (config.order + 10) * signal + 4 * num_features * config.hidden * item
    device = jax.devices()[0]
    if device.platform == "cpu":
        most, memory = 4, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        fitting = 2 ** math.floor(math.log2(2**21 / signal))
        if config.has_correlation and num_nodes > BLOCK_ROWS:
            most = 1
        memory //= jax.device_count()
    else:
        most, fitting = 64, 64
        memory = (device.memory_stats() or {}).get("bytes_limit", 2**33)
    lanes = max(1, min(most, fitting, memory // 4 // total))
    return int(lanes) * jax.device_count()


def use_all_cores() -> None:
    """One JAX device per CPU core; call it before JAX is used for the first time.

    For scripts: it changes a global setting. Does nothing if the number of CPU devices
    has been set already, and does not touch accelerators.

    Example:
      >>> use_all_cores.__name__
      'use_all_cores'
    """
    is_set = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    has_default = jax.config.values["jax_num_cpu_devices"] < 1
    if has_default and not is_set:
        jax.config.update("jax_num_cpu_devices", len(os.sched_getaffinity(0)))


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
    fn: Callable[..., Any], mesh: Mesh, own: Sequence[Any], shared: Sequence[Any]
) -> Any:
    """Call fn on every device, with its own part of the first arguments."""
    per_device, everywhere = PartitionSpec(_AXIS), PartitionSpec()

    def local(*args: Any) -> Any:
        mine = jax.tree.map(lambda leaf: leaf[0], args[: len(own)])
        out = fn(*mine, *args[len(own) :])
        return jax.tree.map(lambda leaf: leaf[None], out)

    specs = (per_device,) * len(own) + (everywhere,) * len(shared)
    sharded = jax.shard_map(
        local, mesh=mesh, in_specs=specs, out_specs=per_device, check_vma=False
    )
    return sharded(*own, *shared)


_STATIC = ("config", "train_config", "mesh")


@partial(jax.jit, static_argnames=(*_STATIC, "lanes"))
def _open(
    jobs: Jobs,
    counts: Int[Array, " D"],
    data: TrainData,
    *,
    config: Config,
    train_config: TrainConfig,
    mesh: Mesh,
    lanes: int,
) -> Queue:
    def run(jobs: Jobs, count: Array, data: TrainData) -> Queue:
        program = make_program(data, config=config, train_config=train_config)
        return open_queue(jobs, program, lanes=lanes, num_jobs=count)

    return _on_each_device(run, mesh, own=(jobs, counts), shared=(data,))


@partial(jax.jit, static_argnames=_STATIC, donate_argnames="queue")
def _advance(
    queue: Queue,
    jobs: Jobs,
    data: TrainData,
    max_epochs: Int[Array, ""] | int,
    *,
    config: Config,
    train_config: TrainConfig,
    mesh: Mesh,
) -> Queue:
    def run(queue: Queue, jobs: Jobs, data: TrainData, max_epochs: Array) -> Queue:
        program = make_program(data, config=config, train_config=train_config)
        return advance(queue, jobs, program, max_epochs=max_epochs)

    return _on_each_device(
        run, mesh, own=(queue, jobs), shared=(data, jnp.asarray(max_epochs))
    )


def _run_pieces(
    queue: Queue,
    jobs: Jobs,
    data: TrainData,
    deal: _Deal,
    compiled: dict[str, Any],
    on_progress: Callable[[Progress], None] | None,
) -> Queue:
    """Advance until all jobs have ended; the last piece sets the length of the next."""
    began, known, num_epochs = time.perf_counter(), np.zeros(deal.num_jobs, bool), 1
    while not known.all():
        piece_began = time.perf_counter()
        queue = _advance(queue, jobs, data, num_epochs, **compiled)
        _under_way[:] = [queue.epochs]
        _wait(queue.epochs)
        seen = _to_host(_without_params(queue))
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


def _without_params(queue: Queue) -> Queue:
    """What the host looks at after a piece."""
    return queue._replace(states=None, results=queue.results._replace(params=None))


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
