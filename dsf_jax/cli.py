"""The command line: options -> library calls. The only place that prints."""

import typer
from rich.console import Console
from rich.table import Table

import dsf_jax

app = typer.Typer(
    no_args_is_help=True,
    help="Diverse spectral filtering: every node learns its own graph filter.",
)


@app.callback()
def _root() -> None:
    """Keep `evaluate` a command of its own while it is the only one."""


@app.command()
def evaluate() -> None:
    """Show the version and the public functions; grids of runs are to come."""
    table = Table("name", "what it is", title=f"dsf_jax {dsf_jax.__version__}")
    for name in dsf_jax.__all__:
        table.add_row(name, _summary(name))
    Console().print(table)


def _summary(name: str) -> str:
    """First line of the docstring; constants are described where they are defined."""
    value = getattr(dsf_jax, name)
    if isinstance(value, dsf_jax.Basis):
        return f"The {name} basis, for the filters and `response`."
    if isinstance(value, dict | tuple):
        return f"By name: {', '.join(value)}."
    return (value.__doc__ or "").partition("\n")[0]


def main() -> None:
    """Entry point of `dsf-jax`."""
    app()
