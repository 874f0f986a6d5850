"""RWPE from a sketch against exact powers, and the error that it states."""

import networkx as nx
import numpy as np
import pytest

from dsf_jax.graph import random_walk
from dsf_jax.graph.graph import Graph
from dsf_jax.graph.random_walk import random_walk_features, sketch_random_walks
from tests import reference

SEEDS = 6


def weighted(graph):
    rng = np.random.default_rng(0)
    for u, v in graph.edges:
        graph.edges[u, v]["weight"] = rng.uniform(0.5, 2.0)
    return graph


GRAPHS = {
    name: Graph.from_networkx(nx.convert_node_labels_to_integers(graph))
    for name, graph in {
        "random": nx.gnp_random_graph(150, 0.04, seed=0),
        "hubs": nx.barabasi_albert_graph(200, 2, seed=1),
        "near": weighted(nx.connected_watts_strogatz_graph(180, 4, 0.1, seed=3)),
        "grid": nx.grid_2d_graph(12, 12),  # bipartite
        "parts": nx.disjoint_union_all(
            [nx.cycle_graph(9), nx.path_graph(30), nx.star_graph(6), nx.empty_graph(3)]
            + [nx.lollipop_graph(6, 20)]
        ),
    }.items()
}


@pytest.fixture(params=GRAPHS)
def graph(request):
    return GRAPHS[request.param]


def exact_powers(graph, num_powers=32):
    a_hat = reference.a_hat(graph.to_scipy().toarray())
    powers = [np.linalg.matrix_power(a_hat, j + 1) for j in range(num_powers)]
    return np.stack([np.diag(power) for power in powers], axis=1)


def test_stated_error_is_the_real_one(graph):
    exact = exact_powers(graph)
    stated, real = [], []
    for seed in range(SEEDS):
        sketch = sketch_random_walks(graph, num_columns=256, seed=seed)
        stated.append(sketch.errors)
        real.append(np.sqrt(np.mean((sketch.x - exact) ** 2, axis=0)))
    deviation = exact.std(axis=0)
    differs = deviation > 1e-12
    stated = np.sqrt(np.mean(np.square(stated), axis=0))[differs]
    real = np.sqrt(np.mean(np.square(real), axis=0))[differs] / deviation[differs]
    # values below 0 that become 0 lower the real error, most where it is large
    estimated = (stated > 1e-4) & (stated < 1)
    ratio = real[estimated] / stated[estimated]
    assert estimated.sum() > 8
    assert (ratio > 0.5).all(), ratio
    assert (ratio < 2).all(), ratio


def test_three_powers_are_exact(graph):
    sketch = sketch_random_walks(graph, num_columns=64)
    np.testing.assert_allclose(sketch.x[:, :3], exact_powers(graph, 3), atol=1e-14)
    assert not sketch.errors[:3].any()
    assert (sketch.x >= 0).all()


def test_triangles_in_pieces(graph, monkeypatch):
    monkeypatch.setattr(random_walk, "_MAX_TERMS", 7)
    sketch = sketch_random_walks(graph, num_columns=64, num_powers=3)
    np.testing.assert_allclose(sketch.x, exact_powers(graph, 3), atol=1e-14)


def test_bipartite_parts_have_no_odd_powers():
    sketch = sketch_random_walks(GRAPHS["grid"], num_columns=64)
    assert not sketch.x[:, ::2].any()
    assert not sketch.errors[::2].any()
    parts = sketch_random_walks(GRAPHS["parts"], num_columns=64)
    assert not parts.x[9:49, ::2].any()
    assert parts.x[:9, 8].all()


def test_what_is_known_is_not_estimated():
    """A complete graph and an edge mix at once: all of a high power is known."""
    graph = Graph.from_networkx(
        nx.disjoint_union(nx.complete_graph(30), nx.path_graph(2))
    )
    sketch = sketch_random_walks(graph, num_columns=64)
    np.testing.assert_allclose(sketch.x[:, 12:], exact_powers(graph)[:, 12:], atol=1e-7)


def test_error_falls_with_the_columns():
    exact, graph = exact_powers(GRAPHS["near"]), GRAPHS["near"]
    few, many = (
        np.sqrt(np.mean((sketch_random_walks(graph, num_columns=c).x - exact) ** 2))
        for c in (64, 64 * 16)
    )
    assert 2 < few / many < 8


def test_first_columns_of_more_powers():
    few = sketch_random_walks(GRAPHS["near"], num_columns=64, num_powers=7)
    many = sketch_random_walks(GRAPHS["near"], num_columns=64)
    np.testing.assert_array_equal(few.x, many.x[:, :7])
    np.testing.assert_array_equal(few.errors, many.errors[:7])


def test_one_seed_gives_one_result():
    first, second, other = (
        sketch_random_walks(GRAPHS["near"], num_columns=64, seed=seed).x
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_progress_of_a_sketch():
    shares = []
    sketch_random_walks(GRAPHS["grid"], num_columns=128, on_progress=shares.append)
    assert shares == [i / 8 for i in range(1, 9)]


def test_edgeless_graph_has_no_walks():
    sketch = sketch_random_walks(Graph.from_edges([], num_nodes=5), num_columns=64)
    assert not sketch.x.any()
    assert not sketch.errors.any()
    assert not random_walk_features(Graph.from_edges([], num_nodes=5)).any()


@pytest.mark.parametrize("num_columns", [0, 63, 100, -64])
def test_columns_that_make_no_groups(num_columns):
    with pytest.raises(ValueError, match=f"multiple of 64 above 0, got {num_columns}"):
        sketch_random_walks(GRAPHS["grid"], num_columns=num_columns)
