"""The command line: tables that fit, JSON, and one line for a user's mistake."""

import json

import pytest
from typer.testing import CliRunner

from dsf_jax import DATASETS, files
from dsf_jax.cli import app
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


@pytest.mark.data
def test_datasets_counts_the_real_graphs(tmp_path):
    result = run("datasets", "--json", tmp_path / "rows.json")
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "…" not in result.stdout
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["name"] for row in rows] == list(DATASETS)
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
    assert [row["name"] for row in rows if row["present"]] == ["regions"]
    texas = rows[DATASETS.index("texas")]
    assert (texas["nodes"], texas["homophily"], texas["metric"]) == (
        *(None, None),
        "accuracy",
    )


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


def test_help_teaches():
    result = run("datasets", "--help")
    assert result.exit_code == 0
    assert "Nothing is downloaded" in result.stdout
