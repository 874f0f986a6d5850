"""What a trained model learnt: filters of the nodes, their groups, figures, a page.

Figures, the page and the report of both (`draw_curves`, `draw_map`, `make_page`,
`write_report`) need `pip install dsf-jax[explain]` and are imported at their first use.
"""

from typing import Any

from dsf_jax.explain.palette import colours, group_colours
from dsf_jax.explain.reading import (
    Filters,
    Representatives,
    distance_correlation,
    embed,
    node_filters,
    read_filters,
    representatives,
    variance_share,
)

__all__ = [
    "Filters",
    "Representatives",
    "colours",
    "distance_correlation",
    "draw_curves",
    "draw_map",
    "embed",
    "group_colours",
    "make_page",
    "node_filters",
    "read_filters",
    "representatives",
    "variance_share",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """What needs packages that are not installed with the others."""
    if name in ("draw_curves", "draw_map"):
        from dsf_jax.explain import plots

        return getattr(plots, name)
    if name == "make_page":
        from dsf_jax.explain.page import make_page

        return make_page
    if name == "write_report":
        from dsf_jax.explain.report import write_report

        return write_report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
