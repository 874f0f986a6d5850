"""The package as a whole: public names, direction of imports, command line."""

import ast
import configparser
import dataclasses
import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import dsf_jax
from dsf_jax.bases import evaluate_basis
from dsf_jax.cli.main import app
from dsf_jax.experiments.presets import default_settings
from dsf_jax.experiments.spaces import space_of
from tests.graphs import write_graph

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


def test_public_names_are_few_sorted_and_exist():
    assert sorted(dsf_jax.__all__) == dsf_jax.__all__
    flat = [
        n for n in dsf_jax.__all__ if not isinstance(vars(dsf_jax)[n], types.ModuleType)
    ]
    assert len(flat) <= 35
    for name in dsf_jax.__all__:
        assert hasattr(dsf_jax, name)


@pytest.mark.parametrize("name", dsf_jax.__all__)
def test_public_names_have_a_docstring_and_an_example(name):
    value = getattr(dsf_jax, name)
    if isinstance(value, dsf_jax.Basis | dict | tuple | types.ModuleType):
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


def test_what_contributing_shows_works_from_outside():
    """Its basis, backbone and baseline, line by line, in no file of the package."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    basis, backbone, baseline = re.findall(r"```python\n(.*?)```", text, re.S)
    rooms = ("bases", "models", "models.layers", "models.model", "ops")
    namespace = {"dataclasses": dataclasses, "jax": jax, "np": np}
    for room in rooms:
        namespace |= vars(importlib.import_module(f"dsf_jax.{room}"))
    exec(basis, namespace)
    values = evaluate_basis(namespace["powers"], jnp.asarray([1.0, 2.0]), 2)
    np.testing.assert_allclose(values, [[1, 1], [0.5, 1], [0.25, 1]], atol=1e-12)
    exec(f"row = {{{backbone}}}", namespace)
    exec(baseline, namespace)
    (own,) = namespace["row"].values()
    models = (
        dsf_jax.diverse(own),
        dsf_jax.diverse(own, dsf_jax.positional("R")),
        namespace["OneHop"](),
    )
    few = {"num_splits": 1, "num_seeds": 2, "epochs": 3, "lanes": 1}
    for model in models:
        settings = default_settings(model)
        record = dsf_jax.evaluate(dsf_jax.regions(60), model, settings, **few)
        assert record["num_finite"] == 2
        assert set(space_of(model)) == model.reads


def test_the_page_of_settings_is_the_table():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        page = importlib.import_module("settings_page").render()
    finally:
        sys.path.pop(0)
    assert (ROOT / "docs" / "settings.md").read_text() == page


def test_a_wheel_has_every_file_of_the_package():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = {
        f"{package.replace('.', '/')}/{name}"
        for package, names in config["options.package_data"].items()
        for name in names.split()
    }
    found = {
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("*.*")
        if path.suffix not in (".py", ".pyc")
    }
    assert found == listed


def test_every_room_has_a_door():
    for folder in PACKAGE.rglob("__init__.py"):
        text = ast.get_docstring(ast.parse(folder.read_text()))
        assert text, f"{folder} does not say what lives there"


def test_no_public_name_shadows_a_module():
    for door in PACKAGE.rglob("__init__.py"):
        package = ".".join(door.parent.relative_to(ROOT).parts)
        modules = {path.stem for path in door.parent.glob("*.py")}
        opened = importlib.import_module(package)
        for name in getattr(opened, "__all__", []):  # those on demand, too
            value = getattr(opened, name)
            assert name not in modules or isinstance(value, types.ModuleType), name
        with pytest.raises(AttributeError, match="no_such_name"):
            opened.no_such_name  # noqa: B018


def test_equations_page_names_functions_that_exist():
    page = (ROOT / "docs" / "equations.md").read_text()
    names = re.findall(r"`(dsf_jax\.[\w.]+)`", page)
    assert names
    for name in names:
        assert pkgutil.resolve_name(name) is not None
    for test, function in re.findall(r"`(test_\w+\.py)::(\w+)`", page):
        text = (ROOT / "tests" / test).read_text()
        assert f"def {function}(" in text, f"{test}::{function}"


@pytest.mark.parametrize(
    ("page", "num_blocks", "num_curves"),
    [("README.md", 2, 60), ("docs/howto/functions.md", 4, 5)],
)
def test_examples_of_readme_and_site_run(
    page, num_blocks, num_curves, monkeypatch, tmp_path
):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    assert len(blocks) == num_blocks
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    write_graph(tmp_path / "mygraph")
    namespace: dict[str, object] = {}
    for block in blocks:  # in one session, as a reader would
        exec(block, namespace)
    curves = namespace.get("curves")
    found = namespace["filters"].curves if curves is None else curves
    assert found.shape == (num_curves, 101)


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
