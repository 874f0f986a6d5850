"""How long is one epoch of one run: training step and full evaluation?

    python benchmarks/epoch.py --dataset chameleon --model dsf-gpr-r --lanes 1 2 4 8

One JSON line per number of lanes: `ms_per_epoch_run`, and the same in `units` of one
scipy product Ã x with 64 float32 columns on the same graph in the same process
(`scipy_product_ms`), so that the figure survives a busy machine; `compile_s`, and
`peak_rss_mb` of the process so far.
"""

import argparse
import resource
import time

import jax
import jax.numpy as jnp
import numpy as np
from common import note, print_case, print_environment, time_calls

from dsf_jax import (
    MODELS,
    Dataset,
    HyperParams,
    SparseFeatures,
    a_tilde,
    load_dataset,
    make_inputs,
    positional_features,
    stratified_split,
)
from dsf_jax.train import TrainConfig, TrainData, grid_jobs, run_jobs

SPLITS = 10


def make_data(dataset: Dataset, model: str) -> TrainData:
    """The data set as the engine takes it, with ten stratified splits."""
    splits = [stratified_split(dataset.labels, seed=seed) for seed in range(SPLITS)]
    x_pos = jnp.asarray(positional_features(dataset.graph).x_pos, dtype=jnp.float32)
    features = SparseFeatures.from_scipy(dataset.features)
    return TrainData(
        make_inputs(dataset.graph, features, x_pos, MODELS[model]),
        jnp.asarray(dataset.labels),
        *(jnp.asarray(np.stack(masks)) for masks in zip(*splits, strict=True)),
    )


def scipy_product_ms(dataset: Dataset) -> float:
    """The unit: one product with 64 columns."""
    op = a_tilde(dataset.graph).to_scipy().astype(np.float32)
    x = np.random.default_rng(0).normal(size=(dataset.graph.num_nodes, 64))
    x = x.astype(np.float32)
    return time_calls({"scipy": lambda: op @ x})["scipy"].ms


def time_epochs(dataset: Dataset, model: str, lanes: int, epochs: int) -> None:
    """Full lanes, every run of equal length, no early end."""
    data = make_data(dataset, model)
    hparams = HyperParams(dropout_pos=0.0)
    jobs = grid_jobs(hparams, num_splits=1, num_seeds=lanes, seed=0)
    train_config = TrainConfig(
        num_classes=dataset.num_classes, epochs=epochs, patience=epochs, lanes=lanes
    )
    run = jax.jit(run_jobs, static_argnames=("config", "train_config"))
    start = time.perf_counter()
    compiled = run.lower(
        jobs, data, config=MODELS[model], train_config=train_config
    ).compile()
    compile_s = time.perf_counter() - start
    result = jax.block_until_ready(compiled(jobs, data))
    if not np.all(result.jobs.epochs_run == epochs):
        raise SystemExit(f"runs ended early: {result.jobs.epochs_run.tolist()}")
    before = scipy_product_ms(dataset)
    timing = time_calls({"grid": lambda: compiled(jobs, data)}, rounds=1, repeats=3)
    unit = (before + scipy_product_ms(dataset)) / 2
    # the last round of the engine evaluates only: epochs + 1 rounds, epochs updates
    ms = timing["grid"].ms / (epochs * lanes)
    print_case(
        dataset=dataset.name,
        model=model,
        lanes=lanes,
        ms_per_epoch_run=ms,
        scipy_product_ms=unit,
        units=ms / unit,
        compile_s=compile_s,
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def main() -> None:
    """Parse the arguments and time every number of lanes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dataset", default="chameleon")
    parser.add_argument("--model", default="dsf-gpr-r", choices=sorted(MODELS))
    parser.add_argument("--lanes", nargs="+", type=int, default=[1, 2, 4, 8])
    parser.add_argument("--epochs", type=int, default=30)
    arguments = parser.parse_args()
    print_environment()
    dataset = load_dataset(arguments.dataset)
    for lanes in arguments.lanes:
        note(f"{arguments.dataset}, {arguments.model}: {lanes} lanes")
        time_epochs(dataset, arguments.model, lanes, arguments.epochs)


if __name__ == "__main__":
    main()
