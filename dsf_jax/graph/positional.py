"""Initial positions x_pos of the nodes: LapPE and RWPE (Appendix C.2), on the host.

Both are exact, in float64, without an N x N array. They depend on the graph alone, so
`positional_features` computes them once per graph and keeps them on disk.
"""

import hashlib
import io
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from dsf_jax.graph.eigensolver import leading_eigenpairs
from dsf_jax.graph.graph import Graph, normalise
from dsf_jax.storage import cache_folder, write_whole

KINDS = ("lap", "rw")  # order of the first axis of x_pos
NUM_COLUMNS = 32  # the largest f_p of the published search

_CACHE_VERSION = 1  # raise it when a graph gets other values or another form of file
# what NumPy and zipfile raise on damaged bytes
_UNREADABLE = (OSError, EOFError, LookupError, RuntimeError, ValueError, BadZipFile)
_MAX_THREADS = 8  # of the random walk; each holds three N x block arrays
_DENSE_NODES = 512  # components up to here are solved as dense matrices
_SIGN_TIE = 1e-6  # of equally large entries the first decides, not their rounding


class LaplacianFeatures(NamedTuple):
    """LapPE and its spectrum.

    Example:
      >>> LaplacianFeatures._fields
      ('x', 'eigenvalues', 'num_zero_eigenvalues')
    """

    x: Float[np.ndarray, "N Fp"]  # unit columns; 0 where the graph has no more
    eigenvalues: Float[np.ndarray, " Fp"]  # of the columns; NaN where it has no more
    num_zero_eigenvalues: int  # of L_hat: connected components with edges


class PositionalFeatures(NamedTuple):
    """LapPE and RWPE of one graph.

    Example:
      >>> PositionalFeatures._fields
      ('x_pos', 'eigenvalues', 'num_zero_eigenvalues')
    """

    x_pos: Float[np.ndarray, "2 N 32"]  # x_pos[i] is of the kind KINDS[i]
    eigenvalues: Float[np.ndarray, " 32"]  # as in LaplacianFeatures
    num_zero_eigenvalues: int

    @property
    def note(self) -> str:
        """What a disconnected graph does to LapPE, in a sentence; else empty.

        Example:
          >>> PositionalFeatures(np.zeros((2, 9, 32)), np.zeros(32), 3).note
          'L_hat has 3 zero eigenvalues, one per connected component with edges, so
          LapPE columns 1-2 of 32 hold components and degrees only; RWPE holds more.'
        """
        num_zero = self.num_zero_eigenvalues
        if num_zero <= 1:
            return ""
        return (
            f"L_hat has {num_zero} zero eigenvalues, one per connected component with "
            f"edges, so LapPE columns 1-{min(num_zero - 1, NUM_COLUMNS)} of "
            f"{NUM_COLUMNS} hold components and degrees only; RWPE holds more."
        )


def positional_features(
    graph: Graph,
    *,
    cache: str | os.PathLike[str] | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> PositionalFeatures:
    """LapPE and RWPE with 32 columns each; f_p < 32 columns are the first f_p.

    The result is kept in a file named by the digest of the graph. A damaged file is
    replaced; a folder that cannot be written means no storing, not an error.

    Args:
      graph: the graph.
      cache: folder of the files. If not given: the environment variable
        `DSF_JAX_CACHE`, else `dsf_jax` in `XDG_CACHE_HOME` or `~/.cache`.
      on_progress: as in `random_walk_features`, which takes most of the time; not
        called when the result was stored.

    Returns:
      The features; show `note` to the user where it is not empty.

    Raises:
      RuntimeError: as `laplacian_features`.

    Example:
      >>> import tempfile
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     positional_features(edge, cache=folder).x_pos.shape
      (2, 2, 32)
    """
    folder = cache_folder() if cache is None else Path(cache)
    path = folder / f"positional-{_digest(graph)}.npz"
    features = _read(path, graph.num_nodes)
    if features is None:
        lap = laplacian_features(graph)
        rw = random_walk_features(graph, on_progress=on_progress)
        x_pos = np.stack([lap.x, rw])
        features = PositionalFeatures(x_pos, lap.eigenvalues, lap.num_zero_eigenvalues)
        _write(path, features)
    return features


def random_walk_features(
    graph: Graph,
    *,
    num_powers: int = NUM_COLUMNS,
    block: int = 64,
    on_progress: Callable[[float], None] | None = None,
) -> Float[np.ndarray, "N Fp"]:
    """RWPE: probabilities that a random walk is back at its start (Appendix C.2).

        x_ij = [(A D^-1)^j]_ii = [Â^j]_ii,  j = 1..f_p        0 at isolated nodes

    Â is symmetric, so with Y_m = Â^m E for a block E of unit columns the even powers
    are squared column norms of Y_m and the odd ones inner products with Y_{m-1}: half
    as many products as powers, in O(N x block) memory.

    Args:
      graph: the graph; edges are chosen in proportion to their weights.
      num_powers: number of columns f_p, at least 1.
      block: nodes per block, at least 1; 64 was the fastest at 14,000 and 20,000 nodes.
      on_progress: called with the finished share of the nodes after each block.

    Returns:
      One row per node, column j - 1 for power j.

    Raises:
      ValueError: if `num_powers` or `block` is below 1.

    Example:
      >>> triangle = Graph.from_edges([(0, 1), (1, 2), (2, 0)], num_nodes=3)
      >>> random_walk_features(triangle, num_powers=3)[0].round(2).tolist()
      [0.0, 0.5, 0.25]
    """
    _check_count("num_powers", num_powers)
    _check_count("block", block)
    a_hat = normalise(graph.to_scipy())
    x = np.empty((graph.num_nodes, num_powers))

    def fill(start: int) -> int:
        rows = x[start : start + block]
        last = np.zeros((graph.num_nodes, len(rows)))
        np.fill_diagonal(last[start:], 1.0)
        for j in range(0, num_powers, 2):
            y = a_hat @ last
            rows[:, j] = np.einsum("nb,nb->b", last, y)
            rows[:, j + 1 : j + 2] = np.einsum("nb,nb->b", y, y)[:, None]
            last = y
        return start + len(rows)

    threads = min(os.cpu_count() or 1, _MAX_THREADS)  # scipy's product frees the GIL
    with ThreadPoolExecutor(threads) as pool:
        for num_done in pool.map(fill, range(0, graph.num_nodes, block)):
            if on_progress is not None:
                on_progress(num_done / graph.num_nodes)
    return x


def laplacian_features(
    graph: Graph, *, num_columns: int = NUM_COLUMNS
) -> LaplacianFeatures:
    """LapPE: eigenvectors 2..f_p + 1 of L̂ = I - Â by ascending eigenvalue.

    The first is skipped, as in the authors' code; Appendix C.2 prints u_1..u_fp. What
    an eigensolver leaves open is fixed:

    - null space: D^1/2 1_c, normalised, for each connected component c with edges,
      larger components first, ties by smallest node;
    - sign: the entry of largest magnitude is positive, the first of equal ones;
    - isolated nodes: unit vectors with eigenvalue 1.

    Rotations inside other repeated eigenvalues are arbitrary, but the same in each run.

    Args:
      graph: the graph, weighted or not.
      num_columns: number of columns f_p, at least 1.

    Returns:
      The columns, their eigenvalues and the dimension of the null space.

    Raises:
      ValueError: if `num_columns` is below 1.
      RuntimeError: if the eigensolver does not converge.

    Example:
      >>> two_edges = Graph.from_edges([(0, 1), (2, 3)], num_nodes=4)
      >>> features = laplacian_features(two_edges, num_columns=1)
      >>> features.x[:, 0].round(2).tolist(), features.num_zero_eigenvalues
      ([0.0, 0.0, 0.71, 0.71], 2)
    """
    _check_count("num_columns", num_columns)
    adjacency = graph.to_scipy()
    null_space = _null_space(adjacency)
    pairs = list(null_space)
    num_missing = num_columns + 1 - len(pairs)
    if num_missing > 0:
        a_hat = normalise(adjacency)
        for null in null_space:
            pairs += _component_pairs(a_hat, null, num_missing)
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
    return LaplacianFeatures(x, eigenvalues, num_zero_eigenvalues=len(null_space))


def _check_count(name: str, value: int) -> None:
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


def _component_pairs(a_hat: sp.csr_array, null: _Pair, count: int) -> list[_Pair]:
    """The `count` eigenpairs after the null vector of a component, or all it has."""
    part = sp.csr_array(a_hat[null.nodes][:, null.nodes])
    count = min(count, len(null.nodes) - 1)
    if len(null.nodes) <= max(_DENSE_NODES, 4 * count):
        # moves the null vector to -2: -1 may be an eigenvalue of its own
        deflated = part.toarray() - 3 * np.outer(null.vector, null.vector)
        values, vectors = np.linalg.eigh(deflated)
    else:
        values, vectors = leading_eigenpairs(part, null.vector, count)
    return [
        # rounding must not move a tiny eigenvalue before the null space
        _Pair(max(0.0, 1.0 - float(values[-i])), null.nodes, vectors[:, -i])
        for i in range(1, count + 1)
    ]


def _digest(graph: Graph) -> str:
    header = f"{_CACHE_VERSION} {graph.num_nodes} {len(graph.senders)}\n"
    digest = hashlib.sha256(header.encode())
    for indices in (graph.senders, graph.receivers):
        digest.update(np.asarray(indices, dtype="<i4").tobytes())
    digest.update(np.asarray(graph.weights, dtype="<f8").tobytes())
    return digest.hexdigest()


def _read(path: Path, num_nodes: int) -> PositionalFeatures | None:
    try:
        with path.open("rb") as file:  # np.load leaves a damaged file open
            arrays = np.load(file, allow_pickle=False)
            x_pos, eigenvalues = arrays["x_pos"], arrays["eigenvalues"]
            num_zero = arrays["num_zero_eigenvalues"]
    except _UNREADABLE:
        return None
    shapes = (x_pos.shape, eigenvalues.shape, num_zero.shape)
    if shapes != ((2, num_nodes, NUM_COLUMNS), (NUM_COLUMNS,), ()):
        return None
    return PositionalFeatures(x_pos, eigenvalues, int(num_zero))


def _write(path: Path, features: PositionalFeatures) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        np.savez(content, **features._asdict())
        write_whole(path, content.getvalue())
    except OSError:
        pass  # the features are as good without being stored
