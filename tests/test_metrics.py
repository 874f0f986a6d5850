"""Scores against scikit-learn and by hand."""

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from sklearn.metrics import roc_auc_score

from dsf_jax.metrics import accuracy, roc_auc


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_roc_auc_equals_sklearn_with_ties(data):
    size = data.draw(st.integers(4, 30))
    scores = np.asarray(
        data.draw(st.lists(st.integers(0, 5), min_size=size, max_size=size)), float
    )
    labels = np.asarray(
        data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    )
    mask = np.asarray(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    area = roc_auc(jnp.asarray(scores), jnp.asarray(labels), jnp.asarray(mask))
    if len(set(labels[mask])) < 2:
        assert np.isnan(area)
    else:
        expected = roc_auc_score(labels[mask], scores[mask])
        np.testing.assert_allclose(area, expected, atol=1e-12)


def test_roc_auc_in_lanes(rng):
    scores = jnp.asarray(rng.normal(size=(3, 20)))
    labels, mask = jnp.arange(20) % 2, jnp.arange(20) < 15
    together = jax.vmap(roc_auc, in_axes=(0, None, None))(scores, labels, mask)
    for lane in range(3):
        np.testing.assert_allclose(together[lane], roc_auc(scores[lane], labels, mask))


def test_accuracy_counts_masked_nodes_only(rng):
    logits = rng.normal(size=(30, 4))
    labels = rng.integers(-1, 4, size=30)
    mask = (rng.uniform(size=30) < 0.5) & (labels >= 0)
    expected = np.mean(logits[mask].argmax(axis=1) == labels[mask])
    ours = accuracy(jnp.asarray(logits), jnp.asarray(labels), jnp.asarray(mask))
    np.testing.assert_allclose(ours, expected)
