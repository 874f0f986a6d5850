"""Your own graph from files: text tables, NumPy arrays or GraphML.

| path | holds |
|---|---|
| a folder | `edges` and `nodes`; or `edges`, `features` and `labels` |
| `*.npz` | arrays `edges`, `features`, `labels`, perhaps masks |
| `*.graphml` | a graph whose nodes have `label`, numbers, and perhaps `split` |

Files of a folder are text tables (`.csv`, `.tsv`, `.txt`) or arrays (`.npy`; `.npz` of
scipy.sparse). docs/own_graph.md shows them all.
"""

import array
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dsf_jax.data.catalog import DATASETS
from dsf_jax.data.dataset import Dataset, make_dataset
from dsf_jax.data.networkx_files import LABELS, read_edgelist, read_graphml
from dsf_jax.data.objects import attributes_of, masks_of, number_labels
from dsf_jax.data.tables import Places, Row, parse_number, read_edges, read_rows, wrong
from dsf_jax.graph.graph import Graph

TEXT, ARRAYS = (".csv", ".tsv", ".txt"), (".npy", ".npz")
_LAYOUT = "edges.csv and nodes.csv, see docs/own_graph.md"
_UNREADABLE = (EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile)


class _Nodes(NamedTuple):
    """What the files say of the nodes, in their order."""

    names: np.ndarray | None  # [N] words; None: 0..N-1
    features: Any
    labels: np.ndarray  # [N] words, "" where unknown
    attributes: dict[str, Any]  # masks, or `split`


def read_dataset(path: str | os.PathLike[str], *, metric: str = "accuracy") -> Dataset:
    r"""Your own graph from a folder, an npz or a GraphML file.

    Two tables suffice: `edges.csv`, two nodes in each line, and `nodes.csv` with a
    header: the node first, its `label` (nothing where unknown), perhaps its `split`
    (train, val or test), and features in all other columns. Nodes and labels are words
    or numbers. In `edges.csv` a header and a third column `weight` are optional.

    Args:
      path: the folder or file; docs/own_graph.md has all forms.
      metric: `accuracy`, or `roc_auc` for two classes.

    Returns:
      The data set, with `node_names` and `class_names`; masks are its split `fixed`.

    Raises:
      OSError: if a file cannot be read.
      ValueError: if one breaks a rule; with file, line, value, rule and remedy.

    Example:
      >>> import tempfile
      >>> folder = Path(tempfile.mkdtemp())
      >>> _ = (folder / "edges.csv").write_text("ann,bob\nbob,cy\n")
      >>> nodes = "name,label,age\nann,cat,31\nbob,dog,45\ncy,,27\n"
      >>> _ = (folder / "nodes.csv").write_text(nodes)
      >>> dataset = read_dataset(folder)
      >>> dataset.labels.tolist(), dataset.class_names.tolist()
      ([0, 1, -1], ['cat', 'dog'])
    """
    path = Path(path)
    if not path.exists():
        raise ValueError(
            f"path must be a folder or a file, got {str(path)!r}, which does not "
            f"exist; a folder holds {_LAYOUT}."
        )
    if path.is_dir():
        graph, nodes = _read_folder(path)
    elif path.suffix == ".npz":
        graph, nodes = _read_npz(path)
    elif path.suffix == ".graphml":
        graph, nodes = _read_graphml(path)
    else:
        raise ValueError(
            f"path must be a folder or end in .npz or .graphml, got {str(path)!r}; "
            f"name the folder that holds {_LAYOUT}."
        )
    try:
        classes, _ = number_labels(nodes.labels)
        if classes.max() < 1:
            raise ValueError(
                f"labels must have at least two classes, got "
                f"{sorted(set(nodes.labels.tolist()))}; nothing and -1 mean unknown."
            )
        masks = masks_of(nodes.attributes, classes)
        dataset = make_dataset(
            graph, nodes.features, nodes.labels, metric=metric, fixed=masks
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
    return dataset._replace(name=own_name(path), node_names=nodes.names)


def own_name(path: Path) -> str:
    """What results on a graph from files are called.

    Example:
      >>> own_name(Path("graphs/texas.npz"))  # settings of `texas` are not for it
      'own-texas'
    """
    name = path.resolve().name if path.is_dir() else path.stem
    return f"own-{name}" if name in DATASETS else name


def _read_folder(folder: Path) -> tuple[Graph, _Nodes]:
    edges = _find(folder, "edges", (*TEXT, *ARRAYS, ".edgelist"))
    table = _find(folder, "nodes", TEXT, is_needed=False)
    if table is not None:
        nodes, listed = _read_nodes(table), table
    else:
        listed = _find(folder, "features", (*TEXT, *ARRAYS))
        labels = _find(folder, "labels", (*TEXT, ".npy"))
        names, features = _read_features(listed)
        places = Places(names, features.shape[0], listed.name)
        nodes = _Nodes(names, features, *_read_labels(labels, places))
        for part in ("train_mask", "val_mask", "test_mask"):
            if (file := folder / f"{part}.npy").is_file():
                nodes.attributes[part] = _load(file)
    count = len(nodes.labels)
    if edges.suffix in ARRAYS:
        return _graph_of(edges, _load(edges), count), nodes
    places = Places(nodes.names, count, listed.name)
    if edges.suffix == ".edgelist":
        pairs, weights = read_edgelist(edges, places)
    else:
        pairs, weights = read_edges(edges, places)
    return _checked(edges, pairs, num_nodes=count, weights=weights), nodes


def _find(
    folder: Path, stem: str, suffixes: tuple[str, ...], *, is_needed: bool = True
) -> Any:
    found = [folder / f"{stem}{suffix}" for suffix in suffixes]
    found = [file for file in found if file.is_file()]
    if len(found) > 1:
        names = " and ".join(file.name for file in found)
        raise ValueError(f"{folder} must have one file {stem}, got {names}; keep one.")
    if not found and is_needed:
        there = ", ".join(sorted(file.name for file in folder.iterdir())[:8])
        raise ValueError(
            f"{folder} must have a file {' or '.join(stem + s for s in suffixes)}, got "
            f"{there or 'an empty folder'}; the least is {_LAYOUT}."
        )
    return found[0] if found else None


def _read_nodes(file: Path) -> _Nodes:
    """The table with everything: node, label, perhaps split, features."""
    rows = read_rows(file)
    first = next(rows, Row(1, []))
    titles = first.fields
    label = next((i for i, t in enumerate(titles) if i and t.lower() in LABELS), None)
    if label is None:
        raise wrong(
            file,
            first.line,
            f"the header must have a column 'label' behind that of the nodes, got "
            f"{titles[:8]}; write one line of titles on top.",
        )
    split = next((i for i, t in enumerate(titles) if i and t.lower() == "split"), None)
    others = (i for i in range(1, len(titles)) if i not in (label, split))
    words = {label: [], split: []} if split else {label: []}  # type: ignore[var-annotated]
    names, features = _read_columns(file, rows, titles, list(others), words)
    attributes = {"split": words[split]} if split else {}
    return _Nodes(names, features, _known(words[label]), attributes)


def _read_features(file: Path) -> tuple[np.ndarray | None, Any]:
    """Names and features; nodes of arrays are 0..N-1."""
    if file.suffix in ARRAYS:
        features = _load(file)
        if features.ndim != 2:
            raise ValueError(
                f"{file} must have shape [N, F], got {list(features.shape)}."
            )
        return None, features
    first = next(read_rows(file), Row(1, []))
    titles, rows = first.fields, read_rows(file)
    if titles[1:] and not all(map(_is_float, titles[1:])):
        next(rows)
    else:
        titles = [str(i + 1) for i in range(len(titles))]
    return _read_columns(file, rows, titles, list(range(1, len(titles))), {})


def _read_columns(
    file: Path,
    rows: Iterable[Row],
    titles: list[str],
    numbers: list[int],
    words: dict[int, list[str]],
) -> tuple[np.ndarray, np.ndarray]:
    """Names of the nodes and their features; fills the lists of the word columns."""
    lines: dict[str, int] = {}
    values = array.array("d")
    if not numbers:
        raise ValueError(
            f"{file} must have a column of features, got {titles}; a column of ones "
            "serves where there are none."
        )
    for line, fields in rows:
        if len(fields) != len(titles):
            raise wrong(
                file,
                line,
                f"a line must have {len(titles)} fields as the first one, got "
                f"{len(fields)}; put quotes around fields that hold the separator.",
            )
        if (before := lines.setdefault(fields[0], line)) != line:
            raise wrong(
                file,
                line,
                f"a node must be listed once, got {fields[0]!r} as in line {before}; "
                "the first column names the nodes.",
            )
        values.extend(
            parse_number(file, line, titles[column], fields[column])
            for column in numbers
        )
        for column, kept in words.items():
            kept.append(fields[column])
    if not lines:
        raise ValueError(
            f"{file} must list the nodes, got none; write a line for each."
        )
    features = np.frombuffer(values, dtype=np.float64).reshape(-1, len(numbers))
    return np.asarray(list(lines)), features


def _read_labels(file: Path, places: Places) -> tuple[np.ndarray, dict[str, Any]]:
    """Labels in words, and perhaps the split of each node."""
    count = len(places.of_words)
    if file.suffix == ".npy":
        labels = _load(file)
        if labels.shape != (count,):
            raise ValueError(
                f"{file} must have one label for each of the {count} nodes of "
                f"{places.file}, got shape {list(labels.shape)}."
            )
        return _known(labels.tolist()), {}
    labels, split = [""] * count, [""] * count
    seen: dict[int, int] = {}
    for line, fields in read_rows(file):
        if len(fields) not in (2, 3):
            raise wrong(
                file,
                line,
                f"a line must have a node, its label and perhaps its split, got "
                f"{len(fields)} fields; remove other columns.",
            )
        place = places.of_words.get(fields[0])
        if place is None and not seen:
            seen[-1] = line  # the header
            continue
        if place is None or place in seen:
            rule = "listed once" if place in seen else f"one of {places.file}"
            raise wrong(
                file,
                line,
                f"a node must be {rule}, got {fields[0]!r}; remove the line.",
            )
        seen[place], labels[place] = line, fields[1]
        split[place] = fields[2] if len(fields) == 3 else ""
    return _known(labels), {"split": split}


def _known(labels: Iterable[Any]) -> np.ndarray:
    """Labels as words; -1 becomes nothing."""
    return np.asarray(["" if str(word) == "-1" else str(word) for word in labels])


def _is_float(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _load(file: Path) -> Any:
    """An array, or a sparse matrix; never a pickle."""
    try:
        if file.suffix == ".npz":
            return sp.csr_array(sp.load_npz(file))
        return np.load(file, allow_pickle=False)
    except _UNREADABLE as error:
        kind = "scipy.sparse.save_npz" if file.suffix == ".npz" else "numpy.save"
        raise ValueError(
            f"{file} must be a file of {kind} without objects, got something else "
            f"({_one_line(error)})."
        ) from error


def _read_npz(file: Path) -> tuple[Graph, _Nodes]:
    try:
        with np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except _UNREADABLE as error:
        raise ValueError(
            f"{file} must be a file of numpy.savez without objects, got something else "
            f"({_one_line(error)})."
        ) from error

    def take(*names: str) -> np.ndarray:
        found = [arrays[name] for name in names if name in arrays]
        if not found:
            raise ValueError(
                f"{file} must have an array {' or '.join(names)}, got "
                f"{', '.join(arrays) or 'none'}."
            )
        return found[0]

    labels = take("labels", "node_labels", "y")
    masks = {f"{part}_mask": f"{part}_masks" for part in ("train", "val", "test")}
    attributes = {one: arrays[one] for one in masks if one in arrays}
    attributes |= {one: arrays[all_].T for one, all_ in masks.items() if all_ in arrays}
    nodes = _Nodes(
        None, take("features", "node_features", "x"), _known(labels), attributes
    )
    edges = arrays["edge_index"].T if "edge_index" in arrays else take("edges")
    return _graph_of(file, edges, len(labels)), nodes


def _graph_of(file: Path, edges: Any, num_nodes: int) -> Graph:
    if sp.issparse(edges):
        return Graph.from_scipy(edges)
    return _checked(file, edges, num_nodes=num_nodes)


def _checked(file: Path, edges: Any, **options: Any) -> Graph:
    try:
        return Graph.from_edges(edges, **options)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{file}: {error}") from error


def _read_graphml(file: Path) -> tuple[Graph, _Nodes]:
    graph = read_graphml(file)
    found = attributes_of(graph)
    nodes = _Nodes(found["names"], found["x"], _known(found["y"]), found)
    return Graph.from_networkx(graph), nodes


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
