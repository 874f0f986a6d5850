"""Loaders and the stratified split, on made-up files and on the real ones."""

import hashlib
import json
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from dsf_jax import datasets as datasets_module
from dsf_jax import load_dataset, stratified_split

# facts of the raw files: nodes, undirected edges, features, class sizes, loops
REAL = {
    "chameleon": (2277, 31_371, 2325, [456, 460, 453, 521, 387], 0),
    "squirrel": (5201, 198_353, 2089, [1042, 1040, 1039, 1040, 1040], 0),
    "texas": (183, 279, 1703, [33, 1, 18, 101, 30], 16),
}


@pytest.mark.data
@pytest.mark.parametrize("name", REAL)
def test_real_data_set(name):
    num_nodes, num_edges, num_features, class_sizes, loops = REAL[name]
    dataset = load_dataset(name)
    assert dataset.graph.num_nodes == num_nodes
    assert dataset.graph.num_edges == num_edges
    assert dataset.graph.cleaning.self_loops == loops
    assert dataset.features.shape == (num_nodes, num_features)
    assert dataset.features.dtype == np.float32
    assert dataset.num_classes == len(class_sizes)
    assert np.bincount(dataset.labels).tolist() == class_sizes
    sums = dataset.features.sum(axis=1)
    assert np.all(np.isclose(sums, 1) | (sums == 0))


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("chameleon", (1364, 454, 459)),
        ("squirrel", (3120, 1039, 1042)),
        ("texas", (107, 35, 41)),
    ],
)
def test_real_split_sizes(name, sizes):
    split = stratified_split(load_dataset(name).labels, seed=0)
    assert tuple(int(mask.sum()) for mask in split) == sizes


@pytest.mark.data
def test_texas_class_of_one_node_is_always_tested():
    labels = load_dataset("texas").labels
    (lonely,) = np.flatnonzero(labels == 1)
    assert all(stratified_split(labels, seed=seed).test[lonely] for seed in range(5))


@given(
    st.lists(st.integers(-1, 4), min_size=1, max_size=60),
    st.integers(0, 2**32),
)
@settings(deadline=None)
def test_split_follows_the_rule_class_by_class(labels, seed):
    labels = np.asarray(labels)
    sizes = np.bincount(labels[labels >= 0], minlength=1)
    if sizes.max() < 5:
        with pytest.raises(ValueError, match="labels must have a class of at least 5"):
            stratified_split(labels, seed=seed)
        return
    split = stratified_split(labels, seed=seed)
    np.testing.assert_array_equal(np.sum(split, axis=0), labels >= 0)
    for label, size in enumerate(sizes):
        of_class = labels == label
        assert (split.train & of_class).sum() == int(np.floor(size * 6 / 10))
        assert (split.val & of_class).sum() == size // 5


def test_split_depends_on_the_seed_only():
    labels = np.repeat([0, 1, 2], 20)
    first, again = stratified_split(labels, seed=3), stratified_split(labels, seed=3)
    other = stratified_split(labels, seed=4)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    # drawn once; PCG64 gives the same on every platform
    golden = [0, 9, 14, 17, 20, 29, 34, 38, 43, 51, 54, 57]
    assert np.flatnonzero(first.val).tolist() == golden


@pytest.fixture
def fake_data(tmp_path, monkeypatch):
    """A folder with a small `texas` and a `chameleon`, and a manifest that fits."""
    folder = tmp_path / "with spaces"
    texas, chameleon = folder / "texas", folder / "chameleon"
    texas.mkdir(parents=True)
    chameleon.mkdir()
    (texas / "out1_graph_edges.txt").write_text("id\tid\n0\t1\n1\t0\n2\t2\n2\t1\n")
    (texas / "out1_node_feature_label.txt").write_text(
        "node_id\tfeature\tlabel\n1\t0,0,0\t1\n0\t1,0,1\t0\n2\t0,1,0\t2\n"
    )
    np.savez(
        chameleon / "chameleon.npz",
        edges=np.asarray([[0, 1]]),
        node_features=np.asarray([[2.0, 2.0], [0.0, 1.0]], dtype=np.float32),
        node_labels=np.asarray([0, 1]),
    )
    manifest = {
        name: [
            {
                "file": path.name,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                "url": f"https://example.org/{path.name}",
            }
            for path in sorted((folder / name).iterdir())
        ]
        for name in ("texas", "chameleon")
    }
    monkeypatch.setattr(datasets_module, "_manifest", lambda: manifest)
    monkeypatch.setenv(datasets_module.DATA_VARIABLE, str(folder))
    return folder


def test_geom_gcn_format(fake_data):
    dataset = load_dataset("texas")
    np.testing.assert_array_equal(
        dataset.features.toarray(), [[0.5, 0, 0.5], [0, 0, 0], [0, 1, 0]]
    )
    assert dataset.labels.tolist() == [0, 1, 2]
    assert dataset.graph.num_edges == 2
    assert [int(count) for count in dataset.graph.cleaning] == [1, 0, 1]
    assert set(dataset.digests) == {
        "out1_graph_edges.txt",
        "out1_node_feature_label.txt",
    }


def test_npz_format(fake_data):
    dataset = load_dataset("chameleon")
    np.testing.assert_array_equal(dataset.features.toarray(), [[0.5, 0.5], [0, 1]])
    assert dataset.labels.tolist() == [0, 1]


def test_altered_file_is_refused(fake_data):
    path = fake_data / "texas" / "out1_graph_edges.txt"
    path.write_text(path.read_text() + "0\t2\n")
    with pytest.raises(ValueError, match="must have SHA-256 .* got .* replace it by"):
        load_dataset("texas")


def test_missing_file_says_what_to_put_where(fake_data):
    path = fake_data / "texas" / "out1_graph_edges.txt"
    path.unlink()
    with pytest.raises(FileNotFoundError) as caught:
        load_dataset("texas")
    assert str(path) in str(caught.value)
    assert "https://example.org/out1_graph_edges.txt" in str(caught.value)


@pytest.mark.parametrize("folder", ["", "/nowhere/at/all"])
def test_missing_folder_is_named(folder, monkeypatch):
    monkeypatch.setenv(datasets_module.DATA_VARIABLE, folder)
    with pytest.raises(FileNotFoundError, match="DSF_JAX_DATA must name the folder"):
        load_dataset("texas")


def test_pickled_arrays_are_never_loaded(fake_data, monkeypatch):
    path = fake_data / "chameleon" / "chameleon.npz"
    np.savez(path, edges=np.asarray([{}], dtype=object))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    entry = {"file": path.name, "sha256": digest, "url": ""}
    monkeypatch.setattr(datasets_module, "_manifest", lambda: {"chameleon": [entry]})
    with pytest.raises((ValueError, KeyError)):
        load_dataset("chameleon")


@pytest.mark.data
def test_shipped_manifest_is_the_one_beside_the_data():
    folder = datasets_module._data_folder()
    beside = Path(folder) / "MANIFEST.json"
    assert datasets_module._manifest() == json.loads(beside.read_text())
