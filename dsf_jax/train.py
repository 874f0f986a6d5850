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
from dsf_jax.models.interface import model_of
from dsf_jax.models.losses import task_loss
from dsf_jax.models.params import Inputs
from dsf_jax.models.settings import Config, Flags, HyperParams, lane_flags

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
    metric: Metric = "accuracy"
    selection: Selection = "first-best"
    keeps_params: bool = False  # the best ones of every job in its results

    def __post_init__(self) -> None:
        """Check what the annotations cannot."""
        for name, least in {
            "num_classes": 2,
            "epochs": 1,
            "patience": 0,
            "lanes": 1,
        }.items():
            if not getattr(self, name) >= least:
                raise ValueError(
                    f"{name} must be at least {least}, got {getattr(self, name)}."
                )
        if self.selection not in get_args(Selection):
            raise ValueError(
                f"selection must be one of {', '.join(get_args(Selection))}, got "
                f"{self.selection!r}."
            )
        if self.metric == "roc_auc" and self.num_classes != 2:
            raise ValueError(
                f"metric must be 'accuracy' for {self.num_classes} classes, got "
                "'roc_auc'; that is defined for two."
            )


class TrainData(NamedTuple):
    """Inputs, labels and the masks of every split.

    Example:
      >>> TrainData._fields
      ('inputs', 'labels', 'train', 'val', 'test')
    """

    inputs: Inputs
    labels: Int[Array, " N"]  # -1 where unknown
    train: Bool[Array, "S N"]
    val: Bool[Array, "S N"]
    test: Bool[Array, "S N"]


class Jobs(NamedTuple):
    """The queue: a grid and a search are the same thing.

    Example:
      >>> Jobs._fields
      ('key', 'split', 'hparams')
    """

    key: Key[Array, "..."]  # [J], as are the others; no axis for a single job
    split: Int[Array, "..."]
    hparams: HyperParams


class JobResults(NamedTuple):
    """What is known of every job at its end; leaves are [J].

    Example:
      >>> JobResults._fields[:4]
      ('test', 'val', 'best_epoch', 'epochs_run')
    """

    test: Float[Array, "..."]  # at the chosen epoch
    val: Float[Array, "..."]
    best_epoch: Int[Array, "..."]  # 1 is the first update; 0: no score above 0
    epochs_run: Int[Array, "..."]
    train_loss: Float[Array, "..."]  # the last that was computed
    val_loss: Float[Array, "..."]
    is_finite: Bool[Array, "..."]
    params: Any  # at the chosen epoch, if `TrainConfig.keeps_params`


class GridResult(NamedTuple):
    """Result of `run_jobs`.

    Example:
      >>> GridResult._fields
      ('jobs', 'summary', 'occupancy')
    """

    jobs: JobResults
    summary: Summary
    occupancy: Occupancy


class Losses(NamedTuple):
    """Validation losses that `lowest-loss` needs.

    Example:
      >>> Losses._fields
      ('lowest', 'recent')
    """

    lowest: Float[Array, ""]
    recent: Float[Array, " W"]  # the last ones, epoch e at e % W


class TrainState(NamedTuple):
    """One run on its way.

    Example:
      >>> TrainState._fields[:2]
      ('params', 'moments')
    """

    params: Any  # a pytree of the model
    moments: Any  # of Adam
    epoch: Int[Array, ""]  # updates so far
    since_best: Int[Array, ""]  # evaluations since the best one
    best: JobResults  # without the job axis
    losses: Losses | None  # where the selection needs them


def init_state(
    key: Key[Array, ""],
    inputs: Inputs,
    hparams: HyperParams,
    *,
    config: Config,
    train_config: TrainConfig,
) -> TrainState:
    """A run before its first update.

    Example:
      >>> from dsf_jax import MODELS, Graph, make_inputs
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> config, train_config = MODELS["gpr"], TrainConfig(num_classes=2)
      >>> inputs = make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)), config)
      >>> configs = {"config": config, "train_config": train_config}
      >>> state = init_state(jax.random.key(0), inputs, HyperParams(), **configs)
      >>> int(state.epoch)
      0
    """
    num_classes = train_config.num_classes
    params = model_of(config).init(key, inputs, hparams, num_classes=num_classes)
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
    config: Config,
    train_config: TrainConfig,
) -> tuple[TrainState, Bool[Array, ""]]:
    """Evaluate the parameters, then update them once.

    Args:
      state: the run.
      job: a single job; the masks of an epoch are drawn from its key and the epoch.
      data: the data set.
      flags: of all jobs that run side by side.
      config: the model.
      train_config: the protocol.

    Returns:
      The run after the update, and whether it has ended.

    Example:
      >>> from dsf_jax import MODELS, Graph, make_inputs
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> config, mask = MODELS["gpr"], jnp.ones((1, 2), dtype=bool)
      >>> inputs = make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)), config)
      >>> data = TrainData(inputs, jnp.asarray([0, 1]), mask, mask, mask)
      >>> job = Jobs(jax.random.key(0), jnp.asarray(0), HyperParams())
      >>> configs = {"config": config, "train_config": TrainConfig(num_classes=2)}
      >>> state = init_state(job.key, inputs, job.hparams, **configs)
      >>> flags = lane_flags(job.hparams)
      >>> state, has_ended = train_epoch(state, job, data, flags, **configs)
      >>> int(state.epoch), bool(has_ended)
      (1, False)
    """
    model, hparams = model_of(config), job.hparams
    is_binary = train_config.metric == "roc_auc"
    key = jax.random.fold_in(job.key, state.epoch)
    masks = model.draw_masks(key, state.params, data.inputs, hparams, flags=flags)

    def objective(params: Any) -> tuple[Array, Array]:
        output, logits = model.apply_both(
            params, data.inputs, hparams, masks=masks, flags=flags
        )
        nodes = data.labels, data.train[job.split]
        return model.loss(output, *nodes, hparams, is_binary=is_binary), logits

    grad_fn = jax.value_and_grad(objective, has_aux=True)
    (train_loss, logits), gradient = grad_fn(state.params)
    new_state, has_ended = _judge(
        state, train_loss, logits, job, data, train_config=train_config
    )
    params, moments = update(
        state.params, gradient, state.moments, hparams, config=config
    )
    return new_state._replace(params=params, moments=moments), has_ended


def run_jobs(
    jobs: Jobs, data: TrainData, *, config: Config, train_config: TrainConfig
) -> GridResult:
    """Run every job of the queue; put `jax.jit` around it.

    Results do not depend on the number of lanes or the order of the queue: each job
    draws from its own key.

    Args:
      jobs: the queue.
      data: the data set.
      config: the model.
      train_config: the protocol and the number of lanes.

    Returns:
      Results of every job in the order of the queue, their summary, and how busy the
      lanes were.

    Example:
      >>> from dsf_jax import MODELS, Graph, make_inputs
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> config = MODELS["gpr"]
      >>> masks = jnp.ones((1, 2), dtype=bool)
      >>> inputs = make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)), config)
      >>> data = TrainData(inputs, jnp.asarray([0, 1]), masks, masks, masks)
      >>> jobs = grid_jobs(HyperParams(), num_splits=1, num_seeds=3, seed=0)
      >>> settings = TrainConfig(num_classes=2, epochs=2, lanes=2)
      >>> run = jax.jit(run_jobs, static_argnames=("config", "train_config"))
      >>> run(jobs, data, config=config, train_config=settings).jobs.test.shape
      (3,)
    """
    num_jobs = jobs.split.shape[0]
    program = make_program(data, config=config, train_config=train_config)
    lanes = max(min(train_config.lanes, num_jobs), 1)
    queue = open_queue(jobs, program, lanes=lanes, num_jobs=num_jobs)
    if num_jobs > 0:  # idle lanes need a job to repeat
        no_limit = num_jobs * (train_config.epochs + 1)
        queue = advance(queue, jobs, program, max_epochs=no_limit)
    summary = summarise(queue.results.test, queue.results.is_finite)
    return GridResult(queue.results, summary, occupancy(queue))


def make_program(
    data: TrainData, *, config: Config, train_config: TrainConfig
) -> Program:
    """What the lanes of a queue do: begin a job, and train all of them for an epoch.

    Example:
      See `run_jobs`.

      >>> make_program.__name__
      'make_program'
    """
    configs: dict[str, Any] = {"config": config, "train_config": train_config}

    def start(picked: Jobs) -> TrainState:
        return jax.vmap(
            lambda key, hparams: init_state(key, data.inputs, hparams, **configs)
        )(picked.key, picked.hparams)

    def epoch(states: TrainState, picked: Jobs) -> tuple[TrainState, Array]:
        flags = lane_flags(picked.hparams)
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
    num_jobs = num_splits * num_seeds
    return Jobs(
        key=jax.random.split(jax.random.key(seed), num_jobs),
        split=jnp.repeat(jnp.arange(num_splits, dtype=jnp.int32), num_seeds),
        hparams=jax.tree.map(
            lambda value: jnp.broadcast_to(jnp.asarray(value), (num_jobs,)), hparams
        ),
    )


def _judge(
    state: TrainState,
    train_loss: Float[Array, ""],
    logits: Float[Array, "N C"],
    job: Jobs,
    data: TrainData,
    *,
    train_config: TrainConfig,
) -> tuple[TrainState, Bool[Array, ""]]:
    """Score an epoch, keep the best, and tell whether the run has ended."""
    is_binary = train_config.metric == "roc_auc"
    score_fn = _roc_auc_of_logits if is_binary else accuracy
    val_score = score_fn(logits, data.labels, data.val[job.split])
    test_score = score_fn(logits, data.labels, data.test[job.split])
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
    is_finite = jnp.isfinite(train_loss)
    last = state.best
    best = JobResults(
        test=jnp.where(is_better, test_score, last.test),
        val=jnp.where(is_better, val_score, last.val),
        best_epoch=jnp.where(is_better, state.epoch, last.best_epoch),
        # an epoch that is over needs no further update; a bad loss ends the next one
        epochs_run=jnp.where(is_over, state.epoch, state.epoch + 1),
        train_loss=jnp.where(is_over, last.train_loss, train_loss),
        val_loss=val_loss,
        is_finite=is_over | is_finite,
        params=None
        if last.params is None
        else jax.tree.map(
            lambda new, old: jnp.where(is_better, new, old), state.params, last.params
        ),
    )
    new_state = state._replace(
        epoch=state.epoch + 1, since_best=since_best, best=best, losses=losses
    )
    return new_state, is_over | ~is_finite


def _roc_auc_of_logits(
    logits: Float[Array, "N 2"], labels: Int[Array, " N"], mask: Bool[Array, " N"]
) -> Float[Array, ""]:
    return roc_auc(jax.nn.softmax(logits)[:, 1], labels, mask)
