"""Every named model: rows of one table.

A base model, its DSF-I and DSF-R forms and the ablations of R are a backbone with local
weights; so are the forms that start at their base model, which are ours, and PA-GNN.
GCN, ChebNet, GAT and FAGCN are models of their own kind.
"""

import dataclasses
import difflib
from typing import Any

from dsf_jax.models.anchored import content, mixture, residual
from dsf_jax.models.attention import Fagcn, Gat
from dsf_jax.models.backbones import BACKBONES, ones
from dsf_jax.models.convolution import ChebNet, Gcn
from dsf_jax.models.local import free, offsets, positional
from dsf_jax.models.model import Model
from dsf_jax.models.spectral import diverse

# backbones that have models which start at their base model, and their local weights
ANCHORED = ("gpr", "bern", "jacobi", "gpr-chebyshev", "chebnetii")
_ANCHORED_LOCALS = {"residual": residual(), "mixture": mixture(), "content": content()}


def _named_models() -> dict[str, Model]:
    models: dict[str, Model] = {}
    for name, backbone in BACKBONES.items():
        models[name] = diverse(backbone)
        models[f"dsf-{name}-r"] = diverse(backbone, positional("R"))
        if backbone.fixed_gamma is not None:
            continue
        without = backbone._replace(fixed_gamma=ones)  # no γ
        models |= {
            f"dsf-{name}-i": diverse(backbone, positional("I")),
            f"dsf-{name}-r-no-ipe": diverse(backbone, free()),
            f"dsf-{name}-r-no-ipe-no-lgwd": diverse(without, free(from_gamma=True)),
            f"dsf-{name}-r-no-lgwd": diverse(without, positional("R")),
            f"dsf-{name}-r-no-orth": diverse(backbone, positional("R", has_orth=False)),
        }
    for name in ANCHORED:
        for kind, local in _ANCHORED_LOCALS.items():
            models[f"dsf-{name}-{kind}"] = diverse(BACKBONES[name], local)
    return models | {
        "gcn": Gcn(),
        "gat": Gat(),
        "cheb": ChebNet(),
        "fagcn": Fagcn(),
        "pa-gnn": diverse(BACKBONES["gpr"], offsets()),
    }


MODELS = _named_models()
"""Every named model."""


def find_model(model: str | Model) -> Model:
    """A model by its name; one of your own passes.

    Raises:
      ValueError: if there is no such name; with the nearest ones.

    Example:
      >>> find_model("gpr") is find_model(MODELS["gpr"])
      True
    """
    if isinstance(model, Model):
        return model
    if not isinstance(model, str) or model not in MODELS:
        near = difflib.get_close_matches(str(model).lower(), MODELS, n=3, cutoff=0.0)
        raise ValueError(
            f"model must be a name in MODELS or a Model, got {model!r}; did you mean "
            f"{', '.join(map(repr, near))}?"
        )
    return MODELS[model]


def name_of(model: str | Model) -> str:
    """The name of a model; for one of your own, what it is made of.

    Example:
      >>> name_of(MODELS["gpr"])
      'gpr'
      >>> name_of(Gcn(hidden=8))
      'Gcn(order=10, hidden=8)'
    """
    model = find_model(model)
    for name, other in MODELS.items():
        if other == model:
            return name
    return _show(model)


def _show(value: Any) -> str:
    """A value without addresses in memory, the same in every process."""
    names = getattr(value, "_fields", None)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    if names is not None:
        parts = (f"{name}={_show(getattr(value, name))}" for name in names)
        return f"{type(value).__name__}({', '.join(parts)})"
    if not callable(value):
        return repr(value)
    code = getattr(value, "__code__", None)  # the line tells one lambda from another
    line = "" if code is None else f":{code.co_firstlineno}"
    return f"{getattr(value, '__qualname__', type(value).__name__)}{line}"
