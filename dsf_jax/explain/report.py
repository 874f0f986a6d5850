"""Everything about the filters of one model in a folder: figures, page, numbers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from dsf_jax.bases import Basis
from dsf_jax.data.dataset import Dataset
from dsf_jax.explain.layout import communities, place_nodes
from dsf_jax.explain.page import check_node, make_page
from dsf_jax.explain.palette import colours
from dsf_jax.explain.plots import (
    draw_curves,
    draw_frequencies,
    draw_homophily,
    draw_map,
    draw_weights,
    map_size,
    save_figure,
)
from dsf_jax.explain.reading import (
    Filters,
    Representatives,
    distance_correlation,
    embed,
    representatives,
    variance_share,
)
from dsf_jax.explain.summary import (
    NodeQuantity,
    describe_graph,
    describe_model,
    warn_of_spread,
)
from dsf_jax.filters import response
from dsf_jax.graph.homophily import edge_homophily
from dsf_jax.graph.locality import (
    Unevenness,
    count_local_edges,
    homophily_of,
    unevenness,
)
from dsf_jax.graph.spectrum import (
    MAX_NODES,
    RatioSpread,
    eigenspaces,
    frequency_ratios,
    ratio_spread,
    representative_spaces,
)
from dsf_jax.models.diversity import LEAST_SPREAD
from dsf_jax.storage import write_whole


class Locality(NamedTuple):
    """Local properties of every node (Definitions 1 and 2)."""

    hops: int
    homophily: Float[np.ndarray, " N"]
    unevenness: Unevenness
    ratios: dict[str, Float[np.ndarray, " N"]]  # ξ by "low (λ = 0.06)"; {} if too large
    spread: RatioSpread | None


def measure_locality(dataset: Dataset, *, hops: int = 2) -> Locality:
    """Local homophily, how uneven it is, and local frequencies of three eigenspaces.

    The eigenspaces are a low, a middle and a high one. They need a dense
    eigendecomposition, and are left out above `MAX_NODES`.

    Args:
      dataset: the data set.
      hops: k of the neighbourhood.

    Returns:
      The local properties; names of frequencies carry λ and its multiplicity.

    Example:
      >>> from dsf_jax import regions
      >>> list(measure_locality(regions(60)).ratios)[2].split()[0]
      'high'
    """
    graph, labels = dataset.graph, dataset.labels
    counts = count_local_edges(graph, labels, hops=hops)
    homophily, found = homophily_of(counts), unevenness(graph, labels, counts)
    if graph.num_nodes > MAX_NODES or graph.num_edges == 0:
        return Locality(hops, homophily, found, {}, None)
    spaces = eigenspaces(graph)
    chosen = representative_spaces(spaces)
    rows = frequency_ratios(graph, list(chosen.values()), hops=hops)
    names = (
        f"{name} (λ = {space.eigval:.3g}"
        + (f", {space.multiplicity} times)" if space.multiplicity > 1 else ")")
        for name, space in chosen.items()
    )
    spread = ratio_spread(graph, spaces, hops=hops)
    ratios = dict(zip(names, rows, strict=True))
    return Locality(hops, homophily, found, ratios, spread)


def write_report(
    folder: str | Path,
    dataset: Dataset,
    filters: Filters,
    basis: Basis,
    locality: Locality,
    *,
    title: str,
    scores: dict[str, float],
    count: int = 5,
    method: str = "tsne",
    node: int = 0,
    seed: int = 0,
) -> dict[str, Any]:
    """Write the figures as PNG, SVG and PDF, `index.html` and `numbers.json`.

    Args:
      folder: where to; it must exist.
      dataset: the data set.
      filters: from `read_filters`.
      basis: of the model.
      locality: from `measure_locality`.
      title: of the page.
      scores: of the model, kept in the numbers.
      count: number of representatives; one is drawn where all nodes filter alike.
      method: of the colours by similar weights, `tsne` or `pca`.
      node: the node that the page shows first.
      seed: of clusters and maps.

    Returns:
      The numbers.

    Raises:
      ValueError: if an argument breaks its rule.

    Example:
      `dsf-jax explain` calls it.

    """
    graph, folder = dataset.graph, Path(folder)
    check_node(node, graph.num_nodes)
    is_diverse = filters.spread >= LEAST_SPREAD
    groups = representatives(filters.beta, count=count if is_diverse else 1, seed=seed)
    curves = _values(groups.centres, filters, basis)
    found = communities(graph, seed=seed)
    points = place_nodes(graph, seed=seed)
    _write_figures(folder, dataset, filters, groups, curves, locality, points)
    numbers = _numbers(dataset, filters, locality, found, scores)
    similar = embed(filters.beta, method=method, seed=seed)
    page = make_page(
        graph,
        filters,
        _values(np.eye(len(filters.gamma)), filters, basis),
        groups,
        curves,
        points=points,
        similar=colours(similar, spread=filters.spread),
        of_node=_describe_nodes(dataset, locality, found),
        of_model=describe_model(numbers),
        of_graph=describe_graph(numbers),
        title=title,
        notice="" if is_diverse else warn_of_spread(filters.spread),
        node=node,
    )
    write_whole(folder / "index.html", page.encode())
    text = json.dumps(numbers, indent=1, ensure_ascii=False) + "\n"
    write_whole(folder / "numbers.json", text.encode())
    return numbers


def _write_figures(
    folder: Path,
    dataset: Dataset,
    filters: Filters,
    groups: Representatives,
    curves: Float[np.ndarray, "R G"],
    locality: Locality,
    points: Float[np.ndarray, "N 2"],
) -> None:
    """All figures of the paper that the data allow."""
    graph, hops = dataset.graph, locality.hops
    overall = edge_homophily(graph, dataset.labels)
    figures: dict[str, Callable[[Any], None]] = {
        "curves": lambda ax: draw_curves(ax, filters, groups, curves),
        "map": lambda ax: draw_map(ax, graph, points, groups, spread=filters.spread),
        "weights": lambda ax: draw_weights(ax, filters),
        "homophily": lambda ax: draw_homophily(
            ax, locality.homophily, overall, hops=hops
        ),
    }
    if locality.ratios:
        figures["frequency"] = lambda ax: draw_frequencies(
            ax, locality.ratios, hops=hops
        )
    for name, draw in figures.items():
        size = map_size(points, groups) if name == "map" else (4.5, 3.2)
        save_figure(folder / name, draw, size=size)


def _describe_nodes(
    dataset: Dataset, locality: Locality, found: Int[np.ndarray, " N"]
) -> list[NodeQuantity]:
    """What the page tells of one node beside its filter and its group."""
    graph, near = dataset.graph, f"within {locality.hops} hops"
    degree = np.bincount(np.asarray(graph.receivers), minlength=graph.num_nodes)
    ratio = (
        "Local over global frequency at this eigenvalue of the Laplacian: how much "
        f"its eigenvectors vary {near} of the node, as a share of their variation over "
        "the whole graph (Definition 2)."
    )
    return [
        NodeQuantity("class", dataset.labels, "The label; -1 if it is not known."),
        NodeQuantity("degree", degree, "Number of neighbours."),
        NodeQuantity(
            f"local homophily, {locality.hops} hops",
            locality.homophily,
            f"Share of the edges {near} of the node that link equal classes "
            "(Definition 1).",
        ),
        *(
            NodeQuantity(f"ξ, {name}", row, ratio)
            for name, row in locality.ratios.items()
        ),
        NodeQuantity(
            "community of the graph",
            found,
            "Densely linked part of the graph that the node is in (Leiden), numbered "
            "from the largest.",
        ),
    ]


def _numbers(
    dataset: Dataset,
    filters: Filters,
    locality: Locality,
    found: Int[np.ndarray, " N"],
    scores: dict[str, float],
) -> dict[str, Any]:
    num_communities = int(found.max()) + 1
    ratios = locality.spread
    return {
        "dataset": dataset.name,
        "nodes": dataset.graph.num_nodes,
        "edges": dataset.graph.num_edges,
        "metric": dataset.metric,
        **scores,
        "curve_spread": filters.spread,
        "is_diverse": filters.spread >= LEAST_SPREAD,
        "unevenness": locality.unevenness._asdict(),
        "communities": num_communities,
        "variance_share": variance_share(filters.beta, found),
        "variance_share_by_chance": (num_communities - 1)
        / max(dataset.graph.num_nodes - 1, 1),
        "distance_correlation": distance_correlation(dataset.graph, filters.beta),
        "frequencies": list(locality.ratios),
        "ratio_spread": None if ratios is None else ratios._asdict(),
    }


def _values(
    weights: Float[np.ndarray, "K1 R"], filters: Filters, basis: Basis
) -> Float[np.ndarray, "R G"]:
    grid = jnp.asarray(filters.lam, dtype=float)
    return np.asarray(response(jnp.asarray(weights, dtype=float), grid, basis))
