"""`dsf-jax evaluate` and `dsf-jax tune`: options -> library calls -> a table."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from dsf_jax.cli.shared import (
    MODEL_NAMES,
    check_model,
    chosen_settings,
    one_line_errors,
    progress_bar,
    refuse,
    write_json_file,
)
from dsf_jax.data.catalog import DATASETS, load_dataset
from dsf_jax.data.dataset import Dataset
from dsf_jax.data.splits import SPLIT_KINDS
from dsf_jax.engine.grid import Progress
from dsf_jax.experiments.evaluation import evaluate as run_evaluation
from dsf_jax.experiments.evaluation import finite_scores
from dsf_jax.experiments.intervals import METHODS, interval, paired_difference
from dsf_jax.experiments.presets import Preset
from dsf_jax.experiments.spaces import space_of
from dsf_jax.models.settings import MODELS

DEFAULT_MODELS = ("gpr", "dsf-gpr-r")

DatasetOption = Annotated[
    str,
    typer.Option(
        "--dataset",
        metavar="NAME",
        help="One of `dsf-jax datasets`.",
        autocompletion=lambda: list(DATASETS),
    ),
]
SplitKind = Annotated[
    str,
    typer.Option(
        metavar="KIND",
        help=f"Rule of the splits: {', '.join(SPLIT_KINDS)}.",
        autocompletion=lambda: list(SPLIT_KINDS),
    ),
]
Epochs = Annotated[int | None, typer.Option(min=1, help="Most updates of a run.")]
Patience = Annotated[
    int | None,
    typer.Option(min=0, help="Epochs without a better validation score before a stop."),
]
Lanes = Annotated[
    str, typer.Option(metavar="N", help="Runs side by side, or auto: by a rule.")
]
Seed = Annotated[int, typer.Option(min=0, help="Of splits and runs.")]
JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Write the result as JSON, too."),
]


def evaluate(
    dataset: DatasetOption = "regions",
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help=f"A model; give it again for several: {MODEL_NAMES}.",
            autocompletion=lambda: list(MODELS),
        ),
    ] = None,
    splits: Annotated[int, typer.Option(min=1, help="Number of splits.")] = 10,
    seeds: Annotated[int, typer.Option(min=1, help="Runs on each split.")] = 10,
    split_kind: SplitKind = "stratified",
    epochs: Epochs = None,
    patience: Patience = None,
    lanes: Lanes = "auto",
    seed: Seed = 0,
    origin: Annotated[
        str | None,
        typer.Option(
            "--settings",
            metavar="FILE",
            help="Settings that `tune --json` wrote, or `published` for those of the "
            "authors.",
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="Change a setting, e.g. eta1=0.5; give it again for several.",
        ),
    ] = None,
    interval_method: Annotated[
        str,
        typer.Option(
            "--interval",
            metavar="METHOD",
            help="Of the 95 % interval: student-t or bootstrap over the runs, or "
            "clustered, which takes each split as one observation.",
            autocompletion=lambda: list(METHODS),
        ),
    ] = "student-t",
    spread: Annotated[
        bool,
        typer.Option(
            "--spread",
            help="Report how much the filters of the nodes differ, too.",
        ),
    ] = False,
    journal: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep finished runs here; the same command then goes on from them.",
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Train and test on splits x seeds; mean and 95 % interval.

    Without options: GPR-GNN against DSF-GPR-R on the generated graph `regions`, where
    one filter for all nodes must fail. Settings are tuned or published ones where there
    are any, and the table says which.
    """
    with one_line_errors():
        names = model or list(DEFAULT_MODELS)
        chosen = [
            chosen_settings(dataset, name, split_kind, changes or [], origin)
            for name in names
        ]
        if interval_method not in METHODS:
            raise ValueError(
                f"--interval must be one of {', '.join(METHODS)}, got "
                f"{interval_method!r}."
            )
        if journal is not None and len(names) > 1:
            raise ValueError(
                f"--journal must go with a single --model, got {len(names)}; run them "
                "one by one."
            )
        loaded = load_dataset(dataset)
        is_default = loaded.name == "regions"
        records = [
            _evaluate_one(
                loaded,
                name,
                settings,
                num_splits=splits,
                num_seeds=seeds,
                split_kind=split_kind,
                seed=seed,
                epochs=epochs or (200 if is_default else 1000),
                patience=(50 if is_default else 100) if patience is None else patience,
                lanes=_parse_lanes(lanes),
                spread=spread,
                journal=journal,
            )
            for name, settings in zip(names, chosen, strict=True)
        ]
    records = [_with_interval(record, interval_method) for record in records]
    if json_file is not None:
        write_json_file(json_file, records[0] if len(records) == 1 else records)
    _print_records(records, loaded)


def tune(
    dataset: DatasetOption,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="NAME",
            help="The model.",
            autocompletion=lambda: list(MODELS),
        ),
    ],
    trials: Annotated[int, typer.Option(min=1, help="Finished trials to reach.")] = 200,
    storage: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The study; a file that exists is resumed. By default "
            "DATASET-MODEL.study in this folder.",
        ),
    ] = None,
    splits: Annotated[int, typer.Option(min=1, help="Splits per trial.")] = 3,
    split_kind: SplitKind = "stratified",
    epochs: Epochs = None,
    patience: Patience = None,
    lanes: Lanes = "auto",
    seed: Seed = 0,
    json_file: JsonFile = None,
) -> None:
    """Search for settings by their mean validation score; survives a kill."""
    try:
        import optuna

        from dsf_jax.experiments import search
    except ModuleNotFoundError:
        refuse("tune needs Optuna; install it with: pip install 'dsf-jax[tune]'")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with one_line_errors(), progress_bar(f"{dataset} {model}") as show:
        check_model(model)
        storage = storage or Path(f"{dataset}-{model}.study")

        def on_progress(progress: search.TuneProgress) -> None:
            done = progress.num_done + progress.finals_done
            total = progress.num_trials + progress.num_finals
            show(done, total, progress.status)

        found = search.tune(
            load_dataset(dataset),
            model,
            num_trials=trials,
            storage=storage,
            num_splits=splits,
            split_kind=split_kind,
            seed=seed,
            epochs=epochs or 1000,
            patience=100 if patience is None else patience,
            lanes=_parse_lanes(lanes),
            on_progress=on_progress,
        )
    console = Console(highlight=False)
    console.print(
        f"best of {found['trials']} trials on {dataset}, {model}: mean validation "
        f"score {found['val']:.2f} % on {found['final_splits']} splits"
    )
    for field in space_of(model):
        value = found["settings"][field]
        console.print(
            f"  {field}={value:.6g}"
            if isinstance(value, float)
            else f"  {field}={value}"
        )
    console.print(f"the study is in {storage}: with more --trials it goes on")
    if json_file is not None:
        write_json_file(json_file, found)
        console.print(f"next: dsf-jax evaluate ... --settings {json_file}")


def _parse_lanes(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdigit() or int(text) < 1:
        raise ValueError(
            f"--lanes must be auto or a whole number above 0, got {text!r}."
        )
    return int(text)


def _evaluate_one(
    dataset: Dataset, model: str, settings: Preset, **options: Any
) -> dict[str, Any]:
    with progress_bar(f"{dataset.name} {model}") as show:
        record = run_evaluation(
            dataset, model, settings.hparams, on_progress=_shown(show), **options
        )
    return record | {"settings_source": settings.source}


def _shown(show: Callable[[int, int, str], None]) -> Callable[[Progress], None]:
    def on_progress(progress: Progress) -> None:
        show(progress.num_done, progress.num_jobs, progress.status)

    return on_progress


def _with_interval(record: dict[str, Any], method: str) -> dict[str, Any]:
    found = interval(finite_scores(record), method)
    ends = {"ci95_low": found.low, "ci95_high": found.high}
    return record | {"interval": method, "ci95": found.half, **ends}


def _print_records(records: list[dict[str, Any]], dataset: Dataset) -> None:
    console = Console(highlight=False, markup=False)
    metric = {"accuracy": "accuracy", "roc_auc": "ROC-AUC"}[dataset.metric]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("model", no_wrap=True)
    has_spread = "spread" in records[0]
    titles = ["runs", "seconds", "compiling", "lanes busy"] + ["spread %"] * has_spread
    for title in (f"test {metric} %", *titles):
        table.add_column(title, justify="right", no_wrap=True)
    for record in records:
        runs = sum(map(len, record["test"]))
        table.add_row(
            record["model"],
            f"{record['mean']:.2f} ± {record['ci95']:.2f}",
            f"{record['num_finite']}" + (f"/{runs}" * (record["num_finite"] < runs)),
            f"{record['seconds']:.1f}",
            f"{record['compile_seconds']:.1f}",
            f"{record['lanes']}, {record['occupancy']:.0%}",
            *([f"{np.nanmedian(record['spread']):.2g}"] if has_spread else []),
        )
    console.print(f"{dataset.name}: {records[0]['splits']}", soft_wrap=True)
    console.print(table)
    method = records[0]["interval"]
    console.print(f"± is half of the 95 % interval of the mean ({method}).")
    if has_spread:
        console.print(
            "spread: how much the filters of the nodes differ, in % of the shared "
            "one, median of the runs; below 1 all nodes filter alike.",
            soft_wrap=True,
        )
    for record in records[1:]:
        scores = finite_scores(record), finite_scores(records[0])
        gain = paired_difference(*scores, method)
        console.print(
            f"{record['model']} - {records[0]['model']}: {gain.mean:+z.2f} ± "
            f"{gain.half:.2f}, run by run on the same splits and seeds",
            soft_wrap=True,
        )
    for record in records:
        source = record["settings_source"]
        console.print(f"settings of {record['model']}: {source}", soft_wrap=True)
    if dataset.note:
        console.print(dataset.note, soft_wrap=True)
    if dataset.name == "regions":
        console.print(
            "next: dsf-jax evaluate --dataset texas --model dsf-gpr-r, or dsf-jax "
            "datasets",
            soft_wrap=True,
        )
