"""The models that the paper compares with, on the same engine.

GCN, GAT, ChebNet, APPNP, GNN-LF, GNN-HF and FAGCN by their papers' formulas, 64 wide
as in the DSF paper, and our reading of PA-GNN. `docs/decisions.md` has every choice.
"""

from dsf_jax.models.baselines.edge_weights import attention, gate
from dsf_jax.models.baselines.model import apply, draw_masks, init, loss
from dsf_jax.models.baselines.network import BaselineOutput, BaselineParams
from dsf_jax.models.baselines.pa_gnn import offsets
from dsf_jax.models.baselines.spectral import filter_weights

__all__ = [
    "BaselineOutput",
    "BaselineParams",
    "apply",
    "attention",
    "draw_masks",
    "filter_weights",
    "gate",
    "init",
    "loss",
    "offsets",
]
