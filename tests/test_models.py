"""Every model against a naive NumPy transcription, and what it reduces to."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

from dsf_jax import (
    BACKBONES,
    MODELS,
    Backbone,
    Graph,
    HyperParams,
    diverse,
    positional,
    positional_features,
)
from dsf_jax.bases import legendre
from dsf_jax.filters import response
from dsf_jax.models import Fagcn, Gat, Masks, Run, find_model
from dsf_jax.models.anchored import Residual
from dsf_jax.models.backbones import CLASSICAL_JACOBI, initial_gamma
from dsf_jax.models.settings import GAMMA_INITS
from dsf_jax.models.zoo import name_of
from dsf_jax.ops import SparseFeatures, a_hat, a_tilde
from tests import reference
from tests.graphs import GRAPHS
from tests.training import assert_slope, jitted, moved, resize

GRAPH = GRAPHS["isolated"]
NODES, FEATURES, CLASSES = 13, 9, 4
ORDER, HIDDEN, WIDTH = 4, 6, 5
HPARAMS = HyperParams(
    dropout_x=0.3,
    dropout_h=0.2,
    dropout_z=0.4,
    dropout_pos=0.1,
    eta1=0.3,
    eta2=0.6,
    lambda_orth=0.7,
    f_p=7,
    alpha=0.4,
    a=0.2,
    b=0.5,
    rho_scale=1.5,
)


def small(name):
    return resize(MODELS[name], order=ORDER, hidden=HIDDEN, width=WIDTH)


@pytest.fixture(scope="module")
def x_pos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    return jnp.asarray(positional_features(GRAPH, cache=folder).x_pos, dtype=float)


def make_features(rng, is_sparse):
    """Features with many zeros, as the model takes them and as a matrix."""
    x = rng.normal(size=(NODES, FEATURES)) * (rng.uniform(size=(NODES, FEATURES)) < 0.4)
    stored = SparseFeatures.from_scipy(sp.csr_array(x)) if is_sparse else jnp.asarray(x)
    return stored, x


def build(name, features, x_pos, hparams=HPARAMS, seed=0, model=None):
    """A model with parameters moved off their special starting values."""
    model = small(name) if model is None else model
    inputs = model.make_inputs(GRAPH, features, x_pos)
    params = jitted_init(
        jax.random.key(seed), inputs, hparams, model=model, num_classes=CLASSES
    )
    return model, inputs, moved(params, np.random.default_rng(seed), 0.3)


jitted_apply, jitted_init, jitted_loss = map(jitted, ("apply", "init", "loss"))
jitted_masks, jitted_weights = jitted("draw_masks"), jitted("local_weights")


def numpy_masks(masks, x, stored):
    """Masks as full NumPy arrays; ones where there is no dropout."""
    full = {name: np.ones(()) for name in ("x", "h", "z", "pos")}
    for name, mask in masks._asdict().items():
        if mask is not None:
            full[name] = np.asarray(mask)
    if masks.x is not None and isinstance(stored, SparseFeatures):
        full["x"] = np.ones_like(x)
        full["x"][np.nonzero(x)] = np.asarray(masks.x)
    return full


def naive_local(model, params, x_pos, masks, hparams):
    """t_{k,i} and P^(K): from positions, from free weights, or none."""
    if not model.uses_positions:
        free = None if params.local is None else np.asarray(params.local)
        if free is not None and free.ndim == 1:
            free = np.tile(free[:, None], (1, NODES))
        return free, None
    w, b = (np.asarray(part) for part in params.local.start)
    f_p = int(hparams.f_p)
    columns = np.asarray(x_pos)[int(hparams.pos_kind)][:, :f_p]
    pos0 = np.tanh(columns @ w[:f_p] + b) * masks["pos"]
    extra = {}
    if model.has_correlation:
        correlation = params.local.correlation
        extra = {"w": np.asarray(correlation.w), "eta2": hparams.eta2}
        if correlation.bias is not None:
            extra["bias"] = np.asarray(correlation.bias)
        if model.local.mean_correlation:
            extra["scale"] = 1 / NODES
    op = getattr(reference, model.backbone.pos_op)(GRAPH.to_scipy().toarray())
    stack = reference.positions(op, pos0, ORDER, hparams.eta1, **extra)
    heads = (np.asarray(part) for part in params.local.heads)
    return reference.head_logits(stack, *heads), stack[-1]


def naive_output(name, model, params, x, x_pos, masks, hparams):
    """Logits and last positions of the authors' models, formula by formula."""
    backbone = name.removeprefix("dsf-").split("-")[0]
    p = {"w2": np.asarray(params.out.w), "b2": np.asarray(params.out.bias)}
    if params.hidden is not None:
        p |= {"w1": np.asarray(params.hidden.w), "b1": np.asarray(params.hidden.bias)}
    local, pos = naive_local(model, params, x_pos, masks, hparams)
    gamma = np.ones(ORDER + 1) if params.gamma is None else np.asarray(params.gamma)
    hat, tilde = a_hat(GRAPH).to_dense(), a_tilde(GRAPH).to_dense()
    ones = np.ones((ORDER + 1, NODES))
    is_free = pos is None
    if backbone == "gpr":
        theta = ones if local is None else local if is_free else np.tanh(local)
        h = reference.mlp_signal(p, x, masks)
        return reference.gpr_logits(tilde, h, gamma, theta), pos
    if backbone == "bern":
        theta = ones
        if local is not None:
            theta = reference.relu(local) if is_free else reference.sigmoid(local)
        h = reference.mlp_signal(p, x, masks)
        return reference.bern_logits(hat, h, gamma, theta), pos
    h = reference.linear_signal(p, x, masks)
    rho = hparams.rho_scale * np.tanh(local[:-1])
    terms = reference.released_jacobi_terms(hat, h, rho, hparams.a, hparams.b)
    w = gamma if gamma.ndim == 2 else np.tile(gamma[:, None], (1, CLASSES))
    w = w[:, :1] if bool(hparams.sole) else w
    return sum(w[k] * term for k, term in enumerate(terms)), pos


AUTHORS = [
    name
    for name, model in MODELS.items()
    if name.removeprefix("dsf-").split("-")[0] in ("gpr", "bern", "jacobi")
    if "chebyshev" not in name and "legendre" not in name
    if not isinstance(model.local, Residual)  # ours: see test_anchored.py
]


def mostly_slow(names, *fast):
    """All names, those that are not listed as fast among the slow tests."""
    slow = [name for name in names if name not in fast]
    return [*fast, *(pytest.param(name, marks=pytest.mark.slow) for name in slow)]


def _each_model_and_mode():
    """Fast: training with sparse features. Slow: the others, and rare ablations."""
    for name in AUTHORS:
        is_rare = "no-" in name and "gpr" not in name
        for training in (False, True):
            for is_sparse in (False, True):
                is_slow = is_rare or not (training and is_sparse)
                yield pytest.param(
                    name,
                    training,
                    is_sparse,
                    marks=[pytest.mark.slow] if is_slow else [],
                )


@pytest.mark.parametrize(
    ("name", "training", "is_sparse"), list(_each_model_and_mode())
)
def test_model_equals_naive(name, training, is_sparse, x_pos, rng):
    stored, x = make_features(rng, is_sparse)
    model, inputs, params = build(name, stored, x_pos)
    masks = Masks()
    if training:
        masks = jitted_masks(
            jax.random.key(5), params, Run(inputs, HPARAMS), model=model
        )
        assert all(mask is None or np.any(mask == 0) for mask in masks)
    output = jitted_apply(params, inputs, HPARAMS, model=model, masks=masks)
    full = numpy_masks(masks, x, stored)
    logits, pos = naive_output(name, model, params, x, x_pos, full, HPARAMS)
    np.testing.assert_allclose(output.logits, logits, atol=1e-10)

    labels = rng.integers(0, CLASSES, size=NODES)
    labels[3] = -1
    mask = np.arange(NODES) % 2 == 0
    expected = reference.cross_entropy(logits, labels, mask)
    if model.penalty(output, HPARAMS) is not None:
        np.testing.assert_allclose(output.local, pos, atol=1e-10)
        expected += HPARAMS.lambda_orth * reference.orthogonality_loss(pos, True)
    value = jitted_loss(output, labels, mask, HPARAMS, model=model)
    np.testing.assert_allclose(value, expected, rtol=1e-10)


@pytest.mark.parametrize(
    "changes",
    [
        {"orth_normalize": False},
        {"pos_kind": 0, "f_p": 32},
        {"f_p": 1},
        {"eta1": 1.0},
        {"sole": True},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "name", ["dsf-gpr-r", pytest.param("dsf-jacobi-i", marks=pytest.mark.slow)]
)
def test_other_settings_equal_naive(name, changes, x_pos, rng):
    hparams = HPARAMS._replace(**changes)
    x = rng.normal(size=(NODES, FEATURES))
    model, inputs, params = build(name, jnp.asarray(x), x_pos, hparams)
    output = jitted_apply(params, inputs, hparams, model=model)
    full = numpy_masks(Masks(), x, None)
    logits, pos = naive_output(name, model, params, x, x_pos, full, hparams)
    np.testing.assert_allclose(output.logits, logits, atol=1e-10)
    if model.penalty(output, hparams) is not None:
        labels, mask = jnp.zeros(NODES, dtype=int), jnp.ones(NODES, dtype=bool)
        normalize = bool(hparams.orth_normalize)
        expected = reference.cross_entropy(logits, np.zeros(NODES, int), np.ones(NODES))
        expected += 0.7 * reference.orthogonality_loss(pos, normalize)
        value = model.loss(output, labels, mask, hparams)
        np.testing.assert_allclose(value, expected, rtol=1e-10)


def test_options_of_the_paper(x_pos, rng):
    """Algorithm 1: no self-loops, filter first, a free W in S, factors outside."""
    x = rng.normal(size=(NODES, FEATURES))
    hat = a_hat(GRAPH).to_dense()
    for name in ("dsf-gpr-i", "dsf-jacobi-r"):
        model = small(name)
        backbone = model.backbone._replace(
            filter_op="a_hat", pos_op="a_hat", factors_inside=False
        )
        local = dataclasses.replace(
            model.local, correlation="free", mean_correlation=True
        )
        model = dataclasses.replace(
            model, backbone=backbone, local=local, project_first=False
        )
        _, inputs, params = build(name, jnp.asarray(x), x_pos, model=model)
        masks = numpy_masks(Masks(), x, None)
        local, _ = naive_local(model, params, x_pos, masks, HPARAMS)
        h = reference.relu(x @ params.hidden.w + params.hidden.bias[None])
        gamma = np.asarray(params.gamma)
        if name == "dsf-gpr-i":
            assert params.local.correlation.bias is None
            z = reference.gpr_logits(hat, h, gamma, np.tanh(local))
        else:
            rho = HPARAMS.rho_scale * np.tanh(local[1:])
            products = np.concatenate([np.ones((1, NODES)), np.cumprod(rho, axis=0)])
            shared = np.ones((ORDER, NODES))
            terms = reference.released_jacobi_terms(
                hat, h, shared, HPARAMS.a, HPARAMS.b
            )
            z = sum(
                gamma[k] * products[k][:, None] * term for k, term in enumerate(terms)
            )
        expected = z @ params.out.w + params.out.bias[None]
        output = jitted_apply(params, inputs, HPARAMS, model=model)
        np.testing.assert_allclose(output.logits, expected, atol=1e-10)


@pytest.mark.parametrize("pos_op", ["a_tilde", "a_hat", "a_plus_i"])
@pytest.mark.parametrize("name", ["dsf-jacobi-r", "dsf-gpr-i"])
def test_positions_run_on_the_operator_of_the_backbone(name, pos_op, x_pos, rng):
    x = rng.normal(size=(NODES, FEATURES))
    model = small(name)
    model = dataclasses.replace(model, backbone=model.backbone._replace(pos_op=pos_op))
    _, inputs, params = build(name, jnp.asarray(x), x_pos, model=model)
    output = jitted_apply(params, inputs, HPARAMS, model=model)
    full = numpy_masks(Masks(), x, None)
    logits, pos = naive_output(name, model, params, x, x_pos, full, HPARAMS)
    np.testing.assert_allclose(output.local, pos, atol=1e-10)
    np.testing.assert_allclose(output.logits, logits, atol=1e-10)


def test_classical_jacobi_has_the_sign_of_the_polynomials(x_pos, rng):
    x = rng.normal(size=(NODES, FEATURES))
    hparams = HPARAMS._replace(sole=True)  # a is not b, so that the sign shows
    model = dataclasses.replace(small("dsf-jacobi-r"), backbone=CLASSICAL_JACOBI)
    _, inputs, params = build(None, jnp.asarray(x), x_pos, hparams, model=model)
    masks = numpy_masks(Masks(), x, None)
    local, _ = naive_local(model, params, x_pos, masks, hparams)
    signal = x @ np.asarray(params.out.w) + np.asarray(params.out.bias)
    gamma = np.asarray(params.gamma)[:, 0]
    rho = hparams.rho_scale * np.tanh(local[:-1])
    expected = reference.jacobi_inside(
        a_hat(GRAPH).to_dense(), signal, gamma, rho, hparams.a, hparams.b
    )
    output = jitted_apply(params, inputs, hparams, model=model)
    np.testing.assert_allclose(output.logits, expected, atol=1e-10)


@pytest.mark.parametrize("backbone", ["gpr", "gpr-chebyshev", "gpr-legendre"])
def test_theta_of_one_gives_the_base_model(backbone, x_pos, rng):
    x = jnp.asarray(rng.normal(size=(NODES, FEATURES)))
    model, inputs, params = build(f"dsf-{backbone}-r-no-ipe", x, x_pos)
    params = params._replace(local=jnp.ones_like(params.local))
    base = small(backbone)
    base_output = jitted_apply(params._replace(local=None), inputs, HPARAMS, model=base)
    output = jitted_apply(params, inputs, HPARAMS, model=model)
    np.testing.assert_allclose(output.logits, base_output.logits, atol=1e-12)


@pytest.mark.parametrize("backbone", ["gpr", "bern"])
@pytest.mark.parametrize("variant", ["i", "r"])
def test_saturated_heads_give_the_base_model(backbone, variant, x_pos, rng):
    """Heads of weight 0 and a large bias make θ = 1 at every node."""
    x = jnp.asarray(rng.normal(size=(NODES, FEATURES)))
    model, inputs, params = build(f"dsf-{backbone}-{variant}", x, x_pos)
    heads = params.local.heads
    saturated = heads._replace(
        w=jnp.zeros_like(heads.w), bias=jnp.full_like(heads.bias, 40.0)
    )
    params = params._replace(local=params.local._replace(heads=saturated))
    base_output = jitted_apply(
        params._replace(local=None), inputs, HPARAMS, model=small(backbone)
    )
    output = jitted_apply(params, inputs, HPARAMS, model=model)
    np.testing.assert_allclose(output.logits, base_output.logits, atol=1e-12)


@pytest.mark.parametrize(
    "name", [name for name in AUTHORS if name.endswith(("no-ipe", "no-ipe-no-lgwd"))]
)
def test_free_weights_start_as_the_base_model(name, x_pos, rng):
    x = jnp.asarray(rng.normal(size=(NODES, FEATURES)))
    hparams = HPARAMS._replace(gamma_init=GAMMA_INITS.index("ones"))
    backbone = name.removeprefix("dsf-").split("-")[0]
    logits = []
    for each in (name, backbone):
        model = small(each)
        inputs = model.make_inputs(GRAPH, x, x_pos)
        key = jax.random.key(3)
        params = jitted_init(key, inputs, hparams, model=model, num_classes=CLASSES)
        logits.append(jitted_apply(params, inputs, hparams, model=model).logits)
    np.testing.assert_allclose(logits[0], logits[1], atol=1e-12)


def test_parameter_counts_of_the_paper(x_pos):
    """(d + 1)(K + 1) for positions against N (K + 1) for free weights."""
    x = jnp.ones((NODES, FEATURES))
    _, _, with_ipe = build("dsf-gpr-r", x, x_pos)
    _, _, without = build("dsf-gpr-r-no-ipe", x, x_pos)
    _, _, no_lgwd = build("dsf-gpr-r-no-lgwd", x, x_pos)
    heads = sum(leaf.size for leaf in jax.tree.leaves(with_ipe.local.heads))
    assert heads == (WIDTH + 1) * (ORDER + 1)
    assert without.local.size == NODES * (ORDER + 1)
    assert no_lgwd.gamma is None


def test_unlabelled_nodes_give_free_weights_no_gradient(x_pos, rng):
    x = jnp.asarray(rng.normal(size=(NODES, FEATURES)))
    model, inputs, params = build("dsf-gpr-r-no-ipe", x, x_pos)
    mask = jnp.arange(NODES) < 4
    labels = jnp.zeros(NODES, dtype=int)

    def value(params):
        output = jitted_apply(params, inputs, HPARAMS, model=model)
        return model.loss(output, labels, mask, HPARAMS)

    gradient = jax.jit(jax.grad(value))(params).local
    assert not np.any(gradient[:, 4:])
    assert np.all(np.any(gradient[:, :4], axis=0))


@pytest.mark.parametrize("name", mostly_slow(AUTHORS, "dsf-gpr-i", "dsf-jacobi-r"))
def test_gradients_equal_finite_differences(name, x_pos, rng):
    x = rng.normal(size=(NODES, FEATURES)) * (rng.uniform(size=(NODES, FEATURES)) < 0.5)
    features = SparseFeatures.from_scipy(sp.csr_array(x))
    model, inputs, params = build(name, features, x_pos)
    masks = jitted_masks(jax.random.key(7), params, Run(inputs, HPARAMS), model=model)
    labels = jnp.asarray(rng.integers(0, CLASSES, size=NODES))
    mask = jnp.arange(NODES) % 3 != 0

    def value(params):
        output = model.apply(params, inputs, HPARAMS, masks=masks)
        return model.loss(output, labels, mask, HPARAMS)

    assert_slope(value, params, rng, rtol=1e-6)


@pytest.mark.parametrize("name", mostly_slow(AUTHORS, "gpr", "dsf-jacobi-i"))
def test_lanes_of_params_and_hparams_equal_a_loop(name, x_pos, rng):
    """Runs with their own seeds, settings, positional kind and f_p, side by side."""
    x = rng.normal(size=(NODES, FEATURES)) * (rng.uniform(size=(NODES, FEATURES)) < 0.5)
    model = small(name)
    inputs = model.make_inputs(GRAPH, SparseFeatures.from_scipy(sp.csr_array(x)), x_pos)
    labels = jnp.asarray(rng.integers(0, CLASSES, size=NODES))
    mask = jnp.arange(NODES) % 3 != 0
    settings = [
        HPARAMS,
        HPARAMS._replace(pos_kind=0, f_p=3, eta1=0.8, gamma_init=1, a=1.0, sole=True),
        HPARAMS._replace(dropout_x=0.0, gamma_init=2, rho_scale=0.5, eta2=0.0),
    ]
    stacked = jax.tree.map(lambda *values: jnp.asarray(values), *settings)
    keys = jax.random.split(jax.random.key(1), 3)

    def run(key, hparams):
        init_key, mask_key = jax.random.split(key)
        params = model.init(init_key, inputs, hparams, num_classes=CLASSES)
        masks = model.draw_masks(mask_key, params, Run(inputs, hparams))

        def value(params):
            output = model.apply(params, inputs, hparams, masks=masks)
            return model.loss(output, labels, mask, hparams)

        return jax.value_and_grad(value)(params)

    together = jax.jit(jax.vmap(run))(keys, stacked)
    single = jax.jit(run)
    for lane, hparams in enumerate(settings):
        alone = single(keys[lane], hparams)
        jax.tree.map(
            lambda all_, one, lane=lane: np.testing.assert_allclose(
                all_[lane], one, atol=1e-10
            ),
            together,
            alone,
        )


def test_no_retrace_for_new_settings(x_pos):
    traces = 0
    model = small("dsf-gpr-r")
    inputs = model.make_inputs(GRAPH, jnp.ones((NODES, FEATURES)), x_pos)

    @jax.jit
    def run(key, hparams):
        nonlocal traces
        traces += 1
        params = model.init(key, inputs, hparams, num_classes=CLASSES)
        return model.apply(params, inputs, hparams).logits

    first = run(jax.random.key(0), HyperParams())
    other = HyperParams(
        *(type(value)(0.3 * value + 1) for value in HyperParams())
    )._replace(pos_kind=0, f_p=5, gamma_init=2)
    second = run(jax.random.key(1), other)
    assert traces == 1
    assert not np.allclose(first, second)


def test_initial_values_follow_the_facts(x_pos):
    model = small("dsf-gpr-i")
    x = jnp.ones((NODES, 400))
    inputs = model.make_inputs(GRAPH, x, x_pos)
    params = model.init(jax.random.key(0), inputs, HPARAMS, num_classes=CLASSES)
    for leaf, fan_in in [
        (params.hidden.w, 400),
        (params.hidden.bias, 400),
        (params.out.w, HIDDEN),
        (params.local.start.w, HPARAMS.f_p),
        (params.local.start.bias, HPARAMS.f_p),
        (params.local.heads.w, WIDTH),
        (params.local.heads.bias, WIDTH),
        (params.local.correlation.w, WIDTH),
    ]:
        bound = fan_in**-0.5
        assert np.abs(leaf).max() <= bound
        assert np.abs(leaf).max() > 0.5 * bound


def test_gamma_starts():
    key = jax.random.key(0)

    def start(kind, alpha):
        hparams = HyperParams(gamma_init=GAMMA_INITS.index(kind), alpha=alpha)
        return np.asarray(initial_gamma(key, hparams, 3))

    np.testing.assert_allclose(start("ppr", 0.2), [0.2, 0.16, 0.128, 0.512])
    np.testing.assert_allclose(start("ppr", 1.0), [1, 0, 0, 0], atol=1e-15)
    np.testing.assert_allclose(start("ppr", 0.0), [0, 0, 0, 1], atol=1e-15)
    np.testing.assert_allclose(start("nppr", 0.5), np.asarray([8, 4, 2, 1]) / 15)
    np.testing.assert_allclose(np.abs(start("random", 0.0)).sum(), 1)
    np.testing.assert_allclose(start("one-hot", 2.0), [0, 0, 1, 0])
    np.testing.assert_allclose(start("ones", 0.5), np.ones(4))


@pytest.mark.parametrize(
    "name",
    [
        *("gpr", "dsf-gpr-i", "dsf-bern-r", "dsf-gpr-legendre-r", "pa-gnn"),
        *("appnp", "dsf-appnp-r", "dsf-gnn-lf-r", "dsf-gnn-hf-r"),
    ],
)
def test_local_weights_are_what_the_filter_uses(name, x_pos, rng):
    x = jnp.asarray(rng.normal(size=(NODES, FEATURES)))
    model, inputs, params = build(name, x, x_pos)
    weights = jitted_weights(params, inputs, HPARAMS, model=model)
    basis = model.backbone.basis(HPARAMS)
    eigvals, eigvecs = np.linalg.eigh(np.eye(NODES) - inputs.filter_op.to_dense())
    curves = response(weights.beta, jnp.asarray(eigvals), basis)  # g_i(λ_n)
    h = jax.nn.relu(x @ params.hidden.w + params.hidden.bias[None])
    signal = h @ params.out.w + params.out.bias[None]
    spectrum = eigvecs.T @ np.asarray(signal)
    expected = np.einsum("in,in,nc->ic", curves, eigvecs, spectrum)
    output = jitted_apply(params, inputs, HPARAMS, model=model)
    np.testing.assert_allclose(output.logits, expected, atol=1e-10)


def test_local_weights_of_factors(x_pos):
    x = jnp.ones((NODES, FEATURES))
    for name in ("jacobi", "dsf-jacobi-r", "dsf-jacobi-r-no-ipe"):
        model, inputs, params = build(name, x, x_pos)
        weights = jitted_weights(params, inputs, HPARAMS, model=model)
        assert weights.rho.shape == (ORDER, NODES)
        np.testing.assert_allclose(
            weights.theta[1:], np.cumprod(weights.rho, axis=0), atol=1e-12
        )
        np.testing.assert_allclose(
            weights.beta, params.gamma[:, :1] * weights.theta, atol=1e-12
        )


def test_node_positions(x_pos):
    x = jnp.ones((NODES, FEATURES))
    model, inputs, params = build("dsf-gpr-i", x, x_pos)
    stack = model.node_positions(params, inputs, HPARAMS)
    output = jitted_apply(params, inputs, HPARAMS, model=model)
    assert stack.shape == (ORDER + 1, NODES, WIDTH)
    np.testing.assert_allclose(stack[-1], output.local, atol=1e-12)
    model, inputs, params = build("gpr", x, x_pos)
    with pytest.raises(ValueError, match="params must be those of a model with posi"):
        model.node_positions(params, inputs, HPARAMS)


def test_a_basis_of_your_own_is_enhanced_in_one_call(x_pos, rng):
    mine = Backbone(basis=lambda _: legendre)
    x = jnp.asarray(rng.normal(size=(NODES, FEATURES)))
    model = diverse(mine, positional("R"), order=ORDER)
    inputs = model.make_inputs(GRAPH, x, x_pos)
    key = jax.random.key(0)
    params = jitted_init(key, inputs, HPARAMS, model=model, num_classes=CLASSES)
    named = dataclasses.replace(MODELS["dsf-gpr-legendre-r"], order=ORDER)
    np.testing.assert_allclose(
        jitted_apply(params, inputs, HPARAMS, model=model).logits,
        jitted_apply(params, inputs, HPARAMS, model=named).logits,
    )


def test_own_models_have_names_without_addresses():
    """Journals and studies are found again by another process."""
    name = name_of(dataclasses.replace(MODELS["dsf-bern-r"], order=2))
    assert "gamma_activation=relu" in name
    assert "variant='R'" in name
    assert "0x" not in name


def test_models_are_named():
    expected = {
        *("gpr", "bern", "jacobi"),
        *(f"dsf-{b}-{v}" for b in ("gpr", "bern", "jacobi") for v in "ir"),
        *(f"dsf-gpr-r-no-{part}" for part in ("ipe", "lgwd", "orth")),
    }
    assert expected <= set(MODELS)
    assert all(hash(model) is not None for model in MODELS.values())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda gpr: diverse(gpr, order=-1), ["order", "-1", "at least 0"]),
        (lambda gpr: diverse(gpr, hidden=0), ["hidden", "0", "at least 1"]),
        (lambda gpr: positional("R", width=0), ["width", "0", "at least 1"]),
        (lambda gpr: positional("Q"), ["variant", "'Q'", "one of R, I"]),
        (
            lambda gpr: positional("I", correlation="x"),
            ["correlation", "one of affine, free"],
        ),
        (
            lambda gpr: diverse(gpr._replace(pos_op="a")),
            ["pos_op", "'a'", "a_hat, a_tilde, a_plus_i"],
        ),
        (lambda _: Gat(heads=7), ["multiple of heads", "64 for 7"]),
        (lambda _: Gat(heads=0), ["heads", "0", "at least 1"]),
        (lambda _: Fagcn(layers=0), ["layers", "0", "at least 1"]),
        (lambda _: find_model("dsf-gpr"), ["'dsf-gpr'", "'dsf-gpr-r'"]),
        (lambda _: find_model("GPR"), ["'GPR'", "'gpr'"]),
    ],
)
def test_bad_models_are_refused(make, words):
    with pytest.raises(ValueError, match="must be") as caught:
        make(BACKBONES["gpr"])
    for word in words:
        assert word in str(caught.value)


def test_an_edgeless_graph_and_order_zero(rng):
    graph = Graph.from_edges([], num_nodes=3)
    x_pos = jnp.zeros((2, 3, 32))
    for name in ("gpr", "dsf-bern-r", "dsf-jacobi-i"):
        model = dataclasses.replace(MODELS[name], order=0)
        inputs = model.make_inputs(graph, jnp.eye(3), x_pos)
        key = jax.random.key(0)
        params = jitted_init(key, inputs, HPARAMS, model=model, num_classes=2)
        output = jitted_apply(params, inputs, HPARAMS, model=model)
        assert np.all(np.isfinite(output.logits))
