"""From a data set and a model to results: evaluation, statistics, settings, search.

Evaluations and their journals, intervals and paired differences, settings that ship,
search spaces, a single run that keeps its parameters, and parameters on disk. The
search itself (`dsf_jax.experiments.search`) needs Optuna and is imported on demand.
"""

from dsf_jax.experiments.evaluation import evaluate, finite_scores, prepare
from dsf_jax.experiments.fitting import Fit, fit
from dsf_jax.experiments.intervals import Interval, interval, paired_difference
from dsf_jax.experiments.journal import Journal
from dsf_jax.experiments.presets import Preset, preset, published
from dsf_jax.experiments.saved import Saved, load_params, save_params
from dsf_jax.experiments.spaces import SPACES, space_of

__all__ = [
    "SPACES",
    "Fit",
    "Interval",
    "Journal",
    "Preset",
    "Saved",
    "evaluate",
    "finite_scores",
    "fit",
    "interval",
    "load_params",
    "paired_difference",
    "prepare",
    "preset",
    "published",
    "save_params",
    "space_of",
]
