"""Fixtures, and the rules for tests on real data."""

import os
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.graphs import GRAPHS
from tests.training import make_problem

DATA_VARIABLE = "DSF_JAX_DATA"
MAPS = Path("/proc/self/maps")
MOST_MAPS = 20_000  # Linux ends a process that asks for more than 65,530


@pytest.fixture(params=GRAPHS)
def graph(request):
    """Each of the small test graphs in turn."""
    return GRAPHS[request.param]


@pytest.fixture(autouse=True)
def private_cache(tmp_path_factory, monkeypatch):
    """No test reads or writes the user's cache."""
    folder = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("DSF_JAX_CACHE", str(folder))


@pytest.fixture(scope="module", autouse=True)
def few_programs():
    """Forget compiled programs before their pieces of memory become too many."""
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()


@pytest.fixture(scope="session")
def problem():
    """A function from a model to a small problem to train on."""
    return make_problem()


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def pytest_collection_modifyitems(items):
    """Skip tests on real data, with a reason, where there is none."""
    if os.environ.get(DATA_VARIABLE):
        return
    skip = pytest.mark.skip(reason=f"{DATA_VARIABLE} does not name a data folder")
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(skip)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Where the data are, a data test that skips itself has failed."""
    report = yield
    is_data = item.get_closest_marker("data") and os.environ.get(DATA_VARIABLE)
    if is_data and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped although {DATA_VARIABLE} is set"
    return report
