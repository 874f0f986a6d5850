"""Does a compiled DSF model cost what Section 4.3.2 of the paper says?

    python benchmarks/complexity.py

In one forward pass DSF adds to its base model, by the paper's count,

    N (f_p d + 2 K d + 2 d + K + 1) + 2 |E| K d + 2 N² K d        DSF-x-I

multiply-adds, and all but the last term in DSF-x-R. XLA counts the operations of the
compiled programs. It counts the body of a loop once, so F(K) = F(0) + K (F(2) - F(0))
with F(2) and F(0) compiled; N is one block of rows of the correlation. One JSON line
per variant and size: `xla_flops` that the compiled DSF model has more than its base
model, `paper_flops` (two per multiply-add) and their `ratio`.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from common import print_case, print_environment

from dsf_jax import BACKBONES, Graph, HyperParams, diverse
from dsf_jax.models.local import Local, positional, shared
from dsf_jax.ops import a_tilde
from dsf_jax.ops.correlation import BLOCK_ROWS

ORDER, WIDTH, COLUMNS, CLASSES, FEATURES = 10, 64, 32, 5, 100


def program_flops(local: Local, graph: Graph, order: int) -> float:
    """Operations of the compiled forward pass; the segment kernel shows them to XLA."""
    model = diverse(BACKBONES["gpr"], local, order=order)
    op = a_tilde(graph, kernel="segment")
    x, x_pos = jnp.ones((graph.num_nodes, FEATURES)), jnp.ones((2, graph.num_nodes, 32))
    inputs = model.make_inputs(graph, x, x_pos)._replace(filter_op=op, pos_op=op)
    hparams = HyperParams(f_p=COLUMNS, eta1=0.5, eta2=0.5)
    params = model.init(jax.random.key(0), inputs, hparams, num_classes=CLASSES)

    def forward(params, inputs):
        return model.apply(params, inputs, hparams).logits

    cost = jax.jit(forward).lower(params, inputs).compile().cost_analysis()
    return float(cost["flops"])


def total_flops(local: Local, graph: Graph) -> float:
    """Operations at order K from programs of order 0 and 2."""
    without_loop, with_loop = (program_flops(local, graph, k) for k in (0, 2))
    if program_flops(local, graph, 3) - with_loop > 0.1 * with_loop:
        raise SystemExit("this XLA counts every pass of a loop: F(K) is known directly")
    return without_loop + ORDER * (with_loop - without_loop)


def paper_flops(variant: str, graph: Graph) -> float:
    """Two operations per multiply-add of Section 4.3.2."""
    n, e, k, d, f_p = graph.num_nodes, graph.num_edges, ORDER, WIDTH, COLUMNS
    count = n * (f_p * d + 2 * k * d + 2 * d + k + 1) + 2 * e * k * d
    if variant == "I":
        count += 2 * n**2 * k * d
    return 2.0 * count


def main() -> None:
    """Compare both variants on graphs of two densities."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--degrees", nargs="+", type=int, default=[4, 40])
    arguments = parser.parse_args()
    print_environment()
    for degree in arguments.degrees:
        edges = np.random.default_rng(0).integers(
            0, BLOCK_ROWS, size=(BLOCK_ROWS * degree // 2, 2)
        )
        graph = Graph.from_edges(edges, num_nodes=BLOCK_ROWS)
        base = total_flops(shared(), graph)
        for variant in ("R", "I"):
            local = positional(variant, width=WIDTH)
            added = total_flops(local, graph) - base
            expected = paper_flops(variant, graph)
            print_case(
                model=f"dsf-gpr-{variant.lower()}",
                nodes=graph.num_nodes,
                edges=graph.num_edges,
                xla_flops=added,
                paper_flops=expected,
                ratio=added / expected,
            )


if __name__ == "__main__":
    main()
