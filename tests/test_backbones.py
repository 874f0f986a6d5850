"""ChebNetII, FavardGNN and OptBasisGNN: naive NumPy, dense oracles, what they start as.

Formulas are those of the papers and their released code; none of them has a fixed basis
in common with the others.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.interpolate
import scipy.special

from dsf_jax import MODELS, HyperParams
from dsf_jax.bases import chebyshev_nodes, evaluate_basis
from dsf_jax.experiments.presets import published
from dsf_jax.filters import response, shared_filter
from dsf_jax.models import Masks, Run, check_settings
from dsf_jax.models.learnt_bases import FAVARD, OPTIMAL, Coefficients
from dsf_jax.ops import a_hat
from tests import reference
from tests.graphs import GRAPHS
from tests.training import (
    assert_lanes_equal_a_loop,
    assert_slope,
    jitted,
    moved,
    resize,
)

GRAPH = GRAPHS["random"]
NODES, FEATURES, CLASSES, ORDER, HIDDEN = GRAPH.num_nodes, 7, 3, 4, 6
BASES = ("chebnetii", "favard", "optbasis")
HPARAMS = HyperParams(
    **{"dropout_x": 0.3, "dropout_h": 0.2, "dropout_z": 0.4, "dropout_pos": 0.1},
    **{"f_p": 5, "gamma_init": "one-hot", "alpha": 0.0, "lr_pos": 0.02},
)
HAT = np.asarray(a_hat(GRAPH).to_dense())


jitted_init, jitted_masks, jitted_apply = map(jitted, ("init", "draw_masks", "apply"))


def build(name, seed=0):
    """A model with parameters moved off their start."""
    rng = np.random.default_rng(seed)
    model = resize(MODELS[name], order=ORDER, hidden=HIDDEN, width=5)
    x = rng.normal(size=(NODES, FEATURES))
    x_pos = jnp.asarray(rng.normal(size=(2, NODES, 32)))
    inputs = model.make_inputs(GRAPH, jnp.asarray(x), x_pos)
    key = jax.random.key(seed)
    params = jitted_init(key, inputs, HPARAMS, model=model, num_classes=CLASSES)
    return model, inputs, moved(params, rng, 0.2), x


def slow(name):
    return pytest.param(name, marks=pytest.mark.slow)


def naive_terms(name, basis, h):
    """The basis in every channel, order by order."""
    if name == "favard":
        y, s = np.asarray(basis.y), np.maximum(np.asarray(basis.s), 0.01)
        terms = [h / s[0]]
        for k in range(1, ORDER + 1):
            last = terms[k - 1]
            before = terms[k - 2] if k > 1 else 0 * last
            new = HAT @ last - y[k - 1] * last - s[k - 1] * before
            terms.append(new / s[k])
        return terms
    terms = [h / np.linalg.norm(h, axis=0)]
    for k in range(1, ORDER + 1):
        v = HAT @ terms[k - 1]
        for old in (terms[k - 1], terms[k - 2] if k > 1 else 0 * v):
            v = v - np.sum(v * old, axis=0) * old
        terms.append(v / np.maximum(np.linalg.norm(v, axis=0), 1e-8))
    return terms


def naive_theta(base, model, params, inputs, masks):
    """σ_p(t) of the positions, or 1."""
    if not model.uses_positions:
        return np.ones((ORDER + 1, NODES))
    (w, b), heads, _ = jax.tree.map(np.asarray, params.local)
    f_p = int(HPARAMS.f_p)
    columns = np.asarray(inputs.x_pos)[int(HPARAMS.pos_kind)][:, :f_p]
    pos0 = np.tanh(columns @ w[:f_p] + b) * (1 if masks.pos is None else masks.pos)
    op = reference.a_tilde(GRAPH.to_scipy().toarray())
    stack = reference.positions(op, pos0, ORDER, HPARAMS.eta1)
    t = reference.head_logits(stack, *heads)
    return reference.sigmoid(t) if base == "chebnetii" else np.tanh(t)


def naive_logits(base, model, params, inputs, x, masks):
    """Formula by formula."""
    p = jax.tree.map(np.asarray, params)
    drop = {
        key: 1 if m is None else np.asarray(m) for key, m in masks._asdict().items()
    }
    h = np.maximum((x * drop["x"]) @ p.hidden.w + p.hidden.bias, 0) * drop["h"]
    theta = naive_theta(base, model, params, inputs, masks)
    if base == "chebnetii":
        signal = (h @ p.out.w + p.out.bias) * drop["z"]
        values = np.maximum(p.gamma, 0)
        nodes = np.cos((ORDER - np.arange(ORDER + 1) + 0.5) * np.pi / (ORDER + 1))
        terms = [signal, -HAT @ signal]
        for _ in range(2, ORDER + 1):
            terms.append(-2 * HAT @ terms[-1] - terms[-2])
        z = 0
        for k, term in enumerate(terms):
            t_k = np.cos(k * np.arccos(nodes))
            c = 2 / (ORDER + 1) * np.einsum("j,j,jn->n", t_k, values, theta)
            z = z + (0.5 if k == 0 else 1) * c[:, None] * term
        return z
    if base == "optbasis":
        noise = masks.noise
        if noise is None:
            noise = jax.random.normal(jax.random.key(0), h.shape)
        h = h + 1e-5 * np.asarray(noise)
    terms = naive_terms(base, p.basis, h)
    r = sum(p.gamma[k] * theta[k][:, None] * terms[k] for k in range(ORDER + 1))
    return (r * drop["z"]) @ p.out.w + p.out.bias


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("is_diverse", [False, True])
@pytest.mark.parametrize("base", BASES)
def test_model_equals_naive(base, is_diverse, training):
    model, inputs, params, x = build(f"dsf-{base}-r" if is_diverse else base)
    masks = Masks()
    if training:
        masks = jitted_masks(
            jax.random.key(5), params, Run(inputs, HPARAMS), model=model
        )
    output = jitted_apply(params, inputs, HPARAMS, model=model, masks=masks)
    expected = naive_logits(base, model, params, inputs, x, masks)
    np.testing.assert_allclose(output.logits, expected, atol=1e-9)


def test_node_values_are_the_filter_at_the_nodes(rng):
    """Against scipy's barycentric interpolation, at the eigenvalues of L̂."""
    nodes = 1 + np.cos((ORDER - np.arange(ORDER + 1) + 0.5) * np.pi / (ORDER + 1))
    values = evaluate_basis(chebyshev_nodes, jnp.asarray(nodes), ORDER)
    np.testing.assert_allclose(values, np.eye(ORDER + 1), atol=1e-14)
    assert np.all(np.diff(nodes) > 0)  # the first is the lowest frequency
    g, x = rng.normal(size=ORDER + 1), rng.normal(size=(NODES, 2))
    eigvals, eigvecs = np.linalg.eigh(np.eye(NODES) - HAT)
    curve = scipy.interpolate.BarycentricInterpolator(nodes, g)(eigvals)
    expected = eigvecs @ (curve[:, None] * (eigvecs.T @ x))
    ours = shared_filter(a_hat(GRAPH), jnp.asarray(x), jnp.asarray(g), chebyshev_nodes)
    np.testing.assert_allclose(ours, expected, atol=1e-12)


@pytest.mark.parametrize("order", [1, 4, 10])
def test_chebnetii_of_ones_is_the_identity(order, rng):
    x = jnp.asarray(rng.normal(size=(NODES, 2)))
    ours = shared_filter(a_hat(GRAPH), x, jnp.ones(order + 1), chebyshev_nodes)
    np.testing.assert_allclose(ours, x, atol=1e-13)


def test_favard_starts_as_chebyshevs_second_kind(rng):
    x = rng.normal(size=(NODES, 3))
    start = FAVARD.init(ORDER, 3)
    terms = FAVARD.run(start, a_hat(GRAPH), jnp.asarray(x), ORDER)[0]
    eigvals, eigvecs = np.linalg.eigh(HAT)
    for k, term in enumerate(terms):
        curve = scipy.special.eval_chebyu(k, eigvals / 2)
        expected = eigvecs @ (curve[:, None] * (eigvecs.T @ x))
        np.testing.assert_allclose(term, expected, atol=1e-12)


def test_the_optimal_basis_is_orthonormal_in_every_channel(rng):
    x = rng.normal(size=(NODES, 3))
    terms = np.asarray(OPTIMAL.run(None, a_hat(GRAPH), jnp.asarray(x), ORDER)[0])
    for c in range(3):
        np.testing.assert_allclose(
            terms[:, :, c] @ terms[:, :, c].T, np.eye(ORDER + 1), atol=1e-10
        )
        krylov = [x[:, c]]
        for _ in range(ORDER):
            krylov.append(HAT @ krylov[-1])
        q, r = np.linalg.qr(np.stack(krylov, axis=1))
        np.testing.assert_allclose(terms[:, :, c].T, q * np.sign(np.diag(r)), atol=1e-8)


def test_favard_with_the_coefficients_of_the_signal_is_optimal(rng):
    op, x = a_hat(GRAPH), jnp.asarray(rng.normal(size=(NODES, 3)))
    found = OPTIMAL.run(None, op, x, ORDER)[1]
    np.testing.assert_allclose(
        FAVARD.run(Coefficients(*found), op, x, ORDER)[0],
        OPTIMAL.run(None, op, x, ORDER)[0],
        atol=1e-10,
    )


def test_a_dead_channel_has_a_finite_gradient():
    x = jnp.zeros((NODES, 2))

    def total(x):
        return jnp.sum(OPTIMAL.run(None, a_hat(GRAPH), x, ORDER)[0] ** 2)

    assert np.all(np.isfinite(jax.jit(jax.grad(total))(x)))


@pytest.mark.parametrize("base", BASES)
def test_it_starts_as_a_perceptron(base):
    """Values 1 at the nodes, or the first order alone."""
    model, inputs, _, x = build(base)
    hparams = HPARAMS._replace(gamma_init="ones" if base == "chebnetii" else "one-hot")
    key = jax.random.key(0)
    params = jitted_init(key, inputs, hparams, model=model, num_classes=CLASSES)
    p = jax.tree.map(np.asarray, params)
    h = np.maximum(x @ p.hidden.w + p.hidden.bias, 0)
    if base == "optbasis":
        h = h / np.maximum(np.linalg.norm(h, axis=0), 1e-12)
    logits = jitted_apply(params, inputs, hparams, model=model).logits
    alive = np.all(np.any(h > 0, axis=0))
    assert alive or base != "optbasis"
    np.testing.assert_allclose(logits, h @ p.out.w + p.out.bias, atol=1e-4)


def test_evaluation_is_the_same_every_time():
    model, inputs, params, _ = build("optbasis")
    one, other = (model.apply(params, inputs, HPARAMS).logits for _ in range(2))
    np.testing.assert_array_equal(one, other)
    masks = [
        model.draw_masks(jax.random.key(i), params, Run(inputs, HPARAMS))
        for i in (1, 2)
    ]
    assert not np.allclose(masks[0].noise, masks[1].noise)


@pytest.mark.parametrize("is_diverse", [False, True])
@pytest.mark.parametrize("base", BASES)
def test_curves_are_the_filter_of_the_first_channel(base, is_diverse):
    """g_i(λ) by `local_weights` and `basis`, against the terms on eigenvectors."""
    model, inputs, params, _ = build(f"dsf-{base}-r" if is_diverse else base)
    weights = model.local_weights(params, inputs, HPARAMS)
    eigvals, eigvecs = np.linalg.eigh(np.eye(NODES) - HAT)
    basis = model.basis(params, inputs, HPARAMS)
    curves = response(weights.beta, jnp.asarray(eigvals), basis)
    run = Run(inputs, HPARAMS)
    signal = model._signal(params, run)
    expected = np.einsum("in,in,n->i", curves, eigvecs, eigvecs.T @ signal[:, 0])
    weights = model._weights(params, run, signal)
    parts = model._shared(params, run), signal, weights
    filtered = model.backbone.filter(run, *parts)
    np.testing.assert_allclose(filtered[:, 0], expected, atol=1e-8)


@pytest.mark.parametrize(
    "name", [f"dsf-{base}-r" for base in BASES] + [slow(base) for base in BASES]
)
def test_gradient_equals_finite_differences(name, rng):
    model, inputs, params, _ = build(name)
    masks = jitted_masks(jax.random.key(5), params, Run(inputs, HPARAMS), model=model)
    labels = jnp.asarray(rng.integers(0, CLASSES, size=NODES))

    def value(params):
        output = model.apply(params, inputs, HPARAMS, masks=masks)
        return model.loss(output, labels, labels >= 0, HPARAMS)

    assert_slope(value, params, rng, rtol=1e-5)


@pytest.mark.parametrize(
    "name", ["dsf-favard-r", *map(slow, (*BASES, "dsf-chebnetii-r", "dsf-optbasis-r"))]
)
def test_lanes_equal_a_loop(name):
    model, inputs, _, _ = build(name)
    runs = [build(name, seed=seed)[2] for seed in range(3)]
    settings = [HPARAMS._replace(eta1=0.2 * i, dropout_h=0.1 * i) for i in range(3)]
    keys = jax.random.split(jax.random.key(7), 3)

    def run(params, hparams, key):
        def value(params):
            masks = model.draw_masks(key, params, Run(inputs, hparams))
            output, logits = model.apply_both(params, Run(inputs, hparams, masks))
            labels = jnp.arange(NODES) % CLASSES
            return model.loss(output, labels, labels > 0, hparams), logits

        return jax.value_and_grad(value, has_aux=True)(params)

    assert_lanes_equal_a_loop(run, runs, settings, list(keys), atol=1e-9)


@pytest.mark.parametrize("base", BASES)
def test_published_settings_are_there(base):
    found = published("chameleon", base)
    assert found is not None
    check_settings(found.hparams, reads=MODELS[base].reads)
    assert "release" in found.source
