"""The paper's figures: filter curves, maps of the weights, histograms.

Every function draws on the axes it is given and returns nothing; `save_figure` writes
PNG and SVG. This is the only module that imports matplotlib.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from dsf_jax.explain.layout import sample_edges
from dsf_jax.explain.reading import Filters, Representatives
from dsf_jax.graph.graph import Graph

FORMATS = ("png", "svg")
# Okabe and Ito: told apart by colour-blind readers, too
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999")
_MAX_EDGES = 40_000  # more are a grey disc; a sample looks the same
_STYLE: Any = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9,
    "legend.frameon": False,
    "svg.hashsalt": "dsf_jax",  # equal figures are equal files
}


def save_figure(
    stem: str | Path,
    draw: Callable[[Axes], None],
    *,
    size: tuple[float, float] = (4.5, 3.2),
    dpi: int = 120,
) -> list[Path]:
    """Draw a figure and write it as PNG and SVG.

    Args:
      stem: path of the files without their suffix.
      draw: draws on the axes.
      size: width and height in inches.
      dpi: dots per inch of the PNG and of what is not vectors in the SVG.

    Returns:
      The files.

    Example:
      >>> import tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     files = save_figure(f"{folder}/line", lambda ax: ax.plot([1, 2]))
      >>> [file.name for file in files]
      ['line.png', 'line.svg']
    """
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.add_subplot())
        paths = [Path(f"{stem}.{suffix}") for suffix in FORMATS]
        for path in paths:
            stamp = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, dpi=dpi, metadata=stamp)
    return paths


def draw_curves(
    ax: Axes,
    filters: Filters,
    groups: Representatives,
    curves: Float[np.ndarray, "R G"],
) -> None:
    """Filters of the representatives on the range of all nodes (Fig. 1a-c, 4).

    Args:
      ax: where to draw.
      filters: of the model.
      groups: from `representatives`.
      curves: response of each centre.

    Example:
      >>> one, curve = np.ones((1, 2)), np.ones(3)
      >>> filters = Filters(one[:, 0], one, one, curve, np.ones((2, 3)), curve)
      >>> groups = Representatives(np.zeros(2, int), one[:, :1], np.asarray([2]))
      >>> ax = Figure().add_subplot()
      >>> draw_curves(ax, filters, groups, curve[None])
      >>> len(ax.lines)
      2
    """
    low, high = np.quantile(filters.curves, [0.05, 0.95], axis=0)
    ax.fill_between(filters.lam, low, high, color="0.88", lw=0, label="5-95 % of nodes")
    for i, (curve, size) in enumerate(zip(curves, groups.sizes, strict=True)):
        colour = PALETTE[i % len(PALETTE)]
        label = f"{size} node{'s' if size > 1 else ''}"
        ax.plot(filters.lam, curve, color=colour, label=label)
    ax.plot(filters.lam, filters.shared, "k--", lw=1, label="mean")
    ax.set(xlabel="λ", ylabel="$g_i(λ)$", xlim=(0, 2))
    ax.legend(fontsize="small")


def draw_responses(
    ax: Axes,
    lam: Float[np.ndarray, " G"],
    curves: Mapping[str, Float[np.ndarray, " G"]],
) -> None:
    """Filters of several models side by side, each over its value farthest from 0.

    A classifier may scale and turn around its filter: only shapes can be compared.

    Args:
      ax: where to draw.
      lam: grid on [0, 2].
      curves: g(λ) by the name of the model, from `response`.

    Example:
      >>> ax = Figure().add_subplot()
      >>> draw_responses(ax, np.asarray([0.0, 2.0]), {"low": np.asarray([4.0, 1.0])})
      >>> ax.lines[0].get_ydata().tolist()
      [1.0, 0.25]
    """
    for colour, (name, curve) in zip(PALETTE, curves.items(), strict=False):
        farthest = curve[np.argmax(np.abs(curve))]
        ax.plot(lam, curve / farthest, color=colour, label=name)
    ax.axhline(0, color="0.7", lw=0.8, zorder=0)
    ax.set(xlabel="λ", ylabel="$g(λ)$, relative", xlim=(0, 2))
    ax.legend(fontsize="small")


def draw_map(
    ax: Axes,
    graph: Graph,
    points: Float[np.ndarray, "N 2"],
    rgb: Float[np.ndarray, "N 3"],
) -> None:
    """The graph, its nodes in the colours of their weights (Fig. 1d, 5, 7).

    Args:
      ax: where to draw.
      graph: the graph.
      points: where the nodes are, from `place_nodes`.
      rgb: from `colours`.

    Example:
      >>> edge, ax = Graph.from_edges([(0, 1)], num_nodes=2), Figure().add_subplot()
      >>> draw_map(ax, edge, np.eye(2), np.ones((2, 3)))
      >>> len(ax.collections)
      2
    """
    pairs = sample_edges(graph, _MAX_EDGES)
    width = float(np.clip(200 / max(len(pairs), 1), 0.05, 0.8))
    lines = LineCollection(
        points[pairs].tolist(), colors="0.6", linewidths=width, rasterized=True
    )
    ax.add_collection(lines)
    area = float(np.clip(12_000 / graph.num_nodes, 3, 28))
    x, y = points.T
    ax.scatter(x, y, s=area, c=rgb, lw=0, zorder=2, rasterized=True)
    ax.set(aspect="equal")
    ax.axis("off")


def draw_homophily(
    ax: Axes, local: Float[np.ndarray, " N"], overall: float, *, hops: int
) -> None:
    """Histogram of local label homophily (Fig. 2a, 6d).

    Example:
      >>> ax = Figure().add_subplot()
      >>> draw_homophily(ax, np.asarray([0.1, 0.2]), 0.15, hops=2)
      >>> ax.get_ylabel()
      'nodes'
    """
    ax.hist(local[np.isfinite(local)], bins=30, range=(0, 1), color=PALETTE[0])
    ax.axvline(overall, color="k", ls="--", lw=1, label=f"whole graph: {overall:.2f}")
    ax.set(xlabel=f"local label homophily, {hops} hops", ylabel="nodes", xlim=(0, 1))
    ax.legend(fontsize="small")


def draw_frequencies(
    ax: Axes,
    ratios: Mapping[str, Float[np.ndarray, " N"]],
    *,
    hops: int,
) -> None:
    """Histograms of local graph frequency as a share of the global one (Fig. 2b, 6).

    Args:
      ax: where to draw.
      ratios: ξ_{n,i} by the name of the eigenvalue.
      hops: k of the neighbourhood.

    Example:
      >>> ax = Figure().add_subplot()
      >>> draw_frequencies(ax, {"low": np.asarray([0.1, 0.2])}, hops=2)
      >>> ax.get_legend().texts[0].get_text()
      'low'
    """
    most = max(1e-9, *(float(np.quantile(row, 0.99)) for row in ratios.values()))
    bins = np.linspace(0, most, 41).tolist()
    for colour, (name, row) in zip(PALETTE, ratios.items(), strict=False):
        ax.hist(row, bins, histtype="step", lw=1.3, color=colour, label=name)
    ax.set(xlabel=f"$λ_{{n,i}} / λ_n$, {hops} hops", ylabel="nodes", yscale="log")
    ax.set_xlim(0, most)
    ax.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0))


def draw_weights(ax: Axes, filters: Filters) -> None:
    """Learnt γ, and θ of the nodes, by order.

    Example:
      >>> one, curve = np.ones((1, 2)), np.ones(3)
      >>> ax = Figure().add_subplot()
      >>> draw_weights(ax, Filters(one[:, 0], one, one, curve, one, curve))
      >>> ax.get_xlabel()
      'order k'
    """
    orders = np.arange(len(filters.gamma))
    middle = np.median(filters.theta, axis=1)
    low, high = np.quantile(filters.theta, [0.05, 0.95], axis=1)
    ax.errorbar(
        orders - 0.1,
        middle,
        yerr=[middle - low, high - middle],
        fmt="o",
        ms=4,
        color=PALETTE[0],
        label="θ of the nodes: median, 5-95 %",
    )
    ax.plot(orders + 0.1, filters.gamma, "s", ms=4, color=PALETTE[1], label="γ")
    ax.axhline(0, color="0.7", lw=0.8, zorder=0)
    ax.set(xlabel="order k", xticks=orders)
    ax.legend(fontsize="small")
