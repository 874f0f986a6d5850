"""Strict numerics for every test, and the rules for tests on real data."""

import os
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.graphs import GRAPHS

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)  # programs run once here
# Tests compile the same small programs again and again: keep them between tests and runs.
CACHE = Path(__file__).parent.parent / ".pytest_cache" / "programs"
jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

DATA_VARIABLE = "DSF_JAX_DATA"


@pytest.fixture(params=GRAPHS)
def graph(request):
    """Each of the small test graphs in turn."""
    return GRAPHS[request.param]


@pytest.fixture(autouse=True)
def private_cache(tmp_path_factory, monkeypatch):
    """No test reads or writes the user's cache."""
    folder = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("DSF_JAX_CACHE", str(folder))


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
