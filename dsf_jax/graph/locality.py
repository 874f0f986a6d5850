"""Local properties of a graph, node by node (Definitions 1 and 2), on the host.

Both are sums over the edges of the subgraph on the k-hop neighbours of a node. An edge
is in the subgraph if both of its ends are near, so the sums around a block of nodes are
one product: values [V, E] times the 0/1 matrix [E, block] of edges inside. Blocks are
small: no N x N array.
"""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from dsf_jax.graph.graph import Graph

BLOCK_ENTRIES = 2**22  # of the 0/1 matrix; 32 MB in float64
_COLUMNS = 64  # of eigenvectors at a time


def local_homophily(
    graph: Graph, labels: Int[np.ndarray, " N"], *, hops: int = 2
) -> Float[np.ndarray, " N"]:
    """Local label homophily h_i (Definition 1).

        h_i = |{(p, q) ∈ E_{i,k} : y_p = y_q}| / |E_{i,k}|

    Args:
      graph: the graph; weights are not looked at.
      labels: class of each node; edges at a node of class -1 do not count.
      hops: k, at least 1. The paper draws k = 2.

    Returns:
      One value per node, NaN where no edge is near.

    Example:
      >>> path = Graph.from_edges([(0, 1), (1, 2), (2, 3)], num_nodes=4)
      >>> local_homophily(path, np.asarray([0, 0, 1, 1]), hops=1).tolist()
      [1.0, 0.5, 0.5, 1.0]
    """
    one, other, _ = _undirected(graph)
    is_known = (labels[one] >= 0) & (labels[other] >= 0)
    is_equal = is_known & (labels[one] == labels[other])
    values = np.stack([is_equal, is_known]).astype(np.float64)
    equal, all_edges = _local_edge_sums(graph, values, hops)
    is_empty = all_edges == 0
    return np.where(is_empty, np.nan, equal / np.where(is_empty, 1.0, all_edges))


def local_frequency(
    graph: Graph, eigvecs: Float[np.ndarray, "N n"], *, hops: int = 2
) -> Float[np.ndarray, "n N"]:
    """Local graph frequency λ_{n,i} of eigenvectors of L̂ (Definition 2).

        λ_{n,i} = Σ_{(p,q) ∈ E_{i,k}} (u_{n,p} / √deg_p - u_{n,q} / √deg_q)²

    Over all edges this is λ_n (Eq. 1), so 0 <= λ_{n,i} <= λ_n.

    Args:
      graph: the graph; a weighted edge counts with its weight.
      eigvecs: eigenvectors u_n in columns.
      hops: k, at least 1.

    Returns:
      One row per eigenvector, one column per node.

    Example:
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> alternating = np.asarray([[0.5**0.5], [-(0.5**0.5)]])
      >>> local_frequency(edge, alternating, hops=1).round(6).tolist()
      [[2.0, 2.0]]
    """
    columns = [column[:, None] for column in eigvecs.T]
    return eigenspace_frequency(graph, columns, hops=hops)


def eigenspace_frequency(
    graph: Graph, spaces: Sequence[Float[np.ndarray, "N _"]], *, hops: int = 2
) -> Float[np.ndarray, "n N"]:
    """Local graph frequency of eigenspaces: the mean of λ_{n,i} over a basis of each.

        (1 / m) Σ_{(p,q) ∈ E_{i,k}} |u_p / √deg_p - u_q / √deg_q|²,   u_p the row of U

    An eigenvector of a repeated eigenvalue is arbitrary; this mean is not, since the
    lengths of rows do not change when U is rotated. One column: `local_frequency`.

    Args:
      graph: the graph; a weighted edge counts with its weight.
      spaces: orthonormal eigenvectors of each eigenspace, [N, m]; m may differ.
      hops: k, at least 1.

    Returns:
      One row per eigenspace, one column per node.

    Example:
      >>> triangle = Graph.from_edges([(0, 1), (1, 2), (2, 0)], num_nodes=3)
      >>> double = np.linalg.eigh(np.full((3, 3), 1.0) - np.eye(3)).eigenvectors[:, :2]
      >>> eigenspace_frequency(triangle, [double], hops=1).round(6).tolist()
      [[1.5, 1.5, 1.5]]
    """
    one, other, weights = _undirected(graph)
    degrees = graph.to_scipy().sum(axis=1)
    scale = 1 / np.sqrt(np.where(degrees > 0, degrees, 1.0))
    values = np.zeros((len(spaces), len(weights)))
    for row, vectors in zip(values, spaces, strict=True):
        for start in range(0, vectors.shape[1], _COLUMNS):
            scaled = scale[:, None] * vectors[:, start : start + _COLUMNS]
            row += np.einsum("em->e", (scaled[one] - scaled[other]) ** 2)
        row *= weights / vectors.shape[1]
    return _local_edge_sums(graph, values, hops)


def _undirected(
    graph: Graph,
) -> tuple[Int[np.ndarray, " e"], Int[np.ndarray, " e"], Float[np.ndarray, " e"]]:
    """Both ends of every edge, listed once, and its weight."""
    one, other = np.asarray(graph.receivers), np.asarray(graph.senders)
    once = one < other
    return one[once], other[once], np.asarray(graph.weights, dtype=np.float64)[once]


def _local_edge_sums(
    graph: Graph, values: Float[np.ndarray, "V e"], hops: int
) -> Float[np.ndarray, "V N"]:
    """Sums of edge values over the subgraph around every node."""
    if hops < 1:
        raise ValueError(
            f"hops must be at least 1, got {hops}; the paper uses two-hop neighbours."
        )
    num_nodes = graph.num_nodes
    one, other, _ = _undirected(graph)
    pattern = graph.to_scipy().astype(bool).astype(np.float64)
    is_near = sp.csr_array(pattern + sp.eye_array(num_nodes))
    sums = np.empty((len(values), num_nodes))
    block = max(BLOCK_ENTRIES // max(len(one), num_nodes), 1)
    for start in range(0, num_nodes, block):
        nodes = slice(start, min(start + block, num_nodes))
        inside = is_near[:, nodes].toarray() > 0  # symmetric: columns are rows
        for _ in range(hops - 1):
            inside = is_near @ inside.astype(np.float64) > 0
        sums[:, nodes] = values @ (inside[one] & inside[other]).astype(np.float64)
    return sums
