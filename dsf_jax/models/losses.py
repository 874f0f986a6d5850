"""The task loss that all models share: cross-entropy, or its binary form."""

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Bool, Float, Int


def task_loss(
    logits: Float[Array, "N C"],
    labels: Int[Array, " N"],
    mask: Bool[Array, " N"],
    *,
    is_binary: bool = False,
) -> Float[Array, ""]:
    """Mean cross-entropy of the masked nodes.

    With `is_binary`, the mean over both columns of the binary cross-entropy against the
    one-hot label, as the authors train Twitch-DE.

    Example:
      >>> labels, mask = jnp.asarray([0, 1]), jnp.asarray([True, False])
      >>> value = task_loss(jnp.zeros((2, 2)), labels, mask, is_binary=True)
      >>> round(float(value), 4)  # log 2
      0.6931
    """
    targets = jax.nn.one_hot(labels, logits.shape[1], dtype=logits.dtype)
    if is_binary:
        columns = optax.sigmoid_binary_cross_entropy(logits, targets)
        per_node = jnp.mean(columns, axis=1)
    else:
        per_node = optax.softmax_cross_entropy(logits, targets)
    count = jnp.sum(mask).astype(per_node.dtype)
    return jnp.sum(jnp.where(mask, per_node, 0.0)) / count
