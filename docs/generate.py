"""Pages that are made from the program: tutorials, the command line, the gallery."""

import shutil
import subprocess
import sys
from pathlib import Path

from typer.main import get_group
from typer.testing import CliRunner

from dsf_jax.cli.main import app

ROOT = Path(__file__).parent.parent
_WIDTH = {"COLUMNS": "80", "TERMINAL_WIDTH": "80", "NO_COLOR": "1"}


def write_pages(folder: Path) -> None:
    """Write all of them; the gallery is trained once and then kept."""
    (folder / "gallery").mkdir(parents=True, exist_ok=True)
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        shutil.copyfile(notebook, folder / notebook.name)
    (folder / "command_line.md").write_text(command_line(), encoding="utf-8")
    regions = folder / "gallery" / "gallery" / "regions"
    if not (regions / "index.html").exists():
        regions.mkdir(parents=True, exist_ok=True)
        explain_regions(regions)


def command_line() -> str:
    """The help of every command."""
    parts = [
        "# Command line\n\n`dsf-jax`, or `python -m dsf_jax`. The exit status is 0 on "
        "success and 2 on a mistake in the\narguments, which one line names.\n"
    ]
    for command in get_group(app).commands:
        asked = {"args": [command, "--help"], "prog_name": "dsf-jax"}
        text = CliRunner(env=_WIDTH).invoke(app, **asked).output
        lines = "\n".join(line.rstrip() for line in text.strip().splitlines())
        parts.append(f"## {command}\n\n```text\n{lines}\n```\n")
    return "\n".join(parts)


def explain_regions(folder: Path) -> None:
    """The page of a model that is trained in seconds."""
    arguments = ("--dataset", "regions", "--out", str(folder), "--epochs", "150")
    options = ("--set", "f_p=2", "--method", "pca")
    subprocess.run(
        [sys.executable, "-m", "dsf_jax", "explain", *arguments, *options],
        check=True,
        stdout=subprocess.DEVNULL,
    )


if __name__ == "__main__":
    write_pages(Path(__file__).parent / "generated")
