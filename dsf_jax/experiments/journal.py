"""Results on disk while a grid runs.

A journal is a text file of JSON lines: the first says what is being run and with what
precision, versions and devices, each other one is a finished job. Lines are only ever
appended, so a run that is killed loses nothing that had finished, and the next call
with the same file runs what is missing.
"""

import json
import os
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from dsf_jax.models.settings import HyperParams, settings_to_json
from dsf_jax.storage import (
    Row,
    end_lines,
    open_alone,
    parse_lines,
    to_json,
    write_lines,
)

_SETTINGS = ("settings", "base")  # names under which a header keeps all settings


class Journal:
    """Finished jobs of one grid, in a file that one process writes at a time.

    The file is locked until `close`, the end of a `with` block, or the end of the
    process, however it ends. Journals of one process share the lock.

    Example:
      >>> import tempfile
      >>> path = Path(tempfile.mkdtemp()) / "texas.journal"
      >>> with Journal(path, {"dataset": "texas"}) as journal:
      ...     journal.append({3: {"test": 0.5}})
      >>> Journal(path, {"dataset": "texas"}).finished
      {3: {'test': 0.5}}
    """

    def __init__(
        self,
        path: Path,
        what: Mapping[str, Any],
        made_with: Mapping[str, Any] | None = None,
        *,
        chosen: Mapping[str, Any] | None = None,
        mixed: bool = False,
    ) -> None:
        """Open or begin the journal of a grid.

        Args:
          path: the file.
          what: everything that the results depend on.
          made_with: what they depend on in rounding: precision, versions, devices.
          chosen: more of that, which a file that exists decides otherwise: lanes.
          mixed: go on with a file whose runs were made with something else; a line of
            it then says what the others are made with.

        Raises:
          ValueError: if the file is no journal, or that of something else, or if
            another process has it open; it stays as it is.
        """
        self.path = path
        self._open: _OpenFile | None = _open_file(path)
        header, content = json.loads(to_json(what)), path.read_bytes()
        rows, num_whole = _rows(path, content, header)  # refuses before any change
        known = [row["made_with"] for row in rows if "made_with" in row]
        required, free = made_with or {}, chosen or {}
        self.own = agree("journal", path, known, required, free, mixed=mixed)
        self.made_with = known + [self.own] * (self.own not in [*known, {}])
        self.finished = {
            row["job"]: {key: row[key] for key in row if key != "job"}
            for row in rows[1:]
            if "job" in row
        }
        end_lines(self._open.file, content, num_whole)
        beginning = {"made_with": self.own} if self.made_with != known else {}
        if not rows:
            write_lines(self._open.file, [header | beginning])
        elif beginning:
            write_lines(self._open.file, [beginning])

    def __enter__(self) -> "Journal":
        """The journal, to be closed at the end of the block."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Let another process have the file; nothing can be appended any more."""
        self._open = None

    def append(self, jobs: Mapping[int, Mapping[str, Any]]) -> None:
        """Add finished jobs; they are on disk when this returns."""
        if self._open is None:
            raise ValueError(f"journal must be open, got {str(self.path)!r} closed.")
        if jobs:
            rows = [{"job": job} | dict(fields) for job, fields in jobs.items()]
            write_lines(self._open.file, rows)
            self.finished.update({job: dict(fields) for job, fields in jobs.items()})


def first_difference(
    old: Mapping[str, Any], new: Mapping[str, Any]
) -> tuple[str, Any, Any] | None:
    """Name and both values of the first thing in which a file differs from a run.

    A setting that an older version did not have counts with its default.

    Example:
      >>> old, new = {"seed": 0, "settings": {}}, {"seed": 0, "settings": {"eta1": 0.5}}
      >>> first_difference(old, new)  # an old file, before there was eta1
      >>> first_difference(old, new | {"settings": {"eta1": 0.1}})
      ('settings.eta1', 0.5, 0.1)
    """
    defaults = settings_to_json(HyperParams())
    for name in {**new, **old}:
        past, value = old.get(name), new.get(name)
        if not isinstance(past, Mapping) or not isinstance(value, Mapping):
            if past != value:
                return name, past, value
            continue
        known = defaults if name in _SETTINGS else {}
        for field in {**value, **past}:
            before, now = (at.get(field, known.get(field)) for at in (past, value))
            if before != now:
                return f"{name}.{field}", before, now
    return None


def agree(
    name: str,
    path: Path,
    known: Sequence[Mapping[str, Any]],
    own: Mapping[str, Any],
    chosen: Mapping[str, Any],
    *,
    mixed: bool,
) -> dict[str, Any]:
    """What runs of a file go on with; refuse to mix precisions, versions and devices.

    Args:
      name: of the argument, for the message.
      path: the file.
      known: what its runs were made with; empty in files of older versions.
      own: what those of this process are made with.
      chosen: more of it, for which a file that exists has the say.
      mixed: do not refuse.

    Returns:
      Both together, `chosen` as in the file.

    Raises:
      ValueError: if that is none of `known`.

    Example:
      >>> known = [{"precision": "float32", "lanes": 4}]
      >>> own, chosen = {"precision": "float32"}, {"lanes": 1}
      >>> agree("journal", Path("runs"), known, own, chosen, mixed=False)
      {'precision': 'float32', 'lanes': 4}
    """
    for past in known:
        found = {**own, **{key: past.get(key, chosen[key]) for key in chosen}}
        if found == past:
            return found
    if known and not mixed and (own or chosen):
        last = known[-1]
        changed = next((key for key in own if own[key] != last.get(key)), "made_with")
        raise ValueError(
            f"{name} must go on with what it was made with, got {str(path)!r} with "
            f"{changed} = {last.get(changed)!r} instead of {own.get(changed)!r}; go "
            "back to that, name another file, or allow a mix (mixed=True, --mixed)."
        )
    return {**own, **chosen}


class _OpenFile:
    """A locked file, which is closed when no journal has it any more."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        weakref.finalize(self, file.close)


# by process, as a fork has those of its parent; and by file, as paths may differ
_OPEN = weakref.WeakValueDictionary[tuple[int, int, int], _OpenFile]()


def _open_file(path: Path) -> _OpenFile:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        if not path.is_file():
            raise _no_journal(path, "it is no regular file")
        if (found := _OPEN.get(_key(path.stat()))) is not None:
            return found
    try:
        made = _OpenFile(open_alone(path))
    except BlockingIOError as error:
        raise ValueError(
            f"journal must have one writer at a time, got {str(path)!r}, which another "
            "process has open; wait for its end or name another file."
        ) from error
    return _OPEN.setdefault(_key(os.fstat(made.file.fileno())), made)


def _key(stat: os.stat_result) -> tuple[int, int, int]:
    return os.getpid(), stat.st_dev, stat.st_ino


def _rows(path: Path, content: bytes, header: Row) -> tuple[list[Row], int]:
    """Rows of the journal with this header, and how many bytes they take."""
    try:
        rows, num_whole = parse_lines(content)
    except ValueError as error:
        raise _no_journal(path, str(error)) from error
    if rows:
        old = {key: value for key, value in rows[0].items() if key != "made_with"}
        _check_same(path, old, header)
    elif not _is_torn_header(content, to_json(header).encode()[:-1]):
        raise _no_journal(path, "line 1 is no JSON object")
    for number, row in enumerate(rows, start=1):
        is_made_with = isinstance(row.get("made_with"), dict)
        if "made_with" in row and not is_made_with:
            raise _no_journal(path, f"line {number} has no JSON object in made_with")
        if number > 1 and type(row.get("job")) is not int and not is_made_with:
            raise _no_journal(path, f"line {number} is no finished job")
    return rows, num_whole


def _is_torn_header(content: bytes, stem: bytes) -> bool:
    """Whether a kill left it of a header; what it was made with may be another."""
    return stem.startswith(content) or content.startswith(stem)


def _no_journal(path: Path, reason: str) -> ValueError:
    return ValueError(
        f"journal must hold one JSON object per line, got {str(path)!r}, which does "
        f"not ({reason}); name another file or remove it."
    )


def _check_same(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    if difference := first_difference(old, new):
        name, past, value = difference
        raise ValueError(
            f"journal must be of the same runs, got {str(path)!r} with {name} = "
            f"{past!r} instead of {value!r}; name another file or remove it."
        )
