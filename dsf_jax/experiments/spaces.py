"""Search spaces: which settings a search varies, and in which range.

    ("log", low, high)        log-uniform
    ("uniform", low, high)    uniform
    ("step", low, high, d)    low, low + d, .., high
    ("choice", values)        one of the values
    ("same", field)           the value of another field

Ranges stand in the table of settings (`dsf_jax.models.settings`). They are those that
the authors published (their README and scripts), and all models
have the same ones for what they share, but for two: the Jacobi models' rates go to 0.5
and dropouts to 0.9, and α of GPR-GNN and PA-GNN may be 0 or 1, as in GPR-GNN's paper,
where DSF's range ends at 0.1 and 0.9. The rest are of each model's own paper or code; β
of GNN-HF, for which no range is published, may be 0.01 to 1.
"""

import dataclasses
from typing import Any

from dsf_jax.models.anchored import Residual
from dsf_jax.models.local import shared
from dsf_jax.models.model import Model
from dsf_jax.models.settings import FIELDS, Range
from dsf_jax.models.spectral import Diverse
from dsf_jax.models.zoo import MODELS, find_model, name_of

Space = dict[str, Range]


def _ranges(*names: str) -> Space:
    """Ranges of the table."""
    return {name: FIELDS[name].search or () for name in names}


_MLP = _ranges("lr", "decay", "dropout_x") | {
    "dropout_h": ("same", "dropout_x"),
    **_ranges("dropout_z"),
}
_BASELINE = _ranges("lr", "decay", "dropout_x", "dropout_h")
_POSITIONS = _ranges("pos_kind", "f_p", "dropout_pos", "eta1")
# one group of parameters, one rate and one decay for all
_LOCAL_GROUP: Space = {"lr_pos": ("same", "lr"), "decay_pos": ("same", "decay")}
_ONE_GROUP: Space = {
    "lr_gamma": ("same", "lr"),
    "decay_gamma": ("same", "decay"),
} | _LOCAL_GROUP
_VARIANTS: dict[str, Space] = {
    "i": _POSITIONS | _ranges("eta2"),
    "r": _POSITIONS | _ranges("lambda_orth", "orth_normalize"),
}
_DSF_GPR = _ranges("gamma_init", "alpha")
_GPR: Space = _DSF_GPR | {"alpha": ("choice", [0.0, 0.1, 0.2, 0.5, 0.9, 1.0])}
_ONES: Space = {"gamma_init": ("choice", ["ones"])}
_JACOBI: Space = {
    "lr": ("log", 5e-4, 5e-1),  # a single map of row-normalised features is slow
    "lr_gamma": ("log", 5e-4, 1e-1),
    "lr_pos": ("log", 5e-4, 1e-1),
    **_ranges("decay", "decay_gamma", "decay_pos"),
    "dropout_x": ("step", 0.0, 0.9, 0.1),
    "dropout_z": ("step", 0.0, 0.9, 0.1),
    **_ranges("a", "b", "rho_scale", "sole"),
} | _ONES
_NODE_VALUES = _MLP | _ONES | _ranges("lr_gamma", "decay_gamma")
_FIRST: Space = {"gamma_init": ("choice", ["one-hot"]), "alpha": ("choice", [0.0])}
_OPTBASIS = (_BASELINE | {"dropout_z": ("same", "dropout_x")} | _FIRST) | _ranges(
    "lr_gamma", "decay_gamma"
)
_FAVARD = _OPTBASIS | _ranges("lr_pos", "decay_pos")
_TELEPORT: Space = {"alpha": ("uniform", 0.01, 0.5)}
_FIXED: dict[str, Space] = {  # spectral models without a learnt γ
    "appnp": _BASELINE | _ranges("alpha"),
    "gnn-lf": _BASELINE | _TELEPORT | _ranges("mu"),
    "gnn-hf": _BASELINE | _TELEPORT | _ranges("beta"),
}


def space_of(model: str | Model) -> Space:
    """The search space of a model; ablations have that of the full one.

    Local weights that start at their base model are searched in the space of that model
    and their own ranges, which hold it: a rate `lr_local` of 0.

    A model without a row has the ranges of all settings that it reads, with one rate
    and one decay for all parameters.

    Raises:
      ValueError: if there is no model of that name.

    Example:
      >>> space_of("dsf-gpr-r")["f_p"]
      ('step', 2, 32, 2)
    """
    found = find_model(model)
    if isinstance(found, Diverse) and isinstance(found.local, Residual):
        base = dataclasses.replace(found, local=shared())
        own = found.local.reads(found.backbone) - base.reads
        return space_of(base) | _ranges(*(name for name in FIELDS if name in own))
    reads, name = found.reads, name_of(model)
    full = name.partition("-no-")[0] if name in MODELS else name
    space = SPACES.get(full) or {
        field: _ONE_GROUP.get(field, rule.search)
        for field, rule in FIELDS.items()
        if rule.search is not None
    }
    return {field: rule for field, rule in space.items() if field in reads}


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
    "bern": _MLP | _ONES | _ranges("lr_gamma"),
    "jacobi": _JACOBI,
    **{f"dsf-gpr-{v}": _MLP | _ONE_GROUP | _DSF_GPR | s for v, s in _VARIANTS.items()},
    **{f"dsf-bern-{v}": _MLP | _ONE_GROUP | _ONES | s for v, s in _VARIANTS.items()},
    **{f"dsf-jacobi-{v}": _JACOBI | s for v, s in _VARIANTS.items()},
    "chebnetii": _NODE_VALUES,
    "favard": _FAVARD,
    "optbasis": _OPTBASIS,
    **{
        f"dsf-{name}-{v}": space | _ONE_GROUP | s
        for name, space in (
            ("chebnetii", _NODE_VALUES),
            ("favard", _FAVARD),
            ("optbasis", _OPTBASIS),
        )
        for v, s in _VARIANTS.items()
    },
    "gcn": _BASELINE,
    "gat": _BASELINE | _ranges("dropout_edge"),
    "cheb": _BASELINE | _ranges("degree"),
    **_FIXED,
    **{
        f"dsf-{name}-r": space | _LOCAL_GROUP | _VARIANTS["r"]
        for name, space in _FIXED.items()
    },
    "fagcn": _BASELINE | _ranges("dropout_edge", "epsilon", "depth"),
    "pa-gnn": _BASELINE
    | _GPR
    | _ranges(
        "lr_gamma", "lr_pos", "decay_pos", "dropout_z", "dropout_pos", "lambda_l1"
    ),
}
"""Search space of every model that has one of its own."""
