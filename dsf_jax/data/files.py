"""Files of the data sets: known bytes from pinned places, or none at all.

`manifest.json` names every file with its SHA-256 and the URL it comes from. A file is
used only if its digest is the one listed, so a result always belongs to known bytes. A
missing file is downloaded into the folder named by `DSF_JAX_DATA`, or into the user's
cache; each data set has a folder of its own name there.
"""

import contextlib
import errno
import glob
import hashlib
import http.client
import itertools
import json
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from dsf_jax.storage import cache_folder, is_at, open_alone

DATA_VARIABLE = "DSF_JAX_DATA"

_TIMEOUT = 30.0  # seconds without a byte
_CHUNK = 1 << 16


class File(NamedTuple):
    """An entry of the manifest.

    Example:
      >>> manifest()["chameleon"][0].file
      'chameleon.npz'
    """

    file: str
    sha256: str
    url: str
    bytes: int = 0
    repacked: bool = False  # these bytes are ours; the URL has the same arrays
    upstream_git_blob_sha1: str = ""  # the file at the URL, when repacked


def manifest() -> dict[str, list[File]]:
    """Files of each data set.

    Example:
      >>> len(manifest())
      17
    """
    text = resources.files("dsf_jax.data").joinpath("manifest.json").read_text()
    return {
        name: [File(**entry) for entry in entries]
        for name, entries in json.loads(text).items()
    }


def data_folder() -> Path:
    """`DSF_JAX_DATA`, else `data` in the cache folder; it may not exist yet.

    Example:
      >>> data_folder().is_absolute()
      True
    """
    if folder := os.environ.get(DATA_VARIABLE):
        return Path(folder)
    return cache_folder() / "data"


def is_present(name: str) -> bool:
    """Whether all files of a data set are in the folder; digests are not looked at.

    Example:
      >>> is_present("camel")
      Traceback (most recent call last):
      KeyError: 'camel'
    """
    folder = data_folder() / name
    return all((folder / entry.file).is_file() for entry in manifest()[name])


def read_files(name: str) -> dict[str, bytes]:
    """Contents of the files of a data set; what is returned is what was verified.

    Args:
      name: a name in the manifest.

    Returns:
      Contents by file name.

    Raises:
      FileNotFoundError: if a file is missing and cannot be downloaded; says what to put
        where.
      ValueError: if a file is not the one listed.

    Example:
      >>> read_files("camel")
      Traceback (most recent call last):
      KeyError: 'camel'
    """
    contents = {}
    for entry in manifest()[name]:
        path = data_folder() / name / entry.file
        if not path.is_file():
            _download(entry, path)
        content = path.read_bytes()
        _verify(entry, content, path)
        contents[entry.file] = content
    return contents


def _verify(entry: File, content: bytes, path: Path) -> None:
    digest = hashlib.sha256(content).hexdigest()
    if digest == entry.sha256:
        return
    if entry.upstream_git_blob_sha1:
        header = f"blob {len(content)}\0".encode()
        if hashlib.sha1(header + content).hexdigest() == entry.upstream_git_blob_sha1:
            return
    raise ValueError(
        f"{path} must have SHA-256 {entry.sha256}, got {digest}; it is damaged or "
        f"another version: replace it by {entry.url}"
    )


def _download(entry: File, path: Path) -> None:
    """Fetch into a part that no other process writes; move it when verified."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _own_part(path) as part:
            if not path.is_file():  # another process may have just finished it
                _fetch(entry, part)
                _verify_part(entry, part)
                os.replace(part, path)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise FileNotFoundError(
            f"{path} is missing and could not be downloaded ({reason}); put the file "
            f"{entry.url} there, or name another folder in {DATA_VARIABLE}."
        ) from error


@contextlib.contextmanager
def _own_part(path: Path) -> Iterator[Path]:
    """`<file>.part`, which the next call continues, or `.part1`, ... if it is taken.

    Only the process that holds the lock writes a part, and it moves or leaves it before
    it lets go. Without locks a part is in a folder of its own. Parts that others, now
    gone, have left are removed once the file is there.
    """
    for number in itertools.count():
        part = path.with_name(f"{path.name}.part{number or ''}")
        try:
            lock = open_alone(part, needs_lock=True)
        except BlockingIOError as error:
            if error.errno == errno.EAGAIN:  # another process has it
                continue
            with tempfile.TemporaryDirectory(dir=path.parent) as folder:
                yield Path(folder) / path.name
            return
        with lock:
            try:
                yield part
            finally:
                if is_at(lock, part) and (number or not part.stat().st_size):
                    part.unlink()
        break
    if path.is_file():
        _remove_parts(path)


def _remove_parts(path: Path) -> None:
    for part in path.parent.glob(f"{glob.escape(path.name)}.part*"):
        with contextlib.suppress(OSError), open_alone(part, needs_lock=True) as lock:
            if is_at(lock, part):
                part.unlink()


def _verify_part(entry: File, part: Path) -> None:
    try:
        _verify(entry, part.read_bytes(), part)
    except ValueError:
        part.unlink()
        raise


def _fetch(entry: File, part: Path) -> None:
    """Append to the part what it lacks, or all of it if the server does not resume."""
    done = part.stat().st_size if part.is_file() else 0
    headers = {"Range": f"bytes={done}-"} if done else {}
    request = urllib.request.Request(entry.url, headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        return  # the part is complete, or too long: the digest tells
    with response:
        is_rest = response.status == http.HTTPStatus.PARTIAL_CONTENT
        done = done if is_rest else 0
        total = done + int(response.headers.get("Content-Length", 0))
        with part.open("ab" if is_rest else "wb") as file:
            for chunk in _with_progress(response, entry.file, done, total):
                done += file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
    if done < total:  # what came is kept, the next call continues
        raise ConnectionError(f"the connection ended after {done} of {total} bytes")


def _with_progress(
    response: http.client.HTTPResponse, name: str, done: int, total: int
) -> Iterator[bytes]:
    """Chunks of the response; a bar on standard error, if that is a terminal."""
    from rich.console import Console  # slow to import, and seldom needed
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    is_shown = console.is_terminal or console.is_jupyter
    columns = BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(
        "{task.description}", *columns, console=console, disable=not is_shown
    ) as bar:
        task = bar.add_task(name, total=total or None, completed=done)
        while chunk := response.read(_CHUNK):
            yield chunk
            bar.advance(task, len(chunk))
