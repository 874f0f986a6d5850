"""Readers of bytes from outside, and inputs to break them with.

A reader takes one input and returns, or raises `ValueError`: anything else is a fault,
as are a crash of the process, ten seconds or a gigabyte.
"""

import functools
import io
import random
import struct
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import flax.serialization
import numpy as np

from dsf_jax.cli.shared import _read_settings
from dsf_jax.data.formats import (
    read_csr_npz,
    read_geom_gcn,
    read_musae,
    read_npz,
    read_planetoid,
)
from dsf_jax.data.synthetic import regions
from dsf_jax.experiments.journal import Journal
from dsf_jax.experiments.saved import _sha256, load_params
from dsf_jax.experiments.study import open_study
from dsf_jax.graph.laplacian import NUM_COLUMNS
from dsf_jax.graph.positional import _read
from dsf_jax.models.settings import HyperParams, settings_to_json
from dsf_jax.storage import append_line, read_lines, to_json

ROOT = Path(__file__).parent.parent
WHAT = {"dataset": "texas", "seed": 0, "settings": {"lr": 0.1}}
MADE_WITH = {"precision": "float32", "lanes": 4}
EXTREMES = (0, 1, -1, 127, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1)


class Target(NamedTuple):
    """A reader, and whole inputs that it reads."""

    read: Callable[[bytes], Any]
    wholes: list[bytes]
    share: int  # of the inputs of a campaign, in percent
    rebuild: Callable[[bytes, random.Random], bytes] | None = None


def mutate(content: bytes, rng: random.Random) -> bytes:
    """Some bytes replaced, removed, repeated, added, or set to an extreme number."""
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        place, length = rng.randrange(len(content) + 1), rng.choice((1, 1, 2, 4, 8, 40))
        piece = content[place : place + length]
        match rng.randrange(7):
            case 0:
                new = rng.randbytes(len(piece))
            case 1:
                new = bytes(byte ^ 1 << rng.randrange(8) for byte in piece)
            case 2:
                new = b""
            case 3:
                new = piece * rng.choice((2, 3, 100))
            case 4:
                new = rng.randbytes(3) + piece
            case 5:
                kind = rng.choice(("<q", ">q", "<Q", ">Q"))
                number = rng.choice(EXTREMES)
                new = struct.pack(kind, abs(number) if kind[1] == "Q" else number)
                new = new[: len(piece) or 8]
            case _:
                return content[:place]  # cut short
        content = content[:place] + new + content[place + length :]
    return content


def mutate_members(content: bytes, rng: random.Random) -> bytes:
    """An archive whose checksums are right, around members that are not."""
    if rng.random() < 0.3:
        return mutate(content, rng)
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w") as new:
        names = old.namelist()
        damaged = rng.choice(names)
        for name in names:
            member = old.read(name)
            if name == damaged:  # mostly in its header
                head = rng.choice((len(member), 128))
                member = mutate(member[:head], rng) + member[head:]
            new.writestr(name, member)
    return made.getvalue()


def mutate_record(content: bytes, rng: random.Random) -> bytes:
    """Saved parameters whose checksum is right, around a record that is not."""
    if rng.random() < 0.5:
        return mutate(content, rng)
    outer = flax.serialization.msgpack_restore(content)
    if "content" not in outer:
        return mutate(content, rng)
    inner = mutate(outer["content"], rng)
    made = outer | {"content": inner, "sha256": _sha256(inner)}
    return flax.serialization.msgpack_serialize(made)


def targets(save_one: Callable[[Path], None]) -> dict[str, Target]:
    """Readers by name; their files are in a folder of their own.

    Nothing here uses JAX: only the processes that read do.

    Args:
      save_one: writes parameters of `gpr` on `regions(60)`.
    """
    sys.path.insert(0, str(ROOT))
    from tests import test_formats as samples

    folder = Path(tempfile.mkdtemp(prefix="attacks-"))
    found = {
        "pickles": Target(
            _parts(read_planetoid, samples.PLANETOID),
            list(_named(samples.PLANETOID)),
            38,
        ),
        "npz": Target(
            lambda content: read_npz({"x.npz": content}),
            list(samples.NPZ.values()),
            12,
            mutate_members,
        ),
        "CSR npz": Target(
            lambda content: read_csr_npz({"x.npz": content}),
            list(samples.CSR_NPZ.values()),
            12,
            mutate_members,
        ),
        "tab-separated text": Target(
            _parts(read_geom_gcn, samples.GEOM_GCN), list(_named(samples.GEOM_GCN)), 8
        ),
        "CSV and JSON": Target(
            _parts(read_musae, samples.MUSAE), list(_named(samples.MUSAE)), 8
        ),
    }
    return found | _file_targets(folder, save_one)


def _file_targets(folder: Path, save_one: Callable[[Path], None]) -> dict[str, Target]:
    """Readers of our own files."""
    path, num_nodes, dataset = folder / "file", 60, functools.cache(regions)

    def settings(content: bytes) -> None:
        path.write_bytes(content)
        _read_settings(path, "texas", "gpr")

    def parameters(content: bytes) -> None:
        path.write_bytes(content)
        load_params(path, dataset(num_nodes))

    def positions(content: bytes) -> None:
        path.write_bytes(content)
        _read(path, {"x": (num_nodes, NUM_COLUMNS), "errors": (NUM_COLUMNS,)})

    def lines(content: bytes) -> None:
        path.write_bytes(content)
        _unchanged_if_refused(lambda: append_line(path, {"mean": 1.0}))
        read_lines(path)

    def journal(content: bytes) -> None:
        path.write_bytes(content)
        _unchanged_if_refused(lambda: Journal(path, WHAT, MADE_WITH).close())

    def study(content: bytes) -> None:
        path.write_bytes(content)

        def open_it() -> None:
            with open_study(path, WHAT, MADE_WITH, chosen={}) as (found, _):
                found.ask()

        _unchanged_if_refused(open_it)

    def _unchanged_if_refused(call: Callable[[], None]) -> None:
        before = path.read_bytes()
        try:
            call()
        except ValueError:
            assert path.read_bytes() == before, "a refused file was changed"
            raise

    return {
        "settings": Target(settings, [_settings()], 4),
        "saved parameters": Target(
            parameters, list(_saved(folder / "new", save_one)), 1, mutate_record
        ),
        "positional cache": Target(
            positions, [_positions(num_nodes)], 6, mutate_members
        ),
        "JSON lines": Target(lines, [b'{"mean": 84.2, "test": [[1.0]]}\n' * 3], 6),
        "journals": Target(journal, list(_journals()), 4),
        "studies": Target(study, [_study(folder)], 1),
    }


def _named(files: dict[str, bytes]) -> Iterator[bytes]:
    """Each file behind its name, so that one input says which one is damaged."""
    for name, content in files.items():
        yield name.encode() + b"\0" + content


def _parts(read: Callable[..., Any], files: dict[str, bytes]) -> Callable[[bytes], Any]:
    def read_one(content: bytes) -> Any:
        name, _, damaged = content.partition(b"\0")
        if name.decode(errors="replace") not in files:
            name, damaged = next(iter(files)).encode(), content
        return read({**files, name.decode(): damaged})

    return read_one


def _saved(path: Path, save_one: Callable[[Path], None]) -> Iterator[bytes]:
    """As they are written now, before there was a checksum, and long ago."""
    save_one(path)
    new = path.read_bytes()
    yield new
    yield flax.serialization.msgpack_restore(new)["content"]
    with np.load(ROOT / "tests" / "saved_1.npz") as old:
        yield next(old[name] for name in old.files if name.endswith("/file")).tobytes()


def _settings() -> bytes:
    return to_json({"settings": settings_to_json(HyperParams())}).encode()


def _positions(num_nodes: int) -> bytes:
    content = io.BytesIO()
    np.savez(content, x=np.ones((num_nodes, NUM_COLUMNS)), errors=np.ones(NUM_COLUMNS))
    return content.getvalue()


def _journals() -> Iterator[bytes]:
    rows = b'{"job": 0, "test": 0.5}\n{"job": 1, "test": 0.25}\n'
    yield to_json(WHAT).encode() + b"\n" + rows
    yield to_json(WHAT | {"made_with": MADE_WITH}).encode() + b"\n" + rows


def _study(folder: Path) -> bytes:
    path = folder / "study"
    with open_study(path, WHAT, MADE_WITH, chosen={}) as (study, _):
        for value in (1.0, 2.0):
            trial = study.ask()
            trial.suggest_float("lr", 0.1, 1.0)
            study.tell(trial, value)
    return path.read_bytes()
