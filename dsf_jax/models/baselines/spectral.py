"""GCN and ChebNet, and the fixed polynomial filters APPNP, GNN-LF and GNN-HF.

The last three propagate a perceptron's output by an iteration without parameters. A
fixed iteration is a fixed polynomial of Ã, so it is given by its coefficients and runs,
and is plotted, like any other filter (`shared_filter`, `response`).
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from dsf_jax.bases import chebyshev, monomial
from dsf_jax.filters import shared_filter
from dsf_jax.models.baselines.network import (
    BaselineOutput,
    BaselineParams,
    Network,
    Perceptron,
    encode_features,
    glorot,
    init_perceptron,
)
from dsf_jax.models.dropout import Masks, drop
from dsf_jax.models.params import Inputs, Linear
from dsf_jax.models.settings import BaselineConfig, HyperParams
from dsf_jax.ops.matrix import project
from dsf_jax.ops.operator import propagate
from dsf_jax.ops.recurrence import recurrence_sum


def filter_weights(
    hparams: HyperParams, *, config: BaselineConfig
) -> Float[Array, " K1"]:
    """Coefficients of Ã^k, k = 0.., of APPNP, GNN-LF or GNN-HF after K iterations.

        APPNP    Z_0 = H,                           Z_k = (1 - α) Ã Z_{k-1} + α H
        GNN-LF   Z_0 = (μ H + (1 - μ) Ã H) / s,     Z_k = (s - α) / s Ã Z_{k-1} + α Z_0
        GNN-HF   Z_0 = ((1 + β) H - β Ã H) / t,     Z_k = (t - α) / t Ã Z_{k-1} + α Z_0

    with s = 1 + αμ - α and t = 1 + αβ. Z_K has the coefficients α c^k, the last c^K, of
    Ã^k Z_0, where c is the factor of Ã Z_{k-1}: K + 1 of them for APPNP, and one more
    for the other two. `dsf_jax.response(weights, lam, dsf_jax.monomial)` is the filter.

    Raises:
      ValueError: if the model is not one of the three.

    Example:
      >>> config = BaselineConfig(kind="appnp", order=2)
      >>> filter_weights(HyperParams(alpha=0.5), config=config).tolist()
      [0.5, 0.25, 0.25]
    """
    alpha, mu, beta = (
        jnp.asarray(value, dtype=float)
        for value in (hparams.alpha, hparams.mu, hparams.beta)
    )
    match config.kind:
        case "appnp":
            return _geometric(alpha, 1 - alpha, config.order)
        case "gnn-lf":
            scale = 1 + alpha * mu - alpha
            first = mu / scale, (1 - mu) / scale
        case "gnn-hf":
            scale = 1 + alpha * beta
            first = (1 + beta) / scale, -beta / scale
        case _:
            raise ValueError(
                f"config must be that of appnp, gnn-lf or gnn-hf, got "
                f"{config.kind!r}; other models have no fixed filter."
            )
    weights = _geometric(alpha, (scale - alpha) / scale, config.order)
    own, of_neighbours = (factor * weights for factor in first)
    return jnp.pad(own, (0, 1)) + jnp.pad(of_neighbours, (1, 0))


def _geometric(alpha: Array, ratio: Array, order: int) -> Float[Array, " K1"]:
    """α c^k, the last c^K."""
    powers = jnp.cumprod(jnp.full(order, ratio))
    powers = jnp.concatenate([jnp.ones(1), powers])
    return jnp.where(jnp.arange(order + 1) == order, powers, alpha * powers)


def _init_fixed(
    key: Array,
    inputs: Inputs,
    hparams: HyperParams,
    config: BaselineConfig,
    num_classes: int,
) -> BaselineParams:
    num_features = inputs.features.shape[1]
    return BaselineParams(
        init_perceptron(key, num_features, config.hidden, num_classes)
    )


def _apply_fixed(
    params: BaselineParams,
    inputs: Inputs,
    hparams: HyperParams,
    config: BaselineConfig,
    masks: Masks,
    max_depth: Any,
) -> BaselineOutput:
    """Z = Σ_k w_k Ã^k H of the perceptron's output H."""
    signal = encode_features(params.maps, inputs, masks)
    weights = filter_weights(hparams, config=config).astype(signal.dtype)
    return BaselineOutput(shared_filter(inputs.filter_op, signal, weights, monomial))


def _init_gcn(
    key: Array,
    inputs: Inputs,
    hparams: HyperParams,
    config: BaselineConfig,
    num_classes: int,
) -> BaselineParams:
    hidden_key, out_key = jax.random.split(key)
    sizes = inputs.features.shape[1], config.hidden, num_classes
    return BaselineParams(
        Perceptron(
            hidden=Linear(glorot(hidden_key, sizes[:2]), jnp.zeros(config.hidden)),
            out=Linear(glorot(out_key, sizes[1:]), jnp.zeros(num_classes)),
        )
    )


def _apply_gcn(
    params: BaselineParams,
    inputs: Inputs,
    hparams: HyperParams,
    config: BaselineConfig,
    masks: Masks,
    max_depth: Any,
) -> BaselineOutput:
    """Z = Ã drop(ReLU(Ã drop(X) W_1 + b_1)) W_2 + b_2."""
    (w1, bias1), (w2, bias2) = params.maps
    op = inputs.filter_op
    hidden = propagate(op, project(inputs.features, w1, masks.x)) + bias1[None, :]
    hidden = drop(jax.nn.relu(hidden), masks.h)
    return BaselineOutput(propagate(op, hidden @ w2) + bias2[None, :])


def _init_cheb(
    key: Array,
    inputs: Inputs,
    hparams: HyperParams,
    config: BaselineConfig,
    num_classes: int,
) -> BaselineParams:
    """As GCN, with a map for every order: w is [K1, I, O]."""
    hidden_key, out_key = jax.random.split(key)
    sizes = config.order + 1, inputs.features.shape[1], config.hidden, num_classes
    first, second = sizes[:3], (sizes[0], *sizes[2:])
    return BaselineParams(
        (
            (glorot(hidden_key, first), jnp.zeros(config.hidden)),
            (glorot(out_key, second), jnp.zeros(num_classes)),
        )
    )


def _apply_cheb(
    params: BaselineParams,
    inputs: Inputs,
    hparams: HyperParams,
    config: BaselineConfig,
    masks: Masks,
    max_depth: Any,
) -> BaselineOutput:
    """Two layers Σ_{k <= degree} T_k(L̂ - I) X Θ_k + b, ReLU and dropout between them.

    The maps come first: T_k acts on narrow X Θ_k, not on the features.
    """
    in_use = jnp.arange(config.order + 1) <= jnp.asarray(hparams.degree)
    recurrence = chebyshev.recurrence(config.order)

    def layer(x: Any, mask: Array | None, theta: Array, bias: Array) -> Array:
        num_orders, num_in, num_out = theta.shape
        chosen = jnp.where(in_use[:, None, None], theta, 0.0)
        side_by_side = jnp.moveaxis(chosen, 0, 1).reshape(num_in, -1)
        mapped = project(x, side_by_side, mask).reshape(-1, num_orders, num_out)
        y = jnp.moveaxis(mapped, 1, 0)
        return recurrence_sum(inputs.filter_op, recurrence, y) + bias[None, :]

    first, second = params.maps
    hidden = layer(inputs.features, masks.x, *first)
    return BaselineOutput(layer(jax.nn.relu(hidden), masks.h, *second))


def _mask_shapes(
    params: BaselineParams, inputs: Inputs, config: BaselineConfig
) -> dict[str, tuple[int, ...]]:
    return {"h": (inputs.features.shape[0], config.hidden)}


GCN = Network(_init_gcn, _mask_shapes, _apply_gcn)
CHEB = Network(_init_cheb, _mask_shapes, _apply_cheb)
FIXED_FILTER = Network(_init_fixed, _mask_shapes, _apply_fixed)
