"""Everything about the filters of one model in a folder: figures, page, numbers."""

import json
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dsf_jax.bases import Basis
from dsf_jax.data.dataset import Dataset
from dsf_jax.explain.layout import communities, place_nodes
from dsf_jax.explain.page import check_node, make_page
from dsf_jax.explain.plots import (
    draw_curves,
    draw_frequencies,
    draw_homophily,
    draw_map,
    draw_weights,
    save_figure,
)
from dsf_jax.explain.reading import (
    Filters,
    colours,
    distance_correlation,
    embed,
    representatives,
    variance_share,
)
from dsf_jax.filters import response
from dsf_jax.graph.homophily import edge_homophily
from dsf_jax.graph.locality import local_homophily
from dsf_jax.graph.spectrum import (
    MAX_NODES,
    RatioSpread,
    eigenspaces,
    frequency_ratios,
    ratio_spread,
    representative_spaces,
)
from dsf_jax.models.diversity import LEAST_SPREAD, curve_spread
from dsf_jax.storage import write_whole


class Locality(NamedTuple):
    """Local properties of every node (Definitions 1 and 2).

    Example:
      >>> Locality._fields
      ('hops', 'homophily', 'ratios', 'spread')
    """

    hops: int
    homophily: Float[np.ndarray, " N"]
    ratios: dict[str, Float[np.ndarray, " N"]]  # ξ by "low (λ = 0.06)"; {} if too large
    spread: RatioSpread | None


def measure_locality(dataset: Dataset, *, hops: int = 2) -> Locality:
    """Local homophily, and local frequencies of the low, middle and high eigenspace.

    Frequencies need a dense eigendecomposition: they are left out above `MAX_NODES`.

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
    homophily = local_homophily(dataset.graph, dataset.labels, hops=hops)
    if dataset.graph.num_nodes > MAX_NODES or dataset.graph.num_edges == 0:
        return Locality(hops, homophily, {}, None)
    spaces = eigenspaces(dataset.graph)
    chosen = representative_spaces(spaces)
    rows = frequency_ratios(dataset.graph, list(chosen.values()), hops=hops)
    names = (
        f"{name} (λ = {space.eigval:.3g}"
        + (f", {space.multiplicity} times)" if space.multiplicity > 1 else ")")
        for name, space in chosen.items()
    )
    spread = ratio_spread(dataset.graph, spaces, hops=hops)
    return Locality(hops, homophily, dict(zip(names, rows, strict=True)), spread)


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
    """Write the figures as PNG and SVG, `index.html` and `numbers.json`.

    Args:
      folder: where to; it must exist.
      dataset: the data set.
      filters: from `read_filters`.
      basis: of the model.
      locality: from `measure_locality`.
      title: of the page.
      scores: of the model, kept in the numbers.
      count: number of representatives; one is drawn where all nodes filter alike.
      method: of the map, `tsne` or `pca`.
      node: the node that the page shows first.
      seed: of clusters and maps.

    Returns:
      The numbers.

    Raises:
      ValueError: if an argument breaks its rule.

    Example:
      `dsf-jax explain` calls it.

      >>> write_report.__name__
      'write_report'
    """
    graph, folder = dataset.graph, Path(folder)
    check_node(node, graph.num_nodes)
    spread = float(curve_spread(filters.curves))
    is_diverse = spread >= LEAST_SPREAD
    groups = representatives(filters.beta, count=count if is_diverse else 1, seed=seed)
    found = communities(graph, seed=seed)
    points = place_nodes(graph, seed=seed)
    rgb = colours(embed(filters.beta, method=method, seed=seed), spread=spread)
    _write_figures(folder, dataset, filters, groups, basis, locality, points, rgb)
    numbers = _numbers(dataset, filters, spread, locality, found, scores)
    page = make_page(
        graph,
        filters,
        _values(np.eye(len(filters.gamma)), filters, basis),
        points=points,
        rgb=rgb,
        statistics={
            "class": dataset.labels,
            "degree": np.bincount(
                np.asarray(graph.receivers), minlength=graph.num_nodes
            ),
            f"local homophily, {locality.hops} hops": locality.homophily,
            **{f"λ_i / λ, {name}": row for name, row in locality.ratios.items()},
            "group of weights": groups.cluster,
            "community of the graph": found,
        },
        title=title,
        summary=_summary(numbers),
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
    groups: Any,
    basis: Basis,
    locality: Locality,
    points: np.ndarray,
    rgb: np.ndarray,
) -> None:
    """All figures of the paper that the data allow."""
    curves = _values(groups.centres, filters, basis)
    overall = edge_homophily(dataset.graph, dataset.labels)
    figures: dict[str, Any] = {
        "curves": partial(draw_curves, filters=filters, groups=groups, curves=curves),
        "map": partial(draw_map, graph=dataset.graph, points=points, rgb=rgb),
        "weights": partial(draw_weights, filters=filters),
        "homophily": partial(
            draw_homophily,
            local=locality.homophily,
            overall=overall,
            hops=locality.hops,
        ),
    }
    if locality.ratios:
        figures["frequency"] = partial(
            draw_frequencies, ratios=locality.ratios, hops=locality.hops
        )
    for name, draw in figures.items():
        size = (4.5, 4.5) if name == "map" else (4.5, 3.2)
        save_figure(folder / name, draw, size=size)


def _numbers(
    dataset: Dataset,
    filters: Filters,
    spread: float,
    locality: Locality,
    found: np.ndarray,
    scores: dict[str, float],
) -> dict[str, Any]:
    num_communities = int(found.max()) + 1
    ratios = locality.spread
    return {
        "dataset": dataset.name,
        "nodes": dataset.graph.num_nodes,
        "edges": dataset.graph.num_edges,
        **scores,
        "curve_spread": spread,
        "is_diverse": spread >= LEAST_SPREAD,
        "communities": num_communities,
        "variance_share": variance_share(filters.beta, found),
        "variance_share_by_chance": (num_communities - 1)
        / max(dataset.graph.num_nodes - 1, 1),
        "distance_correlation": distance_correlation(dataset.graph, filters.beta),
        "frequencies": list(locality.ratios),
        "ratio_spread": None if ratios is None else ratios._asdict(),
    }


def _summary(numbers: dict[str, Any]) -> str:
    size = f"{numbers['nodes']:,} nodes, {numbers['edges']:,} edges."
    if not numbers["is_diverse"]:
        return f"{size} {warn_of_spread(numbers['curve_spread'])}"
    spread, share = numbers["curve_spread"], numbers["variance_share"]
    return (
        f"{size} Filters of the nodes differ by {spread:.1%} of the shared one; "
        f"{share:.0%} of the variance of their weights lies between its "
        f"{numbers['communities']} communities."
    )


def warn_of_spread(spread: float) -> str:
    """What to say of filters that do not differ.

    Example:
      >>> warn_of_spread(0.0002)
      'The filters are not diverse: they differ by 0.02 % of the shared one, so all
      nodes have one and the same curve, and colours are left grey.'
    """
    return (
        f"The filters are not diverse: they differ by {100 * spread:.2g} % of the "
        "shared one, so all nodes have one and the same curve, and colours are left "
        "grey."
    )


def _values(
    weights: Float[np.ndarray, "K1 R"], filters: Filters, basis: Basis
) -> Float[np.ndarray, "R G"]:
    grid = jnp.asarray(filters.lam, dtype=float)
    return np.asarray(response(jnp.asarray(weights, dtype=float), grid, basis))
