"""Where to draw the nodes of a graph, and its communities; both by igraph.

igraph comes with `pip install dsf-jax[explain]` and is imported when called.
"""

import random
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from dsf_jax.graph.graph import Graph

_MAX_EXACT = 4_000  # nodes; above, far forces are left out: seconds instead of minutes
_ARM = 0.3  # how far out the outermost nodes are drawn


def place_nodes(graph: Graph, *, seed: int = 0) -> Float[np.ndarray, "N 2"]:
    """Positions of the nodes on paper by the forces of Fruchterman and Reingold.

    A few nodes on long arms would leave little space for the others, so the outermost
    twentieth is drawn nearer, by the logarithm of its distance from the middle.

    Args:
      graph: the graph.
      seed: of the start.

    Returns:
      Positions in [-1, 1].

    Example:
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> abs(place_nodes(edge)).max().round(6).item()
      1.0
    """
    if graph.num_nodes < 2:
        return np.zeros((graph.num_nodes, 2))
    rng = np.random.Generator(np.random.PCG64(seed))
    start = rng.uniform(-1, 1, size=(graph.num_nodes, 2)) * graph.num_nodes**0.5
    is_large = graph.num_nodes > _MAX_EXACT
    layout = _to_igraph(graph, seed).layout_fruchterman_reingold(
        niter=500 if is_large else 200, grid=is_large, seed=start.tolist()
    )
    points = np.asarray(layout.coords) - np.median(layout.coords, axis=0)
    radius = np.linalg.norm(points, axis=1, keepdims=True)
    outer = max(float(np.quantile(radius, 0.95)), 1e-9)
    excess = np.maximum(radius / outer, 1.0)
    points *= (1 + _ARM * np.log(excess)) / excess
    return points / abs(points).max()


def communities(graph: Graph, *, seed: int = 0) -> Int[np.ndarray, " N"]:
    """Communities by modularity (Leiden), numbered from the largest.

    Args:
      graph: the graph; weights are not looked at.
      seed: of the search.

    Returns:
      The community of each node.

    Example:
      >>> pairs = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)]
      >>> found = communities(Graph.from_edges(pairs, num_nodes=6))
      >>> len(set(found[:3].tolist())), len(set(found.tolist()))
      (1, 2)
    """
    found = _to_igraph(graph, seed).community_leiden(
        objective_function="modularity", n_iterations=-1
    )
    members = np.asarray(found.membership)
    order = np.argsort(-np.bincount(members), kind="stable")
    return np.argsort(order)[members]


def list_edges(graph: Graph) -> Int[np.ndarray, "e 2"]:
    """Every undirected edge once.

    Example:
      >>> list_edges(Graph.from_edges([(1, 0), (1, 2)], num_nodes=3)).tolist()
      [[0, 1], [1, 2]]
    """
    pairs = np.column_stack([np.asarray(graph.receivers), np.asarray(graph.senders)])
    return pairs[pairs[:, 0] < pairs[:, 1]]


def sample_edges(graph: Graph, most: int) -> Int[np.ndarray, "e 2"]:
    """Every undirected edge once, or a sample of them where there are more than `most`.

    Example:
      >>> triangle = Graph.from_edges([(0, 1), (1, 2), (2, 0)], num_nodes=3)
      >>> len(sample_edges(triangle, 2))
      2
    """
    pairs = list_edges(graph)
    if len(pairs) <= most:
        return pairs
    rng = np.random.Generator(np.random.PCG64(0))
    return pairs[np.sort(rng.choice(len(pairs), most, replace=False))]


def _to_igraph(graph: Graph, seed: int) -> Any:
    import igraph

    # igraph has one generator for all: it is set before each use
    igraph.set_random_number_generator(random.Random(seed))
    return igraph.Graph(graph.num_nodes, list_edges(graph).tolist())
