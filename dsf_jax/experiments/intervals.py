"""95 % intervals of a mean over splits x seeds, and of the difference of two models.

Runs on one split have most of their nodes in common, so their scores are not
independent: an interval over all runs says how well the mean over *these* splits is
known. The clustered one takes each split as one observation and says how well the mean
over *all* splits is known; it is wider.
"""

from typing import Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float

from dsf_jax.engine.metrics import t_quantile

Method = Literal["student-t", "bootstrap", "clustered"]
METHODS: tuple[str, ...] = get_args(Method)


class Interval(NamedTuple):
    """A mean with the ends of its interval.

    Example:
      >>> Interval(mean=2.0, low=1.0, high=3.0, num_runs=10).half
      1.0
    """

    mean: float
    low: float
    high: float
    num_runs: int  # finite ones

    @property
    def half(self) -> float:
        """Half of its width."""
        return (self.high - self.low) / 2


def interval(scores: Float[np.ndarray, "..."], method: str = "student-t") -> Interval:
    """Mean of all runs and its 95 % interval.

    Args:
      scores: [S, R], by split and seed; runs that are NaN do not count.
      method: `student-t` over the runs, `bootstrap` (percentiles of 10,000 resamples of
        the runs), or `clustered` (Student-t over the means of the splits).

    Returns:
      The interval; its ends are NaN with fewer than two runs, or splits if clustered.

    Raises:
      ValueError: for an unknown method, or scores that are not a table.

    Example:
      >>> ours = interval(np.asarray([[1.0, 3.0], [2.0, 2.0]]), "clustered")
      >>> ours.mean, ours.half
      (2.0, 0.0)
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}.")
    scores = np.asarray(scores, dtype=float)
    if scores.ndim != 2:
        raise ValueError(
            f"scores must be splits x seeds, got shape {scores.shape}; for one split "
            "take scores[None, :]."
        )
    runs = scores[np.isfinite(scores)]
    if method == "clustered":
        finite = [row[np.isfinite(row)] for row in scores]
        means = np.asarray([row.mean() for row in finite if len(row)])
        low, high = _student(means)
    elif method == "bootstrap":
        low, high = _bootstrap(runs)
    else:
        low, high = _student(runs)
    return Interval(float(runs.mean()) if len(runs) else np.nan, low, high, len(runs))


def paired_difference(
    scores: Float[np.ndarray, "..."],
    others: Float[np.ndarray, "..."],
    method: str = "student-t",
) -> Interval:
    """How much better the first model is, run by run on the same splits and seeds.

    What makes a split easy or hard for both cancels, so this tells models apart whose
    own intervals overlap.

    Example:
      >>> easy_and_hard = np.asarray([[90.0, 91.0], [70.0, 71.0]])
      >>> gain = paired_difference(easy_and_hard + 1, easy_and_hard)
      >>> gain.mean, gain.half
      (1.0, 0.0)
    """
    if np.shape(scores) != np.shape(others):
        raise ValueError(
            f"others must be the same runs as scores, got shape {np.shape(others)} "
            f"and {np.shape(scores)}; evaluate both on the same splits and seeds."
        )
    return interval(np.asarray(scores) - np.asarray(others), method)


def _student(values: Float[np.ndarray, " n"]) -> tuple[float, float]:
    if len(values) < 2:
        return np.nan, np.nan
    error = values.std(ddof=1) / np.sqrt(len(values))
    half = t_quantile(len(values)) * error
    return float(values.mean() - half), float(values.mean() + half)


def _bootstrap(values: Float[np.ndarray, " n"]) -> tuple[float, float]:
    if len(values) < 2:
        return np.nan, np.nan
    rng = np.random.default_rng(0)
    means = rng.choice(values, size=(10_000, len(values))).mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
