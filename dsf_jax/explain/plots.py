"""The paper's figures: filter curves, maps of the weights, histograms.

Every function draws on the axes it is given and returns nothing; `save_figure` writes
PNG, SVG and PDF. This is the only module that imports matplotlib.
"""

import io
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
from dsf_jax.explain.palette import PALETTE, group_colours
from dsf_jax.explain.reading import Filters, Representatives
from dsf_jax.graph.graph import Graph
from dsf_jax.storage import write_whole

FORMATS = ("png", "svg", "pdf")
_MAX_EDGES = 40_000  # more are a grey disc; a sample looks the same
_MAX_VECTORS = 10_000  # more lines or nodes are dots in SVG and PDF: readers stall
_LEGEND_COLUMNS = 3  # of a map
_STYLE: Any = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9,
    "legend.fontsize": "small",
    "legend.frameon": False,
    "pdf.fonttype": 42,  # publishers refuse the default, Type 3
    "svg.hashsalt": "dsf_jax",  # equal figures are equal files
}
# without the time of writing, which is under another name in each format
_STAMPS: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def save_figure(
    stem: str | Path,
    draw: Callable[[Axes], None],
    *,
    size: tuple[float, float] = (4.5, 3.2),
    dpi: int = 300,
) -> list[Path]:
    """Draw a figure and write it as PNG, SVG and PDF.

    Args:
      stem: path of the files without their suffix.
      draw: draws on the axes.
      size: width and height in inches.
      dpi: dots per inch of the PNG and of what is not vectors in SVG and PDF.

    Returns:
      The files.

    Example:
      >>> import tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     files = save_figure(f"{folder}/line", lambda ax: ax.plot([1, 2]))
      >>> [file.name for file in files]
      ['line.png', 'line.svg', 'line.pdf']
    """
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.add_subplot())
        paths = {suffix: Path(f"{stem}.{suffix}") for suffix in FORMATS}
        for suffix, path in paths.items():
            content, stamp = io.BytesIO(), _STAMPS.get(suffix)
            figure.savefig(content, format=suffix, dpi=dpi, metadata=stamp)
            write_whole(path, content.getvalue())
    return list(paths.values())


def draw_curves(
    ax: Axes,
    filters: Filters,
    groups: Representatives,
    curves: Float[np.ndarray, "R G"],
) -> None:
    """Filters of the representatives on the range of all nodes (Fig. 1a-c, 4).

    A group has the colour that its nodes have in `draw_map`.

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
    ax.fill_between(
        filters.lam, low, high, color="0.88", lw=0, label="5 to 95 % of nodes"
    )
    rgb = group_colours(len(groups.sizes), spread=filters.spread)
    for curve, colour, label in zip(curves, rgb, _labels(groups), strict=True):
        ax.plot(filters.lam, curve, color=colour, label=label)
    ax.plot(filters.lam, filters.shared, "k--", lw=1, label="mean of all nodes")
    ax.set(xlabel="frequency λ", ylabel="response $g_i(λ)$", xlim=(0, 2))
    ax.legend()


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
    rgb = group_colours(len(curves))
    for colour, (name, curve) in zip(rgb, curves.items(), strict=True):
        farthest = curve[np.argmax(np.abs(curve))]
        ax.plot(lam, curve / farthest, color=colour, label=name)
    ax.axhline(0, color="0.7", lw=0.8, zorder=0)
    ax.set(xlabel="frequency λ", ylabel="response $g(λ)$, relative", xlim=(0, 2))
    ax.legend()


def draw_map(
    ax: Axes,
    graph: Graph,
    points: Float[np.ndarray, "N 2"],
    groups: Representatives,
    *,
    spread: float,
) -> None:
    """The graph, its nodes in the colours of their filters (Fig. 1d, 5, 7).

    A node has the colour of the curve of its group in `draw_curves`. The legend belongs
    to the figure, which should have the layout "constrained".

    Args:
      ax: where to draw.
      graph: the graph.
      points: where the nodes are, from `place_nodes`.
      groups: from `representatives`.
      spread: of the filters, `Filters.spread`.

    Example:
      >>> edge, ax = Graph.from_edges([(0, 1)], num_nodes=2), Figure().add_subplot()
      >>> groups = Representatives(np.zeros(2, int), np.ones((1, 1)), np.asarray([2]))
      >>> draw_map(ax, edge, np.eye(2), groups, spread=0.5)
      >>> ax.figure.legends[0].texts[0].get_text()
      'all 2 nodes'
    """
    pairs = sample_edges(graph, _MAX_EDGES)
    width = float(np.clip(200 / max(len(pairs), 1), 0.05, 0.8))
    lines = LineCollection(
        points[pairs].tolist(),
        colors="0.7",
        linewidths=width,
        rasterized=len(pairs) > _MAX_VECTORS,
    )
    ax.add_collection(lines)
    area = float(np.clip(12_000 / graph.num_nodes, 3, 28))
    rgb = group_colours(len(groups.sizes), spread=spread)
    x, y = points.T
    ax.scatter(
        x,
        y,
        s=area,
        c=rgb[groups.cluster],
        lw=0,
        zorder=2,
        rasterized=graph.num_nodes > _MAX_VECTORS,
    )
    for colour, label in zip(rgb, _labels(groups), strict=True):
        ax.scatter([], [], s=28, color=colour, lw=0, label=label)
    ax.set(aspect="equal")
    ax.axis("off")
    # nodes may be anywhere in the map: the legend is below it
    ax.figure.legend(
        loc="outside lower center",
        ncols=_LEGEND_COLUMNS,
        fontsize="small",
        handletextpad=0.1,
        columnspacing=1.0,
    )


def map_size(
    points: Float[np.ndarray, "N 2"], groups: Representatives
) -> tuple[float, float]:
    """Width and height of a map in inches that leave little empty space.

    Example:
      >>> groups = Representatives(np.zeros(2, int), np.ones((1, 1)), np.asarray([2]))
      >>> [round(side, 2) for side in map_size(np.eye(2), groups)]
      [4.5, 4.85]
    """
    width, height = np.maximum(np.ptp(points, axis=0), 1e-9)
    rows = -(-len(groups.sizes) // _LEGEND_COLUMNS)
    return 4.5, 4.5 * float(np.clip(height / width, 0.5, 1.3)) + 0.15 + 0.2 * rows


def _labels(groups: Representatives) -> list[str]:
    if len(groups.sizes) == 1:
        return [f"all {groups.sizes[0]:,} nodes"]
    return [
        f"group {i}: {size:,} node{'s' if size > 1 else ''}"
        for i, size in enumerate(groups.sizes)
    ]


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
    known = local[np.isfinite(local)]
    label = f"{len(known):,} nodes"
    ax.hist(known, bins=30, range=(0, 1), color=PALETTE[0], label=label)
    ax.axvline(overall, color="k", ls="--", lw=1, label=f"whole graph: {overall:.2f}")
    ax.set(xlabel=f"local label homophily, {hops} hops", ylabel="nodes", xlim=(0, 1))
    # bars may be anywhere: the legend is above them
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


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
    rgb = group_colours(len(ratios))
    for colour, (name, row) in zip(rgb, ratios.items(), strict=True):
        ax.hist(row, bins, histtype="step", lw=1.3, color=colour, label=name)
    label = f"local over global frequency, $λ_{{n,i}} / λ_n$, {hops} hops"
    ax.set(xlabel=label, ylabel="nodes", yscale="log", xlim=(0, most))
    ax.locator_params(axis="x", nbins=6)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0))


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
        label="θ of the nodes: median, 5 to 95 %",
    )
    label = "γ, shared by the nodes"
    ax.plot(orders + 0.1, filters.gamma, "s", ms=4, color=PALETTE[1], label=label)
    ax.axhline(0, color="0.7", lw=0.8, zorder=0)
    ax.set(xlabel="order k", ylabel="weight of the order", xticks=orders)
    ax.legend()
