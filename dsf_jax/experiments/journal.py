"""Results on disk while a grid runs.

A journal is a text file of JSON lines: the first says what is being run, each other one
is a finished job. Lines are only ever appended, so a run that is killed loses nothing
that had finished, and the next call with the same file runs what is missing.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dsf_jax.storage import to_json


class Journal:
    """Finished jobs of one grid, in a file.

    Example:
      >>> import tempfile
      >>> path = Path(tempfile.mkdtemp()) / "texas.journal"
      >>> journal = Journal(path, {"dataset": "texas"})
      >>> journal.append({3: {"test": 0.5}})
      >>> Journal(path, {"dataset": "texas"}).finished
      {3: {'test': 0.5}}
    """

    def __init__(self, path: Path, what: Mapping[str, Any]) -> None:
        """Open or begin the journal of a grid.

        Args:
          path: the file.
          what: everything that the results depend on.

        Raises:
          ValueError: if the file is the journal of something else.
        """
        self.path, self.finished = path, dict[int, dict[str, Any]]()
        lines = _complete_lines(path)
        if not lines:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._write([what])
            return
        _check_same(path, lines[0], json.loads(to_json(what)))
        for line in lines[1:]:
            self.finished[line.pop("job")] = line

    def append(self, jobs: Mapping[int, Mapping[str, Any]]) -> None:
        """Add finished jobs; they are on disk when this returns."""
        if jobs:
            self._write([{"job": job} | dict(fields) for job, fields in jobs.items()])
            self.finished.update({job: dict(fields) for job, fields in jobs.items()})

    def _write(self, lines: list[Any]) -> None:
        with self.path.open("a") as file:
            file.writelines(to_json(line) + "\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())


def _complete_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a journal; what a kill left of a last one is cut off."""
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        with path.open("r+b") as file:
            file.truncate(len(whole))
    try:
        return [json.loads(line) for line in whole.splitlines()]
    except ValueError as error:
        raise ValueError(
            f"journal must hold one JSON object per line, got {str(path)!r}, which "
            f"does not ({error}); name another file or remove it."
        ) from error


def _check_same(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    changed = [key for key in new if old.get(key) != new[key]]
    if changed or set(old) != set(new):
        key = changed[0] if changed else next(iter(set(old) ^ set(new)))
        raise ValueError(
            f"journal must be of the same runs, got {str(path)!r} with {key} = "
            f"{old.get(key)!r} instead of {new.get(key)!r}; name another file or "
            "remove it."
        )
