"""LapPE and RWPE against dense powers and full eigendecompositions."""

import math
import zipfile

import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsf_jax import make_splits, prepare, regions
from dsf_jax.cli.shared import show_positions
from dsf_jax.graph import eigensolver, laplacian, positional, random_walk
from dsf_jax.graph.graph import Graph
from dsf_jax.graph.laplacian import NUM_COLUMNS, laplacian_features
from dsf_jax.graph.positional import KINDS, positional_features
from dsf_jax.graph.random_walk import random_walk_features
from dsf_jax.storage import CACHE_VARIABLE
from tests import reference
from tests.graphs import GRAPHS


def weighted(graph, seed=0):
    """The same graph with random weights, so that eigenvalues do not repeat."""
    rng = np.random.default_rng(seed)
    for u, v in graph.edges:
        graph.edges[u, v]["weight"] = rng.uniform(0.5, 2.0)
    return graph


SMALL = GRAPHS | {
    "edge": Graph.from_networkx(nx.path_graph(2)),
    "complete": Graph.from_networkx(nx.complete_graph(40)),
    "three parts": Graph.from_networkx(
        nx.disjoint_union_all([nx.cycle_graph(5), *[nx.path_graph(8)] * 2])
    ),
    "more nodes than columns": Graph.from_networkx(
        nx.gnp_random_graph(60, 0.1, seed=0)
    ),
}
LARGE = {  # for the partial solver; all but the last two repeat eigenvalues
    "tree": nx.balanced_tree(2, 7),
    "hypercube": nx.hypercube_graph(8),
    "torus": nx.grid_2d_graph(14, 14, periodic=True),
    "bipartite": nx.complete_bipartite_graph(60, 120),
    "two": nx.disjoint_union(nx.cycle_graph(150), nx.balanced_tree(2, 7)),
    "random": nx.gnp_random_graph(200, 0.05, seed=2),
    "weighted": weighted(nx.connected_watts_strogatz_graph(180, 4, 0.1, seed=3)),
}


@pytest.fixture
def no_dense(monkeypatch):
    monkeypatch.setattr(laplacian, "_DENSE_NODES", 0)


@pytest.fixture(params=SMALL)
def graph(request):
    return SMALL[request.param]


def dense_a_hat(graph):
    return reference.a_hat(graph.to_scipy().toarray())


def eigenspaces(values, vectors):
    """First column, number of columns and projector of every distinct eigenvalue."""
    starts = np.flatnonzero(np.diff(values, prepend=-1.0) > 1e-7)
    for start, end in zip(starts, [*starts[1:], len(values)], strict=True):
        basis = vectors[:, start:end]
        yield start, end - start, basis @ basis.T


def assert_lappe(features, graph, num_columns=NUM_COLUMNS):
    """Columns are eigenvectors 2..f_p + 1 up to rotations in eigenspaces."""
    num_kept = min(num_columns, graph.num_nodes - 1)
    values, vectors = np.linalg.eigh(np.eye(graph.num_nodes) - dense_a_hat(graph))
    x = features.x[:, :num_kept]
    np.testing.assert_allclose(
        features.eigenvalues[:num_kept], values[1 : num_kept + 1], atol=1e-10
    )
    np.testing.assert_allclose(x.T @ x, np.eye(num_kept), atol=1e-10)
    for start, size, projector in eigenspaces(values, vectors):
        kept = x[:, max(start - 1, 0) : start - 1 + size]
        np.testing.assert_allclose(projector @ kept, kept, atol=1e-8)
        if kept.shape[1] == size:
            np.testing.assert_allclose(kept @ kept.T, projector, atol=1e-8)
    assert not features.x[:, num_kept:].any()
    assert np.isnan(features.eigenvalues[num_kept:]).all()


@pytest.mark.parametrize("block", [1, 7, 64])
def test_rwpe_equals_dense_powers(graph, block):
    a = graph.to_scipy().toarray()
    walk = a / np.maximum(a.sum(axis=0), 1e-300)
    powers = [np.linalg.matrix_power(walk, j) for j in range(1, NUM_COLUMNS + 1)]
    expected = np.stack([np.diag(power) for power in powers], axis=1)
    actual = random_walk_features(graph, block=block)
    np.testing.assert_allclose(actual, expected, atol=1e-13)
    odd = random_walk_features(graph, num_powers=5, block=block)
    np.testing.assert_array_equal(odd, actual[:, :5])


@st.composite
def graphs(draw):
    num_nodes = draw(st.integers(1, 12))
    node = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=30))
    positive = st.floats(2**-10, 2**10)
    weights = draw(st.lists(positive, min_size=len(edges), max_size=len(edges)))
    return Graph.from_edges(
        edges, num_nodes=num_nodes, weights=np.asarray(weights, float)
    )


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(1, 9), st.integers(1, 14))
def test_rwpe_holds_probabilities(graph, num_powers, block):
    x = random_walk_features(graph, num_powers=num_powers, block=block)
    assert x.shape == (graph.num_nodes, num_powers)
    assert not x[:, 0].any()  # no self-loops
    assert (x >= 0).all()
    assert (x <= 1 + 1e-12).all()
    last = np.linalg.matrix_power(dense_a_hat(graph), num_powers)
    np.testing.assert_allclose(x[:, -1], np.diag(last), atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(1, 14))
def test_lappe_of_any_small_graph(graph, num_columns):
    features = laplacian_features(graph, num_columns=num_columns)
    num_kept = min(num_columns, graph.num_nodes - 1)
    x, values = features.x[:, :num_kept], features.eigenvalues[:num_kept]
    np.testing.assert_allclose(x.T @ x, np.eye(num_kept), atol=1e-10)
    np.testing.assert_allclose(x - dense_a_hat(graph) @ x, x * values, atol=1e-10)
    assert (np.diff(values) >= 0).all()


def test_lappe_equals_dense_eigenvectors(graph):
    assert_lappe(laplacian_features(graph), graph)
    assert_lappe(laplacian_features(graph, num_columns=3), graph, num_columns=3)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_both_solvers_give_lappe(name, monkeypatch):
    graph = Graph.from_networkx(LARGE[name])
    dense = laplacian_features(graph)
    monkeypatch.setattr(laplacian, "_DENSE_NODES", 0)
    partial = laplacian_features(graph)
    assert_lappe(dense, graph)
    assert_lappe(partial, graph)
    assert not np.array_equal(dense.x, partial.x)
    if name in ("random", "weighted"):  # simple eigenvalues: the sign rule decides
        np.testing.assert_allclose(partial.x, dense.x, atol=1e-8)


@pytest.mark.slow
def test_repeated_eigenvalues_of_a_large_tree():
    graph = Graph.from_networkx(nx.balanced_tree(2, 9))
    assert graph.num_nodes > laplacian._DENSE_NODES
    assert_lappe(laplacian_features(graph), graph)


@pytest.mark.usefixtures("no_dense")
def test_more_columns_than_the_partial_solver_can_separate():
    graph = Graph.from_networkx(nx.path_graph(90))
    features = laplacian_features(graph, num_columns=100)
    assert_lappe(features, graph, num_columns=100)


@pytest.mark.usefixtures("no_dense")
def test_rounding_ends_the_iteration(monkeypatch):
    monkeypatch.setattr(eigensolver, "_RESIDUAL", 0.0)
    graph = Graph.from_networkx(LARGE["torus"])
    assert_lappe(laplacian_features(graph), graph)


@pytest.mark.usefixtures("no_dense")
def test_lappe_that_does_not_converge(monkeypatch):
    monkeypatch.setattr(eigensolver, "_MAX_ROUNDS", 1)
    with pytest.raises(RuntimeError, match=r"200 nodes .* 1 rounds; .*random_walk"):
        laplacian_features(Graph.from_networkx(nx.path_graph(200)))


@pytest.mark.parametrize("name", sorted(SMALL.keys() - {"edgeless", "one node"}))
def test_relabelled_nodes(name):
    graph = SMALL[name]
    order = np.random.default_rng(0).permutation(graph.num_nodes)  # new -> old
    new = Graph.from_scipy(graph.to_scipy()[order][:, order])
    np.testing.assert_allclose(
        random_walk_features(new), random_walk_features(graph)[order], atol=1e-13
    )
    before, after = laplacian_features(graph), laplacian_features(new)
    np.testing.assert_allclose(after.eigenvalues, before.eigenvalues, atol=1e-10)
    num_kept = np.isfinite(before.eigenvalues).sum()
    moved = before.x[order][:, :num_kept]
    values, kept = before.eigenvalues[:num_kept], after.x[:, :num_kept]
    spaces = zip(eigenspaces(values, moved), eigenspaces(values, kept), strict=True)
    for (start, size, old_projector), (_, _, new_projector) in spaces:
        cut_off = values[start] == 0 or start + size == NUM_COLUMNS
        if not cut_off:
            np.testing.assert_allclose(new_projector, old_projector, atol=1e-8)


def test_null_space_in_order_of_component_size():
    paths = [(0, 1), (2, 3), (3, 4), (6, 7), (7, 8), (9, 10), (10, 11), (11, 12)]
    features = laplacian_features(Graph.from_edges(paths, num_nodes=13))
    assert features.num_zero_eigenvalues == 4  # node 5 is isolated
    assert features.eigenvalues[:3].tolist() == [0.0, 0.0, 0.0]
    assert features.eigenvalues[3] > 0
    ends, middle = 0.5, math.sqrt(0.5)  # square roots of the degrees 1, 2, 1
    expected = np.zeros((13, 3))
    expected[[2, 3, 4], 0] = expected[[6, 7, 8], 1] = [ends, middle, ends]
    expected[[0, 1], 2] = math.sqrt(0.5)
    np.testing.assert_allclose(features.x[:, :3], expected, atol=1e-15)


def test_large_null_space_needs_no_eigensolver(monkeypatch, tmp_path):
    monkeypatch.delattr(laplacian, "_component_pairs")
    graph = Graph.from_networkx(nx.disjoint_union_all([nx.path_graph(3)] * 40))
    features = positional_features(graph, cache=tmp_path)
    assert features.num_zero_eigenvalues == 40
    assert not features.eigenvalues.any()
    assert features.note.startswith("L_hat has 40 zero eigenvalues")
    assert "LapPE columns 1-32 of 32" in features.note
    owner = features.x_pos[0].argmax(axis=0) // 3
    assert owner.tolist() == list(range(1, 33))


def test_signs_of_equally_large_entries():
    features = laplacian_features(Graph.from_networkx(nx.path_graph(2)))
    np.testing.assert_allclose(features.x[:, 0], np.sqrt([0.5, 0.5]) * [1, -1])


def test_edgeless_graph(tmp_path):
    graph = Graph.from_edges([], num_nodes=40)
    features = positional_features(graph, cache=tmp_path)
    lap, rw = features.x_pos
    assert KINDS == ("lap", "rw")
    np.testing.assert_array_equal(lap, np.eye(40)[:, 1 : NUM_COLUMNS + 1])
    np.testing.assert_array_equal(features.eigenvalues, np.ones(NUM_COLUMNS))
    assert not rw.any()
    assert (features.num_zero_eigenvalues, features.note) == (0, "")


@pytest.mark.usefixtures("no_dense")
@pytest.mark.parametrize("name", ["bipartite", "torus", "weighted"])
def test_two_computations_agree_bit_for_bit(name, tmp_path):
    graph = Graph.from_networkx(LARGE[name])
    first = positional_features(graph, cache=tmp_path / "a")
    second = positional_features(graph, cache=tmp_path / "b")
    np.testing.assert_array_equal(first.x_pos, second.x_pos)
    np.testing.assert_array_equal(first.eigenvalues, second.eigenvalues)


def test_progress_ends_at_one():
    shares = []
    graph = Graph.from_networkx(nx.path_graph(10))
    random_walk_features(graph, block=4, on_progress=shares.append)
    assert shares == [0.4, 0.8, 1.0]


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (random_walk_features, "num_powers"),
        (random_walk_features, "block"),
        (laplacian_features, "num_columns"),
    ],
)
def test_counts_below_one(function, name):
    graph = Graph.from_edges([(0, 1)], num_nodes=2)
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0; leave"):
        function(graph, **{name: 0})


# --- files -----------------------------------------------------------------------


def assert_same(actual, expected):
    np.testing.assert_array_equal(actual.x_pos, expected.x_pos)
    np.testing.assert_array_equal(actual.eigenvalues, expected.eigenvalues)
    assert actual.num_zero_eigenvalues == expected.num_zero_eigenvalues


def test_stored_result_is_used(tmp_path, monkeypatch):
    graph = GRAPHS["isolated"]
    computed = positional_features(graph, cache=str(tmp_path / "new" / "folder"))
    # nothing else is left behind
    file, other = sorted((tmp_path / "new" / "folder").iterdir())
    assert file.match("lap-*.npz")
    assert other.match("rw-exact-*.npz")
    monkeypatch.delattr(positional, "laplacian_features")
    monkeypatch.delattr(positional, "random_walk_features")
    stored = positional_features(graph, cache=file.parent)
    assert_same(stored, computed)
    assert stored.x_pos.dtype == computed.x_pos.dtype == np.float64
    assert isinstance(stored.num_zero_eigenvalues, int)


DAMAGES = [
    "empty",
    "text",
    "cut",
    "flip",
    "array",
    "shape",
    "kind",
    "large",
    "header",
    "magic",
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_file_is_replaced(damage, tmp_path):
    graph = GRAPHS["isolated"]
    computed = positional_features(graph, cache=tmp_path)
    file = next(tmp_path.glob("lap-*"))
    content = file.read_bytes()
    with np.load(file) as stored:
        arrays = dict(stored)
    with file.open("wb") as out:
        match damage:
            case "text":
                out.write(b"not an archive")
            case "cut":
                out.write(content[: len(content) // 2])
            case "flip":
                middle = len(content) // 3
                flipped = bytes([content[middle] ^ 1])
                out.write(content[:middle] + flipped + content[middle + 1 :])
            case "array":
                np.save(out, computed.x_pos)
            case "shape":
                np.savez(out, **arrays | {"x": arrays["x"][1:]})
            case "kind":
                np.savez(out, **arrays | {"x": arrays["x"].astype(complex)})
            case "large":
                np.savez_compressed(out, **arrays, more=np.zeros(10**6))
            case "header":
                with zipfile.ZipFile(out, "w") as archive:  # NumPy tokenizes this
                    text = b"{'descr'((((".ljust(118)
                    archive.writestr("x.npy", b"\x93NUMPY\x01\x00v\x00" + text)
            case "magic":
                with zipfile.ZipFile(out, "w") as archive:  # NumPy returns bytes then
                    for name in arrays:
                        archive.writestr(f"{name}.npy", b"no array")
    assert_same(positional_features(graph, cache=tmp_path), computed)
    with np.load(file) as stored:
        assert stored.keys() == arrays.keys()
        np.testing.assert_array_equal(stored["x"], arrays["x"])


def test_folder_that_cannot_be_written(tmp_path):
    graph = GRAPHS["isolated"]
    blocker = tmp_path / "file"
    blocker.write_text("")
    features = positional_features(graph, cache=blocker / "folder")
    assert_same(features, positional_features(graph, cache=tmp_path / "good"))
    assert blocker.read_text() == ""


def test_default_folder(tmp_path, monkeypatch):
    graph = GRAPHS["isolated"]
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    positional_features(graph)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    positional_features(graph)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "own"))
    positional_features(graph)
    folders = {file.parent for file in tmp_path.rglob("*.npz")}
    names = ("home/.cache/dsf_jax", "xdg/dsf_jax", "own")
    assert folders == {tmp_path / name for name in names}


def test_every_graph_has_a_file_of_its_own(tmp_path):
    edges = [(0, 1), (1, 2)]
    different = [
        Graph.from_edges(edges, num_nodes=3),
        Graph.from_edges(edges, num_nodes=4),
        Graph.from_edges([(0, 1), (0, 2)], num_nodes=3),
        Graph.from_edges(edges, num_nodes=3, weights=[1.0, 2.0]),
    ]
    for graph in different:
        positional_features(graph, cache=tmp_path)
    reordered = Graph.from_edges([(2, 1), (1, 0)], num_nodes=3)
    single = reordered.replace(weights=reordered.weights.astype(jnp.float32))
    for same in (reordered, single):
        positional_features(same, cache=tmp_path)
    assert len(list(tmp_path.glob("lap-*"))) == len(different)
    assert len(list(tmp_path.glob("rw-*"))) == len(different)


def test_methods_of_rwpe(tmp_path, monkeypatch):
    graph = SMALL["more nodes than columns"]
    exact = positional_features(graph, cache=tmp_path)
    monkeypatch.delattr(positional, "laplacian_features")  # serves every method
    sketch = positional_features(graph, method="sketch", num_columns=64, cache=tmp_path)
    assert exact.num_columns == 0
    assert not exact.errors.any()
    assert "RWPE: exact" in exact.report
    assert sketch.num_columns == 64
    assert "a sketch of 64 columns" in sketch.report
    np.testing.assert_array_equal(sketch.x_pos[0], exact.x_pos[0])
    assert not np.array_equal(sketch.x_pos[1], exact.x_pos[1])
    monkeypatch.delattr(positional, "sketch_random_walks")
    again = positional_features(graph, method="sketch", num_columns=64, cache=tmp_path)
    assert_same(again, sketch)
    assert (again.errors.tolist(), again.seconds) == (
        sketch.errors.tolist(),
        sketch.seconds,
    )
    names = sorted(file.name.split("-")[:2] for file in tmp_path.iterdir())
    assert names[1:] == [["rw", "exact"], ["rw", "sketch"]]


def test_size_decides(tmp_path, monkeypatch):
    graph = SMALL["edge"]
    monkeypatch.setattr(random_walk, "_EXACT_WORK", 0)
    assert positional_features(graph, cache=tmp_path).num_columns == 256
    named = positional_features(graph, method="exact", cache=tmp_path)
    assert named.num_columns == 0


def test_progress_on_the_way_to_training(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    dataset, shown = regions(60), []
    on_positions = show_positions(lambda *line: shown.append(line))
    splits = make_splits(dataset, num_splits=1)
    for _ in range(2):  # the second finds the files and says nothing
        prepare(dataset, splits, model="dsf-gpr-r", on_positions=on_positions)
    assert shown == [(50, 100, "% of positions"), (100, 100, "compiling ...")]


def test_what_was_finished_survives_an_interruption(tmp_path, monkeypatch):
    graph = SMALL["edge"]

    def stop(share):
        if share > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        positional_features(graph, cache=tmp_path, on_progress=stop)
    (file,) = tmp_path.iterdir()
    assert file.match("lap-*.npz")
    monkeypatch.delattr(positional, "laplacian_features")
    assert positional_features(graph, cache=tmp_path).x_pos[1].any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "best"}, "method must be one of auto, exact, sketch, got 'best'"),
        ({"num_columns": 100}, "num_columns must be a multiple of 64 above 0, got 100"),
    ],
)
def test_method_that_there_is_not(options, message):
    with pytest.raises(ValueError, match=message):
        positional_features(SMALL["edge"], **options)
