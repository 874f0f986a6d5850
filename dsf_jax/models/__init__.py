"""Models as pure functions: settings, backbones, local weights, and `diverse` of both.

Every model has one interface (`Model`), the named ones are in `MODELS`, and how diverse
trained filters are is measured here, too.
"""

from dsf_jax.models.anchored import content, mixture, residual
from dsf_jax.models.attention import Fagcn, Gat
from dsf_jax.models.backbones import BACKBONES, Backbone
from dsf_jax.models.convolution import ChebNet, Gcn
from dsf_jax.models.diversity import Diversity, curve_spread, measure_diversity
from dsf_jax.models.layers import Inputs, Masks
from dsf_jax.models.learnt_bases import LearntBasis
from dsf_jax.models.local import Local, free, offsets, positional, shared
from dsf_jax.models.model import LocalWeights, Model, Output, Run
from dsf_jax.models.settings import FIELDS, HyperParams, check_settings
from dsf_jax.models.spectral import Diverse, Params, diverse
from dsf_jax.models.zoo import MODELS, find_model

__all__ = [
    "BACKBONES",
    "Backbone",
    "ChebNet",
    "Diverse",
    "Diversity",
    "FIELDS",
    "Fagcn",
    "Gat",
    "Gcn",
    "HyperParams",
    "Inputs",
    "LearntBasis",
    "Local",
    "LocalWeights",
    "MODELS",
    "Masks",
    "Model",
    "Output",
    "Params",
    "Run",
    "check_settings",
    "content",
    "curve_spread",
    "diverse",
    "find_model",
    "free",
    "measure_diversity",
    "mixture",
    "offsets",
    "positional",
    "residual",
    "shared",
]
