"""How much memory does one training step take at its peak?

    python benchmarks/memory.py --nodes 20000 --degree 5 --models dsf-gpr-i dsf-gpr-r

A generated graph, float32, K = 10, 64-wide positions. Each case runs in a process of
its own and prints one JSON line: `model`, `nodes`, `seconds` (one step, compiled),
`program_mb` (what the compiled step allocates), `peak_rss_mb` (the process), and
`n_by_n_mb`, the size of the one N x N array that is never built.
"""

import argparse
import json
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from common import note, peak_mb, print_case, print_environment

from dsf_jax import MODELS, Graph, HyperParams
from dsf_jax.models import Run
from dsf_jax.ops import SparseFeatures

FEATURES, CLASSES = 500, 5


def measure(name: str, num_nodes: int, degree: int) -> dict[str, object]:
    """One training step (loss, gradient, update) of a model on a random graph."""
    rng = np.random.default_rng(0)
    edges = rng.integers(0, num_nodes, size=(num_nodes * degree // 2, 2))
    graph = Graph.from_edges(edges, num_nodes=num_nodes)
    features = SparseFeatures.from_scipy(
        sp.random_array((num_nodes, FEATURES), density=0.02, rng=rng)
    )
    x_pos = jnp.asarray(rng.normal(size=(2, num_nodes, 32)) * 0.01, dtype=jnp.float32)
    labels = jnp.asarray(rng.integers(0, CLASSES, size=num_nodes))
    mask = jnp.asarray(rng.uniform(size=num_nodes) < 0.6)
    model = MODELS[name]
    hparams = HyperParams(eta1=0.5, eta2=0.5)
    inputs = model.make_inputs(graph, features, x_pos)

    def step(params, key, inputs):
        masks = model.draw_masks(key, params, Run(inputs, hparams))

        def value(params):
            output = model.apply(params, inputs, hparams, masks=masks)
            return model.loss(output, labels, mask, hparams)

        value_now, gradient = jax.value_and_grad(value)(params)
        return value_now, jax.tree.map(lambda p, g: p - 0.01 * g, params, gradient)

    key = jax.random.key(0)
    params = model.init(key, inputs, hparams, num_classes=CLASSES)
    compiled = jax.jit(step).lower(params, key, inputs).compile()
    analysis = compiled.memory_analysis()
    start = time.perf_counter()
    value_now, _ = jax.block_until_ready(compiled(params, key, inputs))
    seconds = time.perf_counter() - start
    if not np.isfinite(value_now):
        raise SystemExit(f"{name}: the loss is {value_now}, not measured")
    return {
        "model": name,
        "nodes": num_nodes,
        "edges": graph.num_edges,
        "seconds": seconds,
        "program_mb": analysis.temp_size_in_bytes / 2**20,
        "peak_rss_mb": peak_mb(),
        "n_by_n_mb": 4 * num_nodes**2 / 2**20,
    }


def main() -> None:
    """Run each case in a process of its own, so that peaks do not mix."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--degree", type=int, default=5)
    parser.add_argument("--models", nargs="+", default=["dsf-gpr-i", "dsf-gpr-r"])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        (name,) = arguments.models
        print_case(**measure(name, arguments.nodes, arguments.degree))
        return
    print_environment()
    for name in arguments.models:
        note(f"{name} on {arguments.nodes} nodes")
        command = [sys.executable, __file__, "--child", "--models", name]
        command += ["--nodes", str(arguments.nodes), "--degree", str(arguments.degree)]
        finished = subprocess.run(command, capture_output=True, text=True, check=True)
        print_case(**json.loads(finished.stdout))


if __name__ == "__main__":
    main()
