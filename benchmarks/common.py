"""What every benchmark shares: data, timing that blocks, and a line per case.

A case is verified first, then warmed up, then timed with `jax.block_until_ready` inside
the timed region. Standard output carries JSON lines only, the first one describing the
machine; progress goes to standard error.
"""

import json
import platform
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from dsf_jax.engine.process import use_all_cores, use_huge_pages
from dsf_jax.experiments.presets import preset, published
from dsf_jax.models.settings import HyperParams


def use_whole_computer() -> None:
    """Its huge pages and all its cores; the first line of a benchmark that trains."""
    use_huge_pages()
    use_all_cores()


def comparable_settings(dataset: str, model: str) -> HyperParams:
    """Published settings where there are any: a search does not change the figures."""
    return (published(dataset, model) or preset(dataset, model)).hparams


def print_environment(**more: Any) -> None:
    """One JSON line that says where the figures were taken."""
    print_case(
        environment={
            "device": jax.devices()[0].device_kind,
            "backend": jax.default_backend(),
            "jax": jax.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "x64": bool(jax.config.read("jax_enable_x64")),
            **more,
        }
    )


def print_case(**fields: Any) -> None:
    """One JSON line on standard output, floats at four digits."""
    rounded = {
        key: float(f"{value:.4g}") if isinstance(value, float) else value
        for key, value in fields.items()
    }
    print(json.dumps(rounded), flush=True)


def note(text: str) -> None:
    """A line of progress on standard error."""
    print(text, file=sys.stderr, flush=True)


def peak_mb() -> float:
    """Most memory that this process has held so far (Linux).

    Unlike `resource.getrusage`, it does not begin with the peak of the parent.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


class Timing(NamedTuple):
    """Median and interquartile range of the time of a call, in milliseconds."""

    ms: float
    spread_ms: float


def time_calls(
    calls: Mapping[str, Callable[[], Any]], *, rounds: int = 5, repeats: int = 10
) -> dict[str, Timing]:
    """Time several calls in rounds, so that a busy moment of the machine hits them all.

    Within a round each call is repeated on its own, two warm-up calls first: it finds
    its own data in the cache and its own memory in the allocator.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            for _ in range(2):
                jax.block_until_ready(call())
            for _ in range(repeats):
                start = time.perf_counter()
                jax.block_until_ready(call())
                seconds[name].append(time.perf_counter() - start)
    return {name: _summarise(times) for name, times in seconds.items()}


def _summarise(seconds: list[float]) -> Timing:
    low, median, high = np.percentile(1e3 * np.asarray(seconds), [25, 50, 75])
    return Timing(ms=float(median), spread_ms=float(high - low))
