"""Local homophily and frequency against subgraphs cut out one by one."""

import networkx as nx
import numpy as np
import pytest

from dsf_jax import Graph, regions
from dsf_jax.graph.locality import (
    count_local_edges,
    eigenspace_frequency,
    local_frequency,
    local_homophily,
    unevenness,
)
from dsf_jax.ops import l_hat
from tests.graphs import GRAPHS, random_edges


def subgraph_edges(graph, node, hops):
    """Edges among the nodes within a distance, by networkx."""
    whole = nx.from_scipy_sparse_array(graph.to_scipy())
    return list(nx.ego_graph(whole, node, radius=hops).edges)


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_local_homophily_equals_naive(graph, hops, rng):
    labels = rng.integers(-1, 3, size=graph.num_nodes)
    ours = local_homophily(graph, labels, hops=hops)
    for node in range(graph.num_nodes):
        edges = [
            (p, q)
            for p, q in subgraph_edges(graph, node, hops)
            if labels[p] >= 0 and labels[q] >= 0
        ]
        if not edges:
            assert np.isnan(ours[node])
        else:
            expected = np.mean([labels[p] == labels[q] for p, q in edges])
            np.testing.assert_allclose(ours[node], expected)


def measure(graph, labels, hops=2):
    return unevenness(graph, labels, count_local_edges(graph, labels, hops=hops))


@pytest.mark.parametrize("hops", [1, 2])
def test_unevenness_equals_naive(graph, hops, rng):
    labels = rng.integers(-1, 3, size=graph.num_nodes)
    a, pairs, near = graph.to_scipy().toarray() > 0, [], []
    for p, q in zip(*np.nonzero(np.triu(a)), strict=True):
        if labels[p] >= 0 and labels[q] >= 0:
            pairs.append(labels[p] == labels[q])
    for node in range(graph.num_nodes):
        edges = subgraph_edges(graph, node, hops)
        known = [(p, q) for p, q in edges if min(labels[p], labels[q]) >= 0]
        if known:
            near.append((np.mean([labels[p] == labels[q] for p, q in known]), known))
    found = measure(graph, labels, hops)
    if not near:
        assert np.all(np.isnan(found))
        return
    shares, overall = np.asarray([share for share, _ in near]), np.mean(pairs)
    by_chance = [overall * (1 - overall) / len(known) for _, known in near]
    twins = [
        a[i].any() and any(np.array_equal(a[i], row) for row in np.delete(a, i, axis=0))
        for i in range(len(a))
    ]
    np.testing.assert_allclose(
        found,
        [
            np.sqrt(np.mean((shares - shares.mean()) ** 2)),
            np.sqrt(np.mean(by_chance)),
            np.mean(np.abs(shares - overall) > 0.2),
            np.mean(twins),
        ],
        atol=1e-12,
    )


def test_unevenness_tells_regions_from_an_even_graph(rng):
    uneven = regions()
    found = measure(uneven.graph, uneven.labels)
    assert found.spread > 3 * found.chance
    assert found.unlike > 0.5
    even = Graph.from_edges(random_edges(600, 1800, seed=1), num_nodes=600)
    found = measure(even, rng.integers(0, 2, size=600))
    assert found.spread < 1.5 * found.chance
    assert found.unlike < 0.1


@pytest.mark.parametrize("hops", [1, 2])
def test_local_frequency_equals_naive(graph, hops):
    eigvals, eigvecs = np.linalg.eigh(l_hat(graph).to_dense())
    ours = local_frequency(graph, eigvecs, hops=hops)
    a = graph.to_scipy().toarray()
    scale = 1 / np.sqrt(np.where(a.sum(axis=1) > 0, a.sum(axis=1), 1))
    for node in range(graph.num_nodes):
        expected = np.zeros(len(eigvals))
        for p, q in subgraph_edges(graph, node, hops):
            gap = scale[p] * eigvecs[p] - scale[q] * eigvecs[q]
            expected += a[p, q] * gap**2
        np.testing.assert_allclose(ours[:, node], expected, atol=1e-12)
    assert np.all(ours >= 0)
    assert np.all(ours <= eigvals[:, None] + 1e-9)


def test_many_hops_give_the_global_values(rng):
    edges = [*random_edges(40, 80, seed=3), *((i, i + 1) for i in range(39))]
    graph = Graph.from_edges(edges, num_nodes=40)
    labels = rng.integers(0, 3, size=40)
    eigvals, eigvecs = np.linalg.eigh(l_hat(graph).to_dense())
    np.testing.assert_allclose(
        local_frequency(graph, eigvecs, hops=40),
        np.tile(eigvals[:, None], (1, 40)),
        atol=1e-12,
    )
    senders, receivers = np.asarray(graph.senders), np.asarray(graph.receivers)
    share = np.mean(labels[senders] == labels[receivers])
    np.testing.assert_allclose(local_homophily(graph, labels, hops=40), share)


def test_blocks_of_nodes_do_not_matter(monkeypatch, rng):
    graph = GRAPHS["random"]
    labels = rng.integers(0, 2, size=20)
    expected = local_homophily(graph, labels)
    monkeypatch.setattr("dsf_jax.graph.locality.BLOCK_ENTRIES", 100)
    np.testing.assert_array_equal(local_homophily(graph, labels), expected)


def test_hops_below_one_are_refused():
    with pytest.raises(ValueError, match="hops must be at least 1, got 0"):
        local_homophily(GRAPHS["path"], np.zeros(7, dtype=int), hops=0)


def test_one_column_spaces_are_eigenvectors(graph):
    eigvecs = np.linalg.eigh(l_hat(graph).to_dense()).eigenvectors
    spaces = [eigvecs[:, [n]] for n in range(graph.num_nodes)]
    np.testing.assert_array_equal(
        eigenspace_frequency(graph, spaces), local_frequency(graph, eigvecs)
    )


def test_rotations_of_an_eigenspace_do_not_matter(graph, rng):
    vectors = np.linalg.eigh(l_hat(graph).to_dense()).eigenvectors[:, :3]
    rotation = np.linalg.qr(rng.normal(size=(vectors.shape[1],) * 2)).Q
    np.testing.assert_allclose(
        eigenspace_frequency(graph, [vectors @ rotation]),
        eigenspace_frequency(graph, [vectors]),
        atol=1e-12,
    )


@pytest.mark.parametrize("hops", [1, 2])
def test_frequencies_sum_to_inverse_degrees(graph, hops):
    """Eigenvectors are a basis: sum_n lambda_{n,i} = sum_(p,q) w (1/d_p + 1/d_q)."""
    eigvecs = np.linalg.eigh(l_hat(graph).to_dense()).eigenvectors
    ours = local_frequency(graph, eigvecs, hops=hops).sum(axis=0)
    a = graph.to_scipy().toarray()
    degrees = a.sum(axis=1)
    for node in range(graph.num_nodes):
        expected = sum(
            a[p, q] * (1 / degrees[p] + 1 / degrees[q])
            for p, q in subgraph_edges(graph, node, hops)
        )
        np.testing.assert_allclose(ours[node], expected, atol=1e-12)
