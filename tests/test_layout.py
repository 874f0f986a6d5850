"""Places and communities of nodes."""

import networkx as nx
import numpy as np
from sklearn.metrics import adjusted_rand_score

from dsf_jax import Graph
from dsf_jax.explain.layout import communities, list_edges, place_nodes, sample_edges
from tests.graphs import GRAPHS


def test_places_fit_the_page_and_repeat(graph):
    points = place_nodes(graph)
    assert points.shape == (graph.num_nodes, 2)
    assert abs(points).max() <= 1
    np.testing.assert_array_equal(place_nodes(graph), points)


def test_neighbours_are_near():
    ring = Graph.from_networkx(nx.cycle_graph(40))
    points = place_nodes(ring)
    one, other = list_edges(ring).T
    linked = np.linalg.norm(points[one] - points[other], axis=1).mean()
    anyone = np.linalg.norm(points[:, None] - points, axis=2).mean()
    assert linked < anyone / 2


def test_communities_find_planted_blocks():
    blocks = nx.planted_partition_graph(4, 30, 0.5, 0.01, seed=0)
    found = communities(Graph.from_networkx(blocks))
    assert adjusted_rand_score(np.repeat(np.arange(4), 30), found) == 1
    assert np.all(np.diff(np.bincount(found)) <= 0)


def test_edges_are_listed_once(graph):
    pairs = list_edges(graph)
    assert len(pairs) == graph.num_edges
    dense = np.zeros((graph.num_nodes,) * 2, dtype=bool)
    dense[pairs[:, 0], pairs[:, 1]] = True
    np.testing.assert_array_equal(dense | dense.T, graph.to_scipy().toarray() > 0)


def test_a_sample_is_part_of_the_edges():
    graph = GRAPHS["random"]
    whole = set(map(tuple, list_edges(graph).tolist()))
    few = list(map(tuple, sample_edges(graph, 10).tolist()))
    assert len(few) == len(set(few)) == 10
    assert set(few) <= whole
