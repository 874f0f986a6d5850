"""Bases that are learnt (FavardGNN) or fitted to the signal (OptBasisGNN).

Both are an orthonormal three-term recurrence in every channel c,

    h_0 = x / s_0,    s_k h_k = (Â - y_{k-1}) h_{k-1} - s_{k-1} h_{k-2}

for k = 1..K. FavardGNN learns y and s; OptBasisGNN takes those that make the h_k
orthonormal on the signal itself (Lanczos), and learns nothing of its basis.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from dsf_jax.bases import Basis
from dsf_jax.ops.operator import Operator, propagate
from dsf_jax.ops.recurrence import Recurrence, recurrence_terms

LEAST_SCALE = 0.01  # of s in FavardGNN; no gradient below it
LEAST_NORM = 1e-8  # of a vector that OptBasisGNN divides by


class Coefficients(NamedTuple):
    """y_0..y_K and s_0..s_K of every channel; y_K is not read.

    Example:
      >>> recurrence_of(Coefficients(jnp.zeros((3, 2)), jnp.ones((3, 2)))).back.shape
      (2, 1, 2)
    """

    y: Float[Array, "K1 C"]
    s: Float[Array, "K1 C"]


class LearntBasis(NamedTuple):
    """How a backbone makes a basis of its own.

    Example:
      >>> FAVARD.init(3, 2).s.tolist()
      [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    """

    # (order, channels) -> parameters
    init: Callable[[int, int], Any]
    # (params, op, x, order) -> h_0..h_K [K1, N, C], and the coefficients they have
    run: Callable[[Any, Operator, Array, int], tuple[Array, Coefficients]]

    def basis(self, params: Any, op: Operator, x: Array) -> Basis:
        """The polynomials of the first channel, for response curves."""

        def of(order: int) -> Coefficients:
            _, found = self.run(params, op, x, order)
            return Coefficients(found.y[:, :1], found.s[:, :1])

        return Basis(
            recurrence=lambda order: jax.tree.map(
                lambda c: c[:, 0, 0], recurrence_of(of(order))
            ),
            matrix=lambda order: jnp.eye(order + 1) / of(order).s[0, 0],
        )


def recurrence_of(coefficients: Coefficients) -> Recurrence:
    """The recurrence of h_k / h_0, [K, 1, C].

    Example:
      >>> twos = Coefficients(jnp.zeros((2, 1)), jnp.full((2, 1), 2.0))
      >>> recurrence_of(twos).slope.tolist()
      [[[0.5]]]
    """
    y, s = coefficients
    scale = 1 / s[1:]
    parts = Recurrence(slope=scale, shift=-y[:-1] * scale, back=s[:-1] * scale)
    return jax.tree.map(lambda part: part[:, None, :], parts)


def _favard_start(order: int, channels: int) -> Coefficients:
    """Y = 0, s = 1: h_k = U_k(Â / 2) x, Chebyshev's second kind."""
    shape = (order + 1, channels)
    return Coefficients(jnp.zeros(shape), jnp.ones(shape))


def _favard(
    params: Coefficients, op: Operator, x: Array, order: int
) -> tuple[Float[Array, "K1 N C"], Coefficients]:
    found = params._replace(s=jnp.maximum(params.s, LEAST_SCALE))
    return recurrence_terms(op, recurrence_of(found), x / found.s[:1]), found


def _inverse_norm(x: Float[Array, "N C"]) -> Float[Array, " C"]:
    """1 / max(|x|, 1e-8) of each column, with a gradient at 0."""
    return jax.lax.rsqrt(jnp.maximum(jnp.sum(x**2, axis=0), LEAST_NORM**2))


def _lanczos(
    params: None, op: Operator, x: Float[Array, "N C"], order: int
) -> tuple[Float[Array, "K1 N C"], Coefficients]:
    """Orthonormal h_0..h_K of every column, and the coefficients they have."""

    def step(carry: tuple[Array, Array], _: None) -> Any:
        h, before = carry
        v = propagate(op, h)
        y = jnp.sum(v * h, axis=0)
        v = v - y[None] * h
        v = v - jnp.sum(v * before, axis=0)[None] * before
        scale = _inverse_norm(v)
        after = v * scale[None]
        return (after, h), (after, y, 1 / scale)

    scale = _inverse_norm(x)
    first = x * scale[None]
    start = (first, jnp.zeros_like(first))
    _, (rest, y, s) = jax.lax.scan(step, start, None, length=order)
    y = jnp.concatenate([y, jnp.zeros_like(scale)[None]])
    s = jnp.concatenate([1 / scale[None], s])
    return jnp.concatenate([first[None], rest]), Coefficients(y, s)


FAVARD = LearntBasis(_favard_start, _favard)
"""FavardGNN: y and s are parameters."""

OPTIMAL = LearntBasis(lambda order, channels: None, _lanczos)
"""OptBasisGNN: y and s are those of the signal."""
