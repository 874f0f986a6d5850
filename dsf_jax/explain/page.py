"""One self-contained HTML page to explore the filters of a trained model.

plotly.js is written into the page, which forbids itself any network access. It comes
with `pip install dsf-jax[explain]` and is imported when called.
"""

import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
from jaxtyping import Float

from dsf_jax.explain.layout import list_edges, sample_edges
from dsf_jax.explain.palette import group_colours, hexadecimal
from dsf_jax.explain.reading import Filters, Representatives
from dsf_jax.explain.summary import NodeQuantity, Quantity
from dsf_jax.graph.graph import Graph

MAX_DRAWN = 40_000  # edges; the neighbours of a node are always all of them


def make_page(
    graph: Graph,
    filters: Filters,
    basis_values: Float[np.ndarray, "K1 G"],
    groups: Representatives,
    curves: Float[np.ndarray, "R G"],
    *,
    points: Float[np.ndarray, "N 2"],
    similar: Float[np.ndarray, "N 3"],
    of_node: Sequence[NodeQuantity],
    of_model: Sequence[Quantity],
    of_graph: Sequence[Quantity],
    title: str,
    notice: str = "",
    node: int = 0,
) -> str:
    """The page as text.

    It shows the graph, its nodes in the colours of their groups; the curves of the
    groups in the same colours, each leading to its nodes; the filter of the node under
    the mouse, clicked, searched or stepped to; and what is known of that node, of the
    model and of the graph, all explained on hover and focus. Nodes may be coloured by
    similar weights or by θ_{k,i} of the order on the slider instead.

    Args:
      graph: the graph.
      filters: of the model.
      basis_values: P_k on the grid `filters.lam`.
      groups: from `representatives`.
      curves: response of each centre.
      points: where the nodes are, from `place_nodes`.
      similar: colours of the nodes by similar weights, from `colours`.
      of_node: quantities of every node.
      of_model: quantities of the model.
      of_graph: quantities of the graph.
      title: heading of the page.
      notice: a line below it.
      node: the node that is shown first.

    Returns:
      The page.

    Raises:
      ValueError: if there is no such node.

    Example:
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> one, curve = np.ones((1, 2)), np.ones(3)
      >>> filters = Filters(one[:, 0], one, one, curve, np.ones((2, 3)), curve)
      >>> page = make_page(
      ...     edge,
      ...     filters,
      ...     np.ones((1, 3)),
      ...     Representatives(np.zeros(2, int), one[:, :1], np.asarray([2])),
      ...     curve[None],
      ...     points=np.eye(2),
      ...     similar=np.ones((2, 3)),
      ...     of_node=[NodeQuantity("degree", np.ones(2), "Number of neighbours.")],
      ...     of_model=[],
      ...     of_graph=[],
      ...     title="An edge",
      ... )
      >>> "<title>An edge</title>" in page, "https://cdn" in page[:5000]
      (True, False)
    """
    check_node(node, graph.num_nodes)
    rgb = group_colours(len(groups.sizes), spread=filters.spread)
    data = {
        "notice": notice,
        "node": node,
        "x": _numbers(points[:, 0]),
        "y": _numbers(points[:, 1]),
        "edges": list_edges(graph).tolist(),
        "drawn": None
        if graph.num_edges <= MAX_DRAWN
        else sample_edges(graph, MAX_DRAWN).tolist(),
        "groups": {
            "of": groups.cluster.tolist(),
            "sizes": groups.sizes.tolist(),
            "colours": [hexadecimal(colour) for colour in rgb],
            "curves": [_numbers(curve) for curve in curves],
        },
        "similar": [hexadecimal(colour) for colour in similar],
        "theta": [_numbers(row) for row in filters.theta],
        "beta": [_numbers(row) for row in filters.beta],
        "lam": _numbers(filters.lam),
        "basis": [_numbers(row) for row in basis_values],
        "shared": _numbers(filters.shared),
        "ofNode": [
            found._asdict() | {"values": _numbers(found.values, digits=3)}
            for found in of_node
        ],
        "ofModel": [found._asdict() for found in of_model],
        "ofGraph": [found._asdict() for found in of_graph],
    }
    return _fill(title, data)


def check_node(node: int, num_nodes: int) -> None:
    """Refuse the number of a node that does not exist.

    Example:
      >>> check_node(7, 5)
      Traceback (most recent call last):
      ValueError: node must lie in [0, 4], got 7; nodes are numbered from 0.
    """
    if not 0 <= node < num_nodes:
        raise ValueError(
            f"node must lie in [0, {num_nodes - 1}], got {node}; nodes are numbered "
            "from 0."
        )


def _fill(title: str, data: Mapping[str, Any]) -> str:
    from plotly.offline import get_plotlyjs

    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    template = (
        resources.files("dsf_jax.explain").joinpath("page.html").read_text("utf-8")
    )
    values = {
        "__TITLE__": html.escape(title),
        "__DATA__": text.replace("<", "\\u003c"),  # no text can close the script
        "__PLOTLY__": get_plotlyjs(),
    }
    # in one pass: what is filled in may contain such names, too
    return re.sub("|".join(values), lambda match: values[match[0]], template)


def _numbers(row: np.ndarray, digits: int = 5) -> list[float | int | None]:
    """Five digits are more than a curve shows; JSON has no NaN."""
    if np.issubdtype(row.dtype, np.integer):
        return row.tolist()
    return [
        float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in row
    ]
