"""Lanes fed from a queue: many jobs of unequal length as two nested loops.

B lanes advance together by one vmapped epoch. The inner loop runs epochs until some
lane ends, the outer one writes its result and gives the lane the next job. Nothing
waits for the slowest job but the very end, and a lane that has ended is replaced at
once, so no state needs to be frozen.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int


class Occupancy(NamedTuple):
    """Share of lanes at work, per epoch of the whole call.

    Example:
      >>> Occupancy._fields
      ('overall', 'while_queued')
    """

    overall: Float[Array, ""]
    while_queued: Float[Array, ""]  # until the queue was dry


def run_queue(
    jobs: Any,
    start: Callable[[Any], Any],
    epoch: Callable[[Any, Any], tuple[Any, Bool[Array, " B"]]],
    *,
    lanes: int,
) -> tuple[Any, Occupancy]:
    """Run all jobs.

    Args:
      jobs: pytree, every leaf [J, ...], at least one job.
      start: jobs of all lanes -> their states, a pytree with a field `best` that holds
        the result so far.
      epoch: states and jobs of all lanes -> states, and which of them have ended.
      lanes: number of jobs that run side by side.

    Returns:
      The field `best` of every job at its end, in the order of the queue, and how busy
      the lanes were.

    Example:
      >>> class Count(NamedTuple):
      ...     best: Array
      >>> def start(jobs):
      ...     return Count(jnp.zeros_like(jobs))
      >>> def epoch(states, jobs):  # job n ends after n epochs
      ...     count = states.best + 1
      ...     return Count(count), count >= jobs
      >>> results, busy = run_queue(jnp.asarray([3, 1, 2]), start, epoch, lanes=2)
      >>> results.tolist(), float(busy.overall)
      ([3, 1, 2], 1.0)
    """
    lanes = min(lanes, _num_jobs(jobs))

    def next_round(queue: _Queue) -> _Queue:
        return _refill(_run_until_one_ends(queue, jobs, epoch), jobs, start)

    queue = jax.lax.while_loop(
        lambda queue: jnp.any(queue.job < _num_jobs(jobs)),
        next_round,
        _fill(jobs, lanes, start),
    )
    return queue.results, Occupancy(_share(queue.work), _share(queue.queued_work))


class _Queue(NamedTuple):
    states: Any  # every leaf [B, ...]; has a field `best`, the result so far
    job: Int[Array, " B"]  # of each lane; the number of jobs where it is idle
    next_job: Int[Array, ""]
    has_ended: Bool[Array, " B"]
    results: Any  # every leaf [J]
    work: Int[Array, " 2"]  # lane-epochs: at work, and in all
    queued_work: Int[Array, " 2"]  # the same until the queue was dry


def _pick(jobs: Any, job: Int[Array, " B"]) -> Any:
    """The jobs of the lanes; an idle lane repeats the last one, and is not heard."""
    existing = jnp.minimum(job, _num_jobs(jobs) - 1)
    return jax.tree.map(lambda leaf: leaf[existing], jobs)


def _fill(jobs: Any, lanes: int, start: Callable[[Any], Any]) -> _Queue:
    """The first jobs in the lanes."""
    job = jnp.arange(lanes, dtype=jnp.int32)
    states = start(_pick(jobs, job))
    num_jobs = _num_jobs(jobs)
    return _Queue(
        states=states,
        job=job,
        next_job=jnp.asarray(lanes, jnp.int32),
        has_ended=jnp.zeros(lanes, dtype=bool),
        results=jax.tree.map(
            lambda leaf: jnp.zeros((num_jobs,), leaf.dtype), states.best
        ),
        work=jnp.zeros(2, jnp.int32),
        queued_work=jnp.zeros(2, jnp.int32),
    )


def _run_until_one_ends(
    queue: _Queue,
    jobs: Any,
    epoch: Callable[[Any, Any], tuple[Any, Array]],
) -> _Queue:
    picked, is_active = _pick(jobs, queue.job), queue.job < _num_jobs(jobs)

    def body(carry: tuple[Any, Array, Array]) -> Any:
        states, _, count = carry
        states, has_ended = epoch(states, picked)
        return states, has_ended & is_active, count + 1

    nobody = jnp.zeros_like(is_active)
    states, has_ended, count = jax.lax.while_loop(
        lambda carry: ~jnp.any(carry[1]),
        body,
        (queue.states, nobody, jnp.zeros((), jnp.int32)),
    )
    lanes = jnp.asarray([jnp.sum(is_active), is_active.shape[0]], jnp.int32)
    is_queued = queue.next_job < _num_jobs(jobs)
    return queue._replace(
        states=states,
        has_ended=has_ended,
        work=queue.work + count * lanes,
        queued_work=queue.queued_work + jnp.where(is_queued, count * lanes, 0),
    )


def _refill(queue: _Queue, jobs: Any, start: Callable[[Any], Any]) -> _Queue:
    """Write the results of the lanes that ended and give them the next jobs."""
    num_jobs, has_ended = _num_jobs(jobs), queue.has_ended
    slot = jnp.where(has_ended, queue.job, num_jobs)  # past the end: dropped
    taken = jnp.cumsum(has_ended, dtype=jnp.int32)
    waiting = jnp.minimum(queue.next_job + taken - 1, num_jobs)
    job = jnp.where(has_ended, waiting, queue.job)

    def renew(new: Array, old: Array) -> Array:
        shape = has_ended.shape + (1,) * (old.ndim - 1)
        return jnp.where(has_ended.reshape(shape), new, old)

    return queue._replace(
        states=jax.tree.map(renew, start(_pick(jobs, job)), queue.states),
        job=job,
        next_job=jnp.minimum(queue.next_job + taken[-1], num_jobs),
        results=jax.tree.map(
            lambda every, new: every.at[slot].set(new, mode="drop"),
            queue.results,
            queue.states.best,
        ),
    )


def _num_jobs(jobs: Any) -> int:
    return int(jax.tree.leaves(jobs)[0].shape[0])


def _share(work: Int[Array, " 2"]) -> Float[Array, ""]:
    at_work, in_all = work.astype(float)
    return at_work / in_all
