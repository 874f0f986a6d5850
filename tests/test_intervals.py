"""Intervals against scipy, and their coverage."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from dsf_jax import interval, paired_difference
from dsf_jax.engine.metrics import summarise
from dsf_jax.experiments.intervals import METHODS

SPLITS = np.random.default_rng(0).normal(80, 3, size=(10, 1))
SCORES = SPLITS + np.random.default_rng(1).normal(size=(10, 10))


def test_student_t_is_that_of_scipy_and_of_the_compiled_summary():
    ours = interval(SCORES)
    runs = SCORES.ravel()
    low, high = scipy.stats.t.interval(
        0.95, 99, loc=runs.mean(), scale=scipy.stats.sem(runs)
    )
    np.testing.assert_allclose(ours, (runs.mean(), low, high, 100), rtol=1e-12)
    summary = summarise(jnp.asarray(runs), jnp.ones(100, dtype=bool))
    np.testing.assert_allclose(ours.half, summary.ci95, rtol=1e-12)


def test_clustered_takes_a_split_as_one_observation():
    ours = interval(SCORES, "clustered")
    means = SCORES.mean(axis=1)
    half = scipy.stats.t.ppf(0.975, 9) * means.std(ddof=1) / np.sqrt(10)
    np.testing.assert_allclose(
        ours, (means.mean(), means.mean() - half, means.mean() + half, 100), rtol=1e-12
    )


def test_bootstrap_is_near_that_of_scipy_and_repeats():
    ours = interval(SCORES, "bootstrap")
    theirs = scipy.stats.bootstrap(
        (SCORES.ravel(),), np.mean, method="percentile", rng=5
    ).confidence_interval
    np.testing.assert_allclose((ours.low, ours.high), theirs, atol=0.05)
    assert ours == interval(SCORES, "bootstrap")


def test_only_the_clustered_one_covers_the_mean_over_all_splits():
    rng = np.random.default_rng(2)
    covered = {"student-t": 0, "clustered": 0}
    for _ in range(400):
        table = rng.normal(0, 3, size=(10, 1)) + rng.normal(size=(10, 10))
        for method in covered:
            ours = interval(table, method)
            covered[method] += ours.low <= 0 <= ours.high
    assert 370 <= covered["clustered"] <= 392  # 95 % of 400, within 3 deviations
    assert covered["student-t"] < 250


@pytest.mark.parametrize("method", METHODS)
def test_runs_that_are_not_finite_do_not_count(method):
    table = SCORES.copy()
    table[3], table[4, 2] = np.nan, np.nan
    ours = interval(table, method)
    assert ours.num_runs == 89
    np.testing.assert_allclose(ours.mean, np.nanmean(table), rtol=1e-12)
    assert ours.low < ours.mean < ours.high


@pytest.mark.parametrize("method", METHODS)
def test_too_few_runs_have_no_interval(method):
    assert np.isnan(interval(np.ones((1, 1)), method).half)
    assert np.isnan(interval(np.full((2, 2), np.nan), method).mean)


def test_pairs_cancel_what_a_split_does_to_both():
    better = SCORES + 0.5 + np.random.default_rng(3).normal(0, 0.1, SCORES.shape)
    gain = paired_difference(better, SCORES)
    assert gain.low > 0.4
    own = interval(better), interval(SCORES)
    assert own[0].low < own[1].high  # their intervals overlap
    np.testing.assert_allclose(gain, interval(better - SCORES))


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="student-t, bootstrap, clustered, got 'wald'"):
        interval(SCORES, "wald")
    with pytest.raises(ValueError, match=r"splits x seeds, got shape \(100,\)"):
        interval(SCORES.ravel())
    with pytest.raises(ValueError, match=r"got shape \(9, 10\) and \(10, 10\)"):
        paired_difference(SCORES, SCORES[1:])
