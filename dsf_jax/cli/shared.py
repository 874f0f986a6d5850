"""What the commands share: one line for a mistake, files, progress bars."""

import contextlib
import difflib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)

from dsf_jax.data.catalog import check_name
from dsf_jax.experiments.presets import Preset, parse_setting, preset, published
from dsf_jax.models.settings import MODELS, HyperParams
from dsf_jax.storage import write_json

MODEL_NAMES = (
    "gpr, bern, jacobi, dsf-{gpr,bern,jacobi}-{i,r}, an ablation "
    "...-r-no-{ipe,lgwd,orth}, or a baseline: gcn, gat, cheb, appnp, gnn-lf, gnn-hf, "
    "fagcn, pa-gnn"
)


def refuse(message: str) -> NoReturn:
    """A user's mistake: one line on standard error, exit status 2."""
    typer.echo(f"dsf-jax: {' '.join(message.split())}", err=True)
    raise typer.Exit(2)


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """What the library refuses, as one line; Ctrl-C as one line and status 130."""
    try:
        yield
    except (ValueError, TypeError, OSError) as error:
        refuse(str(error))
    except KeyboardInterrupt:
        typer.echo("dsf-jax: stopped by Ctrl-C.", err=True)
        raise typer.Exit(130) from None


def chosen_settings(
    dataset: str,
    model: str,
    split_kind: str,
    changes: list[str],
    origin: str | None = None,
) -> Preset:
    """Settings of a model and the user's changes.

    `origin` is the name of a file, or `published`; without it, the best there are.
    """
    check_name(dataset)
    check_model(model)
    if origin is None:
        found = preset(dataset, model, split_kind)
    elif origin == "published":
        found = _published_settings(dataset, model)
    else:
        found = Preset(_read_settings(Path(origin)), f"from {Path(origin).name}")
    if not changes:
        return found
    values = dict(map(parse_setting, changes))
    source = f"{found.source}; changed: {', '.join(changes)}"
    return Preset(found.hparams._replace(**values), source)


def _published_settings(dataset: str, model: str) -> Preset:
    found = published(dataset, model)
    if found is None:
        raise ValueError(
            f"--settings published must name a data set and a model with published "
            f"settings, got {dataset!r} and {model!r}; leave --settings out for the "
            "best that dsf-jax has."
        )
    return found


def _read_settings(file: Path) -> HyperParams:
    """Settings that `dsf-jax tune --json` or `evaluate --json` wrote."""
    try:
        settings = json.loads(file.read_text())["settings"]
        texts = [
            f"{field}={str(value).lower() if isinstance(value, bool) else value}"
            for field, value in settings.items()
        ]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise ValueError(
            "--settings must be published or a file of dsf-jax tune --json, got "
            f"{str(file)!r}, which cannot be read as one."
        ) from None
    return HyperParams(**dict(map(parse_setting, texts)))


def check_model(model: str) -> None:
    """Refuse a name that is not in `MODELS` and suggest the nearest."""
    if model not in MODELS:
        near = difflib.get_close_matches(model, MODELS, n=1, cutoff=0.0)[0]
        raise ValueError(
            f"--model must be {MODEL_NAMES}, got {model!r}; did you mean {near!r}?"
        )


def write_json_file(path: Path, value: Any) -> None:
    """Write the file of `--json`."""
    try:
        write_json(path, value)
    except OSError as error:
        refuse(
            f"--json must name a file that can be written, got {str(path)!r} "
            f"({error.strerror}); choose another folder."
        )


@contextlib.contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """A bar on standard error, nothing if that is not a terminal.

    Yields:
      A function of what is done, of how many, and a text.
    """
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(title, total=None, text="compiling ...")

        def show(done: int, total: int, text: str) -> None:
            bar.update(task, completed=done, total=total, text=text)

        yield show
