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
from dsf_jax.models.layers import Inputs
from dsf_jax.models.local import Positional
from dsf_jax.models.settings import HyperParams
from dsf_jax.models.spectral import Diverse, Params

AnyArray = Array | np.ndarray

POINTS = 101  # of the grid on [0, 2]
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
    params: Params, inputs: Inputs, hparams: HyperParams, *, model: Diverse
) -> Diversity:
    """Spread of the filters between nodes, and share of saturated positions.

    Args:
      params: trained parameters.
      inputs: from `Model.make_inputs`.
      hparams: settings they were trained with.
      model: the model.

    Returns:
      Both numbers; nothing is saturated in a model without positions.

    Example:
      >>> import jax
      >>> from dsf_jax import Graph, MODELS
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> model, hparams = MODELS["gpr"], HyperParams()
      >>> inputs = model.make_inputs(edge, jnp.eye(2))
      >>> params = model.init(jax.random.key(0), inputs, hparams, num_classes=3)
      >>> float(measure_diversity(params, inputs, hparams, model=model).spread)
      0.0
    """
    beta = model.local_weights(params, inputs, hparams).beta
    lam = jnp.linspace(0.0, 2.0, POINTS, dtype=beta.dtype)
    spread = curve_spread(response(beta, lam, model.basis(params, inputs, hparams)))
    if not isinstance(model.local, Positional):
        return Diversity(spread, jnp.zeros_like(spread))
    pos = model.node_positions(params, inputs, hparams)[1:]
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
