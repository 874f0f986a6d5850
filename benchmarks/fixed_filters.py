"""Fixed filters beside learnt ones: APPNP, GNN-LF and GNN-HF, GPR-GNN and DSF-GPR-R.

    python benchmarks/fixed_filters.py --dataset cora --out docs/figures/cora/filters

All have their shipped settings. The first three are given by these alone; the other two
are trained once, and of DSF-GPR-R the mean over the nodes is drawn. Writes OUT.png and
OUT.svg, and prints one JSON line per filter: its values at λ = 0, 0.5, 1, 1.5 and 2.
"""

import argparse

import jax.numpy as jnp
import numpy as np
from common import note, print_case, print_environment

from dsf_jax import MODELS, Dataset, load_dataset, monomial, response
from dsf_jax.experiments.evaluation import dataset_inputs
from dsf_jax.experiments.fitting import fit
from dsf_jax.experiments.presets import preset
from dsf_jax.explain.plots import draw_responses, save_figure
from dsf_jax.explain.reading import read_filters
from dsf_jax.models.baselines import filter_weights
from dsf_jax.models.settings import BaselineConfig, ModelConfig

FIXED = {"appnp": "APPNP", "gnn-lf": "GNN-LF", "gnn-hf": "GNN-HF"}
LEARNT = {"gpr": "GPR-GNN", "dsf-gpr-r": "DSF-GPR-R, mean of nodes"}
LAM = jnp.linspace(0.0, 2.0, 101)


def fixed_curve(dataset: Dataset, model: str) -> np.ndarray:
    """Response by the settings alone."""
    config, hparams = MODELS[model], preset(dataset.name, model).hparams
    assert isinstance(config, BaselineConfig)
    return np.asarray(response(filter_weights(hparams, config=config), LAM, monomial))


def learnt_curve(dataset: Dataset, model: str) -> np.ndarray:
    """Response after training, the mean over the nodes."""
    config, hparams = MODELS[model], preset(dataset.name, model).hparams
    assert isinstance(config, ModelConfig)
    inputs = dataset_inputs(dataset, config)
    trained = fit(dataset, inputs, hparams, config=config)
    note(f"{model}: {100 * trained.test:.1f} % after {trained.epochs} epochs")
    return read_filters(trained.params, inputs, hparams, config=config).shared


def main() -> None:
    """Parse the arguments, draw, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--out", required=True, help="path without suffix")
    arguments = parser.parse_args()
    print_environment()
    dataset = load_dataset(arguments.dataset)
    curves = {name: fixed_curve(dataset, model) for model, name in FIXED.items()}
    curves |= {name: learnt_curve(dataset, model) for model, name in LEARNT.items()}
    for name, curve in curves.items():
        values = [float(f"{value:.3g}") for value in curve[::25]]
        print_case(dataset=dataset.name, filter=name, values=values)
    save_figure(arguments.out, lambda ax: draw_responses(ax, np.asarray(LAM), curves))


if __name__ == "__main__":
    main()
