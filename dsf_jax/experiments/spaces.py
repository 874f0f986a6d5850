"""Search spaces: which settings a search varies, and in which range.

    ("log", low, high)        log-uniform
    ("uniform", low, high)    uniform
    ("step", low, high, d)    low, low + d, .., high
    ("choice", values)        one of the values
    ("same", field)           the value of another field

Ranges are those that the authors published (their README and scripts), and all models
have the same ones for what they share, but for two: the Jacobi models' rates go to 0.5
and dropouts to 0.9, and α of GPR-GNN and PA-GNN may be 0 or 1, as in GPR-GNN's paper,
where DSF's range ends at 0.1 and 0.9. The rest are of each model's own paper or code; β
of GNN-HF, for which no range is published, may be 0.01 to 1.
"""

from typing import Any

Space = dict[str, tuple[Any, ...]]

_RATE = ("log", 1e-4, 1e-1)
_DECAY = ("log", 5e-8, 1e-2)
_DROPOUT = ("step", 0.0, 0.8, 0.1)

_MLP: Space = {
    "lr": _RATE,
    "decay": _DECAY,
    "dropout_x": _DROPOUT,
    "dropout_h": ("same", "dropout_x"),
    "dropout_z": _DROPOUT,
}
_BASELINE: Space = {
    "lr": _RATE,
    "decay": _DECAY,
    "dropout_x": _DROPOUT,
    "dropout_h": _DROPOUT,
}
_POSITIONS: Space = {
    "pos_kind": ("choice", ["lap", "rw"]),
    "f_p": ("step", 2, 32, 2),
    "dropout_pos": _DROPOUT,
    "eta1": ("step", 0.0, 1.0, 0.1),
}
# one group of parameters, one rate and one decay for all
_ONE_GROUP: Space = {
    "lr_gamma": ("same", "lr"),
    "lr_pos": ("same", "lr"),
    "decay_gamma": ("same", "decay"),
    "decay_pos": ("same", "decay"),
}
_VARIANTS: dict[str, Space] = {
    "i": _POSITIONS | {"eta2": ("step", 0.1, 1.0, 0.1)},
    "r": _POSITIONS
    | {
        "lambda_orth": ("log", 1e-2, 1.0),
        "orth_normalize": ("choice", [False, True]),
    },
}
_GPR: Space = {
    "gamma_init": ("choice", ["ppr", "nppr", "random"]),
    "alpha": ("choice", [0.0, 0.1, 0.2, 0.5, 0.9, 1.0]),
}
_DSF_GPR = _GPR | {"alpha": ("choice", [0.1, 0.2, 0.5, 0.9])}
_ONES: Space = {"gamma_init": ("choice", ["ones"])}
_JACOBI: Space = {
    "lr": ("log", 5e-4, 5e-1),  # a single map of row-normalised features is slow
    "lr_gamma": ("log", 5e-4, 1e-1),
    "lr_pos": ("log", 5e-4, 1e-1),
    "decay": _DECAY,
    "decay_gamma": _DECAY,
    "decay_pos": _DECAY,
    "dropout_x": ("step", 0.0, 0.9, 0.1),
    "dropout_z": ("step", 0.0, 0.9, 0.1),
    "a": ("step", -1.0, 2.0, 0.25),
    "b": ("step", -0.5, 2.0, 0.25),
    "rho_scale": ("choice", [0.5, 1.0, 1.5, 2.0]),
    "sole": ("choice", [False, True]),
} | _ONES


def space_of(model: str) -> Space:
    """The search space of a named model; ablations have that of the full one.

    Raises:
      ValueError: if there is none.

    Example:
      >>> space_of("dsf-gpr-r")["f_p"]
      ('step', 2, 32, 2)
    """
    for name, space in SPACES.items():
        if model == name or model.startswith(f"{name}-no-"):
            return space
    raise ValueError(
        f"model must have a search space, got {model!r}; those with one are "
        f"{', '.join(SPACES)}, and their ablations."
    )


def complete(space: Space, chosen: dict[str, Any]) -> dict[str, Any]:
    """Settings from the chosen values: fields that follow another one get its value.

    Example:
      >>> complete({"lr": ("log", 0.1, 1.0), "lr_pos": ("same", "lr")}, {"lr": 0.5})
      {'lr': 0.5, 'lr_pos': 0.5}
    """
    followers = {
        field: chosen[rule[1]] for field, rule in space.items() if rule[0] == "same"
    }
    return chosen | followers


SPACES: dict[str, Space] = {
    "gpr": _MLP | _GPR | {"lr_gamma": ("same", "lr")},
    "bern": _MLP | _ONES | {"lr_gamma": _RATE},
    "jacobi": _JACOBI,
    **{f"dsf-gpr-{v}": _MLP | _ONE_GROUP | _DSF_GPR | s for v, s in _VARIANTS.items()},
    **{f"dsf-bern-{v}": _MLP | _ONE_GROUP | _ONES | s for v, s in _VARIANTS.items()},
    **{f"dsf-jacobi-{v}": _JACOBI | s for v, s in _VARIANTS.items()},
    "gcn": _BASELINE,
    "gat": _BASELINE | {"dropout_edge": _DROPOUT},
    "cheb": _BASELINE | {"degree": ("choice", [1, 2, 3])},
    "appnp": _BASELINE | {"alpha": ("choice", [0.1, 0.2, 0.5, 0.9])},
    "gnn-lf": _BASELINE
    | {"alpha": ("uniform", 0.01, 0.5), "mu": ("uniform", 0.6, 0.9)},
    "gnn-hf": _BASELINE
    # any β > 0 is allowed, and a large one hurts
    | {"alpha": ("uniform", 0.01, 0.5), "beta": ("log", 0.01, 1.0)},
    "fagcn": _BASELINE
    | {
        "dropout_edge": _DROPOUT,
        "epsilon": ("step", 0.1, 1.0, 0.1),
        "depth": ("step", 1, 8, 1),
    },
    "pa-gnn": _BASELINE
    | _GPR
    | {
        "lr_gamma": _RATE,
        "lr_pos": _RATE,
        "decay_pos": _DECAY,
        "dropout_z": _DROPOUT,
        "dropout_pos": _DROPOUT,
        "lambda_l1": ("log", 1e-4, 1.0),
    },
}
"""Search space of every model that can be tuned."""
