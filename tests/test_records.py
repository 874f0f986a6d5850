"""Journals and records on disk."""

import errno
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from dsf_jax.experiments.journal import Journal
from dsf_jax.models.settings import HyperParams
from dsf_jax.storage import (
    append_line,
    check_place,
    digest,
    open_alone,
    parse_lines,
    read_lines,
    to_json,
    write_json,
)

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


def test_a_journal_from_before_a_setting_goes_on_with_its_default(tmp_path):
    path = tmp_path / "runs.journal"
    Journal(path, WHAT).append({0: {"test": 0.5}})
    longer = WHAT | {"settings": {"lr": 0.1, "eta1": HyperParams().eta1}}
    assert Journal(path, longer).finished == {0: {"test": 0.5}}
    other = WHAT | {"settings": {"lr": 0.1, "eta1": 0.125}}
    with pytest.raises(ValueError, match=r"settings.eta1 = 0.5 instead of 0.125"):
        Journal(path, other)


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
        (WHAT | {"settings": {"lr": 0.2}}, "settings.lr = 0.1 instead of 0.2"),
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


@pytest.mark.parametrize(
    "content",
    [
        b"shopping\n",
        b"shopping",
        b"remember the milk\nand the bread, and a last line without an end",
        b'{"mean": 84.2, "ci95": 1.5}',
        b'{"mean": 84.2, "ci95": 1.5, "test": [[',
        b'{"mean": 84.2}\n{"mean": 85.1}\n{"me',
        b"[1, 2]\n[3, 4]\n[5",
        b"\x93NUMPY\x01\x00v\x00{'descr'",
        to_json(WHAT).encode() + b'\n{"note": "not a job"}\n{"jo',
        to_json(WHAT).encode() + b'\nshopping\n{"jo',
        b"[" * 100_000,
    ],
)
def test_a_file_that_is_no_journal_is_refused_and_stays(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"journal must .* or remove it\.$") as error:
        Journal(path, WHAT)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    assert path.read_bytes() == content


def test_a_folder_is_no_journal(tmp_path):
    with pytest.raises(ValueError, match="it is no regular file"):
        Journal(tmp_path, WHAT)


def test_a_header_that_a_kill_cut_short_is_written_again(tmp_path):
    path = tmp_path / "runs.journal"
    Journal(path, WHAT)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        Journal(path, WHAT)
        assert path.read_bytes() == whole


MADE_WITH = {"precision": "float32", "jax": "1.0"}


def test_a_journal_says_what_it_was_made_with(tmp_path):
    path, other = tmp_path / "runs.journal", MADE_WITH | {"precision": "float64"}
    with Journal(path, WHAT, MADE_WITH, chosen={"lanes": 4}) as journal:
        journal.append({0: {"test": 0.5}})
    content = path.read_bytes()
    with Journal(path, WHAT, MADE_WITH, chosen={"lanes": 1}) as journal:
        assert journal.own["lanes"] == 4  # as it was begun
    for own in (other, MADE_WITH | {"lanes": 2}, MADE_WITH | {"devices": 2}):
        with pytest.raises(ValueError, match=r"journal must go on with .* --mixed"):
            Journal(path, WHAT, own)
    assert path.read_bytes() == content
    with Journal(path, WHAT, other, chosen={"lanes": 1}, mixed=True) as journal:
        journal.append({1: {"test": 0.25}})
        assert len(journal.made_with) == 2
    with Journal(path, WHAT, other, chosen={"lanes": 4}) as journal:  # is known now
        assert journal.finished == {0: {"test": 0.5}, 1: {"test": 0.25}}


def test_a_journal_of_an_older_version_goes_on(tmp_path):
    path = tmp_path / "runs.journal"
    path.write_text(to_json(WHAT) + '\n{"job": 0, "test": 0.5}\n')
    with Journal(path, WHAT, MADE_WITH) as journal:
        assert journal.finished == {0: {"test": 0.5}}
        journal.append({1: {"test": 0.25}})
    with Journal(path, WHAT, MADE_WITH) as journal:
        assert set(journal.finished) == {0, 1}
    with pytest.raises(ValueError, match="with jax = '1.0' instead of '2.0'"):
        Journal(path, WHAT, MADE_WITH | {"jax": "2.0"})


def test_a_torn_header_may_be_of_another_version(tmp_path):
    path = tmp_path / "runs.journal"
    Journal(path, WHAT, {"jax": "0.9"}).close()
    path.write_bytes(path.read_bytes()[:-4])
    with Journal(path, WHAT, MADE_WITH) as journal:
        assert journal.made_with == [MADE_WITH]


def test_a_last_line_without_its_line_break_is_kept(tmp_path):
    path = tmp_path / "runs.journal"
    Journal(path, WHAT).append({0: {"test": 0.5}})
    path.write_bytes(path.read_bytes()[:-1])
    Journal(path, WHAT).append({1: {"test": 0.25}})
    assert Journal(path, WHAT).finished == {0: {"test": 0.5}, 1: {"test": 0.25}}


# imports once and forks, as a start of its own takes seconds; in each round two
# processes open the same journal at once, and who gets it runs what is missing
WRITERS = """
import os, sys
from pathlib import Path
from dsf_jax.experiments.journal import Journal

folder, num_rounds = Path(sys.argv[1]), int(sys.argv[2])

def write(path, place, go):
    os.read(go, 1)
    try:
        journal = Journal(path, {"dataset": "texas"})
    except Exception as error:
        print(f"{path.name}: {type(error).__name__}: {error}", flush=True)
        return
    for job in set(range(5)) - set(journal.finished):
        journal.append({job: {"by": place, "fill": "x" * 10_000}})

for number in range(num_rounds):
    go, start = os.pipe()
    for place in range(2):
        if os.fork() == 0:
            write(folder / f"{number}.journal", place, go)
            os._exit(0)
    os.write(start, b"go")
    os.wait(), os.wait()
    os.close(go), os.close(start)
"""


def test_one_process_at_a_time_writes_a_journal(tmp_path):
    num_rounds = 50
    ended = run_script(WRITERS, tmp_path, num_rounds)
    broken = []
    for number in range(num_rounds):
        path = tmp_path / f"{number}.journal"
        rows, num_whole = parse_lines(path.read_bytes())
        jobs = [row.get("job") for row in rows]
        if jobs != [None, *range(5)] or num_whole < path.stat().st_size:
            broken.append(jobs)
    assert broken == []
    refusal = re.compile(r"\d+\.journal: ValueError: journal must have one writer .*")
    assert all(map(refusal.fullmatch, ended.splitlines()))
    assert ended  # some began at the same time


HOLDER = """
import sys
from pathlib import Path
from dsf_jax.experiments.journal import Journal

journal = Journal(Path(sys.argv[1]), {"dataset": "texas"})
journal.append({0: {"test": 0.5}})
print("open", flush=True)
sys.stdin.read()
"""


def test_a_journal_is_free_again_when_its_process_is_killed(tmp_path):
    path, what = tmp_path / "runs.journal", {"dataset": "texas"}
    command = [sys.executable, "-c", HOLDER, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdout.readline() == "open\n"
        content = path.read_bytes()
        with pytest.raises(ValueError, match="which another process has open; wait"):
            Journal(path, what)
        assert path.read_bytes() == content
        process.kill()
        process.wait()
    assert Journal(path, what).finished == {0: {"test": 0.5}}


def test_a_journal_that_is_closed_is_not_written(tmp_path):
    with Journal(tmp_path / "runs.journal", WHAT) as journal:
        journal.append({0: {"test": 0.5}})
    open_alone(journal.path).close()  # it is free
    with pytest.raises(ValueError, match="journal must be open"):
        journal.append({1: {"test": 0.25}})


def test_journals_work_where_there_are_no_locks(tmp_path, monkeypatch):
    monkeypatch.setattr("dsf_jax.storage.fcntl", None)
    path = tmp_path / "runs.journal"
    Journal(path, WHAT).append({0: {"test": 0.5}})
    assert Journal(path, WHAT).finished == {0: {"test": 0.5}}


def test_a_finished_journal_may_be_read_only(tmp_path, monkeypatch):
    path = tmp_path / "runs.journal"
    Journal(path, WHAT).append({0: {"test": 0.5}})
    path.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may do anything
    assert Journal(path, WHAT).finished == {0: {"test": 0.5}}


def test_a_file_that_is_moved_while_it_is_looked_at_is_made_anew(tmp_path, monkeypatch):
    path = tmp_path / "rows"
    path.touch()

    def move(place, mode):  # as another process does when its partial file is whole
        path.unlink()
        return False

    monkeypatch.setattr(os, "access", move)
    open_alone(path).close()
    assert path.exists()


def test_a_torn_last_line_is_skipped_with_a_warning(tmp_path):
    path = tmp_path / "table2.jsonl"
    append_line(path, {"mean": 84.2})
    first = path.read_bytes()
    append_line(path, {"mean": 85.1, "test": [[80.0]] * 1000})
    whole = path.read_bytes()
    for length in (len(first) + 1, len(first) + 5000, len(whole) - 2):
        path.write_bytes(whole[:length])
        with pytest.warns(UserWarning, match=r"table2\.jsonl: line 2.* is torn"):
            assert read_lines(path) == [{"mean": 84.2}]
        append_line(path, {"mean": 85.1, "test": [[80.0]] * 1000})
        assert path.read_bytes() == whole
    path.write_bytes(whole[:-1])  # only the line break is missing
    assert len(read_lines(path)) == 2
    append_line(path, {"mean": 86.0})
    assert len(read_lines(path)) == 3


def test_a_torn_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "table2.jsonl"
    path.write_text('{"mean": 84.2}\n{"mea{"mean": 85.1}\n{"mean": 86.0}\n')
    with pytest.raises(ValueError, match=r"table2\.jsonl must .*\(line 2 is no JSON"):
        read_lines(path)


@pytest.mark.parametrize("content", [b"a note", b"a note\nwithout an end", b'[1]\n{"a'])
def test_a_row_is_not_appended_to_what_is_no_file_of_rows(tmp_path, content):
    path = tmp_path / "note.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="must hold one JSON object per line"):
        append_line(path, {"mean": 84.2})
    assert path.read_bytes() == content


def test_rows_of_a_full_disk_are_not_written_in_part(tmp_path, monkeypatch):
    path = tmp_path / "table2.jsonl"
    append_line(path, {"mean": 84.2})
    content = path.read_bytes()

    def fails(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="No space left"):
        append_line(path, {"mean": 85.1})
    assert path.read_bytes() == content


APPENDERS = """
import os, sys
from pathlib import Path
from dsf_jax.storage import append_line

for place in range(4):
    if os.fork() == 0:
        for number in range(50):
            append_line(Path(sys.argv[1]), {"by": place, "fill": "x" * 9000})
        os._exit(0)
for _ in range(4):
    os.wait()
"""


def test_processes_may_append_rows_at_once(tmp_path):
    path = tmp_path / "table2.jsonl"
    assert run_script(APPENDERS, path) == ""
    places = [row["by"] for row in read_lines(path)]
    assert sorted(places) == sorted([0, 1, 2, 3] * 50)


def run_script(script, *arguments):
    """Standard output of a Python program that ends well."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, timeout=300
    ).stdout


def test_json_has_no_nan(tmp_path):
    value = {"a": [float("nan"), 1.0], "b": {"c": float("inf")}, "d": (1, "x", None)}
    expected = {"a": [None, 1.0], "b": {"c": None}, "d": [1, "x", None]}
    assert json.loads(to_json(value)) == expected
    write_json(tmp_path / "record.json", value)
    assert json.loads((tmp_path / "record.json").read_text()) == expected
    assert [file.name for file in tmp_path.iterdir()] == ["record.json"]


def test_a_link_is_followed_and_a_mode_is_kept(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "record.json", tmp_path / "link"
    link.symlink_to(target)
    write_json(link, {"mean": 1})  # which does not exist yet
    target.chmod(0o600)
    write_json(link, {"mean": 2})
    assert link.is_symlink()
    assert read_lines(target) == [{"mean": 2}]
    assert target.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in target.parent.iterdir()] == [target.name]
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")
    for function in (check_place, lambda path: write_json(path, {})):
        with pytest.raises(OSError, match="Too many levels of symbolic links"):
            function(tmp_path / "one")


def test_a_device_or_a_pipe_is_written_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    check_place(pipe)
    write_json(pipe, {"mean": 1})
    assert os.read(reader, 100) == b'{"mean": 1}\n'
    os.close(reader)
    assert pipe.is_fifo()
    null = tmp_path / "null"
    null.symlink_to(os.devnull)
    write_json(null, {"mean": 1})
    assert null.is_char_device()


KILLED_WRITERS = """
import os, sys
from pathlib import Path
from dsf_jax.storage import write_json

os.fsync = lambda file: os.kill(os.getpid(), 9)
for _ in range(5):
    if os.fork() == 0:
        write_json(Path(sys.argv[1]), {})
    assert os.wait()[1] == 9
"""


def test_what_a_kill_left_of_a_file_is_taken_by_the_next_write(tmp_path):
    path, partial = tmp_path / "record.json", tmp_path / ".record.json.partial"
    run_script(KILLED_WRITERS, path)
    assert list(tmp_path.iterdir()) == [partial]
    write_json(path, {"mean": 1})
    assert list(tmp_path.iterdir()) == [path]
    assert read_lines(path) == [{"mean": 1}]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/record.json", "No such file or directory"),
        ("folder", "Is a directory"),
        ("closed", "Permission denied"),
    ],
)
def test_a_place_that_cannot_be_written_is_found_before(
    tmp_path, monkeypatch, name, reason
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "closed").touch()
    check_place(tmp_path / "new.json")
    if name == "closed":
        monkeypatch.setattr(os, "access", lambda path, mode: False)  # of root, too
    with pytest.raises(OSError, match=reason):
        check_place(tmp_path / name)


def test_digest_sees_shape_type_and_content():
    base = np.arange(6)
    others = [base.reshape(2, 3), base.astype(np.int32), base[::-1], base[:5]]
    assert len({digest(array) for array in [base, *others]}) == 5
    assert digest(base[::2]) == digest(base[::2].copy())
