"""A bounded version of `benchmarks/attacks.py`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [("--kills", "4", "--pairs", "2", "--inputs", "0"), ("--inputs", "2000")],
    ids=["processes", "inputs"],
)
def test_files_stand_what_attacks_them(arguments):
    command = [sys.executable, "attacks.py", "--kills", "0", "--pairs", "0", *arguments]
    ended = subprocess.run(
        command, cwd=ROOT / "benchmarks", capture_output=True, text=True, timeout=600
    )
    assert ended.returncode == 0, ended.stderr
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(rows) >= 7
    assert all(row["tries"] > 0 and row["lost_or_broken"] == 0 for row in rows)
