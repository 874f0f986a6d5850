"""GCN and ChebNet: layers of graph convolutions, by their papers' formulas.

64 hidden units, as in the DSF paper; docs/decisions.md has every choice.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Key

from dsf_jax.bases import chebyshev
from dsf_jax.models.layers import Linear, Perceptron, drop, glorot
from dsf_jax.models.model import Model, Output, Run
from dsf_jax.ops.matrix import project
from dsf_jax.ops.operator import propagate
from dsf_jax.ops.recurrence import recurrence_sum


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gcn(Model):
    """Z = Ã drop(ReLU(Ã drop(X) W_1 + b_1)) W_2 + b_2.

    Example:
      >>> Gcn().hidden
      64
    """

    is_shardable = True

    def start(self, key: Key[Array, ""], run: Run, num_classes: int) -> Perceptron:
        """Glorot's uniform rule, biases 0."""
        hidden_key, out_key = jax.random.split(key)
        sizes = run.inputs.features.shape[1], self.hidden, num_classes
        return Perceptron(
            hidden=Linear(glorot(hidden_key, sizes[:2]), jnp.zeros(self.hidden)),
            out=Linear(glorot(out_key, sizes[1:]), jnp.zeros(num_classes)),
        )

    def forward(self, params: Any, run: Run) -> Output:
        """Two layers."""
        (w1, bias1), (w2, bias2) = params
        op = run.inputs.filter_op
        hidden = propagate(op, project(run.inputs.features, w1, run.masks.x))
        hidden = drop(jax.nn.relu(hidden + bias1[None, :]), run.masks.h)
        return Output(propagate(op, hidden @ w2) + bias2[None, :])


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChebNet(Model):
    """Two layers Σ_{k <= degree} T_k(L̂ - I) X Θ_k + b, ReLU and dropout between them.

    Example:
      >>> ChebNet().order
      3
    """

    order: int = 3
    filter_op = "a_hat"
    is_shardable = True
    reads = Model.reads | {"degree"}

    @property
    def signal_width(self) -> int:
        """A signal for every order."""
        return self.hidden * (self.order + 1)

    def start(self, key: Key[Array, ""], run: Run, num_classes: int) -> Any:
        """As GCN, with a map for every order: w is [K1, I, O]."""
        hidden_key, out_key = jax.random.split(key)
        num_orders, num_features = self.order + 1, run.inputs.features.shape[1]
        first = num_orders, num_features, self.hidden
        second = num_orders, self.hidden, num_classes
        return (
            (glorot(hidden_key, first), jnp.zeros(self.hidden)),
            (glorot(out_key, second), jnp.zeros(num_classes)),
        )

    def forward(self, params: Any, run: Run) -> Output:
        """The maps come first: T_k acts on narrow X Θ_k, not on the features."""
        in_use = jnp.arange(self.order + 1) <= jnp.asarray(run.hparams.degree)
        recurrence = chebyshev.recurrence(self.order)

        def layer(x: Any, mask: Array | None, theta: Array, bias: Array) -> Array:
            num_orders, num_in, num_out = theta.shape
            chosen = jnp.where(in_use[:, None, None], theta, 0.0)
            side_by_side = jnp.moveaxis(chosen, 0, 1).reshape(num_in, -1)
            mapped = project(x, side_by_side, mask).reshape(-1, num_orders, num_out)
            y = jnp.moveaxis(mapped, 1, 0)
            return recurrence_sum(run.inputs.filter_op, recurrence, y) + bias[None, :]

        first, second = params
        hidden = layer(run.inputs.features, run.masks.x, *first)
        return Output(layer(jax.nn.relu(hidden), run.masks.h, *second))
