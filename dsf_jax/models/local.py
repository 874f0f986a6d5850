"""Local weights: how the global weights γ_k become weights β_{k,i} of every node.

    β_{k,i} = γ_k θ_{k,i} + Δ_{k,i}

    shared        γ_k                                    the base model
    positional    γ_k σ_p(t_{k,i}), t from Eq. 7         DSF as published
    free          γ_k θ_{k,i}, θ a parameter             the ablation without IPE
    offsets       γ_k + Δ_{k,i}                          PA-GNN, our reading

Those that start at their base model are in `dsf_jax.models.anchored`. A local is init,
weights and penalty; nothing else knows its kind.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int, Key

from dsf_jax.bases import monomial
from dsf_jax.filters import shared_filter
from dsf_jax.graph.embedding import netmf
from dsf_jax.graph.graph import Graph
from dsf_jax.ipe import Encoding, Heads, encode, orthogonality_loss
from dsf_jax.models.backbones import Backbone, Weights, initial_gamma
from dsf_jax.models.layers import (
    Inputs,
    Linear,
    Perceptron,
    affine,
    drop,
    init_linear,
    init_perceptron,
    project_features,
)
from dsf_jax.models.model import Flags, Group, Run
from dsf_jax.models.settings import HyperParams, check_config
from dsf_jax.ops.correlation import Correlation, draw_sample
from dsf_jax.ops.nodes import mean_nodes
from dsf_jax.ops.operator import OPERATORS


@dataclasses.dataclass(frozen=True)
class Local(abc.ABC):
    """Local weights of any backbone; `run` is what a pass is given beside parameters.

    Example:
      >>> positional("R").signal_width
      64
    """

    uses_positions: ClassVar[Any] = False
    reads_signal: ClassVar[Any] = False  # whether weights read `Run.signal`
    has_correlation: ClassVar[Any] = False  # whether positions are correlated
    signal_width: ClassVar[Any] = 16  # columns of its widest signal, about
    is_shardable: ClassVar[Any] = True  # see `Model`

    @abc.abstractmethod
    def reads(self, backbone: Backbone) -> frozenset[str]:
        """Fields of `HyperParams` that it adds to those of the backbone."""

    @abc.abstractmethod
    def init(self, key: Array, gamma: Array, backbone: Backbone, run: Run) -> Any:
        """Initial parameters; `gamma` is the start of the global weights."""

    @abc.abstractmethod
    def weights(self, params: Any, backbone: Backbone, run: Run) -> Weights:
        """θ and Δ of every node."""

    def penalty(self, kept: Any, hparams: HyperParams, is_node: Any = None) -> Any:
        """What it adds to the loss; None for nothing.

        `is_node` are the rows that count, where nodes are shared out over devices.
        """
        return None

    def groups(self, hparams: HyperParams, backbone: Backbone, order: int) -> Any:
        """Rates and decays of its parameters, of `order` + 1 weights."""
        return Group(hparams.lr_pos, hparams.decay_pos)

    def flags(self, hparams: HyperParams) -> Flags:
        """Facts about jobs that run side by side."""
        return {}

    def is_same(self, flags: Flags) -> bool | Bool[Array, ""]:
        """Whether weights are the same in training and evaluation: no dropout acts."""
        return True

    def mask_shapes(self, params: Any, inputs: Inputs) -> dict[str, tuple[int, ...]]:
        """Masks of its own."""
        return {}

    def extend(self, inputs: Inputs, graph: Graph, backbone: Backbone) -> Inputs:
        """Inputs of its own."""
        return inputs

    def split_key(self, key: Key[Array, ""]) -> tuple[Key[Array, " 2"], Array, Array]:
        """Keys of the maps of features, of γ, and of its own parameters."""
        hidden_key, out_key, gamma_key, own_key = jax.random.split(key, 4)
        return jnp.stack([hidden_key, out_key]), gamma_key, own_key


class Shared(Local):
    """β_{k,i} = γ_k; a backbone with factors has ρ_s = α σ_p(r_s), r a parameter."""

    def reads(self, backbone: Backbone) -> frozenset[str]:
        """Rate and decay of r."""
        return frozenset({"lr_pos", "decay_pos"} if backbone.has_factors else ())

    def init(self, key: Array, gamma: Array, backbone: Backbone, run: Run) -> Any:
        """The largest r that keeps ρ in [-1, 1] before σ_p: min(1/α, 1)."""
        if not backbone.has_factors:
            return None
        largest = 1 / jnp.asarray(run.hparams.rho_scale, dtype=float)
        return jnp.broadcast_to(jnp.minimum(largest, 1.0), gamma.shape[:1])

    def weights(self, params: Any, backbone: Backbone, run: Run) -> Weights:
        """Nothing, or σ_p(r)."""
        return Weights(None if params is None else backbone.theta_activation(params))


@dataclasses.dataclass(frozen=True)
class Free(Local):
    """θ_{k,i} is a parameter: N x (K + 1) weights without positions.

    They start so that the model is its base model. Not bounded, only kept where γ must
    be (Bernstein).

    Example:
      >>> Free().from_gamma
      False
    """

    from_gamma: bool = False  # start at γ in the place of 1, for a backbone with γ = 1

    is_shardable = False

    def reads(self, backbone: Backbone) -> frozenset[str]:
        """Its rate; a decay would move weights of unlabelled nodes."""
        start = {"gamma_init", "alpha"} if self.from_gamma else set()
        return frozenset({"lr_pos", *start})

    def init(self, key: Array, gamma: Array, backbone: Backbone, run: Run) -> Array:
        """1, γ, or what `Shared` has for all nodes."""
        start = Shared().init(key, gamma, backbone, run)
        if start is None:
            start = gamma if self.from_gamma else jnp.ones_like(gamma)
        return jnp.tile(start[:, None], (1, run.inputs.features.shape[0]))

    def weights(self, params: Any, backbone: Backbone, run: Run) -> Weights:
        """The parameters."""
        if backbone.has_factors:
            return Weights(backbone.theta_activation(params))
        activation = backbone.gamma_activation
        return Weights(params if activation is None else activation(params))

    def groups(self, hparams: HyperParams, backbone: Backbone, order: int) -> Any:
        """No decay: without a gradient Adam would make steps of full size of it."""
        return Group(hparams.lr_pos, decay=0.0)


class PositionParams(NamedTuple):
    """Parameters of the positional encoding."""

    start: Linear  # x_pos -> P^(0); rows from f_p on are not used
    heads: Heads
    correlation: Correlation | None  # variant I


@dataclasses.dataclass(frozen=True)
class Positional(Local):
    """θ_{k,i} = σ_p(t_{k,i}) from positions (Eq. 6, 7): DSF as published.

    Example:
      >>> Positional("I").has_correlation
      True
    """

    variant: str = "R"  # or "I"
    width: int = 64  # of the positions, D
    has_orth: bool = True  # R: the orthogonality loss
    # I: S = tanh of an affine map as the authors ran it; "free": the paper's W alone
    correlation: str = "affine"
    # in neither: 1/N in front of S keeps the positions of variant I informative
    mean_correlation: bool = False
    # in neither: I: nodes that S is summed over in a training step, drawn anew in each,
    # and the same ones in every evaluation; 0: all
    num_sampled: int = 0

    uses_positions = True

    def __post_init__(self) -> None:
        """Check what the annotations cannot."""
        words = {"variant": ("R", "I"), "correlation": ("affine", "free")}
        check_config(self, {"width": 1, "num_sampled": 0}, **words)
        if self.num_sampled and self.variant == "R":
            raise ValueError(
                f"num_sampled must be 0 in variant R, which has no S, got "
                f"{self.num_sampled}; take positional('I', num_sampled=...)."
            )

    @property
    def signal_width(self) -> int:
        """D."""
        return self.width

    @property
    def has_correlation(self) -> bool:
        """Variant I has S."""
        return self.variant == "I"

    @property
    def is_shardable(self) -> bool:
        """S joins every node with every other."""
        return not self.has_correlation

    def reads(self, backbone: Backbone) -> frozenset[str]:
        """Settings of the positions, and of the variant."""
        own = {"lr_pos", "decay_pos", "pos_kind", "f_p", "dropout_pos", "eta1"}
        if self.variant == "I":
            own.add("eta2")
        elif self.has_orth:
            own |= {"lambda_orth", "orth_normalize"}
        return frozenset(own)

    def init(self, key: Array, gamma: Array, backbone: Backbone, run: Run) -> Any:
        """Maps uniform within ±1/√(fan-in)."""
        start_key, heads_key, correlation_key = jax.random.split(key, 3)
        assert run.inputs.x_pos is not None
        num_columns, fan_in = run.inputs.x_pos.shape[2], run.hparams.f_p
        heads = init_linear(heads_key, self.width, len(gamma))
        correlation = None
        if self.has_correlation:
            w, bias = init_linear(correlation_key, self.width, self.width)
            correlation = Correlation(w, bias if self.correlation == "affine" else None)
        return PositionParams(
            start=init_linear(start_key, num_columns, self.width, fan_in=fan_in),
            heads=Heads(w=heads.w.T, bias=heads.bias),
            correlation=correlation,
        )

    def weights(self, params: PositionParams, backbone: Backbone, run: Run) -> Weights:
        """Eq. 7; keeps P^(K)."""
        encoding = self.encoding(params, run)
        return Weights(backbone.theta_activation(encoding.logits), kept=encoding.pos)

    def penalty(self, kept: Any, hparams: HyperParams, is_node: Any = None) -> Any:
        """λ L_Orth of P^(K) (Eq. 8)."""
        if self.variant == "I" or not self.has_orth:
            return None
        form = hparams.orth_normalize
        orth = orthogonality_loss(kept, normalize=form, is_node=is_node)
        return hparams.lambda_orth * orth

    def groups(self, hparams: HyperParams, backbone: Backbone, order: int) -> Any:
        """A head that no factor reads has no gradient; it stays, as in PyTorch."""
        group = Group(hparams.lr_pos, hparams.decay_pos)
        if not backbone.has_factors:
            return group
        read = backbone.factor_orders((order + 1, 1))
        decay = jnp.zeros(order + 1).at[read].set(1.0) * group.decay
        parts: Any = {"start": group, "correlation": group}
        heads: Any = (group._replace(decay=d) for d in (decay[:, None], decay))
        return PositionParams(heads=Heads(*heads), **parts)

    def flags(self, hparams: HyperParams) -> Flags:
        """Whether S acts on any lane, and whether dropout acts on none."""
        strength = (1 - jnp.asarray(hparams.eta1)) * jnp.asarray(hparams.eta2)
        return {
            "has_correlation": jnp.any(strength > 0),
            "no_dropout_pos": jnp.all(jnp.asarray(hparams.dropout_pos) == 0),
        }

    def is_same(self, flags: Flags) -> bool | Array:
        """The most expensive part of a model then serves twice."""
        if self.num_sampled:
            return False
        return flags.get("no_dropout_pos", jnp.asarray(False))

    def mask_shapes(self, params: Any, inputs: Inputs) -> dict[str, tuple[int, ...]]:
        """Of P^(0); and the sample for S."""
        own = {"sample": (self.num_sampled,)} if self.num_sampled else {}
        return {"pos": (inputs.features.shape[0], self.width), **own}

    def extend(self, inputs: Inputs, graph: Graph, backbone: Backbone) -> Inputs:
        """The operator of the positions, where it is another one."""
        if backbone.pos_op == backbone.filter_op:
            return inputs
        return inputs._replace(pos_op=OPERATORS[backbone.pos_op](graph))

    def first(self, params: PositionParams, run: Run) -> Float[Array, "N D"]:
        """P^(0) = tanh(X_p W_p + b_p), the first f_p columns of the chosen kind."""
        w, hparams = params.start.w, run.hparams
        in_use = jnp.arange(w.shape[0]) < hparams.f_p
        assert run.inputs.x_pos is not None
        x_pos = run.inputs.x_pos[jnp.asarray(hparams.pos_kind)].astype(w.dtype)
        pos0 = jnp.tanh(affine(params.start, jnp.where(in_use[None, :], x_pos, 0.0)))
        return drop(pos0, run.masks.pos)

    def encoding(self, params: PositionParams, run: Run) -> Encoding:
        """Eq. 6 and 7; η2 = 0 in variant R (Alg. 1, line 1)."""
        return encode(
            run.inputs.pos_op,
            self.first(params, run),
            params.heads,
            params.correlation,
            eta1=run.hparams.eta1,
            eta2=run.hparams.eta2 if self.has_correlation else 0.0,
            scale=1 / run.inputs.features.shape[0] if self.mean_correlation else 1.0,
            has_correlation=run.flags.get("has_correlation", True),
            sample=self._sample(run),
        )

    def _sample(self, run: Run) -> Int[Array, " M"] | None:
        """Nodes that S is summed over: of this step, or of all evaluations."""
        if not self.num_sampled or run.masks.sample is not None:
            return run.masks.sample
        num_nodes = run.inputs.features.shape[0]
        with jax.ensure_compile_time_eval():  # once, not in every epoch
            return draw_sample(jax.random.key(0), num_nodes, self.num_sampled)


class OffsetParams(NamedTuple):
    """Parameters of the network that makes the offsets."""

    start: Linear  # W, b
    phi: Float[Array, " K1"]
    head: Perceptron  # filtered signal -> Δ_i


@dataclasses.dataclass(frozen=True)
class Offsets(Local):
    """Additive offsets of the weights (PA-GNN).

        Δ_i = MLP([Σ_k φ_k Ã^k u]_i),    u = drop([ReLU(drop(X) W + b), ξ])
        L = L_task + λ mean_i Σ_k |Δ_{k,i}|

    No code of PA-GNN was published. This is our reading of its description, not a
    reproduction: the embedding ξ is NetMF (`dsf_jax.graph.embedding`), the second
    network is as deep and wide as the first, its last map starts at 0, so that training
    starts from the base model, and the offsets are not bounded.

    Example:
      >>> Offsets().hidden
      64
    """

    hidden: int = 64

    @property
    def signal_width(self) -> int:
        """Features and embedding side by side."""
        return 2 * self.hidden

    def reads(self, backbone: Backbone) -> frozenset[str]:
        """Settings of the second network and the penalty."""
        return frozenset({"lr_pos", "decay_pos", "dropout_pos", "lambda_l1"})

    def split_key(self, key: Key[Array, ""]) -> tuple[Key[Array, " 2"], Array, Array]:
        """One key for both maps of features, three for the offsets."""
        maps_key, gamma_key, *own_keys = jax.random.split(key, 5)
        return jax.random.split(maps_key), gamma_key, jnp.stack(own_keys)

    def init(self, key: Array, gamma: Array, backbone: Backbone, run: Run) -> Any:
        """φ as γ, the last map 0."""
        start_key, phi_key, head_key = key
        num_features, order = run.inputs.features.shape[1], len(gamma) - 1
        assert run.inputs.embedding is not None
        width = self.hidden + run.inputs.embedding.shape[1]
        keys = jax.random.split(head_key)
        head = init_perceptron(keys, width, self.hidden, order + 1)
        return OffsetParams(
            start=init_linear(start_key, num_features, self.hidden),
            phi=initial_gamma(phi_key, run.hparams, order),
            head=head._replace(out=jax.tree.map(jnp.zeros_like, head.out)),
        )

    def weights(self, params: OffsetParams, backbone: Backbone, run: Run) -> Weights:
        """Δ, kept for the penalty too."""
        hidden = jax.nn.relu(project_features(params.start, run.inputs, run.masks))
        assert run.inputs.embedding is not None
        embedding = run.inputs.embedding.astype(hidden.dtype)
        signal = drop(jnp.concatenate([hidden, embedding], axis=1), run.masks.pos)
        first, last = params.head
        assert first is not None
        # the map commutes with the filter, and is narrower than the signal
        mapped = signal @ first.w
        filtered = shared_filter(run.inputs.filter_op, mapped, params.phi, monomial)
        delta = affine(last, jax.nn.relu(filtered + first.bias[None, :])).T
        return Weights(offset=delta, kept=delta)

    def penalty(self, kept: Any, hparams: HyperParams, is_node: Any = None) -> Any:
        """λ mean_i Σ_k |Δ_{k,i}|."""
        return hparams.lambda_l1 * mean_nodes(jnp.sum(jnp.abs(kept), axis=0), is_node)

    def is_same(self, flags: Flags) -> bool:
        """Dropout on features acts on the offsets, too."""
        return False

    def mask_shapes(self, params: Any, inputs: Inputs) -> dict[str, tuple[int, ...]]:
        """Of what is filtered."""
        return {"pos": (inputs.features.shape[0], params.head.hidden.w.shape[0])}

    def extend(self, inputs: Inputs, graph: Graph, backbone: Backbone) -> Inputs:
        """The embedding."""
        return inputs._replace(embedding=jnp.asarray(netmf(graph), dtype=float))


_Maker = Callable[..., Local]
shared: _Maker = Shared
positional: _Maker = Positional
free: _Maker = Free
offsets: _Maker = Offsets
"""How a model is written: `diverse(backbone, positional("R"))`."""
