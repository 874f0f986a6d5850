"""PA-GNN: GPR-GNN with additive offsets of its weights, node by node.

No code of PA-GNN was published. This is our reading of its description, not a
reproduction: the embedding is NetMF (`dsf_jax.graph.embedding`), the second network is
as deep and wide as the first, its last map starts at 0, so that training starts from
GPR-GNN, and the offsets are not bounded.

    offsets   Δ_i = MLP([Σ_k φ_k Ã^k u]_i),    u = drop([ReLU(drop(X) W + b), ξ])
    weights   β_{k,i} = γ_k + Δ_{k,i}          (DSF multiplies: γ_k θ_{k,i})
    logits    z_i = Σ_k β_{k,i} [Ã^k x]_i      x the perceptron's output
    loss      L = L_task + λ mean_i Σ_k |Δ_{k,i}|
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from dsf_jax.bases import monomial
from dsf_jax.filters import diverse_filter, shared_filter
from dsf_jax.models.baselines.network import (
    BaselineOutput,
    BaselineParams,
    Network,
    Perceptron,
    encode_features,
    init_perceptron,
    project_features,
)
from dsf_jax.models.dropout import Masks, drop
from dsf_jax.models.params import Inputs, Linear, affine, init_linear, initial_gamma
from dsf_jax.models.settings import BaselineConfig, HyperParams


class OffsetParams(NamedTuple):
    """Parameters of the network that makes the offsets.

    Example:
      >>> OffsetParams._fields
      ('start', 'phi', 'head')
    """

    start: Linear  # W, b
    phi: Float[Array, " K1"]
    head: Perceptron  # filtered signal -> Δ_i


def offsets(
    params: OffsetParams, inputs: Inputs, masks: Masks | None = None
) -> Float[Array, "K1 N"]:
    """Offsets Δ_{k,i} of every order and node.

    Example:
      >>> from dsf_jax import MODELS, Graph, make_inputs
      >>> edge, config = Graph.from_edges([(0, 1)], num_nodes=2), MODELS["pa-gnn"]
      >>> inputs = make_inputs(edge, jnp.eye(2), jnp.zeros((2, 2, 32)), config)
      >>> key, hparams = jax.random.key(0), HyperParams()
      >>> params = PA_GNN.init(key, inputs, hparams, config, 3)
      >>> offsets(params.local, inputs).shape
      (11, 2)
    """
    masks = Masks() if masks is None else masks
    hidden = jax.nn.relu(project_features(params.start, inputs, masks))
    assert inputs.embedding is not None
    embedding = inputs.embedding.astype(hidden.dtype)
    signal = drop(jnp.concatenate([hidden, embedding], axis=1), masks.pos)
    first, last = params.head
    # the map commutes with the filter, and is narrower than the signal
    filtered = shared_filter(inputs.filter_op, signal @ first.w, params.phi, monomial)
    return affine(last, jax.nn.relu(filtered + first.bias[None, :])).T


def _init(
    key: Array,
    inputs: Inputs,
    hparams: HyperParams,
    config: BaselineConfig,
    num_classes: int,
) -> BaselineParams:
    maps_key, gamma_key, start_key, phi_key, head_key = jax.random.split(key, 5)
    num_features, hidden = inputs.features.shape[1], config.hidden
    assert inputs.embedding is not None
    width = hidden + inputs.embedding.shape[1]
    head = init_perceptron(head_key, width, hidden, config.order + 1)
    return BaselineParams(
        maps=init_perceptron(maps_key, num_features, hidden, num_classes),
        gamma=initial_gamma(gamma_key, hparams, config.order),
        local=OffsetParams(
            start=init_linear(start_key, num_features, hidden),
            phi=initial_gamma(phi_key, hparams, config.order),
            head=head._replace(out=jax.tree.map(jnp.zeros_like, head.out)),
        ),
    )


def _apply(
    params: BaselineParams,
    inputs: Inputs,
    hparams: HyperParams,
    config: BaselineConfig,
    masks: Masks,
    max_depth: Any,
) -> BaselineOutput:
    signal = drop(encode_features(params.maps, inputs, masks), masks.z)
    delta = offsets(params.local, inputs, masks)
    assert params.gamma is not None
    beta = params.gamma[:, None] + delta
    return BaselineOutput(
        logits=diverse_filter(inputs.filter_op, signal, beta, monomial),
        penalty=jnp.mean(jnp.sum(jnp.abs(delta), axis=0)),
    )


def _mask_shapes(
    params: BaselineParams, inputs: Inputs, config: BaselineConfig
) -> dict[str, tuple[int, ...]]:
    num_nodes = inputs.features.shape[0]
    width = params.local.head.hidden.w.shape[0]
    num_classes = params.maps.out.bias.shape[0]
    return {
        "h": (num_nodes, config.hidden),
        "z": (num_nodes, num_classes),
        "pos": (num_nodes, width),
    }


PA_GNN = Network(_init, _mask_shapes, _apply)
