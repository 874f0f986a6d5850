"""`dsf-jax fit`, `predict`, `datasets --check`: from two tables to predictions."""

import csv
import inspect
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import dsf_jax as dsf
from dsf_jax.cli.main import app
from tests.graphs import write_graph

README = Path(__file__).parent.parent / "README.md"


def run(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.stdout


def rows_of(file):
    with file.open(newline="", encoding="utf-8") as text:
        return list(csv.reader(text))


def test_fit_and_predict_in_the_words_of_the_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_graph(tmp_path / "mygraph")
    printed = run("fit", "--dataset", "mygraph", "--model", "gpr", "--epochs", 3)
    assert "mygraph, gpr: accuracy of validation" in printed
    lines = [x for x in printed.splitlines() if x.startswith("next: dsf-jax predict")]
    printed = run(*shlex.split(lines[0])[2:])  # as it would be pasted
    assert "spam, sorry" in printed
    header, *rows = rows_of(tmp_path / "predictions.csv")
    assert header == ["node", "class", "p_ham", "p_spam, sorry"]
    assert [row[0] for row in rows] == [f"n{i}" for i in range(60)]
    dataset = dsf.read_dataset("mygraph")
    found = dsf.predict(dsf.load("own.msgpack", dataset))
    assert [row[1] for row in rows] == dataset.class_names[found.classes].tolist()
    shares = np.asarray([row[2:] for row in rows], dtype=float)
    np.testing.assert_allclose(shares, found.probabilities, rtol=1e-5)
    # other words for the classes: the parameters are not for them
    nodes = tmp_path / "mygraph" / "nodes.csv"
    nodes.write_text(nodes.read_text().replace("ham", "eggs"))
    result = CliRunner().invoke(
        app, ["predict", "--dataset", "mygraph", "--params", "own.msgpack"]
    )
    assert result.exit_code == 2
    assert "2 classes: eggs, spam, sorry" in result.stderr


def test_masks_of_files_are_used(tmp_path, monkeypatch):
    """`fit` takes them by default; the rule only if it is asked for."""
    monkeypatch.chdir(tmp_path)
    write_graph(tmp_path / "mygraph")
    lines = (tmp_path / "mygraph" / "nodes.csv").read_text().splitlines()
    parts = ["train" if i % 2 else "val" if i % 3 else "" for i in range(60)]
    words = [",split", *(f",{part}" for part in parts)]
    text = "\n".join(line + word for line, word in zip(lines, words, strict=True))
    (tmp_path / "mygraph" / "nodes.csv").write_text(text)
    dataset = dsf.read_dataset("mygraph")
    assert dataset.split_kind == "fixed"
    fitted = dsf.fit(dataset, "gpr", epochs=2)
    assert np.isnan(fitted.scores["test"])  # no test nodes
    masks = tuple(mask[0] for mask in dataset.fixed)
    assert (
        dsf.fit(dataset, "gpr", epochs=2, masks=masks).scores["val"]
        == (fitted.scores["val"])
    )
    printed = run("datasets", "--check", "mygraph")
    assert "masks: 1 split: 30 train, 20 val, 0 test" in printed


def test_check_says_what_it_sees(tmp_path):
    write_graph(tmp_path / "mygraph")
    edges = tmp_path / "mygraph" / "edges.csv"
    edges.write_text(edges.read_text() + "\nn1,n1\nn0,n0\n" + edges.read_text()[8:])
    out = tmp_path / "facts.json"
    printed = run("datasets", "--check", tmp_path / "mygraph", "--json", out)
    facts = json.loads(out.read_text())
    graph = dsf.regions(60).graph
    assert (facts["nodes"], facts["edges"]) == (60, graph.num_edges)
    assert facts["self_loops_dropped"] == 2
    assert facts["repetitions_merged"] == 2 * graph.num_edges
    assert facts["classes"] == "ham (20), spam, sorry (30)"
    assert facts["unlabelled"] == 10
    assert facts["masks"] == "none"
    assert facts["spread_of_local_homophily"] > facts["spread_by_chance"] > 0
    for line in (
        "nodes: 60",
        "spread of local homophily: 0.",
        "self loops dropped: 2",
        "unlabelled: 10",
    ):
        assert line in printed


@pytest.mark.slow
def test_three_commands_of_the_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_graph(tmp_path / "mygraph")
    text = README.read_text()
    block = re.search(r"<!-- own graph -->\n```\n(.*?)```", text, re.S).group(1)
    install, *commands = block.splitlines()
    assert install == 'python -m pip install ".[explain]"'
    assert len(commands) <= 2
    quick = {"predict": [], "explain": ["--epochs", "3", "--method", "pca"]}
    for line in commands:
        program, name, *options = shlex.split(line)
        assert program == "dsf-jax"
        run(name, *options, *quick[name])
    assert len(rows_of(tmp_path / "predictions.csv")) == 61
    assert (tmp_path / "filters" / "curves.png").exists()
    assert "Filters of dsf-gpr-r on mygraph" in (
        tmp_path / "filters" / "index.html"
    ).read_text("utf-8")


def test_python_of_the_readme_is_short():
    block = README.read_text().split("The same in Python:")[1]
    lines = block.split("```python\n")[1].split("```")[0].splitlines()
    assert len([line for line in lines if line]) <= 10


def test_help_fits_a_terminal():
    """Lines that are longer would be broken, and then begun anew."""
    for command in app.registered_commands:
        lines = inspect.cleandoc(command.callback.__doc__).splitlines()
        assert max(map(len, lines)) <= 78, command.callback.__name__


def test_epochs_and_patience_are_told():
    for command in ("evaluate", "tune", "fit", "explain"):
        text = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"})
        assert re.search(r"--epochs .*default: \(?1000", text.stdout), command
        assert re.search(r"--patience .*default: \(?100", text.stdout), command


def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch):
    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dsf_jax.cli.run.load_dataset", stop)
    for line, text in {
        "evaluate --model gpr": "Ctrl-C; add --journal FILE to keep finished runs.",
        "evaluate --model gpr --journal x": "the same command goes on from x.",
        "tune --dataset regions --model gpr": "goes on from regions-gpr.study.",
    }.items():
        result = CliRunner().invoke(app, line.split())
        assert result.exit_code == 130
        assert text in result.stderr
