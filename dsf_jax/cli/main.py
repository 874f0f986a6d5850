"""The command line `dsf-jax`; commands are in modules of their own."""

import importlib.metadata
from typing import Annotated

import jax
import typer

from dsf_jax.cli.data import datasets
from dsf_jax.cli.explain import explain
from dsf_jax.cli.fit import fit, predict
from dsf_jax.cli.run import evaluate, tune
from dsf_jax.cli.shared import Commands
from dsf_jax.engine.process import use_all_cores
from dsf_jax.storage import cache_folder

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    help="Diverse spectral filtering: every node learns its own graph filter.",
)


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.")
    ] = False,
) -> None:
    if version:
        typer.echo(f"dsf-jax {importlib.metadata.version('dsf-jax')}")
        raise typer.Exit


app.command()(evaluate)
app.command()(tune)
app.command()(datasets)
app.command()(fit)
app.command()(predict)
app.command()(explain)


def main() -> None:
    """Entry point of `dsf-jax`: one device per core, compiled programs are kept."""
    use_all_cores()
    jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "compiled"))
    app()
