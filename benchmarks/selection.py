"""How well does validation choose settings, and how much is lost by its choice?

    python benchmarks/selection.py --dataset texas --models gpr dsf-gpr-r

A search of 100 trials on three splits; then the 40 best trials run on ten splits with
two other seeds each. One JSON line per model: Spearman's rank correlation of the mean
test score of these runs with the score of the search (`trial`), with the mean
validation score (`val`) and loss (`val_loss`) of the same runs; the test score of the
settings that `val` chooses, and the highest test score of all 40, which no honest
choice can know.
"""

import argparse
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optuna
import scipy.stats
from common import note, print_case, print_environment, use_whole_computer

from dsf_jax import MODELS, load_dataset, make_splits, prepare
from dsf_jax.engine.grid import run_grid
from dsf_jax.experiments.evaluation import protocol
from dsf_jax.experiments.search import PAD_JOBS, tune
from dsf_jax.models.settings import settings_from_json
from dsf_jax.train import Jobs, grid_jobs

TRIALS, BEST, SEEDS = 100, 40, 2


def best_trials(storage: Path) -> list[optuna.trial.FrozenTrial]:
    """The best finished trials of a study."""
    backend = optuna.storages.journal.JournalFileBackend(str(storage))
    study = optuna.load_study(
        study_name="dsf-jax", storage=optuna.storages.JournalStorage(backend)
    )
    done = study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
    return sorted(done, key=lambda trial: -(trial.value or 0.0))[:BEST]


def run_model(dataset_name: str, name: str, folder: Path) -> dict[str, Any]:
    """Search, run the best trials again, compare."""
    dataset, model = load_dataset(dataset_name), MODELS[name]
    storage = folder / f"selection-{dataset_name}-{name}.study"
    note(f"{dataset_name}, {name}: {TRIALS} trials")
    tune(dataset, model, num_trials=TRIALS, storage=storage)
    trials = best_trials(storage)
    splits = make_splits(dataset, num_splits=10)
    data = prepare(dataset, splits, model=model)
    limits = {"epochs": 1000, "patience": 100, "lanes": None}
    configs = {
        "model": model,
        "train_config": protocol(dataset, data, model=model, **limits),
    }
    means = {"test": [], "val": [], "val_loss": []}
    for number, trial in enumerate(trials):
        if number % 10 == 0:
            note(f"  {number}/{BEST} run again")
        hparams = settings_from_json(trial.user_attrs["settings"])
        jobs: Jobs = grid_jobs(
            hparams, num_splits=10, num_seeds=SEEDS, seed=10_000 + trial.number
        )
        results = run_grid(jobs, data, **configs, pad_to=PAD_JOBS).jobs
        for field, values in means.items():
            values.append(float(np.mean(getattr(results, field))))
    test = 100 * np.asarray(means["test"])
    measures = {
        "trial": [trial.value for trial in trials],
        "val": means["val"],
        "val_loss": means["val_loss"],
    }
    return {
        "dataset": dataset_name,
        "model": name,
        **{
            f"rank_correlation_{field}": float(
                scipy.stats.spearmanr(values, test).statistic
            )
            for field, values in measures.items()
        },
        "test_of_best_trial": float(test[0]),
        "test_of_best_val": float(test[np.argmax(means["val"])]),
        "highest_test": float(test.max()),
        "median_test": float(np.median(test)),
    }


def main() -> None:
    """Parse the arguments; one line per model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dataset", default="texas")
    parser.add_argument("--models", nargs="+", default=["gpr", "dsf-gpr-r"])
    parser.add_argument("--folder", type=Path, default=Path(), help="of the studies")
    arguments = parser.parse_args()
    use_whole_computer()
    print_environment()
    for name in arguments.models:
        print_case(**run_model(arguments.dataset, name, arguments.folder))
        jax.clear_caches()


if __name__ == "__main__":
    main()
