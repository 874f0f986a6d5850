"""Initial positions x_pos of the nodes: LapPE and RWPE (Appendix C.2), on the host.

They depend on the graph alone, so `positional_features` computes them once per graph
and keeps them on disk, each kind in a file of its own.
"""

import hashlib
import io
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import numpy as np
from jaxtyping import Float

from dsf_jax.graph.graph import Graph, check_graph
from dsf_jax.graph.laplacian import NUM_COLUMNS, laplacian_features
from dsf_jax.graph.random_walk import (
    SKETCH_COLUMNS,
    check_columns,
    is_exact_affordable,
    random_walk_features,
    sketch_random_walks,
)
from dsf_jax.storage import cache_folder, write_whole

KINDS = ("lap", "rw")  # order of the first axis of x_pos
METHODS = ("auto", "exact", "sketch")  # of RWPE

_CACHE_VERSION = 2  # raise it when a graph gets other values or another form of file
_MAX_HEADERS = 4096  # bytes of a file beside the values of its arrays


class PositionalFeatures(NamedTuple):
    """LapPE and RWPE of one graph, and how they were found."""

    x_pos: Float[np.ndarray, "2 N 32"]  # x_pos[i] is of the kind KINDS[i]
    eigenvalues: Float[np.ndarray, " 32"]  # of L̂, of the columns of LapPE
    num_zero_eigenvalues: int  # of L_hat: connected components with edges
    residuals: Float[np.ndarray, " 32"]  # |L̂ x - μ x| of the columns of LapPE
    errors: Float[np.ndarray, " 32"]  # of RWPE, as in `WalkSketch`; 0 if exact
    num_columns: int  # of the sketch; 0 if RWPE is exact
    seconds: tuple[float, float]  # LapPE and RWPE, when they were computed

    @property
    def report(self) -> str:
        """How the features were found, in a sentence for each kind.

        Example:
          >>> zero, errors = np.zeros(32), np.linspace(0.1, 0.2, 32)
          >>> x_pos = np.zeros((2, 9, 32))
          >>> found = PositionalFeatures(x_pos, zero, 1, zero, errors, 256, (3.0, 9.0))
          >>> print(found.report)
          LapPE: residuals of 0 or less, in 3.0 s.
          RWPE: a sketch of 256 columns, with an error of 0.1 to 0.2 of the deviation
          between nodes, power by power, in 9.0 s.
        """
        how = "exact"
        if self.num_columns:
            low, high = self.errors[self.errors > 0].min(), self.errors.max()
            how = (
                f"a sketch of {self.num_columns} columns, with an error of {low:.2g} "
                f"to {high:.2g} of the deviation between nodes, power by power"
            )
        lap, rw = self.seconds
        return (
            f"LapPE: residuals of {self.residuals.max():.1g} or less, in {lap:.1f} s.\n"
            f"RWPE: {how}, in {rw:.1f} s."
        )

    @property
    def note(self) -> str:
        """What a disconnected graph does to LapPE, in a sentence; else empty.

        Example:
          >>> x_pos, zero = np.zeros((2, 9, 32)), np.zeros(32)
          >>> PositionalFeatures(x_pos, zero, 3, zero, zero, 0, (0.0, 0.0)).note
          'L_hat has 3 zero eigenvalues, one per connected component with edges, so
          LapPE columns 1-2 of 32 hold components and degrees only; RWPE holds more.'
        """
        num_zero = self.num_zero_eigenvalues
        if num_zero <= 1:
            return ""
        return (
            f"L_hat has {num_zero} zero eigenvalues, one per connected component with "
            f"edges, so LapPE columns 1-{min(num_zero - 1, NUM_COLUMNS)} of "
            f"{NUM_COLUMNS} hold components and degrees only; RWPE holds more."
        )


def positional_features(
    graph: Graph,
    *,
    method: str = "auto",
    num_columns: int = SKETCH_COLUMNS,
    cache: str | os.PathLike[str] | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> PositionalFeatures:
    """LapPE and RWPE with 32 columns each; f_p < 32 columns are the first f_p.

    The result is kept in files named by the digest of the graph and the method. What
    was finished before an interruption is there. A damaged file is replaced; a folder
    that cannot be written means no storing, not an error.

    Args:
      graph: the graph.
      method: of RWPE. `exact` costs N²; `sketch` estimates, see `sketch_random_walks`;
        `auto` is exact where that takes a minute at most, to about 26,000 nodes.
      num_columns: of the sketch, a multiple of 64.
      cache: folder of the files. If not given: the environment variable
        `DSF_JAX_CACHE`, else `dsf_jax` in `XDG_CACHE_HOME` or `~/.cache`.
      on_progress: called with a rough share of the work now and then; LapPE is the
        first half. Not called for what was stored.

    Returns:
      The features; `report` tells how they were found. Show `note` to the user where
      it is not empty.

    Raises:
      ValueError: if `method` or `num_columns` breaks its rule.
      RuntimeError: as `laplacian_features`.

    Example:
      >>> import tempfile
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     positional_features(edge, cache=folder).x_pos.shape
      (2, 2, 32)
    """
    check_graph(graph)
    check_columns(num_columns)
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}.")
    if method == "exact" or (method == "auto" and is_exact_affordable(graph)):
        num_columns = 0

    def part(number: int) -> Callable[[float], None]:
        return lambda share: on_progress((number + share) / 2) if on_progress else None

    def lap() -> dict[str, Any]:
        found = laplacian_features(graph, on_progress=part(0))
        return found._asdict()

    def rw() -> dict[str, Any]:
        if num_columns:
            sketch = sketch_random_walks(
                graph, num_columns=num_columns, on_progress=part(1)
            )
            return sketch._asdict()
        x = random_walk_features(graph, on_progress=part(1))
        return {"x": x, "errors": np.zeros(NUM_COLUMNS)}

    folder = cache_folder() if cache is None else Path(cache)
    digest, shape = _digest(graph), (graph.num_nodes, NUM_COLUMNS)
    row = (NUM_COLUMNS,)
    lap_shapes = {"x": shape, "eigenvalues": row, "residuals": row}
    lap_shapes |= {"num_zero_eigenvalues": (), "seconds": ()}
    laplacian = _stored(folder / f"lap-{digest}.npz", lap_shapes, lap)
    how = f"sketch-{num_columns}" if num_columns else "exact"
    rw_shapes = {"x": shape, "errors": row, "seconds": ()}
    walks = _stored(folder / f"rw-{how}-{digest}.npz", rw_shapes, rw)
    return PositionalFeatures(
        np.stack([laplacian["x"], walks["x"]]),
        laplacian["eigenvalues"],
        int(laplacian["num_zero_eigenvalues"]),
        laplacian["residuals"],
        walks["errors"],
        num_columns,
        (float(laplacian["seconds"]), float(walks["seconds"])),
    )


def _stored(
    path: Path,
    shapes: dict[str, tuple[int, ...]],
    compute: Callable[[], dict[str, Any]],
) -> dict[str, Any]:
    """What is in the file, or what is computed and then written there."""
    arrays = _read(path, shapes)
    if arrays is None:
        start = time.perf_counter()
        found = compute() | {"seconds": time.perf_counter() - start}
        arrays = {
            name: np.asarray(found[name], dtype=np.float64, order="C")
            for name in shapes
        }
        _write(path, arrays)
    return arrays


def _digest(graph: Graph) -> str:
    header = f"{_CACHE_VERSION} {graph.num_nodes} {len(graph.senders)}\n"
    digest = hashlib.sha256(header.encode())
    for indices in (graph.senders, graph.receivers):
        digest.update(np.asarray(indices, dtype="<i4").tobytes())
    digest.update(np.asarray(graph.weights, dtype="<f8").tobytes())
    return digest.hexdigest()


def _read(
    path: Path, shapes: dict[str, tuple[int, ...]]
) -> dict[str, np.ndarray] | None:
    """What is stored, or None; a file of another form or with damage counts as none."""
    num_bytes = 8 * sum(map(math.prod, shapes.values()))
    try:
        with path.open("rb") as file:  # np.load leaves a damaged file open
            announced = sum(info.file_size for info in ZipFile(file).infolist())
            if announced > num_bytes + _MAX_HEADERS:
                return None
            file.seek(0)
            stored = np.load(file, allow_pickle=False)
            arrays = {name: stored[name] for name in shapes}
        found = {name: array.shape for name, array in arrays.items()}
        kinds = {array.dtype.str[1:] for array in arrays.values()}
    except Exception:  # NumPy and zipfile raise a dozen kinds on damaged bytes
        return None
    return arrays if found == shapes and kinds == {"f8"} else None


def _write(path: Path, arrays: dict[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        np.savez(content, **arrays)
        write_whole(path, content.getbuffer())
    except OSError:
        pass  # the features are as good without being stored
