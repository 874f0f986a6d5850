"""Files that networkx reads: GraphML and its lists of edges; networkx is optional."""

from pathlib import Path
from typing import Any

import numpy as np

from dsf_jax.data.tables import Pairs, Places

LABELS = ("label", "y", "class")  # names of the attribute or column, the first counts
_UNREADABLE = (AttributeError, KeyError, SyntaxError, TypeError, ValueError)


def read_graphml(file: Path) -> Any:
    """A networkx graph whose nodes have `x`, `y` and, where given, `split`.

    `y` is the attribute `label` (or `y`, or `class`), `x` all others but `split`, which
    must be numbers.

    Raises:
      ValueError: if networkx is missing, or the file is not as it must be.

    Example:
      >>> import networkx, tempfile
      >>> graph = networkx.Graph([("a", "b")])
      >>> for node, age in zip(graph, (31, 45)):
      ...     graph.nodes[node].update(label=f"of {node}", age=age)
      >>> file = Path(tempfile.mkdtemp()) / "two.graphml"
      >>> networkx.write_graphml(graph, file)
      >>> read_graphml(file).nodes["b"]
      {'x': [45.0], 'y': 'of b', 'split': ''}
    """
    graph = _read(file, "GraphML", "read_graphml")
    columns = list(
        dict.fromkeys(name for _, row in graph.nodes(data=True) for name in row)
    )
    label = next((name for name in LABELS if name in columns), None)
    numbers = [name for name in columns if name not in (label, "split")]
    if label is None or not numbers:
        raise ValueError(
            f"{file} must have nodes with an attribute 'label' and numbers, the "
            f"features, got {', '.join(columns) or 'none'}; add what is missing."
        )
    for node, row in graph.nodes(data=True):
        for name in numbers:
            if not isinstance(row.get(name), int | float):
                raise ValueError(
                    f"{file}: attribute {name!r} must be a number on every node, got "
                    f"{row.get(name)!r} on {node!r}; fill it or remove the attribute."
                )
        x = [float(row[name]) for name in numbers]
        y, split = str(row.get(label, "")), str(row.get("split", ""))
        row.clear()
        row.update(x=x, y=y, split=split)
    return graph


def read_edgelist(file: Path, nodes: Places) -> Pairs:
    """Edges of a file that `networkx.write_edgelist` wrote; `weight` is used.

    Raises:
      ValueError: if networkx is missing, or the file is not as it must be.

    Example:
      >>> import tempfile
      >>> file = Path(tempfile.mkdtemp()) / "edges.edgelist"
      >>> _ = file.write_text("a b {'weight': 2.0}")
      >>> pairs = read_edgelist(file, Places(np.asarray(["a", "b"]), 2, "nodes.csv"))
      >>> pairs.places.tolist(), pairs.weights.tolist()
      ([[0, 1]], [2.0])
    """
    graph = _read(file, "a file of networkx.write_edgelist", "read_edgelist")
    for node in graph.nodes:
        if node not in nodes.of_words:
            raise ValueError(
                f"{file}: an edge must join nodes of {nodes.file}, got {node!r}; add "
                "the node there or remove the edge."
            )
    listed = list(graph.edges(data="weight", default=1.0))
    places = [(nodes.of_words[one], nodes.of_words[other]) for one, other, _ in listed]
    return Pairs(
        np.asarray(places, dtype=np.int64).reshape(-1, 2),
        np.asarray([weight for _, _, weight in listed], dtype=np.float64),
    )


def _read(file: Path, kind: str, reader: str) -> Any:
    try:
        import networkx
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{file} must be read by the package 'networkx', which is not installed; "
            "run python -m pip install networkx."
        ) from error
    try:
        return getattr(networkx, reader)(file)
    except (*_UNREADABLE, networkx.NetworkXError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(
            f"{file} must be {kind}, got something else ({reason})."
        ) from (error)
