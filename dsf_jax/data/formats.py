"""Bytes of the upstream formats -> graph, features, labels, masks.

Whatever is wrong with the bytes becomes one `ValueError`: nothing in them is executed,
nothing is written to disk, and no array is larger than what its file holds.
"""

import functools
import io
import json
import math
import zipfile
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from dsf_jax.data.dataset import Features
from dsf_jax.data.pickles import checked_csr, read_pickle
from dsf_jax.data.splits import Split
from dsf_jax.graph.graph import Graph

MAX_ARRAY_BYTES = 1 << 30  # of a file; the largest of the data sets has 0.2 GB
PUBLIC_VALIDATION = 500  # nodes after the training nodes in Planetoid's public split

Files = Mapping[str, bytes]
Kind = TypeVar("Kind")


class Parts(NamedTuple):
    """What a file holds, before any scaling of the features."""

    graph: Graph
    features: Features
    labels: Int[np.ndarray, " N"]  # -1 where unknown
    fixed: Split | None = None


def _refuses(read: Callable[[Files], Parts]) -> Callable[[Files], Parts]:
    """Let every failure of a reader be a `ValueError` that names the files."""

    @functools.wraps(read)
    def reader(files: Files) -> Parts:
        try:
            return read(files)
        except Exception as error:  # whatever it is, the bytes are to blame
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ValueError(
                f"{', '.join(files)} must be in the format of {read.__name__}, got "
                f"something else ({reason})."
            ) from error

    return reader


@_refuses
def read_npz(files: Files) -> Parts:
    """The heterophilous-graphs format: edges, features, labels and ten splits.

    Example:
      >>> buffer = io.BytesIO()
      >>> np.savez(buffer, edges=[[0, 1]], node_features=np.eye(2), node_labels=[0, 1])
      >>> read_npz({"two.npz": buffer.getvalue()}).labels.tolist()
      [0, 1]
    """
    (content,) = files.values()
    arrays = _load_arrays(content)
    features, labels = arrays["node_features"], arrays["node_labels"]
    has_masks = all(f"{part}_masks" in arrays for part in Split._fields)
    return Parts(
        graph=Graph.from_edges(arrays["edges"], num_nodes=len(features)),
        features=features,
        labels=labels.astype(np.int64),
        fixed=Split(*(arrays[f"{part}_masks"] for part in Split._fields))
        if has_masks
        else None,
    )


@_refuses
def read_csr_npz(files: Files) -> Parts:
    """The gnn-benchmark format: adjacency and attributes as CSR arrays.

    Example:
      >>> eye = sp.eye_array(2, format="csr")
      >>> arrays = {"adj_shape": [2, 2], "attr_shape": [2, 2]}
      >>> for part in ("data", "indices", "indptr"):
      ...     arrays[f"adj_{part}"] = arrays[f"attr_{part}"] = getattr(eye, part)
      >>> buffer = io.BytesIO()
      >>> np.savez(buffer, labels=[0, 1], **arrays)
      >>> read_csr_npz({"two.npz": buffer.getvalue()}).features.shape
      (2, 2)
    """
    (content,) = files.values()
    arrays = _load_arrays(content)

    def csr(prefix: str) -> sp.csr_array:
        parts = (arrays[f"{prefix}_{part}"] for part in ("data", "indices", "indptr"))
        return checked_csr(*parts, shape=tuple(arrays[f"{prefix}_shape"]))

    return Parts(
        graph=Graph.from_scipy(csr("adj")),
        features=csr("attr"),
        labels=arrays["labels"].astype(np.int64),
    )


@_refuses
def read_geom_gcn(files: Files) -> Parts:
    r"""The Geom-GCN text format: tab-separated, one header line in each file.

    Example:
      >>> edges = b"node_id\tnode_id\n0\t1\n"
      >>> nodes = b"node_id\tfeature\tlabel\n0\t1,0\t0\n1\t0,1\t1\n"
      >>> names = ("out1_graph_edges.txt", "out1_node_feature_label.txt")
      >>> read_geom_gcn(dict(zip(names, (edges, nodes)))).features.tolist()
      [[1.0, 0.0], [0.0, 1.0]]
    """
    pairs = _rows(files["out1_graph_edges.txt"], "\t")
    nodes = _rows(files["out1_node_feature_label.txt"], "\t")
    order = np.argsort(_numbered([int(node) for node, _, _ in nodes]))
    features = np.asarray([row.split(",") for _, row, _ in nodes], dtype=np.float64)
    labels = np.asarray([label for _, _, label in nodes], dtype=np.int64)
    return Parts(
        graph=Graph.from_edges(
            np.asarray(pairs, dtype=np.int64), num_nodes=len(features)
        ),
        features=features[order],
        labels=labels[order],
    )


@_refuses
def read_musae(files: Files) -> Parts:
    r"""The MUSAE format of Twitch: edges and targets as csv, features as json.

    Features are 0/1; columns that no node has are dropped, as in the authors' code. The
    class is whether a stream is for adults.

    Example:
      >>> contents = {
      ...     "musae_DE_edges.csv": b"from,to\n0,1\n",
      ...     "musae_DE_features.json": b'{"0": [7, 7], "1": [3]}',
      ...     "musae_DE_target.csv": b"id,mature,new_id\n70,True,1\n71,False,0\n",
      ... }
      >>> parts = read_musae(contents)
      >>> parts.features.toarray().tolist(), parts.labels.tolist()
      ([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    """
    edges, features, target = (files[name] for name in sorted(files))
    header = target.decode("ascii").splitlines()[0].split(",")
    node, mature = header.index("new_id"), header.index("mature")
    truth = {"True": 1, "False": 0}
    rows = _rows(target, ",")
    order = np.argsort(_numbered([int(row[node]) for row in rows]))
    labels = np.asarray([truth[row[mature]] for row in rows], dtype=np.int64)[order]
    lists = {int(i): ids for i, ids in json.loads(features).items()}
    owners = np.repeat(list(lists), [len(ids) for ids in lists.values()])
    columns = np.concatenate(
        [np.asarray(ids, dtype=np.int64) for ids in lists.values()]
    )
    used, columns = np.unique(columns, return_inverse=True)
    entries = np.unique(np.stack([owners, columns]), axis=1)  # lists repeat themselves
    return Parts(
        graph=Graph.from_edges(
            np.asarray(_rows(edges, ","), dtype=np.int64), num_nodes=len(labels)
        ),
        features=sp.csr_array(
            (np.ones(entries.shape[1]), tuple(entries)), shape=(len(labels), len(used))
        ),
        labels=labels,
    )


@_refuses
def read_planetoid(files: Files) -> Parts:
    """Planetoid's pickles, with the public split as the one fixed split.

    Rows of test nodes are stored apart, in the order of `test.index`. Numbers that are
    skipped there (15 in Citeseer) are nodes without features and with label -1.

    Example:
      >>> read_planetoid({"ind.cora.x": b""})  # doctest: +ELLIPSIS
      Traceback (most recent call last):
      ValueError: ind.cora.x must be in the format of read_planetoid, ...
    """
    part = {name.split(".", 2)[2]: content for name, content in files.items()}
    y, ty, ally = (_unpickle(part[key], np.ndarray) for key in ("y", "ty", "ally"))
    tx, allx = (_unpickle(part[key], sp.csr_array) for key in ("tx", "allx"))
    neighbours = _unpickle(part["graph"], dict)
    test = np.asarray(part["test.index"].split(), dtype=np.int64)
    num_nodes, num_known = len(neighbours), len(ally)
    rows = np.concatenate([np.arange(num_known), test])
    stacked = sp.coo_array(sp.vstack([allx, tx]))
    row, column = stacked.coords
    labels = np.full(num_nodes, -1)
    labels[rows] = np.concatenate([_class_of(ally), _class_of(ty)])
    pairs = [(i, j) for i, ends in neighbours.items() for j in ends]
    nodes = np.arange(num_nodes)
    is_train = nodes < len(y)
    return Parts(
        graph=Graph.from_edges(pairs, num_nodes=num_nodes),
        features=sp.csr_array(
            (stacked.data, (rows[row], column)), shape=(num_nodes, stacked.shape[1])
        ),
        labels=labels,
        fixed=Split(
            train=is_train[None],
            val=((nodes < len(y) + PUBLIC_VALIDATION) & ~is_train)[None],
            test=np.isin(nodes, test)[None],
        ),
    )


def _unpickle(content: bytes, kind: type[Kind]) -> Kind:
    found = read_pickle(content)
    if not isinstance(found, kind):
        raise ValueError(f"a {type(found).__name__} stands for a {kind.__name__}")
    return found


def _class_of(one_hot: Int[np.ndarray, "n C"]) -> Int[np.ndarray, " n"]:
    return np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)


def _rows(content: bytes, separator: str) -> list[list[str]]:
    """Fields of every line but the first."""
    return [line.split(separator) for line in content.decode("ascii").splitlines()[1:]]


def _numbered(nodes: list[int]) -> list[int]:
    if sorted(nodes) != list(range(len(nodes))) or not nodes:
        raise ValueError("nodes are not numbered 0..N-1")
    return nodes


def _load_arrays(content: bytes) -> dict[str, np.ndarray]:
    """Arrays of an npz file, none of them pickled, all of them of bounded size.

    Arrays of objects are left out: upstream files have some that we do not need.
    """
    arrays = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        total = sum(info.file_size for info in archive.infolist())
        if total > MAX_ARRAY_BYTES:  # before anything is unpacked
            raise ValueError(f"{total} bytes announced in all")
        for info in archive.infolist():
            if {"/", "\\"} & set(info.filename):
                raise ValueError(f"member {info.filename!r} is not a plain name")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"compression {info.compress_type} is not read")
            with archive.open(info) as member:
                array = _load_array(member, info.file_size)
            if array is not None:
                arrays[info.filename.removesuffix(".npy")] = array
    return arrays


def _load_array(member: Any, size: int) -> np.ndarray | None:
    version = np.lib.format.read_magic(member)
    if version != (1, 0):
        raise ValueError(f"version {version} of the npy format is not read")
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(member)
    if dtype.hasobject:
        return None
    num_bytes = math.prod(shape) * dtype.itemsize
    if num_bytes != size - member.tell():
        raise ValueError(f"{num_bytes} bytes announced for shape {shape}")
    order: Literal["F", "C"] = "F" if is_fortran else "C"
    return np.ndarray(shape, dtype, buffer=member.read(), order=order)
