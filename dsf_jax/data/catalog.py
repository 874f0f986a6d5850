"""Names -> `Dataset`: the graphs of the paper, six beyond, and the generated ones."""

import difflib
import hashlib
import io
from collections.abc import Callable, Mapping
from functools import partial
from importlib import resources
from typing import NamedTuple

import numpy as np

from dsf_jax.data.dataset import Dataset, Metric, Source, make_dataset
from dsf_jax.data.files import is_present, manifest, read_files
from dsf_jax.data.formats import (
    Parts,
    read_csr_npz,
    read_geom_gcn,
    read_musae,
    read_npz,
    read_planetoid,
)
from dsf_jax.data.splits import Split
from dsf_jax.data.synthetic import csbm, regions
from dsf_jax.graph.homophily import class_homophily, edge_homophily

SCALINGS = ("authors", "rows", "raw")
GENERATED: dict[str, Callable[[], Dataset]] = {
    "regions": regions,
    "csbm": partial(csbm, phi=0.5),  # `csbm` itself has every φ
}


class Recipe(NamedTuple):
    """How to read a data set.

    Example:
      >>> CATALOG["twitch-de"].metric
      'roc_auc'
    """

    read: Callable[[Mapping[str, bytes]], Parts]
    sizes: tuple[int, int, int, int]  # nodes, edges, features, classes
    metric: Metric = "accuracy"
    # of the features, as the authors had them; not known of Chameleon and Squirrel
    scaling: str = "rows"
    note: str = ""
    authors_split: str = ""  # package file with the part of each node


CATALOG = {
    "chameleon": Recipe(
        read_npz, (2277, 31371, 2325, 5), authors_split="chameleon_split.npz"
    ),
    "squirrel": Recipe(read_npz, (5201, 198353, 2089, 5)),
    "wisconsin": Recipe(read_geom_gcn, (251, 450, 1703, 5)),
    "cornell": Recipe(
        read_geom_gcn,
        (183, 277, 1703, 5),
        note="cornell: the file, upstream and in the paper, carries the features and "
        "labels of Texas; cornell-fixed is the corrected graph.",
    ),
    "texas": Recipe(read_geom_gcn, (183, 279, 1703, 5)),
    "twitch-de": Recipe(
        read_musae, (9498, 153138, 2514, 2), metric="roc_auc", scaling="raw"
    ),
    "cora": Recipe(read_planetoid, (2708, 5278, 1433, 7)),
    "citeseer": Recipe(read_planetoid, (3327, 4552, 3703, 6)),
    "pubmed": Recipe(read_planetoid, (19717, 44324, 500, 3)),
    "computers": Recipe(read_csr_npz, (13752, 245861, 767, 10), scaling="raw"),
    "photo": Recipe(read_csr_npz, (7650, 119081, 745, 8), scaling="raw"),
    "cornell-fixed": Recipe(read_npz, (183, 277, 1703, 5)),
    "chameleon-filtered": Recipe(read_npz, (890, 8854, 2325, 5)),
    "squirrel-filtered": Recipe(read_npz, (2223, 46998, 2089, 5)),
    "actor": Recipe(read_npz, (7600, 26659, 932, 5)),
    "minesweeper": Recipe(
        read_npz, (10000, 39402, 7, 2), metric="roc_auc", scaling="raw"
    ),
    "tolokers": Recipe(
        read_npz, (11758, 519000, 10, 2), metric="roc_auc", scaling="raw"
    ),
}
"""How to read every data set that comes from files."""

DATASETS = (*CATALOG, *GENERATED)
"""Names for `load_dataset`: the paper's eleven, six beyond, and the generated ones."""


def check_name(name: str) -> None:
    """Refuse a name that is not in `DATASETS` and suggest the nearest.

    Example:
      >>> check_name("camel")  # doctest: +ELLIPSIS
      Traceback (most recent call last):
      ValueError: name must be one of chameleon, ..., got 'camel'; did you mean
      'chameleon'?
    """
    if name not in DATASETS:
        near = difflib.get_close_matches(name, DATASETS, n=1, cutoff=0.0)[0]
        raise ValueError(
            f"name must be one of {', '.join(DATASETS)}, got {name!r}; did you mean "
            f"{near!r}?"
        )


def load_dataset(name: str, *, scaling: str = "authors") -> Dataset:
    """A data set by name, from verified files; missing ones are downloaded.

    The folder is the environment variable `DSF_JAX_DATA`, else the user's cache.

    Args:
      name: one of `DATASETS`; `regions` and `csbm` are generated and need no file.
      scaling: of the features. `rows` divides each row by its sum, `raw` leaves what is
        in the file, `authors` is `raw` for Twitch-DE, Computers, Photo, Minesweeper and
        Tolokers and `rows` for the others. Generated ones are never scaled.

    Returns:
      The data set.

    Raises:
      FileNotFoundError: if a file is missing and cannot be downloaded; says what to put
        where.
      ValueError: if the name is not known or a file is not the expected one.

    Example:
      >>> load_dataset("regions").graph.num_nodes
      600
    """
    check_name(name)
    if scaling not in SCALINGS:
        raise ValueError(
            f"scaling must be one of {', '.join(SCALINGS)}, got {scaling!r}."
        )
    if name in GENERATED:
        return GENERATED[name]()._replace(name=name)
    recipe, files = CATALOG[name], read_files(name)
    parts = recipe.read(files)
    dataset = make_dataset(
        parts.graph,
        parts.features,
        parts.labels,
        name=name,
        metric=recipe.metric,
        fixed=parts.fixed,
        normalize_rows=(recipe.scaling if scaling == "authors" else scaling) == "rows",
    )
    sources = (
        Source(entry.file, hashlib.sha256(files[entry.file]).hexdigest(), entry.url)
        for entry in manifest()[name]
    )
    return dataset._replace(
        sources=tuple(sources),
        note=recipe.note,
        authors=_authors_split(recipe.authors_split),
    )


def _authors_split(name: str) -> Split | None:
    """Masks [1, N]; `part` is 0 where a node trains, 1 validates, 2 tests."""
    if not name:
        return None
    content = resources.files("dsf_jax.data").joinpath(name).read_bytes()
    part = np.load(io.BytesIO(content), allow_pickle=False)["part"]
    return Split(*((part == number)[None] for number in range(3)))


class Description(NamedTuple):
    """Facts of a data set; homophily is None where its files are not present.

    Example:
      >>> Description(name="texas", metric="accuracy", present=False).nodes
    """

    name: str
    nodes: int | None = None
    edges: int | None = None  # undirected, without loops
    features: int | None = None
    classes: int | None = None
    homophily: float | None = None
    class_homophily: float | None = None
    metric: Metric = "accuracy"
    present: bool = False


def describe_dataset(name: str) -> Description:
    """Count what is in a data set; nothing is downloaded.

    Args:
      name: one of `DATASETS`.

    Returns:
      Its facts; where files are missing, those that ship with the package.

    Raises:
      ValueError: if the name is not known or a file is not the expected one.

    Example:
      >>> describe_dataset("regions")[:5]
      ('regions', 600, 1745, 16, 2)
    """
    check_name(name)
    if name in CATALOG and not is_present(name):
        return listed(name)
    return describe(load_dataset(name))


def listed(name: str) -> Description:
    """Facts of a data set from files that ship with the package.

    Example:
      >>> listed("texas")[:5]
      ('texas', 183, 279, 1703, 5)
    """
    recipe = CATALOG[name]
    return Description(name, *recipe.sizes, metric=recipe.metric)


def describe(dataset: Dataset) -> Description:
    """Count what is in a data set.

    Example:
      >>> describe(regions(60)).nodes
      60
    """
    return Description(
        name=dataset.name,
        nodes=dataset.graph.num_nodes,
        edges=dataset.graph.num_edges,
        features=dataset.features.shape[1],
        classes=dataset.num_classes,
        homophily=edge_homophily(dataset.graph, dataset.labels),
        class_homophily=class_homophily(dataset.graph, dataset.labels),
        metric=dataset.metric,
        present=True,
    )
