"""The command line: tables that fit, JSON, and one line for a user's mistake."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from dsf_jax import DATASETS, MODELS, regions
from dsf_jax.cli import run as cli_run
from dsf_jax.cli.main import app
from dsf_jax.data import files
from dsf_jax.engine.grid import lane_bytes
from dsf_jax.experiments import search
from tests.test_catalog import BINARY, REAL

KEYS = [
    "name",
    "nodes",
    "edges",
    "features",
    "classes",
    "homophily",
    "class_homophily",
    "metric",
    "present",
]


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.mark.slow
@pytest.mark.data
def test_datasets_counts_the_real_graphs(tmp_path):
    names = ["texas", "squirrel", "cornell", "tolokers", "regions"]
    result = run("datasets", *names, "--json", tmp_path / "rows.json")
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "…" not in result.stdout
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["name"] for row in rows] == names
    assert all(list(row) == KEYS and row["present"] for row in rows)
    for row in rows[:-1]:
        num_nodes, num_edges, num_features, class_sizes = REAL[row["name"]]
        counts = [row[key] for key in KEYS[1:5]]
        assert counts == [num_nodes, num_edges, num_features, len(class_sizes)]
        assert row["metric"] == ("roc_auc" if row["name"] in BINARY else "accuracy")
    assert "cornell-fixed is the corrected graph" in " ".join(result.stdout.split())
    assert "198,353" in result.stdout


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(files.DATA_VARIABLE, str(tmp_path / "with spaces"))
    return tmp_path / "with spaces"


def test_missing_files_are_listed_and_not_downloaded(empty_folder, tmp_path):
    result = run("datasets", "--json", tmp_path / "rows.json")
    assert result.exit_code == 0
    assert "17 not in" in result.stdout
    assert str(empty_folder).replace(" ", "") in "".join(result.stdout.split())
    assert not empty_folder.exists()
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["name"] for row in rows if row["present"]] == [
        *("regions", "csbm"),
    ]
    texas = rows[DATASETS.index("texas")]
    assert [texas[key] for key in KEYS[1:6]] == [183, 279, 1703, 5, None]
    assert "198,353" in result.stdout


def test_named_data_sets_only(empty_folder):
    result = run("datasets", "regions")
    assert result.exit_code == 0
    assert "1,745" in result.stdout
    assert "texas" not in result.stdout


def test_damaged_file_is_named_and_the_others_are_listed(empty_folder):
    folder = empty_folder / "actor"
    folder.mkdir(parents=True)
    (folder / "actor.npz").write_bytes(b"damaged")
    result = run("datasets", "actor", "regions")
    assert result.exit_code == 0
    assert "actor.npz must have SHA-256" in result.stderr
    assert "1,745" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["datasets", "camel"], "did you mean 'chameleon'?"),
        (["datasets", "regions", "--json", "/no/such/folder/x"], "--json must name"),
    ],
)
def test_mistakes_are_one_line_and_status_2(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "Traceback" not in result.output


BASELINES = ("gat", "fagcn", "pa-gnn")  # dropout of edges, depth, a penalty
FEW = ("--splits", 2, "--seeds", 2, "--epochs", 3, "--lanes", 2)


@pytest.fixture
def small_regions(monkeypatch):
    """The default graph, but quick."""
    monkeypatch.setattr(cli_run, "load_dataset", lambda name: regions(60))


def test_evaluate_without_options_compares_two_models(small_regions, tmp_path):
    out = tmp_path / "records.json"
    result = run("evaluate", *FEW, "--json", out)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "regions: 2 splits: 36 train, 12 val, 12 test"
    assert lines[1].split()[:2] == ["model", "test"]
    for line, name in zip(lines[2:4], ("gpr", "dsf-gpr-r"), strict=True):
        assert line.startswith(name)
        assert "±" in line
        assert len(line) <= 80
    assert "interval of the mean (student-t)" in result.stdout
    assert "dsf-gpr-r - gpr: " in result.stdout
    assert "tuned by dsf-jax" in result.stdout
    assert "next: dsf-jax evaluate --dataset texas" in result.stdout
    records = json.loads(out.read_text())
    assert [record["model"] for record in records] == ["gpr", "dsf-gpr-r"]


@pytest.mark.parametrize(("lanes", "way"), [(1, "share"), (2, "take --lanes 1, or")])
def test_evaluate_says_beforehand_what_will_not_fit(
    lanes, way, small_regions, monkeypatch
):
    def stop(*args, **options):
        raise ValueError("no work in this test")

    monkeypatch.setattr(cli_run, "_evaluate_one", stop)
    arguments = ("evaluate", "--model", "dsf-gpr-r", "--lanes", lanes)
    quiet = run(*arguments)
    assert quiet.stderr.splitlines() == ["dsf-jax: no work in this test"]
    needed = lanes * lane_bytes(60, 16, model=MODELS["dsf-gpr-r"])
    monkeypatch.setattr(cli_run, "free_memory", lambda: needed - 1)
    line, _ = run(*arguments).stderr.splitlines()
    assert line.startswith("dsf-jax: dsf-gpr-r on regions may not fit: 60 nodes")
    assert f"{way}" in line
    assert "num_parts=N" in line


def test_evaluate_takes_settings_of_a_file_and_another_interval(
    small_regions, tmp_path
):
    out, found = tmp_path / "record.json", tmp_path / "found.json"
    settings = {"lr": 0.03, "pos_kind": "lap", "sole": True, "f_p": 8}
    found.write_text(json.dumps({"settings": settings}))
    options = ("--settings", found, "--interval", "clustered", "--json", out)
    result = run("evaluate", "--model", "gpr", *options, "--set", "lr=0.05", *FEW)
    assert result.exit_code == 0, result.output
    assert "interval of the mean (clustered)" in result.stdout
    assert "from found.json; changed: lr=0.05" in result.stdout
    record = json.loads(out.read_text())
    assert record["settings"]["lr"] == 0.05
    assert record["settings"]["pos_kind"] == "rw"  # not read by GPR-GNN: left as it is
    means = np.mean(record["test"], axis=1)  # of two splits: t = 12.706, n = 2
    half = 12.7062 * np.std(means, ddof=1) / np.sqrt(2)
    np.testing.assert_allclose(record["ci95"], half, rtol=1e-4, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("model", BASELINES)
def test_baselines_train(small_regions, tmp_path, model):
    out = tmp_path / "record.json"
    drops = [
        name for name in ("x", "h", "edge") if f"dropout_{name}" in MODELS[model].reads
    ]
    options = [f"--set=dropout_{place}=0" for place in drops]
    options += ["--set=lr=0.03", "--epochs", 60, "--patience", 60, "--json", out]
    result = run("evaluate", "--model", model, *FEW, *options)
    assert result.exit_code == 0, result.output
    record = json.loads(out.read_text())
    assert record["num_finite"] == 4
    assert record["model"] == model
    assert np.max(record["train_loss"]) < 0.8 * np.log(2)  # log 2: two classes, a guess


def test_evaluate_reports_the_spread(small_regions, tmp_path):
    out = tmp_path / "record.json"
    result = run("evaluate", "--model", "dsf-gpr-r", "--spread", *FEW, "--json", out)
    assert result.exit_code == 0, result.output
    spreads = np.asarray(json.loads(out.read_text())["spread"])
    assert "spread %" in result.stdout
    assert f"{np.median(spreads):.2g}" in result.stdout.splitlines()[2]
    result = run("evaluate", "--model", "gcn", "--spread", *FEW)
    assert result.exit_code == 2
    assert "spread must be False for 'gcn', got True" in result.stderr


def test_evaluate_writes_the_record_of_a_single_model(small_regions, tmp_path):
    out = tmp_path / "record.json"
    settings = ("--set", "lr=0.2", "--set", "gamma_init=nppr")
    result = run("evaluate", "--model", "gpr", *settings, *FEW, "--json", out)
    assert result.exit_code == 0, result.output
    record = json.loads(out.read_text())
    contract = (
        *("dataset", "model", "metric", "mean", "ci95", "test", "val", "best_epoch"),
        *("epochs_run", "seconds", "compile_seconds", "lanes", "occupancy"),
    )
    assert set(contract) <= set(record)
    assert len(record["test"]) == 2
    assert len(record["test"][0]) == 2
    assert 0 <= record["mean"] <= 100
    assert record["settings"]["lr"] == 0.2
    assert record["settings"]["gamma_init"] == "nppr"
    assert "changed: lr=0.2" in record["settings_source"]


@pytest.mark.parametrize("command", ["evaluate", "tune"])
def test_the_place_of_json_is_checked_before_training(command, tmp_path, monkeypatch):
    monkeypatch.setattr(cli_run, "load_dataset", pytest.fail)
    out = tmp_path / "missing" / "record.json"
    result = run(command, "--dataset", "regions", "--model", "gpr", "--json", out)
    assert result.exit_code == 2
    assert "--json must name a file that can be written" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_table_is_printed_though_its_file_cannot_be_written(
    small_regions, tmp_path, monkeypatch
):
    def fails(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dsf_jax.storage.write_whole", fails)
    out = tmp_path / "record.json"
    result = run("evaluate", "--model", "gpr", *FEW, "--json", out)
    assert result.exit_code == 2
    assert "settings of gpr" in result.stdout
    assert "(No space left on device)" in result.stderr


ONE = ("--splits", 1, "--seeds", 1, "--epochs", 2, "--lanes", 1)


def test_runs_that_diverge_and_single_runs_say_so(small_regions):
    result = run("evaluate", "--model", "gpr", *ONE, "--set", "lr=1e300")
    assert result.exit_code == 1
    assert "gpr: all runs diverged" in result.stdout
    assert "smaller learning rates" in result.stdout
    assert "±" not in result.stdout
    result = run("evaluate", "--model", "gpr", *ONE)
    assert result.exit_code == 0
    assert "gpr: one run has no interval; more --splits or --seeds" in result.stdout
    assert "nan" not in result.stdout


def test_json_on_standard_output_is_alone_there(small_regions):
    result = run("evaluate", "--model", "gpr", *FEW, "--json", "-")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["model"] == "gpr"
    assert "settings of gpr" in result.stderr
    result = run("datasets", "regions", "--json", "-")
    assert [row["name"] for row in json.loads(result.stdout)] == ["regions"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--dataset", "texsa"), "did you mean 'texas'?"),
        (("--model", "dsf-grp-r"), "got 'dsf-grp-r'; did you mean 'dsf-gpr-r'?"),
        (("--set", "eta1=2"), "eta1 must be in [0, 1], got 2."),
        (("--lanes", "many"), "--lanes must be auto or a whole number above 0"),
        (("--split-kind", "random"), "kind must be one of stratified, balanced"),
        (
            ("--split-kind", "fixed"),
            "where no such masks came with the data, got 'fixed'",
        ),
        (("--interval", "wald"), "--interval must be one of student-t, bootstrap"),
        (("--settings", __file__), "--settings must be published or a file of dsf-jax"),
        (("--settings", "absent.json"), "got 'absent.json', which cannot be read"),
        (("--settings", "published"), "got 'regions' and 'gpr'; leave --settings out"),
        (("--journal", "x"), "--journal must go with a single --model, got 2"),
    ],
)
def test_mistakes_are_one_line(small_regions, arguments, message):
    result = run("evaluate", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "Traceback" not in result.output


@pytest.mark.parametrize("arguments", [("--splits", 0), ("--epochs", "x")])
def test_options_out_of_range_are_refused(arguments):
    assert run("evaluate", *arguments).exit_code == 2


def test_a_missing_data_set_says_what_to_put_where(empty_folder, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    result = run("evaluate", "--dataset", "texas", "--model", "gpr")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert "out1_graph_edges.txt there" in result.stderr


def test_tune_prints_the_best_settings(small_regions, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ("--dataset", "regions", "--model", "gpr", "--trials", 2, "--epochs", 2)
    storage = ("--splits", 1, "--lanes", 2)  # the file has a default
    result = run("tune", *arguments, *storage, "--json", tmp_path / "found.json")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "regions-gpr.study").exists()
    assert "best of 2 trials on regions, gpr" in result.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert f"lr={found['settings']['lr']:.6g}" in result.stdout
    assert "eta1" in found["settings"]
    assert "eta1" not in result.stdout  # nothing that the model does not have
    again = run("tune", *arguments, "--seed", 1, *storage)
    assert again.exit_code == 2
    assert "with seed = 0 instead of 1" in again.stderr


def test_tune_says_that_all_trials_diverged(small_regions, tmp_path, monkeypatch):
    monkeypatch.setattr(search, "space_of", lambda _: {"lr": ("choice", [1e300])})
    arguments = ("--dataset", "regions", "--model", "gpr", "--trials", 2, "--epochs", 2)
    places = ("--storage", tmp_path / "study", "--json", tmp_path / "found.json")
    for _ in range(2):  # the second time from the study alone
        result = run("tune", *arguments, "--splits", 1, "--lanes", 2, *places)
        assert result.exit_code == 2
        assert "all 2 trials diverged" in result.stderr
        assert "%" not in result.stdout
        assert not (tmp_path / "found.json").exists()


@pytest.mark.parametrize("command", ["evaluate", "tune", "datasets"])
def test_help_teaches(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "--json" in result.stdout
