"""`dsf-jax explain`: files, numbers, and one line for a mistake."""

import json
import sys
import xml.etree.ElementTree as ET

import jax
import pytest
from typer.testing import CliRunner

from dsf_jax import MODELS, HyperParams, init, regions
from dsf_jax.cli.main import app
from dsf_jax.experiments.evaluation import dataset_inputs
from dsf_jax.experiments.saved import save_params

NAMES = ("curves", "frequency", "homophily", "map", "weights")
QUICK = ("--epochs", "2", "--method", "pca")


def run(*arguments):
    return CliRunner().invoke(app, ["explain", *map(str, arguments)])


def write_params(path, dataset, *, scale=1.0):
    """Parameters as they start, the weights of the heads times `scale`."""
    config, hparams = MODELS["dsf-bern-r"], HyperParams()
    inputs, key = dataset_inputs(dataset, config), jax.random.key(0)
    params = init(key, inputs, hparams, config=config, num_classes=2)
    heads = params.position.heads
    heads = heads._replace(w=scale * heads.w)
    params = params._replace(position=params.position._replace(heads=heads))
    save_params(path, params, hparams, dataset, config=config, scores={"test": 0.5})


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    """A folder with all files, and what was printed."""
    folder = tmp_path_factory.mktemp("explained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSF_JAX_CACHE", str(folder / "cache"))
        patch.setattr("dsf_jax.cli.explain.load_dataset", lambda _: regions(90))
        write_params(folder / "x", regions(90))
        chosen = ("--params", folder / "x", "--node", 5, "--method", "pca")
        result = run("--out", folder / "out", *chosen)
    assert result.exit_code == 0, result.output
    return folder / "out", result


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr("dsf_jax.cli.explain.load_dataset", lambda _: regions(90))


@pytest.mark.parametrize("scale", [0.01, 30.0])
def test_filters_that_do_not_differ_are_told(scale, small, tmp_path, monkeypatch):
    monkeypatch.setenv("DSF_JAX_CACHE", str(tmp_path / "cache"))
    write_params(tmp_path / "x", regions(90), scale=scale)
    result = run("--params", tmp_path / "x", "--method", "pca", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    numbers = json.loads((tmp_path / "numbers.json").read_text("utf-8"))
    curves = (tmp_path / "curves.svg").read_text("utf-8")
    page = (tmp_path / "index.html").read_text("utf-8")
    is_diverse = scale > 1
    assert numbers["is_diverse"] == is_diverse == (numbers["curve_spread"] >= 0.01)
    assert ("warning: The filters are not diverse" in result.stderr) != is_diverse
    assert ("The filters are not diverse" in page) != is_diverse
    # one curve for all nodes, or five: each is named in a comment of its text
    assert curves.count("nodes -->") == (6 if is_diverse else 2)


def test_all_files_are_written(explained):
    folder, _ = explained
    for name in NAMES:
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert ET.parse(folder / f"{name}.svg").getroot().tag.endswith("svg")
        assert (folder / f"{name}.png").stat().st_size < 300_000
    assert "<title>Filters of dsf-bern-r on regions</title>" in (
        folder / "index.html"
    ).read_text("utf-8")


def test_numbers_are_printed_and_kept(explained):
    folder, result = explained
    numbers = json.loads((folder / "numbers.json").read_text())
    assert json.loads(result.stdout.rpartition("}")[0] + "}") == numbers
    assert numbers["nodes"] == 90
    assert numbers["test"] == 0.5
    assert 0 <= numbers["variance_share"] <= 1
    assert len(numbers["frequencies"]) == 3
    assert str(folder / "index.html") in result.stdout


@pytest.mark.slow
def test_training_and_loading_give_the_same(small, tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    assert run("--out", one, *QUICK).exit_code == 0
    saved = one / "params.msgpack"
    assert run("--out", other, "--params", saved, "--method", "pca").exit_code == 0
    numbers = [json.loads((out / "numbers.json").read_text()) for out in (one, other)]
    assert numbers[0] == numbers[1]
    assert numbers[0]["epochs"] == 2
    assert not (other / "params.msgpack").exists()


def refused(*arguments):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert len(result.stderr.splitlines()) == 1
    assert "Traceback" not in result.output
    return result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--node", "90"], "node must lie in [0, 89], got 90"),
        (["--model", "dsf-bern"], "did you mean 'dsf-bern-"),
        (["--method", "umap"], "--method must be one of tsne, pca, got 'umap'"),
        (["--set", "eta1=2"], "eta1 must be in [0, 1], got 2"),
        (["--settings", "published"], "got 'regions' and 'dsf-bern-r'; leave"),
        (["--params", "/no/such/file"], "--params must be a file, got '/no/such/file'"),
    ],
)
def test_mistakes_are_one_line(arguments, message, small, tmp_path):
    assert message in refused("--out", tmp_path / "out", *QUICK, *arguments)


def test_parameters_of_another_graph_are_one_line(tmp_path, monkeypatch):
    write_params(tmp_path / "x", regions(90))
    monkeypatch.setattr("dsf_jax.cli.explain.load_dataset", lambda _: regions(60))
    error = refused("--out", tmp_path, "--params", tmp_path / "x")
    assert "must hold parameters for 'regions' (60 nodes" in error
    assert "got those of 'regions' (90 nodes" in error


def test_unknown_data_sets_and_folders_are_one_line(tmp_path):
    assert "did you mean" in refused("--dataset", "camel", "--out", tmp_path)
    (tmp_path / "file").write_text("")
    assert "file" in refused("--out", tmp_path / "file")


def test_a_missing_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "plotly", None)
    error = refused("--out", tmp_path)
    assert "'plotly', which is not installed" in error
    assert "dsf-jax[explain]" in error
