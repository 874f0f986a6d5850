"""Downloads from a server on this machine: complete and verified, or not there."""

import hashlib
import http.server
import random
import subprocess
import sys
import threading
import time

import pytest

from dsf_jax import storage
from dsf_jax.data import files
from dsf_jax.data.files import File, read_files

CONTENT = bytes(range(256)) * 1000
NAME = "some data.npz"


class Server(http.server.BaseHTTPRequestHandler):
    """Sends CONTENT, from an offset when asked; its class attributes misbehave."""

    resumes = True
    stops_after = None  # bytes of a connection that breaks
    sends = CONTENT
    ranges: list[str | None] = []
    pause = staticmethod(lambda number: None)  # before a piece of request `number`

    def do_GET(self):
        self.ranges.append(self.headers.get("Range"))
        number = len(self.ranges)
        start = 0
        if self.resumes and self.headers.get("Range"):
            start = int(self.headers["Range"].removeprefix("bytes=").rstrip("-"))
        if start >= len(self.sends):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(self.sends) - start))
        self.end_headers()
        end = None if self.stops_after is None else start + self.stops_after
        body = self.sends[start:end]
        for place in range(0, len(body), 1 << 15):
            self.wfile.flush()
            self.pause(number)
            self.wfile.write(body[place : place + (1 << 15)])

    def log_message(self, *arguments):
        del arguments


@pytest.fixture
def server(monkeypatch):
    """The handler class, to be told how to misbehave; `url` is its address."""

    class Handler(Server):
        ranges: list[str | None] = []

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        Handler.url = f"http://127.0.0.1:{httpd.server_port}/some%20data.npz"
        thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
        thread.start()
        yield Handler
        httpd.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path, monkeypatch, server):
    """An empty data folder, and a manifest with one data set of one file."""
    list_file(monkeypatch, server.url)
    folder = tmp_path / "with spaces" / "data"
    monkeypatch.setenv(files.DATA_VARIABLE, str(folder))
    return folder / "mine"


def list_file(monkeypatch, url, digest=None, **more):
    digest = digest or hashlib.sha256(CONTENT).hexdigest()
    entry = File(file=NAME, sha256=digest, url=url, **more)
    monkeypatch.setattr(files, "manifest", lambda: {"mine": [entry]})


def test_missing_file_is_downloaded_once(folder, server):
    assert not files.is_present("mine")
    assert read_files("mine") == {NAME: CONTENT}
    assert files.is_present("mine")
    assert read_files("mine") == {NAME: CONTENT}
    assert server.ranges == [None]
    assert [path.name for path in folder.iterdir()] == [NAME]


def test_broken_connection_leaves_no_file_and_is_resumed(folder, server):
    server.stops_after = 100_000
    with pytest.raises(FileNotFoundError, match="after 100000 of 256000 bytes"):
        read_files("mine")
    assert not (folder / NAME).exists()
    assert not files.is_present("mine")
    server.stops_after = None
    assert read_files("mine") == {NAME: CONTENT}
    assert server.ranges == [None, "bytes=100000-"]
    assert [path.name for path in folder.iterdir()] == [NAME]


def test_server_that_does_not_resume_sends_all_again(folder, server):
    server.stops_after = 1000
    with pytest.raises(FileNotFoundError):
        read_files("mine")
    server.resumes, server.stops_after = False, None
    assert read_files("mine") == {NAME: CONTENT}


def test_part_that_is_complete_is_moved(folder, server):
    folder.mkdir(parents=True)
    (folder / f"{NAME}.part").write_bytes(CONTENT)
    assert read_files("mine") == {NAME: CONTENT}


@pytest.mark.parametrize("part", [b"", b"another version", CONTENT + b"more"])
def test_wrong_download_is_refused_and_removed(folder, server, part):
    server.sends = b"not " + CONTENT if not part else CONTENT
    folder.mkdir(parents=True)
    if part:
        (folder / f"{NAME}.part").write_bytes(part)
    with pytest.raises(ValueError, match="must have SHA-256 .* got"):
        read_files("mine")
    assert list(folder.iterdir()) == []


def test_kill_in_the_middle_leaves_no_file_in_place(folder, monkeypatch):
    def killed(*arguments):
        yield b"half"
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "_with_progress", killed)
    with pytest.raises(KeyboardInterrupt):
        read_files("mine")
    assert not (folder / NAME).exists()


# forks, as a start of its own takes seconds; in each round some processes fetch at once
FETCHERS = """
import os, sys
from pathlib import Path
from dsf_jax.data import files

url, digest, name, folder = sys.argv[1:5]
entry = files.File(file=name, sha256=digest, url=url)
files.manifest = lambda: {"mine": [entry]}

def fetch():
    try:
        files.read_files("mine")
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)

for number in range(int(sys.argv[5])):
    os.environ[files.DATA_VARIABLE] = f"{folder}/{number}"
    for _ in range(int(sys.argv[6])):
        if os.fork() == 0:
            fetch()
            os._exit(0)
    for _ in range(int(sys.argv[6])):
        os.wait()
"""


def fetchers(url, folder, *, num_rounds, num_processes):
    """A process that lets others fetch into `folder/<round>`; prints their errors."""
    digest = hashlib.sha256(CONTENT).hexdigest()
    arguments = (url, digest, NAME, str(folder), str(num_rounds), str(num_processes))
    command = [sys.executable, "-c", FETCHERS, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def leave_part(folder, number, length):
    """What a process left in round `number` that was killed."""
    folder = folder / str(number) / "mine"
    folder.mkdir(parents=True)
    if length:
        (folder / f"{NAME}.part").write_bytes(CONTENT[:length])
    return folder


def test_a_slow_process_does_not_write_to_what_another_one_has_verified(
    tmp_path, server
):
    is_asked, may_go_on = threading.Event(), threading.Event()

    def pause(number):
        if number == 1:
            is_asked.set()
            assert may_go_on.wait(60)

    server.pause = staticmethod(pause)
    folder = leave_part(tmp_path, 0, 100_000)
    one = {"num_rounds": 1, "num_processes": 1}
    with fetchers(server.url, tmp_path, **one) as slow:
        assert is_asked.wait(60)
        with fetchers(server.url, tmp_path, **one) as fast:
            assert fast.communicate(timeout=60) == ("", None)
        assert (folder / NAME).read_bytes() == CONTENT
        may_go_on.set()
        assert slow.communicate(timeout=60) == ("", None)
    assert (folder / NAME).read_bytes() == CONTENT
    assert [path.name for path in folder.iterdir()] == [NAME]


def test_processes_that_fetch_at_once_end_with_the_file(tmp_path, server):
    rng, num_rounds = random.Random(0), 20
    server.pause = staticmethod(lambda number: time.sleep(0.01 * rng.random()))
    lengths = (rng.randrange(len(CONTENT)) * (rng.random() < 0.7) for _ in range(1000))
    folders = [
        leave_part(tmp_path, number, length)
        for number, length in zip(range(num_rounds), lengths, strict=False)
    ]
    fetching = fetchers(server.url, tmp_path, num_rounds=num_rounds, num_processes=3)
    with fetching:
        assert fetching.communicate(timeout=300) == ("", None)
    for folder in folders:
        assert (folder / NAME).read_bytes() == CONTENT
        assert [path.name for path in folder.iterdir()] == [NAME]


def test_what_a_second_process_fetched_in_vain_is_removed(folder, server):
    server.stops_after = 1000
    folder.mkdir(parents=True)
    part = folder / f"{NAME}.part"
    with storage.open_alone(part):
        with pytest.raises(FileNotFoundError, match="after 1000 of"):
            read_files("mine")
        assert list(folder.iterdir()) == [part]
    assert part.read_bytes() == b""


def test_downloads_work_where_there_are_no_locks(folder, server, monkeypatch):
    monkeypatch.setattr("dsf_jax.storage.fcntl", None)
    assert read_files("mine") == {NAME: CONTENT}
    assert [path.name for path in folder.iterdir()] == [NAME]


def test_no_network_gives_one_line_that_says_what_to_put_where(folder, monkeypatch):
    url = "http://127.0.0.1:9/data.npz"  # nobody listens there
    list_file(monkeypatch, url)
    with pytest.raises(FileNotFoundError) as caught:
        read_files("mine")
    message = str(caught.value)
    assert str(folder / NAME) in message
    assert url in message
    assert files.DATA_VARIABLE in message
    assert "\n" not in message


def test_not_found_is_reported(folder, server, monkeypatch):
    server.do_GET = lambda self: self.send_error(404)
    with pytest.raises(FileNotFoundError, match="Not Found"):
        read_files("mine")


def test_folder_that_cannot_be_made(folder, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv(files.DATA_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(FileNotFoundError, match="is missing and could not be"):
        read_files("mine")


def test_read_only_folder_serves_what_it_has(folder, server):
    read_files("mine")
    (folder / NAME).chmod(0o444)
    folder.chmod(0o555)
    try:
        assert read_files("mine") == {NAME: CONTENT}
    finally:
        folder.chmod(0o755)


@pytest.mark.parametrize("damaged", [b"", CONTENT[:-1], CONTENT[::-1]])
def test_damaged_file_is_refused_and_kept(folder, server, damaged):
    folder.mkdir(parents=True)
    (folder / NAME).write_bytes(damaged)
    with pytest.raises(ValueError, match="must have SHA-256 .* replace it by"):
        read_files("mine")
    assert (folder / NAME).read_bytes() == damaged
    assert server.ranges == []


def test_repacked_file_may_be_the_one_upstream(folder, server, monkeypatch):
    # git hash-object of CONTENT
    blob = hashlib.sha1(b"blob 256000\0" + CONTENT).hexdigest()
    upstream = {"repacked": True, "upstream_git_blob_sha1": blob}
    list_file(monkeypatch, server.url, digest="0" * 64, **upstream)
    assert read_files("mine") == {NAME: CONTENT}
    upstream["upstream_git_blob_sha1"] = "0" * 40
    list_file(monkeypatch, server.url, digest="0" * 64, **upstream)
    with pytest.raises(ValueError, match="must have SHA-256"):
        read_files("mine")


def test_progress_bar_is_drawn_on_a_terminal(folder, server, monkeypatch, capfd):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes any stream as a terminal
    read_files("mine")
    captured = capfd.readouterr()
    assert NAME in captured.err
    assert captured.out == ""


def test_nothing_is_printed_elsewhere(folder, server, capfd):
    read_files("mine")
    assert capfd.readouterr() == ("", "")


def test_folders(monkeypatch, tmp_path):
    monkeypatch.delenv(files.DATA_VARIABLE, raising=False)
    monkeypatch.setenv(storage.CACHE_VARIABLE, str(tmp_path))
    assert files.data_folder() == tmp_path / "data"
    monkeypatch.setenv(files.DATA_VARIABLE, str(tmp_path / "own"))
    assert files.data_folder() == tmp_path / "own"
