"""The file of a search: torn, locked, of another study, from an older version."""

import json
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from dsf_jax.experiments.study import open_study

WHAT = {"dataset": "texas", "seed": 0, "base": {"lr": 0.1}, "space": {"lr": ("log", 1)}}
MADE_WITH = {"precision": "float32", "jax": "1.0"}


def opened(path, *, what=WHAT, made_with=MADE_WITH, lanes=2, mixed=False):
    chosen = {"lanes": lanes}
    return open_study(path, what, made_with, chosen=chosen, mixed=mixed)


def run_trials(path, *values):
    with opened(path) as (study, _):
        for value in values:
            study.tell(study.ask(), value)


def values(path):
    with opened(path) as (study, _):
        return [trial.value for trial in study.trials if trial.value is not None]


def refused(path, **changes):
    content = path.read_bytes()
    with (
        pytest.raises(ValueError, match="^storage must ") as caught,
        opened(path, **changes),
    ):
        pass
    assert path.read_bytes() == content
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_torn_tail_is_mended(tmp_path):
    path = tmp_path / "study"
    run_trials(path, 1.0, 2.0)
    whole = path.read_bytes()
    # a row of Optuna's own form, as older versions have written it
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for length in (0, 1, 5, 20, whole.find(b"\n"), last + 1, last + 30, len(whole) - 1):
        path.write_bytes(whole[:length])
        with opened(path) as (study, _):
            num_before = len(study.trials)
            study.tell(study.ask(), 3.0)
        with opened(path) as (study, _):
            assert len(study.trials) == num_before + 1
            assert study.trials[-1].value == 3.0
        for line in path.read_text().splitlines():
            json.loads(line)


FULL_DISK = """
import resource, sys
from pathlib import Path
from dsf_jax.experiments.study import open_study
what = {"seed": 0}
size = Path(sys.argv[1]).stat().st_size + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
with open_study(Path(sys.argv[1]), what, {}, chosen={}) as (study, _):
    for number in range(100):
        study.set_user_attr(f"final of {number}", number)
"""


def test_a_study_goes_on_after_a_full_disk(tmp_path):
    path, what = tmp_path / "study", {"seed": 0}
    with open_study(path, what, {}, chosen={}):
        pass
    for room in (10, 1000):
        ended = subprocess.run(
            [sys.executable, "-c", FULL_DISK, str(path), str(room)],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert ended.returncode == 1
        assert ended.stderr.splitlines()[-1].startswith("OSError: [Errno 28]")
        assert path.read_bytes().endswith(b"}\n")
    with open_study(path, what, {}, chosen={}) as (study, _):
        assert study.user_attrs["final of 0"] == 0
        study.set_user_attr("more", 1)


HOLDER = """
import sys
from pathlib import Path
from dsf_jax.experiments.study import open_study
with open_study(Path(sys.argv[1]), {"seed": 0}, {}, chosen={}) as (study, _):
    study.ask()
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_second_search_is_told_and_a_kill_leaves_nothing_to_wait_for(tmp_path):
    path = tmp_path / "study"
    command = [sys.executable, "-c", HOLDER, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdout.readline() == "open\n"
        message = refused(path, what={"seed": 0})
        assert "which another process has open; wait for its end" in message
        process.kill()
        process.wait()
    (tmp_path / "study.lock").touch()  # what Optuna's own lock leaves
    began = time.monotonic()
    with open_study(path, {"seed": 0}, {}, chosen={}) as (study, _):
        assert [trial.state.name for trial in study.trials] == ["RUNNING"]
        study.ask()
    assert time.monotonic() - began < 10
    assert [file.name for file in tmp_path.iterdir()] == ["study"]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (WHAT | {"seed": 1}, "with seed = 0 instead of 1"),
        (WHAT | {"base": {"lr": 0.2}}, "with base.lr = 0.1 instead of 0.2"),
        (WHAT | {"space": {"lr": ["log", 2]}}, "with space.lr = ['log', 1] instead of"),
        (WHAT | {"space": {}}, "with space.lr = ['log', 1] instead of None"),
    ],
)
def test_another_study_is_refused(what, message, tmp_path):
    run_trials(tmp_path / "study", 1.0)
    assert message in refused(tmp_path / "study", what=what)


def test_another_precision_is_refused_or_asked_for(tmp_path):
    path, other = tmp_path / "study", MADE_WITH | {"precision": "float64"}
    run_trials(path, 1.0)
    message = refused(path, made_with=other)
    assert "with precision = 'float32' instead of 'float64'" in message
    assert "--mixed" in message
    with opened(path, made_with=other, mixed=True) as (study, own):
        assert own == other | {"lanes": 2}
        assert study.user_attrs["made_with"] == [MADE_WITH | {"lanes": 2}, own]
    with opened(path, made_with=other):  # is known now
        pass


def test_a_study_goes_on_with_its_lanes(tmp_path):
    run_trials(tmp_path / "study", 1.0)
    with opened(tmp_path / "study", lanes=8) as (_, own):
        assert own["lanes"] == 2


@pytest.mark.parametrize(
    "content",
    [
        b"shopping\n",
        b'{"mean": 84.2}',
        b'{"job": 3}\n',
        b'{"op_code": 77}\n',
        b'{"op_code": 0, "worker_id": "a", "study_name": "mine", "directions": [1]}\n',
        b"[" * 100_000,
    ],
)
def test_a_file_that_is_no_study_is_refused_and_stays(content, tmp_path):
    (tmp_path / "notes").write_bytes(content)
    assert "name another file or remove it" in refused(tmp_path / "notes")


def test_a_folder_is_no_study(tmp_path):
    with pytest.raises(ValueError, match="it is no regular file"), opened(tmp_path):
        pass


def test_a_study_of_an_older_version_goes_on(tmp_path):
    """As that wrote it: by Optuna's own backend, without space, base and versions."""
    path = tmp_path / "study"
    old = optuna.create_study(
        study_name="dsf-jax",
        storage=JournalStorage(JournalFileBackend(str(path))),
        direction="maximize",
    )
    old.set_user_attr("dataset", "texas")  # killed before the seed
    old.tell(old.ask(), 1.0)
    run_trials(path, 2.0)
    assert values(path) == [1.0, 2.0]
    assert "seed = 0 instead of 1" in refused(path, what=WHAT | {"seed": 1})
    # and Optuna's own tools read what is written now
    storage = JournalStorage(JournalFileBackend(str(path)))
    again = optuna.load_study(study_name="dsf-jax", storage=storage)
    assert [trial.value for trial in again.trials] == [1.0, 2.0]


def test_the_folder_of_a_new_study_is_made(tmp_path):
    run_trials(Path(tmp_path / "new" / "study"), 1.0)
    assert values(tmp_path / "new" / "study") == [1.0]
