"""How much the number of lanes changes scores, which is rounding alone.

    python benchmarks/lanes_rounding.py --datasets texas chameleon cora

Runs the same jobs on one lane and on several, in float32 as everybody does and in
float64, and prints one JSON line per data set and precision: how many runs have another
test score or another best epoch, the largest difference, and both means.
"""

import argparse
from typing import Any

import jax
import numpy as np
from common import note, print_case, print_environment

from dsf_jax.data.catalog import load_dataset
from dsf_jax.experiments.evaluation import evaluate
from dsf_jax.experiments.presets import preset


def compare(name: str, model: str, lanes: int, **limits: Any) -> None:
    """One line for the precision that is set."""
    dataset, hparams = load_dataset(name), preset(name, model).hparams
    one, many = (
        evaluate(dataset, model, hparams, lanes=count, **limits) for count in (1, lanes)
    )
    differences = np.abs(np.asarray(one["test"]) - np.asarray(many["test"]))
    epochs = np.asarray(one["best_epoch"]) != np.asarray(many["best_epoch"])
    print_case(
        dataset=name,
        model=model,
        precision=one["precision"],
        lanes=lanes,
        runs=differences.size,
        other_scores=int(np.sum(differences > 1e-6)),
        other_best_epochs=int(epochs.sum()),
        largest_difference=float(differences.max()),
        mean_one_lane=one["mean"],
        mean_more_lanes=many["mean"],
        ci95=one["ci95"],
    )


def main() -> None:
    """Parse the arguments and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--datasets", nargs="+", default=["texas"])
    parser.add_argument("--model", default="dsf-gpr-i")
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=1000)
    arguments = parser.parse_args()
    limits = {
        "num_splits": arguments.splits,
        "num_seeds": arguments.seeds,
        "epochs": arguments.epochs,
    }
    print_environment()
    for name in arguments.datasets:
        for is_double in (False, True):
            jax.config.update("jax_enable_x64", is_double)
            jax.clear_caches()
            note(f"{name}, {'float64' if is_double else 'float32'}")
            compare(name, arguments.model, arguments.lanes, **limits)


if __name__ == "__main__":
    main()
