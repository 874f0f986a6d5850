"""Graphs with features and labels: by name, generated, or your own.

The data set and its splits, the catalog of known ones with their files and formats, the
generated graphs, and readers of files and objects that people have.
"""

from dsf_jax.data.catalog import (
    CATALOG,
    DATASETS,
    Description,
    describe_dataset,
    load_dataset,
)
from dsf_jax.data.dataset import Dataset, Source, make_dataset
from dsf_jax.data.own import read_dataset
from dsf_jax.data.splits import (
    SPLIT_KINDS,
    Split,
    SplitReport,
    balanced_split,
    make_splits,
    report_splits,
    sparse_split,
    stratified_split,
)
from dsf_jax.data.synthetic import csbm, region_of, regions

__all__ = [
    "CATALOG",
    "DATASETS",
    "SPLIT_KINDS",
    "Dataset",
    "Description",
    "Source",
    "Split",
    "SplitReport",
    "balanced_split",
    "csbm",
    "describe_dataset",
    "load_dataset",
    "make_dataset",
    "make_splits",
    "read_dataset",
    "region_of",
    "regions",
    "report_splits",
    "sparse_split",
    "stratified_split",
]
