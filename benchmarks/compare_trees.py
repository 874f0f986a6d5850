"""Is an epoch faster in this tree than in another one? Both by turns, as machines vary.

    git worktree add ../before HEAD~1
    python benchmarks/compare_trees.py ../before --dataset pubmed --epochs 20 --turns 4

Runs `benchmarks/epoch.py` of the other tree and of this one in turns, with the same
arguments, and prints one JSON line: the median of new over old, turn by turn, and the
milliseconds per epoch and run of each.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from common import note, print_case

HERE = Path(__file__).parent.parent


def ms_per_epoch_run(tree: Path, options: list[str]) -> float:
    """As `benchmarks/epoch.py` of that tree has it."""
    command = [sys.executable, "benchmarks/epoch.py", *options]
    environment = os.environ | {"PYTHONPATH": str(tree.resolve())}
    output = subprocess.check_output(command, cwd=tree, env=environment, text=True)
    return float(json.loads(output.splitlines()[-1])["ms_per_epoch_run"])


def main() -> None:
    """Parse the arguments and run both."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("other", type=Path, help="a folder with the other tree")
    parser.add_argument("--turns", type=int, default=4)
    arguments, options = parser.parse_known_args()  # the rest is for epoch.py
    pairs = []
    for turn in range(arguments.turns):
        note(f"turn {turn + 1} of {arguments.turns}")
        pairs.append([ms_per_epoch_run(t, options) for t in (arguments.other, HERE)])
    old, new = np.asarray(pairs).T
    print_case(
        options=" ".join(options),
        ratio=float(np.median(new / old)),
        old_ms=old.tolist(),
        new_ms=new.tolist(),
    )


if __name__ == "__main__":
    main()
