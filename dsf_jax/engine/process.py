"""What is set for a whole process: its devices, the pages of its memory."""

import os
import sys
from pathlib import Path

import jax

PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")  # of Linux
TUNABLE = "glibc.malloc.hugetlb"


def use_all_cores() -> None:
    """One JAX device per CPU core; call it before JAX is used for the first time.

    For scripts: it changes a global setting. Does nothing if the number of CPU devices
    has been set already, and does not touch accelerators.

    Example:
      >>> use_all_cores()  # the first line of a script
    """
    is_set = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    has_default = jax.config.values["jax_num_cpu_devices"] < 1
    if has_default and not is_set:
        jax.config.update("jax_num_cpu_devices", len(os.sched_getaffinity(0)))


def use_huge_pages() -> None:
    """Start this program anew with huge pages of memory; call it before any work.

    An epoch on a graph of many nodes takes and gives back arrays of megabytes, which
    the system hands out in pages of 4 kB. With pages of 2 MB it takes a tenth less time
    at 10,000 nodes and a fifth less at 100,000. glibc asks for them only if told so
    before a program starts (`GLIBC_TUNABLES=glibc.malloc.hugetlb=1`), so the same
    command takes its place. Does nothing where pages are not to be had by asking, or
    where the variable says already what to do.

    Example:
      >>> use_huge_pages()  # doctest: +SKIP
    """
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    can_ask = PAGES.exists() and "[madvise]" in PAGES.read_text()
    if not can_ask or TUNABLE in tunables:
        return
    os.environ["GLIBC_TUNABLES"] = ":".join(filter(None, [tunables, f"{TUNABLE}=1"]))
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
