"""What defines a model: a config fixes the program, `HyperParams` its numbers.

A config (`ModelConfig`, or `BaselineConfig` for the models that the paper compares
with) is static and hashable; every hyper-parameter is traced, so that a search or a
grid of runs is one compiled program and new values never compile again.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Int

from dsf_jax.bases import (
    Basis,
    bernstein,
    chebyshev,
    jacobi,
    legendre,
    monomial,
    released_jacobi,
)
from dsf_jax.graph.positional import KINDS
from dsf_jax.ops.operator import OPERATORS

Variant = Literal["base", "I", "R"]
Baseline = Literal["gcn", "gat", "cheb", "appnp", "gnn-lf", "gnn-hf", "fagcn", "pa-gnn"]

GAMMA_INITS = ("ppr", "nppr", "random", "one-hot", "ones")


class HyperParams(NamedTuple):
    """Settings that are traced: numbers, or arrays with one entry per run.

    Parameters fall into three groups with a learning rate and a decay each: the map of
    the features, γ, and what makes θ or ρ. Models that publish fewer rates repeat them.

    Example:
      >>> HyperParams(eta1=0.9, f_p=24)._replace(lr=0.05).eta1
      0.9
    """

    lr: Any = 0.01
    lr_gamma: Any = 0.01
    lr_pos: Any = 0.01
    decay: Any = 5e-4
    decay_gamma: Any = 0.0
    decay_pos: Any = 5e-4
    dropout_x: Any = 0.5  # on raw features
    dropout_h: Any = 0.5  # on hidden features
    dropout_z: Any = 0.5  # on the signal that is filtered (dprate)
    dropout_pos: Any = 0.0  # on P^(0); PA-GNN: on what its second network filters
    dropout_edge: Any = 0.5  # GAT, FAGCN: on the weights of edges
    eta1: Any = 0.5
    eta2: Any = 0.0
    lambda_orth: Any = 0.1
    orth_normalize: Any = True
    pos_kind: Any = KINDS.index("rw")
    f_p: Any = 16  # columns of x_pos in use, 1..32
    gamma_init: Any = GAMMA_INITS.index("ppr")
    # of ppr and nppr, APPNP, GNN-LF and GNN-HF; the order that is 1 in one-hot
    alpha: Any = 0.1
    a: Any = 1.0  # Jacobi
    b: Any = 1.0
    rho_scale: Any = 1.0  # α of JacobiConv: ρ lies in (-α, α)
    sole: Any = False  # Jacobi: one filter for all channels
    mu: Any = 0.9  # GNN-LF
    beta: Any = 0.9  # GNN-HF
    epsilon: Any = 0.3  # FAGCN: share of the first hidden features in every layer
    depth: Any = 2  # FAGCN: layers, up to `BaselineConfig.layers`
    degree: Any = 2  # ChebNet: orders 1.. in use, up to `BaselineConfig.order`
    lambda_l1: Any = 0.01  # PA-GNN: strength of the penalty on the offsets


class Flags(NamedTuple):
    """Work that no job on the lanes needs is skipped for all; not batched.

    Example:
      >>> hparams = HyperParams(eta1=jnp.ones(3), eta2=jnp.ones(3))
      >>> bool(lane_flags(hparams).has_correlation)
      False
    """

    has_correlation: Bool[Array, ""]  # some job has (1 - eta1) eta2 > 0
    shares_positions: Bool[Array, ""]  # every job has dropout_pos = 0
    max_depth: Int[Array, ""]  # largest depth of a job


def lane_flags(hparams: HyperParams) -> Flags:
    """Flags of jobs that run side by side.

    Example:
      >>> bool(lane_flags(HyperParams(dropout_pos=jnp.zeros(2))).shares_positions)
      True
    """
    strength = (1 - jnp.asarray(hparams.eta1)) * jnp.asarray(hparams.eta2)
    return Flags(
        has_correlation=jnp.any(strength > 0),
        shares_positions=jnp.all(jnp.asarray(hparams.dropout_pos) == 0),
        max_depth=jnp.max(jnp.asarray(hparams.depth), initial=1),
    )


class Backbone(NamedTuple):
    """A spectral GNN that DSF can enhance; bring your own basis.

    Example:
      >>> Backbone(basis=lambda hparams: legendre).has_hidden
      True
    """

    basis: Callable[[HyperParams], Basis]
    theta_activation: Callable[[Array], Array] = jnp.tanh  # σ_p of Eq. 7
    gamma_activation: Callable[[Array], Array] | None = None
    has_hidden: bool = True  # features -> hidden -> classes; False: no hidden layer
    filter_op: str = "a_hat"  # what the filter runs on: a name in `OPERATORS`
    pos_op: str = "a_tilde"  # what positions are propagated on; in the paper Â
    has_factors: bool = False  # weights are γ_k ∏ ρ_s, and θ becomes ρ (JacobiConv)


BACKBONES = {
    "gpr": Backbone(basis=lambda _: monomial, filter_op="a_tilde"),
    "bern": Backbone(
        basis=lambda _: bernstein,
        theta_activation=jax.nn.sigmoid,
        gamma_activation=jax.nn.relu,
    ),
    "jacobi": Backbone(
        basis=lambda hparams: released_jacobi(hparams.a, hparams.b),
        has_hidden=False,
        # the released class adds neighbours up without the weights it is handed
        pos_op="a_plus_i",
        has_factors=True,
    ),
    "chebyshev": Backbone(basis=lambda _: chebyshev),
    "legendre": Backbone(basis=lambda _: legendre),
}

# The paper's choice where it differs: the classical recurrence.
CLASSICAL_JACOBI = BACKBONES["jacobi"]._replace(
    basis=lambda hparams: jacobi(hparams.a, hparams.b)
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """What fixes the program. Defaults are what the authors ran.

    Example:
      >>> ModelConfig(backbone=BACKBONES["gpr"], variant="R").order
      10
    """

    backbone: Backbone
    variant: Variant = "base"  # the base model, or DSF-I / DSF-R on it
    order: int = 10  # K
    hidden: int = 64
    width: int = 64  # of the positions, D
    # ablations
    has_ipe: bool = True  # False: N x (K + 1) free weights instead
    has_lgwd: bool = True  # False: γ fixed at 1
    has_orth: bool = True  # False: no orthogonality loss
    # False or "free": the paper's choice where the authors' code has another; for the
    # paper's operators replace `filter_op` and `pos_op` of the backbone by "a_hat"
    project_first: bool = True  # classes first, then filter; else Algorithm 1
    factors_inside: bool = True  # ρ inside the recurrence, from P^(s-1)
    correlation: Literal["affine", "free"] = "affine"
    # in neither: 1/N in front of S keeps the positions of variant I informative
    mean_correlation: bool = False

    def __post_init__(self) -> None:
        """Check what the annotations cannot."""
        for name in ("order", "hidden", "width"):
            least = 0 if name == "order" else 1
            if not getattr(self, name) >= least:
                raise ValueError(
                    f"{name} must be at least {least}, got {getattr(self, name)}; the "
                    f"paper uses {10 if name == 'order' else 64}."
                )
        for name in ("filter_op", "pos_op"):
            if getattr(self, name) not in OPERATORS:
                raise ValueError(
                    f"{name} of the backbone must be one of {', '.join(OPERATORS)}, "
                    f"got {getattr(self, name)!r}."
                )
        is_ablated = not (self.has_ipe and self.has_lgwd and self.has_orth)
        if is_ablated and self.variant != "R":
            raise ValueError(
                f"variant must be 'R' for an ablation, got {self.variant!r}; the paper "
                "ablates DSF-x-R."
            )

    @property
    def signal_width(self) -> int:
        """Columns of the widest signal that is multiplied by the graph, about."""
        return self.width if self.uses_positions else 16

    @property
    def has_correlation(self) -> bool:
        """Whether positions are correlated, node by node."""
        return self.variant == "I"

    @property
    def filter_op(self) -> str:
        """What the filter runs on."""
        return self.backbone.filter_op

    @property
    def pos_op(self) -> str:
        """What positions are propagated on."""
        return self.backbone.pos_op

    @property
    def uses_positions(self) -> bool:
        """Whether weights come from positions."""
        return self.variant != "base" and self.has_ipe

    @property
    def factor_orders(self) -> slice:
        """Orders of t_k that ρ_1..ρ_K are made of: K of them, the other is not read."""
        from_paper = self.uses_positions and not self.factors_inside
        return slice(1, None) if from_paper else slice(self.order)

    @property
    def uses_orthogonality(self) -> bool:
        """Whether the loss has the term of Eq. 8."""
        return self.variant == "R" and self.has_ipe and self.has_orth

    @property
    def has_hidden(self) -> bool:
        """Whether features pass a hidden layer; Algorithm 1 always has one."""
        return self.backbone.has_hidden or not self.project_first


@dataclasses.dataclass(frozen=True, kw_only=True)
class BaselineConfig:
    """What fixes the program of a model that the paper compares with.

    Example:
      >>> BaselineConfig(kind="gcn").hidden
      64
    """

    kind: Baseline
    order: int = 10  # K of the polynomial filters
    hidden: int = 64
    heads: int = 8  # GAT: of the first layer, together as wide as `hidden`
    layers: int = 8  # FAGCN

    def __post_init__(self) -> None:
        """Check what the annotations cannot."""
        for name in ("order", "hidden", "heads", "layers"):
            if not getattr(self, name) >= 1:
                raise ValueError(
                    f"{name} must be at least 1, got {getattr(self, name)}."
                )
        if self.kind == "gat" and self.hidden % self.heads > 0:
            raise ValueError(
                f"hidden must be a multiple of heads, got {self.hidden} for "
                f"{self.heads} heads; each head has hidden / heads units."
            )

    uses_positions = has_correlation = False

    @property
    def signal_width(self) -> int:
        """Columns of the widest signal around products with the graph, about."""
        match self.kind:
            case "cheb":  # a signal for every order
                return self.hidden * (self.order + 1)
            case "fagcn" | "pa-gnn":  # layers that are kept; features and embedding
                return 2 * self.hidden
            case "gat":
                return self.hidden
            case _:
                return 16

    @property
    def filter_op(self) -> str:
        """What the model runs on."""
        return "a_hat" if self.kind in ("cheb", "fagcn") else "a_tilde"


Config = ModelConfig | BaselineConfig


def _named_models() -> dict[str, Config]:
    models: dict[str, Config] = {}
    for name, backbone in BACKBONES.items():
        full = ModelConfig(backbone=backbone, variant="R")
        models[name] = ModelConfig(backbone=backbone)
        models[f"dsf-{name}-i"] = ModelConfig(backbone=backbone, variant="I")
        models[f"dsf-{name}-r"] = full
        ablations: dict[str, dict[str, Any]] = {
            "no-ipe": {"has_ipe": False},
            "no-ipe-no-lgwd": {"has_ipe": False, "has_lgwd": False},
            "no-lgwd": {"has_lgwd": False},
            "no-orth": {"has_orth": False},
        }
        for suffix, ablated in ablations.items():
            models[f"dsf-{name}-r-{suffix}"] = dataclasses.replace(full, **ablated)
    for kind in get_args(Baseline):
        models[kind] = BaselineConfig(kind=kind, order=3 if kind == "cheb" else 10)
    return models


MODELS = _named_models()
"""Every named model: a base model, its DSF-I and DSF-R forms, ablations of R, and the
baselines of the paper."""
