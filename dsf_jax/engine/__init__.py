"""What runs many trainings at once: the queue, the optimiser, scores, devices.

`dsf_jax.train` is one run and belongs to this room; `dsf_jax.engine.grid`, which builds
on it and spreads a queue over devices, is not imported here.
"""

from dsf_jax.engine.metrics import Summary, accuracy, roc_auc, summarise
from dsf_jax.engine.optimizer import init_moments, update
from dsf_jax.engine.queue import Occupancy, Program, advance, occupancy, open_queue

__all__ = [
    "Occupancy",
    "Program",
    "Summary",
    "accuracy",
    "advance",
    "init_moments",
    "occupancy",
    "open_queue",
    "roc_auc",
    "summarise",
    "update",
]
