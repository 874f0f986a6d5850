"""What the authors' program computes, number by number (`released.npz`).

The file holds the figures of the released program (jingweio/DSF at c9541577, PyTorch,
float64) on a graph of 14 nodes: parameters, logits, positions, first gradients, losses
and parameters of twenty steps of Adam without dropout, for all six DSF models, both
forms of L_Orth, and Jacobi's shared filters.
"""

import dataclasses
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dsf_jax import MODELS, Graph, HyperParams
from dsf_jax.engine.optimizer import init_moments, update
from dsf_jax.ipe import Heads
from dsf_jax.models.layers import Linear
from dsf_jax.models.local import PositionParams
from dsf_jax.models.spectral import Params
from dsf_jax.ops.correlation import Correlation
from tests.training import resize

RELEASED = np.load(Path(__file__).parent / "released.npz")
ORDER, STEPS, COLUMNS, CLASSES = 10, 20, 32, 3
CASES = sorted(
    name.removesuffix("/logits") for name in RELEASED.files if name.endswith("/logits")
)

ONE_GROUP = HyperParams(
    **{"lr": 0.02, "lr_gamma": 0.02, "lr_pos": 0.02},
    **{"decay": 5e-4, "decay_gamma": 5e-4, "decay_pos": 5e-4},
    **{"f_p": 4, "eta1": 0.6, "eta2": 0.3, "lambda_orth": 0.5},
)
THREE_GROUPS = ONE_GROUP._replace(
    **{"lr_gamma": 0.01, "lr_pos": 0.005, "decay_gamma": 1e-3, "decay_pos": 2e-4},
    **{"rho_scale": 1.3, "a": 0.2, "b": 0.5},
)


def model_of(case):
    name = case.partition("/")[0].lower().replace("_", "-")
    return resize(MODELS[name], order=ORDER, hidden=8, width=8)


def settings_of(case):
    settings = THREE_GROUPS if "Jacobi" in case else ONE_GROUP
    return settings._replace(
        orth_normalize="normalised" in case, sole=case.endswith("/sole")
    )


def inputs_of(model):
    num_nodes = len(RELEASED["features"])
    graph = Graph.from_edges(RELEASED["edges"], num_nodes=num_nodes)
    x_pos = np.zeros((2, num_nodes, COLUMNS))
    x_pos[:, :, : RELEASED["x_pos"].shape[1]] = RELEASED["x_pos"]
    features = jnp.asarray(RELEASED["features"])
    return model.make_inputs(graph, features, jnp.asarray(x_pos))


def read_params(prefix):
    """Parameters (or their gradients) of a case in the places that ours have."""
    arrays = {
        name.removeprefix(prefix): RELEASED[name]
        for name in RELEASED.files
        if name.startswith(prefix)
    }

    def linear(part):
        (module,) = (
            name.removesuffix(".weight")
            for name in arrays
            if f".{name}".endswith(f".{part}.weight")
        )
        w, bias = arrays.pop(f"{module}.weight").T, arrays.pop(f"{module}.bias")
        return Linear(jnp.asarray(w), jnp.asarray(bias))

    start = linear("pe_linear")
    unused = COLUMNS - len(start.w)  # ours has a row for each column of x_pos
    nested = ".0" if "Bern" in prefix else ""
    heads = [linear(f"pe_to_coeff.{k}{nested}") for k in range(ORDER + 1)]
    position = PositionParams(
        start=start._replace(w=jnp.pad(start.w, ((0, unused), (0, 0)))),
        heads=Heads(
            w=jnp.concatenate([head.w.T for head in heads]),
            bias=jnp.concatenate([head.bias for head in heads]),
        ),
        correlation=Correlation(*linear("cor_lin")) if "_I/" in prefix else None,
    )
    if "Jacobi" in prefix:
        hidden, out = None, linear("emb.1")
        gamma = arrays.pop("comb.comb_weight")[0]
        gamma = np.pad(gamma, ((0, 0), (0, CLASSES - gamma.shape[1])))
    else:
        hidden, out, gamma = linear("lin1"), linear("lin2"), arrays.pop("prop1.temp")
    assert not arrays, f"not compared: {list(arrays)}"
    return Params(hidden, out, jnp.asarray(gamma), position)


@partial(jax.jit, static_argnames="model")
def step(params, moments, inputs, hparams, *, model):
    """Loss and gradient of the training nodes, and one step of Adam."""
    labels = jnp.asarray(RELEASED["labels"])
    mask = jnp.zeros(len(labels), dtype=bool).at[RELEASED["train"]].set(True)

    def value(params):
        output = model.apply(params, inputs, hparams)
        return model.loss(output, labels, mask, hparams)

    value, gradient = jax.value_and_grad(value)(params)
    params, moments = update(params, gradient, moments, model.groups(hparams))
    return value, gradient, params, moments


def assert_equal_trees(ours, theirs, atol):
    places, tree = jax.tree_util.tree_flatten_with_path(ours)
    for (place, leaf), other in zip(places, tree.flatten_up_to(theirs), strict=True):
        name = jax.tree_util.keystr(place)
        np.testing.assert_allclose(leaf, other, atol=atol, rtol=0, err_msg=name)


def test_every_model_of_the_release_is_there():
    models = {case.partition("/")[0] for case in CASES}
    assert models == {
        f"DSF_{base}_{v}" for base in ("GPR", "Bern", "Jacobi") for v in "IR"
    }
    assert len(CASES) == 12


@pytest.mark.parametrize("case", CASES)
def test_outputs_equal_the_release(case):
    model, hparams = model_of(case), settings_of(case)
    params, inputs = read_params(f"{case}/start/"), inputs_of(model)
    output = jax.jit(model.apply)(params, inputs, hparams)
    np.testing.assert_allclose(output.logits, RELEASED[f"{case}/logits"], atol=1e-10)
    np.testing.assert_allclose(output.local, RELEASED[f"{case}/positions"], atol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_training_equals_the_release(case):
    model, hparams = model_of(case), settings_of(case)
    params, inputs = read_params(f"{case}/start/"), inputs_of(model)
    moments, losses = init_moments(params), []
    for number in range(STEPS):
        value, gradient, params, moments = step(
            params, moments, inputs, hparams, model=model
        )
        losses.append(value)
        if number == 0:
            assert_equal_trees(gradient, read_params(f"{case}/gradient/"), 1e-10)
    np.testing.assert_allclose(losses, RELEASED[f"{case}/losses"], atol=1e-10)
    assert_equal_trees(params, read_params(f"{case}/after20/"), 1e-7)


@pytest.mark.parametrize("pos_op", ["a_tilde", "a_hat"])
def test_normalised_positions_are_not_those_of_the_released_jacobi(pos_op):
    case = "DSF_Jacobi_R/normalised"
    model, hparams = model_of(case), settings_of(case)
    other = dataclasses.replace(model, backbone=model.backbone._replace(pos_op=pos_op))
    params, inputs = read_params(f"{case}/start/"), inputs_of(other)
    output = jax.jit(other.apply)(params, inputs, hparams)
    assert np.abs(output.local - RELEASED[f"{case}/positions"]).max() > 0.1
    assert np.abs(output.logits - RELEASED[f"{case}/logits"]).max() > 1e-4
