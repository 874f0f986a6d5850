"""Homophily of a whole graph (Sec. 3): how often an edge joins equal classes."""

import numpy as np
from jaxtyping import Int

from dsf_jax.graph.graph import Graph


def edge_homophily(graph: Graph, labels: Int[np.ndarray, " N"]) -> float:
    """Share of edges that join equal classes, H (Section 3).

        H = |{(i, j) ∈ E : y_i = y_j}| / |E|

    Args:
      graph: the graph; weights are not looked at.
      labels: class of each node; edges at a node of class -1 do not count.

    Returns:
      H, NaN without edges.

    Example:
      >>> path = Graph.from_edges([(0, 1), (1, 2), (2, 3)], num_nodes=4)
      >>> round(edge_homophily(path, np.asarray([0, 0, 1, 1])), 3)
      0.667
    """
    one, other = _labelled_ends(graph, labels)
    return float(np.mean(one == other)) if len(one) else float("nan")


def class_homophily(graph: Graph, labels: Int[np.ndarray, " N"]) -> float:
    """Homophily beyond chance, insensitive to class sizes, H_class (Lim et al. 2021).

        H_class = Σ_c max(0, h_c - n_c / N) / (C - 1)

    where h_c is the share of equal ends among the edge ends at class c, and n_c its
    size. A class without edges adds nothing.

    Args:
      graph: the graph; weights are not looked at.
      labels: class of each node; nodes of class -1 and their edges do not count.

    Returns:
      H_class, NaN with fewer than two classes.

    Example:
      >>> path = Graph.from_edges([(0, 1), (1, 2), (2, 3)], num_nodes=4)
      >>> round(class_homophily(path, np.asarray([0, 0, 1, 1])), 3)  # 2 (2/3 - 1/2)
      0.333
    """
    one, other = _labelled_ends(graph, labels)
    sizes = np.bincount(labels[labels >= 0])
    if len(sizes) < 2:
        return float("nan")
    ends = np.bincount(one, minlength=len(sizes))
    equal = np.bincount(one[one == other], minlength=len(sizes))
    share = equal / np.maximum(ends, 1)
    excess = np.maximum(share - sizes / sizes.sum(), 0.0)
    return float(excess.sum() / (len(sizes) - 1))


def _labelled_ends(
    graph: Graph, labels: Int[np.ndarray, " N"]
) -> tuple[Int[np.ndarray, " e"], Int[np.ndarray, " e"]]:
    """Classes at both ends of every entry, entries at unlabelled nodes left out."""
    one = labels[np.asarray(graph.receivers)]
    other = labels[np.asarray(graph.senders)]
    is_known = (one >= 0) & (other >= 0)
    return one[is_known], other[is_known]
