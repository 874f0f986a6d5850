"""`dsf-jax explain`: files, numbers, and one line for a mistake."""

import json
import re
import sys
import xml.etree.ElementTree as ET

import jax
import pytest
from typer.testing import CliRunner

from dsf_jax import MODELS, HyperParams, regions
from dsf_jax.cli.main import app
from dsf_jax.experiments.evaluation import dataset_inputs
from dsf_jax.experiments.saved import save_params
from dsf_jax.explain.plots import FORMATS
from dsf_jax.explain.summary import describe_graph, describe_model

NAMES = ("curves", "frequency", "homophily", "map", "weights")
QUICK = ("--epochs", "2", "--method", "pca")


def run(*arguments):
    return CliRunner().invoke(app, ["explain", *map(str, arguments)])


def write_params(path, dataset, *, scale=1.0):
    """Parameters as they start, the weights of the heads times `scale`."""
    model, hparams = MODELS["dsf-bern-r"], HyperParams()
    inputs, key = dataset_inputs(dataset, model), jax.random.key(0)
    params = model.init(key, inputs, hparams, num_classes=2)
    heads = params.local.heads
    heads = heads._replace(w=scale * heads.w)
    params = params._replace(local=params.local._replace(heads=heads))
    save_params(path, params, hparams, dataset, model=model, scores={"test": 75.0})


def explained(folder, *, scale, formats):
    """A folder with all files, and what was printed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dsf_jax.explain.plots.FORMATS", formats)
        patch.setenv("DSF_JAX_CACHE", str(folder / "cache"))
        patch.setattr("dsf_jax.cli.explain.load_dataset", lambda _: regions(60))
        write_params(folder / "x", regions(60), scale=scale)
        chosen = ("--params", folder / "x", "--node", 5, "--method", "pca")
        result = run("--out", folder / "out", *chosen)
    assert result.exit_code == 0, result.output
    return folder / "out", result


@pytest.fixture(scope="module")
def diverse(tmp_path_factory):
    return explained(tmp_path_factory.mktemp("diverse"), scale=30.0, formats=FORMATS)


@pytest.fixture(scope="module")
def alike(tmp_path_factory):
    return explained(tmp_path_factory.mktemp("alike"), scale=0.01, formats=("svg",))


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr("dsf_jax.cli.explain.load_dataset", lambda _: regions(60))


@pytest.mark.parametrize("name", ["diverse", "alike"])
def test_filters_that_do_not_differ_are_told(name, request):
    folder, result = request.getfixturevalue(name)
    numbers = json.loads((folder / "numbers.json").read_text("utf-8"))
    page = (folder / "index.html").read_text("utf-8")
    is_diverse = name == "diverse"
    assert numbers["is_diverse"] == is_diverse == (numbers["curve_spread"] >= 0.01)
    assert ("warning: The filters are not diverse" in result.stderr) != is_diverse
    assert ("The filters are not diverse" in page) != is_diverse
    # five curves, or one for all nodes: texts are comments in SVG
    for figure in ("curves", "map"):
        drawn = (folder / f"{figure}.svg").read_text("utf-8")
        assert drawn.count("<!-- group ") == (5 if is_diverse else 0)
        assert ("<!-- all 60 nodes -->" in drawn) != is_diverse


def test_all_files_are_written(diverse):
    folder, _ = diverse
    for name in NAMES:
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert ET.parse(folder / f"{name}.svg").getroot().tag.endswith("svg")
        for suffix in FORMATS:
            assert (folder / f"{name}.{suffix}").stat().st_size < 400_000
    assert "<title>Filters of dsf-bern-r on regions</title>" in (
        folder / "index.html"
    ).read_text("utf-8")


def test_numbers_are_kept_and_printed_as_a_table(diverse):
    folder, result = diverse
    numbers = json.loads((folder / "numbers.json").read_text())
    assert numbers["nodes"] == 60
    assert numbers["test"] == 75.0
    assert 0 <= numbers["variance_share"] <= 1
    assert len(numbers["frequencies"]) == 3
    head, *rows, last = result.stdout.splitlines()
    assert head.split() == ["quantity", "value"]
    printed = {re.split(r" {2,}", row.strip())[0]: row for row in rows}
    assert printed["test score"].endswith("75.0 %")
    assert printed["nodes"].split() == ["nodes", "60"]
    for quantity in (*describe_model(numbers), *describe_graph(numbers)):
        assert printed[quantity.name].rstrip().endswith(f" {quantity.value}")
    assert len({len(row.rstrip()) for row in rows}) == 1  # values are below each other
    assert max(map(len, rows)) <= 80
    assert str(folder / "index.html") in last


@pytest.mark.slow
def test_training_and_loading_give_the_same(small, tmp_path, monkeypatch):
    monkeypatch.setattr("dsf_jax.explain.plots.FORMATS", ())
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
        (["--node", "60"], "node must lie in [0, 59], got 60"),
        (["--model", "dsf-bern"], "did you mean 'dsf-bern-"),
        (["--method", "umap"], "--method must be one of tsne, pca, got 'umap'"),
        (["--set", "eta1=2"], "eta1 must be in [0, 1], got 2"),
        (["--settings", "published"], "got 'regions' and 'dsf-bern-r'; leave"),
        (["--params", "/no/such/file"], "--params must be a file, got '/no/such/file'"),
    ],
)
def test_mistakes_are_one_line(arguments, message, small, tmp_path):
    assert message in refused("--out", tmp_path / "out", *QUICK, *arguments)


def test_parameters_of_another_graph_are_one_line(diverse, tmp_path, monkeypatch):
    monkeypatch.setattr("dsf_jax.cli.explain.load_dataset", lambda _: regions(90))
    saved = diverse[0].parent / "x"
    error = refused("--out", tmp_path, "--params", saved)
    assert "must hold parameters for 'regions' (90 nodes" in error
    assert "got those of 'regions' (60 nodes" in error


def test_unknown_data_sets_and_folders_are_one_line(tmp_path):
    assert "did you mean" in refused("--dataset", "camel", "--out", tmp_path)
    (tmp_path / "file").write_text("")
    assert "file" in refused("--out", tmp_path / "file")


def test_a_missing_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "plotly", None)
    error = refused("--out", tmp_path)
    assert "'plotly', which is not installed" in error
    assert "dsf-jax[explain]" in error
