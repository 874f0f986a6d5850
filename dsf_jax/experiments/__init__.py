"""From a data set and a model to results: evaluation, statistics, settings, search.

Evaluations and their journals, intervals and paired differences, settings that ship,
search spaces, a single run that keeps its parameters, and parameters on disk. The
search itself, `tune`, needs Optuna (`pip install dsf-jax[tune]`) and is imported at its
first use.
"""

from typing import Any

from dsf_jax.experiments.evaluation import evaluate, finite_scores, prepare
from dsf_jax.experiments.fitting import Fitted, Prediction, fit, load, predict, save
from dsf_jax.experiments.intervals import Interval, interval, paired_difference
from dsf_jax.experiments.journal import Journal
from dsf_jax.experiments.presets import Preset, preset, published
from dsf_jax.experiments.saved import Saved, load_params, save_params
from dsf_jax.experiments.spaces import SPACES, space_of

__all__ = [
    "SPACES",
    "Fitted",
    "Prediction",
    "Interval",
    "Journal",
    "Preset",
    "Saved",
    "evaluate",
    "finite_scores",
    "fit",
    "interval",
    "load",
    "load_params",
    "paired_difference",
    "prepare",
    "predict",
    "preset",
    "published",
    "save",
    "save_params",
    "space_of",
    "tune",
]


def __getattr__(name: str) -> Any:
    """What needs packages that are not installed with the others."""
    if name == "tune":
        from dsf_jax.experiments.search import tune

        return tune
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
