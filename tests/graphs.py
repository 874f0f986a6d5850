"""Small graphs on which every numerical test runs, and real ones, read once."""

import functools

import numpy as np

from dsf_jax import Graph, load_dataset, regions

real_dataset = functools.cache(load_dataset)


def random_edges(num_nodes, num_edges, seed):
    return np.random.default_rng(seed).integers(0, num_nodes, size=(num_edges, 2))


GRAPHS = {
    "path": Graph.from_edges([(i, i + 1) for i in range(6)], num_nodes=7),
    "star": Graph.from_edges([(0, i) for i in range(1, 8)], num_nodes=8),
    "random": Graph.from_edges(random_edges(20, 45, seed=1), num_nodes=20),
    "disconnected": Graph.from_edges(
        [(0, 1), (1, 2), (2, 0), (3, 4), (5, 6), (6, 7)], num_nodes=8
    ),
    "isolated": Graph.from_edges(random_edges(11, 18, seed=2), num_nodes=13),
    "weighted": Graph.from_edges(
        random_edges(12, 25, seed=3),
        num_nodes=12,
        weights=np.random.default_rng(4).uniform(0.1, 3.0, size=25),
    ),
    "edgeless": Graph.from_edges([], num_nodes=3),
    "one node": Graph.from_edges([], num_nodes=1),
}


def write_graph(folder, num_nodes=60):
    """The tables of a graph of one's own, every sixth node unlabelled."""
    dataset = regions(num_nodes)
    folder.mkdir()
    senders, receivers = dataset.graph.senders, dataset.graph.receivers
    pairs = (f"n{i},n{j}" for i, j in zip(senders, receivers, strict=True))
    (folder / "edges.csv").write_text("\n".join(["from,to", *pairs]))
    titles = ",".join(f"x{i}" for i in range(dataset.features.shape[1]))
    lines = [f"node,label,{titles}"]
    for node, row in enumerate(dataset.features):
        label = "" if node % 6 == 0 else ("ham", "spam, sorry")[dataset.labels[node]]
        lines.append(f'n{node},"{label}",' + ",".join(map(str, row)))
    (folder / "nodes.csv").write_text("\n".join(lines))
