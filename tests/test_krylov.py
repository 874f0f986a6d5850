"""The solver for large graphs against dense eigendecompositions."""

import networkx as nx
import numpy as np
import pytest

from dsf_jax.graph import krylov, laplacian
from dsf_jax.graph.graph import Graph, normalise
from dsf_jax.graph.krylov import TOLERANCE, large_eigenpairs
from dsf_jax.graph.laplacian import laplacian_features

GRAPHS = {  # all but the last three repeat eigenvalues
    "tree": nx.balanced_tree(2, 8),
    "hypercube": nx.hypercube_graph(9),
    "bipartite": nx.complete_bipartite_graph(90, 160),  # one eigenvalue 248 times
    "path": nx.path_graph(600),
    "random": nx.connected_watts_strogatz_graph(500, 6, 0.9, seed=2),
    "hubs": nx.barabasi_albert_graph(500, 2, seed=1),
}


def parts(name):
    graph = Graph.from_networkx(nx.convert_node_labels_to_integers(GRAPHS[name]))
    adjacency = graph.to_scipy()
    null = np.sqrt(adjacency.sum(axis=1) / adjacency.sum())
    return normalise(adjacency), null


@pytest.mark.parametrize("name", GRAPHS)
def test_equals_dense_eigenvalues(name):
    a_hat, null = parts(name)
    values, vectors = large_eigenpairs(a_hat, null, 32)
    expected = np.linalg.eigvalsh(a_hat.toarray() - 3 * np.outer(null, null))[-32:]
    np.testing.assert_allclose(values, expected, atol=1e-10)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(32), atol=1e-12)
    np.testing.assert_allclose(null @ vectors, 0, atol=1e-10)
    residuals = np.linalg.norm(a_hat @ vectors - vectors * values, axis=0)
    assert (residuals <= np.maximum(TOLERANCE * (1 - values), 1e-13)).all()


def test_nothing_is_returned_without_a_check(monkeypatch):
    """A vector that the process has lost is found by the fresh block of the check."""
    a_hat, null = parts("random")
    refresh, blocks = krylov._Space.refresh, []

    def lose_the_first(space):
        if blocks:  # converged: all but the leading vector stay
            lost = _leading(space)
            rest = space._basis[: space._num_kept]
            rest -= np.outer(rest @ lost, lost)
            rest[:] = np.linalg.svd(rest, full_matrices=False).Vh
            rest[-1] = -null  # has the lowest eigenvalue
            space._inner[: len(rest), : len(rest)] = rest @ space._polynomial(rest.T)
        refresh(space)
        blocks.append(space)

    monkeypatch.setattr(krylov._Space, "refresh", lose_the_first)
    values, _ = large_eigenpairs(a_hat, null, 4)
    assert len(blocks) >= 2
    expected = np.linalg.eigvalsh(a_hat.toarray() - 3 * np.outer(null, null))[-4:]
    np.testing.assert_allclose(values, expected, atol=1e-10)


def _leading(space):
    x = space._basis[: space._num_kept]
    _, vectors = np.linalg.eigh(x @ space._product(x.T))
    return vectors[:, -1] @ x


def test_lappe_of_a_large_component(monkeypatch):
    graph = Graph.from_networkx(nx.disjoint_union(GRAPHS["hubs"], nx.path_graph(5)))
    expected = laplacian_features(graph, num_columns=8)
    monkeypatch.setattr(laplacian, "_DENSE_NODES", 0)
    monkeypatch.setattr(laplacian, "_LARGE_NODES", 100)
    shares = []
    found = laplacian_features(graph, num_columns=8, on_progress=shares.append)
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, atol=1e-10)
    np.testing.assert_allclose(found.x, expected.x, atol=1e-4)
    assert (found.residuals <= 2 * TOLERANCE).all()
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_what_was_reached_is_returned(monkeypatch):
    monkeypatch.setattr(krylov, "_MAX_CYCLES", 1)
    a_hat, null = parts("path")
    values, vectors = large_eigenpairs(a_hat, null, 4)
    residuals = np.linalg.norm(a_hat @ vectors - vectors * values, axis=0)
    assert residuals.max() > TOLERANCE
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(4), atol=1e-12)


def test_two_computations_agree():
    a_hat, null = parts("random")
    first, second = (large_eigenpairs(a_hat, null, 4) for _ in range(2))
    np.testing.assert_array_equal(first[1], second[1])
