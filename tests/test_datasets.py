"""`make_dataset`: a user's own graph in every form, and what it refuses."""

from pathlib import Path
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from dsf_jax import Graph, make_dataset
from dsf_jax.data import Split

EDGES = [(0, 1), (1, 2), (2, 2), (3, 1)]
FEATURES = np.asarray([[1.0, 3.0], [0.0, 0.0], [0.0, 2.0], [5.0, 0.0]])
LABELS = [0, 1, -1, 1]


def as_scipy():
    rows, columns = np.transpose(EDGES)
    return sp.coo_matrix((np.ones(4), (rows, columns)), shape=(4, 4))


def as_networkx():
    graph = nx.Graph()
    graph.add_nodes_from("abcd")
    graph.add_edges_from(("abcd"[i], "abcd"[j]) for i, j in EDGES)
    return graph


GRAPHS = {
    "pairs": EDGES,
    "array": np.asarray(EDGES),
    "Graph": Graph.from_edges(EDGES, num_nodes=4),
    "scipy": as_scipy(),
    "networkx": as_networkx(),
    "jraph": Graph.from_edges(EDGES, num_nodes=4).to_jraph(),
    "pyg": SimpleNamespace(edge_index=np.transpose(EDGES), num_nodes=4),
}


@pytest.mark.parametrize("form", GRAPHS)
def test_every_form_of_graph_gives_the_same_data_set(form):
    dataset = make_dataset(GRAPHS[form], FEATURES, LABELS, name="mine")
    expected = Graph.from_edges(EDGES, num_nodes=4).to_scipy().toarray()
    np.testing.assert_array_equal(dataset.graph.to_scipy().toarray(), expected)
    np.testing.assert_array_equal(dataset.features, FEATURES)
    assert dataset.features.dtype == np.float32
    assert dataset.labels.tolist() == LABELS
    assert (dataset.name, dataset.num_classes, dataset.digests) == ("mine", 2, {})


def test_object_with_x_and_y_needs_nothing_else():
    data = SimpleNamespace(
        edge_index=np.transpose(EDGES), num_nodes=4, x=FEATURES, y=np.asarray(LABELS)
    )
    dataset = make_dataset(data)
    np.testing.assert_array_equal(dataset.features, FEATURES)
    assert dataset.labels.tolist() == LABELS


MASKS = {"train": [1, 0, 0, 0], "val": [0, 1, 0, 0], "test": [0, 0, 0, 1]}
MASKS = {f"{part}_mask": np.asarray(mask, dtype=bool) for part, mask in MASKS.items()}


def test_masks_of_pytorch_geometric_are_taken():
    parts = {"x": FEATURES, "y": np.asarray(LABELS), **MASKS}
    shape = {"edge_index": np.transpose(EDGES), "num_nodes": 4}
    fixed = make_dataset(SimpleNamespace(**shape, **parts)).fixed
    np.testing.assert_array_equal(fixed, np.stack(list(MASKS.values()))[:, None])
    several = {
        name: np.stack([mask, mask[[1, 0, 2, 3]]], 1) for name, mask in MASKS.items()
    }
    dataset = make_dataset(SimpleNamespace(**shape, **(parts | several)))
    assert dataset.fixed.train.tolist() == [
        [True, *[False] * 3],
        [False, True, *[False] * 2],
    ]
    assert dataset.split_kind == "fixed"
    overlap = parts | {"val_mask": MASKS["train_mask"]}
    with pytest.raises(ValueError, match="masks must be disjoint, got 1 nodes"):
        make_dataset(SimpleNamespace(**shape, **overlap))


def test_nodes_of_jraph_are_taken():
    graph = GRAPHS["jraph"]
    dataset = make_dataset(graph._replace(nodes=FEATURES), labels=LABELS)
    np.testing.assert_array_equal(dataset.features, FEATURES)
    nodes = {"x": FEATURES, "y": np.asarray(LABELS), **MASKS}
    dataset = make_dataset(graph._replace(nodes=nodes))
    assert dataset.labels.tolist() == LABELS
    np.testing.assert_array_equal(dataset.fixed.val[0], MASKS["val_mask"])


def test_attributes_of_networkx_are_taken():
    graph, words = as_networkx(), ["cat", "dog", None, "dog"]
    for i, node in enumerate(graph):
        graph.nodes[node].update(
            x=FEATURES[i], y=words[i], split=("", "train", "", "val")[i]
        )
    dataset = make_dataset(graph)
    np.testing.assert_array_equal(dataset.features, FEATURES)
    assert dataset.labels.tolist() == LABELS
    assert dataset.class_names.tolist() == ["cat", "dog"]
    assert dataset.node_names.tolist() == list("abcd")
    assert dataset.fixed.val.tolist() == [[False, False, False, True]]
    for i, node in enumerate(graph):  # numbers, and one feature
        del graph.nodes[node]["split"]
        graph.nodes[node].update(x=float(i), y=None if i == 2 else LABELS[i])
    dataset = make_dataset(graph)
    assert dataset.labels.tolist() == LABELS
    assert dataset.class_names is None
    assert dataset.fixed is None
    assert dataset.features.tolist() == [[0], [1], [2], [3]]
    del graph.nodes["c"]["x"]
    with pytest.raises(ValueError, match="'x' must be on every node .* none on 'c'"):
        make_dataset(graph)


def test_words_are_classes_in_their_order():
    dataset = make_dataset(EDGES, FEATURES, ["10", "9", "", "10"])
    assert dataset.labels.tolist() == [1, 0, -1, 1]
    assert dataset.class_names.tolist() == ["9", "10"]
    assert make_dataset(EDGES, FEATURES, [True, False, True, None]).num_classes == 2


@pytest.mark.parametrize("path", ["graph.csv", Path("graph")])
def test_a_path_is_refused(path):
    with pytest.raises(TypeError, match=r"graph must be a graph .* 'graph.*read_data"):
        make_dataset(path, FEATURES, LABELS)


def test_rows_are_divided_by_their_sums_on_request():
    dataset = make_dataset(EDGES, FEATURES, LABELS, normalize_rows=True)
    expected = [[0.25, 0.75], [0, 0], [0, 1], [1, 0]]
    np.testing.assert_array_equal(dataset.features, expected)


def test_features_are_sparse_where_few_are_not_zero():
    eye = np.eye(10)
    labels = np.arange(10) % 2
    sparse = make_dataset([(0, 1)], eye, labels).features
    assert isinstance(sparse, sp.csr_array)
    np.testing.assert_array_equal(sparse.toarray(), eye)
    given = sp.csr_array(np.ones((10, 2)))
    dense = make_dataset([(0, 1)], given, labels).features
    assert isinstance(dense, np.ndarray)
    assert given.dtype == np.float64  # what was given is not touched


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"features": None}, TypeError, "features must be given, got None"),
        ({"labels": None}, TypeError, "labels must be given, got None"),
        ({"features": np.ones(4)}, ValueError, "shape .N, F. with F >= 1, got .4."),
        ({"features": np.ones((4, 0))}, ValueError, "with F >= 1"),
        ({"features": [["a"]] * 4}, TypeError, "features must be real numbers"),
        ({"features": FEATURES * [[np.nan, 1]]}, ValueError, "features must be finite"),
        ({"features": np.ones((3, 2))}, ValueError, "edges must lie in"),
        ({"labels": [0, 1]}, ValueError, "labels must have shape .4."),
        ({"labels": [0.5, 1, 0, 1]}, TypeError, "labels must be words or integers"),
        ({"labels": [0, 5, 0, 5]}, ValueError, "got 0..5 for 4 nodes"),
        ({"labels": [0, 2, 0, 2]}, ValueError, "got none of class 1; numpy.unique"),
        ({"labels": ["a", "a", "", None]}, ValueError, "at least two classes"),
        ({"metric": "auc"}, ValueError, "metric must be one of accuracy, roc_auc"),
        ({"labels": [0, 0, 0, 0]}, ValueError, "at least two classes, got 0 alone"),
        ({"labels": [1, 1, -1, 1]}, ValueError, "at least two classes, got 1 alone"),
        ({"labels": [-1] * 4}, ValueError, "two classes, got no labelled node"),
        ({"labels": [0, 1, 10**12, 1]}, ValueError, "got 0..1000000000000 for 4 nodes"),
        ({"labels": [0, 1, -2, 0]}, ValueError, "got -2..1"),
        ({"labels": [0, 1, 2, 0], "metric": "roc_auc"}, ValueError, "for 3 classes"),
        (
            {"fixed": Split(*np.ones((3, 1, 5), dtype=bool))},
            ValueError,
            "fixed.train must be boolean .S, 4.",
        ),
    ],
)
def test_unfit_input_is_refused(arguments, error, message):
    given = {"features": FEATURES, "labels": LABELS, **arguments}
    with pytest.raises(error, match=message):
        make_dataset(EDGES, **given)


def test_graph_of_another_size_is_refused():
    graph = Graph.from_edges(EDGES, num_nodes=5)
    with pytest.raises(ValueError, match="4 rows for 5 nodes"):
        make_dataset(graph, FEATURES, LABELS)
