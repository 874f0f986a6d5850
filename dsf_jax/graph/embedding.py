"""NetMF: the matrix that DeepWalk factorises in the limit of long walks, factorised.

PA-GNN reads a DeepWalk embedding that is fixed before training. Its closed form (Qiu et
al., WSDM 2018) has no walks and no learning rate.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float
from scipy.sparse.linalg import eigsh

from dsf_jax.graph.graph import Graph

WIDTH = 64
_BLOCK = 1_024  # rows that are dense at a time
_DENSE = 2_000  # nodes up to which all eigenvectors are computed


def netmf(
    graph: Graph, *, width: int = WIDTH, window: int = 10, negatives: int = 1
) -> Float[np.ndarray, "N M"]:
    """Embedding U √|Σ| of the largest singular values of log max(M, 1).

        M = vol / (b T) (Σ_{r=1..T} (D^-1 A)^r) D^-1,    vol = Σ_i d_i

    M is symmetric: singular vectors are eigenvectors. On the host, in float64; the
    matrix has a row per node and as many entries as M has above 1. An isolated node,
    and columns that a small graph cannot fill, are 0. Where a value is repeated, any
    basis of its vectors is as good: up to 2,000 nodes it is always the same one.

    Args:
      graph: the graph.
      width: columns of the embedding.
      window: steps of a walk that count as neighbours, T.
      negatives: negative samples of DeepWalk's objective, b.

    Returns:
      The embedding, columns by falling singular value, the largest entry of each
      positive.

    Example:
      >>> triangle = Graph.from_edges([(0, 1), (1, 2), (2, 0)], num_nodes=3)
      >>> netmf(triangle, width=2, window=1).round(3)[:, 0].tolist()
      [0.52, 0.52, 0.52]
    """
    adjacency = graph.to_scipy()
    embedding = np.zeros((graph.num_nodes, width))
    count = min(width, graph.num_nodes)
    matrix = _log_matrix(adjacency, window, negatives)
    if matrix.nnz == 0 or count == 0:
        return embedding
    if graph.num_nodes <= _DENSE:
        values, vectors = np.linalg.eigh(matrix.toarray())
    else:
        # a fixed start: the same result as long as no value is repeated
        start = np.random.Generator(np.random.PCG64(0)).standard_normal(graph.num_nodes)
        values, vectors = eigsh(matrix, k=count, which="LM", v0=start)
    order = np.argsort(-np.abs(values))[:count]
    scaled = vectors[:, order] * np.sqrt(np.abs(values[order]))
    largest = scaled[np.argmax(np.abs(scaled), axis=0), np.arange(count)]
    embedding[:, :count] = scaled * np.sign(largest)
    return embedding


def _log_matrix(adjacency: Any, window: int, negatives: int) -> sp.csr_array:
    """The matrix log max(M, 1), in blocks of rows; entries below 1 are not stored."""
    num_nodes = adjacency.shape[0]
    degrees = adjacency.sum(axis=1)
    inverse = np.zeros_like(degrees)
    np.divide(1, degrees, where=degrees > 0, out=inverse)
    backwards = sp.csr_array(adjacency @ sp.diags_array(inverse))  # (D^-1 A)ᵀ
    scale = degrees.sum() / (negatives * window)
    blocks = []
    for first in range(0, num_nodes, _BLOCK):
        size = min(_BLOCK, num_nodes - first)
        walk = np.eye(num_nodes, size, k=-first)  # columns: where walks are
        total = np.zeros_like(walk)
        for _ in range(window):
            walk = backwards @ walk
            total += walk
        rows = scale * (inverse[:, None] * total).T
        blocks.append(sp.csr_array(np.log(np.maximum(rows, 1))))
    return sp.vstack(blocks, format="csr")
