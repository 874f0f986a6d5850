"""Eigenspaces of L̂, and the ratio ξ of local to global frequency over all of them.

The paper writes λ_{n,i} = ξ_i λ_n with one constant per node and concludes, with
Proposition 1, that f(λ_{n,i}) is a polynomial of λ_n. The ratio depends on n, too; how
much is what `ratio_spread` measures. On the host and dense: some thousand nodes.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Float

from dsf_jax.graph.graph import Graph, normalise
from dsf_jax.graph.locality import eigenspace_frequency

FREQUENCIES = ("low", "middle", "high")
MAX_NODES = 10_000  # of a dense decomposition: 0.8 GB
_SAME = 1e-8  # eigenvalues nearer than this are copies of one
_ZERO = 1e-9
_MAX_SPACES = 100  # that the spread is measured on
_ORDER = 10  # K of the polynomial fit


class Eigenspace(NamedTuple):
    """An eigenvalue with orthonormal vectors that span its space.

    Example:
      >>> Eigenspace(1.0, np.eye(3)[:, :2]).multiplicity
      2
    """

    eigval: float
    vectors: Float[np.ndarray, "N m"]

    @property
    def multiplicity(self) -> int:
        """How often the eigenvalue occurs."""
        return self.vectors.shape[1]


class RatioSpread(NamedTuple):
    """How far ξ_{n,i} = λ_{n,i} / λ_n is from one number per node; medians of nodes."""

    smallest: float  # of a node over all n
    median: float
    largest: float
    zeros: float  # share of all pairs (n, i) with ξ = 0
    linear: float  # R² of λ_{n,i} = ξ_i λ_n with the best ξ_i of a node
    fit: float  # R² of the best polynomial of λ_n of order 10


def eigenspaces(graph: Graph) -> list[Eigenspace]:
    """All eigenspaces of L̂ = I - Â, by ascending eigenvalue, from a dense solver.

    Args:
      graph: the graph, of at most `MAX_NODES` nodes.

    Returns:
      One entry per different eigenvalue; multiplicities sum to N.

    Raises:
      ValueError: if the graph is too large for a dense matrix.

    Example:
      >>> star = Graph.from_edges([(0, 1), (0, 2), (0, 3)], num_nodes=4)
      >>> [(round(s.eigval, 6), s.multiplicity) for s in eigenspaces(star)]
      [(0.0, 1), (1.0, 2), (2.0, 1)]
    """
    if graph.num_nodes > MAX_NODES:
        raise ValueError(
            f"graph must have at most {MAX_NODES:,} nodes for all eigenvectors, got "
            f"{graph.num_nodes:,}; local homophily has no such limit."
        )
    # L̂ of a node without edges is 1: its row of Â is zero
    dense = np.eye(graph.num_nodes) - normalise(graph.to_scipy()).toarray()
    eigvals, eigvecs = scipy.linalg.eigh(dense, overwrite_a=True, driver="evd")
    cuts = 0, *(np.flatnonzero(np.diff(eigvals) > _SAME) + 1), graph.num_nodes
    return [
        Eigenspace(max(float(np.mean(eigvals[i:j])), 0.0), eigvecs[:, i:j])
        for i, j in itertools.pairwise(cuts)
    ]


def representative_spaces(spaces: Sequence[Eigenspace]) -> dict[str, Eigenspace]:
    """The eigenspaces that the paper draws (Figures 2 and 6): low, middle and high.

    Low is the smallest eigenvalue above 0 (at 0 every local frequency is 0), middle the
    one of rank N / 2, high the largest.

    Example:
      >>> star = Graph.from_edges([(0, 1), (0, 2), (0, 3)], num_nodes=4)
      >>> chosen = representative_spaces(eigenspaces(star))
      >>> [round(chosen[name].eigval, 6) for name in FREQUENCIES]
      [1.0, 1.0, 2.0]
    """
    ends = np.cumsum([space.multiplicity for space in spaces])
    middle = int(np.searchsorted(ends, ends[-1] // 2, side="right"))
    positive = [space for space in spaces if space.eigval > _ZERO]
    low = positive[0] if positive else spaces[0]
    return dict(zip(FREQUENCIES, (low, spaces[middle], spaces[-1]), strict=True))


def frequency_ratios(
    graph: Graph, spaces: Sequence[Eigenspace], *, hops: int = 2
) -> Float[np.ndarray, "n N"]:
    """Ratios ξ_{n,i} = λ_{n,i} / λ_n, in [0, 1], of eigenspaces with λ_n > 0.

    Example:
      >>> path = Graph.from_edges([(0, 1), (1, 2), (2, 3)], num_nodes=4)
      >>> positive = eigenspaces(path)[1:]
      >>> frequency_ratios(path, positive, hops=1)[:, 0].round(3).tolist()
      [0.167, 0.5, 0.333]
    """
    local = eigenspace_frequency(graph, [space.vectors for space in spaces], hops=hops)
    return local / np.asarray([space.eigval for space in spaces])[:, None]


def ratio_spread(
    graph: Graph, spaces: Sequence[Eigenspace], *, hops: int = 2
) -> RatioSpread:
    """How well "one ξ_i per node" and "a polynomial per node" describe λ_{n,i}.

    R² is 1 - |λ_{n,i} - fit|² / |λ_{n,i}|² over n, the median of all nodes whose local
    frequencies are not all 0. With a constant ratio both fits would be exact.

    Args:
      graph: the graph.
      spaces: from `eigenspaces`; 100 with λ_n > 0, evenly spaced by rank, are used.
      hops: k of the neighbourhood.

    Returns:
      The spread.

    Example:
      >>> path = Graph.from_edges([(0, 1), (1, 2), (2, 3)], num_nodes=4)
      >>> spread = ratio_spread(path, eigenspaces(path), hops=1)
      >>> round(spread.smallest, 3), round(spread.largest, 3)
      (0.333, 0.667)
    """
    positive = [space for space in spaces if space.eigval > _ZERO]
    count = min(_MAX_SPACES, len(positive))
    chosen = np.unique(np.linspace(0, len(positive) - 1, count).round().astype(int))
    used = [positive[i] for i in chosen]
    ratios = frequency_ratios(graph, used, hops=hops)
    lam = np.asarray([space.eigval for space in used])
    local = ratios * lam[:, None]
    powers = np.vander(lam - 1, min(_ORDER + 1, len(lam)))
    return RatioSpread(
        smallest=float(np.median(ratios.min(axis=0))),
        median=float(np.median(ratios)),
        largest=float(np.median(ratios.max(axis=0))),
        zeros=float(np.mean(ratios < _ZERO)),
        linear=_fit_quality(lam[:, None], local),
        fit=_fit_quality(powers, local),
    )


def _fit_quality(
    design: Float[np.ndarray, "n p"], local: Float[np.ndarray, "n N"]
) -> float:
    """Median over nodes of R² (around 0) of the least-squares fit."""
    weights = np.linalg.lstsq(design, local, rcond=None)[0]
    left = np.sum((local - design @ weights) ** 2, axis=0)
    total = np.sum(local**2, axis=0)
    is_seen = total > _ZERO**2
    return float(np.median(1 - left[is_seen] / total[is_seen]))
