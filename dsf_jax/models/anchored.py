"""Local weights that start at their base model. These forms are ours, not the paper's.

A code c_i of every node makes a deviation t_{k,i} that is 0 at the start,

    c_i = tanh(f_i W + b),    f_i = [columns of the graph, signal, contrast]

    residual   t_{k,i} = c_i^(k) · w_k + b_k,    w = b = 0 at the start
    mixture    t_{k,i} = Σ_m (g_{m,i} - 1/M) δ_{m,k},    g_i = softmax(c_i V),
               δ = 0 at the start
    content    as residual, with the signal and its contrast in the place of columns

and the deviation makes weights by the rule of the backbone:

    factors (JacobiConv)             ρ_{s,i} = α σ_p(r_s + t_{s,i})
    γ kept at 0 or above (Bernstein) β_{k,i} = γ_k (1 + tanh t_{k,i})
    all others, by `residual_form`   β_{k,i} = γ_k (1 + s tanh t_{k,i}), s = 1 or 2, or
                                     γ_k + tanh t_{k,i}; mixture: γ_k + t_{k,i}

Columns are log-degrees, LapPE and RWPE, each with mean 0 and deviation 1 over the nodes
and cut off at ±3: raw ones hardly differ between nodes. The contrast of a signal x is
[|op x - x|, |op² x - x|]. All of it has a rate and a decay of its own, `lr_local` and
`decay_local`; with a rate of 0 training is that of the base model.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float

from dsf_jax.graph.graph import Graph
from dsf_jax.graph.laplacian import NUM_COLUMNS as NUM_KIND
from dsf_jax.ipe import Heads, encode
from dsf_jax.models.backbones import Backbone, Weights
from dsf_jax.models.layers import Inputs, Linear, affine, init_linear
from dsf_jax.models.local import Local, Shared
from dsf_jax.models.model import Group, Run
from dsf_jax.models.settings import COLUMNS, HyperParams
from dsf_jax.ops.nodes import mean_nodes
from dsf_jax.ops.operator import OPERATORS, Operator, propagate

CUT = 3.0  # standard deviations
NUM_COLUMNS = 2 + 2 * NUM_KIND
# whether the choice of `pos_columns` has degrees, LapPE, RWPE
_CHOSEN = np.asarray(
    [
        [part in words.split("+") for part in ("degree", "lap", "rw")]
        for words in COLUMNS
    ]
)
# s and the share of tanh t that is added, by `residual_form`
_SCALES, _ADDED = np.asarray([1.0, 2.0, 0.0]), np.asarray([0.0, 0.0, 1.0])


class AnchoredParams(NamedTuple):
    """Parameters of a code and of the deviations made from it."""

    code: Linear  # W, b
    heads: Any  # `Heads` of a residual, `Experts` of a mixture
    base: Array | None  # r of JacobiConv, with the base model's rate


class Experts(NamedTuple):
    """Parameters of a mixture."""

    gate: Float[Array, "D M"]  # V
    delta: Float[Array, "M K1"]


@dataclasses.dataclass(frozen=True)
class Residual(Local):
    """Weights of the base model, and what a code of the node adds to them.

    Example:
      >>> Residual(has_signal=True, has_columns=False).uses_positions
      False
    """

    width: int = 16  # of the code, D
    has_columns: bool = True  # log-degrees, LapPE, RWPE
    has_signal: bool = False  # the signal and its contrast
    has_recurrence: bool = False  # c^(k) by Eq. 6 of variant R; else c^(k) = c

    def __post_init__(self) -> None:
        """Check what the annotations cannot."""
        if not self.width >= 1:
            raise ValueError(f"width must be at least 1, got {self.width}; try 16.")
        if not (self.has_columns or self.has_signal):
            raise ValueError(
                "has_columns and has_signal must not both be False, got False and "
                "False; a code is made of one of them."
            )

    @property
    def uses_positions(self) -> bool:
        """Whether it needs LapPE and RWPE."""
        return self.has_columns

    @property
    def reads_signal(self) -> bool:
        """Whether weights depend on the signal."""
        return self.has_signal

    @property
    def signal_width(self) -> int:
        """D, where codes are propagated."""
        return self.width if self.has_recurrence else 16

    def reads(self, backbone: Backbone) -> frozenset[str]:
        """Rate, decay and penalty, and settings of columns, recurrence and form."""
        own = {"lr_local", "decay_local", "lambda_local"} | Shared().reads(backbone)
        if self.has_columns:
            own |= {"pos_columns", "f_p"}
        if self.has_recurrence:
            own.add("eta1")
        return frozenset(
            own | ({"residual_form"} if self.has_form(backbone) else set())
        )

    def has_form(self, backbone: Backbone) -> bool:
        """Whether `residual_form` says how t becomes a weight."""
        return not backbone.has_factors and backbone.gamma_activation is None

    def init(
        self, key: Array, gamma: Array, backbone: Backbone, run: Run
    ) -> AnchoredParams:
        """The code's map uniform within ±1/√(columns in use); no deviation."""
        code_key, heads_key = jax.random.split(key)
        signal = 0 if run.signal is None else 3 * run.signal.shape[1]
        num_columns, fan_in = signal, jnp.asarray(signal, dtype=float)
        if self.has_columns:
            num_columns += NUM_COLUMNS
            fan_in += jnp.sum(columns_in_use(run.hparams), dtype=float)
        return AnchoredParams(
            code=init_linear(code_key, num_columns, self.width, fan_in=fan_in),
            heads=self.init_heads(heads_key, len(gamma)),
            base=Shared().init(key, gamma, backbone, run),
        )

    def init_heads(self, key: Array, num_weights: int) -> Any:
        """No deviation: w = b = 0."""
        return Heads(jnp.zeros((num_weights, self.width)), jnp.zeros(num_weights))

    def weights(self, params: AnchoredParams, backbone: Backbone, run: Run) -> Weights:
        """By the rule of the backbone; keeps what the penalty reads."""
        t = self.deviations(params, run)
        if backbone.has_factors:
            assert params.base is not None
            return Weights(backbone.theta_activation(params.base[:, None] + t), kept=t)
        if not self.has_form(backbone):
            return Weights(1 + jnp.tanh(t), kept=jnp.tanh(t))
        return self.by_form(t, run.hparams)

    def by_form(self, t: Float[Array, "K1 N"], hparams: HyperParams) -> Weights:
        """γ (1 + s tanh t) or γ + tanh t."""
        form, bent = jnp.asarray(hparams.residual_form), jnp.tanh(t)
        scale, added = (jnp.asarray(x, t.dtype)[form] for x in (_SCALES, _ADDED))
        return Weights(1 + scale * bent, added * bent, kept=bent)

    def deviations(self, params: AnchoredParams, run: Run) -> Float[Array, "K1 N"]:
        """t_{k,i}."""
        code, heads = self.code(params.code, run), params.heads
        if self.has_recurrence:
            op, eta1 = run.inputs.pos_op, run.hparams.eta1
            return encode(op, code, heads, eta1=eta1).logits
        return heads.w @ code.T + heads.bias[:, None]

    def code(self, linear: Linear, run: Run) -> Float[Array, "N D"]:
        """The code c = tanh(f W + b)."""
        return jnp.tanh(affine(linear, self.features(run).astype(linear.w.dtype)))

    def features(self, run: Run) -> Float[Array, "N _"]:
        """f: columns of the graph, 0 where not in use, the signal, its contrast."""
        parts = []
        if self.has_columns:
            assert run.inputs.columns is not None
            in_use = columns_in_use(run.hparams)
            parts.append(jnp.where(in_use[None, :], run.inputs.columns, 0.0))
        if self.has_signal:
            assert run.signal is not None
            parts += [run.signal, contrast(run.inputs.filter_op, run.signal)]
        return jnp.concatenate(parts, axis=1)

    def penalty(self, kept: Any, hparams: HyperParams, is_node: Any = None) -> Any:
        """λ mean_i Σ_k d_{k,i}², d the deviation as it acts: a pull to the base."""
        return hparams.lambda_local * mean_nodes(jnp.sum(kept**2, axis=0), is_node)

    def groups(self, hparams: HyperParams, backbone: Backbone, order: int) -> Any:
        """As in the base model for r; all else with a rate of its own."""
        own: Any = Group(hparams.lr_local, hparams.decay_local)
        return AnchoredParams(own, own, super().groups(hparams, backbone, order))

    def is_same(self, flags: Any) -> bool:
        """The signal is another one in training, by its dropout."""
        return not self.has_signal

    def extend(self, inputs: Inputs, graph: Graph, backbone: Backbone) -> Inputs:
        """Standardised columns; Ã for the recurrence, whatever the backbone has."""
        if self.has_recurrence and backbone.filter_op != "a_tilde":
            inputs = inputs._replace(pos_op=OPERATORS["a_tilde"](graph))
        if not self.has_columns:
            return inputs
        assert inputs.x_pos is not None
        columns = node_columns(graph, np.asarray(inputs.x_pos))
        return inputs._replace(columns=jnp.asarray(columns, dtype=float))


@dataclasses.dataclass(frozen=True)
class Mixture(Residual):
    """A few filters beside the base model's, mixed softly by the code.

    Example:
      >>> Mixture(num_experts=3).width
      16
    """

    num_experts: int = 4  # M

    def __post_init__(self) -> None:
        """Check what the annotations cannot."""
        super().__post_init__()
        if self.has_recurrence:
            raise ValueError(
                "has_recurrence must be False for a mixture, got True; its gate reads "
                "one code, not one for each order."
            )
        if not self.num_experts >= 2:
            raise ValueError(
                f"num_experts must be at least 2, got {self.num_experts}; try 4."
            )

    def reads(self, backbone: Backbone) -> frozenset[str]:
        """As a residual; a deviation is added as it is."""
        return super().reads(backbone) - {"residual_form"}

    def init_heads(self, key: Array, num_weights: int) -> Experts:
        """V uniform within ±1/√D, δ = 0."""
        gate = init_linear(key, self.width, self.num_experts).w
        return Experts(gate, jnp.zeros((self.num_experts, num_weights)))

    def deviations(self, params: AnchoredParams, run: Run) -> Float[Array, "K1 N"]:
        """Σ_m (g_{m,i} - 1/M) δ_{m,k}."""
        gate, delta = params.heads
        shares = jax.nn.softmax(self.code(params.code, run) @ gate)
        return delta.T @ (shares - 1 / self.num_experts).T

    def by_form(self, t: Float[Array, "K1 N"], hparams: HyperParams) -> Weights:
        """γ + t."""
        return Weights(offset=t, kept=t)


def contrast(op: Operator, x: Float[Array, "N C"]) -> Float[Array, "N C2"]:
    """[|op x - x|, |op² x - x|]: how far a node's neighbourhood lies from itself.

    Example:
      >>> from dsf_jax import Graph
      >>> from dsf_jax.ops import a_hat
      >>> op = a_hat(Graph.from_edges([(0, 1)], num_nodes=2))
      >>> contrast(op, jnp.asarray([[1.0], [0.0]])).tolist()
      [[1.0, 0.0], [1.0, 0.0]]
    """
    once = propagate(op, x)
    twice = propagate(op, once)
    return jnp.abs(jnp.concatenate([once - x, twice - x], axis=1))


def node_columns(
    graph: Graph, x_pos: Float[np.ndarray, "2 N P"]
) -> Float[np.ndarray, "N _"]:
    """Log-degree, its mean over neighbours, LapPE, RWPE; standardised, cut at ±3.

    A column that is the same for all nodes is 0.

    Example:
      >>> path = Graph.from_edges([(0, 1), (1, 2)], num_nodes=3)
      >>> node_columns(path, np.zeros((2, 3, 32)))[:, 0].round(2).tolist()
      [-0.71, 1.41, -0.71]
    """
    adjacency = graph.to_scipy().astype(bool).astype(float)
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    log_degree = np.log1p(degree)
    around = (adjacency @ log_degree) / np.maximum(degree, 1.0)
    columns = np.column_stack([log_degree, around, *np.asarray(x_pos, dtype=float)])
    centred = columns - columns.mean(axis=0)
    deviation = centred.std(axis=0)
    is_constant = deviation < 1e-9
    scaled = np.where(is_constant, 0.0, centred / np.where(is_constant, 1.0, deviation))
    return np.clip(scaled, -CUT, CUT)


def columns_in_use(hparams: HyperParams) -> Bool[Array, " F"]:
    """Which of the columns `pos_columns` and f_p choose.

    Example:
      >>> int(columns_in_use(HyperParams(pos_columns="degree+rw", f_p=4)).sum())
      6
    """
    chosen = jnp.asarray(_CHOSEN)[jnp.asarray(hparams.pos_columns)]
    first = jnp.arange(NUM_KIND) < hparams.f_p
    degrees = jnp.broadcast_to(chosen[0], (2,))
    return jnp.concatenate([degrees, chosen[1] & first, chosen[2] & first])


def residual(**options: Any) -> Local:
    """Weights that start at their base model; `options` are fields of `Residual`.

    Example:
      >>> residual(width=32, has_recurrence=True).signal_width
      32
    """
    return Residual(**options)


def mixture(num_experts: int = 4, **options: Any) -> Local:
    """A few filters, mixed softly; `options` are fields of `Residual`.

    Example:
      >>> mixture(3).uses_positions
      True
    """
    return Mixture(num_experts=num_experts, **options)


def content(rank: int = 4, **options: Any) -> Local:
    """Weights by what the signal is, of the given rank: NFGNN's idea on a base's start.

    Example:
      >>> content().uses_positions
      False
    """
    own = {"has_columns": False, "has_signal": True}
    return Residual(width=rank, **(own | options))
