"""Searches: the space, the storage, and what a kill leaves behind."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import optuna
import pytest

from dsf_jax import HyperParams, regions
from dsf_jax.engine import grid
from dsf_jax.experiments.presets import settings_from_json
from dsf_jax.experiments.search import _few_points, tune
from dsf_jax.experiments.spaces import space_of

optuna.logging.set_verbosity(optuna.logging.WARNING)
FEW = {"num_splits": 2, "epochs": 5, "patience": 3, "lanes": 2}


@pytest.fixture(scope="module")
def dataset():
    return regions(60)


def test_a_study_compiles_once_resumes_and_is_checked(dataset, tmp_path):
    storage = tmp_path / "a study"
    seen = []
    grid._advance.clear_cache()
    found = tune(
        dataset, "gpr", num_trials=4, storage=storage, on_progress=seen.append, **FEW
    )
    assert grid._advance._cache_size() == 1
    assert found["trials"] == len(found["vals"]) == len(found["finals"]) == 4
    assert found["val"] == pytest.approx(max(found["finals"]), abs=1e-3)
    settings_from_json(found["settings"])
    space = space_of("gpr")
    assert set(space) <= set(found["settings"])
    assert found["settings"]["lr_gamma"] == found["settings"]["lr"]
    assert seen[-1].num_done == seen[-1].finals_done == seen[-1].num_finals == 4
    assert seen[0].finals_done == 0
    assert seen[-1].best_val == pytest.approx(max(found["vals"]), abs=1e-3)
    assert seen[-1].status.startswith("4/4 trials, 4/4 of the best again, best val ")
    assert not any("nan" in progress.status for progress in seen)

    more = tune(dataset, "gpr", num_trials=6, storage=storage, **FEW)
    assert more["vals"][:4] == found["vals"]  # nothing ran again
    assert more["trials"] == 6
    assert grid._advance._cache_size() == 1
    again = tune(
        dataset, "gpr", num_trials=6, storage=storage, on_progress=pytest.fail, **FEW
    )
    assert again["finals"] == more["finals"]  # they are kept, too
    with pytest.raises(ValueError, match="with epochs = 5 instead of 6"):
        tune(dataset, "gpr", num_trials=6, storage=storage, **FEW | {"epochs": 6})


def test_the_first_trial_has_the_given_settings_and_the_rest_stays(dataset, tmp_path):
    base = HyperParams(lr=0.02, dropout_h=0.7, alpha=0.5, dropout_x=0.3)
    found = tune(
        dataset,
        "gpr",
        num_trials=3,
        storage=tmp_path / "study",
        base=base,
        space={"alpha": ("choice", [0.1, 0.5, 0.9])},
        num_finalists=0,
        **FEW,
    )
    storage = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend(str(tmp_path / "study"))
    )
    trials = optuna.load_study(study_name="dsf-jax", storage=storage).trials
    assert trials[0].params == {"alpha": 0.5}
    assert {trial.params["alpha"] for trial in trials} == {0.1, 0.5, 0.9}
    assert found["val"] == max(trial.value for trial in trials)
    assert found["finals"] == []
    assert found["settings"]["lr"] == 0.02
    assert found["settings"]["dropout_x"] == 0.3


def test_few_points_are_those_of_the_space():
    space = {"eta2": ("step", 0.1, 1.0, 0.1), "sole": ("choice", [True, False])}
    points = _few_points(space, most=20)
    assert len(points) == 20
    assert {point["eta2"] for point in points} == {i / 10 for i in range(1, 11)}
    assert _few_points(space, most=19) == []
    assert _few_points({"lr": ("log", 1e-3, 1.0)}, most=100) == []


@pytest.mark.slow
def test_values_of_a_trial_are_those_of_the_space(dataset, tmp_path):
    few = FEW | {"epochs": 1, "num_splits": 1}
    tune(dataset, "dsf-gpr-r", num_trials=3, storage=tmp_path / "study", **few)
    storage = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend(str(tmp_path / "study"))
    )
    for trial in optuna.load_study(study_name="dsf-jax", storage=storage).trials:
        settings = trial.user_attrs["settings"]
        for field, (kind, *rule) in space_of("dsf-gpr-r").items():
            value = settings[field]
            if kind == "choice":
                assert value in rule[0]
            elif kind == "same":
                assert value == settings[rule[0]]
            else:
                assert rule[0] <= value <= rule[1]
            if kind == "step":
                steps = (value - rule[0]) / rule[2]
                np.testing.assert_allclose(steps, round(steps), atol=1e-6)


COMMAND = (
    *(sys.executable, "-m", "dsf_jax", "tune", "--dataset", "regions", "--model"),
    *("gpr", "--trials", "20", "--splits", "2", "--epochs", "300", "--storage"),
)


@pytest.mark.slow
def test_a_killed_search_loses_no_finished_trial(tmp_path):
    storage, out = tmp_path / "study", tmp_path / "found.json"
    environment = os.environ | {"DSF_JAX_CACHE": str(tmp_path)}
    process = subprocess.Popen(
        [*COMMAND, str(storage)], env=environment, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 240
    while len(finished_trials(storage)) < 5:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = finished_trials(storage)
    assert len(before) < 20
    command = [*COMMAND, str(storage), "--json", str(out)]
    subprocess.run(command, env=environment, check=True)
    after = finished_trials(storage)
    assert len(after) == json.loads(out.read_text())["trials"] == 20
    assert {number: after[number] for number in before} == before


def finished_trials(storage):
    """Values by trial number, as another process sees them."""
    if not storage.exists():
        return {}
    backend = optuna.storages.journal.JournalFileBackend(str(storage))
    try:
        study = optuna.load_study(
            study_name="dsf-jax", storage=optuna.storages.JournalStorage(backend)
        )
    except KeyError:  # not begun
        return {}
    return {t.number: t.value for t in study.trials if t.value is not None}
