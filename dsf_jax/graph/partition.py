"""Nodes in parts of about equal size with few edges between them, on the host.

A device that has one part needs signals of its *halo*: nodes of other parts that its
own are joined to. METIS (the package pymetis) keeps it small; without that package,
blocks of the reverse Cuthill-McKee order do, which on real graphs are four times worse.
"""

from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int
from scipy.sparse.csgraph import reverse_cuthill_mckee


class Partition(NamedTuple):
    """Parts of the nodes; from `partition_nodes`.

    Example:
      >>> path = sp.diags_array([np.ones(3), np.ones(3)], offsets=[-1, 1])
      >>> found = partition_nodes(path, 2, method="blocks")
      >>> print(found)
      2 parts of at most 2 nodes (blocks): halo 0.50 of all nodes, 0.50 filled up
    """

    part: Int[np.ndarray, " N"]  # of every node
    sends: Int[np.ndarray, "P P"]  # nodes of part p that part q needs
    method: str

    @property
    def sizes(self) -> Int[np.ndarray, " P"]:
        """Nodes of every part."""
        return np.bincount(self.part, minlength=len(self.sends))

    @property
    def halo(self) -> float:
        """Rows that all parts need of others in a product, per node."""
        return float(self.sends.sum() / len(self.part))

    @property
    def filled(self) -> float:
        """The same if each sends each other as many rows as the largest number."""
        num_parts = len(self.sends)
        pairs = num_parts * (num_parts - 1)
        return float(pairs * self.sends.max() / len(self.part))

    def __str__(self) -> str:
        """For people."""
        return (
            f"{len(self.sends)} parts of at most {self.sizes.max():,} nodes "
            f"({self.method}): halo {self.halo:.2f} of all nodes, {self.filled:.2f} "
            "filled up"
        )


def partition_nodes(matrix: Any, num_parts: int, *, method: str = "auto") -> Partition:
    """Share out the nodes of a symmetric matrix.

    Args:
      matrix: adjacency or an operator of the graph, sparse; its values do not matter.
      num_parts: P, at most the number of nodes.
      method: `metis`, `blocks` of the reverse Cuthill-McKee order, or `auto`: the first
        if pymetis is installed.

    Returns:
      The parts, and what each needs of the others.

    Raises:
      ValueError: if there are not enough nodes, or the method is not known.

    Example:
      >>> cliques = sp.block_diag([sp.coo_array(np.ones((3, 3)))] * 2)
      >>> partition_nodes(cliques, 2, method="blocks").halo
      0.0
    """
    csr = sp.csr_array(matrix)
    csr = sp.csr_array(csr - sp.diags_array(csr.diagonal()))
    csr.eliminate_zeros()
    num_nodes = csr.shape[0]
    if not 1 <= num_parts <= num_nodes:
        raise ValueError(
            f"num_parts must lie in 1..{num_nodes}, got {num_parts}; a part has at "
            "least one node."
        )
    if method == "auto":
        method = "blocks" if find_spec("pymetis") is None else "metis"
    part = np.empty(num_nodes, dtype=np.int64)
    if method == "metis":
        import pymetis

        adjacency = pymetis.CSRAdjacency(csr.indptr, csr.indices)
        part[:] = pymetis.part_graph(num_parts, adjacency)[1]
    elif method == "blocks":
        order = reverse_cuthill_mckee(csr, symmetric_mode=True)
        part[order] = np.arange(num_nodes) * num_parts // num_nodes
    else:
        raise ValueError(
            f"method must be auto, metis or blocks, got {method!r}; auto suits most."
        )
    return Partition(part, _count_sends(csr, part, num_parts), method)


def _count_sends(
    csr: sp.csr_array, part: Int[np.ndarray, " N"], num_parts: int
) -> Int[np.ndarray, "P P"]:
    rows = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
    needs = np.unique(np.column_stack([part[rows], csr.indices]), axis=0)
    sends = np.zeros((num_parts, num_parts), dtype=np.int64)
    np.add.at(sends, (part[needs[:, 1]], needs[:, 0]), 1)
    np.fill_diagonal(sends, 0)
    return sends
