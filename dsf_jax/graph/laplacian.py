"""LapPE: leading eigenvectors of L̂, with what a solver leaves open fixed (App. C.2)."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from dsf_jax.graph.eigensolver import leading_eigenpairs
from dsf_jax.graph.graph import Graph, normalise
from dsf_jax.graph.krylov import large_eigenpairs
from dsf_jax.graph.products import RowProduct

NUM_COLUMNS = 32  # the largest f_p of the published search

_DENSE_NODES = 512  # components up to here are solved as dense matrices
_LARGE_NODES = 50_000  # larger ones to the tolerance of `krylov`, not to rounding
_SIGN_TIE = 1e-6  # of equally large entries the first decides, not their rounding


class LaplacianFeatures(NamedTuple):
    """LapPE and its spectrum."""

    x: Float[np.ndarray, "N Fp"]  # unit columns; 0 where the graph has no more
    eigenvalues: Float[np.ndarray, " Fp"]  # of the columns; NaN where it has no more
    num_zero_eigenvalues: int  # of L_hat: connected components with edges
    residuals: Float[np.ndarray, " Fp"]  # |L̂ x - μ x| of the columns; 0 where none


def laplacian_features(
    graph: Graph,
    *,
    num_columns: int = NUM_COLUMNS,
    on_progress: Callable[[float], None] | None = None,
) -> LaplacianFeatures:
    """LapPE: eigenvectors 2..f_p + 1 of L̂ = I - Â by ascending eigenvalue.

    The first is skipped, as in the authors' code; Appendix C.2 prints u_1..u_fp. What
    an eigensolver leaves open is fixed:

    - null space: D^1/2 1_c, normalised, for each connected component c with edges,
      larger components first, ties by smallest node;
    - sign: the entry of largest magnitude is positive, the first of equal ones;
    - isolated nodes: unit vectors with eigenvalue 1.

    Rotations inside other repeated eigenvalues are arbitrary, but the same in each run.
    Components of up to 50,000 nodes are solved to rounding. Larger ones are solved to
    residuals of 1e-6 of the eigenvalue; should that take too long, `residuals` tells
    how far they are.

    Args:
      graph: the graph, weighted or not.
      num_columns: number of columns f_p, at least 1.
      on_progress: called with a rough share of the work now and then.

    Returns:
      The columns, their eigenvalues and residuals, and the dimension of the null space.

    Raises:
      ValueError: if `num_columns` is below 1.
      RuntimeError: if a component of up to 50,000 nodes does not converge.

    Example:
      >>> two_edges = Graph.from_edges([(0, 1), (2, 3)], num_nodes=4)
      >>> features = laplacian_features(two_edges, num_columns=1)
      >>> features.x[:, 0].round(2).tolist(), features.num_zero_eigenvalues
      ([0.0, 0.0, 0.71, 0.71], 2)
    """
    check_count("num_columns", num_columns)
    adjacency = graph.to_scipy()
    a_hat = normalise(adjacency)
    null_space = _null_space(adjacency)
    pairs = list(null_space)
    num_missing = num_columns + 1 - len(pairs)
    if num_missing > 0:
        num_done = 0

        def report(share: float) -> None:
            if on_progress is not None:
                on_progress((num_done + share * len(null.nodes)) / graph.num_nodes)

        for null in null_space:
            pairs += _component_pairs(a_hat, null, num_missing, report)
            report(1.0)
            num_done += len(null.nodes)
        isolated = np.flatnonzero(np.diff(adjacency.indptr) == 0)[:num_missing]
        pairs += [_Pair(1.0, node, np.ones(1)) for node in isolated[:, None]]
    pairs.sort(key=lambda pair: pair.eigenvalue)  # stable: the null space stays first

    x = np.zeros((graph.num_nodes, num_columns))
    eigenvalues = np.full(num_columns, np.nan)
    for column, pair in enumerate(pairs[1 : num_columns + 1]):
        size = np.abs(pair.vector)
        anchor = np.argmax(size >= (1 - _SIGN_TIE) * size.max())
        x[pair.nodes, column] = pair.vector * np.sign(pair.vector[anchor])
        eigenvalues[column] = pair.eigenvalue
    with RowProduct(a_hat) as product:
        images = product(x)
    images += x * (np.nan_to_num(eigenvalues) - 1)
    residuals = np.linalg.norm(images, axis=0)
    return LaplacianFeatures(x, eigenvalues, len(null_space), residuals)


def check_count(name: str, value: int) -> None:
    """Refuse numbers below 1.

    Example:
      >>> check_count("block", 0)
      Traceback (most recent call last):
      ValueError: block must be at least 1, got 0; leave it out for the default.
    """
    if value < 1:
        raise ValueError(
            f"{name} must be at least 1, got {value}; leave it out for the default."
        )


class _Pair(NamedTuple):
    """Eigenpair of L_hat; the vector, of unit norm, is zero outside `nodes`."""

    eigenvalue: float
    nodes: Int[np.ndarray, " n"]
    vector: Float[np.ndarray, " n"]


def _null_space(adjacency: sp.csr_array) -> list[_Pair]:
    _, labels = sp.csgraph.connected_components(adjacency, directed=False)
    by_label = np.argsort(labels, kind="stable")
    components = np.split(by_label, np.cumsum(np.bincount(labels))[:-1])
    components.sort(key=lambda nodes: (-len(nodes), nodes[0]))
    roots = np.sqrt(adjacency.sum(axis=1))
    return [
        _Pair(0.0, nodes, roots[nodes] / np.linalg.norm(roots[nodes]))
        for nodes in components
        if len(nodes) > 1
    ]


def _component_pairs(
    a_hat: sp.csr_array, null: _Pair, count: int, report: Callable[[float], None]
) -> list[_Pair]:
    """The `count` eigenpairs after the null vector of a component, or all it has."""
    part = sp.csr_array(a_hat[null.nodes][:, null.nodes])
    count = min(count, len(null.nodes) - 1)
    if len(null.nodes) <= max(_DENSE_NODES, 4 * count):
        # moves the null vector to -2: -1 may be an eigenvalue of its own
        deflated = part.toarray() - 3 * np.outer(null.vector, null.vector)
        values, vectors = np.linalg.eigh(deflated)
    elif len(null.nodes) <= _LARGE_NODES:
        values, vectors = leading_eigenpairs(part, null.vector, count)
    else:
        values, vectors = large_eigenpairs(part, null.vector, count, on_progress=report)
    return [
        # rounding must not move a tiny eigenvalue before the null space
        _Pair(max(0.0, 1.0 - float(values[-i])), null.nodes, vectors[:, -i])
        for i in range(1, count + 1)
    ]
