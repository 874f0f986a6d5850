"""What graphs of other libraries bring along: features, labels, masks, names of nodes.

Attributes are found by the names that PyTorch Geometric has: `x`, `y`, `train_mask`,
`val_mask`, `test_mask`; and `split`, a word for each node.
"""

from collections.abc import Mapping
from typing import Any

import jraph
import numpy as np
from jaxtyping import Bool, Int

from dsf_jax.data.splits import Split, check_masks
from dsf_jax.graph.graph import HasEdgeIndex, NetworkxLike

_MASKS = {part: f"{part}_mask" for part in Split._fields}
_NAMES = ("x", "y", "split", *_MASKS.values())
_SPLIT_WORDS = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2, "": -1}


def attributes_of(graph: Any) -> dict[str, Any]:
    """Attributes of the nodes, by name; only those that there are.

    Args:
      graph: a `jraph.GraphsTuple` (`nodes` is `x`, or a mapping of attributes), a
        networkx graph (attributes of its nodes), or an object that has them itself.

    Returns:
      Some of `x, y, split, train_mask, val_mask, test_mask, names`.

    Raises:
      ValueError: if a node of a networkx graph has no `x` while others have.

    Example:
      >>> from types import SimpleNamespace
      >>> attributes_of(SimpleNamespace(x=[[1.0]], y=None))
      {'x': [[1.0]]}
    """
    if isinstance(graph, jraph.GraphsTuple):
        nodes = {"x": graph.nodes}
        found = dict(graph.nodes) if isinstance(graph.nodes, Mapping) else nodes
    elif isinstance(graph, NetworkxLike) and not isinstance(graph, HasEdgeIndex):
        return _of_networkx(graph)
    else:
        found = {name: getattr(graph, name, None) for name in _NAMES}
    return {name: value for name, value in found.items() if value is not None}


def masks_of(
    attributes: Mapping[str, Any], labels: Int[np.ndarray, " N"]
) -> Split | None:
    """Masks [S, N] among the attributes, checked; None if there are none.

    A mask is [N], or [N, S] as PyTorch Geometric has several.

    Raises:
      ValueError: as `check_masks`, or if a word of `split` is none.

    Example:
      >>> words = {"split": ["train", "val", "test", ""]}
      >>> masks_of(words, np.asarray([0, 1, 0, -1])).train.tolist()
      [[True, False, False, False]]
    """
    given = {
        part: np.asarray(attributes[name])
        for part, name in _MASKS.items()
        if name in attributes
    }
    words = [str(word).strip().lower() for word in attributes.get("split", ())]
    if not given and any(words):
        given = _masks_of_words(words)
    if not given:
        return None
    counts = {mask.shape[1] for mask in given.values() if mask.ndim == 2}
    splits = [
        check_masks(
            {name: m[:, s] if m.ndim == 2 else m for name, m in given.items()}, labels
        )
        for s in range(min(counts, default=1))
    ]
    return Split(*(np.concatenate(masks) for masks in zip(*splits, strict=True)))


def number_labels(
    labels: Any,
) -> tuple[Int[np.ndarray, " N"], np.ndarray | None]:
    """Labels in words as classes 0..C-1; whole numbers stay as they are.

    Args:
      labels: [N]; None, NaN and "" are unknown.

    Returns:
      Class of each node, -1 where unknown, and the words [C] in their order: that of
      numbers if all are whole numbers. No words if numbers were given.

    Raises:
      TypeError: if labels are fractions.

    Example:
      >>> classes, names = number_labels(["spam", "", "ham", "spam"])
      >>> classes.tolist(), names.tolist()
      ([1, -1, 0, 1], ['ham', 'spam'])
    """
    given = np.asarray(labels)
    if given.dtype.kind in "iu":
        return given, None
    if given.dtype.kind not in "bUSO":
        raise TypeError(
            f"labels must be words or integers 0..C-1 (-1 where unknown), got dtype "
            f"{given.dtype}; labels.astype(int) if they are whole numbers."
        )
    words = np.asarray([_word(label) for label in given.ravel()], dtype=str)
    known = np.unique(words[words != ""])
    if all(_is_whole(word) for word in known):
        known = known[np.argsort(known.astype(np.int64), kind="stable")]
    place = {word: number for number, word in enumerate(known.tolist())} | {"": -1}
    classes = np.asarray([place[word] for word in words.tolist()], dtype=np.int64)
    return classes.reshape(given.shape), known


def _word(label: Any) -> str:
    is_unknown = label is None or label != label  # NaN is not itself
    if isinstance(label, bytes):
        return label.decode("utf-8", errors="replace").strip()
    return "" if is_unknown else str(label).strip()


def _is_whole(word: str) -> bool:
    return word.removeprefix("-").isdecimal() and len(word) < 18


def _of_networkx(graph: Any) -> dict[str, Any]:
    rows = dict(graph.nodes(data=True))
    found: dict[str, Any] = {"names": np.asarray([str(node) for node in rows])}
    for name in _NAMES:
        values = [row.get(name) for row in rows.values()]
        if all(value is None for value in values):
            continue
        if name == "y":
            is_number = all(isinstance(v, int | np.integer | None) for v in values)
            unknown = -1 if is_number else ""
            found[name] = np.asarray([unknown if v is None else v for v in values])
        elif name == "split":
            found[name] = ["" if value is None else str(value) for value in values]
        elif None in (node for node in map(_shape, values)):
            lacking = list(rows)[[_shape(value) for value in values].index(None)]
            raise ValueError(
                f"attribute {name!r} must be on every node of the graph, got none on "
                f"{lacking!r}; fill it or take it from all."
            )
        elif len(shapes := {_shape(value) for value in values}) > 1:
            raise ValueError(
                f"attribute {name!r} must have one shape, got {sorted(shapes)}."  # type: ignore[type-var]
            )
        else:
            found[name] = np.asarray(values)
    if "x" in found and found["x"].ndim == 1:  # one feature
        found["x"] = found["x"][:, None]
    return found


def _shape(value: Any) -> tuple[int, ...] | None:
    return None if value is None else np.shape(value)


def _masks_of_words(words: list[str]) -> dict[str, Bool[np.ndarray, " N"]]:
    for place, word in enumerate(words):
        if word not in _SPLIT_WORDS:
            raise ValueError(
                f"split must be train, val, test or nothing, got {word!r} at node "
                f"{place}."
            )
    parts = np.asarray([_SPLIT_WORDS[word] for word in words])
    return {part: parts == number for number, part in enumerate(Split._fields)}
