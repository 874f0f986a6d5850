"""Tests, one module per module of the library, with strict numerics in all of them."""

import os
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_num_cpu_devices", 4)  # for grids on several devices
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# Tests run small programs once or twice: compile fast, and keep what was compiled.
CACHE = os.environ.get(
    "DSF_JAX_TEST_PROGRAMS", Path(__file__).parent.parent / ".pytest_cache" / "programs"
)
KEPT = {
    "jax_compilation_cache_dir": str(CACHE),
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}
jax.config.update("jax_disable_most_optimizations", True)
for name, value in KEPT.items():
    jax.config.update(name, value)
    os.environ[name.upper()] = str(value)  # for processes that tests start
if jax.__version_info__ < (0, 11):  # a later XLA ends at flags that it does not know
    FLAGS = ("use_fusion_emitters=false", "parallel_codegen_split_count=1")
    os.environ["XLA_FLAGS"] = " ".join(
        [*(f"--xla_cpu_{flag}" for flag in FLAGS), os.environ.get("XLA_FLAGS", "")]
    )
