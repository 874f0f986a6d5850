"""How diverse the filters of a trained model are: one number per run.

A model of node-specific filters may still give every node the same one. `curve_spread`
tells; below `LEAST_SPREAD` nobody can see the difference.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from dsf_jax.filters import response
from dsf_jax.models.dsf import local_weights, node_positions
from dsf_jax.models.params import Inputs, Params
from dsf_jax.models.settings import HyperParams, ModelConfig

AnyArray = Array | np.ndarray

LEAST_SPREAD = 0.01  # of the shared filter
SATURATION = 0.99  # |P| beyond it: tanh is flat there


class Diversity(NamedTuple):
    """What `measure_diversity` returns.

    Example:
      >>> Diversity(spread=0.3, saturated=0.0).spread > LEAST_SPREAD
      True
    """

    spread: Float[Array, ""]  # `curve_spread` of g_i on [0, 2]
    saturated: Float[Array, ""]  # share of entries of P^(1)..P^(K) beyond ±0.99


def measure_diversity(
    params: Params,
    inputs: Inputs,
    hparams: HyperParams,
    *,
    config: ModelConfig,
    num_points: int = 101,
) -> Diversity:
    """Spread of the filters between nodes, and share of saturated positions.

    Args:
      params: trained parameters.
      inputs: from `make_inputs`.
      hparams: settings they were trained with.
      config: the model.
      num_points: points of the grid on [0, 2].

    Returns:
      Both numbers; nothing is saturated in a model without positions.

    Example:
      >>> import jax
      >>> from dsf_jax import MODELS, Graph, init, make_inputs
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> config, hparams = MODELS["gpr"], HyperParams()
      >>> inputs = make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)), config)
      >>> key = jax.random.key(0)
      >>> params = init(key, inputs, hparams, config=config, num_classes=3)
      >>> float(measure_diversity(params, inputs, hparams, config=config).spread)
      0.0
    """
    beta = local_weights(params, inputs, hparams, config=config).beta
    lam = jnp.linspace(0.0, 2.0, num_points, dtype=beta.dtype)
    spread = curve_spread(response(beta, lam, config.backbone.basis(hparams)))
    if params.position is None:
        return Diversity(spread, jnp.zeros_like(spread))
    pos = node_positions(params, inputs, hparams, config=config)[1:]
    return Diversity(spread, jnp.mean(jnp.abs(pos) > SATURATION, dtype=spread.dtype))


def curve_spread(curves: Float[AnyArray, "N G"]) -> Any:
    """Spread of the filters between nodes, relative to the shared one.

        √(Σ_λ Var_i g_i(λ) / Σ_λ ḡ(λ)²),   ḡ the mean of all nodes

    It is 0 if all nodes filter alike, and does not change with the scale of g.

    Example:
      >>> float(curve_spread(np.asarray([[1.0, 1.0], [3.0, 3.0]])))
      0.5
    """
    mean = curves.mean(axis=0)
    return (curves.var(axis=0).sum() / (mean**2).sum()) ** 0.5
