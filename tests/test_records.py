"""Journals and records on disk."""

import json

import numpy as np
import pytest

from dsf_jax.experiments.journal import Journal
from dsf_jax.storage import digest, to_json, write_json

WHAT = {"dataset": "texas", "seed": 0, "settings": {"lr": 0.1}}


def test_a_journal_remembers_finished_jobs(tmp_path):
    path = tmp_path / "new folder" / "runs.journal"
    journal = Journal(path, WHAT)
    assert journal.finished == {}
    journal.append({3: {"test": 0.5}, 1: {"test": 0.25}})
    journal.append({})
    journal.append({0: {"test": float("nan")}})
    assert Journal(path, WHAT).finished == {
        3: {"test": 0.5},
        1: {"test": 0.25},
        0: {"test": None},
    }
    assert len(path.read_text().splitlines()) == 4


def test_a_line_that_a_kill_cut_short_is_dropped(tmp_path):
    path = tmp_path / "runs.journal"
    Journal(path, WHAT).append({0: {"test": 0.5}, 1: {"test": 0.25}})
    whole = path.read_bytes()
    path.write_bytes(whole[:-4])
    journal = Journal(path, WHAT)
    assert journal.finished == {0: {"test": 0.5}}
    journal.append({1: {"test": 0.25}})
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (WHAT | {"seed": 1}, "with seed = 0 instead of 1"),
        (WHAT | {"settings": {"lr": 0.2}}, "settings = {'lr': 0.1} instead of"),
        (WHAT | {"more": 1}, "with more = None instead of 1"),
        ({"dataset": "texas", "seed": 0}, "with settings = "),
    ],
)
def test_a_journal_of_other_runs_is_refused(tmp_path, other, message):
    path = tmp_path / "runs.journal"
    Journal(path, WHAT)
    with pytest.raises(ValueError, match="journal must be of the same runs") as error:
        Journal(path, other)
    assert message in str(error.value)


def test_a_file_that_is_no_journal_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("shopping\n")
    with pytest.raises(ValueError, match="journal must hold one JSON object per line"):
        Journal(path, WHAT)
    assert path.read_text() == "shopping\n"


def test_json_has_no_nan(tmp_path):
    value = {"a": [float("nan"), 1.0], "b": {"c": float("inf")}, "d": (1, "x", None)}
    expected = {"a": [None, 1.0], "b": {"c": None}, "d": [1, "x", None]}
    assert json.loads(to_json(value)) == expected
    write_json(tmp_path / "record.json", value)
    assert json.loads((tmp_path / "record.json").read_text()) == expected
    assert [file.name for file in tmp_path.iterdir()] == ["record.json"]


def test_digest_sees_shape_type_and_content():
    base = np.arange(6)
    others = [base.reshape(2, 3), base.astype(np.int32), base[::-1], base[:5]]
    assert len({digest(array) for array in [base, *others]}) == 5
    assert digest(base[::2]) == digest(base[::2].copy())
