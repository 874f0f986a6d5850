"""Spectral GNNs that can be made diverse: basis, global weights, operators.

    signal    x = MLP(X)                                 N x C
    logits    z = Σ_k γ_k P_k(L̂) x                       γ learnt or fixed

A backbone says how the P_k and the γ_k are made; `dsf_jax.models.local` makes weights
of every node from the γ_k, and `dsf_jax.models.diverse` joins the two.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key

from dsf_jax.bases import (
    Basis,
    bernstein,
    chebyshev,
    chebyshev_nodes,
    jacobi,
    legendre,
    monomial,
    released_jacobi,
)
from dsf_jax.filters import (
    cumulative_weights,
    diverse_filter,
    diverse_recurrence_filter,
)
from dsf_jax.models.learnt_bases import FAVARD, OPTIMAL, LearntBasis
from dsf_jax.models.model import Run
from dsf_jax.models.settings import HyperParams, check_config
from dsf_jax.ops.operator import OPERATORS
from dsf_jax.ops.recurrence import weigh_terms


class Weights(NamedTuple):
    """Local weights, from `Local.weights`; None for θ = 1 and for Δ = 0."""

    # [K1, N], or [K1] if all nodes share it; factors ρ are α times it
    theta: Float[Array, "K1 ..."] | None = None
    offset: Float[Array, "K1 N"] | None = None  # Δ
    kept: Any = None  # what the penalty reads


class Backbone(NamedTuple):
    """A spectral GNN that DSF can enhance; bring your own basis.

    Example:
      >>> Backbone(basis=lambda hparams: legendre).has_hidden
      True
    """

    basis: Callable[[HyperParams], Basis]
    theta_activation: Callable[[Array], Array] = jnp.tanh  # σ_p of Eq. 7
    gamma_activation: Callable[[Array], Array] | None = None
    # (hparams, order) -> γ where it is not learnt
    fixed_gamma: Callable[[HyperParams, int], Array] | None = None
    gamma_start: str = "ppr"  # `gamma_init` where no settings are known
    has_hidden: bool = True  # features -> hidden -> classes; False: no hidden layer
    drops_signal: bool = True  # dropout on the signal that is filtered
    filter_op: str = "a_hat"  # what the filter runs on: a name in `OPERATORS`
    pos_op: str = "a_tilde"  # what positions are propagated on; in the paper Â
    filters_hidden: bool = False  # the filter acts on hidden features, then classes
    per_channel: bool = False  # γ is [K1, C]: a filter for each channel
    noise: float = 0.0  # normal noise on the signal, in evaluation the same always
    learnt_basis: LearntBasis | None = None  # in the place of `basis`
    has_factors: bool = False  # weights are γ_k ∏ ρ_s, and θ becomes ρ (JacobiConv)
    factors_inside: bool = True  # ρ inside the recurrence, from P^(s-1); else the paper
    extra_orders: int = 0  # beyond those of the model (GNN-LF, GNN-HF)
    own_settings: tuple[str, ...] = ()  # fields that basis and γ read: a, b of Jacobi

    @property
    def reads(self) -> frozenset[str]:
        """Fields of `HyperParams` that change anything, but for dropout on signals."""
        fields = frozenset({"lr", "decay", "dropout_x", *self.own_settings})
        of_gamma = {"lr_gamma", "decay_gamma", "gamma_init", "alpha"}
        return fields | of_gamma if self.fixed_gamma is None else fields

    def check(self) -> None:
        """Refuse operators that do not exist."""
        check_config(self, {}, filter_op=OPERATORS, pos_op=OPERATORS)

    def gamma(
        self, learnt: Array | None, hparams: HyperParams, order: int
    ) -> Float[Array, "K1 ..."]:
        """Global weights γ_k, [K1], or [K1, C] for one filter per channel."""
        if learnt is None:
            assert self.fixed_gamma is not None
            return self.fixed_gamma(hparams, order)
        if learnt.ndim == 2 and "sole" in self.own_settings:
            learnt = jnp.where(hparams.sole, learnt[:, :1], learnt)
        if self.gamma_activation is None:
            return learnt
        return self.gamma_activation(learnt)

    def factors(
        self, theta: Float[Array, "K1 ..."], hparams: HyperParams
    ) -> Float[Array, "K ..."]:
        """ρ_s = α θ_{s-1} as the authors ran it; α θ_s in the paper's form."""
        return hparams.rho_scale * theta[self.factor_orders(theta.shape)]

    def factor_orders(self, shape: tuple[int, ...]) -> slice:
        """Orders of θ that ρ_1..ρ_K are made of: K of them, the other is not read."""
        inside = self.factors_inside or len(shape) == 1  # shared ones may stand outside
        return slice(shape[0] - 1) if inside else slice(1, None)

    def filter(
        self, run: Run, shared: Any, signal: Float[Array, "N C"], weights: Weights
    ) -> Float[Array, "N C"]:
        """The signal filtered with γ_k θ_{k,i} + Δ_{k,i}.

        `shared` are γ and the parameters of a learnt basis, the same for all nodes.
        """
        (gamma, learnt), (theta, offset, _) = shared, weights
        op, hparams = run.inputs.filter_op, run.hparams
        if self.learnt_basis is not None:
            terms, _ = self.learnt_basis.run(learnt, op, signal, len(gamma) - 1)
            return weigh_terms(join_weights(gamma, theta, offset), terms)
        basis = self.basis(hparams)
        if self.has_factors and theta is not None:
            rho = self.factors(theta, hparams)
            if self.factors_inside and theta.ndim == 2:
                return diverse_recurrence_filter(op, signal, gamma, rho, basis)
            # one factor for all nodes may stand outside
            beta = cumulative_weights(gamma, rho if rho.ndim == 2 else rho[:, None])
        else:
            beta = join_weights(gamma, theta, offset)
        return diverse_filter(op, signal, beta, basis)


def join_weights(
    gamma: Float[Array, "K1 ..."], theta: Array | None, offset: Array | None
) -> Float[Array, "K1 _ ..."]:
    """β_{k,i} = γ_k θ_{k,i} + Δ_{k,i}; with one γ per channel so are the weights.

    Example:
      >>> join_weights(jnp.ones(2), None, jnp.ones((2, 3))).shape
      (2, 3)
      >>> join_weights(jnp.ones((2, 5)), jnp.ones((2, 3)), None).shape
      (2, 3, 5)
    """
    beta = gamma[:, None]
    if gamma.ndim == 2:
        theta, offset = (x if x is None else x[:, :, None] for x in (theta, offset))
    beta = beta if theta is None else beta * theta
    return beta if offset is None else beta + offset


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
      >>> hparams = HyperParams(gamma_init="ppr", alpha=0.5)
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


def ones(hparams: HyperParams, order: int) -> Float[Array, " K1"]:
    """γ = 1: without the decomposition into global and local weights.

    Example:
      >>> ones(HyperParams(), 1).tolist()
      [1.0, 1.0]
    """
    return jnp.ones(order + 1)


def appnp_weights(hparams: HyperParams, order: int) -> Float[Array, " K1"]:
    """Coefficients of Ã^k of APPNP after K iterations: α (1 - α)^k, the last (1 - α)^K.

        Z_0 = H,    Z_k = (1 - α) Ã Z_{k-1} + α H

    A fixed iteration is a fixed polynomial of Ã, so it runs, and is plotted, like any
    other filter: `dsf_jax.filters.response(weights, lam, dsf_jax.bases.monomial)`.

    Example:
      >>> appnp_weights(HyperParams(alpha=0.5), 2).tolist()
      [0.5, 0.25, 0.25]
    """
    alpha = jnp.asarray(hparams.alpha, dtype=float)
    return _geometric(alpha, 1 - alpha, order)


def gnn_lf_weights(hparams: HyperParams, order: int) -> Float[Array, " K2"]:
    """Coefficients of Ã^k, k = 0..K + 1, of GNN-LF after K iterations.

        Z_0 = (μ H + (1 - μ) Ã H) / s,    Z_k = (s - α) / s Ã Z_{k-1} + α Z_0

    with s = 1 + αμ - α. Z_K has the coefficients α c^k, the last c^K, of Ã^k Z_0, where
    c is the factor of Ã Z_{k-1}.

    Example:
      >>> gnn_lf_weights(HyperParams(mu=1.0, alpha=0.5), 1).tolist()
      [0.5, 0.5, 0.0]
    """
    alpha, mu = _arrays(hparams.alpha, hparams.mu)
    scale = 1 + alpha * mu - alpha
    return _two_taps(alpha, scale, mu / scale, (1 - mu) / scale, order)


def gnn_hf_weights(hparams: HyperParams, order: int) -> Float[Array, " K2"]:
    """Coefficients of Ã^k, k = 0..K + 1, of GNN-HF after K iterations.

        Z_0 = ((1 + β) H - β Ã H) / t,    Z_k = (t - α) / t Ã Z_{k-1} + α Z_0

    with t = 1 + αβ; see `gnn_lf_weights`.

    Example:
      >>> gnn_hf_weights(HyperParams(beta=0.0, alpha=0.5), 1).tolist()
      [0.5, 0.5, 0.0]
    """
    alpha, beta = _arrays(hparams.alpha, hparams.beta)
    scale = 1 + alpha * beta
    return _two_taps(alpha, scale, (1 + beta) / scale, -beta / scale, order)


def _arrays(*values: object) -> tuple[Array, ...]:
    return tuple(jnp.asarray(value, dtype=float) for value in values)


def _two_taps(
    alpha: Array, scale: Array, own: Array, neighbours: Array, order: int
) -> Float[Array, " K2"]:
    weights = _geometric(alpha, (scale - alpha) / scale, order)
    return jnp.pad(own * weights, (0, 1)) + jnp.pad(neighbours * weights, (1, 0))


def _geometric(alpha: Array, ratio: Array, order: int) -> Float[Array, " K1"]:
    """α c^k, the last c^K."""
    powers = jnp.cumprod(jnp.full(order, ratio))
    powers = jnp.concatenate([jnp.ones(1), powers])
    return jnp.where(jnp.arange(order + 1) == order, powers, alpha * powers)


def _fixed(
    weights: Callable[[HyperParams, int], Array], *fields: str, extra_orders: int = 0
) -> Backbone:
    """A perceptron, then a polynomial of Ã without parameters."""
    return Backbone(
        basis=lambda _: monomial,
        fixed_gamma=weights,
        drops_signal=False,
        filter_op="a_tilde",
        extra_orders=extra_orders,
        own_settings=("alpha", *fields),
    )


def _on_hidden(**parts: Any) -> Backbone:
    """A basis of its own on hidden features, with one filter for each."""
    return Backbone(
        basis=lambda _: monomial,  # not read
        gamma_start="one-hot",
        filters_hidden=True,
        per_channel=True,
        **parts,
    )


BACKBONES = {
    "gpr": Backbone(basis=lambda _: monomial, filter_op="a_tilde"),
    "bern": Backbone(
        basis=lambda _: bernstein,
        theta_activation=jax.nn.sigmoid,
        gamma_activation=jax.nn.relu,
        gamma_start="ones",
    ),
    "jacobi": Backbone(
        basis=lambda hparams: released_jacobi(hparams.a, hparams.b),
        gamma_start="ones",
        has_hidden=False,
        # the released class adds neighbours up without the weights it is handed
        pos_op="a_plus_i",
        has_factors=True,
        per_channel=True,
        own_settings=("a", "b", "rho_scale", "sole"),
    ),
    "gpr-chebyshev": Backbone(basis=lambda _: chebyshev),
    "gpr-legendre": Backbone(basis=lambda _: legendre),
    "chebnetii": Backbone(
        basis=lambda _: chebyshev_nodes,
        gamma_activation=jax.nn.relu,
        theta_activation=jax.nn.sigmoid,
        gamma_start="ones",
    ),
    "favard": _on_hidden(learnt_basis=FAVARD, own_settings=("lr_pos", "decay_pos")),
    "optbasis": _on_hidden(learnt_basis=OPTIMAL, noise=1e-5),
    "appnp": _fixed(appnp_weights),
    "gnn-lf": _fixed(gnn_lf_weights, "mu", extra_orders=1),
    "gnn-hf": _fixed(gnn_hf_weights, "beta", extra_orders=1),
}
"""Every named backbone. `gpr-chebyshev` and `gpr-legendre` are GPR-GNN in another basis
(not ChebNet, which is `cheb` in `MODELS`)."""

# The paper's choice where it differs: the classical recurrence.
CLASSICAL_JACOBI = BACKBONES["jacobi"]._replace(
    basis=lambda hparams: jacobi(hparams.a, hparams.b)
)
