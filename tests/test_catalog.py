"""Data sets by name: made-up files here, facts of the real ones where they are."""

import hashlib
import json

import numpy as np
import pytest
import scipy.sparse as sp

from dsf_jax import DATASETS, load_dataset
from dsf_jax.data import files
from dsf_jax.data.catalog import CATALOG
from tests.graphs import real_dataset
from tests.test_formats import GEOM_GCN, NPZ

# nodes, undirected edges without loops, features, class sizes
REAL = {
    "chameleon": (2277, 31_371, 2325, [456, 460, 453, 521, 387]),
    "squirrel": (5201, 198_353, 2089, [1042, 1040, 1039, 1040, 1040]),
    "wisconsin": (251, 450, 1703, [10, 70, 118, 32, 21]),
    "cornell": (183, 277, 1703, [33, 1, 18, 101, 30]),
    "texas": (183, 279, 1703, [33, 1, 18, 101, 30]),
    "twitch-de": (9498, 153_138, 2514, [3756, 5742]),
    "cora": (2708, 5278, 1433, [351, 217, 418, 818, 426, 298, 180]),
    "citeseer": (3327, 4552, 3703, [249, 590, 668, 701, 596, 508]),
    "pubmed": (19717, 44_324, 500, [4103, 7739, 7875]),
    "computers": (
        *(13752, 245_861, 767),
        [436, 2142, 1414, 542, 5158, 308, 487, 818, 2156, 291],
    ),
    "photo": (7650, 119_081, 745, [369, 1686, 703, 915, 882, 823, 1941, 331]),
    "cornell-fixed": (183, 277, 1703, [38, 16, 30, 82, 17]),
    "chameleon-filtered": (890, 8854, 2325, [242, 134, 209, 164, 141]),
    "squirrel-filtered": (2223, 46_998, 2089, [756, 516, 397, 321, 233]),
    "actor": (7600, 26_659, 932, [853, 1337, 1630, 1815, 1965]),
    "minesweeper": (10000, 39_402, 7, [8000, 2000]),
    "tolokers": (11758, 519_000, 10, [9192, 2566]),
}
RAW = {"twitch-de", "computers", "photo", "minesweeper", "tolokers"}
BINARY = {"twitch-de", "minesweeper", "tolokers"}


@pytest.mark.data
@pytest.mark.parametrize("name", REAL)
def test_real_data_set(name):
    num_nodes, num_edges, num_features, class_sizes = REAL[name]
    dataset = real_dataset(name)
    assert dataset.name == name
    assert dataset.graph.num_nodes == num_nodes
    assert dataset.graph.num_edges == num_edges
    assert dataset.features.shape == (num_nodes, num_features)
    shipped = (num_nodes, num_edges, num_features, len(class_sizes))
    assert CATALOG[name].sizes == shipped
    assert dataset.features.dtype == np.float32
    known = dataset.labels[dataset.labels >= 0]
    assert np.bincount(known).tolist() == class_sizes
    assert num_nodes - len(known) == (15 if name == "citeseer" else 0)
    assert dataset.metric == ("roc_auc" if name in BINARY else "accuracy")
    sums = dataset.features.sum(axis=1, dtype=np.float64)
    assert np.allclose(sums[sums > 0], 1) or name in RAW
    assert all(source.url.startswith("https://") for source in dataset.sources)
    if dataset.fixed:
        overlap = np.sum([mask.astype(int) for mask in dataset.fixed], axis=0)
        assert overlap.max() == 1


@pytest.mark.data
def test_scaling_of_real_features():
    raw = load_dataset("cora", scaling="raw").features
    assert set(np.unique(raw.data)) == {1.0}
    photo = load_dataset("photo", scaling="rows").features
    np.testing.assert_allclose(photo.sum(axis=1)[photo.any(axis=1)], 1, rtol=1e-5)


@pytest.mark.data
def test_cornell_carries_the_features_and_labels_of_texas():
    cornell, texas = real_dataset("cornell"), real_dataset("texas")
    np.testing.assert_array_equal(cornell.labels, texas.labels)
    assert "cornell-fixed" in cornell.note
    assert not np.array_equal(cornell.labels, real_dataset("cornell-fixed").labels)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "sizes"), [("cora", [140, 500, 1000]), ("citeseer", [120, 500, 1000])]
)
def test_public_split(name, sizes):
    dataset = real_dataset(name)
    assert [int(mask.sum()) for mask in dataset.fixed] == sizes
    train = dataset.labels[dataset.fixed.train[0]]
    assert set(np.bincount(train)) == {20}


@pytest.mark.data
def test_shipped_manifest_is_the_one_beside_the_data():
    listed = json.loads((files.data_folder() / "MANIFEST.json").read_text())
    shipped = {
        name: [entry._asdict() for entry in entries]
        for name, entries in files.manifest().items()
    }
    assert shipped.keys() == listed.keys()
    for name, entries in listed.items():
        for ours, theirs in zip(shipped[name], entries, strict=True):
            assert theirs.items() <= ours.items()


def test_every_listed_data_set_has_a_recipe():
    assert set(CATALOG) == set(files.manifest())
    assert (*CATALOG, "regions", "csbm") == DATASETS


@pytest.fixture
def fake_data(tmp_path, monkeypatch):
    """A folder with a small `texas` and `chameleon`, and a manifest that fits."""
    contents = {"texas": GEOM_GCN, "chameleon": NPZ}
    listed = {}
    for name, parts in contents.items():
        (tmp_path / "with spaces" / name).mkdir(parents=True)
        listed[name] = []
        for file, content in parts.items():
            (tmp_path / "with spaces" / name / file).write_bytes(content)
            digest = hashlib.sha256(content).hexdigest()
            url = f"http://127.0.0.1:9/{file}"
            listed[name].append(files.File(file=file, sha256=digest, url=url))
    monkeypatch.setattr("dsf_jax.data.files.manifest", lambda: listed)
    monkeypatch.setattr("dsf_jax.data.catalog.manifest", lambda: listed)
    monkeypatch.setenv(files.DATA_VARIABLE, str(tmp_path / "with spaces"))
    return tmp_path / "with spaces"


def test_files_become_a_data_set_with_its_origin(fake_data):
    dataset = load_dataset("texas")
    expected = [[0.5, 0, 0.5], [0, 0, 0], [0, 1, 0]]
    np.testing.assert_array_equal(dataset.features, expected)
    assert {source.file for source in dataset.sources} == set(GEOM_GCN)
    for file, digest in dataset.digests.items():
        assert digest == hashlib.sha256(GEOM_GCN[file]).hexdigest()


@pytest.mark.parametrize(
    ("scaling", "row"), [("authors", [0.5, 0.5]), ("rows", [0.5, 0.5]), ("raw", [2, 2])]
)
def test_scaling(fake_data, scaling, row):
    dataset = load_dataset("chameleon", scaling=scaling)
    features = dataset.features
    dense = features.toarray() if sp.issparse(features) else features
    assert dense[0].tolist() == row
    assert dataset.fixed.train.shape == (2, 3)


def test_altered_file_is_refused(fake_data):
    path = fake_data / "texas" / "out1_graph_edges.txt"
    path.write_text(path.read_text() + "0\t2\n")
    with pytest.raises(ValueError, match="must have SHA-256 .* got .* replace it by"):
        load_dataset("texas")


def test_missing_file_without_network_says_what_to_put_where(fake_data):
    path = fake_data / "texas" / "out1_graph_edges.txt"
    path.unlink()
    with pytest.raises(FileNotFoundError) as caught:
        load_dataset("texas")
    assert str(path) in str(caught.value)
    assert "http://127.0.0.1:9/out1_graph_edges.txt" in str(caught.value)


def test_unknown_scaling_is_refused():
    with pytest.raises(ValueError, match="scaling must be one of authors, rows, raw"):
        load_dataset("regions", scaling="columns")
