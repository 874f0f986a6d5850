"""Scores against scikit-learn and by hand; homophily edge by edge."""

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.metrics import roc_auc_score

from dsf_jax import Graph
from dsf_jax.engine.metrics import accuracy, roc_auc
from dsf_jax.graph.homophily import class_homophily, edge_homophily
from tests.graphs import random_edges, real_dataset


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_roc_auc_equals_sklearn_with_ties(data):
    def draw(values):  # of one size, so that there is one program
        return np.asarray(data.draw(st.lists(values, min_size=30, max_size=30)))

    scores, labels = draw(st.integers(0, 5)).astype(float), draw(st.integers(0, 1))
    mask = draw(st.booleans()) & (np.arange(30) < data.draw(st.integers(4, 30)))
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


def naive_homophily(edges, labels):
    """H and H_class, from a list of undirected edges, one by one."""
    known = [label for label in labels if label >= 0]
    num_classes = max(known) + 1
    equal = total = 0
    ends, equal_ends = [0] * num_classes, [0] * num_classes
    for i, j in {(min(pair), max(pair)) for pair in edges if pair[0] != pair[1]}:
        if labels[i] < 0 or labels[j] < 0:
            continue
        total += 1
        equal += labels[i] == labels[j]
        for end, other in ((i, j), (j, i)):
            ends[labels[end]] += 1
            equal_ends[labels[end]] += labels[end] == labels[other]
    excess = 0.0
    for c in range(num_classes):
        share = equal_ends[c] / ends[c] if ends[c] else 0.0
        excess += max(0.0, share - known.count(c) / len(known))
    return equal / total, excess / (num_classes - 1)


@pytest.mark.parametrize("seed", range(5))
def test_homophily_equals_naive(seed):
    edges = random_edges(30, 70, seed)
    labels = np.random.default_rng(seed).integers(-1, 4, size=30)
    graph = Graph.from_edges(edges, num_nodes=30)
    expected = naive_homophily(map(tuple, edges.tolist()), labels.tolist())
    ours = edge_homophily(graph, labels), class_homophily(graph, labels)
    np.testing.assert_allclose(ours, expected, atol=1e-12)


def test_homophily_of_special_graphs():
    labels = np.asarray([0, 0, 1, 1])
    inside = Graph.from_edges([(0, 1), (2, 3)], num_nodes=4)
    assert (edge_homophily(inside, labels), class_homophily(inside, labels)) == (1, 1)
    across = Graph.from_edges([(0, 2), (1, 3)], num_nodes=4)
    assert (edge_homophily(across, labels), class_homophily(across, labels)) == (0, 0)
    empty = Graph.from_edges([], num_nodes=4)
    assert np.isnan(edge_homophily(empty, labels))
    assert class_homophily(empty, labels) == 0
    assert np.isnan(class_homophily(inside, np.zeros(4, dtype=int)))


# H and H_class as the paper prints them, where its conventions are ours
PAPER = {
    "squirrel": (0.22, 0.03),
    "twitch-de": (0.63, 0.14),
    "cora": (0.81, 0.77),
    "citeseer": (0.74, 0.63),
    "pubmed": (0.80, 0.66),
    "computers": (0.78, 0.70),
    "photo": (0.83, 0.77),
}
# explained in docs/decisions.md: the paper counts directed edges there
OTHER = {
    "chameleon": (0.230, 0.041),
    "wisconsin": (0.178, 0.046),
    "cornell": (0.296, 0.015),
    "texas": (0.061, 0.000),
}


@pytest.mark.data
@pytest.mark.parametrize("name", [*PAPER, *OTHER])
def test_homophily_of_the_real_graphs(name):
    dataset = real_dataset(name)
    h = edge_homophily(dataset.graph, dataset.labels)
    h_class = class_homophily(dataset.graph, dataset.labels)
    if name in PAPER:
        assert (round(h, 2), round(h_class, 2)) == PAPER[name]
    else:
        assert (round(h, 3), round(h_class, 3)) == OTHER[name]
