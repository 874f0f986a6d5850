"""Verified files -> `Dataset`, and the split rule of the paper.

A file is used only if its SHA-256 is the one in `manifest.json`, so a result always
belongs to known bytes. The folder is the environment variable `DSF_JAX_DATA`; each data
set has a folder of its own name below it.
"""

import difflib
import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Int

from dsf_jax.graph import Graph

DATA_VARIABLE = "DSF_JAX_DATA"


class Dataset(NamedTuple):
    """A graph with features and labels, on the host.

    Example:
      >>> Dataset._fields
      ('name', 'graph', 'features', 'labels', 'digests')
    """

    name: str
    graph: Graph
    features: sp.csr_array  # [N, F] float32; every row sums to 1, or to 0 if empty
    labels: Int[np.ndarray, " N"]  # class 0..C-1, -1 where unknown
    digests: Mapping[str, str]  # file -> SHA-256 of the bytes that were read

    @property
    def num_classes(self) -> int:
        """Number of classes C."""
        return int(self.labels.max()) + 1


class Split(NamedTuple):
    """Disjoint boolean masks over the nodes; unlabelled nodes are in none.

    Example:
      >>> Split._fields
      ('train', 'val', 'test')
    """

    train: Bool[np.ndarray, " N"]
    val: Bool[np.ndarray, " N"]
    test: Bool[np.ndarray, " N"]


def load_dataset(name: str) -> Dataset:
    """Read a data set from the folder named by `DSF_JAX_DATA`, digests checked.

    Features are divided by their row sums, as in the files the authors used.

    Args:
      name: `chameleon`, `squirrel` or `texas`.

    Returns:
      The data set.

    Raises:
      FileNotFoundError: if the folder or a file is missing; says what to put where.
      ValueError: if the name is not known or a file is not the expected one.

    Example:
      >>> load_dataset("camel")
      Traceback (most recent call last):
      ValueError: name must be one of chameleon, squirrel, texas, got 'camel'; did you
      mean 'chameleon'?
    """
    if name not in _LOADERS:
        near = difflib.get_close_matches(name, _LOADERS, n=1, cutoff=0.0)[0]
        raise ValueError(
            f"name must be one of {', '.join(_LOADERS)}, got {name!r}; did you mean "
            f"{near!r}?"
        )
    files = _read_verified(name)
    graph, features, labels = _LOADERS[name](files)
    sums = features.sum(axis=1)
    scale = sp.diags_array(
        np.divide(1.0, sums, where=sums > 0, out=np.zeros_like(sums))
    )
    return Dataset(
        name=name,
        graph=graph,
        features=sp.csr_array(scale @ features, dtype=np.float32),
        labels=labels,
        digests={entry["file"]: entry["sha256"] for entry in _manifest()[name]},
    )


def stratified_split(labels: Int[np.ndarray, " N"], *, seed: int) -> Split:
    """The paper's 60/20/20 split: the same shares of every class.

    Of the n_c nodes of class c, floor(0.6 n_c) train, floor(0.2 n_c) validate and the
    rest test, drawn by NumPy's PCG64 from `seed` (the same on every machine and with
    every version of JAX). A class of one node is always in the test set.

    Args:
      labels: class of each node, -1 where unknown.
      seed: seed of the permutation, one per split.

    Returns:
      The masks.

    Raises:
      ValueError: if no class is large enough to train or to validate on.

    Example:
      >>> split = stratified_split(np.repeat([0, 1], 10), seed=0)
      >>> [int(mask.sum()) for mask in split]
      [12, 4, 4]
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    split = Split(*(np.zeros(labels.shape, dtype=bool) for _ in Split._fields))
    for label in np.unique(labels[labels >= 0]):
        nodes = rng.permutation(np.flatnonzero(labels == label))
        # in whole numbers: 0.6 * 15 is 9 but floor(0.6 * 5) in floats can be off by one
        num_train, num_val = 6 * len(nodes) // 10, 2 * len(nodes) // 10
        split.train[nodes[:num_train]] = True
        split.val[nodes[num_train : num_train + num_val]] = True
        split.test[nodes[num_train + num_val :]] = True
    if not split.val.any():  # then the training set may be empty too
        raise ValueError(
            f"labels must have a class of at least 5 nodes, got sizes "
            f"{np.bincount(labels[labels >= 0]).tolist()}; a fifth of each class, "
            "rounded down, is for validation."
        )
    return split


class _Parts(NamedTuple):
    graph: Graph
    features: sp.csr_array
    labels: np.ndarray


def _read_npz(files: Mapping[str, bytes]) -> _Parts:
    """The heterophilous-graphs format: edges, node_features, node_labels."""
    (content,) = files.values()
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        features = arrays["node_features"]
        return _Parts(
            graph=Graph.from_edges(arrays["edges"], num_nodes=len(features)),
            features=sp.csr_array(features, dtype=np.float64),
            labels=arrays["node_labels"].astype(np.int64),
        )


def _read_geom_gcn(files: Mapping[str, bytes]) -> _Parts:
    """The Geom-GCN text format: tab-separated, one header line in each file."""
    edges = np.loadtxt(
        io.BytesIO(files["out1_graph_edges.txt"]), dtype=np.int64, skiprows=1
    )
    lines = files["out1_node_feature_label.txt"].decode("ascii").splitlines()[1:]
    nodes, rows, classes = zip(*(line.split("\t") for line in lines), strict=True)
    order = np.argsort(np.asarray(nodes, dtype=np.int64))
    features = np.stack([np.fromstring(row, sep=",") for row in rows])[order]
    return _Parts(
        graph=Graph.from_edges(edges, num_nodes=len(features)),
        features=sp.csr_array(features),
        labels=np.asarray(classes, dtype=np.int64)[order],
    )


_LOADERS: dict[str, Callable[[Mapping[str, bytes]], _Parts]] = {
    "chameleon": _read_npz,
    "squirrel": _read_npz,
    "texas": _read_geom_gcn,
}


def _manifest() -> dict[str, list[dict[str, Any]]]:
    """Files of each data set with their SHA-256 and origin."""
    text = resources.files("dsf_jax").joinpath("manifest.json").read_text()
    manifest: dict[str, list[dict[str, Any]]] = json.loads(text)
    return manifest


def _data_folder() -> Path:
    folder = os.environ.get(DATA_VARIABLE, "")
    if not folder or not Path(folder).is_dir():
        raise FileNotFoundError(
            f"{DATA_VARIABLE} must name the folder with the data sets, got {folder!r}; "
            "set the variable to an existing folder."
        )
    return Path(folder)


def _read_verified(name: str) -> dict[str, bytes]:
    """Contents of the files of a data set; what is parsed is what was verified."""
    contents = {}
    for entry in _manifest()[name]:
        path = _data_folder() / name / entry["file"]
        if not path.is_file():
            raise FileNotFoundError(
                f"{name} needs the file {path}, which is missing; download it from "
                f"{entry['url']}"
            )
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        if digest != entry["sha256"]:
            raise ValueError(
                f"{path} must have SHA-256 {entry['sha256']}, got {digest}; it is "
                f"damaged or another version: replace it by {entry['url']}"
            )
        contents[entry["file"]] = content
    return contents
