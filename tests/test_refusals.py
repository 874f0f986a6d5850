"""Wrong settings, names and models: one clear line each, before any work."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import dsf_jax as dsf
from dsf_jax.cli.main import app
from dsf_jax.experiments.saved import save_params
from dsf_jax.experiments.search import tune
from dsf_jax.models import ChebNet, Fagcn, Gat, Gcn, check_settings, find_model

GPR, REGIONS = dsf.BACKBONES["gpr"], dsf.regions(60)


def init(name, **settings):
    """Parameters on an edge, with these settings."""
    edge, model = dsf.Graph.from_edges([(0, 1)], num_nodes=2), dsf.MODELS[name]
    inputs = model.make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)))
    hparams = dsf.HyperParams(**settings)
    return model.init(jax.random.key(0), inputs, hparams, num_classes=2)


def evaluate(name, **settings):
    return dsf.evaluate(REGIONS, name, dsf.HyperParams(**settings), num_splits=1)


def apply(name, other, *, features=2, num_nodes=2):
    """Apply parameters of one model, on an edge, to another one or another graph."""
    model = dsf.MODELS[other]
    graph = dsf.Graph.from_edges([(0, 1)], num_nodes=num_nodes)
    x, x_pos = jnp.ones((num_nodes, features)), jnp.zeros((2, num_nodes, 32))
    inputs = model.make_inputs(graph, x, x_pos)
    return model.apply(init(name), inputs, dsf.HyperParams())


def make(**changes):
    given = {"graph": [(0, 1)], "features": np.eye(2), "labels": [0, 1]} | changes
    return dsf.make_dataset(**given)


ALL = np.ones(60, dtype=bool)


def fit_masks(*masks):
    return dsf.fit(REGIONS, "gpr", masks=masks)


PYTHON = [
    # values, at the door of init
    (lambda: init("gpr", lr=-0.1), "lr must be at least 0, got -0.1"),
    (lambda: init("gpr", lr=float("nan")), "lr must be finite and at least 0, got nan"),
    (lambda: init("gpr", lr=float("inf")), "lr must be finite and at least 0, got inf"),
    (lambda: init("gpr", lr_gamma=-1), "lr_gamma must be at least 0, got -1"),
    (lambda: init("gpr", decay=-1e-3), "decay must be at least 0, got -0.001"),
    (lambda: init("dsf-gpr-r", eta1=13), "eta1 must be in [0, 1], got 13"),
    (lambda: init("dsf-gpr-i", eta2=-0.5), "eta2 must be in [0, 1], got -0.5"),
    (lambda: init("gpr", dropout_x=2), "dropout_x must be in [0, 1), got 2"),
    (lambda: init("gpr", dropout_h=1.0), "dropout_h must be in [0, 1), got 1.0"),
    (lambda: init("dsf-gpr-r", f_p=999), "f_p must be between 1 and 32, got 999"),
    (lambda: init("dsf-gpr-r", f_p=0), "f_p must be between 1 and 32, got 0"),
    (lambda: init("fagcn", depth=9), "depth must be between 1 and 8, got 9"),
    (lambda: init("cheb", degree=-1), "degree must be between 0 and 3, got -1"),
    (lambda: init("gnn-lf", mu=0), "mu must be above 0 and at most 1, got 0"),
    (lambda: init("jacobi", rho_scale=0), "rho_scale must be above 0, got 0"),
    (lambda: init("jacobi", a=-2.0), "a must be above -1.5, got -2.0"),
    (lambda: init("dsf-gpr-r", pos_kind=2), "pos_kind must be one of lap, rw, got 2"),
    (lambda: init("gpr", gamma_init=9), "gamma_init must be one of ppr, nppr, random"),
    (lambda: init("gpr", lr=None), "lr must be at least 0, got None"),
    (lambda: check_settings(dsf.HyperParams(sole=3)), "sole must be true or false"),
    (
        lambda: check_settings(dsf.HyperParams(lr=jnp.asarray([0.1, -1]))),
        "lr must be at least 0",
    ),
    # words
    (lambda: dsf.HyperParams(pos_kind="walk"), "pos_kind must be one of lap, rw"),
    (lambda: dsf.HyperParams(gamma_init="pr"), "gamma_init must be one of ppr, nppr"),
    (lambda: dsf.HyperParams(lr="fast"), "lr must be a number at least 0, got 'fast'"),
    (lambda: dsf.HyperParams()._replace(pos_kind="x"), "pos_kind must be one of"),
    # settings that the model does not read
    (lambda: evaluate("gpr", eta1=0.9), "eta1 must be left out, got 0.9"),
    (lambda: evaluate("gcn", gamma_init="ones"), "gamma_init must be left out, got 4"),
    (lambda: evaluate("dsf-gpr-r", eta2=0.5), "eta2 must be left out, got 0.5"),
    (lambda: evaluate("appnp", dropout_z=0.1), "dropout_z must be left out, got 0.1"),
    (lambda: evaluate("gpr", lr=-1), "lr must be at least 0, got -1"),
    (
        lambda: tune(REGIONS, "gpr", num_trials=1, storage=Path("x"), base=_eta()),
        "eta1 must be left out",
    ),
    (
        lambda: dsf.fit(REGIONS, "gpr", _eta()),
        "eta1 must be left out",
    ),
    (lambda: dsf.fit(REGIONS, "gpr", {"eta1": 0.5}), "got 'eta1'; it reads lr, lr_ga"),
    (lambda: dsf.fit(REGIONS, "gpr", {"eta3": 0.5}), "settings must be fields that"),
    (lambda: dsf.fit(REGIONS, "gpr", {"lr": -1}), "lr must be at least 0, got -1"),
    # masks
    (lambda: fit_masks(ALL, ALL), "masks must be disjoint, got 60 nodes in more than"),
    (lambda: fit_masks(ALL), "masks must have train, val and perhaps test, got"),
    (lambda: fit_masks(ALL, ~ALL), "masks must not be empty, got no node in val"),
    (lambda: fit_masks(ALL[:9], ~ALL), "masks must be boolean arrays of 60 nodes, got"),
    (lambda: fit_masks(np.arange(60), ~ALL), "got train with shape [60] of int64"),
    # names
    (lambda: evaluate("gprr"), "got 'gprr'; did you mean 'gpr'"),
    (lambda: evaluate("GPR"), "got 'GPR'; did you mean 'gpr'"),
    (lambda: evaluate("chebyshev"), "did you mean 'gpr-chebyshev'"),
    (lambda: find_model("3"), "model must be a name in MODELS or a Model, got '3'"),
    (
        lambda: dsf.prepare(REGIONS, _splits(), model="mlp"),
        "model must be a name in MODELS",
    ),
    (lambda: dsf.preset("texas", "mlp"), "model must be a name in MODELS"),
    # models
    (lambda: dsf.diverse(GPR, order=-1), "order must be at least 0, got -1"),
    (lambda: dsf.diverse(GPR, hidden=0), "hidden must be at least 1, got 0"),
    (lambda: dsf.diverse(GPR._replace(filter_op="a")), "filter_op must be one of"),
    (lambda: dsf.positional("Q"), "variant must be one of R, I, got 'Q'"),
    (lambda: dsf.positional("R", width=0), "width must be at least 1, got 0"),
    (lambda: Gcn(hidden=0), "hidden must be at least 1, got 0"),
    (lambda: ChebNet(order=-1), "order must be at least 0, got -1"),
    (lambda: Gat(heads=7), "hidden must be a multiple of heads, got 64 for 7"),
    (lambda: Fagcn(layers=0), "layers must be at least 1, got 0"),
    # protocol
    (
        lambda: dsf.TrainConfig(num_classes=2, metric="auc"),
        "metric must be one of accuracy, roc_auc, got 'auc'",
    ),
    (
        lambda: dsf.TrainConfig(num_classes=2, selection="best"),
        "selection must be one of first-best",
    ),
    (
        lambda: dsf.evaluate(REGIONS, "gpr", num_splits=1, num_seeds=0),
        "num_seeds must be at least 1, got 0",
    ),
    (
        lambda: dsf.evaluate(REGIONS, "gpr", num_splits=0),
        "num_splits must be at least 1, got 0",
    ),
    (
        lambda: dsf.evaluate(REGIONS, "gpr", num_splits=1, split_kind="fixed"),
        "where no such masks came with the data, got 'fixed'",
    ),
    (lambda: dsf.evaluate(REGIONS, "gpr", {"lr": -1}), "lr must be at least 0, got -1"),
    (lambda: dsf.evaluate(REGIONS, "gpr", {"eta1": 1}), "settings must be fields that"),
    (lambda: dsf.preset("texsa", "gpr"), "got 'texsa'; did you mean 'texas'"),
    # parameters of something else
    (lambda: apply("gpr", "dsf-gpr-r"), "got params.local.start.w: nothing in the p"),
    (lambda: apply("dsf-gpr-r", "gpr"), "shape [32, 64] in the place of nothing"),
    (
        lambda: apply("gcn", "gpr"),
        "params must be those of this model for these inputs",
    ),
    (lambda: apply("dsf-gpr-r", "gat"), "params must be those of this model for these"),
    (
        lambda: apply("gpr", "gpr", features=5),
        "got params.hidden.w: shape [2, 64] in the place of shape [5, 64]",
    ),
    (
        lambda: apply("dsf-gpr-r-no-ipe", "dsf-gpr-r-no-ipe", num_nodes=3),
        "got params.local: shape [11, 2] in the place of shape [11, 3]",
    ),
    (lambda: apply("gcn", "appnp"), "got params: Perceptron in the place of Params"),
    (lambda: apply("appnp", "gcn"), "got params: Params in the place of Perceptron"),
    # data
    (lambda: make(metric="auc"), "metric must be one of accuracy, roc_auc, got 'auc'"),
    (
        lambda: make(labels=[0, 5]),
        "with fewer classes C than nodes, got 0..5 for 2 nodes; numpy.unique",
    ),
    (
        lambda: make(graph="own/edges.csv"),
        "graph must be a graph or node pairs, got 'ow",
    ),
    (lambda: make(graph=Path("own")), "read_dataset(path) reads files"),
    (
        lambda: make(graph=np.eye(3, dtype=int), features=np.eye(3), labels=[0, 1, 1]),
        "got [3, 3]; transpose an edge_index of shape [2, M], wrap a dense adjacency",
    ),
    (
        lambda: dsf.Graph.from_edges("edges.csv", num_nodes=3),
        "edges must be node pairs, got 'edges.csv'; dsf_jax.read_dataset(path) reads",
    ),
    (
        lambda: dsf.read_dataset("no/such"),
        "path must be a folder or a file, got 'no/suc",
    ),
    (lambda: dsf.load_dataset("Texas"), "got 'Texas'; did you mean 'texas'"),
    (
        lambda: dsf.MODELS["dsf-gpr-r"].make_inputs(REGIONS.graph, jnp.eye(60)),
        "x_pos must be given for a model with positions, got None",
    ),
]

COMMANDS = [
    ("--model gpr --set eta1=0.5", "--set must name a setting that gpr reads, got 'et"),
    ("--model gcn --model gat --set f_p=4", "that gcn or gat reads, got 'f_p=4'"),
    ("--set eta1=13", "eta1 must be in [0, 1], got 13"),
    ("--set lr=-1", "lr must be at least 0, got -1"),
    ("--set lr=fast", "lr must be a number, got 'fast'"),
    ("--set f_p=2.5", "f_p must be a whole number, got '2.5'"),
    ("--set pos_kind=walk", "pos_kind must be one of lap, rw, got 'walk'"),
    ("--set sole=yes", "sole must be true or false, got 'yes'"),
    ("--set eta3=1", "--set must be field=value with one of the fields lr, "),
    ("--set eta1", "--set must be field=value"),
    ("--model gprr", "got 'gprr'; did you mean 'gpr'"),
    ("--model chebyshev", "got 'chebyshev'; did you mean 'gpr-chebyshev'"),
    ("--dataset texsa", "'texsa'; did you mean 'texas'"),
    ("--dataset Texas", "--dataset must be a name of dsf-jax datasets or the path of"),
    ("--dataset own/graph", "path of your own graph (docs/own_graph.md), got 'own/gra"),
    ("--model GPR", "got 'GPR'; did you mean 'gpr'"),
    ("--model gpr --split-kind fixed", "no such masks came with the data, got 'fixed'"),
    (
        "--model gpr --settings texas.json",
        "--settings must be of --dataset regions, go",
    ),
    (
        "--model gpr --settings bern.json",
        "--settings must be of --model gpr, got 'bern",
    ),
    ("--seeds 0", "dsf-jax: --seeds must be at least 1, got 0."),
    ("--splits 0", "--splits must be at least 1, got 0."),
    ("--epochs 0", "--epochs must be at least 1, got 0."),
    ("--patience -1", "--patience must be at least 0, got -1."),
    ("--seed -1", "--seed must be at least 0, got -1."),
    ("--seeds two", "dsf-jax: Invalid value for '--seeds'"),
    ("--seeds", "'--seeds' requires an argument; see dsf-jax --help."),
    ("--seedz 1", "No such option: --seedz"),
    ("more", "evaluate --help."),
    ("--model gpr --journal .", "journal must hold one JSON object per line, got '.'"),
]

OTHER_COMMANDS = [
    ("tune --dataset regions --model GPR", "got 'GPR'; did you mean 'gpr'"),
    ("tune --dataset texsa --model gpr", "got 'texsa'; did you mean 'texas'"),
    (
        "tune --dataset regions --model gpr --split-kind fixed",
        "no such masks came with",
    ),
    ("tune --dataset regions --model gpr --trials 0", "--trials must be at least 1, g"),
    ("tune --dataset regions", "dsf-jax: Missing option '--model'; see "),
    ("explain --out o --hops 0", "--hops must be at least 1, got 0."),
    ("explain --out o --seed -1", "--seed must be at least 0, got -1."),
    ("explian", "No such command 'explian'"),
    ("--verbose", "No such option: --verbose"),
    ("explain --out o --model GPR", "got 'GPR'; did you mean 'gpr'"),
    (
        "explain --out o --model gcn",
        "--model must learn the filter that is to be expla",
    ),
    (
        "explain --out o --groups 100000",
        "--groups must be between 1 and 20, got 100000",
    ),
    ("explain --out o --groups 0", "--groups must be between 1 and 20, got 0"),
    (
        "explain --out o --model gpr --params bern.msgpack",
        "--params must be of --model gpr, got 'bern.msgpack' of bern; leave",
    ),
    (
        "explain --out o --params bern.msgpack --set lr=1",
        "--set and --settings must be left out with --params",
    ),
    ("fit --dataset nowhere", "--dataset must be a name of dsf-jax datasets or the pa"),
    ("fit --dataset regions --model gprr", "got 'gprr'; did you mean 'gpr'"),
    ("fit --dataset regions --out no/such/x", "--out must be a file in a folder that"),
    ("fit --dataset regions --set lr=-1", "lr must be at least 0, got -1"),
    ("fit --dataset . ", "must have a file edges.csv or edges.tsv"),
    ("predict --dataset regions --params none", "--params must be a file, got 'none'"),
    (
        "predict --dataset regions --params texas.json",
        "must be a file from save_params",
    ),
    (
        "predict --dataset csbm --params bern.msgpack",
        "must hold parameters for 'csbm' (3",
    ),
    ("datasets --check nowhere", "got 'nowhere', which does not exist; a folder holds"),
    ("datasets --check texas.json", "path must be a folder or end in .npz or .graphml"),
]

# what annotations forbid, as people without a type checker meet it
UNTYPED = [
    (
        "diverse_filter(op, x, jnp.ones((5, 11)), b)",
        "beta must have shape [K + 1, 5], o",
    ),
    (
        "diverse_filter(op, x, jnp.ones((11, 4)), b)",
        "got [11, 4]; transpose it if nodes",
    ),
    ("diverse_filter(jnp.eye(5), x, beta, b)", "op must be an Operator, got ArrayImpl"),
    (
        "diverse_filter(graph, x, beta, b)",
        "op must be an Operator, got Graph; use a_hat",
    ),
    (
        "shared_filter(np.eye(5), x, beta[:, 0], b)",
        "op must be an Operator, got ndarray",
    ),
    (
        "dsf.ops.a_hat(np.eye(5))",
        "graph must be a Graph, got ndarray; use Graph.from_ed",
    ),
    ("dsf.ops.a_tilde('graph.csv')", "graph must be a Graph, got 'graph.csv'"),
    ("dsf.positional_features('graph.csv')", "graph must be a Graph, got 'graph.csv'"),
    (
        "dsf.fit('texas', 'gpr')",
        "dataset must be a Dataset, got 'texas'; use load_data",
    ),
    ("dsf.evaluate('texas', 'gpr')", "dataset must be a Dataset, got 'texas'"),
    ("dsf.load('own.msgpack', 'texas')", "dataset must be a Dataset, got 'texas'"),
    ("dsf.evaluate(data, 3)", "model must be a name in MODELS or a Model, got 3"),
]
PROGRAM = """
import json, jax.numpy as jnp, numpy as np, dsf_jax as dsf
from dsf_jax.filters import diverse_filter, shared_filter
from dsf_jax.bases import bernstein as b
data, graph = dsf.regions(60), dsf.Graph.from_edges([(0, 1)], num_nodes=5)
op, x, beta = dsf.ops.a_hat(graph), jnp.ones((5, 2)), jnp.ones((11, 5))
for text in TEXTS:
    try:
        eval(text)
    except (TypeError, ValueError) as error:
        print(json.dumps(str(error)))
    else:
        print(json.dumps("nothing was raised"))
"""


@pytest.fixture(scope="module")
def untyped():
    """Messages of a process without checked annotations, by call."""
    texts = [text for text, _ in UNTYPED]
    program = PROGRAM.replace("TEXTS", repr(texts))
    printed = subprocess.check_output([sys.executable, "-c", program], text=True)
    return dict(zip(texts, map(json.loads, printed.splitlines()), strict=True))


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Settings and parameters of other models, in the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dsf_jax.cli.shared.catalog.load_dataset", _quick)
    record = {"dataset": "texas", "model": "gpr", "settings": {"lr": 0.1}}
    Path("texas.json").write_text(json.dumps(record))
    other = {"dataset": "regions", "model": "bern"}
    Path("bern.json").write_text(json.dumps(record | other))
    bern, settings = dsf.MODELS["bern"], dsf.HyperParams()
    inputs = bern.make_inputs(REGIONS.graph, jnp.asarray(REGIONS.features))
    params = bern.init(jax.random.key(0), inputs, settings, num_classes=2)
    save_params("bern.msgpack", params, settings, REGIONS, model=bern)


def _quick(name):
    return (
        REGIONS if name == "regions" else dsf.data.csbm(30, phi=0.5)._replace(name=name)
    )


def _eta():
    return dsf.HyperParams(eta1=0.9)


def _splits():
    return dsf.make_splits(REGIONS, num_splits=1)


@pytest.mark.parametrize(("call", "message"), PYTHON, ids=[m for _, m in PYTHON])
def test_python_refuses(call, message):
    with pytest.raises((ValueError, TypeError), match="must") as caught:
        call()
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(("text", "message"), UNTYPED, ids=[t for t, _ in UNTYPED])
def test_python_refuses_wrong_types(text, message, untyped):
    assert message in untyped[text]
    assert len(untyped[text].splitlines()) == 1


LINES = [(f"evaluate {c}", m) for c, m in COMMANDS] + OTHER_COMMANDS


@pytest.mark.parametrize(("line", "message"), LINES, ids=[c for c, _ in LINES])
def test_the_command_line_refuses(line, message, files):
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_stored_settings_with_more_fields_load(tmp_path):
    """A file of another model, with fields that this one does not read."""
    settings = dsf.preset("texas", "dsf-gpr-r").hparams
    assert settings.eta1 != dsf.HyperParams().eta1 or settings.f_p != 16
    stored = dsf.models.settings.settings_to_json(settings)
    restricted = dsf.models.settings.restrict(
        dsf.models.settings.settings_from_json(stored), dsf.MODELS["gpr"].reads
    )
    check_settings(restricted, reads=dsf.MODELS["gpr"].reads)


def test_words_and_numbers_are_the_same():
    words = dsf.HyperParams(pos_kind="lap", gamma_init="ones")
    assert words == dsf.HyperParams(pos_kind=0, gamma_init=4)
    assert words._replace(pos_kind="rw").pos_kind == 1


def test_the_table_says_it_all():
    for name, field in dsf.models.FIELDS.items():
        assert field.meaning
        assert field.rule.holds(field.default), name
        assert any(name in model.reads for model in dsf.MODELS.values()), name


def test_what_people_give_is_taken(tmp_path):
    """Settings as a dictionary and a journal as a string."""
    few = {"num_splits": 1, "num_seeds": 1, "epochs": 2, "lanes": 1}
    journal = str(tmp_path / "gpr.journal")
    record = dsf.evaluate(REGIONS, "gpr", {"lr": 0.1}, journal=journal, **few)
    shipped = dsf.preset("regions", "gpr").hparams
    stored = dsf.models.settings.settings_to_json(shipped._replace(lr=0.1))
    assert record["settings"] == stored
    again = dsf.evaluate(REGIONS, "gpr", {"lr": 0.1}, journal=journal, **few)
    assert again["test"] == record["test"]
    assert again["seconds"] == 0


def test_the_list_is_long():
    assert len(PYTHON) + len(UNTYPED) + len(LINES) >= 60
