"""Eigenspaces against closed forms and dense eigenvectors; the ratio of frequencies."""

import networkx as nx
import numpy as np
import pytest

from dsf_jax import Graph
from dsf_jax.graph.spectrum import (
    MAX_NODES,
    Eigenspace,
    eigenspaces,
    frequency_ratios,
    ratio_spread,
    representative_spaces,
)
from dsf_jax.ops import l_hat
from tests.graphs import GRAPHS, real_dataset


def connected():
    return Graph.from_networkx(nx.connected_watts_strogatz_graph(30, 4, 0.3, seed=0))


def test_spaces_decompose_the_laplacian(graph):
    spaces = eigenspaces(graph)
    assert sum(space.multiplicity for space in spaces) == graph.num_nodes
    assert np.all(np.diff([space.eigval for space in spaces]) > 0)
    rebuilt = sum(space.eigval * space.vectors @ space.vectors.T for space in spaces)
    np.testing.assert_allclose(rebuilt, l_hat(graph).to_dense(), atol=1e-12)


def test_multiplicities_of_a_hypercube():
    cube = Graph.from_networkx(nx.hypercube_graph(4))
    found = [(round(s.eigval, 9), s.multiplicity) for s in eigenspaces(cube)]
    assert found == [(0, 1), (0.5, 4), (1, 6), (1.5, 4), (2, 1)]


def test_representatives_are_low_middle_and_high():
    spaces = [
        Eigenspace(v, np.zeros((9, m))) for v, m in [(0, 2), (0.3, 1), (1, 4), (2, 2)]
    ]
    chosen = representative_spaces(spaces)
    assert [chosen[name].eigval for name in ("low", "middle", "high")] == [0.3, 1, 2]
    # rank N // 2 by counting copies, not different values
    uneven = [Eigenspace(v, np.zeros((9, m))) for v, m in [(0, 1), (0.3, 5), (1, 3)]]
    assert representative_spaces(uneven)["middle"].eigval == 0.3


def test_ratios_are_shares_and_reach_one():
    graph = connected()
    positive = eigenspaces(graph)[1:]
    for hops in (1, 2):
        ratios = frequency_ratios(graph, positive, hops=hops)
        assert ratios.min() >= 0
        assert ratios.max() <= 1 + 1e-12
    np.testing.assert_allclose(frequency_ratios(graph, positive, hops=30), 1)


def test_the_ratio_of_the_paper_is_not_constant():
    graph = connected()
    spread = ratio_spread(graph, eigenspaces(graph), hops=1)
    assert 0 <= spread.smallest < spread.median < spread.largest <= 1
    assert spread.linear < spread.fit < 1  # more parameters, and still not exact


def test_a_constant_ratio_is_fitted_exactly():
    graph = connected()
    spread = ratio_spread(graph, eigenspaces(graph), hops=30)
    np.testing.assert_allclose([spread.linear, spread.fit, spread.smallest], 1)
    assert spread.zeros == 0


def test_the_ratio_may_be_zero():
    graph = GRAPHS["disconnected"]  # a vector on one component is 0 on the others
    spaces = eigenspaces(graph)
    assert ratio_spread(graph, spaces, hops=3).zeros > 0


def test_too_many_nodes_are_refused():
    with pytest.raises(ValueError, match=r"at most 10,000 nodes .* got 10,001"):
        eigenspaces(Graph.from_edges([], num_nodes=MAX_NODES + 1))


@pytest.mark.data
@pytest.mark.slow
def test_chameleon_has_a_large_middle_eigenspace():
    spaces = eigenspaces(real_dataset("chameleon").graph)
    middle = representative_spaces(spaces)["middle"]
    assert middle.multiplicity == 1137
    assert abs(middle.eigval - 1) < 1e-9
