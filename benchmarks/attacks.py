"""Break the files: kills, two processes at once, and bytes that nobody has written.

    python benchmarks/attacks.py --kills 70 --pairs 50 --inputs 110000

Prints one JSON line per attack: how often it was tried, and how much was lost (a row
that had been reported as kept, and is gone) or broken (a file that can no longer be
read, a process that ended otherwise than well or with one line, an input that crashed
a reader, took ten seconds, a gigabyte, or raised anything but `ValueError`). Ends with
status 1 if there was any. Training is replaced by made-up scores: files are attacked.
"""

import argparse
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import optuna
from common import note, print_case
from fuzzing import Target, mutate, targets

from dsf_jax.data.dataset import Dataset
from dsf_jax.data.synthetic import regions
from dsf_jax.engine.grid import Progress
from dsf_jax.engine.metrics import Summary
from dsf_jax.experiments import evaluation, search
from dsf_jax.experiments.fitting import fit, save
from dsf_jax.graph.graph import Graph
from dsf_jax.models.settings import HyperParams
from dsf_jax.storage import append_line, parse_lines, read_lines, write_json
from dsf_jax.train import JobResults, Jobs

MAX_SECONDS, MAX_BYTES = 10, 1 << 30
NUM_JOBS = 30  # of an evaluation; rows of a table
NUM_TRIALS = 15  # of a search
FACTS = {
    **{"precision": "float32", "device": "none", "num_devices": 1},
    "versions": {"dsf_jax": "0", "jax": "0"},
}
FEW = {"epochs": 3, "patience": 2, "lanes": 2}

Report = Callable[[int], None]  # that so many rows are kept


class Attacked(NamedTuple):
    """Something that writes a file bit by bit, and goes on where it was."""

    run: Callable[[Path, Report], None]  # to its end
    count: Callable[[Path], int]  # rows that are kept, as another process sees them
    most: int


def make_up_results(jobs: Jobs, *args: Any, on_progress: Any, **options: Any) -> None:
    """In the place of `run_grid`: a score for each job, reported one by one."""
    num_jobs = len(jobs.split)
    for job in range(num_jobs):
        time.sleep(0.0005)
        one = np.full(1, 0.5)
        results = JobResults(
            one, one, *[np.ones(1, dtype=int)] * 2, one, one, one > 0, params=None
        )
        on_progress(
            Progress(
                *(np.asarray([job]), results, job + 1, num_jobs),
                *(1, 0.5, 1.0, 0.0, 0.0),
            )
        )


def replace_training() -> None:
    """Let evaluations and searches do all they do, except to train."""
    numbers = Jobs(np.arange(NUM_JOBS), np.arange(NUM_JOBS), None)  # type: ignore[arg-type]
    for module in (evaluation, search):
        module.run_grid = make_up_results
        module.prepare = lambda *args, **options: None
        module.environment = lambda: FACTS
    evaluation.grid_jobs = lambda *args, **options: numbers
    evaluation.summarise = lambda *args: Summary(0.5, 0.0, 0.0, NUM_JOBS)  # type: ignore[arg-type]
    evaluation.jnp = np  # type: ignore[assignment]
    search.jax = SimpleNamespace(random=SimpleNamespace(key=int))  # type: ignore[assignment]
    search._jobs = lambda found, numbers, settings: Jobs(  # type: ignore[assignment]
        None, np.zeros(len(numbers) * found.num_splits), None
    )


def path_of_nodes(num_nodes: int = 60) -> Dataset:
    """A data set in NumPy alone: a process starts in no time without JAX."""
    left, right = np.arange(num_nodes - 1), np.arange(1, num_nodes)
    graph = Graph(
        senders=np.concatenate([left, right]),
        receivers=np.concatenate([right, left]),
        weights=np.ones(2 * num_nodes - 2),
        cleaning=None,  # type: ignore[arg-type]
        num_nodes=num_nodes,
    )
    labels = np.arange(num_nodes) % 2
    return Dataset("path", graph, np.eye(num_nodes, dtype=np.float32), labels)


def run_evaluation(path: Path, report: Report) -> None:
    """An evaluation with a journal."""
    before = count_jobs(path) if path.exists() else 0
    evaluation.evaluate(
        *(path_of_nodes(), "gpr", HyperParams()),
        **{"num_splits": 3, "num_seeds": NUM_JOBS // 3, **FEW},
        journal=path,
        on_progress=lambda progress: report(before + progress.num_done),
    )


def count_jobs(path: Path) -> int:
    """Jobs of a journal; each of them once."""
    rows, _ = parse_lines(path.read_bytes())
    jobs = [row["job"] for row in rows if "job" in row]
    assert len(set(jobs)) == len(jobs)
    return len(jobs)


def run_search(path: Path, report: Report) -> None:
    """A search with its study."""
    search.tune(
        *(path_of_nodes(), "gpr"),
        **{"num_trials": NUM_TRIALS, "num_splits": 1, "num_finalists": 0, **FEW},
        storage=path,
        on_progress=lambda progress: report(progress.num_done),
    )


def count_trials(path: Path) -> int:
    """Finished trials of a study."""
    rows, _ = parse_lines(path.read_bytes())
    return sum(row["op_code"] == 6 and row.get("state") == 1 for row in rows)


def run_table(path: Path, report: Report) -> None:
    """Records that are appended one by one, of nine kilobytes each."""
    for _ in range(count_rows(path), NUM_JOBS):
        append_line(path, {"test": [[84.123]] * 900})
        report(count_rows(path))


def count_rows(path: Path) -> int:
    """Records of a table."""
    return len(parse_lines(path.read_bytes())[0]) if path.exists() else 0


ATTACKED = {
    "evaluate": Attacked(run_evaluation, count_jobs, NUM_JOBS),
    "tune": Attacked(run_search, count_trials, NUM_TRIALS),
    "table": Attacked(run_table, count_rows, NUM_JOBS),
}


def start(call: Callable[[], None]) -> tuple[int, int]:
    """A process of its own: its number, and a pipe with what it prints."""
    reader, writer = os.pipe()
    if (process := os.fork()) == 0:
        os.dup2(writer, 1)
        try:
            call()
        except ValueError as error:
            print(f"refused: {error}", flush=True)
        except BaseException as error:
            print(f"failed: {type(error).__name__}: {error}", flush=True)
        os._exit(0)
    os.close(writer)
    return process, reader


def save_one(path: Path) -> None:
    """A file of parameters, by another process: one that has used JAX must not fork."""

    def run() -> None:
        save(path, fit(regions(60), "gpr", epochs=1))

    process, reader = start(run)
    note(read_all(reader) or "saved parameters")
    os.waitpid(process, 0)


def read_all(reader: int) -> str:
    """What is in a pipe until its end."""
    with os.fdopen(reader, "rb") as pipe:
        return pipe.read().decode()


def kill_again_and_again(name: str, attacked: Attacked, num_kills: int) -> int:
    """Kill one that writes at any moment; go on; nothing that was kept may go."""
    rng, faults, kills = random.Random(name), [], 0
    while kills < num_kills:
        folder = Path(tempfile.mkdtemp(prefix="attacks-"))
        path, kept = folder / "file", 0
        while True:
            process, reader = start(partial(attacked.run, path, _say))
            # the next row is written when a few have been reported
            wanted, text = rng.randrange(1, 5), b""
            while text.count(b"\n") < wanted and (piece := os.read(reader, 4096)):
                text += piece
            time.sleep(rng.random() * 0.002)
            os.kill(process, signal.SIGKILL)
            text += read_all(reader).encode()
            _, status = os.waitpid(process, 0)
            lines = text.decode().splitlines()
            told = [line for line in lines if not line.isdigit()]
            reported = [int(line) for line in lines if line.isdigit()]
            is_killed = os.WIFSIGNALED(status)
            kills += is_killed
            try:
                found = attacked.count(path) if path.exists() else 0
                had = (
                    kept + len(reported)
                    if name == "evaluate"
                    else max(reported, default=0)
                )
                if found < max(kept, had):
                    faults.append(f"{had} reported, {found} found")
                kept = found
            except Exception as error:
                faults.append(f"{type(error).__name__}: {error}")
            faults += told
            if faults or not is_killed or kills >= num_kills:
                break
        process, reader = start(partial(attacked.run, path, _say))
        faults += [line for line in read_all(reader).splitlines() if not line.isdigit()]
        os.waitpid(process, 0)
        if not path.exists() or attacked.count(path) != attacked.most:
            faults.append("not complete in the end")
        left = [file.name for file in folder.iterdir() if file != path]
        faults += [f"left over: {name}" for name in left]
        if len(faults) > 20:
            break
    return _print(f"kill {name}", kills, faults)


def _say(count: int) -> None:
    os.write(1, b"%d\n" % count)


def start_pairs(name: str, attacked: Attacked, num_pairs: int) -> int:
    """Two at once on one file: both end well, or one is told in one line."""
    faults, refusals = [], 0
    for _ in range(num_pairs):
        path = Path(tempfile.mkdtemp(prefix="attacks-")) / "file"
        run = partial(attacked.run, path, lambda count: None)
        for process, reader in [start(run), start(run)]:
            for line in read_all(reader).splitlines():
                is_told = line.startswith("refused: ") and "one" in line
                refusals += is_told
                faults += [] if is_told else [line]
            os.waitpid(process, 0)
        try:
            if (found := attacked.count(path)) < attacked.most:
                faults.append(f"{found} of {attacked.most}")
        except Exception as error:
            faults.append(f"{type(error).__name__}: {error}")
        process, reader = start(run)  # it can go on
        faults += read_all(reader).splitlines()
        os.waitpid(process, 0)
    return _print(f"two at once: {name}", num_pairs, faults, refused=refusals)


def write_records(path: Path, report: Report) -> None:
    """A record that is written again and again."""
    for number in range(20):
        write_json(path, {"number": number, "fill": "x" * 50_000})
        assert len(read_lines(path)) == 1


def fuzz(name: str, target: Target, num_inputs: int) -> int:
    """Inputs that are nearly whole, in a process of its own."""

    def run() -> None:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, 2)
        signal.signal(signal.SIGALRM, _stop)
        rng, kinds = random.Random(name), dict.fromkeys(("read", "refused"), 0)
        change = target.rebuild or mutate
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in range(num_inputs):
            content = change(rng.choice(target.wholes), rng)
            signal.alarm(MAX_SECONDS)
            try:
                target.read(content)
                kinds["read"] += 1
            except ValueError:
                kinds["refused"] += 1
            except BaseException as error:
                text = " ".join(f"{type(error).__name__}: {error}".split())
                print(f"input {number}: {text[:200]}", flush=True)
            signal.alarm(0)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if (after - before) * 1024 > MAX_BYTES:
            print(f"{(after - before) // 1024} MB", flush=True)
        print(f"counts: {kinds['read']} {kinds['refused']}", flush=True)

    began = time.monotonic()
    process, reader = start(run)
    lines = read_all(reader).splitlines()
    _, status = os.waitpid(process, 0)
    faults = [line for line in lines if not line.startswith("counts: ")]
    if os.WIFSIGNALED(status):
        faults.append(f"ended by signal {os.WTERMSIG(status)}")
    counts = [line.split()[1:] for line in lines if line.startswith("counts: ")]
    num_read, num_refused = map(int, counts[0]) if counts else (0, 0)
    return _print(
        *(f"fuzz {name}", num_inputs, faults),
        read=num_read,
        refused=num_refused,
        seconds=time.monotonic() - began,
    )


def _stop(number: int, frame: Any) -> None:
    raise TimeoutError(f"more than {MAX_SECONDS} s")


def _print(attack: str, tries: int, faults: list[str], **more: Any) -> int:
    for fault in faults[:5]:
        note(f"{attack}: {fault}")
    print_case(attack=attack, tries=tries, lost_or_broken=len(faults), **more)
    return len(faults)


def main() -> None:
    """Run all attacks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=70, help="of each kind")
    parser.add_argument("--pairs", type=int, default=50, help="of each kind")
    parser.add_argument("--inputs", type=int, default=110_000, help="in all")
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        readers = targets(save_one) if arguments.inputs else {}
        replace_training()
        for name, attacked in ATTACKED.items():
            if arguments.kills:
                faults += kill_again_and_again(name, attacked, arguments.kills)
            if arguments.pairs:
                faults += start_pairs(name, attacked, arguments.pairs)
        if arguments.pairs:
            records = Attacked(write_records, count_rows, 1)
            faults += start_pairs("write a record", records, arguments.pairs)
        for name, target in readers.items():
            faults += fuzz(name, target, -(-arguments.inputs * target.share // 100))
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
