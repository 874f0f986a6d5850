"""Positions and files of large graphs: how long, how much memory, how exact?

    python benchmarks/positions.py sketch --columns 64 256 1024
    python benchmarks/positions.py rw lap --graph ring random --nodes 100000 1000000
    python benchmarks/positions.py read --lines 10000000
    python benchmarks/positions.py render

One JSON line per case, also appended to `results/positions.jsonl`. `seconds` is by the
clock, `cpu_seconds` of all threads together: on a machine that is shared look at these.
Each case runs in a process of its own; `start_mb` and `peak_mb` are its memory before
the work and at most.

- `sketch`: RWPE of Pubmed from random columns against exact values: `stated` and
  `real` error of each power, over the deviation between nodes.
- `rw`, `lap`: RWPE (a sketch) and LapPE of generated graphs of degree 10. In `ring`
  neighbours are near on a ring, so that eigenvalues are close; in `random` they are
  any nodes, so that memory is read in no order.
- `read`: an edge list into a `Graph`, by kind of file; `data_mb` is its size as two
  columns of int64.
- `render` puts the last record of every case into the tables of docs/scale.md.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import note, peak_mb, print_case, print_environment

from dsf_jax import Graph, load_dataset
from dsf_jax.data.tables import Places, read_edges
from dsf_jax.graph import (
    laplacian_features,
    random_walk_features,
    sketch_random_walks,
)
from dsf_jax.storage import append_line, read_lines

PAGE = Path(__file__).parent.parent / "docs" / "scale.md"
RESULTS = Path(__file__).parent / "results" / "positions.jsonl"
KINDS = ("text", "text with weights", "npy", "npz", "scipy npz", "scipy matrix")


def generated_pairs(kind: str, num_nodes: int) -> np.ndarray:
    """Five pairs for each node; see above."""
    rng = np.random.default_rng(0)
    start = np.repeat(np.arange(num_nodes), 5)
    step = 51 if kind == "ring" else num_nodes
    end = (start + rng.integers(1, step, size=start.size)) % num_nodes
    return np.column_stack([start, end])


def measured(call: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """A result, and what it took."""
    start_mb, seconds, cpu = peak_mb(), time.perf_counter(), time.process_time()
    result = call()
    return result, {
        "seconds": time.perf_counter() - seconds,
        "cpu_seconds": time.process_time() - cpu,
        "start_mb": start_mb,
        "peak_mb": peak_mb(),
    }


def rounded(values: np.ndarray) -> list[float]:
    """Three digits."""
    return [float(f"{value:.3g}") for value in values]


def sketch_case(num_columns: int, exact_file: str) -> dict[str, Any]:
    """Real against stated errors on Pubmed."""
    graph = load_dataset("pubmed").graph
    if not Path(exact_file).exists():
        exact, cost = measured(lambda: random_walk_features(graph))
        np.savez(exact_file, x=exact, seconds=cost["seconds"], cpu=cost["cpu_seconds"])
    with np.load(exact_file) as stored:
        exact, seconds, cpu = stored["x"], float(stored["seconds"]), stored["cpu"]
    sketch, cost = measured(lambda: sketch_random_walks(graph, num_columns=num_columns))
    deviation = exact.std(axis=0)
    deviation[deviation == 0] = np.inf  # power 1 is 0 everywhere
    real = np.sqrt(np.mean((sketch.x - exact) ** 2, axis=0)) / deviation
    return {
        "graph": "pubmed",
        "nodes": graph.num_nodes,
        "columns": num_columns,
        "stated": rounded(sketch.errors),
        "real": rounded(real),
        **cost,
        "exact_seconds": seconds,
        "exact_cpu_seconds": float(cpu),
    }


def rw_case(kind: str, num_nodes: int, num_columns: int) -> dict[str, Any]:
    """RWPE by sketch of a generated graph."""
    graph = Graph.from_edges(generated_pairs(kind, num_nodes), num_nodes=num_nodes)
    sketch, cost = measured(lambda: sketch_random_walks(graph, num_columns=num_columns))
    size = {"nodes": num_nodes, "entries": 2 * graph.num_edges}
    stated = {"columns": num_columns, "stated": rounded(sketch.errors)}
    return {"graph": kind, **size, **stated, **cost}


def lap_case(kind: str, num_nodes: int) -> dict[str, Any]:
    """LapPE of a generated graph; residuals as a share of the eigenvalue."""
    graph = Graph.from_edges(generated_pairs(kind, num_nodes), num_nodes=num_nodes)
    shares: list[float] = []

    def show(share: float) -> None:
        shares.append(share)
        note(f"{kind} {num_nodes}: {share:.3f}")

    found, cost = measured(lambda: laplacian_features(graph, on_progress=show))
    return {
        "graph": kind,
        "nodes": num_nodes,
        "entries": 2 * graph.num_edges,
        "first_eigenvalue": found.eigenvalues[0],
        "last_eigenvalue": found.eigenvalues[-1],
        "largest_residual": found.residuals.max(),
        "relative_residual": (found.residuals / found.eigenvalues).max(),
        "cycles": len(shares),
        **cost,
    }


def read_case(kind: str, num_lines: int, folder: str) -> dict[str, Any]:
    """One kind of file, written before by `write_files`."""
    num_nodes, place = num_lines // 10, Path(folder)
    places = Places(None, num_nodes, "nodes")

    def read() -> Graph:
        weights = None
        match kind:
            case "text" | "text with weights":
                name = "edges.txt" if kind == "text" else "weighted.txt"
                pairs, weights = read_edges(place / name, places)
            case "npy":
                pairs = np.load(place / "edges.npy")
            case "npz":
                with np.load(place / "edges.npz") as stored:
                    pairs = stored["edges"]
            case _:
                return Graph.from_scipy(given if is_given else sp.load_npz(matrix))
        return Graph.from_edges(pairs, num_nodes=num_nodes, weights=weights)

    matrix, is_given = place / "matrix.npz", kind == "scipy matrix"
    given = sp.load_npz(matrix) if is_given else None
    graph, cost = measured(read)
    if graph.num_edges < 0.9 * num_lines:
        raise SystemExit(f"{kind}: {graph.num_edges} edges of {num_lines} lines")
    return {"file": kind, "lines": num_lines, "data_mb": num_lines * 16 / 2**20, **cost}


def write_files(num_lines: int, folder: Path) -> None:
    """One list of edges in every kind of file."""
    num_nodes, rng = num_lines // 10, np.random.default_rng(0)
    pairs = rng.integers(num_nodes, size=(num_lines, 2))
    np.save(folder / "edges.npy", pairs)
    np.savez(folder / "edges.npz", edges=pairs)
    data, shape = np.ones(num_lines), (num_nodes, num_nodes)
    matrix = sp.csr_array((data, (pairs[:, 0], pairs[:, 1])), shape=shape)
    sp.save_npz(folder / "matrix.npz", matrix, compressed=False)
    weights = rng.integers(1, 9, size=num_lines)
    with (folder / "edges.txt").open("w") as plain:
        plain.writelines(f"{a} {b}\n" for a, b in pairs.tolist())
    with (folder / "weighted.txt").open("w") as weighted:
        rows = zip(pairs.tolist(), weights.tolist(), strict=True)
        weighted.writelines(f"{a} {b} {w / 8}\n" for (a, b), w in rows)


CASES = {"sketch": sketch_case, "rw": rw_case, "lap": lap_case, "read": read_case}


def run(what: str, *arguments: Any) -> None:
    """One case in a process of its own, so that peaks do not mix."""
    note(f"{what}: {', '.join(map(str, arguments))}")
    command = [sys.executable, __file__, "--child", what, json.dumps(arguments)]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    case = json.loads(finished.stdout)
    print(json.dumps(case), flush=True)
    append_line(RESULTS, case)


def render() -> None:
    """Write the tables of the page, between their marks."""
    last: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in read_lines(RESULTS):
        names = ("what", "graph", "nodes", "columns", "file", "lines")
        last[tuple(row.get(name) for name in names)] = row
    text = PAGE.read_text(encoding="utf-8")
    for what, table in TABLES.items():
        begin, end = f"<!-- {what} -->\n", f"<!-- end of {what} -->\n"
        head, _, rest = text.partition(begin)
        rows = [row for row in last.values() if row["what"] == what]
        lines = "".join(f"| {' | '.join(line)} |\n" for line in table(rows))
        text = head + begin + "\n" + lines + "\n" + end + rest.partition(end)[2]
    PAGE.write_text(text, encoding="utf-8")


def _titled(*titles: str) -> list[list[str]]:
    return [list(titles), ["---"] * len(titles)]


def _cost(row: dict[str, Any]) -> list[str]:
    return [
        f"{row['cpu_seconds']:.3g}",
        f"{row['start_mb'] / 1e3:.2f}",
        f"{row['peak_mb'] / 1e3:.2f}",
    ]


COST = ("CPU s", "GB before", "GB at most")


def sketch_table(rows: list[dict[str, Any]]) -> list[list[str]]:
    """One row per power, two columns per number of random columns."""
    titles = [
        f"{row['columns']}: {name}" for row in rows for name in ("stated", "real")
    ]
    lines = _titled("power", *titles)
    for power in range(1, 33):
        errors = [row[name][power - 1] for row in rows for name in ("stated", "real")]
        lines.append([str(power), *(f"{error:.2g}" for error in errors)])
    cpu = [["", f"{row['cpu_seconds']:.2g}"] for row in rows]
    return [*lines, ["CPU s", *sum(cpu, [])]]


def rw_table(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Errors of even and odd powers apart."""
    lines = _titled(
        *("graph", "nodes", "columns", "error, even powers", "error, odd powers"), *COST
    )
    for row in rows:
        even, odd = row["stated"][3::2], row["stated"][4::2]
        spans = [f"{min(part):.2g} to {max(part):.2g}" for part in (even, odd)]
        size = [row["graph"], f"{row['nodes']:,}", str(row["columns"])]
        lines.append([*size, *spans, *_cost(row)])
    return lines


def lap_table(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Eigenvalues, residuals and cost."""
    lines = _titled("graph", "nodes", "eigenvalues", "residual / eigenvalue", *COST)
    for row in rows:
        span = f"{row['first_eigenvalue']:.2g} to {row['last_eigenvalue']:.2g}"
        found = [span, f"{row['relative_residual']:.1g}"]
        lines.append([row["graph"], f"{row['nodes']:,}", *found, *_cost(row)])
    return lines


def read_table(rows: list[dict[str, Any]]) -> list[list[str]]:
    """One row per kind of file."""
    lines = _titled("file", "lines", *COST, "peak / data")
    for row in rows:
        share = (row["peak_mb"] - row["start_mb"]) / row["data_mb"]
        lines.append([row["file"], f"{row['lines']:,}", *_cost(row), f"{share:.1f}"])
    return lines


TABLES = {
    "sketch": sketch_table,
    "rw": rw_table,
    "lap": lap_table,
    "read": read_table,
}


def main() -> None:
    """Parse the arguments and run every case."""
    if sys.argv[1:2] == ["--child"]:
        what, arguments = sys.argv[2], json.loads(sys.argv[3])
        print_case(what=what, **CASES[what](*arguments))
        return
    if sys.argv[1:] == ["render"]:
        render()
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", nargs="+", choices=CASES)
    parser.add_argument("--columns", nargs="+", type=int, default=[256])
    parser.add_argument("--graph", nargs="+", default=["ring", "random"])
    parser.add_argument("--nodes", nargs="+", type=int, default=[100_000])
    parser.add_argument("--lines", type=int, default=10_000_000)
    arguments = parser.parse_args()
    print_environment()
    for what in arguments.what:
        with tempfile.TemporaryDirectory() as folder:
            if what == "sketch":
                for columns in arguments.columns:
                    run(what, columns, str(Path(folder) / "exact.npz"))
                continue
            if what == "read":
                write_files(arguments.lines, Path(folder))
                for kind in KINDS:
                    run(what, kind, arguments.lines, folder)
                continue
        for kind in arguments.graph:
            for num_nodes in arguments.nodes:
                for columns in arguments.columns if what == "rw" else [()]:
                    run(what, kind, num_nodes, *([columns] if columns else []))


if __name__ == "__main__":
    main()
