"""`dsf-jax explain`: train or load a model, then write what its filters do."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from dsf_jax.cli.shared import chosen_settings, one_line_errors
from dsf_jax.data.catalog import DATASETS, load_dataset
from dsf_jax.data.dataset import Dataset
from dsf_jax.engine.grid import Progress
from dsf_jax.experiments.evaluation import dataset_inputs
from dsf_jax.experiments.fitting import fit
from dsf_jax.experiments.saved import Saved, load_params, save_params
from dsf_jax.explain.reading import METHODS, read_filters
from dsf_jax.models.params import Inputs
from dsf_jax.models.settings import MODELS, HyperParams, ModelConfig


def explain(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")],
    dataset: Annotated[
        str, typer.Option(autocompletion=lambda: list(DATASETS))
    ] = "regions",
    model: Annotated[
        str, typer.Option(autocompletion=lambda: list(MODELS))
    ] = "dsf-bern-r",
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
    seed: Annotated[int, typer.Option(help="Of the split, training and maps.")] = 0,
    epochs: Annotated[int, typer.Option(min=1)] = 1000,
    patience: Annotated[int, typer.Option(min=0)] = 100,
    hops: Annotated[int, typer.Option(min=1, help="Of local neighbourhoods.")] = 2,
    groups: Annotated[int, typer.Option(min=1, help="Representative filters.")] = 5,
    method: Annotated[
        str, typer.Option(help="Map of the weights: tsne, pca.")
    ] = "tsne",
    node: Annotated[int, typer.Option(help="Shown first on the page.")] = 0,
) -> None:
    """Train a model, or load one, and show its filters: figures and a page.

    Writes to DIR: curves, map, weights, homophily and frequency as PNG and SVG,
    index.html to explore, numbers.json, and params.msgpack for --params.
    """
    with one_line_errors():
        report = _import_report()
        hparams, _ = chosen_settings(
            dataset, model, "stratified", changes or [], origin
        )
        config = _model(model)
        if method not in METHODS:
            raise ValueError(
                f"--method must be one of {', '.join(METHODS)}, got {method!r}."
            )
        data = load_dataset(dataset)
        report.check_node(node, data.graph.num_nodes)
        out.mkdir(parents=True, exist_ok=True)
        inputs, saved = _obtain(
            data, config, hparams, params, seed=seed, epochs=epochs, patience=patience
        )
        if params is None:
            path = out / "params.msgpack"
            save_params(path, *saved[:2], data, config=config, scores=saved.scores)
        config, hparams = saved.config, saved.hparams
        filters = read_filters(saved.params, inputs, hparams, config=config)
        numbers = report.write_report(
            out,
            data,
            filters,
            config.backbone.basis(hparams),
            report.measure_locality(data, hops=hops),
            title=f"Filters of {_name_of(config, model)} on {dataset}",
            scores=saved.scores,
            count=groups,
            method=method,
            node=node,
            seed=seed,
        )
    typer.echo(json.dumps(numbers, indent=1, ensure_ascii=False))
    if not numbers["is_diverse"] and config.variant != "base":
        warning = report.warn_of_spread(numbers["curve_spread"])
        hint = "docs/results.md lists models and graphs with a larger spread."
        typer.echo(f"warning: {warning} {hint}", err=True)
    typer.echo(f"open {out / 'index.html'}")


def _obtain(
    data: Dataset,
    config: ModelConfig,
    hparams: HyperParams,
    path: Path | None,
    **protocol: Any,
) -> tuple[Inputs, Saved]:
    """Saved parameters, or those of a new run."""
    if path is not None:
        if not path.is_file():
            raise ValueError(f"--params must be a file, got {str(path)!r}.")
        saved = load_params(path, data)
        return dataset_inputs(data, saved.config), saved
    inputs = dataset_inputs(data, config)
    errors = Console(stderr=True)
    with errors.status("train") as status:

        def report(progress: Progress) -> None:
            status.update(f"train: epoch {progress.epochs}")

        model = fit(
            data, inputs, hparams, config=config, on_progress=report, **protocol
        )
    scores = {"val": model.val, "test": model.test, "epochs": float(model.epochs)}
    return inputs, Saved(model.params, hparams, config, scores)


def _model(name: str) -> ModelConfig:
    config = MODELS[name]
    if not isinstance(config, ModelConfig):
        raise ValueError(
            f"--model must learn the filter that is to be explained, got {name!r}; "
            "choose gpr, bern, jacobi or a DSF model."
        )
    return config


def _name_of(config: ModelConfig, default: str) -> str:
    return next((name for name, item in MODELS.items() if item == config), default)


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
