"""What training sees of a model: five pure functions, made from its config.

The engine (`dsf_jax.train`, `dsf_jax.optimizer`) knows parameters, masks and outputs as
pytrees that it hands from one of these functions to the next. A new kind of model is a
config and a case in `model_of`.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

from dsf_jax.dropout import draw_masks
from dsf_jax.models import apply_both, loss
from dsf_jax.params import Params, init
from dsf_jax.settings import HyperParams, ModelConfig


class Group(NamedTuple):
    """Rate and decay of a group of parameters.

    Example:
      >>> Group(rate=0.01, decay=5e-4).rate
      0.01
    """

    rate: Any
    decay: Any


class Model(NamedTuple):
    """Functions of one run; the engine batches them over runs.

    Example:
      >>> Model._fields
      ('init', 'draw_masks', 'apply_both', 'loss', 'groups')
    """

    # (key, inputs, hparams, *, num_classes) -> params
    init: Callable[..., Any]
    # (key, params, inputs, hparams, *, flags) -> masks of one training step
    draw_masks: Callable[..., Any]
    # (params, inputs, hparams, *, masks, flags) -> training output, and logits [N, C]
    # without dropout, constant under differentiation
    apply_both: Callable[..., tuple[Any, Any]]
    # (training output, labels, training nodes, hparams, *, is_binary) -> loss
    loss: Callable[..., Any]
    # hparams -> tree of `Group`, one for each field of params
    groups: Callable[[HyperParams], Any]


@lru_cache
def model_of(config: ModelConfig) -> Model:
    """The functions that a config stands for; the same ones for an equal config.

    Example:
      >>> from dsf_jax.settings import MODELS
      >>> model_of(MODELS["gpr"]).groups(HyperParams(lr_gamma=0.5)).gamma.rate
      0.5
    """
    return Model(
        init=partial(init, config=config),
        draw_masks=lambda *args, flags: draw_masks(
            *args, config=config, shares_positions=flags.shares_positions
        ),
        apply_both=lambda *args, masks, flags: apply_both(
            *args, config=config, masks=masks, **flags._asdict()
        ),
        loss=partial(loss, config=config),
        groups=partial(_groups, config=config),
    )


def _groups(hparams: HyperParams, *, config: ModelConfig) -> Params:
    """Maps of features, γ, and what makes θ or ρ."""
    maps: Any = Group(hparams.lr, hparams.decay)
    gamma: Any = Group(hparams.lr_gamma, hparams.decay_gamma)
    # free weights of unlabelled nodes have no gradient: Adam would turn any decay of
    # theirs into steps of full size
    has_free_nodes = config.variant != "base" and not config.has_ipe
    local: Any = Group(hparams.lr_pos, 0.0 if has_free_nodes else hparams.decay_pos)
    return Params(hidden=maps, out=maps, gamma=gamma, position=local, free=local)
