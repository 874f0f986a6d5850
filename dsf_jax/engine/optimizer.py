"""Adam with coupled L2, a learning rate and a decay for each group of parameters."""

from functools import partial
from typing import Any

import jax
import optax

from dsf_jax.models.model import Group

_ADAM = optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8)


def init_moments(params: Any) -> Any:
    """Moments of Adam before the first update.

    Example:
      >>> int(init_moments({}).count)
      0
    """
    return _ADAM.init(params)


def update(params: Any, gradient: Any, moments: Any, groups: Any) -> tuple[Any, Any]:
    """One step of Adam; the decay joins the gradient before the moments.

        g ← g + decay p,    p ← p - lr m̂ / (√v̂ + 1e-8)

    Args:
      params: the parameters.
      gradient: of the loss.
      moments: from `init_moments`, or the last step.
      groups: rate and decay of each group of parameters, from `Model.groups`.

    Returns:
      Parameters and moments after the step.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from dsf_jax import Graph, HyperParams, MODELS
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> model, hparams = MODELS["gpr"], HyperParams(lr_gamma=0.5)
      >>> inputs = model.make_inputs(edge, jnp.eye(2))
      >>> params = model.init(jax.random.key(0), inputs, hparams, num_classes=3)
      >>> moments, groups = init_moments(params), model.groups(hparams)
      >>> moved, _ = jax.jit(update)(params, params, moments, groups)
      >>> bool(jnp.allclose(moved.gamma, params.gamma - 0.5, atol=1e-4))
      True
    """

    def per_group(fn: Any, *trees: Any) -> Any:
        return jax.tree.map(
            lambda group, *parts: jax.tree.map(partial(fn, group), *parts),
            *(groups, *trees),
            is_leaf=lambda node: isinstance(node, Group),
        )

    decayed = per_group(lambda group, g, p: g + group.decay * p, gradient, params)
    with jax.numpy_dtype_promotion("standard"):  # optax multiplies floats by a count
        steps, moments = _ADAM.update(decayed, moments)
    moved = per_group(lambda group, p, step: p - group.rate * step, params, steps)
    return moved, moments
