"""What every benchmark shares: data, timing that blocks, and a line per case.

A case is verified first, then warmed up, then timed with `jax.block_until_ready` inside
the timed region. Standard output carries JSON lines only, the first one describing the
machine; progress goes to standard error.
"""

import json
import platform
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np


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


def milliseconds(
    call: Callable[[], Any], *, repeats: int = 30, warmup: int = 3
) -> tuple[float, float]:
    """Median and spread (interquartile range) of the time of a call."""
    for _ in range(warmup):
        jax.block_until_ready(call())
    times = np.empty(repeats)
    for i in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(call())
        times[i] = time.perf_counter() - start
    low, median, high = np.percentile(1e3 * times, [25, 50, 75])
    return float(median), float(high - low)
