"""Lanes fed from a queue: many jobs of unequal length as two nested loops.

B lanes advance together by one vmapped epoch. The inner loop runs epochs until some
lane ends, the outer one writes its result and gives the lane the next job. Nothing
waits for the slowest job but the very end, and a lane that has ended is replaced at
once, so no state needs to be frozen.

A queue is a value: `advance` may run it to its end, or for a number of epochs at a
time, with the same results.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int


class Program(NamedTuple):
    """What the lanes do."""

    # jobs of all lanes -> their states: a pytree with a field `best`, the result so far
    start: Callable[[Any], Any]
    # states and jobs of all lanes -> states, and which of them have ended
    epoch: Callable[[Any, Any], tuple[Any, Bool[Array, " B"]]]


class Queue(NamedTuple):
    """Jobs on their way; leaves of `states` are [B, ...], of `results` [J, ...]."""

    states: Any
    job: Int[Array, " B"]  # of each lane; J where it is idle
    next_job: Int[Array, ""]  # the first that has not begun
    num_jobs: Int[Array, ""]  # jobs after this one are padding
    results: Any
    is_done: Bool[Array, " J"]
    epochs: Int[Array, ""]  # of the whole queue
    work: Int[Array, ""]  # epochs of single lanes that were at work
    queued_epochs: Int[Array, ""]  # the same two until the queue was dry
    queued_work: Int[Array, ""]


class Occupancy(NamedTuple):
    """Share of lanes at work, per epoch of the whole call."""

    overall: Float[Array, ""]
    while_queued: Float[Array, ""]  # until the queue was dry


def open_queue(
    jobs: Any, program: Program, *, lanes: int, num_jobs: int | Int[Array, ""]
) -> Queue:
    """A queue of which nothing has begun.

    Args:
      jobs: pytree, every leaf [J, ...].
      program: what the lanes do.
      lanes: number of jobs that run side by side.
      num_jobs: how many of the J are to be run; the rest is padding.

    Returns:
      The queue, all lanes idle.

    Example:
      >>> class Count(NamedTuple):
      ...     best: Array
      >>> program = Program(lambda jobs: Count(jobs), lambda states, jobs: states)
      >>> queue = open_queue(jnp.arange(3), program, lanes=2, num_jobs=3)
      >>> queue.job.tolist(), bool(is_over(queue))
      ([3, 3], False)
    """
    idle = jnp.full(lanes, _size(jobs), jnp.int32)
    picked = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((lanes, *leaf.shape[1:]), leaf.dtype), jobs
    )
    shapes = jax.eval_shape(program.start, picked)
    states = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    none = jnp.zeros((), jnp.int32)
    return Queue(
        states=states,
        job=idle,
        next_job=none,
        num_jobs=jnp.asarray(num_jobs, jnp.int32),
        results=jax.tree.map(
            lambda leaf: jnp.zeros((_size(jobs), *leaf.shape[1:]), leaf.dtype),
            states.best,
        ),
        is_done=jnp.zeros(_size(jobs), dtype=bool),
        epochs=none,
        work=none,
        queued_epochs=none,
        queued_work=none,
    )


def is_over(queue: Queue) -> Bool[Array, ""]:
    """Whether all jobs have ended.

    Example:
      See `advance`.
    """
    return (queue.next_job >= queue.num_jobs) & ~jnp.any(_is_active(queue))


def advance(
    queue: Queue, jobs: Any, program: Program, *, max_epochs: int | Int[Array, ""]
) -> Queue:
    """Run the lanes until all jobs have ended, or for `max_epochs` epochs.

    Example:
      >>> class Count(NamedTuple):
      ...     best: Array
      >>> def epoch(states, jobs):  # job n ends after n epochs
      ...     count = states.best + 1
      ...     return Count(count), count >= jobs
      >>> jobs = jnp.asarray([3, 1, 2])
      >>> program = Program(lambda jobs: Count(jnp.zeros_like(jobs)), epoch)
      >>> queue = open_queue(jobs, program, lanes=2, num_jobs=3)
      >>> queue = advance(queue, jobs, program, max_epochs=2)
      >>> queue.is_done.tolist(), bool(is_over(queue))
      ([False, True, False], False)
      >>> queue = advance(queue, jobs, program, max_epochs=100)
      >>> queue.results.tolist(), bool(is_over(queue))
      ([3, 1, 2], True)
    """
    last = queue.epochs + jnp.asarray(max_epochs, jnp.int32)

    def next_round(queue: Queue) -> Queue:
        can_refill = ~jnp.all(_is_active(queue)) & (queue.next_job < queue.num_jobs)
        queue = jax.lax.cond(
            can_refill,
            lambda queue: _refill(queue, jobs, program),
            lambda queue: queue,
            queue,
        )
        return _run_until_one_ends(queue, jobs, program, last)

    return jax.lax.while_loop(
        lambda queue: ~is_over(queue) & (queue.epochs < last), next_round, queue
    )


def occupancy(queue: Queue) -> Occupancy:
    """How busy the lanes were so far.

    With a queue for each device, leaves [D, ...], of all of them: one whose queue is
    over is idle until the last one is.
    """
    num_lanes, lanes = queue.job.size, queue.job.shape[-1]

    def share(work: Any, lane_epochs: Any) -> Array:
        done, possible = jnp.asarray(work).sum(), jnp.asarray(lane_epochs)
        return done.astype(float) / jnp.maximum(possible, 1).astype(float)

    return Occupancy(
        overall=share(queue.work, num_lanes * queue.epochs.max()),
        while_queued=share(queue.queued_work, lanes * queue.queued_epochs.sum()),
    )


def _is_active(queue: Queue) -> Bool[Array, " B"]:
    return queue.job < _size(queue.is_done)


def _refill(queue: Queue, jobs: Any, program: Program) -> Queue:
    """Give the idle lanes the next jobs."""
    is_idle = ~_is_active(queue)
    waiting = queue.next_job - 1 + jnp.cumsum(is_idle, dtype=jnp.int32)
    is_new = is_idle & (waiting < queue.num_jobs)
    job = jnp.where(is_new, waiting, queue.job)

    def renew(new: Array, old: Array) -> Array:
        return jnp.where(is_new.reshape(-1, *[1] * (old.ndim - 1)), new, old)

    return queue._replace(
        states=jax.tree.map(renew, program.start(_pick(jobs, job)), queue.states),
        job=job,
        next_job=queue.next_job + jnp.sum(is_new, dtype=jnp.int32),
    )


def _run_until_one_ends(
    queue: Queue, jobs: Any, program: Program, last: Int[Array, ""]
) -> Queue:
    """Epochs until a lane ends, and its result in its place."""
    picked, is_active = _pick(jobs, queue.job), _is_active(queue)

    def body(carry: tuple[Any, Array, Array]) -> Any:
        states, _, epochs = carry
        states, has_ended = program.epoch(states, picked)
        return states, has_ended & is_active, epochs + 1

    states, has_ended, epochs = jax.lax.while_loop(
        lambda carry: ~jnp.any(carry[1]) & (carry[2] < last),
        body,
        (queue.states, jnp.zeros_like(is_active), queue.epochs),
    )
    taken = epochs - queue.epochs
    queued = jnp.where(queue.next_job < queue.num_jobs, taken, 0)
    num_active = jnp.sum(is_active, dtype=jnp.int32)
    idle = _size(queue.is_done)
    slot = jnp.where(has_ended, queue.job, idle)  # past the end: dropped
    return queue._replace(
        states=states,
        job=jnp.where(has_ended, idle, queue.job),
        results=jax.tree.map(
            lambda every, new: every.at[slot].set(new, mode="drop"),
            queue.results,
            states.best,
        ),
        is_done=queue.is_done.at[slot].set(True, mode="drop"),
        epochs=epochs,
        work=queue.work + taken * num_active,
        queued_epochs=queue.queued_epochs + queued,
        queued_work=queue.queued_work + queued * num_active,
    )


def _pick(jobs: Any, job: Int[Array, " B"]) -> Any:
    """The jobs of the lanes; an idle lane repeats the last one, and is not heard."""
    existing = jnp.minimum(job, _size(jobs) - 1)
    return jax.tree.map(lambda leaf: leaf[existing], jobs)


def _size(jobs: Any) -> int:
    return int(jax.tree.leaves(jobs)[0].shape[0])
