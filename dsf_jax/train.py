"""Training: many runs with early stopping in one compiled call.

A run is a job: (key, split, hyper-parameters). Jobs run side by side on lanes that are
fed from a queue (`dsf_jax.engine.queue`), so a grid of splits x seeds and a search are
the same call, and memory is set by the number of lanes, not of jobs. `run_jobs` is that
call; `dsf_jax.engine.grid` runs the same queue on several devices, with progress.

An epoch evaluates the parameters it finds and then updates them, so that one pass over
the positions serves both. The protocol is the authors': after every update one
evaluation, the first epoch with a strictly better validation score is kept, and a run
ends after more than `patience` epochs without one, or after `epochs`.
"""

import dataclasses
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int, Key

from dsf_jax.data.dataset import Metric
from dsf_jax.engine.metrics import Summary, accuracy, roc_auc, summarise
from dsf_jax.engine.optimizer import init_moments, update
from dsf_jax.engine.queue import Occupancy, Program, advance, occupancy, open_queue
from dsf_jax.models.layers import Inputs
from dsf_jax.models.model import Flags, Model, Run, task_loss
from dsf_jax.models.settings import HyperParams, check_config
from dsf_jax.ops.nodes import average, total

Selection = Literal["first-best", "last-best", "lowest-loss"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """What fixes the program of a training call.

    `selection` is the rule by which an epoch is chosen and a run ends:

    - `first-best` (DSF): the first epoch with the best validation score; ends after
      more than `patience` epochs without a better one.
    - `last-best` (JacobiConv, patience 200): the last epoch with the best validation
      score; ends after more than `patience` epochs without one as good.
    - `lowest-loss` (GPR-GNN and BernNet, patience 200): the epoch with the lowest
      validation loss; ends when that loss is above the mean of the `patience` ones
      before it, from epoch `patience` + 2 on.

    Example:
      >>> TrainConfig(num_classes=5, lanes=4).patience
      100
    """

    num_classes: int
    epochs: int = 1000
    patience: int = 100
    lanes: int = 1  # runs side by side
    metric: str = "accuracy"  # a `Metric`
    selection: str = "first-best"  # a `Selection`
    keeps_params: bool = False  # the best ones of every job in its results

    def __post_init__(self) -> None:
        """Check what the annotations cannot."""
        least = {"num_classes": 2, "epochs": 1, "patience": 0, "lanes": 1}
        words = {"selection": get_args(Selection), "metric": get_args(Metric)}
        check_config(self, least, **words)
        if self.metric == "roc_auc" and self.num_classes != 2:
            raise ValueError(
                f"metric must be 'accuracy' for {self.num_classes} classes, got "
                "'roc_auc'; that is defined for two."
            )


class TrainData(NamedTuple):
    """Inputs, labels and the masks of every split; from `dsf_jax.prepare`.

    Example:
      >>> from dsf_jax import make_splits, prepare, regions
      >>> dataset = regions(60)
      >>> data = prepare(dataset, make_splits(dataset, num_splits=4), model="gpr")
      >>> data.train.shape
      (4, 60)
    """

    inputs: Inputs
    labels: Int[Array, " N"]  # -1 where unknown
    train: Bool[Array, "S N"]
    val: Bool[Array, "S N"]
    test: Bool[Array, "S N"]


class Jobs(NamedTuple):
    """The queue: a grid and a search are the same thing."""

    key: Key[Array, "..."]  # [J], as are the others; no axis for a single job
    split: Int[Array, "..."]
    hparams: HyperParams


class JobResults(NamedTuple):
    """What is known of every job at its end; leaves are [J]."""

    test: Float[Array, "..."]  # at the chosen epoch
    val: Float[Array, "..."]
    best_epoch: Int[Array, "..."]  # 1 is the first update; 0: no score above 0
    epochs_run: Int[Array, "..."]
    train_loss: Float[Array, "..."]  # the last that was computed
    val_loss: Float[Array, "..."]
    is_finite: Bool[Array, "..."]
    params: Any  # at the chosen epoch, if `TrainConfig.keeps_params`


class GridResult(NamedTuple):
    """Result of `run_jobs`."""

    jobs: JobResults
    summary: Summary
    occupancy: Occupancy


class Losses(NamedTuple):
    """Validation losses that `lowest-loss` needs."""

    lowest: Float[Array, ""]
    recent: Float[Array, " W"]  # the last ones, epoch e at e % W


class TrainState(NamedTuple):
    """One run on its way."""

    params: Any  # a pytree of the model
    moments: Any  # of Adam
    epoch: Int[Array, ""]  # updates so far
    since_best: Int[Array, ""]  # evaluations since the best one
    best: JobResults  # without the job axis
    losses: Losses | None  # where the selection needs them


def init_state(
    job: Jobs, data: TrainData, *, model: Model, train_config: TrainConfig
) -> TrainState:
    """A run before its first update.

    Example:
      See `train_epoch`.
    """
    num_classes = train_config.num_classes
    params = model.init(job.key, data.inputs, job.hparams, num_classes=num_classes)
    dtype = jax.tree.leaves(params)[0].dtype
    zero, none = jnp.zeros((), dtype), jnp.zeros((), jnp.int32)
    losses = None
    if train_config.selection == "lowest-loss":
        window = max(train_config.patience, 1)
        losses = Losses(jnp.full((), jnp.inf, dtype), jnp.zeros(window, dtype))
    return TrainState(
        params=params,
        moments=init_moments(params),
        epoch=none,
        since_best=none,
        best=JobResults(
            test=zero,
            val=zero,
            best_epoch=none,
            epochs_run=none,
            train_loss=zero,
            val_loss=zero,
            is_finite=jnp.asarray(True),
            params=params if train_config.keeps_params else None,
        ),
        losses=losses,
    )


def train_epoch(
    state: TrainState,
    job: Jobs,
    data: TrainData,
    flags: Flags,
    *,
    model: Model,
    train_config: TrainConfig,
) -> tuple[TrainState, Bool[Array, ""]]:
    """Evaluate the parameters, then update them once.

    Args:
      state: the run.
      job: a single job; the masks of an epoch are drawn from its key and the epoch.
      data: the data set.
      flags: of all jobs that run side by side.
      model: the model.
      train_config: the protocol.

    Returns:
      The run after the update, and whether it has ended.

    Example:
      >>> from dsf_jax import MODELS, make_splits, prepare, regions
      >>> dataset, model = regions(60), MODELS["gpr"]
      >>> data = prepare(dataset, make_splits(dataset, num_splits=1), model=model)
      >>> job = Jobs(jax.random.key(0), jnp.asarray(0), HyperParams())
      >>> configs = {"model": model, "train_config": TrainConfig(num_classes=2)}
      >>> state = init_state(job, data, **configs)
      >>> flags = model.flags(job.hparams)
      >>> epoch = jax.jit(train_epoch, static_argnames=("model", "train_config"))
      >>> state, has_ended = epoch(state, job, data, flags, **configs)
      >>> int(state.epoch), bool(has_ended)
      (1, False)
    """
    run = Run(data.inputs, job.hparams, flags=flags)
    key = jax.random.fold_in(job.key, state.epoch)
    run = run._replace(masks=model.draw_masks(key, state.params, run))
    nodes = data.labels, data.train[job.split], job.hparams
    is_binary = train_config.metric == "roc_auc"

    def objective(params: Any) -> tuple[Array, Array]:
        output, logits = model.apply_both(params, run)
        return model.loss(output, *nodes, is_binary=is_binary), logits

    grad_fn = jax.value_and_grad(objective, has_aux=True)
    (train_loss, logits), gradient = grad_fn(state.params)
    gradient = average(gradient)
    new_state, has_ended = _judge(state, train_loss, logits, job, data, train_config)
    groups = model.groups(job.hparams)
    params, moments = update(state.params, gradient, state.moments, groups)
    return new_state._replace(params=params, moments=moments), has_ended


def run_jobs(
    jobs: Jobs, data: TrainData, *, model: Model, train_config: TrainConfig
) -> GridResult:
    """Run every job of the queue; put `jax.jit` around it.

    Results do not depend on the order of the queue, as each job draws from its own key,
    and on the number of lanes in rounding alone: sums of several lanes are added in
    another order. In float64 scores are the same; in float32 the error grows with the
    epochs, and some runs choose another epoch (docs/decisions.md, "Lanes").

    Args:
      jobs: the queue.
      data: the data set.
      model: the model.
      train_config: the protocol and the number of lanes.

    Returns:
      Results of every job in the order of the queue, their summary, and how busy the
      lanes were.

    Example:
      >>> from dsf_jax import MODELS, make_splits, prepare, regions
      >>> dataset, model = regions(60), MODELS["gpr"]
      >>> data = prepare(dataset, make_splits(dataset, num_splits=1), model=model)
      >>> jobs = grid_jobs(HyperParams(), num_splits=1, num_seeds=3, seed=0)
      >>> settings = TrainConfig(num_classes=2, epochs=2, lanes=2)
      >>> run = jax.jit(run_jobs, static_argnames=("model", "train_config"))
      >>> run(jobs, data, model=model, train_config=settings).jobs.test.shape
      (3,)
    """
    num_jobs = jobs.split.shape[0]
    program = make_program(data, model=model, train_config=train_config)
    lanes = max(min(train_config.lanes, num_jobs), 1)
    queue = open_queue(jobs, program, lanes=lanes, num_jobs=num_jobs)
    if num_jobs > 0:  # idle lanes need a job to repeat
        no_limit = num_jobs * (train_config.epochs + 1)
        queue = advance(queue, jobs, program, max_epochs=no_limit)
    summary = summarise(queue.results.test, queue.results.is_finite)
    return GridResult(queue.results, summary, occupancy(queue))


def make_program(
    data: TrainData, *, model: Model, train_config: TrainConfig
) -> Program:
    """What the lanes of a queue do: begin a job, and train all of them for an epoch.

    Example:
      See `run_jobs`.
    """
    configs: dict[str, Any] = {"model": model, "train_config": train_config}

    def start(picked: Jobs) -> TrainState:
        return jax.vmap(lambda job: init_state(job, data, **configs))(picked)

    def epoch(states: TrainState, picked: Jobs) -> tuple[TrainState, Array]:
        flags = model.flags(picked.hparams)
        return jax.vmap(
            lambda state, job: train_epoch(state, job, data, flags, **configs)
        )(states, picked)

    return Program(start=start, epoch=epoch)


def grid_jobs(
    hparams: HyperParams, *, num_splits: int, num_seeds: int, seed: int
) -> Jobs:
    """The queue of a grid: every split with every seed, split by split.

    Example:
      >>> grid_jobs(HyperParams(), num_splits=2, num_seeds=3, seed=0).split.tolist()
      [0, 0, 0, 1, 1, 1]
    """
    for name, value in {"num_splits": num_splits, "num_seeds": num_seeds}.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
    num_jobs = num_splits * num_seeds
    return Jobs(
        key=jax.random.split(jax.random.key(seed), num_jobs),
        split=jnp.repeat(jnp.arange(num_splits, dtype=jnp.int32), num_seeds),
        hparams=jax.tree.map(
            lambda value: jnp.broadcast_to(jnp.asarray(value), (num_jobs,)), hparams
        ),
    )


def score_split(
    logits: Float[Array, "N C"],
    data: TrainData,
    split: Int[Array, ""] | int,
    *,
    is_binary: bool,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Validation and test score: accuracy, or with `is_binary` ROC-AUC.

    Example:
      >>> from dsf_jax import make_splits, prepare, regions
      >>> dataset = regions(60)
      >>> data = prepare(dataset, make_splits(dataset, num_splits=1), model="gpr")
      >>> right = jax.nn.one_hot(data.labels, 2)
      >>> [float(score) for score in score_split(right, data, 0, is_binary=False)]
      [1.0, 1.0]
    """
    score_fn = roc_auc if is_binary else accuracy
    scores = jax.nn.softmax(logits)[:, 1] if is_binary else logits
    masks = data.val[split], data.test[split]
    val, test = (score_fn(scores, data.labels, mask) for mask in masks)
    return val, test


def _judge(
    state: TrainState,
    train_loss: Float[Array, ""],
    logits: Float[Array, "N C"],
    job: Jobs,
    data: TrainData,
    train_config: TrainConfig,
) -> tuple[TrainState, Bool[Array, ""]]:
    """Score an epoch, keep the best, and tell whether the run has ended."""
    is_binary = train_config.metric == "roc_auc"
    val_score, test_score = score_split(logits, data, job.split, is_binary=is_binary)
    val_loss = task_loss(logits, data.labels, data.val[job.split], is_binary=is_binary)

    is_scored = state.epoch > 0  # the start itself is not a candidate
    match train_config.selection:
        case "first-best":
            is_better = is_scored & (val_score > state.best.val)
        case "last-best":
            is_better = is_scored & (val_score >= state.best.val)
        case "lowest-loss":
            assert state.losses is not None
            is_better = is_scored & (val_loss < state.losses.lowest)
    since_best = jnp.where(is_better | ~is_scored, 0, state.since_best + 1)
    losses, is_done = state.losses, since_best > train_config.patience
    if losses is not None:
        window = len(losses.recent)
        is_done = (state.epoch > window + 1) & (val_loss > jnp.mean(losses.recent))
        losses = Losses(
            lowest=jnp.where(is_better, val_loss, losses.lowest),
            recent=losses.recent.at[state.epoch % window].set(val_loss),
        )
    is_over = is_scored & (is_done | (state.epoch >= train_config.epochs))
    # an epoch that is over has no update, but its scores must be of numbers
    has_numbers = total(jnp.sum(~jnp.isfinite(logits))) == 0
    is_finite = jnp.where(is_over, has_numbers, jnp.isfinite(train_loss))
    last = state.best

    def keep(new: Array, old: Array) -> Array:
        return jnp.where(is_better, new, old)

    best = JobResults(
        test=keep(test_score, last.test),
        val=keep(val_score, last.val),
        best_epoch=keep(state.epoch, last.best_epoch),
        # an epoch that is over needs no further update; a bad loss ends the next one
        epochs_run=jnp.where(is_over, state.epoch, state.epoch + 1),
        train_loss=jnp.where(is_over & is_finite, last.train_loss, train_loss),
        val_loss=val_loss,
        is_finite=is_finite,
        params=jax.tree.map(keep, state.params, last.params)
        if train_config.keeps_params
        else None,
    )
    new_state = state._replace(
        epoch=state.epoch + 1, since_best=since_best, best=best, losses=losses
    )
    return new_state, is_over | ~is_finite
