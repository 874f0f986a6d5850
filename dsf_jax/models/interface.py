"""What training sees of a model: five pure functions, made from its config.

The engine (`dsf_jax.train`, `dsf_jax.engine.optimizer`) knows parameters, masks and
outputs as pytrees that it hands from one of these functions to the next. A new kind of
model is a config and a case in `model_of`.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax.numpy as jnp

from dsf_jax.ipe import Heads
from dsf_jax.models.baselines import model as baselines
from dsf_jax.models.baselines.network import BaselineParams
from dsf_jax.models.dropout import draw_masks
from dsf_jax.models.dsf import apply_both, loss
from dsf_jax.models.params import Params, PositionParams, init
from dsf_jax.models.settings import BaselineConfig, Config, HyperParams, ModelConfig


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
def model_of(config: Config) -> Model:
    """The functions that a config stands for; the same ones for an equal config.

    Example:
      >>> from dsf_jax.models.settings import MODELS
      >>> model_of(MODELS["gpr"]).groups(HyperParams(lr_gamma=0.5)).gamma.rate
      0.5
    """
    if isinstance(config, ModelConfig):
        return _diverse_model(config)
    return _baseline_model(config)


def _diverse_model(config: ModelConfig) -> Model:
    """DSF models and their base models."""
    return Model(
        init=partial(init, config=config),
        draw_masks=lambda *args, flags: draw_masks(
            *args, config=config, shares_positions=flags.shares_positions
        ),
        apply_both=lambda *args, masks, flags: apply_both(
            *args,
            config=config,
            masks=masks,
            has_correlation=flags.has_correlation,
            shares_positions=flags.shares_positions,
        ),
        loss=partial(loss, config=config),
        groups=partial(_diverse_groups, config=config),
    )


def _baseline_model(config: BaselineConfig) -> Model:
    return Model(
        init=partial(baselines.init, config=config),
        draw_masks=lambda *args, flags: baselines.draw_masks(*args, config=config),
        apply_both=lambda *args, masks, flags: baselines.apply_both(
            *args, config=config, masks=masks, max_depth=flags.max_depth
        ),
        loss=baselines.loss,
        groups=_baseline_groups,
    )


def _diverse_groups(hparams: HyperParams, *, config: ModelConfig) -> Params:
    """Maps of features, γ, and what makes θ or ρ."""
    maps, gamma, local = _groups(hparams)
    if config.variant != "base" and not config.has_ipe:
        # free weights of unlabelled nodes have no gradient: Adam would turn any decay
        # of theirs into steps of full size
        local = local._replace(decay=0.0)
    position = local
    if config.uses_positions and config.backbone.has_factors:
        # a head that no factor reads has no gradient, and stays as it is in PyTorch
        is_read = jnp.zeros(config.order + 1).at[config.factor_orders].set(1.0)
        decay = is_read * local.decay
        heads = Heads(local._replace(decay=decay[:, None]), local._replace(decay=decay))
        position = PositionParams(start=local, heads=heads, correlation=local)
    return Params(hidden=maps, out=maps, gamma=gamma, position=position, free=local)


def _baseline_groups(hparams: HyperParams) -> BaselineParams:
    return BaselineParams(*_groups(hparams))


def _groups(hparams: HyperParams) -> tuple[Any, Any, Any]:
    return (
        Group(hparams.lr, hparams.decay),
        Group(hparams.lr_gamma, hparams.decay_gamma),
        Group(hparams.lr_pos, hparams.decay_pos),
    )
