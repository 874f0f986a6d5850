"""What a trained model learnt: filters of the nodes, their groups, figures, a page.

Figures, layouts and the report (`plots`, `layout`, `page`, `report`) need packages of
`pip install dsf-jax[explain]` and are imported on demand.
"""

from dsf_jax.explain.reading import (
    Filters,
    Representatives,
    colours,
    distance_correlation,
    embed,
    read_filters,
    representatives,
    variance_share,
)

__all__ = [
    "Filters",
    "Representatives",
    "colours",
    "distance_correlation",
    "embed",
    "read_filters",
    "representatives",
    "variance_share",
]
