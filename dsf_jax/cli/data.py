"""`dsf-jax datasets`: what there is."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from dsf_jax.cli.shared import refuse, write_json_file
from dsf_jax.data.catalog import (
    CATALOG,
    DATASETS,
    Description,
    check_name,
    describe_dataset,
)
from dsf_jax.data.files import data_folder


def datasets(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Data sets to list; all of them if none is named.",
            autocompletion=lambda: list(DATASETS),
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the rows as JSON, too."),
    ] = None,
) -> None:
    """List the data sets: sizes, homophily, metric. Nothing is downloaded."""
    errors = Console(stderr=True)
    try:
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
            rows.append(Description(name=name, metric=CATALOG[name].metric))
            damaged.append(str(error))
    _print_descriptions(rows)
    for message in damaged:
        typer.echo(f"warning: {message}", err=True)
    if json_file is not None:
        write_json_file(json_file, [row._asdict() for row in rows])


def _print_descriptions(rows: list[Description]) -> None:
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
    console = Console(highlight=False, markup=False)
    console.print(table)
    if missing := sum(not row.present for row in rows):
        console.print(f"{missing} not in {data_folder()}: downloaded when first used.")
    for row in rows:
        if row.name in CATALOG and CATALOG[row.name].note:
            console.print(CATALOG[row.name].note)
