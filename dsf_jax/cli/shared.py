"""What the commands share: one line for a mistake, files, progress bars."""

import contextlib
import difflib
import json
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import typer
import typer.core
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)

from dsf_jax.data import catalog
from dsf_jax.data.dataset import Dataset
from dsf_jax.data.own import own_name, read_dataset
from dsf_jax.engine.process import use_huge_pages
from dsf_jax.experiments.presets import Preset, default_settings, preset, published
from dsf_jax.models.settings import (
    HyperParams,
    check_settings,
    list_fields,
    parse_setting,
    restrict,
    settings_from_json,
)
from dsf_jax.models.zoo import MODELS
from dsf_jax.storage import check_place, to_json, write_json

MODEL_NAMES = (
    "gpr, bern, jacobi, dsf-{gpr,bern,jacobi}-{i,r}, an ablation "
    "...-r-no-{ipe,lgwd,orth}, or a baseline: gcn, gat, cheb, appnp, gnn-lf, gnn-hf, "
    "fagcn, pa-gnn"
)

LARGE = 5_000  # nodes from which huge pages win back the three seconds of a new start


def refuse(message: str) -> NoReturn:
    """A user's mistake: one line on standard error, exit status 2."""
    typer.echo(f"dsf-jax: {' '.join(message.split())}", err=True)
    raise typer.Exit(2)


class Commands(typer.core.TyperGroup):
    """Commands whose wrong options are one line, as other mistakes are."""

    def make_context(
        self, info_name: str | None, args: list[str], *rest: Any, **more: Any
    ) -> Any:
        """Read what stands before the name of a command; nothing at all is help."""
        with _plain_usage() if args else contextlib.nullcontext():
            return super().make_context(info_name, args, *rest, **more)

    def invoke(self, ctx: Any) -> Any:
        """Read the options of a command and run it."""
        with _plain_usage():
            return super().invoke(ctx)


# the base of what Typer raises for wrong options; click's, or a copy within Typer
_UsageError: Any = typer.BadParameter.__base__


@contextlib.contextmanager
def _plain_usage() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        path = "dsf-jax" if error.ctx is None else error.ctx.command_path
        refuse(f"{error.format_message().rstrip('.')}; see {path} --help.")


def at_least(least: int, meaning: str, **options: Any) -> Any:
    """An option that is a whole number; a smaller one is refused in one line."""

    def check(context: Any, param: Any, value: int | None) -> int | None:
        if value is not None and value < least:
            refuse(f"--{param.name} must be at least {least}, got {value}.")
        return value

    return typer.Option(metavar=f"N>={least}", help=meaning, callback=check, **options)


@contextlib.contextmanager
def one_line_errors(after_stop: str = "nothing was written") -> Iterator[None]:
    """What the library refuses, as one line; Ctrl-C as one line and status 130.

    `after_stop` says how to go on after Ctrl-C.
    """
    try:
        yield
    except (ValueError, TypeError, OSError) as error:
        refuse(str(error))
    except KeyboardInterrupt:
        typer.echo(f"dsf-jax: stopped by Ctrl-C; {after_stop}.", err=True)
        raise typer.Exit(130) from None


def load_dataset(name: str) -> Dataset:
    """What `--dataset` names: a known data set, or the path of your own graph."""
    check_dataset_option(name)
    return catalog.load_dataset(name) if is_known(name) else read_dataset(name)


def start_anew_if_large(dataset: Dataset) -> None:
    """Before training on a large graph: the same command again, with huge pages."""
    program = Path(sys.argv[0])
    is_own_process = "dsf-jax" in program.name or program.parent.name == "dsf_jax"
    if is_own_process and dataset.graph.num_nodes >= LARGE:
        use_huge_pages()


def is_known(name: str) -> bool:
    """Whether `--dataset` names a data set of the catalog; `./texas` is a path."""
    return name in catalog.DATASETS


def check_dataset_option(name: str) -> None:
    """Refuse what is neither a name nor a path, before any work."""
    if is_known(name) or Path(name).exists():
        return
    near = difflib.get_close_matches(name.lower(), catalog.DATASETS, n=1, cutoff=0.0)
    raise ValueError(
        f"--dataset must be a name of dsf-jax datasets or the path of your own graph "
        f"(docs/own_graph.md), got {name!r}; did you mean {near[0]!r}?"
    )


def chosen_settings(
    dataset: str,
    model: str,
    split_kind: str,
    changes: list[str],
    origin: str | None = None,
) -> Preset:
    """Settings of a model and the user's changes of what it reads.

    `origin` is the name of a file, or `published`; without it, the best there are.
    """
    check_dataset_option(dataset)
    check_model(model)
    if origin is None and not is_known(dataset):
        found = Preset(default_settings(model), "defaults of the library")
    elif origin is None:
        found = preset(dataset, model, split_kind)
    elif origin == "published":
        found = _published_settings(dataset, model)
    else:
        read = _read_settings(Path(origin), dataset, model)
        stored = restrict(read, MODELS[model].reads)
        found = Preset(stored, f"from {Path(origin).name}")
    if not changes:
        return found
    reads = MODELS[model].reads
    own = [text for text in changes if parse_setting(text)[0] in reads]
    values = dict(map(parse_setting, own))
    source = f"{found.source}; changed: {', '.join(own) or 'nothing that it reads'}"
    return Preset(found.hparams._replace(**values), source)


def check_changes(changes: list[str], models: list[str]) -> None:
    """Refuse a `--set` of a field that none of the models reads."""
    for model in models:
        check_model(model)
    reads = frozenset().union(*(MODELS[model].reads for model in models))
    for text in changes:
        field, _ = parse_setting(text)
        if field not in reads:
            raise ValueError(
                f"--set must name a setting that {' or '.join(models)} reads, got "
                f"{text!r}; choose one of {list_fields(reads)}."
            )


def _published_settings(dataset: str, model: str) -> Preset:
    found = published(dataset, model)
    if found is None:
        raise ValueError(
            f"--settings published must name a data set and a model with published "
            f"settings, got {dataset!r} and {model!r}; leave --settings out for the "
            "best that dsf-jax has."
        )
    return found


def _read_settings(file: Path, dataset: str, model: str) -> HyperParams:
    """Settings that `dsf-jax tune --json` or `evaluate --json` wrote.

    Those of another data set or model are refused; an ablation takes the full model's.
    """
    try:
        record = json.loads(file.read_text())
        settings = settings_from_json(record["settings"])
        given = {name: record.get(name) for name in ("dataset", "model")}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise ValueError(
            "--settings must be published or a file of dsf-jax tune --json, got "
            f"{str(file)!r}, which cannot be read as one."
        ) from None
    name = dataset if is_known(dataset) else own_name(Path(dataset))
    full, wanted = model.partition("-no-")[0], {"dataset": name, "model": model}
    for key, value in given.items():
        if value not in (None, wanted[key], full if key == "model" else None):
            raise ValueError(
                f"--settings must be of --{key} {wanted[key]}, got {str(file)!r} of "
                f"{value!r}; use --set for values of your choice."
            )
    check_settings(settings)
    return settings


def check_model(model: str) -> None:
    """Refuse a name that is not in `MODELS` and suggest the nearest."""
    if model not in MODELS:
        near = difflib.get_close_matches(model.lower(), MODELS, n=1, cutoff=0.0)[0]
        raise ValueError(
            f"--model must be {MODEL_NAMES}, got {model!r}; did you mean {near!r}?"
        )


def print_next(*words: str) -> None:
    """A command to go on with, ready to be pasted."""
    typer.echo(f"next: dsf-jax {shlex.join(words)}")


def goes_to_output(json_file: Path | None) -> bool:
    """Whether `--json -` sends the result to standard output."""
    return json_file is not None and str(json_file) == "-"


def check_json_file(path: Path | None) -> None:
    """Refuse a file of `--json` that cannot be written, before any work."""
    if path is None or goes_to_output(path):
        return
    try:
        check_place(path)
    except OSError as error:
        raise _bad_json_file(path, error) from error


def write_json_file(path: Path | None, value: Any) -> None:
    """Write the file of `--json`, if one is named; `-` is standard output."""
    if goes_to_output(path):
        typer.echo(to_json(value))
    elif path is not None:
        try:
            write_json(path, value)
        except OSError as error:
            refuse(str(_bad_json_file(path, error)))


def _bad_json_file(path: Path, error: OSError) -> ValueError:
    return ValueError(
        f"--json must name a file that can be written, got {str(path)!r} "
        f"({error.strerror}); choose another place, or - for standard output."
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


def show_positions(
    show: Callable[[int, int, str], None],
) -> Callable[[float], None]:
    """Progress of positional features on a bar, in percent."""

    def on_positions(share: float) -> None:
        is_done = share >= 1
        show(round(100 * share), 100, "compiling ..." if is_done else "% of positions")

    return on_positions
