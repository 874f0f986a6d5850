"""Parameters and inputs of the models, and how they start."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key

from dsf_jax.graph.embedding import netmf
from dsf_jax.graph.graph import Graph
from dsf_jax.ipe import Heads
from dsf_jax.models.settings import Config, HyperParams, ModelConfig
from dsf_jax.ops.correlation import Correlation
from dsf_jax.ops.matrix import SparseFeatures
from dsf_jax.ops.operator import OPERATORS, Operator


class Inputs(NamedTuple):
    """What a model reads of a data set; from `make_inputs`.

    Example:
      >>> Inputs._fields[:4]
      ('filter_op', 'pos_op', 'features', 'x_pos')
    """

    filter_op: Operator
    pos_op: Operator
    features: SparseFeatures | Float[Array, "N F"]
    x_pos: Float[Array, "2 N 32"]  # LapPE and RWPE
    edges: SparseFeatures | None = None  # N x N, for models that weigh edges
    embedding: Float[Array, "N M"] | None = None  # NetMF, for PA-GNN


class Linear(NamedTuple):
    """An affine map x W + b.

    Example:
      >>> Linear(w=jnp.ones((2, 3)), bias=jnp.zeros(3)).w.shape
      (2, 3)
    """

    w: Float[Array, "I O"]
    bias: Float[Array, " O"]


class PositionParams(NamedTuple):
    """Parameters of the positional encoding.

    Example:
      >>> PositionParams._fields
      ('start', 'heads', 'correlation')
    """

    start: Linear  # x_pos -> P^(0); rows from f_p on are not used
    heads: Heads
    correlation: Correlation | None  # variant I


class Params(NamedTuple):
    """Parameters of any model; None where it has none.

    Example:
      >>> Params._fields
      ('hidden', 'out', 'gamma', 'position', 'free')
    """

    hidden: Linear | None  # W_1, b_1
    out: Linear  # W_2, b_2
    gamma: Float[Array, "K1 ..."] | None  # [K1], or [K1, C] with factors; None: fixed 1
    position: PositionParams | None
    # weights of no position: r of JacobiConv [K1], or free weights of the nodes [K1, N]
    free: Float[Array, "K1 ..."] | None


def make_inputs(
    graph: Graph,
    features: SparseFeatures | Float[Array, "N F"],
    x_pos: Float[Array, "2 N 32"],
    config: Config,
) -> Inputs:
    """Operators that a model needs, with the features and positions.

    A baseline has no positions, and x_pos is not read. GAT weighs the entries of A + I,
    FAGCN those of Â; the embedding of PA-GNN is computed here.

    Example:
      >>> from dsf_jax.models.settings import MODELS
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> x_pos = jnp.zeros((2, 2, 32))
      >>> make_inputs(edge, jnp.eye(2), x_pos, MODELS["gpr"]).filter_op.num_nodes
      2
    """
    op = OPERATORS[config.filter_op](graph)
    inputs = Inputs(filter_op=op, pos_op=op, features=features, x_pos=x_pos)
    if isinstance(config, ModelConfig):
        if config.uses_positions and config.pos_op != config.filter_op:
            return inputs._replace(pos_op=OPERATORS[config.pos_op](graph))
        return inputs
    match config.kind:
        case "gat" | "fagcn":
            return inputs._replace(edges=SparseFeatures.from_scipy(op.to_scipy()))
        case "pa-gnn":
            return inputs._replace(embedding=jnp.asarray(netmf(graph), dtype=float))
        case _:
            return inputs


def init(
    key: Key[Array, ""],
    inputs: Inputs,
    hparams: HyperParams,
    *,
    config: ModelConfig,
    num_classes: int,
) -> Params:
    """Initial parameters.

    Maps, biases included, are uniform within ±1/√(fan-in); γ follows `gamma_init`. Free
    weights start so that the model is its base model: θ = 1 (or γ's start, without
    LGWD), and r = min(1/α, 1) for JacobiConv's factors.

    Example:
      >>> from dsf_jax.models.settings import MODELS
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> inputs = make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)), MODELS["gpr"])
      >>> settings = {"config": MODELS["gpr"], "num_classes": 3}
      >>> init(jax.random.key(0), inputs, HyperParams(), **settings).gamma.shape
      (11,)
    """
    hidden_key, out_key, gamma_key, position_key = jax.random.split(key, 4)
    num_nodes, num_features = inputs.features.shape
    gamma = _init_gamma(gamma_key, hparams, config, num_classes)
    hidden = None
    if config.has_hidden:
        hidden = init_linear(hidden_key, num_features, config.hidden)
    num_in = config.hidden if config.has_hidden else num_features
    num_columns = inputs.x_pos.shape[2]
    return Params(
        hidden=hidden,
        out=init_linear(out_key, num_in, num_classes),
        gamma=gamma if config.has_lgwd else None,
        position=_init_position(position_key, hparams, config, num_columns),
        free=_init_free(num_nodes, gamma, hparams, config),
    )


def initial_gamma(
    key: Key[Array, ""], hparams: HyperParams, order: int
) -> Float[Array, " K1"]:
    """Start of γ by one of `GAMMA_INITS`, chosen by a traced index.

        ppr      α (1 - α)^k, the last (1 - α)^K
        nppr     α^k / Σ_j α^j
        random   uniform within ±√(3 / (K + 1)), divided by its L1 norm
        one-hot  1 at order α
        ones     1

    Example:
      >>> hparams = HyperParams(gamma_init=0, alpha=0.5)
      >>> initial_gamma(jax.random.key(0), hparams, 2).tolist()
      [0.5, 0.25, 0.25]
    """
    k = jnp.arange(order + 1, dtype=float)
    alpha = jnp.asarray(hparams.alpha, dtype=float)
    powers, complements = alpha**k, (1 - alpha) ** k
    noise = jax.random.uniform(key, (order + 1,), float, -1.0, 1.0)
    candidates = jnp.stack(
        [
            jnp.where(k == order, complements, alpha * complements),
            powers / jnp.sum(powers),
            noise / jnp.sum(jnp.abs(noise)),  # its first scale cancels
            (k == alpha).astype(float),
            jnp.ones(order + 1),
        ]
    )
    return candidates[jnp.asarray(hparams.gamma_init)]


def _init_gamma(
    key: Array, hparams: HyperParams, config: ModelConfig, num_classes: int
) -> Float[Array, "K1 ..."]:
    gamma = initial_gamma(key, hparams, config.order)
    if not config.backbone.has_factors:
        return gamma
    channels = num_classes if config.project_first else config.hidden
    return jnp.tile(gamma[:, None], (1, channels))


def _init_free(
    num_nodes: int,
    gamma: Float[Array, "K1 ..."],
    hparams: HyperParams,
    config: ModelConfig,
) -> Float[Array, "K1 ..."] | None:
    """Free weights that make the model its base model at the start."""
    if config.uses_positions:
        return None
    if config.backbone.has_factors:
        largest = 1 / jnp.asarray(hparams.rho_scale, dtype=float)
        free = jnp.broadcast_to(jnp.minimum(largest, 1.0), (config.order + 1,))
    elif config.variant == "base":
        return None
    else:
        free = jnp.ones_like(gamma) if config.has_lgwd else gamma
    return free if config.variant == "base" else jnp.tile(free[:, None], (1, num_nodes))


def _init_position(
    key: Array, hparams: HyperParams, config: ModelConfig, num_columns: int
) -> PositionParams | None:
    if not config.uses_positions:
        return None
    start_key, heads_key, correlation_key = jax.random.split(key, 3)
    width = config.width
    heads = init_linear(heads_key, width, config.order + 1)
    correlation = None
    if config.variant == "I":
        w, bias = init_linear(correlation_key, width, width)
        correlation = Correlation(w, bias if config.correlation == "affine" else None)
    return PositionParams(
        start=init_linear(start_key, num_columns, width, fan_in=hparams.f_p),
        heads=Heads(w=heads.w.T, bias=heads.bias),
        correlation=correlation,
    )


def init_linear(
    key: Key[Array, ""],
    num_in: int,
    num_out: int,
    fan_in: int | float | Array | None = None,
) -> Linear:
    """Weights and bias uniform within ±1/√(fan-in).

    Example:
      >>> init_linear(jax.random.key(0), 2, 3).w.shape
      (2, 3)
    """
    bound = jnp.asarray(num_in if fan_in is None else fan_in, dtype=float) ** -0.5
    w_key, bias_key = jax.random.split(key)
    return Linear(
        w=bound * jax.random.uniform(w_key, (num_in, num_out), float, -1.0, 1.0),
        bias=bound * jax.random.uniform(bias_key, (num_out,), float, -1.0, 1.0),
    )


def affine(linear: Linear, x: Float[Array, "N I"]) -> Float[Array, "N O"]:
    """X W + b.

    Example:
      >>> affine(Linear(jnp.ones((2, 1)), jnp.ones(1)), jnp.eye(2)).tolist()
      [[2.0], [2.0]]
    """
    return x @ linear.w + linear.bias[None, :]
