"""Local properties of a graph, node by node (Definitions 1 and 2), on the host.

Both are sums over the edges of the subgraph on the k-hop neighbours of a node. With M
the N x N indicator of neighbourhoods and V a symmetric matrix of edge values, the sum
around node i is [M V Mᵀ]_ii / 2. Rows of M are made in blocks: no N x N array.
"""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from dsf_jax.graph import Graph

BLOCK_ROWS = 256


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
    senders, receivers = np.asarray(graph.senders), np.asarray(graph.receivers)
    is_known = (labels[senders] >= 0) & (labels[receivers] >= 0)
    is_equal = is_known & (labels[senders] == labels[receivers])
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
    degrees = graph.to_scipy().sum(axis=1)
    scaled = eigvecs / np.sqrt(np.where(degrees > 0, degrees, 1.0))[:, None]
    gaps = scaled[np.asarray(graph.senders)] - scaled[np.asarray(graph.receivers)]
    weights = np.asarray(graph.weights, dtype=np.float64)
    return _local_edge_sums(graph, (weights[:, None] * gaps**2).T, hops)


def _local_edge_sums(
    graph: Graph, values: Float[np.ndarray, "V E"], hops: int
) -> Float[np.ndarray, "V N"]:
    """Sums of edge values over the subgraph around every node."""
    if hops < 1:
        raise ValueError(
            f"hops must be at least 1, got {hops}; the paper uses two-hop neighbours."
        )
    num_nodes = graph.num_nodes
    entries = (np.asarray(graph.receivers), np.asarray(graph.senders))
    shape = (num_nodes, num_nodes)
    matrices = [sp.csr_array((row, entries), shape=shape) for row in values]
    is_near = sp.csr_array(graph.to_scipy() + sp.eye_array(num_nodes))
    sums = np.empty((len(values), num_nodes))
    for start in range(0, num_nodes, BLOCK_ROWS):
        rows = slice(start, min(start + BLOCK_ROWS, num_nodes))
        reached = is_near[:, rows].toarray()  # columns of M, which is symmetric
        for _ in range(hops - 1):
            reached = is_near @ reached
        inside = (reached > 0).astype(np.float64)
        for i, matrix in enumerate(matrices):
            sums[i, rows] = np.einsum("nb,nb->b", inside, matrix @ inside) / 2
    return sums
