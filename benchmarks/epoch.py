"""How long is one epoch of one run: training step and full evaluation?

    python benchmarks/epoch.py --dataset chameleon --model dsf-gpr-r --lanes auto
    python benchmarks/epoch.py --dataset texas --lanes 1 2 4 8 16 auto
    python benchmarks/epoch.py --nodes 10000 100000

One JSON line per number of lanes (of all devices together; one device per core):
`ms_per_epoch_run`, and the same in `units` of one scipy product Ã x with 64 float32
columns on the same graph in the same process (`scipy_product_ms`), so that the figure
survives a busy machine; `compile_s`, and `peak_rss_mb` of the process so far. Data sets
have their published settings. `--nodes` generates graphs of degree 10 instead, with
random positional features, to see how the cost grows; `program_mb` is then the memory
of all lanes as one compiled call (arguments and temporaries by XLA's account).
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from common import (
    comparable_settings,
    note,
    peak_mb,
    print_case,
    print_environment,
    time_calls,
    use_whole_computer,
)

from dsf_jax import (
    MODELS,
    Dataset,
    HyperParams,
    Model,
    load_dataset,
    make_dataset,
    make_splits,
)
from dsf_jax.engine.grid import choose_lanes, run_grid
from dsf_jax.experiments.evaluation import prepare
from dsf_jax.ops import SparseFeatures, a_tilde
from dsf_jax.train import TrainConfig, TrainData, grid_jobs, run_jobs

REPEATS = 5


def scipy_product_ms(dataset: Dataset) -> float:
    """The unit: one product with 64 columns."""
    op = a_tilde(dataset.graph).to_scipy().astype(np.float32)
    x = np.random.default_rng(0).normal(size=(dataset.graph.num_nodes, 64))
    x = x.astype(np.float32)
    return time_calls({"scipy": lambda: op @ x}, rounds=2)["scipy"].ms


def ring_graph(num_nodes: int, degree: int = 10) -> Dataset:
    """Nodes on a ring, joined to random ones of the next 50; five random classes.

    Neighbours are near in memory whatever the size. With pairs drawn from all nodes a
    product leaves the cache at some size and slows down several times, scipy's most.
    """
    rng = np.random.default_rng(0)
    start = np.repeat(np.arange(num_nodes), degree // 2)
    end = (start + rng.integers(1, 51, size=start.size)) % num_nodes
    pairs = np.column_stack([start, end])
    features = np.zeros((num_nodes, 64), dtype=np.float32)
    features[np.arange(num_nodes), rng.integers(64, size=num_nodes)] = 1
    labels = rng.integers(5, size=num_nodes)
    return make_dataset(pairs, features, labels, name=f"ring-{num_nodes}")


def prepare_random(dataset: Dataset, model: Model) -> TrainData:
    """One split, and positions from a normal distribution: real ones take minutes."""
    rng = np.random.default_rng(1)
    x_pos = rng.normal(size=(2, dataset.graph.num_nodes, 32)).astype(np.float32)
    features = SparseFeatures.from_scipy(dataset.features)
    inputs = model.make_inputs(dataset.graph, features, jnp.asarray(x_pos))
    masks = map(jnp.asarray, make_splits(dataset, num_splits=1))
    return TrainData(inputs, jnp.asarray(dataset.labels), *masks)


def program_mb(data: TrainData, model: Model, lanes: int) -> float:
    """Memory of the grid as one compiled call."""
    jobs = grid_jobs(HyperParams(), num_splits=1, num_seeds=lanes, seed=0)
    train_config = TrainConfig(num_classes=5, lanes=lanes)
    run = jax.jit(run_jobs, static_argnames=("model", "train_config"))
    lowered = run.lower(jobs, data, model=model, train_config=train_config)
    analysis = lowered.compile().memory_analysis()
    return (analysis.argument_size_in_bytes + analysis.temp_size_in_bytes) / 2**20


def time_epochs(
    dataset: Dataset,
    data: TrainData,
    name: str,
    hparams: HyperParams,
    lanes: int,
    epochs: int,
) -> dict[str, object]:
    """Full lanes, every run of equal length, no early end."""
    jobs = grid_jobs(hparams, num_splits=1, num_seeds=lanes, seed=0)
    train_config = TrainConfig(
        num_classes=dataset.num_classes, epochs=epochs, patience=epochs, lanes=lanes
    )
    configs = {"model": MODELS[name], "train_config": train_config}
    first = run_grid(jobs, data, **configs)
    if not np.all(first.jobs.epochs_run == epochs):
        raise SystemExit(f"runs ended early: {first.jobs.epochs_run.tolist()}")
    pairs = []
    for _ in range(REPEATS):  # side by side, so that a busy moment hits both
        seconds = run_grid(jobs, data, **configs).seconds
        # the last round of the engine evaluates only: epochs + 1 rounds, epochs updates
        pairs.append((1e3 * seconds / (epochs * lanes), scipy_product_ms(dataset)))
    ms, unit = (float(value) for value in np.median(pairs, axis=0))
    return {
        "dataset": dataset.name,
        "model": name,
        "lanes": lanes,
        "ms_per_epoch_run": ms,
        "scipy_product_ms": unit,
        "units": float(np.median([ms / unit for ms, unit in pairs])),
        "compile_s": first.compile_seconds,
        "peak_rss_mb": peak_mb(),
    }


def main() -> None:
    """Parse the arguments and time every number of lanes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dataset", default="chameleon")
    parser.add_argument("--nodes", nargs="+", type=int, help="generated graphs instead")
    parser.add_argument("--model", default="dsf-gpr-r", choices=sorted(MODELS))
    parser.add_argument("--lanes", nargs="+", default=["auto"])
    parser.add_argument("--epochs", type=int, default=100)
    arguments = parser.parse_args()
    use_whole_computer()
    print_environment(peak_rss_mb=peak_mb())
    if arguments.nodes:
        datasets = map(ring_graph, arguments.nodes)
    else:
        datasets = [load_dataset(arguments.dataset)]
    model = MODELS[arguments.model]
    for dataset in datasets:
        if arguments.nodes:
            data, hparams = prepare_random(dataset, model), HyperParams()
        else:
            hparams = comparable_settings(dataset.name, arguments.model)
            splits = make_splits(dataset, num_splits=1)
            data = prepare(dataset, splits, model=model)
        for label in arguments.lanes:
            note(f"{dataset.name}, {arguments.model}: {label} lanes")
            auto = label == "auto"
            lanes = choose_lanes(data, model=model) if auto else int(label)
            case = time_epochs(
                *(dataset, data, arguments.model, hparams, lanes, arguments.epochs)
            )
            if arguments.nodes:
                case["program_mb"] = program_mb(data, model, lanes)
            print_case(chosen_by=label, **case)


if __name__ == "__main__":
    main()
