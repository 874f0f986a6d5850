"""Evaluations as records: against the engine, interrupted and resumed."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
import scipy.stats

from dsf_jax import HyperParams, make_splits, regions
from dsf_jax.experiments import evaluation
from dsf_jax.experiments.evaluation import data_digest, evaluate, prepare
from dsf_jax.models.zoo import MODELS
from dsf_jax.train import TrainConfig, grid_jobs, run_jobs

HPARAMS = HyperParams(lr=0.05, lr_gamma=0.05)
FEW = {"num_splits": 2, "num_seeds": 3, "epochs": 12, "patience": 3}


@pytest.fixture(scope="module")
def dataset():
    return regions(60)


@pytest.fixture(scope="module")
def record(dataset):
    return evaluate(dataset, "gpr", HPARAMS, lanes=2, **FEW)


def test_a_record_holds_what_the_engine_found(dataset, record):
    splits = make_splits(dataset, num_splits=2)
    result = jax.jit(run_jobs, static_argnames=("model", "train_config"))(
        grid_jobs(HPARAMS, num_splits=2, num_seeds=3, seed=0),
        prepare(dataset, splits, model="gpr"),
        model=MODELS["gpr"],
        train_config=TrainConfig(num_classes=2, epochs=12, patience=3, lanes=3),
    )
    test = 100 * np.asarray(result.jobs.test).reshape(2, 3)
    np.testing.assert_allclose(record["test"], test, atol=1e-4)
    np.testing.assert_allclose(record["mean"], test.mean())
    low, high = scipy.stats.t.interval(
        0.95, df=5, loc=test.mean(), scale=scipy.stats.sem(test.ravel())
    )
    np.testing.assert_allclose(record["ci95"], (high - low) / 2)
    epochs = np.asarray(result.jobs.epochs_run).reshape(2, 3)
    np.testing.assert_array_equal(record["epochs_run"], epochs)
    assert record["num_finite"] == 6
    assert record["settings"]["lr"] == 0.05
    assert record["lanes"] == 2
    assert json.loads(json.dumps(record)) == record


def test_a_resumed_evaluation_runs_only_what_is_missing(
    dataset, record, tmp_path, monkeypatch
):
    journal = tmp_path / "runs.journal"
    evaluate(dataset, "gpr", HPARAMS, lanes=2, journal=journal, **FEW)
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:4]))  # three jobs had finished
    seen = []
    resumed = evaluate(
        dataset,
        "gpr",
        HPARAMS,
        journal=journal,
        on_progress=lambda progress: seen.append(progress.num_jobs),
        **FEW,
    )
    assert set(seen) == {3}
    assert resumed["lanes"] == 2  # as the journal was begun
    for key in ("test", "val", "best_epoch", "epochs_run", "mean"):
        np.testing.assert_allclose(resumed[key], record[key], atol=1e-4)
    # complete: nothing runs any more
    again = evaluate(dataset, "gpr", HPARAMS, lanes=2, journal=journal, **FEW)
    assert again["seconds"] == 0
    assert again["mean"] == resumed["mean"]
    # begun in this precision, and not to be mixed unless asked for
    other = evaluation.made_with() | {"precision": "float16"}
    monkeypatch.setattr(evaluation, "made_with", lambda: other)
    with pytest.raises(ValueError, match="instead of 'float16'"):
        evaluate(dataset, "gpr", HPARAMS, journal=journal, **FEW)
    mixed = evaluate(dataset, "gpr", HPARAMS, journal=journal, mixed=True, **FEW)
    assert [made["lanes"] for made in mixed["mixed_with"]] == [2]


def test_a_journal_of_other_settings_is_refused(dataset, tmp_path):
    journal = tmp_path / "runs.journal"
    evaluate(dataset, "gpr", HPARAMS, lanes=2, journal=journal, **FEW)
    other = HPARAMS._replace(lr=0.01)
    with pytest.raises(ValueError, match="journal must be of the same runs"):
        evaluate(dataset, "gpr", other, lanes=2, journal=journal, **FEW)


def test_digest_of_data(dataset):
    flipped = dataset._replace(labels=1 - dataset.labels)
    assert data_digest(dataset) != data_digest(flipped)
    graph = dataset.graph
    weighted = dataclasses.replace(graph, weights=2 * graph.weights)
    assert data_digest(dataset) != data_digest(dataset._replace(graph=weighted))


COMMAND = (
    *(sys.executable, "-m", "dsf_jax", "evaluate", "--dataset", "regions"),
    *("--model", "gpr", "--epochs", "500", "--patience", "500", "--lanes", "2"),
    *("--splits", "3", "--seeds", "5", "--journal"),
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_command_loses_no_finished_run(kind, tmp_path):
    """A real process, a real signal, and the same command again."""
    journal = tmp_path / "runs.journal"
    environment = os.environ | {"DSF_JAX_CACHE": str(tmp_path)}
    # shells ignore Ctrl-C for what they run in the background, and processes inherit it
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [*COMMAND, str(journal)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, inherited)
    deadline = time.monotonic() + 240
    while not journal.exists() or len(journal.read_text().splitlines()) < 3:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(kind)
    sent = time.monotonic()
    _, errors = process.communicate(timeout=60)
    if kind == signal.SIGINT:
        assert time.monotonic() - sent < 10  # the piece under way may end first
        assert process.returncode == 130
        way_on = f"the same command goes on from {journal}."
        assert errors.strip().endswith(f"dsf-jax: stopped by Ctrl-C; {way_on}")
        assert "Traceback" not in errors
    finished = len(journal.read_text().splitlines()) - 1
    assert 2 <= finished < 15
    out = tmp_path / "record.json"
    subprocess.run(
        [*COMMAND, str(journal), "--json", str(out)], env=environment, check=True
    )
    record = json.loads(out.read_text())
    assert np.shape(record["test"]) == (3, 5)
    assert len(journal.read_text().splitlines()) == 16  # nothing ran twice
