"""The package as a whole: public names, direction of imports, command line."""

import ast
import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dsf_jax
from dsf_jax.cli.main import app

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "dsf_jax"

# a module may import only from modules before it
# A room imports from those before it and from itself; train.py and engine are one room.
ROOMS = (
    ("storage",),
    ("graph",),
    ("data",),
    ("ops",),
    ("bases",),
    ("filters",),
    ("ipe",),
    ("models",),
    ("engine", "train"),
    ("experiments",),
    ("explain",),
    ("cli",),
)


def test_public_names_are_sorted_and_exist():
    assert sorted(dsf_jax.__all__) == dsf_jax.__all__
    for name in dsf_jax.__all__:
        assert hasattr(dsf_jax, name)


@pytest.mark.parametrize("name", dsf_jax.__all__)
def test_public_names_have_a_docstring_and_an_example(name):
    value = getattr(dsf_jax, name)
    if isinstance(value, dsf_jax.Basis | dict | tuple):
        return  # a constant: described beside its definition, exampled by its users
    assert value.__doc__
    examples = [
        example
        for found in doctest.DocTestFinder(recurse=True).find(value)
        for example in found.examples
    ]
    assert examples, f"{name} has no example"


def imported_rooms(path):
    """Rooms that a module imports from, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            package, _, rest = node.module.partition(".")
            if package == "dsf_jax":
                yield rest.partition(".")[0]


def test_a_room_imports_only_from_rooms_before_it():
    place = {name: i for i, names in enumerate(ROOMS) for name in names}
    seen = set()
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).with_suffix("").parts[0]
        if room in ("__init__", "__main__"):
            continue
        seen.add(room)
        for other in imported_rooms(path):
            assert other, f"{path.name} imports from the top level"
            assert place[other] <= place[room], f"{path}: {room} -> {other}"
    assert seen == set(place)


def test_contributing_names_the_rooms_in_this_order():
    text = " ".join((ROOT / "CONTRIBUTING.md").read_text().split())
    listed = ", ".join(name for names in ROOMS for name in names)
    assert f"`{listed}`" in text


def test_every_room_has_a_door():
    for folder in PACKAGE.rglob("__init__.py"):
        text = ast.get_docstring(ast.parse(folder.read_text()))
        assert text, f"{folder} does not say what lives there"


def test_no_public_name_shadows_a_module():
    for door in PACKAGE.rglob("__init__.py"):
        package = ".".join(door.parent.relative_to(ROOT).parts)
        modules = {path.stem for path in door.parent.glob("*.py")}
        names = getattr(importlib.import_module(package), "__all__", [])
        assert not modules & set(names), package


def test_equations_page_names_functions_that_exist():
    page = (ROOT / "docs" / "equations.md").read_text()
    names = re.findall(r"`dsf_jax\.([\w.]+)\.(\w+)`", page)
    assert names
    for module, name in names:
        imported = __import__(f"dsf_jax.{module}", fromlist=[name])
        assert hasattr(imported, name), f"dsf_jax.{module}.{name}"
    for test, function in re.findall(r"`(test_\w+\.py)::(\w+)`", page):
        text = (ROOT / "tests" / test).read_text()
        assert f"def {function}(" in text, f"{test}::{function}"


def test_readme_examples_run():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert len(blocks) == 3
    namespace: dict[str, object] = {}
    for block in blocks:  # in one session, as a reader would
        exec(block, namespace)
    assert namespace["curves"].shape == (5, 101)


def test_import_is_light():
    code = "import sys, dsf_jax.cli.main; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    for heavy in ("matplotlib", "sklearn", "plotly", "igraph", "networkx", "pandas"):
        assert heavy not in loaded


def test_module_runs_as_a_program():
    finished = subprocess.run(
        [sys.executable, "-m", "dsf_jax", "--version"], capture_output=True, text=True
    )
    assert finished.returncode == 0
    assert finished.stdout == f"dsf-jax {dsf_jax.__version__}\n"


def test_unknown_command_is_a_user_mistake():
    result = CliRunner().invoke(app, ["evaluat"])
    assert result.exit_code == 2
