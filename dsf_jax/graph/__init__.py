"""Graphs on the host: what one can know of them before any training.

`Graph` itself, homophily (global and local), local frequencies and spectrum
(Definitions 1 and 2), positional features with their eigensolvers, and the embedding of
PA-GNN.
"""

from dsf_jax.graph.eigensolver import leading_eigenpairs
from dsf_jax.graph.embedding import netmf
from dsf_jax.graph.graph import Graph, normalise
from dsf_jax.graph.homophily import class_homophily, edge_homophily
from dsf_jax.graph.krylov import large_eigenpairs
from dsf_jax.graph.laplacian import laplacian_features
from dsf_jax.graph.locality import (
    Unevenness,
    count_local_edges,
    eigenspace_frequency,
    homophily_of,
    local_frequency,
    local_homophily,
    twin_groups,
    unevenness,
)
from dsf_jax.graph.positional import PositionalFeatures, positional_features
from dsf_jax.graph.random_walk import random_walk_features, sketch_random_walks
from dsf_jax.graph.spectrum import (
    eigenspaces,
    frequency_ratios,
    ratio_spread,
    representative_spaces,
)

__all__ = [
    "Graph",
    "PositionalFeatures",
    "Unevenness",
    "class_homophily",
    "count_local_edges",
    "edge_homophily",
    "eigenspace_frequency",
    "eigenspaces",
    "frequency_ratios",
    "homophily_of",
    "laplacian_features",
    "large_eigenpairs",
    "leading_eigenpairs",
    "local_frequency",
    "local_homophily",
    "netmf",
    "normalise",
    "positional_features",
    "random_walk_features",
    "ratio_spread",
    "representative_spaces",
    "sketch_random_walks",
    "twin_groups",
    "unevenness",
]
