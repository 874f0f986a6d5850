"""How the package hangs together: imports, layers, and the walk of one epoch.

    python benchmarks/house.py

Prints one JSON line: modules, imports between them and across rooms, the longest chain
of imports, modules with a single user (a door that publishes names of a module counts
as one), modules that one epoch of DSF-GPR-R passes and how often it goes from one to
another while it is traced, lines of code without docstrings of the core, and functions
with long bodies. The core is all that training needs, from the graph to `train`; the
writer of files, `storage`, is not part of it. Constructors that are generated, which
JAX calls whenever it takes a pytree apart, are no steps of the walk.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from common import print_case

PACKAGE = Path(__file__).parent.parent / "dsf_jax"
CORE = ("graph", "ops", "bases", "filters", "ipe", "models", "engine", "train")


def read_modules() -> dict[str, ast.Module]:
    """Every module by its dotted name, doors left out."""
    paths = (path for path in PACKAGE.rglob("*.py") if not path.stem.startswith("__"))
    return {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): ast.parse(
            path.read_text()
        )
        for path in paths
    }


def imports_of(tree: ast.Module, modules: set[str]) -> Iterator[str]:
    """Modules that a module imports, at its top or later."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module in modules:
                yield node.module
            for alias in node.names:
                if f"{node.module}.{alias.name}" in modules:
                    yield f"{node.module}.{alias.name}"


def room_of(module: str) -> str:
    """First part after the package."""
    return module.split(".")[1]


def count_layers(arrows: dict[str, set[str]]) -> int:
    """Modules on the longest chain of imports."""

    @cache
    def height(module: str) -> int:
        return 1 + max((height(other) for other in arrows[module]), default=0)

    return max(height(module) for module in arrows)


def code_lines(tree: ast.Module, text: str) -> int:
    """Lines that are neither blank, comment nor docstring."""
    skipped = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            first = body[0]
            if isinstance(first.value, ast.Constant) and isinstance(
                first.value.value, str
            ):
                skipped |= set(range(first.lineno, first.end_lineno + 1))
    return sum(
        bool(line.strip()) and not line.strip().startswith("#")
        for number, line in enumerate(text.splitlines(), 1)
        if number not in skipped
    )


def body_lengths(tree: ast.Module) -> Iterator[int]:
    """Lines of the body of every function, its docstring left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            if body:
                yield body[-1].end_lineno - body[0].lineno + 1


def walk_of_an_epoch() -> tuple[int, int]:
    """Modules that tracing one epoch calls into, and changes from one to another."""
    import jax
    import jax.numpy as jnp

    from dsf_jax import MODELS, Graph, HyperParams
    from dsf_jax.train import Jobs, TrainConfig, TrainData, init_state, train_epoch

    model, train_config = MODELS["dsf-gpr-r"], TrainConfig(num_classes=2)
    edge, mask = Graph.from_edges([(0, 1)], num_nodes=2), jnp.ones((1, 2), dtype=bool)
    inputs = model.make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)))
    data = TrainData(inputs, jnp.asarray([0, 1]), mask, mask, mask)
    job = Jobs(jax.random.key(0), jnp.asarray(0), HyperParams())
    configs = {"model": model, "train_config": train_config}
    state = init_state(job, data, **configs)
    flags = model.flags(job.hparams)
    visited: list[str] = []

    def follow(frame: Any, event: str, _: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        is_written = frame.f_code.co_filename.endswith(".py")
        if event in ("call", "return") and name.startswith("dsf_jax.") and is_written:
            visited.append(name)

    jax.clear_caches()
    sys.setprofile(follow)
    try:
        jax.make_jaxpr(partial(train_epoch, **configs))(state, job, data, flags)
    finally:
        sys.setprofile(None)
    changes = sum(a != b for a, b in zip(visited, visited[1:], strict=False))
    return len(set(visited)), changes


def main() -> None:
    """Count and print."""
    trees = read_modules()
    names = set(trees)
    arrows = {name: set(imports_of(tree, names)) for name, tree in trees.items()}
    users = defaultdict(set)
    for name, others in arrows.items():
        for other in others:
            users[other].add(name)
    for door in PACKAGE.rglob("__init__.py"):
        for other in imports_of(ast.parse(door.read_text()), names):
            users[other].add(str(door))
    across = [
        (a, b) for a, bs in arrows.items() for b in bs if room_of(a) != room_of(b)
    ]
    core = [name for name in names if room_of(name) in CORE]
    texts = {
        name: (PACKAGE.parent / f"{name.replace('.', '/')}.py").read_text()
        for name in core
    }
    lengths = [length for tree in trees.values() for length in body_lengths(tree)]
    modules, changes = walk_of_an_epoch()
    print_case(
        modules=len(names),
        imports=sum(map(len, arrows.values())),
        imports_across_rooms=len(across),
        layers=count_layers(arrows),
        modules_with_one_user=sum(len(users[name]) == 1 for name in names),
        epoch_modules=modules,
        epoch_module_changes=changes,
        core_code_lines=sum(code_lines(trees[name], texts[name]) for name in core),
        bodies_over_40=sum(length > 40 for length in lengths),
        bodies_over_60=sum(length > 60 for length in lengths),
    )


if __name__ == "__main__":
    main()
