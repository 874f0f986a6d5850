"""Which nodes train, validate and test: the split rules as boolean masks.

Every rule draws from NumPy's PCG64, so a seed means the same nodes on every machine and
with every version of JAX. Unlabelled nodes (class -1) are in no mask and in no count.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int


class Split(NamedTuple):
    """Disjoint boolean masks over the nodes; several splits are stacked in front."""

    train: Bool[np.ndarray, "*S N"]
    val: Bool[np.ndarray, "*S N"]
    test: Bool[np.ndarray, "*S N"]


@runtime_checkable
class HasLabels(Protocol):
    """What `make_splits` reads of a `Dataset`."""

    @property
    def labels(self) -> Int[np.ndarray, " N"]:
        """Class of each node, -1 where unknown."""

    @property
    def fixed(self) -> Split | None:
        """Masks that came with the file."""

    @property
    def authors(self) -> Split | None:
        """The split that the authors of the paper published."""


def stratified_split(labels: Int[np.ndarray, " N"], *, seed: int) -> Split:
    """The paper's 60/20/20 split: the same shares of every class.

    Of the n_c nodes of class c, floor(0.6 n_c) train, floor(0.2 n_c) validate and the
    rest test. A class of one node is always in the test set.

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


def balanced_split(
    labels: Int[np.ndarray, " N"],
    *,
    seed: int,
    train_share: float = 0.6,
    val_share: float = 0.2,
) -> Split:
    """GPR-GNN's rule: as many training nodes of every class.

    round(0.6 N / C) nodes of each class train (all of a class that has fewer), then
    round(0.2 N) of all others validate and the rest test. Small classes are used up in
    training, so the test set has other shares than the graph: scores are not comparable
    with those of `stratified_split`.

    Args:
      labels: class of each node, -1 where unknown.
      seed: seed of the permutations, one per split.
      train_share: share of the N labelled nodes that train, before rounding.
      val_share: share that validates.

    Returns:
      The masks.

    Raises:
      ValueError: if nothing would train, validate or test.

    Example:
      >>> split = balanced_split(np.repeat([0, 1], [14, 6]), seed=0)
      >>> [int(mask.sum()) for mask in split]  # 6 of each class, then 4 of the 8 left
      [12, 4, 4]
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    split = Split(*(np.zeros(labels.shape, dtype=bool) for _ in Split._fields))
    is_known = labels >= 0
    classes, num_known = np.unique(labels[is_known]), int(is_known.sum())
    num_train = round(train_share * num_known / max(len(classes), 1))
    for label in classes:
        nodes = rng.permutation(np.flatnonzero(labels == label))
        split.train[nodes[:num_train]] = True
    rest = rng.permutation(np.flatnonzero(is_known & ~split.train))
    num_val = round(val_share * num_known)
    split.val[rest[:num_val]] = True
    split.test[rest[num_val:]] = True
    if not all(mask.any() for mask in split):
        raise ValueError(
            f"labels must leave nodes for each part, got {num_known} labelled nodes in "
            f"{len(classes)} classes: {num_train} of each class train and {num_val} of "
            f"the other {len(rest)} validate; use kind='stratified' or more nodes."
        )
    return split


def sparse_split(labels: Int[np.ndarray, " N"], *, seed: int) -> Split:
    """GPR-GNN's sparse split: 2.5 % train, 2.5 % validate, 95 % test.

    `balanced_split` with other shares: round(0.025 N / C) nodes of each class train.

    Example:
      >>> split = sparse_split(np.repeat([0, 1], 100), seed=0)
      >>> [int(mask.sum()) for mask in split]
      [4, 5, 191]
    """
    return balanced_split(labels, seed=seed, train_share=0.025, val_share=0.025)


_RULES: dict[str, Callable[..., Split]] = {
    "stratified": stratified_split,
    "balanced": balanced_split,
    "sparse": sparse_split,
}

_GIVEN = ("fixed", "authors")  # masks that a data set brings along

SPLIT_KINDS = (*_RULES, *_GIVEN)
"""Names of the rules for `make_splits`."""


def make_splits(
    data: HasLabels | Int[np.ndarray, " N"],
    *,
    kind: str = "stratified",
    num_splits: int = 10,
    seed: int = 0,
) -> Split:
    """Several splits, stacked.

    Split s is the one of seed + s, so the first ten of twenty are the same ten.

    Args:
      data: a `Dataset`, or the class of each node (-1 where unknown).
      kind: `stratified` (the paper's), `balanced` (GPR-GNN's), `sparse`
        (2.5/2.5/95); without a seed `fixed`, the first masks that came with the file,
        or `authors`, the one split that the paper's authors published (Chameleon).
      num_splits: S, at least 1.
      seed: seed of the first split.

    Returns:
      Masks [S, N].

    Raises:
      ValueError: if the rule cannot be met; the reason is given.

    Example:
      >>> make_splits(np.repeat([0, 1], 10), num_splits=3).train.shape
      (3, 20)
    """
    if kind not in SPLIT_KINDS:
        raise ValueError(f"kind must be one of {', '.join(SPLIT_KINDS)}, got {kind!r}.")
    if num_splits < 1:
        raise ValueError(f"num_splits must be at least 1, got {num_splits}.")
    if kind in _GIVEN:
        return _given_splits(data, kind, num_splits)
    labels = data if isinstance(data, np.ndarray) else data.labels
    splits = [_RULES[kind](labels, seed=seed + s) for s in range(num_splits)]
    return Split(*(np.stack(masks) for masks in zip(*splits, strict=True)))


def check_masks(masks: Any, labels: Int[np.ndarray, " N"]) -> Split:
    """Masks of your own as one split [1, N], checked.

    Args:
      masks: training, validation and, if there are any, test nodes: boolean arrays [N]
        in this order, or by the names train, val and test.
      labels: class of each node, -1 where unknown.

    Returns:
      The split; no test nodes if none are given.

    Raises:
      ValueError: if a mask has another shape or type, is empty, shares nodes with
        another, or holds unlabelled nodes.

    Example:
      >>> masks = {"train": [True, False, False], "val": [False, True, False]}
      >>> check_masks(masks, np.asarray([0, 1, -1])).test.tolist()
      [[False, False, False]]
    """
    names = ("train", "val", "test")
    if not isinstance(masks, Mapping):
        masks = dict(zip(names, masks, strict=False))
    if not {"train", "val"} <= set(masks) <= set(names):
        raise ValueError(
            f"masks must have train, val and perhaps test, got {sorted(masks)}."
        )
    nobody = np.zeros(len(labels), dtype=bool)
    split = Split(*(np.asarray(masks.get(name, nobody)) for name in names))
    for name, mask in zip(names, split, strict=True):
        if mask.shape != labels.shape or mask.dtype != bool:
            raise ValueError(
                f"masks must be boolean arrays of {len(labels)} nodes, got {name} with "
                f"shape {list(mask.shape)} of {mask.dtype}; mask[nodes] = True makes "
                "one of node numbers."
            )
        if np.any(mask & (labels < 0)):
            raise ValueError(
                f"masks must hold labelled nodes only, got {name} with "
                f"{int(np.sum(mask & (labels < 0)))} of class -1; take them out."
            )
        if name != "test" and not mask.any():
            raise ValueError(f"masks must not be empty, got no node in {name}.")
    if np.any(np.sum(split, axis=0) > 1):
        raise ValueError(
            f"masks must be disjoint, got {int(np.sum(np.sum(split, axis=0) > 1))} "
            "nodes in more than one."
        )
    return Split(*(mask[None] for mask in split))


def has_seeds(kind: str) -> bool:
    """Whether a rule draws as many splits as one likes.

    Example:
      >>> has_seeds("stratified"), has_seeds("fixed")
      (True, False)
    """
    return kind not in _GIVEN


def _given_splits(data: Any, kind: str, num_splits: int) -> Split:
    given: Split | None = getattr(data, kind, None)
    if given is None:
        raise ValueError(
            f"kind must be one of {', '.join(_RULES)} where no such masks came with "
            f"the data, got {kind!r}."
        )
    available = len(given.train)
    if num_splits > available:
        raise ValueError(
            f"num_splits must be at most {available} for kind={kind!r}, got "
            f"{num_splits}: {available} splits came with the data; lower num_splits or "
            "use kind='stratified'."
        )
    return Split(*(mask[:num_splits] for mask in given))


class SplitReport(NamedTuple):
    """Sizes of splits, and the classes that a part lacks; `str` gives one line.

    Example:
      >>> labels = np.repeat([0, 1], [20, 1])
      >>> print(report_splits(labels, make_splits(labels, num_splits=2)))
      2 splits: 12 train, 4 val, 5 test; class 1 is not in train, val
    """

    sizes: Mapping[str, Int[np.ndarray, " S"]]
    missing: Mapping[int, tuple[str, ...]]  # class -> parts without it in some split

    def __str__(self) -> str:
        """Sizes (a range where they differ) and missing classes in one line."""
        parts = ", ".join(
            f"{_range(sizes)} {name}" for name, sizes in self.sizes.items()
        )
        lacks = "".join(
            f"; class {label} is not in {', '.join(names)}"
            for label, names in self.missing.items()
        )
        count = len(self.sizes["train"])
        return f"{count} split{'s' if count > 1 else ''}: {parts}{lacks}"


def report_splits(labels: Int[np.ndarray, " N"], splits: Split) -> SplitReport:
    """What the splits hold.

    Args:
      labels: class of each node, -1 where unknown.
      splits: one split, or several stacked.

    Returns:
      The sizes of each part, and where classes are missing in at least one split.

    Example:
      >>> labels = np.repeat([0, 1], 10)
      >>> print(report_splits(labels, stratified_split(labels, seed=0)))
      1 split: 12 train, 4 val, 4 test
    """
    masks = {name: np.atleast_2d(mask) for name, mask in splits._asdict().items()}
    missing = {}
    for label in np.unique(labels[labels >= 0]):
        of_class = labels == label
        lacking = [
            name for name, mask in masks.items() if not mask[:, of_class].any(1).all()
        ]
        if lacking:
            missing[int(label)] = tuple(lacking)
    sizes = {name: mask.sum(axis=1) for name, mask in masks.items()}
    return SplitReport(sizes=sizes, missing=missing)


def _range(sizes: Int[np.ndarray, " S"]) -> str:
    low, high = int(sizes.min()), int(sizes.max())
    return f"{low}" if low == high else f"{low}-{high}"
