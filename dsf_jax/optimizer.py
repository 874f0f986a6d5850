"""Adam with coupled L2, a learning rate and a decay for each group of parameters."""

from typing import Any

import jax
import optax

from dsf_jax.params import Params
from dsf_jax.settings import HyperParams, ModelConfig


def init_moments(params: Params) -> Any:
    """Moments of Adam before the first update.

    Example:
      >>> nothing = Params(hidden=None, out=None, gamma=None, position=None, free=None)
      >>> int(init_moments(nothing).count)
      0
    """
    return _adam().init(params)


def update(
    params: Params,
    gradient: Params,
    moments: Any,
    hparams: HyperParams,
    *,
    config: ModelConfig,
) -> tuple[Params, Any]:
    """One step of Adam; the decay joins the gradient before the moments.

        g ← g + decay p,    p ← p - lr m̂ / (√v̂ + 1e-8)

    Groups: maps of features (`lr`, `decay`), γ (`lr_gamma`, `decay_gamma`), and what
    makes θ or ρ (`lr_pos`, `decay_pos`).

    Args:
      params: the parameters.
      gradient: of the loss.
      moments: from `init_moments`, or the last step.
      hparams: rates and decays.
      config: the model.

    Returns:
      Parameters and moments after the step.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from dsf_jax import MODELS, Graph, init, make_inputs
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> config, hparams = MODELS["gpr"], HyperParams(lr_gamma=0.5)
      >>> inputs = make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)), config)
      >>> key = jax.random.key(0)
      >>> params = init(key, inputs, hparams, config=config, num_classes=3)
      >>> moments = init_moments(params)
      >>> moved, _ = update(params, params, moments, hparams, config=config)
      >>> bool(jnp.allclose(moved.gamma, params.gamma - 0.5, atol=1e-4))
      True
    """
    rates = _by_group(hparams.lr, hparams.lr_gamma, hparams.lr_pos)
    # free weights of unlabelled nodes have no gradient: Adam would turn any decay of
    # theirs into steps of full size
    has_free_nodes = config.variant != "base" and not config.has_ipe
    decays = _by_group(
        hparams.decay, hparams.decay_gamma, 0.0 if has_free_nodes else hparams.decay_pos
    )

    def per_group(fn: Any, *trees: Params) -> Params:
        fields = zip(*trees, strict=True)
        return Params(
            *(
                jax.tree.map(lambda *leaves, s=scales: fn(*leaves, *s), *parts)
                for parts, scales in zip(
                    fields, zip(rates, decays, strict=True), strict=True
                )
            )
        )

    decayed = per_group(lambda g, p, _, decay: g + decay * p, gradient, params)
    with jax.numpy_dtype_promotion("standard"):  # optax multiplies floats by a count
        steps, moments = _adam().update(decayed, moments)
    moved = per_group(lambda p, step, lr, _: p - lr * step, params, steps)
    return moved, moments


def _adam() -> optax.GradientTransformation:
    return optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8)


def _by_group(encoder: Any, gamma: Any, pos: Any) -> Params:
    """A value per field of `Params`: maps of features, γ, and what makes θ or ρ."""
    return Params(hidden=encoder, out=encoder, gamma=gamma, position=pos, free=pos)
