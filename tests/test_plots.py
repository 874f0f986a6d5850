"""Figures hold what they should; how they look is for eyes (docs/figures.md)."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from dsf_jax.explain.plots import (
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


def labels(ax):
    return [text.get_text() for text in ax.get_legend().texts]


def test_curves_are_those_of_the_groups(ax, filters):
    groups = Representatives(
        np.zeros(20, dtype=int), np.ones((3, 2)), np.asarray([19, 1])
    )
    draw_curves(ax, filters, groups, filters.curves[:2])
    assert labels(ax) == ["5-95 % of nodes", "19 nodes", "1 node", "mean"]
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), filters.curves[0])
    np.testing.assert_array_equal(ax.lines[2].get_ydata(), filters.shared)


def test_responses_are_compared_by_shape(ax, filters):
    curve = filters.shared - 0.1
    draw_responses(ax, filters.lam, {"one": curve, "other": -3 * curve})
    assert labels(ax) == ["one", "other"]
    one, other = (line.get_ydata() for line in ax.lines[:2])
    np.testing.assert_allclose(one, curve / curve.max())
    np.testing.assert_allclose(other, one)


def test_the_map_has_all_nodes_and_edges(ax, rng):
    graph = GRAPHS["random"]
    draw_map(ax, graph, rng.uniform(size=(20, 2)), rng.uniform(size=(20, 3)))
    lines, points = ax.collections
    assert len(lines.get_segments()) == graph.num_edges
    assert len(points.get_offsets()) == 20


def test_histograms_count_the_nodes(ax):
    local = np.asarray([0.1, 0.1, np.nan, 1.0])
    draw_homophily(ax, local, 0.3, hops=2)
    assert sum(bar.get_height() for bar in ax.patches) == 3
    assert labels(ax) == ["whole graph: 0.30"]


def test_frequencies_of_an_empty_neighbourhood(ax):
    draw_frequencies(ax, {"low": np.zeros(4), "high": np.zeros(4)}, hops=1)
    assert labels(ax) == ["low", "high"]


def test_weights_by_order(ax, filters):
    draw_weights(ax, filters)
    np.testing.assert_array_equal(ax.lines[-2].get_ydata(), filters.gamma)
    assert list(ax.get_xticks()) == [0, 1, 2]


def test_files_are_reproducible(tmp_path, filters):
    for name in ("one", "two"):
        save_figure(tmp_path / name, lambda ax: draw_weights(ax, filters))
    for suffix in ("png", "svg"):
        one, two = (tmp_path / f"{name}.{suffix}" for name in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()
