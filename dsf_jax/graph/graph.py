"""The graph: undirected, loop-free, every edge listed once in each direction.

Converters accept what people have (edge lists, scipy, networkx, jraph, PyTorch
Geometric) and clean it on the host; `Graph.cleaning` counts what was changed.
"""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import flax.struct
import jax.numpy as jnp
import jraph
import numpy as np
import scipy.sparse as sp
from jax import Array
from jaxtyping import Bool, Float, Int

MAX_NODES = 2**31 - 1  # indices are int32: half the index traffic of int64


class Cleaning(NamedTuple):
    """What a converter changed to make its input undirected, simple and loop-free.

    The counts are arrays, not static fields: two graphs of equal size then share one
    compiled program.
    """

    self_loops: Int[Array, ""]  # entries (i, i), dropped
    duplicates: Int[Array, ""]  # repetitions of an entry (i, j), merged
    mirrored: Int[Array, ""]  # edges listed in one direction only, completed


@runtime_checkable
class HasEdgeIndex(Protocol):
    """What a PyTorch Geometric `Data` object offers; torch itself is not needed."""

    edge_index: Any  # [2, M], integer
    num_nodes: int


@runtime_checkable
class NetworkxLike(Protocol):
    """The part of `networkx.Graph` that is read; networkx itself is not needed."""

    nodes: Any
    edges: Any


@flax.struct.dataclass
class Graph:
    """Undirected graph, both directions of every edge listed once, sorted by receiver.

    Example:
      >>> graph = Graph.from_edges([(0, 1), (1, 0), (1, 2), (2, 2)], num_nodes=4)
      >>> graph.num_edges, int(graph.cleaning.self_loops), int(graph.cleaning.mirrored)
      (2, 1, 1)
    """

    __no_type_check__ = True  # JAX fills pytrees with tracers, flags, specs ...

    senders: Int[Array, " E"]
    receivers: Int[Array, " E"]  # non-decreasing; equal receivers by sender
    weights: Float[Array, " E"]  # 1 for a graph without weights
    cleaning: Cleaning
    # isolated nodes leave no edge
    num_nodes: int = flax.struct.field(pytree_node=False)

    @property
    def num_edges(self) -> int:
        """Number of undirected edges, half the number of entries E."""
        return self.senders.shape[0] // 2

    @classmethod
    def from_edges(cls, edges: Any, *, num_nodes: int, weights: Any = None) -> "Graph":
        """Graph from a list of node pairs.

        Args:
          edges: [M, 2] integers in [0, num_nodes), or a sequence of pairs, in any
            order and direction; repetitions and self-loops are allowed.
          num_nodes: number of nodes N, at least 1. It is not guessed from the edges:
            isolated nodes leave no trace there.
          weights: [M] positive, finite edge weights; 1 if not given. Repetitions of an
            edge, in either direction, merge to the largest of their weights, so an edge
            listed both ways keeps its weight.

        Returns:
          The cleaned graph.

        Raises:
          TypeError: if indices are not integers or weights not real numbers.
          ValueError: if a shape, an index, a weight or `num_nodes` breaks its rule.
        """
        num_nodes = _check_num_nodes(num_nodes)
        pairs = _check_edges(edges, num_nodes)
        values = _check_weights(weights, len(pairs))
        return _clean(pairs, values, num_nodes)

    @classmethod
    def from_scipy(cls, adjacency: Any) -> "Graph":
        """Graph from a square scipy sparse matrix or array; stored zeros are no edges.

        Repeated entries of a COO matrix merge to the largest, as in `from_edges`.
        """
        if not isinstance(adjacency, sp.sparray | sp.spmatrix):
            raise TypeError(
                f"adjacency must be a scipy sparse matrix, got "
                f"{type(adjacency).__name__}; wrap a dense one in "
                "scipy.sparse.csr_array(...)."
            )
        if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
            raise ValueError(
                f"adjacency must be square, got shape {adjacency.shape}; rows and "
                "columns are the same nodes."
            )
        coo = sp.coo_array(adjacency)
        pairs, weights = np.stack(coo.coords, axis=1), coo.data
        if not (stored := weights != 0).all():
            pairs, weights = pairs[stored], weights[stored]
        return cls.from_edges(
            pairs,
            num_nodes=coo.shape[0],
            weights=None if weights.dtype == bool else weights,
        )

    @classmethod
    def from_networkx(cls, graph: NetworkxLike) -> "Graph":
        """Graph from networkx, nodes numbered in the order of `graph.nodes`.

        The edge attribute `weight` is used where present and 1 elsewhere.
        """
        index = {node: i for i, node in enumerate(graph.nodes)}
        listed = list(graph.edges(data="weight", default=1.0))
        return cls.from_edges(
            [(index[u], index[v]) for u, v, _ in listed],
            num_nodes=len(index),
            weights=np.asarray([w for _, _, w in listed], dtype=np.float64),
        )

    @classmethod
    def from_jraph(cls, graphs: jraph.GraphsTuple) -> "Graph":
        """Graph from a `jraph.GraphsTuple`; a batch becomes one disconnected graph.

        `edges` is None (no weights) or one weight per edge, as written by `to_jraph`.
        """
        return cls.from_edges(
            np.stack([graphs.senders, graphs.receivers], axis=1),
            num_nodes=int(np.sum(graphs.n_node)),
            weights=graphs.edges,
        )

    @classmethod
    def from_pyg(cls, data: HasEdgeIndex) -> "Graph":
        """Graph from any object with PyTorch Geometric's `edge_index` and `num_nodes`.

        An attribute `edge_weight` is used when there is one.
        """
        edge_index = np.asarray(data.edge_index)
        if edge_index.ndim != 2 or edge_index.shape[0] != 2:
            raise ValueError(
                f"edge_index must have shape [2, M], got {list(edge_index.shape)}; "
                "pass a list of pairs to Graph.from_edges instead."
            )
        return cls.from_edges(
            edge_index.T,
            num_nodes=data.num_nodes,
            weights=getattr(data, "edge_weight", None),
        )

    def to_jraph(self) -> jraph.GraphsTuple:
        """The same graph as a `jraph.GraphsTuple`, weights in `edges`, no features."""
        return jraph.GraphsTuple(
            nodes=None,
            edges=self.weights,
            senders=self.senders,
            receivers=self.receivers,
            globals=None,
            n_node=jnp.asarray([self.num_nodes], dtype=jnp.int32),
            n_edge=jnp.asarray([self.senders.shape[0]], dtype=jnp.int32),
        )

    def to_scipy(self) -> sp.csr_array:
        """The adjacency matrix A on the host, float64, symmetric with zero diagonal."""
        entries = (np.asarray(self.receivers), np.asarray(self.senders))
        weights = np.asarray(self.weights, dtype=np.float64)
        return sp.csr_array((weights, entries), shape=(self.num_nodes, self.num_nodes))


def check_graph(graph: Any) -> None:
    """Refuse what is no `Graph`, such as a path or a matrix.

    Example:
      >>> check_graph("graph.csv")
      Traceback (most recent call last):
      TypeError: graph must be a Graph, got 'graph.csv'; use Graph.from_edges,
      Graph.from_scipy(...) or read_dataset(path).graph.
    """
    if not isinstance(graph, Graph):
        shown = repr(graph) if isinstance(graph, str) else type(graph).__name__
        raise TypeError(
            f"graph must be a Graph, got {shown}; use Graph.from_edges, "
            "Graph.from_scipy(...) or read_dataset(path).graph."
        )


def _check_num_nodes(num_nodes: Any) -> int:
    if isinstance(num_nodes, bool) or not isinstance(num_nodes, (int, np.integer)):
        raise TypeError(
            f"num_nodes must be an integer, got {num_nodes!r} of type "
            f"{type(num_nodes).__name__}; pass the number of rows of the features."
        )
    if not 1 <= num_nodes <= MAX_NODES:
        raise ValueError(
            f"num_nodes must lie in [1, {MAX_NODES}], got {num_nodes}; a graph needs "
            "at least one node, edges are optional."
        )
    return int(num_nodes)


def _check_edges(edges: Any, num_nodes: int) -> Int[np.ndarray, "M 2"]:
    if isinstance(edges, str | os.PathLike):
        raise TypeError(
            f"edges must be node pairs, got {os.fspath(edges)!r}; "
            "dsf_jax.read_dataset(path) reads files."
        )
    if isinstance(edges, Sequence) and len(edges) == 0:
        edges = np.zeros((0, 2), dtype=np.int64)  # no pairs, so no dtype to infer
    try:
        pairs = np.asarray(edges)
    except ValueError as error:
        raise ValueError(
            f"edges must be pairs of equal length, got a ragged list ({error}); give "
            "each edge as (i, j)."
        ) from error
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(
            f"edges must have shape [M, 2], got {list(pairs.shape)}; transpose an "
            "edge_index of shape [2, M], wrap a dense adjacency matrix in "
            "scipy.sparse.csr_array(...)."
        )
    if not np.issubdtype(pairs.dtype, np.integer):
        raise TypeError(
            f"edges must hold integers, got dtype {pairs.dtype}; node indices are "
            "0..num_nodes-1, so cast them with .astype(int) if they are whole numbers."
        )
    if pairs.size and (pairs.min() < 0 or pairs.max() >= num_nodes):
        bad = np.flatnonzero((pairs < 0).any(axis=1) | (pairs >= num_nodes).any(axis=1))
        raise ValueError(
            f"edges must lie in [0, {num_nodes}), got {pairs[bad[0]].tolist()} in row "
            f"{bad[0]} ({bad.size} such rows); raise num_nodes={num_nodes} or renumber "
            "the nodes from 0."
        )
    return pairs


def _check_weights(weights: Any, num_pairs: int) -> Float[np.ndarray, " M"] | None:
    """Weights, or None if all are 1."""
    if weights is None:
        return None
    values = np.asarray(weights)
    if not (np.issubdtype(values.dtype, np.floating) or values.dtype.kind in "iu"):
        raise TypeError(
            f"weights must be real numbers, got dtype {values.dtype}; leave weights "
            "out for a graph without them."
        )
    if values.shape != (num_pairs,):
        raise ValueError(
            f"weights must have shape [{num_pairs}], one per edge, got "
            f"{list(values.shape)}; leave weights out for a graph without them."
        )
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if bad.size:
        raise ValueError(
            f"weights must be finite and positive, got {values[bad[0]]} at {bad[0]} "
            f"({bad.size} such weights); the normalisation D^-1/2 A D^-1/2 needs "
            "positive degrees, so drop those edges or repair their weights."
        )
    return None if np.all(values == 1) else values.astype(np.float64, copy=False)


def _clean(
    pairs: Int[np.ndarray, "M 2"],
    weights: Float[np.ndarray, " M"] | None,
    num_nodes: int,
) -> Graph:
    """Drop self-loops, merge repetitions and list every edge in both directions."""
    is_edge = pairs[:, 0] != pairs[:, 1]
    num_loops = len(pairs) - np.count_nonzero(is_edge)
    if num_loops:
        pairs = pairs[is_edge]
        weights = None if weights is None else weights[is_edge]

    # one sort finds edges, listed one way or both, and repetitions; much is done in
    # place, as each of these arrays is half as large as the pairs
    ids = np.minimum(pairs[:, 0], pairs[:, 1]).astype(np.int64, copy=False)
    ids *= num_nodes
    ids += np.maximum(pairs[:, 0], pairs[:, 1]).astype(np.int64, copy=False)
    ids *= 2
    ids += pairs[:, 0] > pairs[:, 1]
    weights = _sort(ids, weights)
    num_ordered = np.count_nonzero(_is_new(ids))
    ids >>= 1
    is_new = _is_new(ids)
    ids = ids[is_new]
    if weights is not None and len(ids):
        weights = np.maximum.reduceat(weights, np.flatnonzero(is_new))
        weights = np.concatenate([weights, weights])

    both = np.concatenate([ids, ids])
    mirrored, low = both[len(ids) :], ids // num_nodes
    mirrored -= low * num_nodes
    mirrored *= num_nodes
    mirrored += low
    num_edges = len(ids)
    del ids, low
    weights = _sort(both, weights)
    senders, receivers = np.empty((2, len(both)), dtype=np.int32)
    np.floor_divide(both, num_nodes, out=receivers, casting="unsafe")
    np.remainder(both, num_nodes, out=senders, casting="unsafe")
    del both
    return Graph(
        senders=jnp.asarray(senders),
        receivers=jnp.asarray(receivers),
        weights=jnp.ones(len(senders)) if weights is None else jnp.asarray(weights),
        cleaning=Cleaning(
            self_loops=jnp.asarray(num_loops, dtype=jnp.int32),
            duplicates=jnp.asarray(len(pairs) - num_ordered, dtype=jnp.int32),
            mirrored=jnp.asarray(2 * num_edges - num_ordered, dtype=jnp.int32),
        ),
        num_nodes=num_nodes,
    )


def _sort(
    ids: Int[np.ndarray, " M"], weights: Float[np.ndarray, " M"] | None
) -> Float[np.ndarray, " M"] | None:
    """Sort numbers in place; the weights in that order."""
    if weights is None:
        ids.sort()  # much faster than finding the order
        return None
    order = np.argsort(ids)
    ids[:] = ids[order]
    return weights[order]


def _is_new(ids: Int[np.ndarray, " M"]) -> Bool[np.ndarray, " M"]:
    """Whether a number differs from the one before it."""
    return np.concatenate([np.ones(min(1, len(ids)), dtype=bool), ids[1:] != ids[:-1]])


def normalise(adjacency: sp.csr_array) -> sp.csr_array:
    """D^-1/2 A D^-1/2 on the host, D the row sums; an empty row stays empty.

    Example:
      >>> normalise(sp.csr_array([[0.0, 4.0], [4.0, 0.0]])).toarray().tolist()
      [[0.0, 1.0], [1.0, 0.0]]
    """
    degrees = adjacency.sum(axis=1)
    inverse_root = np.zeros_like(degrees)
    np.power(degrees, -0.5, where=degrees > 0, out=inverse_root)
    data = np.repeat(inverse_root, np.diff(adjacency.indptr)) * adjacency.data
    data *= inverse_root[adjacency.indices]
    structure = (adjacency.indices, adjacency.indptr)
    return sp.csr_array((data, *structure), shape=adjacency.shape)
