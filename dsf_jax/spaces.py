"""Search spaces: what a tuner may choose, model by model.

A field of `HyperParams` maps to ("log", low, high) or ("uniform", low, high), both for
real numbers, or to ("choice", values). Rates, decays and dropouts have the ranges that
the authors of DSF publish for theirs, so that all models are tuned alike; the rest are
the ranges of each model's own paper or code.
"""

from typing import Any

from dsf_jax.settings import GAMMA_INITS

_RATE = ("log", 1e-4, 1e-1)
_DECAY = ("log", 5e-8, 1e-2)
_DROPOUT = ("choice", [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
_PERCEPTRON: dict[str, tuple[Any, ...]] = {
    "lr": _RATE,
    "decay": _DECAY,
    "dropout_x": _DROPOUT,
    "dropout_h": _DROPOUT,
}

SPACES: dict[str, dict[str, tuple[Any, ...]]] = {
    "gcn": _PERCEPTRON,
    "gat": {**_PERCEPTRON, "dropout_edge": _DROPOUT},
    "cheb": {**_PERCEPTRON, "degree": ("choice", [1, 2, 3])},
    "appnp": {**_PERCEPTRON, "alpha": ("choice", [0.1, 0.2, 0.5, 0.9])},
    "gnn-lf": {
        **_PERCEPTRON,
        "alpha": ("uniform", 0.01, 0.5),
        "mu": ("uniform", 0.6, 0.9),
    },
    "gnn-hf": {
        **_PERCEPTRON,
        "alpha": ("uniform", 0.01, 0.5),
        "beta": ("log", 0.01, 1.0),  # any β > 0 is allowed, and a large one hurts
    },
    "fagcn": {
        **_PERCEPTRON,
        "dropout_edge": _DROPOUT,
        "epsilon": ("choice", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
        "depth": ("choice", [1, 2, 3, 4, 5, 6, 7, 8]),
    },
    "pa-gnn": {
        **_PERCEPTRON,
        "lr_gamma": _RATE,
        "lr_pos": _RATE,
        "decay_pos": _DECAY,
        "dropout_z": _DROPOUT,
        "dropout_pos": _DROPOUT,
        "gamma_init": (
            "choice",
            [GAMMA_INITS.index(name) for name in ("ppr", "nppr", "random")],
        ),
        "alpha": ("choice", [0.1, 0.2, 0.5, 0.9]),
        "lambda_l1": ("log", 1e-4, 1.0),
    },
}
"""Fields of `HyperParams` to choose, by the name of the model."""
