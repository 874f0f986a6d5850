"""`Dataset`: a graph with features, labels and where they came from, on the host."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import jraph
import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from dsf_jax.data.splits import Split
from dsf_jax.graph.graph import Graph, HasEdgeIndex, NetworkxLike

Metric = Literal["accuracy", "roc_auc"]
Features: TypeAlias = sp.csr_array | Float[np.ndarray, "N F"]

# Above this share of non-zeros features are kept dense, as `propagate` keeps operators.
DENSE_SHARE = 0.2


class Source(NamedTuple):
    """A file that was read: known bytes from a known place.

    Example:
      >>> Source._fields
      ('file', 'sha256', 'url')
    """

    file: str
    sha256: str  # of the bytes that were read
    url: str


class Dataset(NamedTuple):
    """A graph with features and labels, on the host.

    Example:
      >>> Dataset._fields[:5]
      ('name', 'graph', 'features', 'labels', 'metric')
    """

    name: str
    graph: Graph
    features: Features  # [N, F] float32; sparse unless a fifth is not zero
    labels: Int[np.ndarray, " N"]  # class 0..C-1, -1 where unknown
    metric: Metric = "accuracy"
    fixed: Split | None = None  # masks [S, N] that came with the file
    authors: Split | None = None  # [1, N], what the paper's authors published
    sources: tuple[Source, ...] = ()  # files that were read; none for generated graphs
    note: str = ""  # what one must know before quoting a result

    @property
    def num_classes(self) -> int:
        """Number of classes C."""
        return int(self.labels.max()) + 1

    @property
    def digests(self) -> Mapping[str, str]:
        """SHA-256 of the bytes of each file that was read."""
        return {source.file: source.sha256 for source in self.sources}


def make_dataset(
    graph: Any,
    features: Any = None,
    labels: Any = None,
    *,
    name: str = "own graph",
    metric: Metric = "accuracy",
    fixed: Split | None = None,
    normalize_rows: bool = False,
) -> Dataset:
    """Your own graph as a `Dataset`.

    Args:
      graph: a `Graph`, a square scipy sparse matrix, a networkx graph (nodes in the
        order of `graph.nodes`), a `jraph.GraphsTuple`, an object with PyTorch
        Geometric's `edge_index`, or an array [M, 2] of node pairs (then the features
        say how many nodes there are).
      features: [N, F], an array or scipy sparse; if not given, the attribute `x` of
        `graph`.
      labels: [N] classes 0..C-1, -1 where unknown; if not given, the attribute `y`.
      name: what results will be called.
      metric: `accuracy`, or `roc_auc` for two classes.
      fixed: masks [S, N] for `make_splits(..., kind="fixed")`.
      normalize_rows: divide the features of each node by their sum.

    Returns:
      The data set.

    Raises:
      TypeError: if features or labels are missing or of the wrong kind.
      ValueError: if sizes do not fit, a feature is not finite or a label is below -1.

    Example:
      >>> dataset = make_dataset([(0, 1), (1, 2)], np.eye(3), [0, 1, 1])
      >>> dataset.graph.num_edges, dataset.num_classes, dataset.features.shape
      (2, 2, (3, 3))
    """
    matrix = _check_features(_given(features, graph, "features", "x"))
    converted = _to_graph(graph, num_nodes=matrix.shape[0])
    classes = _check_labels(
        _given(labels, graph, "labels", "y"), matrix.shape[0], metric
    )
    if converted.num_nodes != matrix.shape[0]:
        raise ValueError(
            f"features must have one row per node, got {matrix.shape[0]} rows for "
            f"{converted.num_nodes} nodes."
        )
    for part, mask in fixed._asdict().items() if fixed else ():
        if mask.ndim != 2 or mask.shape[1] != len(classes) or mask.dtype != bool:
            raise ValueError(
                f"fixed.{part} must be boolean [S, {len(classes)}], got {mask.dtype} "
                f"{list(mask.shape)}."
            )
    return Dataset(
        name=name,
        graph=converted,
        features=_pack(_unit_rows(matrix) if normalize_rows else matrix),
        labels=classes,
        metric=metric,
        fixed=fixed,
    )


def _unit_rows(matrix: sp.csr_array) -> sp.csr_array:
    """Features of each node divided by their sum; empty rows stay empty."""
    sums = matrix.sum(axis=1)
    scale = np.divide(1.0, sums, where=sums != 0, out=np.zeros_like(sums))
    return sp.csr_array(sp.diags_array(scale) @ matrix)


def _pack(matrix: sp.csr_array) -> Features:
    """Features in float32, sparse or dense by their share of non-zeros."""
    is_dense = matrix.nnz > DENSE_SHARE * np.prod(matrix.shape)
    packed = matrix.astype(np.float32)
    return packed.toarray() if is_dense else packed


def _given(value: Any, graph: Any, name: str, attribute: str) -> Any:
    if value is None:
        value = getattr(graph, attribute, None)
    if value is None:
        raise TypeError(
            f"{name} must be given, got None; only an object with an attribute "
            f"{attribute!r} brings its own (numpy.eye(N) serves where there are none)."
        )
    return value


def _to_graph(graph: Any, num_nodes: int) -> Graph:
    if isinstance(graph, Graph):
        return graph
    if isinstance(graph, sp.sparray | sp.spmatrix):
        return Graph.from_scipy(graph)
    if isinstance(graph, jraph.GraphsTuple):
        return Graph.from_jraph(graph)
    if isinstance(graph, HasEdgeIndex):
        return Graph.from_pyg(graph)
    if isinstance(graph, NetworkxLike):
        return Graph.from_networkx(graph)
    return Graph.from_edges(graph, num_nodes=num_nodes)


def _check_features(features: Any) -> sp.csr_array:
    matrix = features if sp.issparse(features) else np.asarray(features)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise ValueError(
            f"features must have shape [N, F] with F >= 1, got {list(matrix.shape)}."
        )
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"features must be real numbers, got dtype {matrix.dtype}.")
    csr = sp.csr_array(matrix, dtype=np.float64, copy=True)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    if not np.all(np.isfinite(csr.data)):
        raise ValueError(
            "features must be finite, got NaN or infinity; fill the gaps first."
        )
    return csr


def _check_labels(labels: Any, num_nodes: int, metric: Metric) -> Int[np.ndarray, " N"]:
    classes = np.asarray(labels)
    if classes.dtype.kind not in "iu":
        raise TypeError(
            f"labels must be integers 0..C-1 (-1 where unknown), got dtype "
            f"{classes.dtype}; numpy.unique(labels, return_inverse=True) numbers them."
        )
    if classes.shape != (num_nodes,):
        raise ValueError(
            f"labels must have shape [{num_nodes}], one per row of the features, got "
            f"{list(classes.shape)}."
        )
    if classes.min() < -1 or classes.max() < 1:
        raise ValueError(
            f"labels must lie in -1..C-1 with at least two classes, got "
            f"{classes.min()}..{classes.max()}."
        )
    if metric == "roc_auc" and classes.max() > 1:
        raise ValueError(
            f"metric must be 'accuracy' for {classes.max() + 1} classes, got 'roc_auc'."
        )
    return classes.astype(np.int64)
