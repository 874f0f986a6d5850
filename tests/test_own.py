"""Your own graph from files: every form gives the same, every mistake one line."""

import sys

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import dsf_jax as dsf
from dsf_jax.data.tables import Places, read_edges

# nodes 0..3 with two features; labels in words; one node unknown; a loop, a repetition
PAIRS = np.asarray([(0, 1), (1, 2), (2, 2), (1, 0), (3, 1)])
X = np.asarray([[1.0, 0.5], [0.0, 2.0], [3.0, 0.0], [0.25, 4.0]])
LABELS = ["cat", "dog", "", "dog"]
SPLIT = ["train", "val", "", "test"]
NAMES = ["ann", "bob", "cy", "dee"]


def lines(*rows, separator=","):
    return "".join(separator.join(map(str, row)) + "\n" for row in rows)


def named(names, separator=",", header=None):
    pairs = [(names[i], names[j]) for i, j in PAIRS]
    return lines(*([header] if header else []), *pairs, separator=separator)


def table(names, separator=","):
    header = ("who", "age", "label", "split", "size")
    rows = zip(names, X[:, 0], LABELS, SPLIT, X[:, 1], strict=True)
    return lines(header, *rows, separator=separator)


def features(names, header=True):
    return lines(*([("who", "age", "size")] * header), *zip(names, *X.T, strict=True))


def labels(names, header=True):
    rows = [r for r in zip(names, LABELS, SPLIT, strict=True) if r[1]]
    return lines(*([("who", "label", "split")] * header), *rows[::-1])


NUMBERS = ["7", "30", "2", "11"]
TEXTS = {
    "words": {"edges.csv": named(NAMES), "nodes.csv": table(NAMES)},
    "header": {
        "edges.csv": named(NAMES, header=("from", "to")),
        "nodes.csv": table(NAMES),
    },
    "numbers": {"edges.csv": named(NUMBERS), "nodes.csv": table(NUMBERS)},
    "numbers with a header": {
        "edges.tsv": named(NUMBERS, "\t", ("a", "b")),
        "nodes.tsv": table(NUMBERS, "\t"),
    },
    "blanks and comments": {
        "edges.txt": "# from\n% the web\n" + named(NUMBERS, " "),
        "nodes.csv": table(NUMBERS),
    },
    "semicolons": {
        "edges.csv": named(NAMES, ";"),
        "nodes.csv": "\ufeff" + table(NAMES, ";"),
    },
    "quotes, empty lines and blanks": {
        "edges.csv": '"a, b", bob\nbob,cy\n\ncy,cy\nbob,"a, b"\ndee,bob',
        "nodes.csv": table(['"a, b"', *NAMES[1:]]).replace("\n", "\r\n"),
    },
    "three tables": {
        "edges.csv": named(NAMES),
        "features.csv": features(NAMES),
        "labels.csv": labels(NAMES),
    },
    "three tables without headers": {
        "edges.csv": named(NUMBERS),
        "features.csv": features(NUMBERS, header=False),
        "labels.csv": labels(NUMBERS, header=False),
    },
}


def write(folder, files):
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def check(dataset, split=True):
    expected = dsf.Graph.from_edges(PAIRS, num_nodes=4)
    np.testing.assert_array_equal(
        dataset.graph.to_scipy().toarray(), expected.to_scipy().toarray()
    )
    np.testing.assert_array_equal(dataset.features, X)
    assert dataset.labels.tolist() == [0, 1, -1, 1]
    assert dataset.class_names.tolist() == ["cat", "dog"]
    if not split:
        assert dataset.fixed is None
        return
    assert dataset.split_kind == "fixed"
    for part in ("train", "val", "test"):
        mask = getattr(dataset.fixed, part)
        np.testing.assert_array_equal(mask[0], np.asarray(SPLIT) == part)


@pytest.mark.parametrize("form", TEXTS)
def test_tables(form, tmp_path):
    dataset = dsf.read_dataset(write(tmp_path, TEXTS[form]))
    check(dataset)
    assert dataset.name == tmp_path.name
    assert int(dataset.graph.cleaning.self_loops) == 1
    assert dataset.node_names.tolist()[1:] in (NAMES[1:], NUMBERS[1:])


ARRAYS = {"edges": PAIRS, "features": X, "labels": np.asarray(LABELS)}
MASKS = {f"{p}_mask": np.asarray(SPLIT) == p for p in ("train", "val", "test")}


def test_npz_in_three_dialects(tmp_path):
    np.savez(tmp_path / "plain.npz", **ARRAYS, **MASKS)
    check(dsf.read_dataset(tmp_path / "plain.npz"))
    np.savez(tmp_path / "pyg.npz", edge_index=PAIRS.T, x=X, y=LABELS, **MASKS)
    check(dsf.read_dataset(tmp_path / "pyg.npz"))
    masks = {f"{name}s": mask[None] for name, mask in MASKS.items()}
    numbers = np.asarray([0, 5, -1, 5])
    parts = {"node_features": X, "node_labels": numbers}
    np.savez(tmp_path / "cora.npz", edges=PAIRS, **parts, **masks)
    dataset = dsf.read_dataset(tmp_path / "cora.npz")
    assert dataset.class_names.tolist() == ["0", "5"]  # two classes, not six
    assert dataset.node_names is None
    assert dataset.name == "own-cora"  # not the settings of that one
    check(dataset._replace(class_names=np.asarray(["cat", "dog"])))


def test_arrays_in_a_folder(tmp_path):
    for name, values in (ARRAYS | MASKS).items():
        np.save(tmp_path / f"{name}.npy", values)
    check(dsf.read_dataset(tmp_path))
    for name in ("edges", "features", *MASKS):
        (tmp_path / f"{name}.npy").unlink()
    adjacency = dsf.Graph.from_edges(PAIRS, num_nodes=4).to_scipy()
    sp.save_npz(tmp_path / "edges.npz", adjacency)
    sp.save_npz(tmp_path / "features.npz", sp.csr_array(X))
    check(dsf.read_dataset(tmp_path), split=False)


def as_networkx():
    graph = nx.Graph()
    rows = zip(NAMES, X, LABELS, SPLIT, strict=True)
    for name, x, label, split in rows:
        words = {"label": label, "split": split} if label else {}
        graph.add_node(name, age=float(x[0]), size=float(x[1]), **words)
    graph.add_edges_from((NAMES[i], NAMES[j]) for i, j in PAIRS)
    return graph


def test_networkx_files(tmp_path):
    graph = as_networkx()
    nx.write_graphml(graph, tmp_path / "own.graphml")
    dataset = dsf.read_dataset(tmp_path / "own.graphml")
    check(dataset)
    assert dataset.node_names.tolist() == NAMES
    nx.write_edgelist(graph, tmp_path / "edges.edgelist")
    write(tmp_path, {"nodes.csv": table(NAMES)})
    check(dsf.read_dataset(tmp_path))
    (tmp_path / "own.graphml").write_text("<graphml")
    with pytest.raises(ValueError, match="own.graphml must be GraphML, got something"):
        dsf.read_dataset(tmp_path / "own.graphml")


def test_networkx_is_optional(tmp_path, monkeypatch):
    (tmp_path / "own.graphml").write_text("")
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ValueError, match="run python -m pip install networkx"):
        dsf.read_dataset(tmp_path / "own.graphml")


@pytest.mark.parametrize("names", [NAMES, NUMBERS])
def test_weights_are_the_third_column(names, tmp_path):
    text = lines(
        ("a", "b", "weight"), (names[0], names[1], 0.5), (names[1], names[2], 2)
    )
    dataset = dsf.read_dataset(
        write(tmp_path, {"edges.csv": text, "nodes.csv": table(names)})
    )
    weights = dataset.graph.to_scipy().toarray()
    assert (weights[0, 1], weights[2, 1], weights.sum()) == (0.5, 2.0, 5.0)


def test_numbers_and_words_are_read_alike(tmp_path, rng):
    """The quick parser and the careful one, on the same list."""
    names, pairs = rng.permutation(500)[:100], rng.integers(0, 100, size=(400, 2))
    file = tmp_path / "edges.csv"
    file.write_text(lines(*names[pairs]))
    quick = read_edges(file, Places(names.astype(str), 100, "nodes.csv"))
    np.testing.assert_array_equal(quick.places, pairs)
    words = np.char.add("n", names.astype(str))
    file.write_text(lines(*words[pairs]))
    careful = read_edges(file, Places(words, 100, "nodes.csv"))
    np.testing.assert_array_equal(careful.places, pairs)


GOOD = TEXTS["numbers"]
NODES, EDGES = "nodes.csv", "edges.csv"
MISTAKES = [
    ({EDGES: "7,30\n7,99\n"}, "edges.csv, line 2: an edge must join nodes of nodes"
     ".csv, got '99'; add the node there or remove the edge."),
    ({EDGES: "a,b\n7,30\n\n7,x\n"}, "edges.csv, line 4: an edge must join"),
    ({EDGES: "7,30\n7\n"}, "line 2: a line must have 2 fields as the first one, got 1"),
    ({EDGES: "7,30,1,1\n"}, "line 1: a line must have two nodes and perhaps a weight"),
    ({EDGES: "a,b,time\n7,30,1\n"}, "got ['a', 'b', 'time']; remove other columns"),
    ({EDGES: "7,30,x\n"}, "line 1: column 'weight' must hold finite numbers, got 'x'"),
    ({EDGES: "7,30,-2\n"}, "weights must be finite and positive, got -2.0"),
    ({EDGES: "7.5,30\n7,30\n"}, "an edge must join nodes of nodes.csv, got '7.5'"),
    ({EDGES: "99,98\n7,30\n"}, "line 1: an edge must join nodes of nodes.csv, got"),
    ({EDGES: '7,"30\n'}, "fields must be plain or quoted"),
    ({NODES: ""}, "nodes.csv, line 1: the header must have a column 'label'"),
    ({NODES: "who,label,x\n"}, "nodes.csv must list the nodes, got none; write a line"),
    ({NODES: "who,x\n7,1\n"}, "the header must have a column 'label' behind that of"),
    ({NODES: "who,label\n7,1\n"}, "nodes.csv must have a column of features, got"),
    ({NODES: "who,label,x\n7,a,1\n30,b\n"}, "line 3: a line must have 3 fields as the"),
    ({NODES: "who,label,x\n7,a,1\n30,b,\n"}, "line 3: column 'x' must hold finite nu"),
    ({NODES: "who,label,x\n7,a,1\n30,b,red\n"}, "got 'red'; fill gaps, and give words"),
    ({NODES: "who,label,x\n7,a,nan\n"}, "line 2: column 'x' must hold finite numbers"),
    ({NODES: "who,label,x\n7,a,1\n7,b,1\n"}, "line 3: a node must be listed once, got "
     "'7' as in line 2"),
    ({NODES: "who,label,x\n7,a,1\n30,,1\n", EDGES: ""}, "labels must have at least two "
     "classes, got ['', 'a']; nothing and -1 mean unknown"),
    ({NODES: "who,label,split,x\n7,a,train,1\n30,b,exam,1\n", EDGES: ""}, "split must "
     "be train, val, test or nothing, got 'exam' at node 1"),
    ({NODES: "who,label,split,x\n7,a,train,1\n30,b,test,1\n", EDGES: ""}, "masks must "
     "not be empty, got no node in val"),
    ({NODES: "who,label,split,x\n7,a,train,1\n30,b,val,1\n2,,val,1\n", EDGES: ""},
     "masks must hold labelled nodes only, got val with 1"),
    ({"edges.tsv": "7\t30\n"}, "must have one file edges, got edges.csv and edges.tsv"),
]  # fmt: skip
PARTS = {
    EDGES: named(NUMBERS),
    "features.csv": features(NUMBERS),
    "labels.csv": labels(NUMBERS),
}
MISTAKES_OF_PARTS = [
    ({"labels.csv": "7,a\n99,b\n"}, "labels.csv, line 2: a node must be one of features"
     ".csv, got '99'; remove the line."),
    ({"labels.csv": "7,a\n7,b\n"}, "line 2: a node must be listed once, got '7'"),
    ({"labels.csv": "7,a,val,3\n"}, "line 1: a line must have a node, its label and"),
    ({"labels.csv": None}, "must have a file labels.csv or labels.tsv or labels.txt or "
     "labels.npy, got edges.csv, features.csv; the least is edges.csv and nodes.csv"),
    ({"features.csv": "1.5,2\n1.5,3\n"}, "the first column names the nodes"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("good", "change", "message"),
    [(GOOD, *row) for row in MISTAKES] + [(PARTS, *row) for row in MISTAKES_OF_PARTS],
)
def test_mistakes_are_one_line(good, change, message, tmp_path):
    files = {name: text for name, text in (good | change).items() if text is not None}
    with pytest.raises(ValueError, match="must") as caught:
        dsf.read_dataset(write(tmp_path, files))
    assert message in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_files_that_are_none(tmp_path):
    def refused(path, message):
        with pytest.raises(ValueError, match=message):
            dsf.read_dataset(path)

    refused(tmp_path / "absent", "'.*absent', which does not exist; a folder holds")
    refused(tmp_path, "must have a file edges.csv .* got an empty folder")
    file = tmp_path / "x.npz"
    file.write_bytes(b"damaged")
    refused(file, "x.npz must be a file of numpy.savez without objects, got something")
    np.savez(file, edges=PAIRS, labels=LABELS)
    refused(
        file, "must have an array features or node_features or x, got edges, labels"
    )
    np.savez(file, edges=np.asarray([None, "rm"]), labels=LABELS, features=X)
    refused(file, "without objects, got something else .ValueError: Object arrays")
    np.savez(file, edges=PAIRS + 9, labels=LABELS, features=X)
    refused(file, r"x.npz: edges must lie in \[0, 4\), got \[9, 10\] in row 0")
    np.savez(file, edges=PAIRS, labels=LABELS[:3], features=X)
    refused(file, "x.npz: ")
    write(tmp_path, {"edges.csv": "0,1"})
    refused(tmp_path / "edges.csv", "end in .npz or .graphml, got .*; name the folder")
    (tmp_path / "nodes.csv").write_bytes(b"who,label,x\n\xff\xfe,a,1\n")
    refused(tmp_path, "nodes.csv must be UTF-8 text, got other bytes after line")
