"""Fixed filters beside learnt ones: APPNP, GNN-LF and GNN-HF, GPR-GNN and DSF-GPR-R.

    python benchmarks/fixed_filters.py --dataset cora --out docs/figures/cora/filters

All have their shipped settings. The first three are given by these alone; the other two
are trained once, and of DSF-GPR-R the mean over the nodes is drawn. Writes OUT as PNG,
SVG and PDF, and prints one JSON line per filter: its values at five frequencies.
"""

import argparse

import jax.numpy as jnp
import numpy as np
from common import note, print_case, print_environment

from dsf_jax import MODELS, Dataset, fit, load_dataset, node_filters
from dsf_jax.experiments.presets import preset
from dsf_jax.explain.plots import draw_responses, save_figure
from dsf_jax.filters import response
from dsf_jax.models.spectral import Diverse

FIXED = {"appnp": "APPNP", "gnn-lf": "GNN-LF", "gnn-hf": "GNN-HF"}
LEARNT = {"gpr": "GPR-GNN", "dsf-gpr-r": "DSF-GPR-R, mean of nodes"}
LAM = jnp.linspace(0.0, 2.0, 101)


def fixed_curve(dataset: Dataset, name: str) -> np.ndarray:
    """Response by the settings alone."""
    model, hparams = MODELS[name], preset(dataset.name, name).hparams
    assert isinstance(model, Diverse)
    gamma = model.backbone.gamma(None, hparams, model.order)
    return np.asarray(response(gamma, LAM, model.backbone.basis(hparams)))


def learnt_curve(dataset: Dataset, name: str) -> np.ndarray:
    """Response after training, the mean over the nodes."""
    fitted = fit(dataset, name)
    test, epochs = fitted.scores["test"], fitted.scores["epochs"]
    note(f"{name}: {test:.1f} % after {epochs:.0f} epochs")
    return node_filters(fitted).shared


def main() -> None:
    """Parse the arguments, draw, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--out", required=True, help="path without suffix")
    arguments = parser.parse_args()
    print_environment()
    dataset = load_dataset(arguments.dataset)
    curves = {title: fixed_curve(dataset, name) for name, title in FIXED.items()}
    curves |= {title: learnt_curve(dataset, name) for name, title in LEARNT.items()}
    for title, curve in curves.items():
        values = [float(f"{value:.3g}") for value in curve[::25]]
        print_case(dataset=dataset.name, filter=title, values=values)
    save_figure(arguments.out, lambda ax: draw_responses(ax, np.asarray(LAM), curves))


if __name__ == "__main__":
    main()
