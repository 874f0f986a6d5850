"""The file of a search: an Optuna study that one process has at a time.

It is Optuna's own journal of JSON lines, so its tools read it. Here it is locked while
it is open, a torn last line is removed before anything is appended, and rows are
written whole or not at all: a full disk or a kill costs the trial under way, no more.
"""

import contextlib
import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import BaseJournalBackend

from dsf_jax.experiments.journal import agree, first_difference
from dsf_jax.storage import (
    Row,
    end_lines,
    open_alone,
    parse_lines,
    to_json,
    write_lines,
)

_STUDY = "dsf-jax"
_MADE_WITH = "made_with"


@contextlib.contextmanager
def open_study(
    path: Path,
    what: Mapping[str, Any],
    made_with: Mapping[str, Any],
    *,
    chosen: Mapping[str, Any],
    mixed: bool = False,
) -> Iterator[tuple[optuna.Study, dict[str, Any]]]:
    """The study of a file, new or resumed, locked until the block ends.

    Args:
      path: the file.
      what: everything that trials depend on; `seed` is also that of the sampler. What
        a file of an older version does not know is added to it.
      made_with: as in `Journal`.
      chosen: as in `Journal`.
      mixed: as in `Journal`.

    Yields:
      The study, and what its trials are made with.

    Raises:
      ValueError: if the file is no study, or of another one, made with something else,
        or open in another process; it stays as it is.

    Example:
      >>> import tempfile
      >>> path, what = Path(tempfile.mkdtemp()) / "study", {"seed": 0}
      >>> with open_study(path, what, {}, chosen={"lanes": 2}) as (study, made_with):
      ...     study.user_attrs["seed"], made_with
      (0, {'lanes': 2})
    """
    with _open(path) as file:
        study, sampler = _load(path, file, seed=what["seed"])
        known, wanted = study.user_attrs, json.loads(to_json(what))
        _check_same(path, known, wanted)
        past = known.get(_MADE_WITH, [])
        own = agree("storage", path, past, made_with, chosen, mixed=mixed)
        if own not in past:
            wanted[_MADE_WITH] = [*past, own]
        for name, value in wanted.items():
            if name not in known or known[name] != value:
                study.set_user_attr(name, value)
        if study.trials:  # a resumed study must not draw its first trials again
            sampler.reseed_rng()
        yield study, own


def _open(path: Path) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        raise _no_study(path, "it is no regular file")
    try:
        file = open_alone(path)
    except BlockingIOError as error:
        raise ValueError(
            f"storage must have one search at a time, got {str(path)!r}, which another "
            "process has open; wait for its end or name another file."
        ) from error
    lock = path.with_name(path.name + ".lock")  # of Optuna, left by an older version
    if lock.is_file() and lock.stat().st_size == 0:
        lock.unlink()
    return file


class _Rows(BaseJournalBackend):
    """Rows of the locked file, which no other process changes."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._file, self._content = file, path.read_bytes()
        self._rows, self._num_whole = parse_lines(self._content)

    def read_logs(self, log_number_from: int) -> list[Row]:
        return self._rows[log_number_from:]

    def append_logs(self, logs: list[Row]) -> None:
        end_lines(self._file, self._content, self._num_whole)  # not before it is ours
        self._content, self._num_whole = b"", 0
        write_lines(self._file, logs)
        self._rows += json.loads(to_json(logs))


def _load(
    path: Path, file: IO[bytes], *, seed: int
) -> tuple[optuna.Study, optuna.samplers.TPESampler]:
    try:
        storage = JournalStorage(_Rows(path, file))
    except Exception as error:  # Optuna has no error of its own for other rows
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise _no_study(path, reason) from error
    names = [study.study_name for study in storage.get_all_studies()]
    if names not in ([], [_STUDY]) or (not names and not _is_beginning(path)):
        raise _no_study(path, f"it has the studies {names}")
    with warnings.catch_warnings():
        # batches need the constant liar; both options have been experimental for years
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=seed, multivariate=True, constant_liar=True, n_startup_trials=20
        )
    options: dict[str, Any] = {"storage": storage, "sampler": sampler}
    if names:
        study = optuna.load_study(study_name=_STUDY, **options)
    else:
        study = optuna.create_study(study_name=_STUDY, direction="maximize", **options)
    return study, sampler


def _is_beginning(path: Path) -> bool:
    """Whether the file is empty, or what a kill left of its first row."""
    content, first = path.read_bytes(), b'{"op_code":'
    return first.startswith(content) or content.startswith(first)


def _no_study(path: Path, reason: str) -> ValueError:
    return ValueError(
        f"storage must be a file of dsf-jax tune, got {str(path)!r}, which is not "
        f"({reason}); name another file or remove it."
    )


def _check_same(path: Path, known: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Refuse another study; a part of it that an older version did not keep passes."""
    if difference := first_difference(
        {name: known.get(name, new[name]) for name in new}, new
    ):
        name, past, value = difference
        raise ValueError(
            f"storage must be of the same study, got {str(path)!r} with {name} = "
            f"{past!r} instead of {value!r}; name another file."
        )
