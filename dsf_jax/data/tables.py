"""Text tables as people have them: rows with their lines, and lists of edges.

Fields are separated by commas or semicolons (`.csv`), tabs (`.tsv`) or blanks (others).
Lines at the top that begin with # or % are comments; empty lines are skipped.
"""

import csv
import functools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from jaxtyping import Float, Int

WEIGHT = "weight"


class Row(NamedTuple):
    """Fields of a line, without blanks around them."""

    line: int  # from 1, as editors count
    fields: list[str]


class Pairs(NamedTuple):
    """Edges by the places of their nodes."""

    places: Int[np.ndarray, "M 2"]
    weights: Float[np.ndarray, " M"] | None


class Places:
    """Where a node stands, by its name.

    Example:
      >>> places = Places(np.asarray(["7", "9"]), 2, "nodes.csv")
      >>> places.of_numbers(np.asarray([[9, 7]])).tolist(), places.of_words["7"]
      ([[1, 0]], 0)
    """

    def __init__(self, names: np.ndarray | None, count: int, file: str) -> None:
        """Keep the names [N]; None means 0..N-1. `file` is where they are listed."""
        self.file, self._names, self._count = file, names, count

    def __contains__(self, word: str) -> bool:
        """Whether a node has this name."""
        if self._names is None:
            return is_number(word) and int(word) < self._count
        return word in self.of_words

    @functools.cached_property
    def of_words(self) -> dict[str, int]:
        """Place of each name."""
        numbers = map(str, range(self._count))
        words = numbers if self._names is None else self._names.tolist()
        return {word: place for place, word in enumerate(words)}

    @functools.cached_property
    def _of_whole(self) -> np.ndarray | None:
        """Place of each number, -1 where there is none; None if names are words."""
        assert self._names is not None
        if not all(is_number(word) for word in self.of_words):
            return None
        numbers = self._names.astype(np.int64)
        if numbers.max() > max(1000, 100 * len(numbers)):
            return None  # too wide for a table
        places = np.full(numbers.max() + 1, -1)
        places[numbers] = np.arange(len(numbers))
        return places

    def of_numbers(self, nodes: Int[np.ndarray, "M 2"]) -> np.ndarray | None:
        """Places of many nodes; None if one is not known, or names are words."""
        if self._names is None:
            return nodes if np.all((nodes >= 0) & (nodes < self._count)) else None
        table = self._of_whole
        if table is None or not np.all((nodes >= 0) & (nodes < len(table))):
            return None
        places = table[nodes]
        return None if np.any(places < 0) else places


def is_number(word: str) -> bool:
    """Whether a word is a whole number as it is usually written.

    Example:
      >>> is_number("7"), is_number("07"), is_number("x")
      (True, False, False)
    """
    return word.isdecimal() and len(word) < 19 and str(int(word)) == word


def wrong(file: Path, line: int, message: str) -> ValueError:
    """The error of a line, for people.

    Example:
      >>> wrong(Path("edges.csv"), 3, "a line must have two nodes, got one.")
      ValueError('edges.csv, line 3: a line must have two nodes, got one.')
    """
    return ValueError(f"{file}, line {line}: {message}")


def read_rows(file: Path) -> Iterator[Row]:
    r"""Rows of a text table, one by one.

    Raises:
      OSError: if the file cannot be read.
      ValueError: if it is no such text.

    Example:
      >>> import tempfile
      >>> file = Path(tempfile.mkdtemp()) / "pairs.csv"
      >>> _ = file.write_text('# from the web\na, b\n\n"c, d",e\n')
      >>> [tuple(row) for row in read_rows(file)]
      [(2, ['a', 'b']), (4, ['c, d', 'e'])]
    """
    separator, number = _separator(file), 0
    try:
        with file.open(encoding="utf-8-sig", newline="") as text:
            skipped = _skip_comments(text)
            if separator is None:
                lines: Iterator[list[str]] = (line.split() for line in text)
                for number, fields in enumerate(lines, start=skipped + 1):
                    if fields:
                        yield Row(number, fields)
                return
            reader = csv.reader(
                text, delimiter=separator, skipinitialspace=True, strict=True
            )
            for fields in reader:
                number = skipped + reader.line_num
                if any(fields):
                    yield Row(number, [field.strip() for field in fields])
    except csv.Error as error:
        message = f"fields must be plain or quoted, got {error}."
        raise wrong(file, number + 1, message) from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{file} must be UTF-8 text, got other bytes after line {number}; save it "
            "as UTF-8."
        ) from error


def read_edges(file: Path, nodes: Places) -> Pairs:
    r"""Edges of a text table: two nodes in each line, and perhaps a weight.

    A first line that names no node is a header. Files of whole numbers take NumPy's
    parser, about 0.4 s for a million lines.

    Raises:
      ValueError: if a line has another form or names a node that is not listed.

    Example:
      >>> import tempfile
      >>> file = Path(tempfile.mkdtemp()) / "edges.tsv"
      >>> _ = file.write_text("from\tto\tweight\na\tb\t0.5\n")
      >>> pairs = read_edges(file, Places(np.asarray(["a", "b"]), 2, "nodes.csv"))
      >>> pairs.places.tolist(), pairs.weights.tolist()
      ([[0, 1]], [0.5])
    """
    first = next(read_rows(file), None)
    if first is None:
        return Pairs(np.zeros((0, 2), dtype=np.int64), None)
    width, has_header = len(first.fields), _is_header(first.fields[:2], nodes)
    if width not in (2, 3) or (has_header and first.fields[2:] not in ([], [WEIGHT])):
        raise wrong(
            file,
            first.line,
            f"a line must have two nodes and perhaps a {WEIGHT}, got {first.fields}; "
            "remove other columns.",
        )
    found = _parse_numbers(file, first.line - (not has_header), width, nodes)
    if found is None:  # words, or a mistake, which is then found by its line
        found = _parse_words(file, first.line if has_header else 0, width, nodes)
    return found


def _separator(file: Path) -> str | None:
    if file.suffix != ".csv":
        return "\t" if file.suffix == ".tsv" else None
    with file.open(encoding="utf-8-sig", errors="replace") as text:
        _skip_comments(text)
        line = text.readline()
    return ";" if ";" in line and "," not in line else ","


def _skip_comments(text: IO[str]) -> int:
    """Lines at the top that are comments; leaves the file behind them."""
    count = 0
    while True:
        start = text.tell()
        line = text.readline()
        if not line.startswith(("#", "%")):
            text.seek(start)
            return count
        count += 1


def _is_header(fields: list[str], nodes: Places) -> bool:
    is_known = any(field in nodes for field in fields)
    return not is_known and not all(is_number(field) for field in fields)


def _parse_numbers(file: Path, skip: int, width: int, nodes: Places) -> Pairs | None:
    """Edges between numbers in one go; None if anything is not as it should be."""
    if nodes.of_numbers(np.zeros((0, 2), dtype=np.int64)) is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of 1.5, and of files that end too early
            table = np.loadtxt(
                file,
                dtype=np.int64 if width == 2 else np.float64,
                delimiter=_separator(file),
                skiprows=skip,
                comments=None,
                ndmin=2,
                encoding="utf-8",
            )
    except (ValueError, OverflowError, Warning):
        return None
    ends = table[:, :2].astype(np.int64, copy=False)
    places = nodes.of_numbers(ends)
    if table.shape[1] != width or places is None or np.any(ends != table[:, :2]):
        return None
    return Pairs(places, table[:, 2] if width == 3 else None)


def _parse_words(file: Path, header: int, width: int, nodes: Places) -> Pairs:
    """Edges line by line; the first line that is wrong is named."""
    places, weights = [], []
    for line, fields in read_rows(file):
        if line == header:
            continue
        if len(fields) != width:
            raise wrong(
                file,
                line,
                f"a line must have {width} fields as the first one, got {len(fields)}; "
                "put quotes around fields that hold the separator.",
            )
        for field in fields[:2]:
            if field not in nodes:
                raise wrong(
                    file,
                    line,
                    f"an edge must join nodes of {nodes.file}, got {field!r}; add the "
                    "node there or remove the edge.",
                )
            places.append(nodes.of_words[field])
        if width == 3:
            weights.append(parse_number(file, line, WEIGHT, fields[2]))
    pairs = np.asarray(places, dtype=np.int64).reshape(-1, 2)
    return Pairs(pairs, np.asarray(weights) if width == 3 else None)


def parse_number(file: Path, line: int, title: str, text: str) -> float:
    """A field that must be a finite number.

    Example:
      >>> parse_number(Path("nodes.csv"), 2, "age", "31")
      31.0
    """
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise wrong(
            file,
            line,
            f"column {title!r} must hold finite numbers, got {text!r}; fill gaps, and "
            "give words as one column of 0 and 1 for each.",
        )
    return value
