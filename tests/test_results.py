"""The records of Table 2, the page that is rendered from them, and the script."""

import csv
import functools
import importlib
import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from dsf_jax import MODELS, Graph, HyperParams, interval, make_splits, regions
from dsf_jax.experiments.evaluation import dataset_inputs
from dsf_jax.experiments.presets import settings_from_json
from dsf_jax.models.settings import settings_to_json
from dsf_jax.storage import digest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def load(monkeypatch):
    """Import a module of the benchmarks."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


def read(name):
    file = ROOT / "benchmarks" / "results" / name
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def test_page_figures_and_tables_are_those_of_the_records(load):
    files = load("table2").rendered()
    assert len(files) == 6
    for name, text in files.items():
        committed = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert committed == text, f"{name}: python benchmarks/table2.py --render"


def test_no_cell_is_recorded_twice():
    fields = ("dataset", "model", "split_kind", "scaling")
    keys = [tuple(row.get(field) for field in fields) for row in RECORDS]
    assert len(set(keys)) == len(keys)


RECORDS = read("table2.jsonl")


@pytest.mark.parametrize(
    "row", RECORDS, ids=lambda row: f"{row['dataset']}-{row['model']}"
)
def test_a_record_holds_all_runs_and_its_own_summary(row):
    assert np.shape(row["test"]) == (row["num_splits"], row["num_seeds"])
    assert row["num_splits"] == 10
    assert (row["epochs"], row["patience"]) == (1000, 100)
    scores = np.where(row["is_finite"], row["test"], np.nan)
    ours = interval(scores)
    np.testing.assert_allclose((row["mean"], row["ci95"]), (ours.mean, ours.half), 1e-4)
    settings_from_json(row["settings"])
    assert row["settings_source"]


def make_record(dataset, model, test, **more):
    test = np.asarray(test, dtype=float)
    ours = interval(test)
    return {
        "dataset": dataset,
        "model": model,
        "split_kind": "stratified",
        "mean": ours.mean,
        "ci95": ours.half,
        "test": test.tolist(),
        "is_finite": np.ones(test.shape, dtype=bool).tolist(),
        "num_finite": test.size,
        "settings_source": "150 trials, some day",
        **more,
    }


def test_marks_say_what_is_separated(load):
    page = load("results_page")
    noise = np.random.default_rng(0).normal(0, 1, size=(10, 10))
    records = [
        make_record("texas", "gpr", 80 + noise),
        make_record("texas", "dsf-gpr-r", 85 + noise),
        make_record("texas", "bern", 80 + noise),
        make_record("texas", "dsf-bern-r", 79.9 + noise),
        make_record("texas", "jacobi", 90 + noise),
        make_record("texas", "dsf-jacobi-r", 86 + noise),
    ]
    paper = [
        {**make_record("texas", "gpr", 70 + noise), "ci95": 0.5},
        {**make_record("texas", "dsf-gpr-r", 85.1 + noise), "ci95": 0.5},
        {**make_record("texas", "bern", 90 + noise), "ci95": 0.5},
    ]
    text = page.render(records, paper)
    for what in ("splits", "runs"):
        assert (
            f"intervals over {what} 1 of 3 cells agree with the paper, 1 are above and "
            "1 below" in text
        )
    assert "| JacobiConv | **90.1** |" in text
    assert "| BernNet | 80.1 `-` `-` |" in text
    assert "+10.00 `+` `+`" in text
    assert "-0.10 `=` `=`" in text
    assert "-10.00 `-` `-`" in text
    assert "| DSF-GPR-R over GPR-GNN | Texas | **+5.00 ± 0.00** | **+15.10** |" in text
    assert "| DSF-Bern-R over BernNet | Texas | -0.10 ± 0.00 |  |" in text
    assert (
        "DSF-GPR-R beats GPR-GNN with separated intervals on 1 of 1 graphs (Texas), "
        "and loses on 0." in text
    )
    assert "BernNet with separated intervals on 0 of 1 graphs, and loses on 0." in text
    assert "on 0 of 1 graphs, and loses on 1 (Texas)." in text
    best = records[-1]["mean"], records[-2]["mean"]
    assert f"DSF-Jacobi-R ({best[0]:.2f}); above it: JacobiConv ({best[1]:.2f}" in text


def small_table(load):
    """GPR-GNN and DSF-GPR-R on Texas: rows, and what the paper would print."""
    noise = np.random.default_rng(0).normal(0, 1, size=(10, 10))
    shift = np.linspace(-1, 1, 10)[:, None]
    records = [
        make_record("texas", "gpr", 80 + noise),
        make_record("texas", "dsf-gpr-r", 85 + shift + noise, spread=[[2.0], [4.0]]),
    ]
    paper = [
        {**make_record("texas", "gpr", 70 + noise), "mean": 70.0, "ci95": 0.5},
        {**make_record("texas", "dsf-gpr-r", 76 + noise), "mean": 76.0, "ci95": 0.5},
    ]
    rows = load("results_rows")
    return rows, rows.by_key(records), rows.by_key(paper)


def test_the_rows_of_the_csv_hold_gains_and_differences(load):
    rows, ours, theirs = small_table(load)
    half = 2.262157 * np.std(np.linspace(-1, 1, 10), ddof=1) / 10**0.5
    (gain,) = csv.DictReader(rows.to_csv(rows.gains(ours, theirs)).splitlines())
    numbers = [float(gain[key]) for key in ("gain", "low", "high", "paper_gain")]
    np.testing.assert_allclose(numbers, [5, 5 - half, 5 + half, 6], atol=1e-4)
    assert (gain["graph"], gain["base"], float(gain["spread"])) == ("texas", "gpr", 3)
    cells = list(csv.DictReader(rows.to_csv(rows.cells(ours, theirs)).splitlines()))
    assert [cell["model"] for cell in cells] == ["gpr", "dsf-gpr-r"]
    for cell, mean in zip(cells, (70, 76), strict=True):
        difference = float(cell["mean"]) - mean
        np.testing.assert_allclose(float(cell["difference"]), difference, atol=2e-4)
        assert (cell["mark_over_splits"], cell["finite_runs"]) == ("+", "100")


def test_the_forest_places_gains_on_its_axis(load):
    rows, ours, theirs = small_table(load)
    picture = ElementTree.fromstring(
        load("results_figures").forest(rows.gains(ours, theirs))
    )
    svg = "{http://www.w3.org/2000/svg}"
    (group,) = picture.iter(f"{svg}g")
    assert group.find(f"{svg}title").text.startswith("DSF-GPR-R, Texas: +5.00 (+4.52")
    ticks = {
        text.text: float(text.get("x"))
        for text in picture.iter(f"{svg}text")
        if text.text in ("0", "+4", "+6")
    }
    per_point = (ticks["+4"] - ticks["0"]) / 4
    dot = float(group.find(f"{svg}circle").get("cx"))
    np.testing.assert_allclose(dot, ticks["0"] + 5 * per_point, atol=0.2)
    line = group.find(f"{svg}line")
    ends = float(line.get("x1")), float(line.get("x2"))
    np.testing.assert_allclose(np.mean(ends), dot, atol=0.2)
    assert f"M{ticks['+6'] - 5.5:.1f} " in group.find(f"{svg}path").get("d")


def test_the_heat_map_frames_what_splits_do_not_explain(load):
    rows, ours, theirs = small_table(load)
    near = ours["texas", "gpr", "stratified"]["mean"] + 0.1
    theirs["texas", "gpr", "stratified"]["mean"] = near
    theirs["photo", "gpr", "stratified"] = {"mean": 90.0, "ci95": 1.0}  # not run
    text = load("results_figures").heat_map(rows.cells(ours, theirs), theirs)
    assert text.count('class="edge"') == 1
    assert text.count('class="none"') == 2
    assert ">-0.1</text>" in text
    assert '<rect x="105" y="109"' in text.partition('class="edge"')[0]


def test_means_on_other_splits_may_differ_more(load):
    """Runs of a split are alike, splits are not: the fair mark is wider."""
    page, formats = load("results_page"), load("results_format")
    by_split = np.random.default_rng(0).normal(0, 3, size=(10, 1))
    by_split = by_split - by_split.mean()
    noise = np.random.default_rng(1).normal(0, 0.1, size=(10, 10))
    record = make_record("texas", "gpr", 80 + by_split + noise)
    w = 2.262157 * np.std((by_split + noise).mean(axis=1), ddof=1) / 10**0.5
    np.testing.assert_allclose(formats.half_over_splits(record), w, rtol=1e-5)
    for gap, mark in (
        (1.3 * w, "`=` `-`"),
        (1.5 * w, "`-` `-`"),
        (-1.5 * w, "`+` `+`"),
    ):
        paper = {**record, "mean": record["mean"] + gap, "ci95": 0.1}
        text = page.render([record], [paper])
        assert f"| GPR-GNN | **{record['mean']:.1f}** {mark} |" in text


def test_spreads_stand_beside_the_gains(load):
    page = load("results_page")
    base = np.full((10, 2), 80.0)
    spread = np.linspace(0.001, 20, 10)[:, None].tolist()
    more = {"spread": spread, "saturated": [[50.0]] * 10}
    records = [
        make_record("texas", "gpr", base),
        make_record("texas", "dsf-gpr-r", base + 1),
        make_record("texas", "dsf-gpr-i", base + 1, **more),
    ]
    again = [make_record("texas", "dsf-gpr-r", base[:, :1], **more)]
    text = page.render(records, [], spreads=again)
    for variant in "RI":
        start = f"| DSF-GPR-{variant} over GPR-GNN | Texas | **+1.00 ± 0.00** |  |"
        assert f"{start} 10 (0.001 to 20) | 50 |" in text


def test_validation_chooses_the_scaling_of_a_column(load):
    page = load("results_page")
    base = np.full((10, 2), 70.0)
    records = [
        make_record("chameleon", "gcn", base - 9, val=base.tolist()),
        make_record("chameleon", "gpr", base, val=(base + 3).tolist()),
        make_record(
            "chameleon", "gpr", base - 1, val=(base + 4).tolist(), scaling="raw"
        ),
        make_record(
            "chameleon", "dsf-gpr-r", base + 2, val=base.tolist(), scaling="raw"
        ),
    ]
    paper = [
        {**make_record("chameleon", "gpr", base), "ci95": 1.0},
        {**make_record("chameleon", "dsf-gpr-r", base + 2.5), "ci95": 1.0},
    ]
    text = page.render(records, paper)
    assert "that have both (1) chooses *as in the file* for this column" in text
    assert "73.00 % rows by their sums, 74.00 % as in the file" in text
    assert "|  | **+3.00 ± 0.00** | +2.50 |" in text
    assert "| GPR-GNN | 69.0 `-`" in text  # the overview has the chosen one
    rows = [{**row, "val": (base + 9).tolist()} for row in records[:2]]
    text = page.render(rows + records[2:], paper)
    assert "| GPR-GNN | **70.0** `=`" in text
    text = page.render(records[2:], paper)
    assert "Only features as in the file have been run so far." in text
    text = page.render([*records[:1], *records[2:]], paper)
    assert "No model has been run with both so far." in text


def test_bases_as_published_are_compared_with_tuned_ones(load):
    page = load("results_page")
    base = np.full((10, 2), 80.0)
    records = [
        make_record("texas", "gpr", base + 3),
        make_record("texas", "dsf-gpr-r", base + 4),
    ]
    paper = [
        {**make_record("texas", "gpr", base), "ci95": 1.0},
        {**make_record("texas", "dsf-gpr-r", base + 3.5), "ci95": 1.0},
    ]
    published = [
        make_record("texas", "gpr", base, rule="dsf", origin="published"),
        make_record("texas", "gpr", base + 1, rule="own", origin="published"),
    ]
    text = page.render(records, paper, published=published)
    gains = "**+4.00 ± 0.00** | **+3.00 ± 0.00** | **+1.00 ± 0.00** | +3.50 |"
    assert "| GPR-GNN, Texas | 80.00 ± 0.00 | 81.00 ± 0.00 | 83.00 ± 0.00 |" in text
    assert gains in text
    assert "+4.0 points over its base as published, +3.0 with the base's own" in text
    assert (
        "and +1.0 over its base tuned as long as itself; the paper prints +3.5" in text
    )


def test_the_split_of_the_authors_has_its_table(load):
    page = load("results_page")
    scores = np.full((1, 50), 70.0) + np.arange(50) / 50
    more = {"split_kind": "authors", "rule": "dsf"}
    published = [
        make_record("chameleon", "gpr", scores, origin="published", **more),
        make_record("chameleon", "gpr", scores + 3, origin="shipped", **more),
        make_record("chameleon", "dsf-gpr-r", scores + 4, origin="shipped", **more),
    ]
    text = page.render([], [], published=published)
    assert "| DSF-GPR-R | tuned | 74.49 ± 0.08 |  | +1.00 | +4.00 |  |" in text


def test_gains_with_fewer_seeds_compare_the_same_runs(load):
    page = load("results_page")
    base = np.arange(100.0).reshape(10, 10) / 10
    records = [
        make_record("cora", "gpr", base),
        make_record("cora", "dsf-gpr-r", base[:, :1] + 2),
    ]
    assert "| DSF-GPR-R over GPR-GNN | Cora | +2.00 ± 0.00 |" in page.render(
        records, []
    )


def test_choices_are_compared_with_what_the_authors_ran(load):
    page, as_run = load("results_page"), load("results_rows").AS_RUN
    base = np.random.default_rng(0).normal(80, 1, size=(10, 2))
    rows = [
        make_record("texas", "dsf-gpr-r", base, text=as_run),
        make_record("texas", "dsf-gpr-r", base - 7, text="another way"),
    ]
    text = page.render([], [], rows)
    assert f"| DSF-GPR-R, Texas: another way | {rows[1]['mean']:.2f} ± " in text
    assert (
        f"| {rows[0]['mean']:.2f} ± {rows[0]['ci95']:.2f} | **-7.00 ± 0.00** |" in text
    )


def test_choices_with_other_settings_are_compared_with_table_2(load):
    """And with its first seeds only: the mark is not that of all its runs."""
    page, as_run = load("results_page"), load("results_rows").AS_RUN
    base = np.random.default_rng(0).normal(80, 5, size=(10, 10))
    published = {"settings_source": "published: somewhere"}
    rows = [
        make_record("texas", "gpr", base[:, :2] + 9, text=as_run, **published),
        make_record("texas", "gpr", base[:, :2] + 8, text="this way", **published),
        make_record("texas", "gpr", base[:, :2] + 3.8, text="that way"),
    ]
    table2 = make_record("texas", "gpr", base)
    assert page.is_separated(rows[2], table2)
    assert "that way" not in page.render([], [], rows)  # nothing to compare with
    lines = page.render([table2], [], rows).splitlines()
    (this,) = [line for line in lines if "this way (published settings) |" in line]
    assert this.endswith("| -1.00 ± 0.00 |")
    (that,) = [line for line in lines if "that way |" in line]
    first = interval(base[:, :2])
    assert that.endswith(f"| {first.mean:.2f} ± {first.half:.2f} | +3.80 ± 0.00 |")


def test_every_cell_of_the_plan_is_named_once_and_can_begin(load):
    table2 = load("table2")
    keys = [cell.key for cell in table2.CELLS]
    assert len(set(keys)) == len(keys)
    for cell in table2.CELLS:
        if cell.like:
            assert cell._replace(model=cell.like).key in keys


def test_a_source_names_what_was_searched(load):
    table2 = load("table2")
    whole = table2.Cell("texas", "gpr", trials=150)
    assert table2._source(whole, "a day") == "150 trials on 3 stratified splits, a day"
    (part, *_) = [cell for cell in table2.CELLS if cell.only]
    source = "as dsf-gpr-r; eta2 by 10 trials on 1 stratified split, a day"
    assert table2._source(part, "a day") == source


def test_a_torn_last_record_does_not_stop_the_page(load, tmp_path, monkeypatch):
    table2 = load("table2")
    monkeypatch.setattr(table2, "DOCS", tmp_path)
    monkeypatch.setattr(table2, "RECORDS", tmp_path / "table2.jsonl")
    content = (ROOT / "benchmarks" / "results" / "table2.jsonl").read_bytes()
    table2.RECORDS.write_bytes(content + content[:4096])
    with pytest.warns(UserWarning, match=rf"line {len(RECORDS) + 1}.* is torn"):
        table2.write_results()
    for name in ("results.md", "results/table2.csv", "figures/gains.svg"):
        assert (tmp_path / name).read_bytes() == (ROOT / "docs" / name).read_bytes()
    table2.append_row(table2.RECORDS, RECORDS[0])
    assert table2.read_rows(table2.RECORDS) == [*RECORDS, RECORDS[0]]


@pytest.mark.slow
def test_a_cell_is_searched_run_recorded_and_then_skipped(load, tmp_path, monkeypatch):
    table2 = load("table2")
    for name in (
        *("TUNED", "RECORDS", "CHOICES", "PUBLISHED", "SPREADS"),
        *("UNFINISHED", "DOCS"),
    ):
        monkeypatch.setattr(table2, name, tmp_path / name.lower())
    monkeypatch.setattr(table2, "load_dataset", lambda name, scaling: regions(60))
    monkeypatch.setattr(table2, "use_whole_computer", lambda: None)
    cell = table2.Cell("regions", "gpr", trials=3, search_splits=1, seeds=1)
    monkeypatch.setattr(table2, "CELLS", (cell,))
    monkeypatch.setattr("sys.argv", ["table2.py"])
    table2.main()
    (row,) = table2.read_rows(table2.RECORDS)
    (found,) = table2.read_rows(table2.TUNED)
    assert row["settings"] == found["settings"]
    assert len(found["vals"]) == 3
    assert row["split_digest"] == digest(*make_splits(regions(60), num_splits=10))
    assert list(table2.UNFINISHED.iterdir()) == []
    assert settings_to_json(HyperParams()).keys() == row["settings"].keys()
    written = table2.RECORDS.read_text()
    table2.main()
    assert table2.RECORDS.read_text() == written


def test_the_page_of_the_study_is_that_of_its_records(load):
    study = load("local_weights")
    files = (study.RECORDS, study.MEASURES)
    page = study.render(*map(study.read_rows, files))
    assert (ROOT / "docs" / "local-weights.md").read_text(encoding="utf-8") == page


def test_the_study_counts_what_validation_chose(load):
    study = load("local_weights_page")

    def row(val, gain):
        test = 50 + gain + np.arange(10)[:, None] * np.ones((1, 2))
        noise = np.tile(np.linspace(0, 0.1, 10)[:, None], 2)
        return {"test": test + noise, "val": [[val]], "is_finite": np.ones((10, 2))}

    case = study.Case
    found = {
        case("texas", "gpr"): row(50, 0),
        case("texas", "dsf-gpr-residual"): row(60, -3),  # chosen, and loses
        case("texas", "dsf-gpr-mixture"): row(55, 3),
        case("cora", "bern"): row(50, 0),
        case("cora", "dsf-bern-content"): row(50, 2),
        case("citeseer", "bern"): row(50, 0),
    }
    text = " ".join(study._count(found).split())
    assert text.startswith("Of 2 pairs")
    assert "on 1: cora (BernNet). It loses on 1: texas (GPR-GNN). Neither: 0." in text


def test_controls_change_one_thing(load):
    study, dataset = load("local_weights"), regions(60)
    model, settings = MODELS["dsf-gpr-residual"], HyperParams(f_p=4)
    size = dataset.features.shape[1]
    features, base, _ = study.features(dataset, model, settings)
    assert features.features.shape == (60, size + 2 + 4 + 4)
    assert base == MODELS["gpr"]
    _, wide, _ = study.wide(dataset, model, settings)
    extra = 67 * 16 + 11 * 17  # of the code and its heads
    assert abs((wide.hidden - 64) * (size + 1 + 2) - extra) <= size + 3
    own, mixed = (
        dataset_inputs(dataset, m).columns
        for m in (model, study.shuffled(dataset, model, settings)[1])
    )
    assert not np.array_equal(own, mixed)
    np.testing.assert_array_equal(np.sort(own, axis=0), np.sort(mixed, axis=0))


def test_test_nodes_are_told_apart_by_their_twins(load, monkeypatch, tmp_path):
    """Both parts have the scores of one run: with their sizes, the score of all."""
    study, star = load("local_weights"), [(0, node) for node in range(1, 30)]
    ring = [(node, node + 1) for node in range(30, 59)]
    graph = Graph.from_edges([*star, *ring], num_nodes=60)
    labels = np.arange(60) % 2
    dataset = regions(60)._replace(graph=graph, labels=labels, name="stars")
    monkeypatch.setattr(study, "_load", lambda name: dataset)
    monkeypatch.setattr(study, "settings_of", lambda case: HyperParams())
    monkeypatch.setattr(study, "RECORDS", tmp_path / "records.jsonl")
    monkeypatch.setattr(study, "UNFINISHED", tmp_path)
    few = {"num_splits": 10, "epochs": 5, "lanes": 2}
    monkeypatch.setattr(study, "evaluate", functools.partial(study.evaluate, **few))
    masks, splits = study._test_masks("stars"), make_splits(dataset)
    for split in range(10):
        for node in np.flatnonzero(splits.test[split]):
            others = np.flatnonzero(splits.train[split])
            near = {node: set(graph.to_scipy()[[node]].indices) for node in range(60)}
            is_twin = any(near[node] == near[other] for other in others)
            assert masks["twin"][split, node] == is_twin
            assert masks["lone"][split, node] == (not is_twin)
    for part in ("", "twin", "lone"):
        study.run_case(study.Case("stars", "gpr", part))
    whole, twin, lone = study.read_rows(study.RECORDS)
    sizes = [masks[part].sum(axis=1, keepdims=True) for part in ("twin", "lone")]
    correct = sizes[0] * np.asarray(twin["test"]) + sizes[1] * np.asarray(lone["test"])
    np.testing.assert_allclose(correct / sum(sizes), whole["test"], rtol=1e-5)
    assert twin["num_test"] + lone["num_test"] == splits.test.sum()


def test_gains_stand_beside_what_is_known_of_the_graph(load):
    page, rng = load("local_weights_page"), np.random.default_rng(0)
    found, known = {}, {}
    for place, dataset in enumerate(page.DATASETS):
        scores = 50 + rng.normal(size=(10, 2))
        finite = {"is_finite": np.ones((10, 2)), "val": scores}
        found[page.Case(dataset, "gpr")] = {"test": scores} | finite
        own = scores + place**2  # larger gains where the spread is larger
        found[page.Case(dataset, "dsf-gpr-residual")] = {"test": own} | finite
        rest = dict.fromkeys(("unlike", "twins", "nodes"), place % 3)
        known[dataset] = {"spread": place / 10, "chance": -place} | rest
    *_, last = page._pays_table(found, known).splitlines()
    assert last.split(" | ")[1:3] == ["+1.00", "-1.00"]
