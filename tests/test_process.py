"""What is set for a whole process."""

import os
import subprocess
import sys

import pytest

from dsf_jax.cli import shared
from dsf_jax.data.synthetic import regions

SCRIPT = """
import os, pathlib, sys
from dsf_jax.engine import process
process.PAGES = pathlib.Path(sys.argv[1])
process.use_huge_pages()
print(os.environ.get("GLIBC_TUNABLES"), sys.argv[2:])
"""


@pytest.mark.parametrize(
    ("offered", "before", "after"),
    [
        ("always [madvise] never", None, "glibc.malloc.hugetlb=1"),
        (
            "always [madvise] never",
            "glibc.malloc.arena_max=2",
            "glibc.malloc.arena_max=2:glibc.malloc.hugetlb=1",
        ),
        ("always [madvise] never", "glibc.malloc.hugetlb=0", "glibc.malloc.hugetlb=0"),
        ("[always] madvise never", None, "None"),
        ("always madvise [never]", None, "None"),
    ],
)
def test_a_program_starts_anew_once_with_huge_pages(tmp_path, offered, before, after):
    pages = tmp_path / "enabled"
    pages.write_text(offered)
    own = {key: value for key, value in os.environ.items() if key != "GLIBC_TUNABLES"}
    own |= {} if before is None else {"GLIBC_TUNABLES": before}
    command = [sys.executable, "-c", SCRIPT, str(pages), "a b", "c"]
    printed = subprocess.check_output(command, env=own, text=True)
    assert printed == f"{after} ['a b', 'c']\n"


@pytest.mark.parametrize(
    ("program", "least", "is_anew"),
    [
        ("/bin/dsf-jax", 60, True),
        ("/lib/dsf_jax/__main__.py", 60, True),
        ("/bin/dsf-jax", 61, False),
        ("/dsf_jax/bin/pytest", 60, False),  # a test, a notebook, a script of a user
    ],
)
def test_only_the_command_line_starts_anew(monkeypatch, program, least, is_anew):
    calls = []
    monkeypatch.setattr(shared, "use_huge_pages", lambda: calls.append(1))
    monkeypatch.setattr(shared, "LARGE", least)
    monkeypatch.setattr("sys.argv", [program, "evaluate"])
    shared.start_anew_if_large(regions(60))
    assert bool(calls) == is_anew
