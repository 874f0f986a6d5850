"""Models as pure functions: settings, parameters, and init / apply of each.

DSF and its base models, the paper's baselines, dropout and losses, how diverse trained
filters are, and the interface by which training sees any of them.
"""

from dsf_jax.models.diversity import Diversity, curve_spread, measure_diversity
from dsf_jax.models.dropout import Masks, draw_masks
from dsf_jax.models.dsf import (
    LocalWeights,
    Output,
    apply,
    local_weights,
    loss,
    node_positions,
)
from dsf_jax.models.interface import Model, model_of
from dsf_jax.models.params import Inputs, Params, init, make_inputs
from dsf_jax.models.settings import (
    BACKBONES,
    MODELS,
    Backbone,
    BaselineConfig,
    HyperParams,
    ModelConfig,
)

__all__ = [
    "BACKBONES",
    "MODELS",
    "Backbone",
    "BaselineConfig",
    "Diversity",
    "HyperParams",
    "Inputs",
    "LocalWeights",
    "Masks",
    "Model",
    "ModelConfig",
    "Output",
    "Params",
    "apply",
    "curve_spread",
    "draw_masks",
    "init",
    "local_weights",
    "loss",
    "make_inputs",
    "measure_diversity",
    "model_of",
    "node_positions",
]
