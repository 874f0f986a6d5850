"""Hyper-parameter search: Optuna asks, one compiled program answers.

All settings are traced, so a study compiles once. Trials are asked for in batches whose
jobs (trial x split) share the lanes; a trial is told as soon as its last job has ended,
so a study that is killed resumes from its storage with every finished trial.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optuna

from dsf_jax.data.dataset import Dataset
from dsf_jax.data.splits import has_seeds, make_splits
from dsf_jax.engine.grid import Progress, run_grid
from dsf_jax.experiments.evaluation import (
    data_digest,
    environment,
    made_with,
    prepare,
    protocol,
)
from dsf_jax.experiments.presets import preset
from dsf_jax.experiments.spaces import Space, complete, space_of
from dsf_jax.experiments.study import open_study
from dsf_jax.models.model import Model
from dsf_jax.models.settings import (
    HyperParams,
    check_settings,
    settings_from_json,
    settings_to_json,
)
from dsf_jax.models.zoo import find_model, name_of
from dsf_jax.train import Jobs, TrainData

BATCH = 10  # trials that are asked for together
TRIALS_PER_FINALIST, FEWEST_FINALISTS = 5, 10  # the best trials run again
FINAL_SPLITS = 10  # on more splits than the trials
OTHER_SEEDS = 1_000_000  # than those of the trials
PAD_JOBS = 100  # the same program for batches, finalists and 10 splits x 10 seeds


class TuneProgress(NamedTuple):
    """What is known of a study on its way."""

    num_done: int  # finished trials
    num_trials: int
    finals_done: int  # of the best trials that run again
    num_finals: int
    best_val: float  # mean validation score of the best trial; NaN before the first
    best: dict[str, Any]  # its settings
    grid: Progress  # of the batch

    @property
    def status(self) -> str:
        """What is known so far, for people."""
        known = [f"{self.num_done}/{self.num_trials} trials"]
        if self.num_finals > 0:
            known += [f"{self.finals_done}/{self.num_finals} of the best again"]
        if self.num_done > 0:
            known += [f"best val {self.best_val:.2f}"]
        return ", ".join(known)


def tune(
    dataset: Dataset,
    model: str | Model,
    *,
    num_trials: int,
    storage: Path,
    num_splits: int = 3,
    num_finalists: int | None = None,
    split_kind: str = "stratified",
    seed: int = 0,
    epochs: int = 1000,
    patience: int = 100,
    lanes: int | None = None,
    base: HyperParams | None = None,
    space: Space | None = None,
    mixed: bool = False,
    on_progress: Callable[[TuneProgress], None] | None = None,
    on_positions: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Search the space of a model for the best mean validation score.

    The first trial has the settings that `evaluate` would use (published or tuned
    before, where they exist), moved into the ranges of the space. Each trial runs once
    on each of the first splits. The best of many noisy scores is a lucky one, so the
    best fifth of the trials (at least ten) runs again, with other seeds and on ten
    splits, and the best of those is chosen; by validation alone, too. A space with no
    more points than trials is searched point by point.

    Args:
      dataset: from `load_dataset` or `make_dataset`.
      model: a name in `MODELS`, or a model of your own.
      num_trials: finished trials to reach; those in the storage count.
      storage: journal file of the study; a file that exists is resumed. One process
        at a time may have it.
      num_splits: splits per trial.
      num_finalists: trials that run again, if not the best fifth; with 0 the best
        trial is chosen as it is.
      split_kind: one of `SPLIT_KINDS`.
      seed: of the first split, the runs and the sampler.
      epochs: most updates of a run.
      patience: epochs without a better validation score before a run ends.
      lanes: runs side by side; if not given, those of the study, or chosen by
        `choose_lanes`.
      base: values of what is not searched, and of the first trial; by default those
        that `evaluate` would use.
      space: what is searched; by default `space_of(model)`.
      mixed: go on with a study of another precision, version, number of devices or
        lanes.
      on_progress: called about once a second.
      on_positions: as in `prepare`.

    Returns:
      The best settings with what they were chosen by: `dataset, model, settings, val,
      finals` (of the finalists)`, final_splits, trials, vals` (of every trial)`,
      num_splits, split_kind, seed, epochs, patience, data_digest, lanes` and the
      versions.

    Raises:
      ValueError: if the storage is of another study, made with something else, or open
        in another process; if every trial diverged.

    Example:
      >>> import tempfile
      >>> from dsf_jax import regions
      >>> few = {"num_trials": 1, "num_splits": 1, "epochs": 2, "lanes": 1}
      >>> file = Path(tempfile.mkdtemp()) / "study"
      >>> tune(regions(60), "gpr", storage=file, **few)["trials"]
      1
    """
    model, name = find_model(model), name_of(model)
    if base is None:
        base = preset(dataset, model, split_kind).hparams
    check_settings(base, reads=model.reads)
    what = {
        "dataset": dataset.name,
        "model": name,
        "num_splits": num_splits,
        "split_kind": split_kind,
        "seed": seed,
        "epochs": epochs,
        "patience": patience,
        "data_digest": data_digest(dataset),
    }
    space = space_of(model) if space is None else space
    if num_finalists is None:
        num_finalists = max(FEWEST_FINALISTS, num_trials // TRIALS_PER_FINALIST)
    num_masks = max(num_splits, 10) if has_seeds(split_kind) else num_splits
    splits = make_splits(dataset, kind=split_kind, num_splits=num_masks, seed=seed)
    data = prepare(dataset, splits, model=model, on_positions=on_positions)
    train_config = protocol(
        dataset, data, model=model, epochs=epochs, patience=patience, lanes=lanes
    )
    own = made_with() | ({} if lanes is None else {"lanes": lanes})
    chosen = {"lanes": train_config.lanes} if lanes is None else {}
    searched = {"base": settings_to_json(base), "space": space}
    opened = open_study(storage, what | searched, own, chosen=chosen, mixed=mixed)
    with opened as (study, found_with):
        train_config = dataclasses.replace(train_config, lanes=found_with["lanes"])
        search = _Search(
            study=study,
            base=base,
            space=space,
            data=data,
            configs={"model": model, "train_config": train_config},
            key=jax.random.key(seed),
            num_splits=num_splits,
            num_trials=num_trials,
            num_finals=min(num_finalists, num_trials),
        )
        found = _find_best(search, min(num_masks, FINAL_SPLITS), on_progress)
    return what | found | {"lanes": train_config.lanes} | environment()


def _find_best(
    search: "_Search",
    final_splits: int,
    on_progress: Callable[[TuneProgress], None] | None,
) -> dict[str, Any]:
    """Run what is missing of the trials and of the finals; the best of them."""
    study = search.study
    _enqueue_first(search)
    while (num_left := search.num_trials - len(_done(study))) > 0:
        trials = [study.ask() for _ in range(min(BATCH, num_left))]
        _run_batch(search, trials, on_progress)
    if not any(map(_is_finite, _done(study))):
        raise ValueError(
            f"all {len(_done(study))} trials diverged (a loss or an output that is no "
            "finite number), so no settings were found; very large features do this: "
            "scale them, or search smaller learning rates."
        )
    finals = _run_finals(search._replace(num_splits=final_splits), on_progress)
    best = study.best_trial
    first = {"settings": best.user_attrs["settings"], "val": best.value}
    return max(finals, key=lambda final: final["val"], default=first) | {
        "finals": [round(final["val"], 3) for final in finals],
        "final_splits": final_splits,
        "trials": len(_done(study)),
        "vals": [round(v, 3) for t in study.trials if (v := t.value) is not None],
    }


class _Search(NamedTuple):
    study: optuna.Study
    base: HyperParams
    space: Space
    data: TrainData
    configs: dict[str, Any]
    key: Any
    num_splits: int
    num_trials: int
    num_finals: int


def _enqueue_first(search: _Search) -> None:
    """Known settings first, few points one by one; again what a kill interrupted."""
    study, state = search.study, optuna.trial.TrialState
    if all(trial.state == state.WAITING for trial in study.trials):
        study.enqueue_trial(_within(search.space, search.base), skip_if_exists=True)
        for point in _few_points(search.space, search.num_trials):
            study.enqueue_trial(point, skip_if_exists=True)
    for trial in study.get_trials(states=(state.RUNNING,)):
        study.tell(trial.number, state=state.FAIL)
        study.enqueue_trial(trial.params)


def _few_points(space: Space, most: int) -> list[dict[str, Any]]:
    """Every point of the space, or none if they are too many."""
    axes: dict[str, list[Any]] = {}
    for field, (kind, *rule) in space.items():
        if kind == "choice":
            axes[field] = list(rule[0])
        elif kind == "step":
            low, high, step = rule
            count = round((high - low) / step) + 1
            axes[field] = [min(round(low + i * step, 9), high) for i in range(count)]
        elif kind != "same":
            return []
    if math.prod(map(len, axes.values())) > most:
        return []
    return [
        dict(zip(axes, point, strict=True))
        for point in itertools.product(*axes.values())
    ]


def _within(space: Space, hparams: HyperParams) -> dict[str, Any]:
    """Settings as values of a trial, moved into the ranges of the space."""
    values = {}
    for field, value in settings_to_json(hparams).items():
        kind, *rule = space.get(field, ("same",))
        if kind == "choice" and value in rule[0]:
            values[field] = value
        elif kind in ("log", "uniform", "step"):
            values[field] = min(max(value, rule[0]), rule[1])
    return values


def _suggest(trial: optuna.Trial, space: Space) -> dict[str, Any]:
    """Settings of a trial, in their JSON form."""
    chosen: dict[str, Any] = {}
    for field, (kind, *rule) in space.items():
        if kind == "log":
            chosen[field] = trial.suggest_float(field, *rule, log=True)
        elif kind == "uniform":
            chosen[field] = trial.suggest_float(field, *rule)
        elif kind == "choice":
            chosen[field] = trial.suggest_categorical(field, *rule)
        elif kind == "step" and isinstance(rule[0], int):
            chosen[field] = trial.suggest_int(field, rule[0], rule[1], step=rule[2])
        elif kind == "step":
            value = trial.suggest_float(field, rule[0], rule[1], step=rule[2])
            chosen[field] = round(value, 9)
    return complete(space, chosen)


def _run_batch(
    search: _Search,
    trials: list[optuna.Trial],
    on_progress: Callable[[TuneProgress], None] | None,
) -> None:
    """Run the trials on the first splits, and tell each one."""
    base = settings_to_json(search.base)
    settings = [base | _suggest(trial, search.space) for trial in trials]
    for trial, chosen in zip(trials, settings, strict=True):
        trial.set_user_attr("settings", chosen)
    jobs = _jobs(search, [trial.number for trial in trials], settings)

    def tell(i: int, val: float, is_finite: bool) -> None:
        trials[i].set_user_attr("is_finite", is_finite)
        search.study.tell(trials[i], val)

    _run(search, jobs, tell, on_progress)


def _run_finals(
    search: _Search, on_progress: Callable[[TuneProgress], None] | None
) -> list[dict[str, Any]]:
    """Settings and mean validation score of the best trials, on more splits."""
    study, best = search.study, _finalists(search)
    missing = [trial for trial in best if _final(trial) not in study.user_attrs]
    at_once = PAD_JOBS // search.num_splits
    for i in range(0, len(missing), at_once):
        part = missing[i : i + at_once]
        names = [_final(trial) for trial in part]
        numbers = [OTHER_SEEDS + trial.number for trial in part]
        jobs = _jobs(search, numbers, [trial.user_attrs["settings"] for trial in part])
        _run(search, jobs, partial(_keep, study, names), on_progress)
    vals = study.user_attrs
    return [
        {"settings": trial.user_attrs["settings"], "val": vals[_final(trial)]}
        for trial in best
    ]


def _finalists(search: _Search) -> list[optuna.trial.FrozenTrial]:
    """The best trials so far, best first."""
    done = _done(search.study)
    return sorted(done, key=lambda trial: -(trial.value or 0.0))[: search.num_finals]


def _final(trial: optuna.trial.FrozenTrial) -> str:
    return f"final of {trial.number}"


def _keep(study: optuna.Study, names: list[str], i: int, val: float, _: bool) -> None:
    study.set_user_attr(names[i], val)


def _run(
    search: _Search,
    jobs: Jobs,
    tell: Callable[[int, float, bool], object],
    on_progress: Callable[[TuneProgress], None] | None,
) -> None:
    """Run settings x splits, and tell the mean score of each when its last job ends.

    A run that diverged scores 0; what is told says whether any run did not.
    """
    scores = np.full((len(jobs.split) // search.num_splits, search.num_splits), np.nan)
    is_finite = np.zeros(scores.shape, bool)

    def report(progress: Progress) -> None:
        results = progress.results
        scores.flat[progress.finished] = np.where(results.is_finite, results.val, 0.0)
        is_finite.flat[progress.finished] = results.is_finite
        for i in np.unique(progress.finished // search.num_splits):
            if not np.isnan(scores[i]).any():
                tell(int(i), 100 * float(scores[i].mean()), bool(is_finite[i].any()))
        if on_progress is not None:
            on_progress(_progress(search, progress))

    run_grid(jobs, search.data, **search.configs, pad_to=PAD_JOBS, on_progress=report)


def _jobs(
    search: _Search,
    numbers: list[int],
    settings: list[dict[str, Any]],
) -> Jobs:
    """Every trial on every split; a key for each, whatever the batch."""
    hparams = [settings_from_json(chosen) for chosen in settings]
    trial_keys = [jax.random.fold_in(search.key, number) for number in numbers]
    split = jnp.arange(search.num_splits, dtype=jnp.int32)
    return Jobs(
        key=jnp.concatenate(
            [jax.vmap(jax.random.fold_in, (None, 0))(key, split) for key in trial_keys]
        ),
        split=jnp.tile(split, len(numbers)),
        hparams=jax.tree.map(
            lambda *values: jnp.repeat(jnp.asarray(values), search.num_splits),
            *hparams,
        ),
    )


def _progress(search: _Search, grid: Progress) -> TuneProgress:
    num_done = len(_done(search.study))
    best_val, best = float("nan"), {}
    if num_done > 0:
        best_val = search.study.best_value
        best = search.study.best_trial.user_attrs["settings"]
    known = search.study.user_attrs
    finals_done = sum(_final(trial) in known for trial in _finalists(search))
    return TuneProgress(
        num_done=num_done,
        num_trials=search.num_trials,
        finals_done=finals_done,
        num_finals=search.num_finals,
        best_val=best_val,
        best=best,
        grid=grid,
    )


def _done(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    complete_only = (optuna.trial.TrialState.COMPLETE,)
    return study.get_trials(deepcopy=False, states=complete_only)


def _is_finite(trial: optuna.trial.FrozenTrial) -> bool:
    """Whether any run of the trial was finite; older studies have the score alone."""
    return trial.user_attrs.get("is_finite", (trial.value or 0.0) > 0)
