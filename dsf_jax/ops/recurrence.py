"""Three-term recurrences on a graph, with their gradient and batching rules.

    analysis    q_0 = x,  q_k = u_k + s_k op q_{k-1} + h_k q_{k-1} - b_k q_{k-2}
    synthesis   p_k = y_k + op s_{k+1} p_{k+1} + h_{k+1} p_{k+1} - b_{k+2} p_{k+2}

op is symmetric, so each is the transpose of the other: the gradient of one is the
other, K products forward and K backward, to any order of differentiation. Inside,
arrays are [N, L, C] with a lane axis L (see `dsf_jax.ops.lanes`), so that a vmapped
filter changes layout once per pass and not once per product.

A filter is a weighted sum of the terms,

    z = Σ_k w_k ⊙ q_k,    w_k constant over nodes or channels, or not

linear in w and in q, so its gradients are of the same kind: with ⟨w, q, z⟩ for the sum
of all products, `_weigh` is its derivative by z, `_inner` by w, `_spread` by q, and the
derivatives of each are the other two, to any order. The stack of terms [K1, N, L, C],
the largest array of a filter, keeps its layout.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from dsf_jax.ops.lanes import fold_lanes
from dsf_jax.ops.operator import Operator, propagate, propagate_lanes


class Recurrence(NamedTuple):
    """Coefficients of Q_k = (slope_k op + shift_k) Q_{k-1} - back_k Q_{k-2}.

    For k = 1..K, with Q_0 = I and Q_{-1} = 0. Each is [K], or [K, N] for factors that
    differ by node, or [K, N or 1, C] by channel, too; NumPy or JAX arrays, traced or
    not.
    """

    slope: Any
    shift: Any
    back: Any


def recurrence_terms(
    op: Operator, recurrence: Recurrence, x: Float[Array, "N C"]
) -> Float[Array, "K1 N C"]:
    """Terms Q_k x for k = 0..K, with K products.

    Differentiable in x and in the coefficients; op is constant.

    Example:
      >>> import numpy as np
      >>> from dsf_jax import Graph
      >>> from dsf_jax.ops import a_hat
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> powers = Recurrence(slope=np.ones(2), shift=np.zeros(2), back=np.zeros(2))
      >>> recurrence_terms(a_hat(edge), powers, jnp.asarray([[1.0], [0.0]])).tolist()
      [[[1.0], [0.0]], [[0.0], [1.0]], [[1.0], [0.0]]]
    """
    coefficients = _with_lanes(recurrence, x.dtype)
    no_drive = jnp.zeros((coefficients.slope.shape[0], 1, 1, 1), dtype=x.dtype)
    return _analysis(op, coefficients, x[:, None, :], no_drive)[:, :, 0, :]


def recurrence_sum(
    op: Operator, recurrence: Recurrence, y: Float[Array, "K1 N C"]
) -> Float[Array, "N C"]:
    """Sum Σ_k Q_k y_k of a signal for each order, with K products (Clenshaw).

    The transpose of `recurrence_terms`, and differentiable like it.

    Example:
      >>> import numpy as np
      >>> from dsf_jax import Graph
      >>> from dsf_jax.ops import a_hat
      >>> edge = Graph.from_edges([(0, 1)], num_nodes=2)
      >>> powers = Recurrence(slope=np.ones(1), shift=np.zeros(1), back=np.zeros(1))
      >>> y = jnp.asarray([[[1.0], [2.0]], [[10.0], [20.0]]])  # y_0 + op y_1
      >>> recurrence_sum(a_hat(edge), powers, y).tolist()
      [[21.0], [12.0]]
    """
    coefficients = _with_lanes(recurrence, y.dtype)
    return _synthesis(op, coefficients, y[:, :, None, :])[0, :, 0, :]


def _with_lanes(recurrence: Recurrence, dtype: Any) -> Recurrence:
    """Coefficients as [K, N or 1, L = 1, C or 1]."""

    def expand(coefficient: Any) -> Array:
        array = jnp.asarray(coefficient, dtype=dtype)
        missing = tuple(range(array.ndim, 3))  # nodes, channels
        return jnp.expand_dims(array, missing)[:, :, None, :]

    return Recurrence(*map(expand, recurrence))


def _run_analysis(
    op: Operator,
    coefficients: Recurrence,
    x: Float[Array, "N _ C"],  # the lanes of x, coefficients and drive are L or 1
    drive: Float[Array, "K ..."],
) -> Float[Array, "K1 N L C"]:
    lanes = max(x.shape[1], drive.shape[2], *(c.shape[2] for c in coefficients))

    def step(carry: tuple[Array, Array], inputs: tuple[Recurrence, Array]) -> Any:
        q, q_prev = carry
        (slope, shift, back), u = inputs
        q_next = u + slope * propagate_lanes(op, q) + shift * q - back * q_prev
        return (q_next, q), q_next

    q0 = jnp.broadcast_to(x, (x.shape[0], lanes, x.shape[2]))
    _, q = jax.lax.scan(step, (q0, jnp.zeros_like(q0)), (coefficients, drive))
    return jnp.concatenate([q0[None], q])


def _run_synthesis(
    op: Operator, coefficients: Recurrence, y: Float[Array, "K1 N _ C"]
) -> Float[Array, "K1 N L C"]:
    lanes = max(y.shape[2], *(c.shape[2] for c in coefficients))

    def step(carry: tuple[Array, Array], inputs: tuple[Recurrence, Array]) -> Any:
        p, pending = carry  # p_{k+1} and b_{k+2} p_{k+2}
        (slope, shift, back), y_k = inputs
        p_next = y_k + propagate_lanes(op, slope * p) + shift * p - pending
        return (p_next, back * p), p_next

    last = jnp.broadcast_to(y[-1], (y.shape[1], lanes, y.shape[3]))
    start = (last, jnp.zeros_like(last))
    _, p = jax.lax.scan(step, start, (coefficients, y[:-1]), reverse=True)
    return jnp.concatenate([p, last[None]])


_analysis = jax.custom_vjp(
    fold_lanes(_run_analysis, lane_axes=(None, 2, 1, 2), out_axes=2)
)
_synthesis = jax.custom_vjp(
    fold_lanes(_run_synthesis, lane_axes=(None, 2, 2), out_axes=2)
)


def _analysis_bwd(residuals: Any, g: Array) -> tuple[None, Recurrence, Array, Array]:
    (op, coefficients, _, drive), q = residuals
    p = _synthesis(op, coefficients, g)
    gradient = _coefficient_gradient(op, coefficients, q, p)
    return None, gradient, p[0], _sum_to(p[1:], drive)


def _synthesis_fwd(op: Operator, coefficients: Recurrence, y: Array) -> Any:
    p = _synthesis(op, coefficients, y)
    return p, (op, coefficients, p)


def _synthesis_bwd(residuals: Any, g: Array) -> tuple[None, Recurrence, Array]:
    op, coefficients, p = residuals
    q = _analysis(op, coefficients, g[0], g[1:])
    return None, _coefficient_gradient(op, coefficients, q, p), q


_analysis.defvjp(lambda *args: (q := _analysis(*args), (args, q)), _analysis_bwd)
_synthesis.defvjp(_synthesis_fwd, _synthesis_bwd)


def _coefficient_gradient(
    op: Operator,
    coefficients: Recurrence,
    q: Float[Array, "K1 N L C"],
    p: Float[Array, "K1 N L C"],
) -> Recurrence:
    """Gradient of both maps: <p_k, op q_{k-1}>, <p_k, q_{k-1}> and -<p_k, q_{k-2}>.

    Dead code, hence free, when nobody asks for it; otherwise one wide product.
    """
    two_back = jnp.concatenate([jnp.zeros_like(q[:1]), q[:-2]])[: p.shape[0] - 1]
    columns = jnp.moveaxis(q[:-1], 1, 0)  # all terms side by side
    propagated = propagate(op, columns.reshape(len(columns), -1))
    propagated = jnp.moveaxis(propagated.reshape(columns.shape), 0, 1)
    return Recurrence(
        slope=_sum_to(p[1:] * propagated, coefficients.slope),
        shift=_sum_to(p[1:] * q[:-1], coefficients.shift),
        back=_sum_to(-p[1:] * two_back, coefficients.back),
    )


def _sum_to(full: Array, like: Array) -> Array:
    """Sum over the axes along which `like` was broadcast."""
    axes = tuple(i for i, size in enumerate(like.shape) if size == 1)
    return full.sum(axis=axes, keepdims=True) if full.shape != like.shape else full


def weigh_terms(
    weights: Float[Array, "K1 _ ..."], terms: Float[Array, "K1 N C"]
) -> Float[Array, "N C"]:
    """Sum of the terms, each times its weight.

    Args:
      weights: [K1, N or 1], or [K1, N or 1, C or 1] if they differ by channel.
      terms: from `recurrence_terms`.

    Returns:
      The sum.

    Example:
      >>> weights = jnp.asarray([[1.0], [10.0]])
      >>> weigh_terms(weights, jnp.asarray([[[1.0, 2.0]], [[3.0, 4.0]]])).tolist()
      [[31.0, 42.0]]
    """
    w = weights if weights.ndim == 3 else weights[:, :, None]
    return _weigh(w[:, :, None, :], terms[:, :, None, :])[:, 0, :]


def _run_weigh(
    w: Float[Array, "K1 _ _ _"], q: Float[Array, "K1 N _ C"]
) -> Float[Array, "N L C"]:
    # not a reduction: XLA runs through all terms at once, as they lie in memory
    return sum((w[k] * q[k] for k in range(1, len(q))), start=w[0] * q[0])


def _run_inner(
    q: Float[Array, "K1 N _ C"], z: Float[Array, "N _ C"], axes: tuple[int, ...]
) -> Float[Array, "K1 _ L _"]:
    products = q * z[None]
    if 1 in axes:  # as a matrix product: XLA's sum over nodes is six times slower
        num_orders, num_nodes = products.shape[:2]
        ones = jnp.ones((num_orders, 1, num_nodes), dtype=products.dtype)
        columns = ones @ products.reshape(num_orders, num_nodes, -1)
        products = columns.reshape(num_orders, 1, *products.shape[2:])
    return _sum_channels(products) if 3 in axes else products


def _sum_channels(x: Float[Array, "K1 _ L C"]) -> Float[Array, "K1 _ L 1"]:
    # there are few, and XLA's sum along the last axis is up to 15 times slower
    if x.shape[3] > 16:
        return x.sum(axis=3, keepdims=True)
    columns = (x[..., c : c + 1] for c in range(1, x.shape[3]))
    return sum(columns, start=x[..., :1])


@cache
def _inner(axes: tuple[int, ...]) -> Callable[[Array, Array], Array]:
    """The derivative by weights that are constant along these axes."""
    run = partial(_run_inner, axes=axes)
    inner = jax.custom_vjp(fold_lanes(run, lane_axes=(2, 1), out_axes=2))
    inner.defvjp(
        lambda q, z: (inner(q, z), (q, z)),
        lambda qz, g: (_spread(g, qz[1]), _weigh(g, qz[0])),
    )
    return inner


def _inner_like(w: Array, q: Array, z: Array) -> Array:
    return _inner(tuple(axis for axis in (1, 3) if w.shape[axis] == 1))(q, z)


def _run_spread(
    w: Float[Array, "K1 _ _ _"], z: Float[Array, "N _ C"]
) -> Float[Array, "K1 N L C"]:
    return w * z[None]


_weigh = jax.custom_vjp(fold_lanes(_run_weigh, lane_axes=(2, 2), out_axes=1))
_spread = jax.custom_vjp(fold_lanes(_run_spread, lane_axes=(2, 1), out_axes=2))
_weigh.defvjp(
    lambda w, q: (_weigh(w, q), (w, q)),
    lambda wq, g: (_inner_like(wq[0], wq[1], g), _spread(wq[0], g)),
)
_spread.defvjp(
    lambda w, z: (_spread(w, z), (w, z)),
    lambda wz, g: (_inner_like(wz[0], g, wz[1]), _weigh(wz[0], g)),
)
