"""The baselines as init and apply, by the name in their config."""

from typing import Any

import jax
from jax import Array
from jaxtyping import Bool, Float, Int, Key

from dsf_jax.models.baselines.edge_weights import FAGCN, GAT
from dsf_jax.models.baselines.network import BaselineOutput, BaselineParams
from dsf_jax.models.baselines.pa_gnn import PA_GNN
from dsf_jax.models.baselines.spectral import CHEB, FIXED_FILTER, GCN
from dsf_jax.models.dropout import Masks, draw_mask, stored_shape
from dsf_jax.models.losses import task_loss
from dsf_jax.models.params import Inputs
from dsf_jax.models.settings import BaselineConfig, HyperParams

NETWORKS = {
    "gcn": GCN,
    "gat": GAT,
    "cheb": CHEB,
    "appnp": FIXED_FILTER,
    "gnn-lf": FIXED_FILTER,
    "gnn-hf": FIXED_FILTER,
    "fagcn": FAGCN,
    "pa-gnn": PA_GNN,
}

_NO_LIMIT = 2**31 - 1


def init(
    key: Key[Array, ""],
    inputs: Inputs,
    hparams: HyperParams,
    *,
    config: BaselineConfig,
    num_classes: int,
) -> BaselineParams:
    """Initial parameters, each model by its own rule.

    GCN, ChebNet and GAT: Glorot's uniform rule, biases 0. APPNP, GNN-LF, GNN-HF,
    PA-GNN: uniform within ±1/√(fan-in), biases too, but for PA-GNN's offsets, whose
    last map is 0. FAGCN: normal, biases uniform.

    Example:
      >>> import jax.numpy as jnp
      >>> from dsf_jax import MODELS, Graph, make_inputs
      >>> edge, config = Graph.from_edges([(0, 1)], num_nodes=2), MODELS["gcn"]
      >>> inputs = make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)), config)
      >>> settings = {"config": config, "num_classes": 3}
      >>> init(jax.random.key(0), inputs, HyperParams(), **settings).maps.hidden.w.shape
      (2, 64)
    """
    return NETWORKS[config.kind].init(key, inputs, hparams, config, num_classes)


def draw_masks(
    key: Key[Array, ""],
    params: BaselineParams,
    inputs: Inputs,
    hparams: HyperParams,
    *,
    config: BaselineConfig,
) -> Masks:
    """Dropout masks of one training step; mask m has the rate `dropout_m`.

    Example:
      >>> import jax.numpy as jnp
      >>> from dsf_jax import MODELS, Graph, make_inputs
      >>> edge, config = Graph.from_edges([(0, 1)], num_nodes=2), MODELS["gcn"]
      >>> inputs = make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)), config)
      >>> key, hparams = jax.random.key(0), HyperParams()
      >>> params = init(key, inputs, hparams, config=config, num_classes=3)
      >>> draw_masks(key, params, inputs, hparams, config=config).h.shape
      (2, 64)
    """
    shapes = NETWORKS[config.kind].mask_shapes(params, inputs, config)
    shapes = {"x": stored_shape(inputs.features), **shapes}
    dtype = jax.tree.leaves(params)[0].dtype
    keys = jax.random.split(key, len(shapes))
    return Masks(
        **{
            name: draw_mask(
                own_key, getattr(hparams, f"dropout_{name}"), shape, dtype=dtype
            )
            for own_key, (name, shape) in zip(keys, shapes.items(), strict=True)
        }
    )


def apply(
    params: BaselineParams,
    inputs: Inputs,
    hparams: HyperParams,
    *,
    config: BaselineConfig,
    masks: Masks | None = None,
    max_depth: int | Int[Array, ""] = _NO_LIMIT,
) -> BaselineOutput:
    """Logits of every node, and the penalty of PA-GNN.

    Args:
      params: from `init`.
      inputs: from `dsf_jax.make_inputs`.
      hparams: settings.
      config: the model.
      masks: from `draw_masks` in training; none in evaluation.
      max_depth: no run of the batch has more layers (FAGCN); the rest is skipped.

    Returns:
      Logits and penalty.

    Example:
      >>> import jax.numpy as jnp
      >>> from dsf_jax import MODELS, Graph, make_inputs
      >>> edge, config = Graph.from_edges([(0, 1)], num_nodes=2), MODELS["gcn"]
      >>> inputs = make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)), config)
      >>> key, hparams = jax.random.key(0), HyperParams()
      >>> params = init(key, inputs, hparams, config=config, num_classes=3)
      >>> apply(params, inputs, hparams, config=config).logits.shape
      (2, 3)
    """
    masks = Masks() if masks is None else masks
    network = NETWORKS[config.kind]
    return network.apply(params, inputs, hparams, config, masks, max_depth)


def apply_both(
    params: BaselineParams, *args: Any, masks: Masks, **settings: Any
) -> tuple[BaselineOutput, Float[Array, "N C"]]:
    """Training output and evaluation logits, the latter constant; arguments of `apply`.

    Example:
      See `dsf_jax.models.interface.Model`.

      >>> apply_both.__name__
      'apply_both'
    """
    constant = jax.lax.stop_gradient(params)
    evaluated = apply(constant, *args, **settings)
    return apply(params, *args, masks=masks, **settings), evaluated.logits


def loss(
    output: BaselineOutput,
    labels: Int[Array, " N"],
    train_mask: Bool[Array, " N"],
    hparams: HyperParams,
    *,
    is_binary: bool = False,
) -> Float[Array, ""]:
    """Training loss: `task_loss`, and λ times the penalty of PA-GNN.

    Example:
      >>> import jax.numpy as jnp
      >>> output = BaselineOutput(logits=jnp.zeros((2, 4)))
      >>> labels, mask = jnp.asarray([0, 3]), jnp.asarray([True, False])
      >>> round(float(loss(output, labels, mask, HyperParams())), 4)  # log 4
      1.3863
    """
    task = task_loss(output.logits, labels, train_mask, is_binary=is_binary)
    if output.penalty is None:
        return task
    return task + hparams.lambda_l1 * output.penalty
