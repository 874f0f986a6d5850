"""`dsf-jax datasets`: what there is, and what is in a graph of your own."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from dsf_jax.cli.shared import (
    check_json_file,
    goes_to_output,
    one_line_errors,
    refuse,
    write_json_file,
)
from dsf_jax.data.catalog import (
    CATALOG,
    DATASETS,
    Description,
    check_name,
    describe,
    describe_dataset,
    listed,
)
from dsf_jax.data.dataset import Dataset
from dsf_jax.data.files import data_folder
from dsf_jax.data.own import read_dataset
from dsf_jax.data.splits import report_splits
from dsf_jax.graph.locality import count_local_edges, unevenness

MOST_NODES = 20_000  # of a graph whose surroundings are counted: half a minute


def datasets(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Data sets to list; all of them if none is named.",
            autocompletion=lambda: list(DATASETS),
        ),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Say what is in your own graph instead."),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json",
            metavar="FILE",
            help="Write the rows as JSON, too; - is standard output.",
        ),
    ] = None,
) -> None:
    """List the data sets: sizes, homophily, metric. Nothing is downloaded."""
    if check is not None:
        with one_line_errors():
            check_json_file(json_file)
            own = read_dataset(check)
        facts = _facts(own)
        for title, value in facts.items():
            shown = f"{value:,}" if isinstance(value, int) else value
            line = f"{title.replace('_', ' ')}: {shown}"
            typer.echo(line, err=goes_to_output(json_file))
        write_json_file(json_file, facts)
        return
    errors = Console(stderr=True)
    try:
        check_json_file(json_file)
        for name in names or ():
            check_name(name)
    except ValueError as error:
        refuse(str(error))
    rows, damaged = [], []
    for name in track(
        names or DATASETS,
        "count",
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    ):
        try:
            rows.append(describe_dataset(name))
        except (OSError, ValueError) as error:  # not readable, or not the listed file
            rows.append(listed(name))
            damaged.append(str(error))
    _print_descriptions(rows, goes_to_output(json_file))
    for message in damaged:
        typer.echo(f"warning: {message}", err=True)
    write_json_file(json_file, [row._asdict() for row in rows])


def _facts(dataset: Dataset) -> dict[str, Any]:
    """What `--check` says of a graph."""
    found, cleaned, labels = describe(dataset), dataset.graph.cleaning, dataset.labels
    names = dataset.class_names
    words = range(dataset.num_classes) if names is None else names.tolist()
    counts = np.bincount(labels[labels >= 0], minlength=dataset.num_classes)
    masks = "none"
    if dataset.fixed is not None:
        masks = str(report_splits(labels, dataset.fixed))
    return {
        "name": found.name,
        "nodes": found.nodes,
        "edges": found.edges,
        "self_loops_dropped": int(cleaned.self_loops),
        "repetitions_merged": int(cleaned.duplicates),
        "edges_listed_in_one_direction": int(cleaned.mirrored),
        "features": found.features,
        "classes": ", ".join(f"{w} ({n})" for w, n in zip(words, counts, strict=True)),
        "unlabelled": int((labels < 0).sum()),
        "masks": masks,
        "homophily": _rounded(found.homophily),
        "class_homophily": _rounded(found.class_homophily),
        **_unevenness(dataset),
    }


def _unevenness(dataset: Dataset) -> dict[str, float | None]:
    """How much surroundings differ; nothing of a graph that is too large for it."""
    graph, labels = dataset.graph, dataset.labels
    if graph.num_nodes > MOST_NODES or graph.num_edges == 0:
        return {}
    found = unevenness(graph, labels, count_local_edges(graph, labels))
    return {
        "spread_of_local_homophily": _rounded(found.spread),
        "spread_by_chance": _rounded(found.chance),
        "share_of_nodes_unlike_the_whole": _rounded(found.unlike),
        "share_of_nodes_with_a_twin": _rounded(found.twins),
    }


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 3)


def _print_descriptions(rows: list[Description], to_errors: bool) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("data set", no_wrap=True)
    for title in ("nodes", "edges", "features", "classes", "H", "H_class"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("metric", no_wrap=True)
    for row in rows:
        counts = (row.nodes, row.edges, row.features, row.classes)
        shares = (row.homophily, row.class_homophily)
        table.add_row(
            row.name,
            *("-" if count is None else f"{count:,}" for count in counts),
            *("-" if share is None else f"{share:.3f}" for share in shares),
            row.metric,
        )
    console = Console(highlight=False, markup=False, stderr=to_errors)
    console.print(table)
    if missing := sum(not row.present for row in rows):
        console.print(f"{missing} not in {data_folder()}: downloaded when first used.")
    if any(row.name == "csbm" for row in rows):
        console.print("csbm: generated with φ = 0.5; dsf_jax.data.csbm has every φ.")
    for row in rows:
        if row.name in CATALOG and CATALOG[row.name].note:
            console.print(CATALOG[row.name].note)
