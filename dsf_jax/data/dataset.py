"""`Dataset`: a graph with features, labels and where they came from, on the host."""

import os
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

import jraph
import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from dsf_jax.data.objects import attributes_of, masks_of, number_labels
from dsf_jax.data.splits import Split
from dsf_jax.graph.graph import Graph, HasEdgeIndex, NetworkxLike

Metric = Literal["accuracy", "roc_auc"]
Features: TypeAlias = sp.csr_array | Float[np.ndarray, "N F"]

# Above this share of non-zeros features are kept dense, as `propagate` keeps operators.
DENSE_SHARE = 0.2


class Source(NamedTuple):
    """A file that was read: known bytes from a known place."""

    file: str
    sha256: str  # of the bytes that were read
    url: str


class Dataset(NamedTuple):
    """A graph with features and labels, on the host.

    Example:
      >>> import numpy as np
      >>> edges, x = np.asarray([(0, 1), (1, 2)]), np.eye(3)
      >>> dataset = make_dataset(edges, x, np.asarray([0, 1, 0]), name="path")
      >>> dataset.num_classes, dataset.graph.num_edges
      (2, 2)
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
    class_names: np.ndarray | None = None  # [C] words; None: the numbers
    node_names: np.ndarray | None = None  # [N] words; None: 0..N-1

    @property
    def num_classes(self) -> int:
        """Number of classes C."""
        return int(self.labels.max()) + 1

    @property
    def split_kind(self) -> str:
        """`fixed` if an own graph brought masks, else `stratified`."""
        is_own = self.fixed is not None and not self.sources
        return "fixed" if is_own else "stratified"

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
    metric: str = "accuracy",
    fixed: Split | None = None,
    normalize_rows: bool = False,
) -> Dataset:
    """Your own graph as a `Dataset`; `read_dataset` takes files.

    Args:
      graph: a `Graph`, a square scipy sparse matrix, a networkx graph (nodes in the
        order of `graph.nodes`), a `jraph.GraphsTuple`, an object with PyTorch
        Geometric's `edge_index`, or an array [M, 2] of node pairs (then the features
        say how many nodes there are).
      features: [N, F], an array or scipy sparse; if not given, `x` of `graph`: its
        attribute, that of the nodes of networkx, `nodes` of jraph.
      labels: [N] classes 0..C-1, -1 where unknown; or words, None or "" where unknown,
        which are then `class_names`. If not given, `y` of `graph`.
      name: what results will be called.
      metric: `accuracy`, or `roc_auc` for two classes.
      fixed: masks [S, N] for `make_splits(..., kind="fixed")`; if not given,
        `train_mask`, `val_mask` and `test_mask` of `graph`.
      normalize_rows: divide the features of each node by their sum.

    Returns:
      The data set.

    Raises:
      TypeError: if graph, features or labels are missing or of the wrong kind.
      ValueError: if sizes do not fit, a feature is not finite, labels are below -1, not
        below N or of a single class, a class has no node or a mask breaks a rule.

    Example:
      >>> dataset = make_dataset([(0, 1), (1, 2)], np.eye(3), ["a", "b", "b"])
      >>> dataset.graph.num_edges, dataset.class_names.tolist(), dataset.features.shape
      (2, ['a', 'b'], (3, 3))
    """
    if metric not in get_args(Metric):
        raise ValueError(
            f"metric must be one of {', '.join(get_args(Metric))}, got {metric!r}."
        )
    _refuse_path(graph)
    brought = attributes_of(graph)
    matrix = _check_features(_given(features, brought, "features", "x"))
    converted = _to_graph(graph, num_nodes=matrix.shape[0])
    numbers, names = number_labels(_given(labels, brought, "labels", "y"))
    classes = _check_labels(numbers, matrix.shape[0], metric)
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
        metric=cast(Metric, metric),
        fixed=masks_of(brought, classes) if fixed is None else fixed,
        class_names=names,
        node_names=brought.get("names"),
    )


def check_dataset(dataset: Any) -> None:
    """Refuse what is no `Dataset`, such as a name or a path.

    Example:
      >>> check_dataset("texas")
      Traceback (most recent call last):
      TypeError: dataset must be a Dataset, got 'texas'; use load_dataset(name),
      read_dataset(path) or make_dataset(...).
    """
    if not isinstance(dataset, Dataset):
        raise TypeError(
            f"dataset must be a Dataset, got {_shown(dataset)}; use "
            "load_dataset(name), read_dataset(path) or make_dataset(...)."
        )


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else type(value).__name__


def _refuse_path(graph: Any) -> None:
    if isinstance(graph, str | os.PathLike):
        raise TypeError(
            f"graph must be a graph or node pairs, got {os.fspath(graph)!r}; "
            "read_dataset(path) reads files, load_dataset(name) known data sets."
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


def _given(value: Any, brought: Mapping[str, Any], name: str, attribute: str) -> Any:
    if value is None:
        value = brought.get(attribute)
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


def _check_labels(
    classes: Int[np.ndarray, "..."], num_nodes: int, metric: str
) -> Int[np.ndarray, " N"]:
    if classes.shape != (num_nodes,):
        raise ValueError(
            f"labels must have shape [{num_nodes}], one per row of the features, got "
            f"{list(classes.shape)}."
        )
    used = np.unique(classes[classes >= 0])
    if classes.min() < -1 or classes.max() >= num_nodes:
        raise ValueError(
            f"labels must lie in -1..C-1 with fewer classes C than nodes, got "
            f"{classes.min()}..{classes.max()} for {num_nodes} nodes; "
            "numpy.unique(labels, return_inverse=True) numbers them."
        )
    if len(used) < 2:
        found = f"{used[0]} alone" if len(used) else "no labelled node"
        raise ValueError(
            f"labels must have at least two classes, got {found}; there is nothing to "
            "learn."
        )
    if len(used) <= classes.max():
        unused = int(np.argmax(used != np.arange(len(used))))
        raise ValueError(
            f"labels must have nodes of every class 0..{classes.max()}, got none of "
            f"class {unused}; numpy.unique(labels, return_inverse=True) numbers them, "
            "or give them as words."
        )
    if metric == "roc_auc" and classes.max() > 1:
        raise ValueError(
            f"metric must be 'accuracy' for {classes.max() + 1} classes, got 'roc_auc'."
        )
    return classes.astype(np.int64)
