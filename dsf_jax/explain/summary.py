"""What is told of a trained model: every quantity with its value and its meaning.

The table on the terminal and the page show the same quantities in the same words.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Num

from dsf_jax.graph.locality import UNLIKE
from dsf_jax.models.diversity import LEAST_SPREAD

_SCORES = {
    "accuracy": "Share of the {} nodes whose class is predicted rightly.",
    "roc_auc": "Area under the ROC curve on the {} nodes, in percent; 50 is chance.",
}


class Quantity(NamedTuple):
    """A number of the model or of the graph.

    Example:
      >>> Quantity("edges", "1,745", "Links of the graph, each counted once.").value
      '1,745'
    """

    name: str
    value: str
    meaning: str


class NodeQuantity(NamedTuple):
    """A number of every node."""

    name: str
    values: Num[np.ndarray, " N"]
    meaning: str


def describe_model(numbers: dict[str, Any]) -> list[Quantity]:
    """Scores of the model, and how far its filters differ.

    Args:
      numbers: of `write_report`.

    Returns:
      The quantities; a score that is not known is left out.

    Example:
      >>> numbers = {"metric": "accuracy", "curve_spread": 0.62, "test": 93.33}
      >>> [(found.name, found.value) for found in describe_model(numbers)]
      [('test score', '93.3 %'), ('spread of the filters', '62 %')]
    """
    meaning = _SCORES[numbers["metric"]]
    found = [
        Quantity(f"{name} score", f"{numbers[key]:.1f} %", meaning.format(name))
        for key, name in (("val", "validation"), ("test", "test"))
        if np.isfinite(numbers.get(key, np.nan))
    ]
    if "epochs" in numbers:
        text = "Updates of the weights until training stopped; the best ones are kept."
        found.append(Quantity("epochs", f"{numbers['epochs']:.0f}", text))
    text = (
        "How far the filters of the nodes are from the shared one: root mean square "
        f"over nodes and frequencies, relative. Below {_percent(LEAST_SPREAD)} all "
        "nodes filter alike; colours fade from 10 % downwards."
    )
    spread = _percent(numbers["curve_spread"])
    return [*found, Quantity("spread of the filters", spread, text)]


def describe_graph(numbers: dict[str, Any]) -> list[Quantity]:
    """Size of the graph, and how its parts and frequencies relate to the filters.

    Args:
      numbers: of `write_report`.

    Returns:
      The quantities; those of frequencies are left out for a large graph.

    Example:
      >>> numbers = {"nodes": 600, "edges": 1745, "communities": 5}
      >>> numbers |= {"variance_share": 0.93, "variance_share_by_chance": 0.007}
      >>> numbers |= {"distance_correlation": 0.63, "ratio_spread": None}
      >>> uneven = {"spread": 0.33, "chance": 0.09, "unlike": 0.67, "twins": 0.0}
      >>> [found.value for found in describe_graph(numbers | {"unevenness": uneven})]
      ['600', '1,745', '0.33', '0.09', '67 %', '0 %', '5', '93 %', '0.7 %', '0.63']
    """
    found = [
        Quantity("nodes", f"{numbers['nodes']:,}", "Nodes of the graph."),
        Quantity(
            "edges",
            f"{numbers['edges']:,}",
            "Links of the graph, each counted once; loops are left out.",
        ),
        *describe_unevenness(numbers["unevenness"]),
        Quantity(
            "communities",
            f"{numbers['communities']:,}",
            "Densely linked parts of the graph (Leiden, modularity), found without a "
            "look at the filters.",
        ),
        Quantity(
            "variance between them",
            _percent(numbers["variance_share"]),
            "Share of the variance of the weights β that lies between the communities: "
            "100 % if filters depend on the community alone.",
        ),
        Quantity(
            "the same by chance",
            _percent(numbers["variance_share_by_chance"]),
            "The share that as many groups drawn at random would have on average.",
        ),
        Quantity(
            "rank correlation",
            _decimal(numbers["distance_correlation"]),
            "Spearman's correlation of the distance of two nodes in the graph, in "
            "hops, with the distance of their weights β: above 0, far nodes filter "
            "differently.",
        ),
    ]
    ratios = numbers["ratio_spread"]
    return found if ratios is None else found + _describe_ratios(ratios)


def describe_unevenness(figures: dict[str, float]) -> list[Quantity]:
    """How much the surroundings of nodes differ, which one can tell before training.

    Args:
      figures: of `dsf_jax.graph.Unevenness`.

    Returns:
      The quantities.

    Example:
      >>> even = {"spread": 0.1, "chance": 0.1, "unlike": 0.0, "twins": 0.5}
      >>> describe_unevenness(even)[0].value
      '0.10'
    """
    return [
        Quantity(
            "spread of local homophily",
            _decimal(figures["spread"]),
            "Standard deviation of the local homophily between nodes (Definition 1): "
            "filters of their own can only help where surroundings differ.",
        ),
        Quantity(
            "spread by chance",
            _decimal(figures["chance"]),
            "The same if edges joined equal classes as often everywhere, and chance "
            "alone made nodes differ: those with few edges near vary most.",
        ),
        Quantity(
            "nodes unlike the whole",
            _percent(figures["unlike"]),
            f"Nodes whose local homophily is further than {UNLIKE} from that of all "
            "edges.",
        ),
        Quantity(
            "nodes with a twin",
            _percent(figures["twins"]),
            "Nodes with the same neighbours as another node. A twin in the training "
            "set gives much away.",
        ),
    ]


def _describe_ratios(ratios: dict[str, float]) -> list[Quantity]:
    over = "local over global frequency, ξ = λₙ,ᵢ / λₙ"
    rows = {
        "smallest ξ of a node": (
            "smallest",
            f"Smallest {over}, over the eigenvalues λₙ; median of the nodes.",
        ),
        "median ξ of a node": (
            "median",
            f"Median {over}, over the eigenvalues λₙ; median of the nodes.",
        ),
        "largest ξ of a node": (
            "largest",
            f"Largest {over}, over the eigenvalues λₙ; median of the nodes.",
        ),
        "R² of one ξ per node": (
            "linear",
            "How well λₙ,ᵢ = ξᵢ λₙ with one number ξᵢ per node describes the local "
            "frequencies; 1 would be exact.",
        ),
        "R² of a polynomial": (
            "fit",
            "How well the best polynomial of λₙ of order 10 per node describes the "
            "local frequencies; 1 would be exact.",
        ),
    }
    found = [
        Quantity(name, f"{ratios[key]:.3f}", text) for name, (key, text) in rows.items()
    ]
    text = "Share of the pairs of a node and an eigenvalue with local frequency 0."
    return [*found, Quantity("zeros of ξ", _percent(ratios["zeros"]), text)]


def warn_of_spread(spread: float) -> str:
    """What to say of filters that do not differ.

    Example:
      >>> warn_of_spread(0.0002)
      'The filters are not diverse: they differ by 0.02 % of the shared one, so all
      nodes have one and the same curve, and colours are left grey.'
    """
    return (
        f"The filters are not diverse: they differ by {_percent(spread)} of the "
        "shared one, so all nodes have one and the same curve, and colours are left "
        "grey."
    )


def _percent(share: float) -> str:
    """Two digits, or more above 100 %."""
    digits = ".0f" if abs(share) >= 0.1 else ".2g"
    return f"{100 * share:{digits}} %" if np.isfinite(share) else "none"


def _decimal(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else "none"
