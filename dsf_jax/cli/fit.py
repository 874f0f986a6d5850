"""`dsf-jax fit` and `dsf-jax predict`: one trained model, and what it says of nodes."""

import csv
import io
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from dsf_jax.cli.run import DatasetOption, Epochs, Patience, Seed, SplitKind
from dsf_jax.cli.shared import (
    check_changes,
    chosen_settings,
    load_dataset,
    one_line_errors,
    print_next,
    progress_bar,
    show_positions,
    start_anew_if_large,
)
from dsf_jax.data.dataset import Dataset
from dsf_jax.engine.grid import Progress
from dsf_jax.experiments import fitting
from dsf_jax.models.zoo import MODELS
from dsf_jax.storage import write_whole


def fit(
    dataset: DatasetOption,
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The model, as for evaluate.",
            autocompletion=lambda: list(MODELS),
        ),
    ] = "dsf-gpr-r",
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="File for the trained model.")
    ] = Path("own.msgpack"),
    split_kind: SplitKind = None,
    origin: Annotated[
        str | None,
        typer.Option("--settings", metavar="FILE", help="As for evaluate."),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Change a setting; repeat."),
    ] = None,
    seed: Seed = 0,
    epochs: Epochs = 1000,
    patience: Patience = 100,
) -> None:
    """Train a model once and save it, for predictions and pictures.

    The epoch with the best validation score counts. Nodes without a label take
    part in the graph, and `dsf-jax predict` labels them.
    """
    with one_line_errors():
        _check_folder(out)
        check_changes(changes or [], [model])
        rule = split_kind or "stratified"
        chosen = chosen_settings(dataset, model, rule, changes or [], origin)
        data = load_dataset(dataset)
        start_anew_if_large(data)
        with progress_bar(f"{data.name} {model}") as show:

            def on_progress(progress: Progress) -> None:
                show(progress.epochs, epochs, "epochs")

            fitted = fitting.fit(
                data,
                model,
                chosen.hparams,
                split_kind=split_kind,
                seed=seed,
                epochs=epochs,
                patience=patience,
                on_progress=on_progress,
                on_positions=show_positions(show),
            )
        fitting.save(out, fitted)
    scores = fitted.scores
    test = "" if scores["test"] != scores["test"] else f", test {scores['test']:.2f} %"
    typer.echo(
        f"{data.name}, {model}: {data.metric.replace('_', '-')} of validation "
        f"{scores['val']:.2f} %{test}, {scores['epochs']:.0f} epochs; saved in {out}"
    )
    typer.echo(f"settings: {chosen.source}")
    given = ("--dataset", dataset, "--params", str(out))
    print_next("predict", *given, "--out", "predictions.csv")
    if MODELS[model].has_filters:
        print_next("explain", *given, "--out", "filters")


def predict(
    dataset: DatasetOption,
    params: Annotated[
        Path, typer.Option(metavar="FILE", help="What `dsf-jax fit` saved.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="File for the table, as CSV.")
    ] = Path("predictions.csv"),
) -> None:
    """Write the class of every node, and the probability of each class.

    Columns: node, class (both as in your files), and p_CLASS for every class.
    """
    with one_line_errors():
        _check_folder(out)
        if not params.is_file():
            raise ValueError(f"--params must be a file, got {str(params)!r}.")
        data = load_dataset(dataset)
        found = fitting.predict(fitting.load(params, data))
        write_whole(out, _as_csv(data, found).encode("utf-8"))
    names = _class_names(data)
    console = Console(highlight=False, markup=False)
    table = Table("class", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("nodes", "of them unlabelled"):
        table.add_column(title, justify="right")
    for number, name in enumerate(names):
        of_class = found.classes == number
        unknown = int((of_class & (data.labels < 0)).sum())
        table.add_row(name, f"{int(of_class.sum()):,}", f"{unknown:,}")
    console.print(table)
    typer.echo(f"{len(found.classes)} nodes in {out}")


def _as_csv(dataset: Dataset, found: fitting.Prediction) -> str:
    text, names = io.StringIO(), _class_names(dataset)
    count = len(found.classes)
    nodes = range(count) if dataset.node_names is None else dataset.node_names.tolist()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["node", "class", *(f"p_{name}" for name in names)])
    for node, number, row in zip(
        nodes, found.classes, found.probabilities, strict=True
    ):
        table.writerow([node, names[number], *(f"{value:.6g}" for value in row)])
    return text.getvalue()


def _class_names(dataset: Dataset) -> list[str]:
    if dataset.class_names is None:
        return list(map(str, range(dataset.num_classes)))
    return dataset.class_names.tolist()


def _check_folder(out: Path) -> None:
    """Refuse a file that cannot be written before any work."""
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise ValueError(
            f"--out must be a file in a folder that exists, got {str(out)!r}; make the "
            "folder or choose another."
        )
