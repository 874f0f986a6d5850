"""Table 2 of the paper: tune every model, run it on 10 splits x 10 seeds, keep all.

    python benchmarks/table2.py --datasets texas chameleon --models gpr dsf-gpr-r
    python benchmarks/table2.py --render

Works through `CELLS` in order, restricted to the data sets and models that are named.
A finished search appends its settings to `dsf_jax/experiments/tuned.jsonl`, a finished
evaluation one record to `results/table2.jsonl`; what is there already is skipped.
Searches and evaluations on their way keep journals in `results/unfinished`, so that a
run that is killed goes on where it was; where these are committed, on another computer,
too. `docs/results.md`, its figures and the tables as CSV are written anew after every
cell, or by `--render` alone.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import results_rows
from common import note, print_case, use_whole_computer
from results_figures import forest, heat_map
from results_format import by_key
from results_page import render

from dsf_jax.data.catalog import load_dataset
from dsf_jax.engine.grid import Progress
from dsf_jax.experiments.evaluation import evaluate
from dsf_jax.experiments.presets import preset, published
from dsf_jax.experiments.search import TuneProgress, tune
from dsf_jax.models.settings import HyperParams, restrict, settings_from_json
from dsf_jax.models.zoo import MODELS
from dsf_jax.storage import append_line, read_lines

ROOT = Path(__file__).parent.parent
TUNED = ROOT / "dsf_jax" / "experiments" / "tuned.jsonl"
RECORDS = ROOT / "benchmarks" / "results" / "table2.jsonl"
PAPER = ROOT / "benchmarks" / "results" / "paper.jsonl"
CHOICES = ROOT / "benchmarks" / "results" / "choices.jsonl"
PUBLISHED = ROOT / "benchmarks" / "results" / "published.jsonl"
SPREADS = ROOT / "benchmarks" / "results" / "spreads.jsonl"
UNFINISHED = ROOT / "benchmarks" / "results" / "unfinished"
DOCS = ROOT / "docs"

SMALL = ("texas", "wisconsin", "cornell")
CITATION = ("cora", "citeseer")
BASES = ("gpr", "bern", "jacobi")
R_MODELS = tuple(f"dsf-{base}-r" for base in BASES)
I_MODELS = tuple(f"dsf-{base}-i" for base in BASES)
BASELINES = ("gcn", "gat", "cheb", "appnp", "gnn-lf", "gnn-hf", "fagcn", "pa-gnn")


class Cell(NamedTuple):
    """One entry of the table."""

    dataset: str
    model: str
    trials: int = 0  # of a search; without one, the settings are those of `like`
    search_splits: int = 3
    like: str = ""  # model whose tuned settings are used; its own published ones if ""
    only: tuple[str, ...] = ()  # fields that a search refines, of those of `like`
    split_kind: str = "stratified"
    seeds: int = 10  # with 10 splits
    finalists: int | None = None  # of the search; its own choice if None
    scaling: str = ""  # of the features, where both are compared

    @property
    def name(self) -> str:
        """File name of what is unfinished."""
        parts = (self.dataset, self.model, self.split_kind, self.scaling)
        return "-".join(filter(None, parts))

    @property
    def key(self) -> tuple[str, ...]:
        """What tells its rows from those of other cells."""
        return self.dataset, self.model, self.split_kind, self.scaling


def search_size(dataset: str) -> tuple[int, int]:
    """Trials of a search, and splits of a trial."""
    return (150, 3) if dataset in SMALL else (60, 2)


def _refined(dataset: str, base: str) -> Cell:
    """Variant I with the settings of R and a search for η2 alone, as S costs N²."""
    return Cell(
        *(dataset, f"dsf-{base}-i"),
        trials=10,
        search_splits=1,
        like=f"dsf-{base}-r",
        only=("eta2",),
        seeds=1,
    )


ABLATIONS = tuple(f"dsf-gpr-r-no-{part}" for part in ("ipe", "lgwd", "orth"))
CELLS = (
    *(
        Cell(dataset, model, *search_size(dataset))
        if model not in I_MODELS
        else Cell(dataset, model, trials=50)
        for dataset in SMALL
        for model in BASES + R_MODELS + I_MODELS
    ),
    *(
        Cell("chameleon", model, *search_size("chameleon"))
        for model in BASES + R_MODELS
    ),
    Cell("chameleon", "dsf-gpr-i"),
    Cell("chameleon", "dsf-bern-i"),
    *(
        Cell(dataset, model, *search_size(dataset))
        for dataset in CITATION
        for model in BASES + R_MODELS
    ),
    *(
        Cell(dataset, model, like="dsf-gpr-r")
        for dataset in ("texas", "chameleon")
        for model in ABLATIONS
    ),
    *(
        Cell("cora", model, *search_size("cora"), split_kind="sparse")
        for model in ("gpr", "dsf-gpr-r")
    ),
    Cell("chameleon", "dsf-jacobi-i", seeds=1),
    *(_refined(dataset, "gpr") for dataset in CITATION),
    *(
        Cell(dataset, model, *search_size(dataset))
        for dataset in (*SMALL, *CITATION, "chameleon")
        for model in BASELINES
    ),
    *(_refined(dataset, base) for dataset in CITATION for base in ("bern", "jacobi")),
    *(
        Cell(dataset, model, 40, 2, finalists=8, seeds=seeds, scaling="raw")
        for dataset, seeds in (("chameleon", 10), ("squirrel", 5))
        for base in BASES
        for model in (base, f"dsf-{base}-r")
    ),
    *(
        Cell("squirrel", model, 40, 2, finalists=8, seeds=5)
        for base in BASES
        for model in (base, f"dsf-{base}-r")
    ),
)


def run_cell(cell: Cell) -> None:
    """Search if there is no result of one yet, evaluate, append the record."""
    dataset = load_dataset(cell.dataset, scaling=cell.scaling or "authors")
    UNFINISHED.mkdir(parents=True, exist_ok=True)
    scaling = {"scaling": cell.scaling} if cell.scaling else {}
    hparams, source = _settings(cell)
    if cell.trials and _find(TUNED, cell) is None:
        note(f"{cell.name}: {cell.trials} trials")
        space = {field: ("step", 0.1, 1.0, 0.1) for field in cell.only} or None
        storage = UNFINISHED / f"{cell.name}.study"
        found = tune(
            dataset,
            cell.model,
            num_trials=cell.trials,
            num_splits=cell.search_splits,
            split_kind=cell.split_kind,
            num_finalists=0 if cell.only else cell.finalists,
            storage=storage,
            base=hparams,
            space=space,
            on_progress=_every(20, _show_search),
        )
        source = _source(cell, found["date"])
        append_row(TUNED, found | {"source": source} | scaling)
        storage.unlink()
        hparams = _read_settings(cell, found)
    elif cell.trials:
        row = _find(TUNED, cell)
        assert row is not None
        hparams, source = _read_settings(cell, row), row["source"]
    note(f"{cell.name}: 10 splits x {cell.seeds} seeds")
    journal = UNFINISHED / f"{cell.name}.journal"
    record = evaluate(
        dataset,
        cell.model,
        hparams,
        num_seeds=cell.seeds,
        split_kind=cell.split_kind,
        spread=cell.model.startswith("dsf-"),
        journal=journal,
        on_progress=_every(20, _show_runs),
    )
    append_row(RECORDS, record | {"settings_source": source} | scaling)
    journal.unlink()
    print_case(
        **{key: record[key] for key in ("dataset", "model", "split_kind", "mean")},
        ci95=record["ci95"],
        seconds=record["seconds"],
    )


def _source(cell: Cell, date: str) -> str:
    """Where the settings that a search found are from."""
    fields = f"as {cell.like}; {', '.join(cell.only)} by " if cell.only else ""
    splits = f"{cell.search_splits} {cell.split_kind} split"
    plural = "s" if cell.search_splits > 1 else ""
    return f"{fields}{cell.trials} trials on {splits}{plural}, {date}"


def _settings(cell: Cell) -> tuple[HyperParams, str]:
    """Settings to begin with: those of the model that is named, or published ones."""
    if cell.like:
        row = _find(TUNED, cell._replace(model=cell.like))
        if row is None:
            raise SystemExit(f"{cell.name} needs {cell.like} on {cell.dataset} first")
        return _read_settings(cell, row), f"as {cell.like}: {row['source']}"
    found = preset(cell.dataset, cell.model)
    if cell.scaling:  # DSF has published settings for Chameleon only
        sources = (published(name, cell.model) for name in (cell.dataset, "chameleon"))
        found = next(preset for preset in sources if preset is not None)
    return found.hparams, found.source


def _read_settings(cell: Cell, row: dict[str, Any]) -> HyperParams:
    """Those of a row that the model of the cell reads; it may be of another model."""
    return restrict(settings_from_json(row["settings"]), MODELS[cell.model].reads)


def _find(file: Path, cell: Cell) -> dict[str, Any] | None:
    """The row of a cell, if it is finished."""
    for row in read_rows(file):
        if row_key(row) == cell.key:
            return row
    return None


def row_key(row: dict[str, Any]) -> tuple[str, ...]:
    """The `Cell.key` of a row."""
    return row["dataset"], row["model"], row["split_kind"], row.get("scaling", "")


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Rows of a file of JSON lines; none if it does not exist."""
    return read_lines(file) if file.exists() else []


def append_row(file: Path, row: dict[str, Any]) -> None:
    """One more line of a file of records; on disk when this returns."""
    append_line(file, row)


def _every(seconds: float, show: Callable[[Any], None]) -> Callable[[Any], None]:
    """A callback that shows only now and then."""
    last = -seconds

    def callback(progress: Any) -> None:
        nonlocal last
        now = progress.grid.seconds if hasattr(progress, "grid") else progress.seconds
        if now < last or now >= last + seconds:
            last = now
            show(progress)

    return callback


def _show_search(progress: TuneProgress) -> None:
    note(f"  {progress.status}")


def _show_runs(progress: Progress) -> None:
    note(f"  {progress.num_done}/{progress.num_jobs} runs, {progress.status}")


def rendered() -> dict[str, str]:
    """All that is made of the records: the text of each file by its place in `docs`."""
    files = (RECORDS, PAPER, CHOICES, PUBLISHED, SPREADS)
    records, paper, choices, published, spreads = map(read_rows, files)
    ours, theirs = results_rows.table_rows(records, spreads), by_key(paper)
    cells = results_rows.cells(ours, theirs)
    gains = results_rows.gains(ours, theirs)
    chosen = results_rows.choices(choices, ours)
    return {
        "results.md": render(records, paper, choices, published, spreads),
        "results/table2.csv": results_rows.to_csv(cells),
        "results/gains.csv": results_rows.to_csv(gains),
        "results/choices.csv": results_rows.to_csv(chosen),
        "figures/gains.svg": forest(gains),
        "figures/table2.svg": heat_map(cells, theirs),
    }


def write_results() -> None:
    """Render the records."""
    for name, text in rendered().items():
        file = DOCS / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def main() -> None:
    """Parse the arguments and work through the cells."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--models", nargs="+")
    parser.add_argument(
        "--render", action="store_true", help="only write page, figures and CSV"
    )
    arguments = parser.parse_args()
    if arguments.render:
        write_results()
        return
    use_whole_computer()
    for cell in CELLS:
        if arguments.datasets and cell.dataset not in arguments.datasets:
            continue
        if arguments.models and cell.model not in arguments.models:
            continue
        if _find(RECORDS, cell) is None:
            run_cell(cell)
            write_results()
            jax.clear_caches()


if __name__ == "__main__":
    main()
