"""The package as a whole: public names, direction of imports, command line."""

import ast
import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dsf_jax
from dsf_jax.cli import app

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "dsf_jax"

# a module may import only from modules before it
ORDER = [
    "files",
    "graph",
    "lanes",
    "csr",
    "twins",
    "sparse",
    "locality",
    "spectrum",
    "eigen",
    "positional",
    "netmf",
    "features",
    "edges",
    "recurrence",
    "weighted",
    "bases",
    "filters",
    "correlation",
    "ipe",
    "settings",
    "params",
    "dropout",
    "losses",
    "models",
    "diversity",
    "baselines.network",
    "baselines.spectral",
    "baselines.attention",
    "baselines.pa_gnn",
    "baselines.model",
    "baselines",
    "interface",
    "metrics",
    "intervals",
    "queue",
    "optimizer",
    "train",
    "grid",
    "splits",
    "datasets",
    "synthetic",
    "formats",
    "catalog",
    "presets",
    "records",
    "evaluation",
    "spaces",
    "tune",
    "fit",
    "saved",
    "explain",
    "layout",
    "plots",
    "page",
    "report",
    "cli_shared",
    "cli_data",
    "cli_run",
    "cli_explain",
    "cli",
]


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


def test_contributing_names_the_modules_in_this_order():
    text = " ".join((ROOT / "CONTRIBUTING.md").read_text().split())
    listed = [name for name in ORDER if not name.startswith("baselines.")]
    assert f"`{', '.join(listed)}`" in text


def test_imports_point_to_the_left():
    modules = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        modules[name.removesuffix(".__init__")] = path
    modules.pop("__init__")
    modules.pop("__main__")
    assert set(modules) == set(ORDER)
    for module, path in modules.items():
        imported = {
            node.module.removeprefix("dsf_jax.")
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and node.module
            if node.module.startswith("dsf_jax.")
        }
        for other in imported:
            assert ORDER.index(other) < ORDER.index(module), f"{module} -> {other}"


def test_equations_page_names_functions_that_exist():
    page = (ROOT / "docs" / "equations.md").read_text()
    names = re.findall(r"`dsf_jax\.(\w+)\.(\w+)`", page)
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
    code = "import sys, dsf_jax.cli; print(*sys.modules)"
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
