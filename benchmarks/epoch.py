"""How long is one epoch of one run: training step and full evaluation?

    python benchmarks/epoch.py --dataset chameleon --model dsf-gpr-r --lanes auto
    python benchmarks/epoch.py --dataset texas --lanes 1 2 4 8 16 auto
    python benchmarks/epoch.py --nodes 10000 100000

One JSON line per number of lanes (of all devices together; one device per core):
`ms_per_epoch_run`, and the same in `units` of one scipy product Ã x with 64 float32
columns on the same graph in the same process (`scipy_product_ms`), so that the figure
survives a busy machine; `compile_s`, and `peak_rss_mb` of the process so far. Data sets
have their published settings. `--nodes` generates random graphs of degree 10 instead,
to see how the cost grows.
"""

import argparse
import resource

import numpy as np
from common import note, print_case, print_environment, time_calls

from dsf_jax import MODELS, Dataset, a_tilde, load_dataset, make_dataset, make_splits
from dsf_jax.evaluate import prepare
from dsf_jax.grid import choose_lanes, run_grid, use_all_cores
from dsf_jax.presets import preset
from dsf_jax.train import TrainConfig, TrainData, grid_jobs

REPEATS = 5


def scipy_product_ms(dataset: Dataset) -> float:
    """The unit: one product with 64 columns."""
    op = a_tilde(dataset.graph).to_scipy().astype(np.float32)
    x = np.random.default_rng(0).normal(size=(dataset.graph.num_nodes, 64))
    x = x.astype(np.float32)
    return time_calls({"scipy": lambda: op @ x}, rounds=2)["scipy"].ms


def random_graph(num_nodes: int, degree: int = 10) -> Dataset:
    """Random pairs of nodes, sparse features, five classes."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(num_nodes, size=(num_nodes * degree // 2, 2))
    features = np.zeros((num_nodes, 64), dtype=np.float32)
    features[np.arange(num_nodes), rng.integers(64, size=num_nodes)] = 1
    labels = rng.integers(5, size=num_nodes)
    return make_dataset(pairs, features, labels, name=f"random-{num_nodes}")


def time_epochs(
    dataset: Dataset, data: TrainData, model: str, lanes: int, epochs: int, label: str
) -> None:
    """Full lanes, every run of equal length, no early end."""
    hparams = preset(dataset.name, model).hparams
    jobs = grid_jobs(hparams, num_splits=1, num_seeds=lanes, seed=0)
    train_config = TrainConfig(
        num_classes=dataset.num_classes, epochs=epochs, patience=epochs, lanes=lanes
    )
    configs = {"config": MODELS[model], "train_config": train_config}
    first = run_grid(jobs, data, **configs)
    if not np.all(first.jobs.epochs_run == epochs):
        raise SystemExit(f"runs ended early: {first.jobs.epochs_run.tolist()}")
    pairs = []
    for _ in range(REPEATS):  # side by side, so that a busy moment hits both
        seconds = run_grid(jobs, data, **configs).seconds
        # the last round of the engine evaluates only: epochs + 1 rounds, epochs updates
        pairs.append((1e3 * seconds / (epochs * lanes), scipy_product_ms(dataset)))
    ms, unit = (float(value) for value in np.median(pairs, axis=0))
    print_case(
        dataset=dataset.name,
        model=model,
        lanes=lanes,
        chosen_by=label,
        ms_per_epoch_run=ms,
        scipy_product_ms=unit,
        units=float(np.median([ms / unit for ms, unit in pairs])),
        compile_s=first.compile_seconds,
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def main() -> None:
    """Parse the arguments and time every number of lanes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dataset", default="chameleon")
    parser.add_argument("--nodes", nargs="+", type=int, help="generated graphs instead")
    parser.add_argument("--model", default="dsf-gpr-r", choices=sorted(MODELS))
    parser.add_argument("--lanes", nargs="+", default=["auto"])
    parser.add_argument("--epochs", type=int, default=100)
    arguments = parser.parse_args()
    use_all_cores()
    print_environment(
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    )
    if arguments.nodes:
        datasets = map(random_graph, arguments.nodes)
    else:
        datasets = [load_dataset(arguments.dataset)]
    for dataset in datasets:
        splits = make_splits(dataset, num_splits=1)
        data = prepare(dataset, splits, model=arguments.model)
        for label in arguments.lanes:
            note(f"{dataset.name}, {arguments.model}: {label} lanes")
            is_auto = label == "auto"
            lanes = choose_lanes(data, config=MODELS[arguments.model])
            lanes = lanes if is_auto else int(label)
            time_epochs(dataset, data, arguments.model, lanes, arguments.epochs, label)


if __name__ == "__main__":
    main()
