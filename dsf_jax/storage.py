"""Folders, digests and JSON: what every room that touches files shares."""

import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

CACHE_VARIABLE = "DSF_JAX_CACHE"


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


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: nobody ever sees half of it.

    Example:
      >>> import tempfile
      >>> path = Path(tempfile.mkdtemp()) / "note.txt"
      >>> write_whole(path, b"all of it")
      >>> path.read_bytes(), [file.name for file in path.parent.iterdir()]
      (b'all of it', ['note.txt'])
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


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


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
