"""DSF as one thing: any backbone with any local weights (Algorithm 1).

    hidden    h = ReLU(X W_1 + b_1)                      (JacobiConv: none)
    signal    x = h W_2 + b_2                            N x C
    weights   β_{k,i} = γ_k θ_{k,i} + Δ_{k,i}            of the local; base models: γ_k
    logits    z_i = Σ_k β_{k,i} [P_k(L̂) x]_i

with dropout on X, h, x and what the local says. This is the authors' order; in
Algorithm 1 the filter comes before W_2 (`project_first`). See docs/decisions.md for
every choice.
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key

from dsf_jax.bases import Basis
from dsf_jax.filters import cumulative_weights
from dsf_jax.graph.graph import Graph
from dsf_jax.models.backbones import Backbone, Weights, initial_gamma, join_weights
from dsf_jax.models.layers import (
    Inputs,
    Linear,
    Masks,
    affine,
    drop,
    hidden_features,
    init_perceptron,
    project_features,
)
from dsf_jax.models.local import Local, Positional, Shared
from dsf_jax.models.model import Flags, Group, LocalWeights, Model, Output, Run
from dsf_jax.models.settings import HyperParams


class Params(NamedTuple):
    """Parameters of a spectral model; None where it has none."""

    hidden: Linear | None  # W_1, b_1
    out: Linear  # W_2, b_2
    gamma: Float[Array, "K1 ..."] | None  # [K1], or [K1, C] with factors; None: fixed
    local: Any  # of the local weights
    basis: Any = None  # of a basis that is learnt


@dataclasses.dataclass(frozen=True, kw_only=True)
class Diverse(Model):
    """A backbone and its local weights; from `diverse`.

    Example:
      >>> from dsf_jax import BACKBONES, positional
      >>> diverse(BACKBONES["gpr"], positional("R")).order
      10
    """

    backbone: Backbone
    local: Local = Shared()
    project_first: bool = True  # classes first, then filter; else Algorithm 1

    has_filters = True

    def __post_init__(self) -> None:
        """Check what the annotations cannot."""
        super().__post_init__()
        self.backbone.check()

    @property
    def filter_op(self) -> str:
        """What the filter runs on."""
        return self.backbone.filter_op

    @property
    def uses_positions(self) -> bool:
        """Whether weights come from positions."""
        return self.local.uses_positions

    @property
    def has_correlation(self) -> bool:
        """Whether positions are correlated, node by node."""
        return self.local.has_correlation

    @property
    def is_shardable(self) -> bool:
        """A learnt basis has sums over nodes of its own."""
        return self.local.is_shardable and self.backbone.learnt_basis is None

    @property
    def signal_width(self) -> int:
        """Columns of the widest signal that is multiplied by the graph, about."""
        return self.local.signal_width

    @property
    def has_hidden(self) -> bool:
        """Whether features pass a hidden layer; Algorithm 1 always has one."""
        return self.backbone.has_hidden or not self.filters_classes

    @property
    def filters_classes(self) -> bool:
        """Whether the filter acts on class scores, not on hidden features."""
        return self.project_first and not self.backbone.filters_hidden

    @property
    def max_order(self) -> int:
        """The largest order that has a weight."""
        return self.order + self.backbone.extra_orders

    @property
    def reads(self) -> frozenset[str]:
        """Fields of `HyperParams` that change anything."""
        dropouts = {f"dropout_{name}" for name in self._widths(1) if name != "noise"}
        return self.backbone.reads | self.local.reads(self.backbone) | dropouts

    @property
    def exact(self) -> "Diverse":
        """With S summed over all nodes."""
        if not isinstance(self.local, Positional) or not self.local.num_sampled:
            return self
        local = dataclasses.replace(self.local, num_sampled=0)
        return dataclasses.replace(self, local=local)

    def make_inputs(
        self, graph: Graph, features: Any, x_pos: Array | None = None
    ) -> Inputs:
        """Operators that the model needs, with features and positional features."""
        inputs = super().make_inputs(graph, features, x_pos)
        return self.local.extend(inputs, graph, self.backbone)

    def start(self, key: Key[Array, ""], run: Run, num_classes: int) -> Params:
        """Maps, biases included, are uniform within ±1/√(fan-in).

        γ follows `gamma_init`, and the local its own rule.
        """
        maps_keys, gamma_key, local_key = self.local.split_key(key)
        gamma = initial_gamma(gamma_key, run.hparams, self.max_order)
        channels, basis = num_classes if self.filters_classes else self.hidden, None
        shape = run.inputs.features.shape[0], channels
        run = run._replace(signal=jnp.zeros(shape) if self.local.reads_signal else None)
        local = self.local.init(local_key, gamma, self.backbone, run)
        if self.backbone.per_channel:
            gamma = jnp.tile(gamma[:, None], (1, channels))
        if self.backbone.learnt_basis is not None:
            basis = self.backbone.learnt_basis.init(self.max_order, channels)
        hidden = self.hidden if self.has_hidden else None
        num_features = run.inputs.features.shape[1]
        maps = init_perceptron(maps_keys, num_features, hidden, num_classes)
        is_learnt = self.backbone.fixed_gamma is None
        return Params(*maps, gamma if is_learnt else None, local, basis)

    def mask_shapes(self, params: Params, inputs: Inputs) -> dict[str, tuple[int, ...]]:
        """Of h, of the signal, and of the local."""
        widths, num_nodes = self._widths(len(params.out.bias)), inputs.features.shape[0]
        own = self.local.mask_shapes(params.local, inputs)
        return {name: (num_nodes, width) for name, width in widths.items()} | own

    def _widths(self, num_classes: int) -> dict[str, int]:
        """Columns of the masks of h and of the signal, and of its noise."""
        widths = {"h": self.hidden} if self.has_hidden else {}
        if self.filters_classes and self.backbone.drops_signal:
            widths["z"] = num_classes
        if self.backbone.filters_hidden:
            widths["z"] = self.hidden
        return widths | ({"noise": self.hidden} if self.backbone.noise > 0 else {})

    def forward(self, params: Params, run: Run) -> Output:
        """Logits of every node (Algorithm 1)."""
        signal = self._signal(params, run)
        weights = self._weights(params, run, signal)
        filtered = self.backbone.filter(run, self._shared(params, run), signal, weights)
        logits = self._classify(params, filtered, run)
        return Output(logits, weights.kept, run.inputs.is_node)

    def apply_both(
        self, params: Params, run: Run
    ) -> tuple[Output, Float[Array, "N C"]]:
        """Training output and evaluation logits of the same parameters.

        Where weights are the same in both, one pass over them, the most expensive part
        of a model, serves twice.
        """
        constant, clean = jax.lax.stop_gradient(params), run._replace(masks=Masks())
        signals = jnp.stack([self._signal(params, run), self._signal(constant, clean)])
        weights = self._weights(params, run, signals[0])
        shared = self._shared(params, run)
        filter_one = partial(self.backbone.filter, run)

        def together() -> Array:  # side by side in the same products
            # weights of their own for the second, whose gradient is then not made
            both, own = jax.tree.map(
                lambda x: jnp.stack([x, jax.lax.stop_gradient(x)]),
                (shared, weights._replace(kept=None)),
            )
            return jax.vmap(filter_one)(both, signals, own)

        def apart() -> Array:
            own = self._weights(constant, clean, signals[1])
            evaluated = filter_one(self._shared(constant, run), signals[1], own)
            return jnp.stack([filter_one(shared, signals[0], weights), evaluated])

        is_same = self.local.is_same(run.flags)
        if isinstance(is_same, bool):
            filtered = together() if is_same else apart()
        else:
            filtered = jax.lax.cond(is_same, together, apart)
        logits = self._classify(params, filtered[0], run)
        output = Output(logits, weights.kept, run.inputs.is_node)
        return output, self._classify(constant, filtered[1], clean)

    def penalty(self, output: Output, hparams: HyperParams) -> Any:
        """That of the local."""
        return self.local.penalty(output.local, hparams, output.is_node)

    def groups(self, hparams: HyperParams) -> Params:
        """Maps of features, γ, and what makes θ, ρ or Δ."""
        maps: Any = Group(hparams.lr, hparams.decay)
        gamma: Any = Group(hparams.lr_gamma, hparams.decay_gamma)
        local = Group(hparams.lr_pos, hparams.decay_pos)
        own = self.local.groups(hparams, self.backbone, self.max_order)
        return Params(maps, maps, gamma, own, basis=local)

    def flags(self, hparams: HyperParams) -> Flags:
        """Those of the local."""
        return self.local.flags(hparams)

    def local_weights(
        self, params: Params, inputs: Inputs, hparams: HyperParams
    ) -> LocalWeights:
        """See `Model.local_weights`."""
        run, num_nodes = Run(inputs, hparams), inputs.features.shape[0]
        theta, offset, _ = self._weights(params, run, self._signal(params, run))
        gamma, _ = self._shared(params, run)
        gamma = gamma if gamma.ndim == 1 else gamma[:, 0]

        def of_nodes(x: Array) -> Array:
            return x if x.ndim == 2 else jnp.tile(x[:, None], (1, num_nodes))

        if self.backbone.has_factors and theta is not None:
            rho = of_nodes(self.backbone.factors(theta, hparams))
            theta = cumulative_weights(jnp.ones_like(gamma), rho)
            return LocalWeights(gamma, theta, gamma[:, None] * theta, rho)
        theta = of_nodes(jnp.ones_like(gamma) if theta is None else theta)
        return LocalWeights(gamma, theta, join_weights(gamma, theta, offset))

    def basis(self, params: Params, inputs: Inputs, hparams: HyperParams) -> Basis:
        """The polynomials P_k of its filters; of the first channel if they differ."""
        if self.backbone.learnt_basis is None:
            return self.backbone.basis(hparams)
        signal = self._signal(params, Run(inputs, hparams))
        return self.backbone.learnt_basis.basis(params.basis, inputs.filter_op, signal)

    def node_positions(
        self, params: Params, inputs: Inputs, hparams: HyperParams
    ) -> Float[Array, "K1 N D"]:
        """Positions P^(k) of every order, in evaluation mode.

        Raises:
          ValueError: if the model has none.
        """
        if not isinstance(self.local, Positional):
            raise ValueError(
                "params must be those of a model with positions, got none; DSF-I and "
                "DSF-R models have them, base models and -no-ipe have not."
            )
        return self.local.encoding(params.local, Run(inputs, hparams)).positions

    def _weights(self, params: Params, run: Run, signal: Array) -> Weights:
        run = run._replace(signal=signal if self.local.reads_signal else None)
        return self.local.weights(params.local, self.backbone, run)

    def _shared(self, params: Params, run: Run) -> tuple[Float[Array, "K1 ..."], Any]:
        """What all nodes share: γ, and the parameters of the basis."""
        gamma = self.backbone.gamma(params.gamma, run.hparams, self.order)
        return gamma.astype(params.out.w.dtype), params.basis

    def _signal(self, params: Params, run: Run) -> Float[Array, "N _"]:
        """The signal to filter: class scores, or hidden features in Algorithm 1."""
        if params.hidden is None:
            signal = project_features(params.out, run.inputs, run.masks)
        else:
            signal = hidden_features(params.hidden, run.inputs, run.masks)
        if self.backbone.noise > 0:
            noise = run.masks.noise
            if noise is None:  # the same in every evaluation
                noise = jax.random.normal(jax.random.key(0), signal.shape, signal.dtype)
            signal = signal + self.backbone.noise * noise
        if not self.filters_classes:
            return signal
        scores = signal if params.hidden is None else affine(params.out, signal)
        return drop(scores, run.masks.z)

    def _classify(
        self, params: Params, filtered: Float[Array, "N _"], run: Run
    ) -> Float[Array, "N C"]:
        """Logits of the filtered signal: itself, or the last line of Algorithm 1."""
        if self.filters_classes:
            return filtered
        return affine(params.out, drop(filtered, run.masks.z))


def diverse(backbone: Backbone, local: Local | None = None, **options: Any) -> Diverse:
    """A model of any backbone and any local weights.

    Args:
      backbone: one of `BACKBONES`, or your own.
      local: `shared()`, `positional(...)`, `free()`, `offsets()`; shared if not given.
      options: fields of `Diverse`: order, hidden, project_first.

    Returns:
      The model.

    Example:
      >>> from dsf_jax import BACKBONES, Graph, positional
      >>> model = diverse(BACKBONES["bern"], positional("R"), order=4)
      >>> edge, x_pos = Graph.from_edges([(0, 1)], num_nodes=2), jnp.zeros((2, 2, 32))
      >>> inputs, hparams = model.make_inputs(edge, jnp.eye(2), x_pos), HyperParams()
      >>> params = model.init(jax.random.key(0), inputs, hparams, num_classes=3)
      >>> model.local_weights(params, inputs, hparams).beta.shape
      (5, 2)
    """
    return Diverse(backbone=backbone, local=local or Shared(), **options)
