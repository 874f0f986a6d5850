"""Reading trained filters: curves, groups, maps and their agreement with the graph."""

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
import scipy.stats
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from dsf_jax import MODELS, Graph, HyperParams, fit, node_filters, regions
from dsf_jax.data import region_of
from dsf_jax.explain.reading import (
    distance_correlation,
    embed,
    read_filters,
    representatives,
    variance_share,
)
from dsf_jax.models.diversity import curve_spread
from tests.graphs import GRAPHS
from tests.reference import bernstein_values


@pytest.fixture
def beta(rng):
    """Weights of 60 nodes in three groups that are far apart."""
    centres = np.asarray([[0.0, 0.0, 0.0], [5.0, 0.0, 0.0], [0.0, 6.0, 1.0]])
    return (centres[np.arange(60) % 3] + 0.1 * rng.normal(size=(60, 3))).T


def read(model, graph=GRAPHS["random"], hparams=None):
    model, num_nodes = MODELS[model], graph.num_nodes
    hparams = HyperParams() if hparams is None else hparams
    x_pos = jax.random.normal(jax.random.key(1), (2, num_nodes, 32))
    inputs = model.make_inputs(graph, jnp.eye(num_nodes), x_pos)
    key = jax.random.key(0)
    params = model.init(key, inputs, hparams, num_classes=3)
    return params, read_filters(params, inputs, hparams, model=model, num_points=11)


def test_curves_are_the_polynomials_of_the_weights():
    _, filters = read("dsf-bern-r")
    values = bernstein_values(10, filters.lam)  # [K1, G]
    np.testing.assert_allclose(filters.curves, filters.beta.T @ values, atol=1e-12)
    np.testing.assert_allclose(filters.shared, filters.beta.mean(axis=1) @ values)
    np.testing.assert_allclose(filters.beta, filters.gamma[:, None] * filters.theta)
    np.testing.assert_allclose(filters.lam[[0, -1]], [0, 2])


@pytest.mark.parametrize(
    "model", ["gpr", "dsf-gpr-r-no-lgwd", "jacobi", "dsf-jacobi-r", "dsf-gpr-i"]
)
def test_every_kind_of_model_can_be_read(model):
    params, filters = read(model)
    assert filters.curves.shape == (20, 11)
    if params.gamma is None:
        np.testing.assert_array_equal(filters.gamma, 1)
    np.testing.assert_allclose(filters.beta, filters.gamma[:, None] * filters.theta)


def test_base_models_have_no_spread():
    _, filters = read("bern")
    assert curve_spread(filters.curves) < 1e-12
    assert representatives(filters.beta).sizes.tolist() == [20]
    np.testing.assert_allclose(embed(filters.beta), 0, atol=1e-12)
    assert np.isnan(variance_share(np.ones((2, 3)), np.arange(3)))
    assert np.isnan(distance_correlation(GRAPHS["random"], np.ones((2, 20))))


def test_representatives_find_separate_groups(beta):
    groups = representatives(beta, count=3)
    assert adjusted_rand_score(np.arange(60) % 3, groups.cluster) == 1
    assert np.all(np.diff(groups.sizes) <= 0)
    for i in range(3):
        mean = beta[:, groups.cluster == i].mean(axis=1)
        np.testing.assert_allclose(groups.centres[:, i], mean)
    with pytest.raises(ValueError, match="count must be at least 1, got 0"):
        representatives(beta, count=0)


def test_pca_equals_scikit_learn(beta):
    expected = PCA(2).fit_transform(beta.T)
    np.testing.assert_allclose(abs(embed(beta, method="pca")), abs(expected), atol=1e-9)
    with pytest.raises(ValueError, match="method must be one of tsne, pca, got 'umap'"):
        embed(beta, method="umap")


@pytest.mark.slow
def test_tsne_keeps_groups_together(beta):
    points = embed(beta, method="tsne")
    assert points.shape == (60, 2)
    near = np.argsort(np.linalg.norm(points[:, None] - points, axis=2), axis=1)[:, 1:4]
    assert np.mean(near % 3 == np.arange(60)[:, None] % 3) > 0.9


def test_few_nodes_are_embedded():
    assert embed(np.asarray([[1.0, 2.0, 4.0]])).shape == (3, 2)


def test_variance_share_equals_naive(beta, rng):
    groups = rng.integers(3, 7, size=60)
    mean = beta.mean(axis=1, keepdims=True)
    between = sum(
        np.sum(groups == g)
        * np.sum((beta[:, groups == g].mean(axis=1) - mean[:, 0]) ** 2)
        for g in set(groups)
    )
    expected = between / np.sum((beta - mean) ** 2)
    np.testing.assert_allclose(variance_share(beta, groups), expected)
    assert variance_share(beta, np.arange(60) % 3) > 0.99
    assert variance_share(beta, np.zeros(60, dtype=int)) < 1e-12


def test_random_groups_share_as_much_as_chance(rng):
    beta = rng.normal(size=(4, 300))
    shares = [variance_share(beta, rng.permutation(300) % 10) for _ in range(200)]
    np.testing.assert_allclose(np.mean(shares), 9 / 299, rtol=0.1)


def test_distance_correlation_equals_naive(rng):
    whole = nx.gnp_random_graph(25, 0.08, seed=2)  # not connected
    beta = rng.normal(size=(3, 25))
    hops, gaps = [], []
    for i, found in nx.all_pairs_shortest_path_length(whole):
        for j, length in found.items():
            if i != j:
                hops.append(length)
                gaps.append(np.linalg.norm(beta[:, i] - beta[:, j]))
    expected = scipy.stats.spearmanr(hops, gaps).statistic
    ours = distance_correlation(Graph.from_networkx(whole), beta)
    np.testing.assert_allclose(ours, expected)


def test_spread_has_no_scale(rng):
    curves = 1 + rng.uniform(size=(20, 11))
    mean = curves.mean(axis=0)
    expected = np.linalg.norm(curves - mean) / np.sqrt(20) / np.linalg.norm(mean)
    np.testing.assert_allclose(curve_spread(curves), expected)
    np.testing.assert_allclose(curve_spread(7 * curves), expected)


@pytest.mark.slow
def test_clusters_of_weights_recover_the_regions():
    """The settings of docs/figures.md; there it is the mean of ten runs."""
    settings = HyperParams(
        lr=0.05, lr_pos=0.05, gamma_init="ones", pos_kind="lap", f_p=2
    )
    filters = node_filters(fit(regions(), "dsf-bern-r", settings, epochs=200))
    found = representatives(filters.beta, count=3).cluster
    assert adjusted_rand_score(region_of(600), found) > 0.9
    assert variance_share(filters.beta, region_of(600)) > 0.5
