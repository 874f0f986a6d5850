"""How does one run grow with the graph, and shrink with the number of processes?

    python benchmarks/scale.py --nodes 20000 200000 --devices 1 2
    python benchmarks/scale.py --nodes 200000 --graph random
    python benchmarks/scale.py --parts pubmed photo
    python benchmarks/scale.py --whole 1000000
    python benchmarks/scale.py --render

One JSON line per size and number of devices, each device a process of its own on this
computer, with a part of the nodes: `seconds_per_epoch` (training step and evaluation of
DSF-GPR-R, one lane), the same in `units` of one scipy product (see epoch.py),
`peak_rss_mb` of the largest process, `halo` (rows that a product fetches from other
devices, per node; `filled` with what makes all messages as long as the longest), and
`mb_exchanged`: what a device sends in an epoch. Generated graphs have degree 10: `ring`
joins near nodes, `random` any two. `--parts` prints halos of real graphs for 2 to 32
parts instead, and `--whole` goes all the way in one process: a graph, its positions,
three epochs, the filters of all nodes, with the seconds of each. Lines are appended to
results/scale.jsonl; `--render` draws tables and figure of docs/scale.md from them.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from functools import cache, partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from common import note, peak_mb, print_case, print_environment
from epoch import prepare_random, ring_graph, scipy_product_ms

from dsf_jax import (
    MODELS,
    Dataset,
    HyperParams,
    fit,
    load_dataset,
    make_dataset,
    node_filters,
    positional_features,
)
from dsf_jax.engine.grid import run_grid
from dsf_jax.engine.sharded import shard
from dsf_jax.graph.partition import partition_nodes
from dsf_jax.ops.nodes import NODES
from dsf_jax.storage import append_line, read_lines, write_whole
from dsf_jax.train import Jobs, TrainConfig, grid_jobs, init_state, train_epoch

RESULTS = Path(__file__).parent / "results" / "scale.jsonl"
PAGE = Path(__file__).parent.parent / "docs" / "scale.md"
MODEL, CLASSES, DEGREE = "dsf-gpr-r", 5, 10


def random_graph(num_nodes: int) -> Dataset:
    """Pairs of any nodes: nearly every node has neighbours in every part."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(num_nodes, size=(num_nodes * DEGREE // 2, 2))
    features = np.zeros((num_nodes, 64), dtype=np.float32)
    features[np.arange(num_nodes), rng.integers(64, size=num_nodes)] = 1
    labels = rng.integers(CLASSES, size=num_nodes)
    return make_dataset(pairs, features, labels, name=f"random-{num_nodes}")


GRAPHS = {"ring": ring_graph, "random": random_graph}


@cache
def columns_exchanged() -> int:
    """Columns that a device sends in an epoch, all products together.

    Read off the compiled program of a tiny graph: it does not depend on the nodes.
    """
    model, config = MODELS[MODEL], TrainConfig(num_classes=CLASSES)
    data = prepare_random(ring_graph(200), model)
    parts = shard(data, num_parts=2)
    job = Jobs(jax.random.key(0), jnp.asarray(0), HyperParams())
    state = init_state(job, data, model=model, train_config=config)
    flags = {name: bool(value) for name, value in model.flags(job.hparams).items()}

    def epoch(data, state, job):
        own = jax.tree.map(lambda leaf: leaf[0], data)
        step = partial(train_epoch, model=model, train_config=config)
        return step(state, job, own, flags)

    each, same = jax.P(NODES), jax.P()
    mapped = jax.shard_map(
        epoch,
        mesh=parts.mesh,
        in_specs=(each, same, same),
        out_specs=same,
        check_vma=False,
    )
    text = jax.jit(mapped).lower(parts.data, state, job).compile().as_text()
    sends = parts.data.inputs.filter_op.halo.sends
    return count_numbers(text, "all-to-all") // (sends.shape[1] * sends.shape[2])


def count_numbers(program: str, name: str) -> int:
    """Numbers that an operation of a compiled program puts out, loops unrolled."""
    bodies = dict(
        re.findall(r"^(?:ENTRY )?%?([\w.-]+) \(.*?\{\n(.*?)^\}", program, re.M | re.S)
    )
    start = re.search(r"^ENTRY %?([\w.-]+)", program, re.M)[1]

    def count(body: str) -> int:
        found = 0
        for line in bodies[body].splitlines():
            if f" {name}(" in line:
                shapes = re.findall(r"f\d+\[([\d,]*)\]", line.split(f" {name}(")[0])
                found += sum(int(np.prod(list(map(int, s.split(","))))) for s in shapes)
            times = re.search(r'known_trip_count":\{"n":"(\d+)"', line)
            for callee in re.findall(r"(?:body|calls|to_apply)=%?([\w.-]+)", line):
                found += count(callee) * (int(times[1]) if times else 1)
            for branches in re.findall(r"branch_computations=\{(.*?)\}", line):
                names = re.findall(r"[\w.-]+", branches)
                found += max(count(branch) for branch in names)
        return found

    return count(start)


def train(graph: str, num_nodes: int, num_parts: int, epochs: int) -> dict[str, float]:
    """One run of this process, or the part of it that this process has."""
    model = MODELS[MODEL]
    data = prepare_random(GRAPHS[graph](num_nodes), model)
    if num_parts > 1:
        data = shard(data, num_parts=num_parts)
    jobs = grid_jobs(HyperParams(), num_splits=1, num_seeds=1, seed=0)
    config = TrainConfig(num_classes=CLASSES, epochs=epochs, patience=epochs)
    report = run_grid(jobs, data, model=model, train_config=config)
    if not np.all(report.jobs.is_finite):
        raise SystemExit("the run diverged, not measured")
    return {
        "seconds_per_epoch": report.seconds / epochs,
        "compile_s": report.compile_seconds,
        "peak_rss_mb": peak_mb(),
        "train_loss": report.jobs.train_loss.item(),
    }


def measure(graph: str, num_nodes: int, num_parts: int, epochs: int) -> dict:
    """As many processes as parts, each with one device, at the same time."""
    port = 20_000 + os.getpid() % 20_000
    case = [graph, num_nodes, num_parts, epochs]
    command = [sys.executable, __file__, "--child", *map(str, case)]
    children = [
        subprocess.Popen([*command, f"{port}", f"{i}"], stdout=subprocess.PIPE)
        for i in range(num_parts)
    ]
    results = []
    for child in children:
        output, _ = child.communicate()
        if child.returncode:
            raise SystemExit(f"a process ended with status {child.returncode}")
        results.append(json.loads(output.decode().splitlines()[-1]))
    most = {key: max(result[key] for result in results) for key in results[0]}
    dataset = GRAPHS[graph](num_nodes)
    unit = scipy_product_ms(dataset)
    found = partition_nodes(dataset.graph.to_scipy(), num_parts)
    rows = (num_parts - 1) * found.sends.max()  # of a device, in a product
    return {
        "graph": graph,
        "nodes": num_nodes,
        "devices": num_parts,
        "model": MODEL,
        **most,
        "scipy_product_ms": unit,
        "units": 1e3 * most["seconds_per_epoch"] / unit,
        "method": found.method,
        "halo": found.halo,
        "filled": found.filled,
        "mb_exchanged": float(rows * columns_exchanged() * 4 / 2**20),
    }


def whole(graph: str, num_nodes: int) -> dict:
    """From nothing to the filter of a node; positions are found in this process."""
    clock = time.perf_counter
    began = clock()
    dataset = GRAPHS[graph](num_nodes)
    generated = clock()
    found = positional_features(
        dataset.graph, on_progress=lambda share: note(f"positions: {share:.3f}")
    )
    note(found.report)
    placed = clock()
    fitted = fit(dataset, MODEL, epochs=3)
    trained = clock()
    filters = node_filters(fitted)
    if not np.all(np.isfinite(filters.curves)):
        raise SystemExit("filters are not finite, not measured")
    return {
        "whole": graph,
        "nodes": num_nodes,
        "generate_s": generated - began,
        **dict(zip(("lap_s", "rw_s"), found.seconds, strict=True)),
        "fit_s": trained - placed,
        "filters_s": clock() - trained,
        "cpu_s": time.process_time(),
        "peak_rss_mb": peak_mb(),
        "first_filter": np.round(filters.curves[0, ::50], 4).tolist(),
    }


def measure_parts(name: str) -> list[dict]:
    """Halos of a real graph."""
    matrix = load_dataset(name).graph.to_scipy()
    cases = []
    for num_parts in (2, 4, 8, 16, 32):
        found = partition_nodes(matrix, num_parts)
        sizes = {"largest": int(found.sizes.max()), "nodes": len(found.part)}
        halos = {"halo": found.halo, "filled": found.filled, "method": found.method}
        cases.append({"dataset": name, "parts": num_parts, **sizes, **halos})
    return cases


def render() -> None:
    """Tables and figure of docs/scale.md, from the last record of every case."""
    parts, runs, wholes = {}, {}, {}
    for case in read_lines(RESULTS):
        if "whole" in case:
            wholes[case["whole"], case["nodes"]] = case
        elif "dataset" in case:
            parts[case["dataset"], case["parts"]] = case
        else:
            runs[case["graph"], case["nodes"], case["devices"]] = case
    numbers = sorted({number for _, number in parts})
    halos = [f"| graph | {' | '.join(f'{n} parts' for n in numbers)} |"]
    halos += ["|---" * (len(numbers) + 1) + "|"]
    for name in dict.fromkeys(name for name, _ in parts):
        found = (parts[name, number] for number in numbers)
        cells = (f"{case['halo']:.2f} ({case['filled']:.1f})" for case in found)
        halos += [f"| {name} | {' | '.join(cells)} |"]
    titles = ("seconds an epoch", "units", "MB of a process", "MB sent")
    measured = [
        f"| graph | nodes | processes | {' | '.join(titles)} |",
        "|---" * 7 + "|",
    ]
    for (graph, nodes, devices), case in sorted(runs.items()):
        values = (f"{case['seconds_per_epoch']:.2f}", f"{case['units']:.0f}")
        values += (f"{case['peak_rss_mb']:,.0f}", f"{case['mb_exchanged']:.1f}")
        measured += [f"| {graph} | {nodes:,} | {devices} | {' | '.join(values)} |"]
    steps = ("generate", "lap", "rw", "fit", "filters", "cpu")
    titles = ("generate", "LapPE", "RWPE", "fit", "filters", "CPU time", "MB")
    ends = [f"| graph | nodes | {' | '.join(titles)} |", "|---" * 9 + "|"]
    for (graph, nodes), case in sorted(wholes.items()):
        values = (f"{case[f'{step}_s']:,.0f}" for step in steps)
        cells = (*values, f"{case['peak_rss_mb']:,.0f}")
        ends += [f"| {graph} | {nodes:,} | {' | '.join(cells)} |"]
    page = PAGE.read_text()
    tables = {"halos": halos, "measured": measured, "whole": ends}
    for name, lines in tables.items():
        block = f"<!-- {name} -->\n" + "\n".join(lines) + "\n<!-- end -->"
        page = re.sub(f"<!-- {name} -->.*?<!-- end -->", block, page, flags=re.S)
    write_whole(PAGE, page.encode())
    draw(parts, runs)


def draw(parts: dict, runs: dict) -> None:
    """Halos by parts, and memory of a process by nodes."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "scale"  # equal records, equal bytes
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for name in dict.fromkeys(name for name, _ in parts):
        cases = [case for (other, _), case in parts.items() if other == name]
        x = [case["parts"] for case in cases]
        (line,) = left.plot(x, [case["halo"] for case in cases], "o-", label=name, ms=3)
        left.plot(x, [case["filled"] for case in cases], ":", color=line.get_color())
    left.set(xscale="log", yscale="log", xlabel="parts", ylabel="rows fetched per node")
    left.set_xticks(x, x)
    left.minorticks_off()
    left.set_title("halo (dotted: filled up)", fontsize=10)
    left.legend(fontsize=7, ncols=2)
    for devices in sorted({devices for *_, devices in runs}):
        cases = sorted(
            (nodes, case["peak_rss_mb"] / 1024)
            for (graph, nodes, other), case in runs.items()
            if (graph, other) == ("ring", devices)
        )
        label = f"{devices} process" + "es" * (devices > 1)
        right.plot(*zip(*cases, strict=True), "o-", label=label)
    right.set(xscale="log", yscale="log", xlabel="nodes (degree 10)", ylabel="GB")
    right.set_title("peak memory of a process, DSF-GPR-R", fontsize=10)
    right.legend(fontsize=8)
    path = PAGE.parent / "figures" / "scale.svg"
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Parse the arguments and measure every case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", nargs="+", type=int, default=[200_000])
    parser.add_argument("--devices", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--graph", choices=GRAPHS, default="ring")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--parts", nargs="+", help="real graphs: their halos instead")
    parser.add_argument("--whole", nargs="+", type=int, help="from graph to filters")
    parser.add_argument("--render", action="store_true", help="draw what was measured")
    parser.add_argument("--child", nargs=6, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        graph, *numbers = arguments.child
        num_nodes, num_parts, epochs, port, index = map(int, numbers)
        jax.config.update("jax_num_cpu_devices", 1)
        if num_parts > 1:
            jax.distributed.initialize(f"127.0.0.1:{port}", num_parts, index)
        print_case(**train(graph, num_nodes, num_parts, epochs))
        return
    if arguments.render:
        render()
        return
    jax.config.update("jax_num_cpu_devices", 2)
    print_environment()
    if arguments.whole:
        cases = (whole(arguments.graph, size) for size in arguments.whole)
    elif arguments.parts:
        cases = (case for name in arguments.parts for case in measure_parts(name))
    else:
        sizes = [(n, p) for n in arguments.nodes for p in arguments.devices]
        graph, epochs = arguments.graph, arguments.epochs
        cases = (measure(graph, *size, epochs) for size in sizes)
    for case in cases:
        print_case(**case)
        append_line(RESULTS, case)


if __name__ == "__main__":
    main()
