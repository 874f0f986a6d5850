"""Do filters per node beat one shared filter where theory says they must?

    python benchmarks/regions.py --generator-seeds 0 1 2

For each seed of the generator, GPR-GNN and DSF-GPR-R get the same random trials (the
same values; what a model does not have it does not look at), each on the first three
stratified splits. The trial with the best mean validation score is then run on 10
splits x 10 seeds. One JSON line per generator seed and model, scores in percent with
Student-t 95 % intervals, and per seed one line with the gain.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
from common import note, print_case, print_environment

from dsf_jax import MODELS, Dataset, HyperParams, make_splits, prepare, regions
from dsf_jax.models.settings import GAMMA_INITS, settings_to_json
from dsf_jax.train import GridResult, Jobs, TrainConfig, grid_jobs, run_jobs

PAIR = ("gpr", "dsf-gpr-r")
SEARCH_SPLITS = 3


def random_trials(count: int, seed: int) -> HyperParams:
    """Values of every trial; leaves are [count]."""
    rng = np.random.Generator(np.random.PCG64(seed))
    lr = rng.choice([0.005, 0.01, 0.02, 0.05], count)
    decay = rng.choice([0.0, 5e-5, 5e-4, 5e-3], count)
    trials = HyperParams(
        lr=lr,
        lr_gamma=rng.choice([0.005, 0.01, 0.02, 0.05], count),
        lr_pos=rng.choice([0.005, 0.01, 0.02, 0.05], count),
        decay=decay,
        decay_pos=rng.choice([0.0, 5e-5, 5e-4], count),
        dropout_x=rng.choice([0.0, 0.2, 0.5], count),
        dropout_h=rng.choice([0.0, 0.2, 0.5], count),
        dropout_z=rng.choice([0.0, 0.2, 0.5], count),
        eta1=rng.choice(np.arange(11) / 10, count),
        lambda_orth=10.0 ** rng.uniform(-3, 0, count),
        pos_kind=rng.choice(2, count),
        f_p=rng.choice([2, 4, 8, 16], count),
        gamma_init=rng.choice(
            [GAMMA_INITS.index(name) for name in ("ppr", "nppr", "random")], count
        ),
        alpha=rng.choice([0.1, 0.2, 0.5, 0.9], count),
    )
    return jax.tree.map(lambda leaf: _in_single_precision(leaf, count), trials)


def search_jobs(trials: HyperParams, seed: int) -> Jobs:
    """Every trial on the first splits, trial by trial."""
    count = len(trials.lr)
    num_jobs = count * SEARCH_SPLITS
    return Jobs(
        key=jax.random.split(jax.random.key(seed), num_jobs),
        split=jnp.tile(jnp.arange(SEARCH_SPLITS, dtype=jnp.int32), count),
        hparams=jax.tree.map(lambda leaf: jnp.repeat(leaf, SEARCH_SPLITS), trials),
    )


def run_model(
    dataset: Dataset, name: str, trials: HyperParams, seed: int, lanes: int
) -> GridResult:
    """Search, choose, evaluate; prints one line."""
    start = time.perf_counter()
    splits = make_splits(dataset, kind="stratified", num_splits=10)
    data = prepare(dataset, splits, model=name)
    static = {
        "model": MODELS[name],
        "train_config": TrainConfig(
            num_classes=dataset.num_classes, epochs=200, patience=50, lanes=lanes
        ),
    }
    run = jax.jit(run_jobs, static_argnames=tuple(static))
    searched = run(search_jobs(trials, seed), data, **static).jobs
    scores = np.where(searched.is_finite, searched.val, 0.0)
    best = int(np.argmax(scores.reshape(-1, SEARCH_SPLITS).mean(axis=1)))
    chosen = jax.tree.map(lambda leaf: leaf[best], trials)
    result = run(
        grid_jobs(chosen, num_splits=10, num_seeds=10, seed=seed), data, **static
    )
    print_case(
        generator_seed=seed,
        model=name,
        mean=100 * float(result.summary.mean),
        ci95=100 * float(result.summary.ci95),
        runs=int(result.summary.num_finite),
        trials=len(trials.lr),
        val=100 * float(np.mean(result.jobs.val)),
        chosen={
            name: round(value, 6) if isinstance(value, float) else value
            for name, value in settings_to_json(chosen).items()
        },
        seconds=time.perf_counter() - start,
    )
    return result


def main() -> None:
    """Parse the arguments; compare the two models for every generator seed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--generator-seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--nodes", type=int, default=600)
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--lanes", type=int, default=8)
    arguments = parser.parse_args()
    print_environment()
    trials = random_trials(arguments.trials, seed=0)
    for seed in arguments.generator_seeds:
        dataset = regions(arguments.nodes, seed=seed)
        summaries = []
        for name in PAIR:
            note(f"regions, generator seed {seed}: {name}")
            result = run_model(dataset, name, trials, seed, arguments.lanes)
            summaries.append(result.summary)
        gain = 100 * float(summaries[1].mean - summaries[0].mean)
        widths = 100 * float(summaries[0].ci95 + summaries[1].ci95)
        print_case(generator_seed=seed, gain=gain, separated=gain > widths)


def _in_single_precision(leaf: object, count: int) -> jax.Array:
    """A value of every trial; what is not searched has the same in all."""
    values = np.broadcast_to(leaf, (count,))
    dtype = {"f": jnp.float32, "i": jnp.int32, "b": jnp.bool_}[values.dtype.kind]
    return jnp.asarray(values, dtype=dtype)


if __name__ == "__main__":
    main()
