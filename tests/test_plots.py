"""Figures hold what they should; how they look is for eyes (docs/figures.md)."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from dsf_jax.explain.plots import (
    FORMATS,
    draw_curves,
    draw_frequencies,
    draw_homophily,
    draw_map,
    draw_responses,
    draw_weights,
    save_figure,
)
from dsf_jax.explain.reading import Filters, Representatives
from tests.graphs import GRAPHS


@pytest.fixture
def ax():
    return Figure().add_subplot()


@pytest.fixture
def filters(rng):
    gamma, theta = rng.uniform(size=3), rng.uniform(size=(3, 20))
    curves = rng.uniform(size=(20, 7))
    lam = np.linspace(0, 2, 7)
    return Filters(gamma, theta, theta, lam, curves, curves.mean(axis=0))


@pytest.fixture
def groups():
    """Three groups, whose nodes are not in order."""
    cluster = np.arange(20) % 3
    return Representatives(cluster, np.ones((3, 3)), np.bincount(cluster))


def labels(ax):
    return [text.get_text() for text in legend_of(ax).texts]


def legend_of(ax):
    """That of the axes, or of the figure where it is beside them."""
    return ax.get_legend() or (ax.figure.legends or [None])[0]


@pytest.fixture
def drawings(filters, groups, rng):
    """Every figure, as a function of axes."""
    points = rng.uniform(-1, 1, size=(20, 2))
    local, curves = rng.uniform(size=20), filters.curves[:3]
    return {
        "curves": lambda ax: draw_curves(ax, filters, groups, curves),
        "responses": lambda ax: draw_responses(
            ax, filters.lam, {"one": curves[0], "other": curves[1]}
        ),
        "map": lambda ax: draw_map(ax, GRAPHS["random"], points, groups, spread=1.0),
        "homophily": lambda ax: draw_homophily(ax, local, 0.3, hops=2),
        "frequency": lambda ax: draw_frequencies(ax, {"low": local}, hops=2),
        "weights": lambda ax: draw_weights(ax, filters),
    }


def test_every_figure_has_labels_and_a_legend(drawings):
    for name, draw in drawings.items():
        ax = Figure(layout="constrained").add_subplot()
        draw(ax)
        assert legend_of(ax) is not None, name
        assert labels(ax), name
        if name == "map":  # its axes mean nothing
            assert not ax.axison
            continue
        assert ax.get_xlabel(), name
        assert ax.get_ylabel(), name


def test_legends_are_inside_the_figure(drawings):
    for name, draw in drawings.items():
        figure = Figure(figsize=(4.5, 3.2), layout="constrained")
        ax = figure.add_subplot()
        draw(ax)
        figure.draw_without_rendering()
        box, whole = legend_of(ax).get_window_extent(), figure.bbox
        assert whole.x0 <= box.x0 < box.x1 <= whole.x1, name
        assert whole.y0 <= box.y0 < box.y1 <= whole.y1, name
        if name in ("homophily", "frequency"):  # bars may be anywhere
            assert box.y0 >= ax.get_window_extent().y1


def test_curves_are_those_of_the_groups(ax, filters):
    groups = Representatives(
        np.zeros(20, dtype=int), np.ones((3, 2)), np.asarray([19, 1])
    )
    draw_curves(ax, filters, groups, filters.curves[:2])
    assert labels(ax) == [
        "5 to 95 % of nodes",
        "group 0: 19 nodes",
        "group 1: 1 node",
        "mean of all nodes",
    ]
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), filters.curves[0])
    np.testing.assert_array_equal(ax.lines[2].get_ydata(), filters.shared)


@pytest.mark.parametrize("spread", [0.005, 0.03, 0.5])
def test_a_node_on_the_map_has_the_colour_of_its_curve(filters, groups, rng, spread):
    """Also where colours fade."""
    noise = rng.normal(size=filters.curves.shape)
    curves = 1 + spread * noise / np.linalg.norm(noise) * noise.size**0.5
    filters = filters._replace(curves=curves, shared=curves.mean(axis=0))
    np.testing.assert_allclose(filters.spread, spread, rtol=0.1)
    one, other = Figure().add_subplot(), Figure().add_subplot()
    draw_curves(one, filters, groups, curves[:3])
    points = rng.uniform(size=(20, 2))
    draw_map(other, GRAPHS["random"], points, groups, spread=filters.spread)
    colour_of = [to_rgb(line.get_color()) for line in one.lines[:3]]
    nodes = other.collections[1]
    np.testing.assert_array_equal(nodes.get_offsets(), points)
    expected = [colour_of[group] for group in groups.cluster]
    np.testing.assert_allclose(nodes.get_facecolor()[:, :3], expected, atol=1e-6)
    keys = [handle.get_facecolor()[0, :3] for handle in legend_of(other).legend_handles]
    np.testing.assert_allclose(keys, colour_of, atol=1e-6)
    assert len({tuple(colour) for colour in colour_of}) == 3


def test_one_group_is_called_all(ax, filters):
    groups = Representatives(np.zeros(20, dtype=int), np.ones((3, 1)), np.asarray([20]))
    draw_curves(ax, filters, groups, filters.curves[:1])
    assert labels(ax)[1] == "all 20 nodes"


def test_responses_are_compared_by_shape(ax, filters):
    curve = filters.shared - 0.1
    draw_responses(ax, filters.lam, {"one": curve, "other": -3 * curve})
    assert labels(ax) == ["one", "other"]
    one, other = (line.get_ydata() for line in ax.lines[:2])
    np.testing.assert_allclose(one, curve / curve.max())
    np.testing.assert_allclose(other, one)


def test_the_map_has_all_nodes_and_edges(ax, groups, rng):
    graph = GRAPHS["random"]
    draw_map(ax, graph, rng.uniform(size=(20, 2)), groups, spread=1.0)
    lines, points = ax.collections[:2]
    assert len(lines.get_segments()) == graph.num_edges
    assert len(points.get_offsets()) == 20


def test_histograms_count_the_nodes(ax):
    local = np.asarray([0.1, 0.1, np.nan, 1.0])
    draw_homophily(ax, local, 0.3, hops=2)
    assert sum(bar.get_height() for bar in ax.patches) == 3
    assert labels(ax) == ["3 nodes", "whole graph: 0.30"]


def test_frequencies_of_an_empty_neighbourhood(ax):
    draw_frequencies(ax, {"low": np.zeros(4), "high": np.zeros(4)}, hops=1)
    assert labels(ax) == ["low", "high"]


def test_weights_by_order(ax, filters):
    draw_weights(ax, filters)
    np.testing.assert_array_equal(ax.lines[-2].get_ydata(), filters.gamma)
    assert list(ax.get_xticks()) == [0, 1, 2]


@pytest.fixture
def small_map(drawings, tmp_path):
    """The files of a map."""
    return {path.suffix: path for path in save_figure(tmp_path / "a", drawings["map"])}


def test_all_formats_are_written(small_map):
    assert small_map.keys() == {".png", ".svg", ".pdf"}
    assert small_map[".pdf"].read_bytes().startswith(b"%PDF")
    assert "<svg" in small_map[".svg"].read_text("utf-8")
    with Image.open(small_map[".png"]) as image:
        assert image.format == "PNG"
        assert image.size == (4.5 * 300, 3.2 * 300)
        np.testing.assert_allclose(image.info["dpi"], 300, atol=0.1)


def test_vectors_are_vectors(small_map):
    pdf = small_map[".pdf"].read_bytes()
    assert b"/Subtype /Image" not in pdf
    assert b"/Type3" not in pdf  # fonts that publishers refuse
    assert b"/FontFile2" in pdf
    assert "<image" not in small_map[".svg"].read_text("utf-8")


def test_large_maps_are_dots_in_vector_files(drawings, tmp_path, monkeypatch):
    monkeypatch.setattr("dsf_jax.explain.plots._MAX_VECTORS", 10)
    save_figure(tmp_path / "a", drawings["map"])
    assert b"/Subtype /Image" in (tmp_path / "a.pdf").read_bytes()
    assert "<image" in (tmp_path / "a.svg").read_text("utf-8")


def test_files_are_reproducible(tmp_path, drawings, small_map):
    again = tmp_path / "again"
    again.mkdir()
    save_figure(again / "a", drawings["map"])
    for suffix in FORMATS:
        one, two = small_map[f".{suffix}"], again / f"a.{suffix}"
        assert one.read_bytes() == two.read_bytes()
