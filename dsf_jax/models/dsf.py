"""The models: init and apply as pure functions of `Params`, `Inputs`, `HyperParams`.

    hidden    h = ReLU(X W_1 + b_1)                      (JacobiConv: none)
    signal    x = h W_2 + b_2                            N x C
    weights   β_{k,i} = γ_k θ_{k,i},  θ from positions   (base models: γ_k)
    logits    z_i = Σ_k β_{k,i} [P_k(L̂) x]_i

with dropout on X, h, x and P^(0). This is the authors' order; in Algorithm 1 the filter
comes before W_2 (`ModelConfig.project_first`). See docs/decisions.md for every choice.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from dsf_jax.filters import (
    cumulative_weights,
    diverse_filter,
    diverse_recurrence_filter,
    shared_filter,
)
from dsf_jax.ipe import encode, orthogonality_loss, positions
from dsf_jax.models.dropout import Masks, drop
from dsf_jax.models.losses import task_loss
from dsf_jax.models.params import Inputs, Params, PositionParams, affine
from dsf_jax.models.settings import HyperParams, ModelConfig
from dsf_jax.ops.matrix import project
from dsf_jax.ops.operator import Operator


class Output(NamedTuple):
    """What `apply` returns.

    Example:
      >>> Output._fields
      ('logits', 'pos')
    """

    logits: Float[Array, "N C"]
    pos: Float[Array, "N D"] | None  # P^(K), where the model has positions


class LocalWeights(NamedTuple):
    """Weights of every order and node.

    Example:
      >>> LocalWeights._fields
      ('gamma', 'theta', 'beta', 'rho')
    """

    gamma: Float[Array, " K1"]  # global weights; of the first channel if several
    theta: Float[Array, "K1 N"]  # local weights; for factors, their products ∏ ρ_s
    beta: Float[Array, "K1 N"]  # γ_k θ_{k,i}; of the first channel if γ has several
    rho: Float[Array, "K N"] | None  # factors, where the backbone has them


def apply(
    params: Params,
    inputs: Inputs,
    hparams: HyperParams,
    *,
    config: ModelConfig,
    masks: Masks | None = None,
    has_correlation: bool | Bool[Array, ""] = True,
) -> Output:
    """Logits of every node, and its last position (Algorithm 1).

    Args:
      params: from `init`.
      inputs: from `make_inputs`.
      hparams: settings.
      config: the model.
      masks: from `draw_masks` in training; none in evaluation.
      has_correlation: as in `dsf_jax.ipe.encode`.

    Returns:
      Logits and positions.

    Example:
      >>> from dsf_jax import MODELS, Graph, init, make_inputs
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> config = MODELS["dsf-gpr-r"]
      >>> inputs = make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)), config)
      >>> key, hparams = jax.random.key(0), HyperParams()
      >>> params = init(key, inputs, hparams, config=config, num_classes=3)
      >>> apply(params, inputs, hparams, config=config).logits.shape
      (2, 3)
    """
    masks = Masks() if masks is None else masks
    local, pos = _local_logits(params, inputs, hparams, config, masks, has_correlation)
    signal = _encode_features(params, inputs, masks, config)
    gamma = _gamma(params, hparams, config)
    filtered = _filter(gamma, inputs.filter_op, signal, local, hparams, config)
    return Output(logits=_classify(params, filtered, config), pos=pos)


def apply_both(
    params: Params,
    inputs: Inputs,
    hparams: HyperParams,
    *,
    config: ModelConfig,
    masks: Masks,
    has_correlation: bool | Bool[Array, ""] = True,
    shares_positions: bool | Bool[Array, ""] = False,
) -> tuple[Output, Float[Array, "N C"]]:
    """Training output and evaluation logits of the same parameters.

    Without dropout on positions they are the same in both, and one pass over them, the
    most expensive part of a model, serves twice.

    Args:
      params: from `init`.
      inputs: from `make_inputs`.
      hparams: settings.
      config: the model.
      masks: dropout of the training output.
      has_correlation: as in `dsf_jax.ipe.encode`.
      shares_positions: no run of the batch has dropout on positions.

    Returns:
      The training output, and the logits without dropout, constant under
      differentiation.

    Example:
      >>> from dsf_jax import MODELS, Graph, init, make_inputs
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> config = MODELS["dsf-gpr-r"]
      >>> inputs = make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)), config)
      >>> key, hparams = jax.random.key(0), HyperParams()
      >>> params = init(key, inputs, hparams, config=config, num_classes=3)
      >>> _, logits = apply_both(params, inputs, hparams, config=config, masks=Masks())
      >>> same = apply(params, inputs, hparams, config=config).logits
      >>> bool(jnp.allclose(logits, same))
      True
    """
    local, pos = _local_logits(params, inputs, hparams, config, masks, has_correlation)
    constant = jax.lax.stop_gradient(params)
    signals = jnp.stack(
        [
            _encode_features(params, inputs, masks, config),
            _encode_features(constant, inputs, Masks(), config),
        ]
    )

    gamma = _gamma(params, hparams, config)

    def filter_one(gamma: Array, signal: Array, local: Array | None) -> Array:
        return _filter(gamma, inputs.filter_op, signal, local, hparams, config)

    def together() -> Array:  # side by side in the same products
        # weights of their own for the second, whose gradient is then not made
        gammas, locals_ = jax.tree.map(_with_constant, (gamma, local))
        return jax.vmap(filter_one)(gammas, signals, locals_)

    def apart() -> Array:
        clean, _ = _local_logits(
            constant, inputs, hparams, config, Masks(), has_correlation
        )
        evaluated = filter_one(jax.lax.stop_gradient(gamma), signals[1], clean)
        return jnp.stack([filter_one(gamma, signals[0], local), evaluated])

    if params.position is None:
        filtered = together()
    else:
        filtered = jax.lax.cond(jnp.asarray(shares_positions), together, apart)
    logits = _classify(params, filtered[0], config)
    return Output(logits, pos), _classify(constant, filtered[1], config)


def loss(
    output: Output,
    labels: Int[Array, " N"],
    train_mask: Bool[Array, " N"],
    hparams: HyperParams,
    *,
    config: ModelConfig,
    is_binary: bool = False,
) -> Float[Array, ""]:
    """Training loss: `task_loss` of the training nodes, and λ L_Orth for R.

    Example:
      >>> from dsf_jax import MODELS
      >>> output = Output(logits=jnp.zeros((2, 4)), pos=None)
      >>> labels, mask = jnp.asarray([0, 3]), jnp.asarray([True, False])
      >>> value = loss(output, labels, mask, HyperParams(), config=MODELS["gpr"])
      >>> round(float(value), 4)  # log 4
      1.3863
    """
    task = task_loss(output.logits, labels, train_mask, is_binary=is_binary)
    if not config.uses_orthogonality:
        return task
    assert output.pos is not None
    penalty = orthogonality_loss(output.pos, normalize=hparams.orth_normalize)
    return task + hparams.lambda_orth * penalty


def local_weights(
    params: Params, inputs: Inputs, hparams: HyperParams, *, config: ModelConfig
) -> LocalWeights:
    """Weights γ, and θ, β and factors ρ of every node, in evaluation mode.

    `dsf_jax.response(weights.beta, lam, basis)` are the filters g_i(λ). With factors
    inside the recurrence (JacobiConv as released) they are those of the outside form.

    Example:
      >>> from dsf_jax import MODELS, Graph, init, make_inputs
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> config = MODELS["dsf-bern-r"]
      >>> inputs = make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)), config)
      >>> key, hparams = jax.random.key(0), HyperParams()
      >>> params = init(key, inputs, hparams, config=config, num_classes=3)
      >>> local_weights(params, inputs, hparams, config=config).beta.shape
      (11, 2)
    """
    local, _ = _local_logits(params, inputs, hparams, config, Masks(), True)
    gamma = _gamma(params, hparams, config)
    gamma = gamma if gamma.ndim == 1 else gamma[:, 0]
    num_nodes = inputs.x_pos.shape[1]
    if config.backbone.has_factors:
        assert local is not None
        rho = _factors(local, hparams, config)
        rho = rho if rho.ndim == 2 else jnp.tile(rho[:, None], (1, num_nodes))
        theta = cumulative_weights(jnp.ones_like(gamma), rho)
        return LocalWeights(gamma, theta, cumulative_weights(gamma, rho), rho)
    if local is None:
        theta = jnp.ones((config.order + 1, num_nodes), dtype=gamma.dtype)
    else:
        theta = _theta(local, config)
    return LocalWeights(gamma, theta, gamma[:, None] * theta, rho=None)


def node_positions(
    params: Params, inputs: Inputs, hparams: HyperParams, *, config: ModelConfig
) -> Float[Array, "K1 N D"]:
    """Positions P^(k) of every order, in evaluation mode.

    Example:
      >>> from dsf_jax import MODELS, Graph, init, make_inputs
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> config = MODELS["dsf-gpr-i"]
      >>> inputs = make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)), config)
      >>> key, hparams = jax.random.key(0), HyperParams()
      >>> params = init(key, inputs, hparams, config=config, num_classes=3)
      >>> node_positions(params, inputs, hparams, config=config).shape
      (11, 2, 64)
    """
    if params.position is None:
        raise ValueError(
            "params must be those of a model with positions, got none; DSF-I and DSF-R "
            "models have them, base models and -no-ipe have not."
        )
    return positions(
        inputs.pos_op,
        _start(params.position, inputs, hparams, Masks()),
        config.order,
        params.position.correlation,
        **_strengths(inputs, hparams, config),
    )


def _with_constant(x: Array) -> Array:
    """An array beside itself as a constant."""
    return jnp.stack([x, jax.lax.stop_gradient(x)])


def _classify(
    params: Params, filtered: Float[Array, "N _"], config: ModelConfig
) -> Float[Array, "N C"]:
    """Logits of the filtered signal: itself, or the last line of Algorithm 1."""
    return filtered if config.project_first else affine(params.out, filtered)


def _encode_features(
    params: Params, inputs: Inputs, masks: Masks, config: ModelConfig
) -> Float[Array, "N C"]:
    """The signal to filter: class scores, or hidden features in Algorithm 1."""
    first = params.out if params.hidden is None else params.hidden
    signal = project(inputs.features, first.w, masks.x) + first.bias[None, :]
    if params.hidden is not None:
        signal = drop(jax.nn.relu(signal), masks.h)
        if config.project_first:
            signal = affine(params.out, signal)
    return drop(signal, masks.z)


def _local_logits(
    params: Params,
    inputs: Inputs,
    hparams: HyperParams,
    config: ModelConfig,
    masks: Masks,
    has_correlation: bool | Array,
) -> tuple[Array | None, Array | None]:
    """What θ or ρ is made of, [K1, N], or [K1] if shared, or None; and P^(K)."""
    if params.position is None:
        return params.free, None
    encoding = encode(
        inputs.pos_op,
        _start(params.position, inputs, hparams, masks),
        params.position.heads,
        params.position.correlation,
        **_strengths(inputs, hparams, config),
        has_correlation=has_correlation,
    )
    return encoding.logits, encoding.pos


def _filter(
    gamma: Float[Array, "K1 ..."],
    op: Operator,
    signal: Float[Array, "N C"],
    local: Array | None,
    hparams: HyperParams,
    config: ModelConfig,
) -> Float[Array, "N C"]:
    basis = config.backbone.basis(hparams)
    if local is None:
        return shared_filter(op, signal, gamma, basis)
    if not config.backbone.has_factors:
        return diverse_filter(op, signal, gamma[:, None] * _theta(local, config), basis)
    rho = _factors(local, hparams, config)
    if rho.ndim == 1:  # one factor for all nodes may stand outside
        alpha = cumulative_weights(gamma, rho[:, None])[:, 0]
        return shared_filter(op, signal, alpha, basis)
    if config.factors_inside:
        return diverse_recurrence_filter(op, signal, gamma, rho, basis)
    return diverse_filter(op, signal, cumulative_weights(gamma, rho), basis)


def _gamma(
    params: Params, hparams: HyperParams, config: ModelConfig
) -> Float[Array, "K1 ..."]:
    if params.gamma is None:  # without LGWD
        return jnp.ones(config.order + 1, dtype=params.out.w.dtype)
    gamma = params.gamma
    if gamma.ndim == 2:
        gamma = jnp.where(hparams.sole, gamma[:, :1], gamma)
    activation = config.backbone.gamma_activation
    return gamma if activation is None else activation(gamma)


def _theta(local: Float[Array, "K1 N"], config: ModelConfig) -> Float[Array, "K1 N"]:
    """Eq. 7. Free weights are not bounded, only kept where γ must be (Bernstein)."""
    if config.uses_positions:
        return config.backbone.theta_activation(local)
    activation = config.backbone.gamma_activation
    return local if activation is None else activation(local)


def _factors(
    local: Float[Array, "K1 ..."], hparams: HyperParams, config: ModelConfig
) -> Float[Array, "K ..."]:
    """ρ_s = α σ_p(t_{s-1}) as the authors ran it; from t_s in the paper's form."""
    chosen = local[config.factor_orders]
    return hparams.rho_scale * config.backbone.theta_activation(chosen)


def _start(
    position: PositionParams, inputs: Inputs, hparams: HyperParams, masks: Masks
) -> Float[Array, "N D"]:
    """P^(0) = tanh(X_p W_p + b_p), the first f_p columns of the chosen kind."""
    w = position.start.w
    in_use = jnp.arange(w.shape[0]) < hparams.f_p
    x_pos = inputs.x_pos[jnp.asarray(hparams.pos_kind)].astype(w.dtype)
    pos0 = jnp.tanh(affine(position.start, jnp.where(in_use[None, :], x_pos, 0.0)))
    return drop(pos0, masks.pos)


def _strengths(
    inputs: Inputs, hparams: HyperParams, config: ModelConfig
) -> dict[str, Any]:
    num_nodes = inputs.x_pos.shape[1]
    return {
        "eta1": hparams.eta1,
        "eta2": hparams.eta2 if config.variant == "I" else 0.0,
        "scale": 1 / num_nodes if config.mean_correlation else 1.0,
    }
