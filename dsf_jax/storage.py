"""Folders, digests and JSON: what every room that touches files shares."""

import errno
import hashlib
import json
import math
import os
import stat
import warnings
from collections.abc import Iterable, Mapping
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import IO, Any

import numpy as np

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

Row = dict[str, Any]  # a line of a file of JSON lines

CACHE_VARIABLE = "DSF_JAX_CACHE"
_OPEN_FILES = ("/dev/std", "/dev/fd/", "/proc/")  # what is open is not replaced


def cache_folder() -> Path:
    """`DSF_JAX_CACHE`, else `dsf_jax` in `XDG_CACHE_HOME` or `~/.cache`.

    Example:
      >>> cache_folder().is_absolute()
      True
    """
    if folder := os.environ.get(CACHE_VARIABLE):
        return Path(folder)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "dsf_jax"


def to_json(value: Any) -> str:
    """JSON text; what is not a finite number becomes null, as JSON has no NaN.

    Example:
      >>> to_json({"mean": float("nan")})
      '{"mean": null}'
    """
    return json.dumps(_finite(value), allow_nan=False)


def write_json(path: Path, value: Any) -> None:
    """Write a file whole or not at all.

    Example:
      >>> import tempfile
      >>> path = Path(tempfile.mkdtemp()) / "record.json"
      >>> write_json(path, {"mean": 0.5})
      >>> path.read_text().strip()
      '{"mean": 0.5}'
    """
    write_whole(path, (to_json(value) + "\n").encode())


def write_whole(path: Path, content: bytes | memoryview) -> None:
    """Write a file whole or not at all: nobody ever sees half of it.

    A link is followed, and a device or a pipe is written to, not replaced. Processes
    that write the same file wait for each other. A kill leaves one partial file at
    most, which the next call takes.

    Example:
      >>> import tempfile
      >>> path = Path(tempfile.mkdtemp()) / "note.txt"
      >>> write_whole(path, b"all of it")
      >>> path.read_bytes(), [file.name for file in path.parent.iterdir()]
      (b'all of it', ['note.txt'])
    """
    path = find_target(path)
    if _is_device(path):
        with path.open("ab", buffering=0) as file:
            _write_all(file, content)
        return
    partial = path.with_name(f".{path.name}.partial")
    with open_alone(partial, waits=True) as file:
        try:
            file.truncate(0)  # of one that was killed
            _write_all(file, content)
            os.fsync(file.fileno())
            if path.exists():
                partial.chmod(stat.S_IMODE(path.stat().st_mode))
            if fcntl is None:  # Windows moves no file that is open
                file.close()
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def check_place(path: Path) -> None:
    """Raise now what `write_whole` would raise later, after hours of work.

    Raises:
      OSError: if the folder is missing or may not be written, or the path is a folder
        or a file that may not be written.

    Example:
      >>> check_place(Path("no such folder") / "record.json")
      Traceback (most recent call last):
      FileNotFoundError: [Errno 2] No such file or directory: 'no such folder'
    """
    path = find_target(path)
    if path.is_dir():
        raise _os_error(errno.EISDIR, path)
    if path.exists() and not os.access(path, os.W_OK):
        raise _os_error(errno.EACCES, path)
    if not _is_device(path):  # a file is made beside it, and moved
        if not path.parent.is_dir():
            raise _os_error(errno.ENOENT, path.parent)
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise _os_error(errno.EACCES, path.parent)


def find_target(path: Path) -> Path:
    """The path itself, or what it links to, which may not exist yet.

    Raises:
      OSError: if links lead round in a circle.

    Example:
      >>> find_target(Path("record.json")).name
      'record.json'
    """
    if not path.is_symlink() or _is_device(path):
        return path
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise _os_error(errno.ELOOP, path)
    return target


def open_alone(
    path: Path, *, needs_lock: bool = False, waits: bool = False
) -> IO[bytes]:
    """Open a file to append to, made if it is missing, that no other process has so.

    The lock ends when the file is closed, and with the process that holds it, even if
    that is killed. It concerns only those that open the file by this function.

    Args:
      path: the file; it is opened for reading only if it may not be written.
      needs_lock: refuse if there are no locks on this platform or file system, instead
        of going without.
      waits: wait for the one that has the file.

    Returns:
      The open file, without a buffer.

    Raises:
      BlockingIOError: if another one has the file, or without a lock that is needed.

    Example:
      >>> import tempfile
      >>> path = Path(tempfile.mkdtemp()) / "rows"
      >>> with open_alone(path) as file:
      ...     write_lines(file, [{"job": 3}])
      >>> parse_lines(path.read_bytes())
      ([{'job': 3}], 11)
    """
    if needs_lock and fcntl is None:
        raise BlockingIOError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    while True:
        may_write = not path.exists() or os.access(path, os.W_OK)
        try:
            file = path.open("a+b" if may_write else "rb", buffering=0)
        except FileNotFoundError:
            if may_write:  # the folder is missing
                raise
            continue  # it was moved while we looked
        try:
            _lock(file, needs_lock, waits)
            if is_at(file, path):
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # it was removed or replaced before it was ours


def is_at(file: IO[bytes], path: Path) -> bool:
    """Whether an open file is still the one at a path.

    Example:
      >>> import tempfile
      >>> path = Path(tempfile.mkdtemp()) / "rows"
      >>> with open_alone(path) as file:
      ...     before = is_at(file, path)
      ...     path.unlink()
      ...     before, is_at(file, path)
      (True, False)
    """
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def read_lines(file: Path | Traversable) -> list[Row]:
    r"""Rows of a file of JSON lines; a warning says so if a torn last line is skipped.

    Args:
      file: the file, which may be package data.

    Returns:
      The rows.

    Raises:
      ValueError: if another line is no JSON object; says which one.

    Example:
      >>> import tempfile
      >>> path = Path(tempfile.mkdtemp()) / "rows.jsonl"
      >>> _ = path.write_text('{"mean": 84.2}\n')
      >>> read_lines(path)
      [{'mean': 84.2}]
    """
    content = file.read_bytes()
    rows, num_whole = _parse_file(str(file), content)
    if num_whole < len(content):
        message = f"line {len(rows) + 1}, the last one, is torn and was skipped"
        warnings.warn(f"{file}: {message}; write it again.", stacklevel=2)
    return rows


def append_line(path: Path, row: Mapping[str, Any]) -> None:
    r"""Add a row to a file of JSON lines, which is on disk when this returns.

    Processes that do so at once wait for each other. A torn last line is removed first.

    Args:
      path: the file; made if it is missing.
      row: the row.

    Raises:
      ValueError: if the file must be mended, and is none of JSON lines.

    Example:
      >>> import tempfile
      >>> path = Path(tempfile.mkdtemp()) / "rows.jsonl"
      >>> _ = path.write_text('{"mean": 84.2}\n{"mea')  # a kill left this
      >>> append_line(path, {"mean": 85.1})
      >>> read_lines(path)
      [{'mean': 84.2}, {'mean': 85.1}]
    """
    with open_alone(path, waits=True) as file:
        content = path.read_bytes()
        if not content.endswith(b"\n"):
            _, num_whole = _parse_file(str(path), content)
            end_lines(file, content, num_whole)
        write_lines(file, [row])


def parse_lines(content: bytes) -> tuple[list[Row], int]:
    r"""Rows of a file of JSON lines, and how many bytes they take.

    What a kill left of a last line is not among them: it has no end and is no JSON. A
    last line that lacks the line break alone is whole.

    Args:
      content: the file.

    Returns:
      The rows, and the length of the part of the file that they stand in.

    Raises:
      ValueError: if another line is no JSON object; says which one.

    Example:
      >>> parse_lines(b'{"job": 3}\n{"jo')
      ([{'job': 3}], 11)
      >>> parse_lines(b'{"job": 3}\n{"jo\n')
      Traceback (most recent call last):
      ValueError: line 2 is no JSON object
    """
    *lines, tail = content.split(b"\n")
    rows = [_parse_object(line, number) for number, line in enumerate(lines, start=1)]
    try:
        return [*rows, _parse_object(tail, len(lines) + 1)], len(content)
    except ValueError:
        if not rows and tail and not tail.startswith(b"{"):
            raise  # not the beginning of a row either
        return rows, len(content) - len(tail)


def write_lines(file: IO[bytes], rows: Iterable[Mapping[str, Any]]) -> None:
    r"""Append JSON lines to an open file: all or none, on disk when this returns.

    Example:
      >>> import tempfile
      >>> with tempfile.TemporaryFile("a+b", buffering=0) as file:
      ...     write_lines(file, [{"job": 3}, {"job": 4}])
      ...     file.seek(0), file.read()
      (0, b'{"job": 3}\n{"job": 4}\n')
    """
    content = "".join(to_json(row) + "\n" for row in rows).encode()
    start = file.seek(0, os.SEEK_END)
    try:
        # one call, which nobody can come between
        if file.write(content) < len(content):
            raise _os_error(errno.ENOSPC, file.name)
        os.fsync(file.fileno())
    except OSError:
        file.truncate(start)
        raise


def end_lines(file: IO[bytes], content: bytes, num_whole: int) -> None:
    """Let an open file end with a whole line, so that the next one can be appended.

    Args:
      file: the file, to be written.
      content: what it holds.
      num_whole: length of its rows, from `parse_lines`.

    Example:
      >>> import tempfile
      >>> with tempfile.TemporaryFile("a+b", buffering=0) as file:
      ...     _ = file.write(b'{"jo')
      ...     end_lines(file, b'{"jo', num_whole=0)
      ...     file.seek(0), file.read()
      (0, b'')
    """
    if num_whole < len(content):
        file.truncate(num_whole)
    elif content and not content.endswith(b"\n"):
        file.seek(0, os.SEEK_END)
        file.write(b"\n")


def digest(*arrays: Any) -> str:
    """SHA-256 of the shapes, types and contents of arrays.

    Example:
      >>> digest(np.zeros(3)) == digest(np.zeros(3)), len(digest(np.ones(3)))
      (True, 64)
    """
    result = hashlib.sha256()
    for array in map(np.ascontiguousarray, arrays):
        result.update(f"{array.shape} {array.dtype.str} ".encode())
        result.update(array.tobytes())
    return result.hexdigest()


def _is_device(path: Path) -> bool:
    """Whether it is no file on a disk: a device, a pipe, or a name of one like them."""
    is_other = path.exists() and not path.is_file() and not path.is_dir()
    return is_other or os.path.abspath(path).startswith(_OPEN_FILES)


def _write_all(file: IO[bytes], content: bytes | memoryview) -> None:
    """Write all of it, in as many calls as it takes."""
    rest = memoryview(content)
    while len(rest):
        rest = rest[file.write(rest) :]


def _os_error(number: int, name: Any) -> OSError:
    return OSError(number, os.strerror(number), str(name))


def _lock(file: IO[bytes], needs_lock: bool, waits: bool) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError as error:  # some file systems have no locks
        if needs_lock:
            raise BlockingIOError(error.errno, error.strerror) from error


def _parse_file(name: str, content: bytes) -> tuple[list[Row], int]:
    try:
        return parse_lines(content)
    except ValueError as error:
        raise ValueError(
            f"{name} must hold one JSON object per line, got something else ({error}); "
            "mend or remove the line."
        ) from error


def _parse_object(line: bytes, number: int) -> Row:
    try:
        value = json.loads(line.decode())
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ValueError(f"line {number} is no JSON object")
    return value


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
