"""Diverse spectral filtering: every node learns its own polynomial graph filter."""

from dsf_jax.datasets import Dataset, Split, load_dataset, stratified_split
from dsf_jax.filters import (
    Basis,
    basis_terms,
    bernstein,
    chebyshev,
    cumulative_weights,
    diverse_filter,
    diverse_recurrence_filter,
    evaluate_basis,
    jacobi,
    legendre,
    monomial,
    polynomial_basis,
    response,
    shared_filter,
)
from dsf_jax.graph import Graph
from dsf_jax.recurrence import Recurrence
from dsf_jax.sparse import Operator, a_hat, a_tilde, l_hat, propagate

__version__ = "0.1.0"

__all__ = [
    "Basis",
    "Dataset",
    "Graph",
    "Operator",
    "Recurrence",
    "Split",
    "a_hat",
    "a_tilde",
    "basis_terms",
    "bernstein",
    "chebyshev",
    "cumulative_weights",
    "diverse_filter",
    "diverse_recurrence_filter",
    "evaluate_basis",
    "jacobi",
    "l_hat",
    "legendre",
    "load_dataset",
    "monomial",
    "polynomial_basis",
    "propagate",
    "response",
    "shared_filter",
    "stratified_split",
]
