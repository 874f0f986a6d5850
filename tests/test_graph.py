"""Graph: cleaning, converters, operators and errors."""

from types import SimpleNamespace

import hypothesis.strategies as st
import jax
import jraph
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings

from dsf_jax import Graph
from dsf_jax.ops import a_hat, a_plus_i, a_tilde, l_hat
from tests import reference
from tests.graphs import GRAPHS


@st.composite
def edge_lists(draw):
    num_nodes = draw(st.integers(1, 9))
    node = st.integers(0, num_nodes - 1)
    return draw(st.lists(st.tuples(node, node), max_size=25)), num_nodes


@given(edge_lists())
@settings(deadline=None)
def test_cleaning_and_its_counts_match_sets(case):
    edges, num_nodes = case
    graph = Graph.from_edges(edges, num_nodes=num_nodes)

    ordered = {edge for edge in edges if edge[0] != edge[1]}
    undirected = {frozenset(edge) for edge in ordered}
    assert graph.num_edges == len(undirected)
    assert graph.cleaning.self_loops == sum(i == j for i, j in edges)
    assert graph.cleaning.duplicates == (
        len(edges) - graph.cleaning.self_loops - len(ordered)
    )
    assert graph.cleaning.mirrored == sum((j, i) not in ordered for i, j in ordered)

    entries = list(zip(graph.receivers.tolist(), graph.senders.tolist(), strict=True))
    assert entries == sorted(
        {(i, j) for i, j in ordered} | {(j, i) for i, j in ordered}
    )
    np.testing.assert_array_equal(
        graph.to_scipy().toarray(), reference.adjacency(edges, num_nodes)
    )


@given(edge_lists(), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_order_and_direction_of_edges_do_not_matter(case, random):
    edges, num_nodes = case
    shuffled = [random.choice([(i, j), (j, i)]) for i, j in edges]
    random.shuffle(shuffled)
    graph = Graph.from_edges(edges, num_nodes=num_nodes)
    other = Graph.from_edges(shuffled, num_nodes=num_nodes)
    for name in ("senders", "receivers", "weights"):
        np.testing.assert_array_equal(getattr(graph, name), getattr(other, name))


@given(edge_lists(), st.data())
@settings(deadline=None)
def test_operators_equal_dense_formulas(case, data):
    edges, num_nodes = case
    weights = data.draw(
        st.lists(st.floats(0.01, 10), min_size=len(edges), max_size=len(edges))
    )
    graph = Graph.from_edges(edges, num_nodes=num_nodes, weights=np.asarray(weights))
    a = reference.adjacency(edges, num_nodes, weights)
    hat = reference.a_hat(a)
    np.testing.assert_allclose(a_hat(graph).to_dense(), hat, atol=1e-14)
    np.testing.assert_allclose(
        a_tilde(graph).to_dense(), reference.a_tilde(a), atol=1e-14
    )
    np.testing.assert_allclose(
        a_plus_i(graph).to_dense(), reference.a_plus_i(a), atol=1e-14
    )
    np.testing.assert_allclose(
        l_hat(graph).to_dense(), np.eye(num_nodes) - hat, atol=1e-14
    )
    eigvals = np.linalg.eigvalsh(l_hat(graph).to_dense())
    assert eigvals.min() > -1e-12
    assert eigvals.max() < 2 + 1e-12


def test_isolated_nodes():
    graph = Graph.from_edges([(0, 1)], num_nodes=3)
    assert not a_hat(graph).to_dense()[2].any()
    assert a_tilde(graph).to_dense()[2].tolist() == [0, 0, 1]
    assert l_hat(graph).to_dense()[2].tolist() == [0, 0, 1]


def test_converters_agree(graph):
    dense = graph.to_scipy().toarray()
    pairs = np.stack([graph.senders, graph.receivers], axis=1)
    networkx = nx.from_scipy_sparse_array(graph.to_scipy())
    pyg = SimpleNamespace(
        edge_index=pairs.T, num_nodes=graph.num_nodes, edge_weight=graph.weights
    )
    for other in (
        Graph.from_edges(pairs, num_nodes=graph.num_nodes, weights=graph.weights),
        Graph.from_scipy(graph.to_scipy()),
        Graph.from_scipy(sp.coo_matrix(dense)),
        Graph.from_networkx(networkx),
        Graph.from_jraph(graph.to_jraph()),
        Graph.from_pyg(pyg),
    ):
        assert other.num_nodes == graph.num_nodes
        np.testing.assert_array_equal(other.to_scipy().toarray(), dense)


def test_networkx_directed_multigraph_with_names():
    source = nx.MultiDiGraph()
    source.add_nodes_from("cab")
    source.add_edges_from([("a", "b"), ("a", "b"), ("b", "a"), ("c", "c")])
    graph = Graph.from_networkx(source)
    assert graph.num_edges == 1
    assert [int(count) for count in graph.cleaning] == [1, 1, 0]
    assert graph.receivers.tolist() == [1, 2]  # "a" and "b" in the order of the nodes


def test_jraph_batch_is_one_disconnected_graph():
    one = GRAPHS["path"].to_jraph()
    both = jraph.batch_np([jax.tree.map(np.asarray, one)] * 2)
    graph = Graph.from_jraph(both)
    assert graph.num_nodes == 14
    assert graph.num_edges == 12
    plain = Graph.from_jraph(both._replace(edges=None))
    np.testing.assert_array_equal(plain.senders, graph.senders)


def test_boolean_matrix_and_stored_zeros():
    coo = sp.coo_array(([1.0, 0.0], ([0, 1], [1, 2])), shape=(3, 3))
    assert Graph.from_scipy(coo).num_edges == 1
    assert Graph.from_scipy(coo.astype(bool)).weights.tolist() == [1.0, 1.0]


def test_parallel_edges_take_the_largest_weight():
    graph = Graph.from_edges(
        [(0, 1), (1, 0), (0, 1)], num_nodes=2, weights=[1.0, 5.0, 2.0]
    )
    assert graph.weights.tolist() == [5.0, 5.0]


def test_graphs_of_equal_size_share_a_program():
    traces = 0

    @jax.jit
    def count(graph):
        nonlocal traces
        traces += 1
        return graph.weights.sum(), graph.cleaning.duplicates

    count(Graph.from_edges([(0, 1), (1, 2)], num_nodes=4))
    count(Graph.from_edges([(0, 3), (2, 1), (1, 2)], num_nodes=4))
    assert traces == 1


EDGES = [(0, 1), (1, 2)]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"edges": [(0, -1)]}, ValueError, ["edges", "[0, -1]", "[0, 3)", "num_nodes"]),
        ({"edges": [(0, 3)]}, ValueError, ["edges", "[0, 3]", "row 0", "renumber"]),
        ({"edges": [(0.0, 1.0)]}, TypeError, ["edges", "float64", "astype(int)"]),
        ({"edges": [(True, False)]}, TypeError, ["edges", "bool", "integers"]),
        ({"edges": [("a", "b")]}, TypeError, ["edges", "integers"]),
        ({"edges": [0, 1]}, ValueError, ["edges", "[M, 2]", "[2]", "csr_array"]),
        ({"edges": [(0, 1, 2)]}, ValueError, ["edges", "[M, 2]", "[1, 3]"]),
        ({"edges": [(0, 1), (2,)]}, ValueError, ["edges", "ragged", "(i, j)"]),
        ({"num_nodes": 0}, ValueError, ["num_nodes", "got 0", "at least one node"]),
        ({"num_nodes": -4}, ValueError, ["num_nodes", "-4"]),
        ({"num_nodes": 2**31}, ValueError, ["num_nodes", str(2**31)]),
        ({"num_nodes": 3.0}, TypeError, ["num_nodes", "3.0", "integer"]),
        ({"num_nodes": True}, TypeError, ["num_nodes", "True", "integer"]),
        ({"num_nodes": None}, TypeError, ["num_nodes", "None", "integer"]),
        ({"weights": [1.0, np.nan]}, ValueError, ["weights", "nan", "finite"]),
        ({"weights": [np.inf, 1.0]}, ValueError, ["weights", "inf", "finite"]),
        ({"weights": [1.0, 0.0]}, ValueError, ["weights", "0.0", "positive"]),
        ({"weights": [-1.0, 2.0]}, ValueError, ["weights", "-1.0", "positive"]),
        ({"weights": [1.0]}, ValueError, ["weights", "[2]", "[1]"]),
        ({"weights": [1j, 1.0]}, TypeError, ["weights", "complex"]),
    ],
)
def test_bad_input_names_argument_value_rule_and_remedy(arguments, error, words):
    from_edges = Graph.from_edges.__func__.__wrapped__  # without the annotation checks
    with pytest.raises(error) as caught:
        from_edges(Graph, **({"edges": EDGES, "num_nodes": 3} | arguments))
    for word in words:
        assert word in str(caught.value)


@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(-9, 15), st.integers(-9, 15)), min_size=1),
)
@settings(deadline=None)
def test_out_of_range_indices_never_pass(num_nodes, edges):
    is_valid = all(0 <= i < num_nodes and 0 <= j < num_nodes for i, j in edges)
    if is_valid:
        Graph.from_edges(edges, num_nodes=num_nodes)
    else:
        with pytest.raises(ValueError, match=r"edges must lie in"):
            Graph.from_edges(edges, num_nodes=num_nodes)


@pytest.mark.parametrize(
    ("convert", "error", "words"),
    [
        (lambda: Graph.from_scipy(np.eye(2)), TypeError, ["adjacency", "csr_array"]),
        (
            lambda: Graph.from_scipy(sp.csr_array((2, 3))),
            ValueError,
            ["adjacency", "square", "(2, 3)"],
        ),
        (
            lambda: Graph.from_pyg(SimpleNamespace(edge_index=EDGES * 2, num_nodes=3)),
            ValueError,
            ["edge_index", "[2, M]", "[4, 2]"],
        ),
        (
            lambda: Graph.from_networkx(nx.Graph()),
            ValueError,
            ["num_nodes", "got 0"],
        ),
        (
            lambda: Graph.from_jraph(
                GRAPHS["path"].to_jraph()._replace(edges=np.ones((12, 3)))
            ),
            ValueError,
            ["weights", "[12]", "[12, 3]"],
        ),
    ],
)
def test_converters_refuse_bad_input(convert, error, words):
    with pytest.raises(error) as caught:
        convert()
    for word in words:
        assert word in str(caught.value)
