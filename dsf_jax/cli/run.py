"""`dsf-jax evaluate` and `dsf-jax tune`: options -> library calls -> a table."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from dsf_jax.cli.shared import (
    MODEL_NAMES,
    at_least,
    check_changes,
    check_json_file,
    check_model,
    chosen_settings,
    goes_to_output,
    is_known,
    load_dataset,
    one_line_errors,
    print_next,
    progress_bar,
    refuse,
    show_positions,
    start_anew_if_large,
    write_json_file,
)
from dsf_jax.data.catalog import DATASETS
from dsf_jax.data.dataset import Dataset
from dsf_jax.data.own import own_name
from dsf_jax.data.splits import SPLIT_KINDS
from dsf_jax.engine.grid import Progress, free_memory, lane_bytes
from dsf_jax.experiments.evaluation import evaluate as run_evaluation
from dsf_jax.experiments.evaluation import finite_scores
from dsf_jax.experiments.intervals import METHODS, interval, paired_difference
from dsf_jax.experiments.presets import Preset
from dsf_jax.experiments.spaces import space_of
from dsf_jax.models.zoo import MODELS

DEFAULT_MODELS = ("gpr", "dsf-gpr-r")

DatasetOption = Annotated[
    str,
    typer.Option(
        "--dataset",
        metavar="NAME",
        help="One of `dsf-jax datasets`, or the path of your own graph.",
        autocompletion=lambda: list(DATASETS),
    ),
]
SplitKind = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help=f"Rule of the splits: {', '.join(SPLIT_KINDS)}.",
        autocompletion=lambda: list(SPLIT_KINDS),
        show_default="stratified; fixed if your own graph has masks",
    ),
]
_EPOCHS, _PATIENCE = 1000, 100
_EPOCHS_HELP = "Most updates of a run."
_PATIENCE_HELP = "Epochs without a better validation score before a stop."
Epochs = Annotated[int, at_least(1, _EPOCHS_HELP)]
Patience = Annotated[int, at_least(0, _PATIENCE_HELP)]
Lanes = Annotated[
    str,
    typer.Option(
        metavar="N",
        help="Runs side by side, or auto: as in the file that goes on, else by a rule.",
    ),
]
Mixed = Annotated[
    bool,
    typer.Option(
        "--mixed",
        help="Go on with a file that was begun with another precision, version, "
        "number of devices or lanes.",
    ),
]
Seed = Annotated[int, at_least(0, "Of splits and runs.")]
JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Write the result as JSON, too; with - to standard output, and the rest "
        "to standard error.",
    ),
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
    splits: Annotated[
        int | None,
        at_least(1, "Number of splits.", show_default="10; all if fewer are fixed"),
    ] = None,
    seeds: Annotated[int, at_least(1, "Runs on each split.")] = 10,
    split_kind: SplitKind = None,
    epochs: Annotated[
        int | None,
        at_least(1, _EPOCHS_HELP, show_default="1000; 200 on regions"),
    ] = None,
    patience: Annotated[
        int | None,
        at_least(0, _PATIENCE_HELP, show_default="100; 50 on regions"),
    ] = None,
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
    mixed: Mixed = False,
    json_file: JsonFile = None,
) -> None:
    """Train and test on splits x seeds; mean and 95 % interval.

    Without options: GPR-GNN against DSF-GPR-R on the generated graph `regions`,
    where one filter for all nodes must fail. Settings are tuned or published ones
    where there are any, and the table says which.
    """
    resume = "add --journal FILE to keep finished runs"
    if journal is not None:
        resume = f"the same command goes on from {journal}"
    with one_line_errors(resume):
        names = model or list(DEFAULT_MODELS)
        check_json_file(json_file)
        check_changes(changes or [], names)
        chosen = [
            chosen_settings(
                dataset, name, split_kind or "stratified", changes or [], origin
            )
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
        start_anew_if_large(loaded)
        split_kind = split_kind or loaded.split_kind
        is_default = loaded.name == "regions"
        num_splits = splits or _usual_splits(loaded, split_kind, 10)
        most_lanes = min(_parse_lanes(lanes) or jax.device_count(), num_splits * seeds)
        for name in names:
            _say_if_too_large(loaded, name, most_lanes)
        records = [
            _evaluate_one(
                loaded,
                name,
                settings,
                num_splits=num_splits,
                num_seeds=seeds,
                split_kind=split_kind,
                seed=seed,
                epochs=epochs or (200 if is_default else _EPOCHS),
                patience=(50 if is_default else _PATIENCE)
                if patience is None
                else patience,
                lanes=_parse_lanes(lanes),
                spread=spread,
                journal=journal,
                mixed=mixed,
            )
            for name, settings in zip(names, chosen, strict=True)
        ]
    records = [_with_interval(record, interval_method) for record in records]
    _print_records(records, loaded, goes_to_output(json_file))
    write_json_file(json_file, records[0] if len(records) == 1 else records)
    if not all(record["num_finite"] for record in records):
        raise typer.Exit(1)


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
    trials: Annotated[int, at_least(1, "Finished trials to reach.")] = 200,
    storage: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The study; a file that exists is resumed. By default "
            "DATASET-MODEL.study in this folder.",
        ),
    ] = None,
    splits: Annotated[
        int | None,
        at_least(1, "Splits per trial.", show_default="3; all if fewer are fixed"),
    ] = None,
    split_kind: SplitKind = None,
    epochs: Epochs = _EPOCHS,
    patience: Patience = _PATIENCE,
    lanes: Lanes = "auto",
    seed: Seed = 0,
    mixed: Mixed = False,
    json_file: JsonFile = None,
) -> None:
    """Search for settings by their mean validation score; survives a kill."""
    try:
        import optuna

        from dsf_jax.experiments import search
    except ModuleNotFoundError:
        refuse("tune needs Optuna; install it with: pip install 'dsf-jax[tune]'")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    name = dataset if is_known(dataset) else own_name(Path(dataset))
    storage = storage or Path(f"{name}-{model}.study")
    resume = f"the same command goes on from {storage}"
    with one_line_errors(resume), progress_bar(f"{dataset} {model}") as show:
        check_model(model)
        check_json_file(json_file)
        loaded = load_dataset(dataset)
        start_anew_if_large(loaded)
        split_kind = split_kind or loaded.split_kind

        def on_progress(progress: search.TuneProgress) -> None:
            done = progress.num_done + progress.finals_done
            total = progress.num_trials + progress.num_finals
            show(done, total, progress.status)

        found = search.tune(
            loaded,
            model,
            num_trials=trials,
            storage=storage,
            num_splits=splits or _usual_splits(loaded, split_kind, 3),
            split_kind=split_kind,
            seed=seed,
            epochs=epochs,
            patience=patience,
            lanes=_parse_lanes(lanes),
            mixed=mixed,
            on_progress=on_progress,
            on_positions=show_positions(show),
        )
    console = Console(highlight=False, stderr=goes_to_output(json_file))
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
    write_json_file(json_file, found)
    if json_file is not None and not goes_to_output(json_file):
        print_next(
            *("evaluate", "--dataset", dataset, "--model", model),
            *("--settings", str(json_file)),
        )


def _usual_splits(dataset: Dataset, kind: str, most: int) -> int:
    """As many splits as usual, or those that came with the data."""
    given = getattr(dataset, kind, None)
    return most if given is None else min(most, len(given.train))


def _parse_lanes(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdigit() or int(text) < 1:
        raise ValueError(
            f"--lanes must be auto or a whole number above 0, got {text!r}."
        )
    return int(text)


def _say_if_too_large(dataset: Dataset, name: str, lanes: int) -> None:
    """A line before any work: an estimate may be wrong, so it does not end here."""
    model, (num_nodes, num_features) = MODELS[name], dataset.features.shape
    needed = lanes * lane_bytes(num_nodes, num_features, model=model)
    free = free_memory()
    if needed > free:
        fewer = "take --lanes 1, or " if lanes > 1 else ""
        typer.echo(
            f"dsf-jax: {name} on {dataset.name} may not fit: {num_nodes:,} nodes, "
            f"order {model.order}, lanes {lanes} need about {needed / 1e9:.2g} GB, and "
            f"{free / 1e9:.2g} GB are free; {fewer}share the nodes out over devices "
            "with dsf_jax.fit(..., num_parts=N) (docs/scale.md).",
            err=True,
        )


def _evaluate_one(
    dataset: Dataset, model: str, settings: Preset, **options: Any
) -> dict[str, Any]:
    with progress_bar(f"{dataset.name} {model}") as show:
        record = run_evaluation(
            dataset,
            model,
            settings.hparams,
            on_progress=_shown(show),
            on_positions=show_positions(show),
            **options,
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


def _mean_text(record: dict[str, Any]) -> str:
    if record["num_finite"] == 0:
        return "diverged"
    mean = f"{record['mean']:.2f}"
    return f"{mean} ± {record['ci95']:.2f}" if np.isfinite(record["ci95"]) else mean


def _spread_text(record: dict[str, Any]) -> str:
    found = np.asarray(record["spread"])[np.isfinite(record["spread"])]
    return f"{np.median(found):.2g}" if len(found) else "-"


def _failure_text(record: dict[str, Any]) -> str:
    """What the number of a record does not say; empty if there is nothing."""
    name, finite, runs = record["model"], record["num_finite"], np.size(record["test"])
    notes = []
    if finite < runs:
        share = "all runs" if finite == 0 else f"{runs - finite} of {runs} runs"
        notes += [f"{share} diverged (a loss or an output that is no finite number)"]
        notes += ["use smaller learning rates" if finite == 0 else "they do not count"]
    if finite > 0 and not np.isfinite(record["ci95"]):
        unit = "split" if record["interval"] == "clustered" else "run"
        notes += [f"one {unit} has no interval; more --{unit}s give one"]
    text = f"{name}: {'; '.join(notes)}." if notes else ""
    return text.replace("--runs", "--splits or --seeds")


def _print_records(
    records: list[dict[str, Any]], dataset: Dataset, to_errors: bool
) -> None:
    console = Console(highlight=False, markup=False, stderr=to_errors)
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
            _mean_text(record),
            f"{record['num_finite']}" + (f"/{runs}" * (record["num_finite"] < runs)),
            f"{record['seconds']:.1f}",
            f"{record['compile_seconds']:.1f}",
            f"{record['lanes']}, {record['occupancy']:.0%}",
            *([_spread_text(record)] if has_spread else []),
        )
    console.print(f"{dataset.name}: {records[0]['splits']}", soft_wrap=True)
    console.print(table)
    method = records[0]["interval"]
    if any(np.isfinite(record["ci95"]) for record in records):
        console.print(f"± is half of the 95 % interval of the mean ({method}).")
    for note in filter(None, map(_failure_text, records)):
        console.print(note, soft_wrap=True)
    if has_spread:
        console.print(
            "spread: how much the filters of the nodes differ, in % of the shared "
            "one, median of the runs; below 1 all nodes filter alike.",
            soft_wrap=True,
        )
    for record in records[1:]:
        scores = finite_scores(record), finite_scores(records[0])
        gain = paired_difference(*scores, method)
        if gain.num_runs == 0:
            continue
        half = f" ± {gain.half:.2f}" if np.isfinite(gain.half) else " (no interval)"
        console.print(
            f"{record['model']} - {records[0]['model']}: {gain.mean:+z.2f}{half}, run "
            "by run on the same splits and seeds",
            soft_wrap=True,
        )
    for record in records:
        source = record["settings_source"]
        console.print(f"settings of {record['model']}: {source}", soft_wrap=True)
    if dataset.note:
        console.print(dataset.note, soft_wrap=True)
    if dataset.name == "regions" and not to_errors:
        print_next("evaluate", "--dataset", "texas", "--model", "dsf-gpr-r")
        print_next("datasets")
