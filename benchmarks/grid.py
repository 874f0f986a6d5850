"""What does an evaluation on 10 splits x 10 seeds cost, and one by one?

    python benchmarks/grid.py --dataset chameleon --model dsf-gpr-r

Two JSON lines: the grid with its seconds, compilation, occupancy (until the queue is
dry, and overall), peak memory and score; then the first jobs of the same grid one by
one, a single lane on a single device, with the time that all of them would take at that
pace. The second line also says how far the two are apart (float32: sums in another
order move single predictions).
"""

import argparse

import jax
import numpy as np
from common import (
    comparable_settings,
    note,
    peak_mb,
    print_case,
    print_environment,
    use_whole_computer,
)

from dsf_jax import MODELS, load_dataset, make_splits
from dsf_jax.engine.grid import Progress, choose_lanes, run_grid
from dsf_jax.experiments.evaluation import prepare
from dsf_jax.train import TrainConfig, grid_jobs


def show(progress: Progress) -> None:
    """A line now and then."""
    if len(progress.finished):
        note(f"{progress.num_done}/{progress.num_jobs} runs, {progress.status}")


def main() -> None:
    """Run the grid, then a sample of it one by one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dataset", default="chameleon")
    parser.add_argument("--model", default="dsf-gpr-r", choices=sorted(MODELS))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sample", type=int, default=4)
    arguments = parser.parse_args()
    use_whole_computer()
    print_environment()
    dataset, model = load_dataset(arguments.dataset), MODELS[arguments.model]
    splits = make_splits(dataset, num_splits=arguments.splits)
    data = prepare(dataset, splits, model=model)
    jobs = grid_jobs(
        comparable_settings(arguments.dataset, arguments.model),
        num_splits=arguments.splits,
        num_seeds=arguments.seeds,
        seed=0,
    )
    lanes = choose_lanes(data, model=model)
    protocol = {"num_classes": dataset.num_classes, "metric": dataset.metric}
    report = run_grid(
        jobs,
        data,
        model=model,
        train_config=TrainConfig(lanes=lanes, **protocol),
        on_progress=show,
    )
    epochs = int(report.jobs.epochs_run.sum())
    print_case(
        dataset=arguments.dataset,
        model=arguments.model,
        runs=len(report.jobs.test),
        lanes=lanes,
        devices=jax.device_count(),
        seconds=report.seconds,
        compile_s=report.compile_seconds,
        epochs=epochs,
        ms_per_epoch_run=1e3 * report.seconds / epochs,
        occupancy=float(report.occupancy.overall),
        occupancy_while_queued=float(report.occupancy.while_queued),
        peak_rss_mb=peak_mb(),
        mean=100 * float(report.summary.mean),
        ci95=100 * float(report.summary.ci95),
    )
    count = arguments.sample
    alone = [
        run_grid(
            jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], jobs),
            data,
            model=model,
            train_config=TrainConfig(lanes=1, **protocol),
            devices=jax.devices()[:1],
        )
        for i in range(count)
    ]
    seconds = sum(run.seconds for run in alone)
    sample_epochs = sum(int(run.jobs.epochs_run[0]) for run in alone)
    tests = np.asarray([run.jobs.test[0] for run in alone])
    best = np.asarray([run.jobs.best_epoch[0] for run in alone])
    print_case(
        dataset=arguments.dataset,
        model=arguments.model,
        runs=count,
        lanes=1,
        devices=1,
        seconds=seconds,
        ms_per_epoch_run=1e3 * seconds / sample_epochs,
        seconds_for_all=seconds / sample_epochs * epochs,
        times_slower=seconds / sample_epochs * epochs / report.seconds,
        same_best_epoch=int(np.sum(best == report.jobs.best_epoch[:count])),
        largest_score_difference=100
        * float(np.max(np.abs(tests - report.jobs.test[:count]))),
    )


if __name__ == "__main__":
    main()
