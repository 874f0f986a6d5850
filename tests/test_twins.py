"""Nodes with the same neighbours are joined, and only they; products stay the same."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

from dsf_jax import Graph, load_dataset
from dsf_jax.ops import a_hat, a_tilde, l_hat, propagate
from dsf_jax.ops import operator as sparse_module
from dsf_jax.ops.kernels import find_twins, multiply_twins


def num_groups(twins):
    return twins.between.indptr.shape[0] - 1


def naive_groups(matrix):
    """Pairs of nodes whose rows off the diagonal are proportional, one by one."""
    off = matrix - np.diag(np.diag(matrix))
    units = [row / (np.linalg.norm(row) or 1.0) for row in off]
    groups = []
    for unit in units:
        if not any(np.allclose(unit, other, atol=1e-10) for other in groups):
            groups.append(unit)
    return len(groups)


def bipartite(left, right):
    """Every node of one side with every node of the other: two groups of twins."""
    edges = [(i, left + j) for i in range(left) for j in range(right)]
    return Graph.from_edges(edges, num_nodes=left + right)


@pytest.mark.parametrize("build", [a_hat, a_tilde, l_hat])
def test_two_sides_are_two_groups(build, rng):
    op = build(bipartite(4, 6), kernel="twins")
    assert num_groups(op.twins) == 2
    assert op.twins.between.values.shape == (2,)
    x = jnp.asarray(rng.normal(size=(10, 3)))
    np.testing.assert_allclose(propagate(op, x), op.to_dense() @ x, atol=1e-14)


def test_groups_of_random_symmetric_matrices(rng):
    for share in (0.1, 0.3, 0.6):
        base = np.where(rng.random((8, 8)) < share, rng.normal(size=(8, 8)), 0.0)
        base = np.triu(base, 1)
        member = rng.integers(8, size=30)  # twins of up to eight kinds
        lengths = rng.uniform(0.5, 2.0, size=30) * rng.choice([1.0, 3.0], size=30)
        matrix = np.outer(lengths, lengths) * (base + base.T)[member][:, member]
        matrix += np.diag(rng.normal(size=30))
        twins = find_twins(sp.csr_array(matrix))
        assert num_groups(twins) == naive_groups(matrix) <= 8
        x = rng.normal(size=(30, 5))
        np.testing.assert_allclose(
            multiply_twins(twins, jnp.asarray(x)), matrix @ x, atol=1e-12
        )


def test_equal_neighbours_with_other_weights_are_no_twins(rng):
    edges = [(0, 2), (0, 3), (1, 2), (1, 3)]
    matrix = np.zeros((4, 4))
    for (i, j), weight in zip(edges, (1.0, 2.0, 2.0, 1.0), strict=True):
        matrix[i, j] = matrix[j, i] = weight
    twins = find_twins(sp.csr_array(matrix))
    assert num_groups(twins) == 4
    x = rng.normal(size=(4, 2))
    np.testing.assert_allclose(
        multiply_twins(twins, jnp.asarray(x)), matrix @ x, atol=1e-14
    )


def test_linked_nodes_with_the_same_other_neighbours_are_no_twins():
    triangle = a_tilde(Graph.from_edges([(0, 1), (1, 2), (2, 0)], num_nodes=3))
    assert num_groups(find_twins(triangle.to_scipy())) == 3


def test_auto_takes_twins_where_they_save_a_quarter(rng, monkeypatch):
    edges = rng.integers(30, size=(100, 2))
    copies = [edges + 30 * np.asarray([i, j]) for i in range(5) for j in range(5)]
    redundant = Graph.from_edges(np.concatenate(copies), num_nodes=150)
    assert a_tilde(redundant).kernel == "twins"
    assert a_tilde(redundant, kernel="csr").kernel == "csr"
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    assert a_tilde(redundant).kernel == "dense"  # not measured there
    monkeypatch.undo()
    ring = Graph.from_edges([(i, (i + 1) % 50) for i in range(50)], num_nodes=50)
    assert a_tilde(ring).kernel == "csr"


@pytest.mark.parametrize(("num_entries", "kernel"), [(74, "twins"), (75, "csr")])
def test_the_share_that_auto_asks_for(num_entries, kernel, monkeypatch):
    found = SimpleNamespace(num_entries=num_entries)
    monkeypatch.setattr(sparse_module, "find_twins", lambda matrix: found)
    ring = Graph.from_edges([(i, (i + 1) % 50) for i in range(50)], num_nodes=50)
    assert a_hat(ring).weights.shape == (100,)
    assert a_hat(ring).kernel == kernel


@pytest.mark.data
def test_chameleon_has_as_many_as_the_docs_say():
    op = a_tilde(load_dataset("chameleon").graph)
    assert op.kernel == "twins"
    assert op.weights.shape == (65_019,)
    assert num_groups(op.twins) == 1_223
    assert op.twins.between.values.shape == (29_104,)
