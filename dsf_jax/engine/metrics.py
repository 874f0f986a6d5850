"""Scores on a mask of nodes, and statistics of many runs."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.special
from jax import Array
from jaxtyping import Bool, Float, Int

from dsf_jax.ops.nodes import gather, total


class Summary(NamedTuple):
    """Statistics over the finite jobs."""

    mean: Float[Array, ""]
    ci95: Float[Array, ""]  # half the width of the Student-t interval
    std: Float[Array, ""]
    num_finite: Int[Array, ""]


def accuracy(
    logits: Float[Array, "N C"], labels: Int[Array, " N"], mask: Bool[Array, " N"]
) -> Float[Array, ""]:
    """Share of the masked nodes whose largest logit is that of their class.

    Example:
      >>> logits = jnp.asarray([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]])
      >>> mask = jnp.asarray([True, True, True])
      >>> round(float(accuracy(logits, jnp.asarray([0, 1, 1]), mask)), 3)
      0.667
    """
    is_right = (jnp.argmax(logits, axis=1) == labels) & mask
    right, count = total(jnp.sum(is_right)), total(jnp.sum(mask))
    return right.astype(logits.dtype) / count.astype(logits.dtype)


def roc_auc(
    scores: Float[Array, " N"], labels: Int[Array, " N"], mask: Bool[Array, " N"]
) -> Float[Array, ""]:
    """Area under the ROC curve of the masked nodes, exact with ties.

        AUC = (Σ ranks of positives - n₊ (n₊ + 1) / 2) / (n₊ n₋)

    with the mean rank where scores are equal. NaN if one class is missing.

    Args:
      scores: finite scores, larger for class 1.
      labels: 0 or 1 on the mask.
      mask: the nodes that count.

    Returns:
      The area.

    Example:
      >>> scores, labels = jnp.asarray([0.1, 0.4, 0.4, 0.8]), jnp.asarray([0, 0, 1, 1])
      >>> float(roc_auc(scores, labels, jnp.ones(4, dtype=bool)))
      0.875
    """
    scores, labels, mask = map(gather, (scores, labels, mask))
    dtype = scores.dtype
    ordered = jnp.sort(jnp.where(mask, scores, jnp.inf))  # the others at the end
    below = jnp.searchsorted(ordered, scores, side="left").astype(dtype)
    up_to = jnp.searchsorted(ordered, scores, side="right").astype(dtype)
    is_positive = mask & (labels == 1)
    positives = jnp.sum(is_positive).astype(dtype)
    negatives = jnp.sum(mask).astype(dtype) - positives
    ranks = jnp.sum(jnp.where(is_positive, (below + up_to + 1) / 2, 0.0))
    return (ranks - positives * (positives + 1) / 2) / (positives * negatives)


def t_quantile(count: Any) -> Any:
    """Student's t of a 95 % interval over as many observations, at least two.

    Example:
      >>> round(float(t_quantile(10)), 3)
      2.262
    """
    return scipy.special.stdtrit(np.asarray(count) - 1, 0.975)


def summarise(scores: Float[Array, " J"], is_finite: Bool[Array, " J"]) -> Summary:
    """Mean, Student-t 95 % interval and standard deviation of the finite jobs.

    The interval of fewer than two jobs is NaN.

    Example:
      >>> summary = summarise(jnp.asarray([1.0, 3.0, 9.0]), jnp.arange(3) < 2)
      >>> float(summary.mean), round(float(summary.ci95), 2)  # 12.706 * sqrt(2 / 2)
      (2.0, 12.71)
    """
    count = jnp.sum(is_finite)
    n = count.astype(scores.dtype)
    mean = jnp.sum(jnp.where(is_finite, scores, 0.0)) / n
    squares = jnp.sum(jnp.where(is_finite, (scores - mean) ** 2, 0.0))
    std = jnp.sqrt(squares / (n - 1))
    quantiles = t_quantile(np.maximum(np.arange(len(scores) + 1), 2))
    t = jnp.asarray(quantiles, dtype=scores.dtype)[count]
    return Summary(mean=mean, ci95=t * std / jnp.sqrt(n), std=std, num_finite=count)
