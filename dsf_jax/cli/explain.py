"""`dsf-jax explain`: train or load a model, then write what its filters do."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from dsf_jax.cli.run import DatasetOption, Epochs, Patience
from dsf_jax.cli.shared import (
    at_least,
    check_changes,
    check_dataset_option,
    chosen_settings,
    load_dataset,
    one_line_errors,
)
from dsf_jax.data.dataset import Dataset
from dsf_jax.engine.grid import Progress
from dsf_jax.experiments.fitting import Fitted, fit, load, save
from dsf_jax.explain.reading import METHODS, node_filters
from dsf_jax.explain.summary import describe_graph, describe_model, warn_of_spread
from dsf_jax.models.local import Shared
from dsf_jax.models.settings import HyperParams
from dsf_jax.models.spectral import Diverse
from dsf_jax.models.zoo import MODELS, name_of
from dsf_jax.storage import check_place

DEFAULT_MODEL = "dsf-bern-r"
MOST_GROUPS = 20


def explain(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")],
    dataset: DatasetOption = "regions",
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=lambda: list(MODELS),
            show_default=f"{DEFAULT_MODEL}, or that of --params",
        ),
    ] = None,
    params: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Use saved parameters instead of training."),
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option(
            "--settings", metavar="FILE", help="As for evaluate, or `published`."
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A hyper-parameter; repeat."),
    ] = None,
    seed: Annotated[int, at_least(0, "Of the split, training and maps.")] = 0,
    epochs: Epochs = 1000,
    patience: Patience = 100,
    hops: Annotated[int, at_least(1, "Of local neighbourhoods.")] = 2,
    groups: Annotated[
        int, typer.Option(help=f"Representative filters, at most {MOST_GROUPS}.")
    ] = 5,
    method: Annotated[
        str, typer.Option(help="Map of the weights: tsne, pca.")
    ] = "tsne",
    node: Annotated[int, typer.Option(help="Shown first on the page.")] = 0,
) -> None:
    """Train a model, or load one, and show its filters: figures and a page.

    Writes to DIR: curves, map, weights, homophily and frequency as PNG, SVG and
    PDF, index.html to explore, numbers.json, and params.msgpack for --params.
    """
    with one_line_errors():
        report = _import_report()
        if params is not None and (changes or origin):
            raise ValueError(
                "--set and --settings must be left out with --params, got both; saved "
                "parameters bring their settings."
            )
        check_dataset_option(dataset)
        name = model or DEFAULT_MODEL
        check_changes(changes or [], [name])
        hparams, _ = chosen_settings(dataset, name, "stratified", changes or [], origin)
        chosen = _spectral(name)
        if not 1 <= groups <= MOST_GROUPS:
            raise ValueError(
                f"--groups must be between 1 and {MOST_GROUPS}, got {groups}; more "
                "curves cannot be told apart."
            )
        if method not in METHODS:
            raise ValueError(
                f"--method must be one of {', '.join(METHODS)}, got {method!r}."
            )
        data = load_dataset(dataset)
        report.check_node(node, data.graph.num_nodes)
        _check_out(out)
        limits = {"seed": seed, "epochs": epochs, "patience": patience}
        fitted = _obtain(data, chosen, hparams, params, **limits)
        if model is not None and fitted.model != chosen:
            raise ValueError(
                f"--params must be of --model {model}, got {str(params)!r} of "
                f"{name_of(fitted.model)}; leave --model out."
            )
        if params is None:
            save(out / "params.msgpack", fitted)
        filters = node_filters(fitted)
        loaded = fitted.model
        assert isinstance(loaded, Diverse)  # `node_filters` refuses others
        numbers = report.write_report(
            out,
            data,
            filters,
            loaded.basis(fitted.params, fitted.inputs, fitted.hparams),
            report.measure_locality(data, hops=hops),
            title=f"Filters of {name_of(loaded)} on {data.name}",
            scores=fitted.scores,
            count=groups,
            method=method,
            node=node,
            seed=seed,
        )
    _print_numbers(numbers)
    if not numbers["is_diverse"] and not isinstance(loaded.local, Shared):
        warning = warn_of_spread(numbers["curve_spread"])
        hint = "docs/results.md lists models and graphs with a larger spread."
        typer.echo(f"warning: {warning} {hint}", err=True)
    typer.echo(f"open {out / 'index.html'}: a page that explains each of them")


def _print_numbers(numbers: dict[str, Any]) -> None:
    """What numbers.json holds, in words; the page has their meanings."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("quantity", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    for quantity in (*describe_model(numbers), *describe_graph(numbers)):
        table.add_row(quantity.name, quantity.value)
    Console(highlight=False, markup=False).print(table)


def _check_out(folder: Path) -> None:
    """Make the folder, and refuse it now if files cannot be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("params.msgpack", "index.html", "numbers.json"):
            check_place(folder / name)
    except OSError as error:
        raise ValueError(
            f"--out must be a folder that can be written, got {str(folder)!r} "
            f"({error.strerror}); choose another place."
        ) from error


def _obtain(
    data: Dataset,
    model: Diverse,
    hparams: HyperParams,
    path: Path | None,
    **protocol: Any,
) -> Fitted:
    """Saved parameters, or those of a new run."""
    if path is not None:
        if not path.is_file():
            raise ValueError(f"--params must be a file, got {str(path)!r}.")
        return load(path, data)
    errors = Console(stderr=True)
    with errors.status("train") as status:

        def report(progress: Progress) -> None:
            status.update(f"train: epoch {progress.epochs}")

        def report_positions(share: float) -> None:
            status.update(f"positions: {share:.0%}")

        return fit(
            data,
            model,
            hparams,
            on_progress=report,
            on_positions=report_positions,
            **protocol,
        )


def _spectral(name: str) -> Diverse:
    model = MODELS[name]
    if not isinstance(model, Diverse):
        raise ValueError(
            f"--model must learn the filter that is to be explained, got {name!r}; "
            "choose gpr, bern, jacobi or a DSF model."
        )
    return model


def _import_report() -> Any:
    """Figures and maps need packages that are not installed by default."""
    try:
        import igraph
        import plotly
        import sklearn

        from dsf_jax.explain import report
    except ModuleNotFoundError as error:
        raise ValueError(
            f"explain needs the package {error.name!r}, which is not installed; run "
            'python -m pip install "dsf-jax[explain]".'
        ) from error
    del igraph, plotly, sklearn
    return report
