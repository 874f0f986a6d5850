"""How long is one product with a graph operator, by kernel and by width?

    python benchmarks/products.py --dataset chameleon --columns 64 640

One JSON line per kernel and width: `kernel`, `columns`, `ms`, `spread_ms`, `gflops`,
`max_error` against scipy in float64. Two more lines per data set compare ten runs with
one: in the lane layout [N, B * C], and as a plain vmapped call on [B, N, C], which
transposes before and after the product.
"""

import argparse
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
from common import note, print_case, print_environment, time_calls

from dsf_jax import Graph, load_dataset
from dsf_jax.ops import a_tilde, propagate
from dsf_jax.ops.operator import Kernel

RUNS = 10


def random_graph(text: str) -> Graph:
    """Random graph from "NODESxDEGREE", for crossovers between kernels."""
    num_nodes, degree = map(int, text.split("x"))
    edges = np.random.default_rng(0).integers(
        0, num_nodes, size=(num_nodes * degree // 2, 2)
    )
    return Graph.from_edges(edges, num_nodes=num_nodes)


def time_kernels(name: str, graph: Graph, columns: int) -> None:
    """One line per kernel, and one for scipy."""
    exact = a_tilde(graph).to_scipy()
    x = np.random.default_rng(1).normal(size=(graph.num_nodes, columns))
    expected = exact.astype(np.float64) @ x
    x32, exact32 = x.astype(np.float32), exact.astype(np.float32)
    on_device = jnp.asarray(x32)
    calls = {"scipy": lambda: exact32 @ x32}
    for kernel in get_args(Kernel):
        op = a_tilde(graph, kernel=kernel)
        product = jax.jit(propagate)
        calls[kernel] = lambda product=product, op=op: product(op, on_device)
    errors = {
        kernel: float(np.abs(np.asarray(call()) - expected).max())
        for kernel, call in calls.items()
    }
    if max(errors.values()) > 1e-4:
        raise SystemExit(f"wrong products, not timed: {errors}")
    note(f"{name}: {columns} columns")
    for kernel, timing in time_calls(calls).items():
        print_case(
            dataset=name,
            nodes=graph.num_nodes,
            entries=int(exact.nnz),
            kernel=kernel,
            columns=columns,
            **timing._asdict(),
            gflops=2 * exact.nnz * columns / timing.ms / 1e6,
            max_error=errors[kernel],
        )


def time_lanes(name: str, graph: Graph, columns: int) -> None:
    """Cost of ten runs in units of one, without and with transposes."""
    op = a_tilde(graph)
    rng = np.random.default_rng(2)
    batch = jnp.asarray(rng.normal(size=(RUNS, graph.num_nodes, columns)), jnp.float32)
    lanes = jnp.moveaxis(batch, 0, 1).reshape(graph.num_nodes, -1)
    one, wide = jax.jit(propagate), jax.jit(propagate)
    vmapped = jax.jit(jax.vmap(propagate, in_axes=(None, 0)))
    expected = one(op, batch[3])
    np.testing.assert_allclose(vmapped(op, batch)[3], expected, atol=1e-5)
    block = slice(3 * columns, 4 * columns)
    np.testing.assert_allclose(wide(op, lanes)[:, block], expected, atol=1e-5)
    first = batch[0]
    timings = time_calls(
        {
            "one": lambda: one(op, first),
            "lanes": lambda: wide(op, lanes),
            "vmap": lambda: vmapped(op, batch),
        }
    )
    for layout in ("lanes", "vmap"):
        print_case(
            dataset=name,
            kernel=op.kernel,
            layout=layout,
            runs=RUNS,
            columns=columns,
            **timings[layout]._asdict(),
            one_run_ms=timings["one"].ms,
            cost_of_runs=timings[layout].ms / timings["one"].ms,
            transposes_ms=timings[layout].ms - timings["lanes"].ms,
        )


def main() -> None:
    """Parse the arguments and run every case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dataset", nargs="+", default=["chameleon"])
    parser.add_argument("--columns", nargs="+", type=int, default=[64, 640])
    parser.add_argument(
        "--random",
        nargs="*",
        default=[],
        metavar="NODESxDEGREE",
        help="also random graphs, e.g. 1000x6 1000x200",
    )
    arguments = parser.parse_args()
    print_environment()
    graphs = {name: load_dataset(name).graph for name in arguments.dataset}
    graphs |= {text: random_graph(text) for text in arguments.random}
    for name, graph in graphs.items():
        for columns in arguments.columns:
            time_kernels(name, graph, columns)
        time_lanes(name, graph, 64)


if __name__ == "__main__":
    main()
