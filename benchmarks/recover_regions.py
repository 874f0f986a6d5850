"""Do clusters of the learnt weights recover the regions of `regions`?

    python benchmarks/recover_regions.py

Ten runs (ten splits, each with its own start) of DSF-GPR-R and DSF-Bern-R; k-means with
three clusters on the weights of every run, against the known regions. One JSON line per
model: the adjusted Rand index (1 is the truth, 0 is chance) and the test score.
"""

import argparse

import jax
import numpy as np
from common import note, print_case, print_environment
from sklearn.metrics import adjusted_rand_score

from dsf_jax import MODELS, make_splits, regions
from dsf_jax.data import region_of
from dsf_jax.data.synthetic import NUM_REGIONS
from dsf_jax.experiments.evaluation import prepare
from dsf_jax.experiments.presets import preset
from dsf_jax.explain.reading import read_filters, representatives, variance_share
from dsf_jax.train import TrainConfig, grid_jobs, run_jobs


def run_model(name: str, num_runs: int) -> None:
    """Train, cluster, compare; prints one line."""
    dataset, model = regions(), MODELS[name]
    truth = region_of(dataset.graph.num_nodes)
    hparams = preset("regions", name).hparams
    data = prepare(dataset, make_splits(dataset, num_splits=num_runs), model=model)
    static = {
        "model": model,
        "train_config": TrainConfig(
            num_classes=2, epochs=300, patience=100, lanes=4, keeps_params=True
        ),
    }
    jobs = grid_jobs(hparams, num_splits=num_runs, num_seeds=1, seed=0)
    run = jax.jit(run_jobs, static_argnames=tuple(static))
    results = run(jobs, data, **static).jobs
    indices, shares = [], []
    for i in range(num_runs):
        params = jax.tree.map(lambda leaf, i=i: leaf[i], results.params)
        filters = read_filters(params, data.inputs, hparams, model=model)
        found = representatives(filters.beta, count=NUM_REGIONS).cluster
        indices.append(adjusted_rand_score(truth, found))
        shares.append(variance_share(filters.beta, truth))
    print_case(
        model=name,
        runs=num_runs,
        mean_ari=float(np.mean(indices)),
        lowest_ari=float(np.min(indices)),
        aris=[round(value, 3) for value in indices],
        mean_variance_share=float(np.mean(shares)),
        test=100 * float(np.mean(results.test)),
    )


def main() -> None:
    """Parse the arguments; one line per model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", default=["dsf-gpr-r", "dsf-bern-r"])
    parser.add_argument("--runs", type=int, default=10)
    arguments = parser.parse_args()
    print_environment()
    for name in arguments.models:
        note(name)
        run_model(name, arguments.runs)


if __name__ == "__main__":
    main()
