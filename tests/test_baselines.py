"""Baselines against naive NumPy transcriptions, and what they reduce to."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

from dsf_jax import MODELS, Graph, HyperParams
from dsf_jax.bases import monomial
from dsf_jax.experiments.spaces import SPACES
from dsf_jax.filters import response, shared_filter
from dsf_jax.graph.embedding import netmf
from dsf_jax.models import Masks, Run
from dsf_jax.models.attention import attention
from dsf_jax.models.backbones import BACKBONES
from dsf_jax.ops import SparseFeatures, a_hat, a_tilde
from tests import reference
from tests.graphs import GRAPHS
from tests.training import (
    assert_lanes_equal_a_loop,
    assert_slope,
    jitted,
    moved,
    resize,
)

GRAPH = GRAPHS["isolated"]
NODES, FEATURES, CLASSES = 13, 9, 4
KINDS = ("gcn", "gat", "cheb", "appnp", "gnn-lf", "gnn-hf", "fagcn", "pa-gnn")
HPARAMS = HyperParams(
    dropout_x=0.3,
    dropout_h=0.2,
    dropout_z=0.4,
    dropout_pos=0.1,
    dropout_edge=0.3,
    alpha=0.4,
    mu=0.7,
    beta=0.6,
    epsilon=0.3,
    depth=2,
    degree=2,
    lambda_l1=0.5,
)
X_POS = jnp.zeros((2, NODES, 32))


def small(kind):
    return resize(MODELS[kind], order=3, hidden=6, width=5)


def make_features(is_sparse=True):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(NODES, FEATURES)) * (rng.uniform(size=(NODES, FEATURES)) < 0.4)
    stored = SparseFeatures.from_scipy(sp.csr_array(x)) if is_sparse else jnp.asarray(x)
    return stored, x


def build(kind, features, seed=0, graph=GRAPH):
    """A model with parameters moved off their special starting values."""
    model = small(kind)
    inputs = model.make_inputs(graph, features, X_POS)
    params = jitted_init(
        jax.random.key(seed), inputs, HPARAMS, model=model, num_classes=CLASSES
    )
    return model, inputs, moved(params, np.random.default_rng(seed), 0.3)


jitted_init, jitted_apply, jitted_loss = map(jitted, ("init", "apply", "loss"))
jitted_masks = jitted("draw_masks")


def numpy_masks(kind, masks, x, stored, num_edges):
    """Masks as full NumPy arrays; ones where there is no dropout."""
    full = {name: np.ones(()) for name in ("x", "h", "z", "pos")}
    full["edge"] = np.ones((num_edges, 9) if kind == "gat" else (9, num_edges))
    for name, mask in masks._asdict().items():
        if mask is not None:
            full[name] = np.asarray(mask)
    if masks.x is not None and isinstance(stored, SparseFeatures):
        full["x"] = np.ones_like(x)
        full["x"][np.nonzero(x)] = np.asarray(masks.x)
    return full


def naive(kind, params, inputs, x, masks, hparams=HPARAMS):
    """Logits and penalty, formula by formula."""
    p = jax.tree.map(np.asarray, params)
    hat, tilde = a_hat(GRAPH).to_dense(), a_tilde(GRAPH).to_dense()
    match kind:
        case "gcn":
            return reference.gcn(tilde, p, x, masks), 0.0
        case "cheb":
            return reference.cheb(hat, p, x, masks, hparams.degree), 0.0
        case "gat":
            return reference.gat(tilde > 0, p, x, masks), 0.0
        case "fagcn":
            settings = hparams.depth, hparams.epsilon
            return reference.fagcn(hat, p, x, masks, *settings), 0.0
        case "pa-gnn":
            embedding = np.asarray(inputs.embedding)
            parts = p[:2], p.gamma, p.local
            z, delta = reference.pa_gnn(tilde, *parts, x, embedding, masks)
            return z, hparams.lambda_l1 * np.abs(delta).sum() / NODES
    h, alpha = reference.perceptron(p[:2], x, masks), hparams.alpha
    match kind:
        case "appnp":
            return reference.appnp(tilde, h, 3, alpha), 0.0
        case "gnn-lf":
            return reference.gnn_lf(tilde, h, 3, alpha, hparams.mu), 0.0
        case "gnn-hf":
            return reference.gnn_hf(tilde, h, 3, alpha, hparams.beta), 0.0


def _each_mode():
    """Fast: training with sparse features. Slow: the others."""
    for training, is_sparse in ((True, True), (True, False), (False, True)):
        marks = [] if training and is_sparse else [pytest.mark.slow]
        yield pytest.param(training, is_sparse, marks=marks)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("training", "is_sparse"), list(_each_mode()))
def test_model_equals_naive(kind, training, is_sparse, rng):
    stored, x = make_features(is_sparse)
    model, inputs, params = build(kind, stored)
    masks = Masks()
    if training:
        masks = jitted_masks(
            jax.random.key(5), params, Run(inputs, HPARAMS), model=model
        )
        assert all(mask is None or np.any(mask == 0) for mask in masks)
    output = jitted_apply(params, inputs, HPARAMS, model=model, masks=masks)
    num_edges = inputs.filter_op.senders.shape[0]
    full = numpy_masks(kind, masks, x, stored, num_edges)
    logits, penalty = naive(kind, params, inputs, x, full)
    np.testing.assert_allclose(output.logits, logits, atol=1e-10)
    labels, mask = rng.integers(0, CLASSES, size=NODES), np.arange(NODES) % 2 == 0
    value = jitted_loss(output, labels, mask, HPARAMS, model=model)
    expected = reference.cross_entropy(logits, labels, mask) + penalty
    np.testing.assert_allclose(value, expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("cheb", {"degree": 1}),
        pytest.param("cheb", {"degree": 3}, marks=pytest.mark.slow),
        pytest.param("fagcn", {"depth": 1, "epsilon": 1.0}, marks=pytest.mark.slow),
        pytest.param("fagcn", {"depth": 3}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_layers_and_orders_are_traced(kind, changes):
    stored, x = make_features()
    model, inputs, params = build(kind, stored)
    hparams = jax.tree.map(jnp.asarray, HPARAMS._replace(**changes))
    output = jitted_apply(params, inputs, hparams, model=model)
    num_edges = inputs.filter_op.senders.shape[0]
    full = numpy_masks(kind, Masks(), x, stored, num_edges)
    expected, _ = naive(kind, params, inputs, x, full, HPARAMS._replace(**changes))
    np.testing.assert_allclose(output.logits, expected, atol=1e-10)


@pytest.mark.slow
def test_layers_that_no_run_has_are_skipped():
    """Their parameters may be anything, even not a number."""
    model, inputs, params = build("fagcn", make_features()[0])
    expected = model.apply(params, inputs, HPARAMS).logits
    bias = params.gates.bias.at[2].set(jnp.nan)
    spoilt = params._replace(gates=params.gates._replace(bias=bias))

    def total(params, max_depth):
        flags = {"max_depth": max_depth}
        return jnp.sum(model.apply(params, inputs, HPARAMS, flags=flags).logits)

    gradient = jax.jit(jax.grad(total))(spoilt, jnp.asarray(2))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient))
    np.testing.assert_allclose(total(spoilt, 2), jnp.sum(expected))


CLOSED = {
    "appnp": lambda a, x: reference.appnp_closed(a, x, 0.4),
    "gnn-lf": lambda a, x: reference.gnn_lf_closed(a, x, 0.4, 0.7),
    "gnn-hf": lambda a, x: reference.gnn_hf_closed(a, x, 0.4, 0.6),
}
PUBLISHED = {
    "appnp": lambda a, x, order: reference.appnp(a, x, order, 0.4),
    "gnn-lf": lambda a, x, order: reference.gnn_lf(a, x, order, 0.4, 0.7),
    "gnn-hf": lambda a, x, order: reference.gnn_hf(a, x, order, 0.4, 0.6),
}


@pytest.mark.parametrize("kind", PUBLISHED)
def test_fixed_filters_are_their_iterations(kind, rng):
    x, op = rng.normal(size=(NODES, 2)), a_tilde(GRAPH)
    for order in (1, 2, 10):
        weights = BACKBONES[kind].fixed_gamma(HPARAMS, order)
        assert len(weights) == order + (1 if kind == "appnp" else 2)
        ours = shared_filter(op, jnp.asarray(x), weights, monomial)
        expected = PUBLISHED[kind](op.to_dense(), x, order)
        np.testing.assert_allclose(ours, expected, atol=1e-12)


@pytest.mark.parametrize("kind", CLOSED)
def test_iterations_reach_the_closed_form(kind, rng):
    x, op = rng.normal(size=(NODES, 2)), a_tilde(GRAPH)
    expected = CLOSED[kind](op.to_dense(), x)
    errors = []
    for order in (5, 60):
        weights = BACKBONES[kind].fixed_gamma(HPARAMS, order)
        ours = shared_filter(op, jnp.asarray(x), weights, monomial)
        errors.append(np.abs(ours - expected).max())
    assert errors[0] > 1e-3
    assert errors[1] < 1e-10


@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_coefficients_of_appnp_sum_to_one(alpha):
    hparams = HPARAMS._replace(alpha=alpha)
    weights = BACKBONES["appnp"].fixed_gamma(hparams, 10)
    np.testing.assert_allclose(jnp.sum(weights), 1)
    np.testing.assert_allclose(response(weights, jnp.zeros(1), monomial), [1])


def test_other_models_have_no_filter():
    model, inputs, params = build("gcn", make_features()[0])
    with pytest.raises(ValueError, match="model must have a polynomial filter, got G"):
        model.local_weights(params, inputs, HPARAMS)


@pytest.mark.slow
def test_gcn_is_two_dense_products():
    stored, x = make_features()
    model, inputs, params = build("gcn", stored)
    (w1, b1), (w2, b2) = jax.tree.map(np.asarray, params)
    op = a_tilde(GRAPH).to_dense()
    expected = op @ np.maximum(op @ x @ w1 + b1, 0) @ w2 + b2
    logits = jitted_apply(params, inputs, HPARAMS, model=model).logits
    np.testing.assert_allclose(logits, expected, atol=1e-12)


def test_attention_rows_sum_to_one(rng):
    op = a_tilde(GRAPH)
    ends = jnp.asarray(10 * rng.normal(size=(2, NODES, 3)))
    weights = np.asarray(attention(op, *ends))
    assert np.all(weights > 0)
    for head in weights.T:
        sums = np.bincount(op.receivers, weights=head, minlength=NODES)
        np.testing.assert_allclose(sums, 1)


def test_attention_to_equal_neighbours_is_a_map():
    """Weights of a row that sum to one leave what all nodes share as it is."""
    same = np.tile(make_features()[1][:1], (NODES, 1))
    model, inputs, params = build("gat", jnp.asarray(same))
    first, second = jax.tree.map(np.asarray, params)
    hidden = same @ first.w + first.bias
    hidden = np.where(hidden > 0, hidden, np.expm1(hidden))
    logits = jitted_apply(params, inputs, HPARAMS, model=model).logits
    np.testing.assert_allclose(logits, hidden @ second.w + second.bias, atol=1e-12)


def test_fagcn_with_open_gates_is_a_hat_x():
    stored, x = make_features()
    model, inputs, params = build("fagcn", stored)
    ends, gates = params
    closed = jax.tree.map(jnp.zeros_like, gates)
    open_gates = closed._replace(bias=jnp.full_like(gates.bias, 100.0))
    params = params._replace(gates=open_gates)
    hparams = HPARAMS._replace(epsilon=0.0, depth=1)
    logits = jitted_apply(params, inputs, hparams, model=model).logits
    (w1, b1), (w2, b2) = jax.tree.map(np.asarray, ends)
    expected = a_hat(GRAPH).to_dense() @ np.maximum(x @ w1 + b1, 0) @ w2 + b2
    np.testing.assert_allclose(logits, expected, atol=1e-12)


def assert_uniform(x, bound):
    assert 0.95 * bound < np.max(np.abs(x)) <= bound


def test_first_parameters():
    """Bounds and deviations of each model's own rule, on 9 features and 64 units."""
    stored, _ = make_features()

    def start(kind):
        inputs = MODELS[kind].make_inputs(GRAPH, stored, X_POS)
        key, sizes = jax.random.key(0), {"model": MODELS[kind], "num_classes": 70}
        return jitted_init(key, inputs, HPARAMS, **sizes)

    for layer, (num_in, num_out) in zip(start("gcn"), ((9, 64), (64, 70)), strict=True):
        assert_uniform(layer.w, np.sqrt(6 / (num_in + num_out)))
        assert not np.any(layer.bias)
    (theta, bias), _ = start("cheb")
    assert theta.shape == (4, 9, 64)  # a map for every order, not one wide map
    assert_uniform(theta, np.sqrt(6 / (9 + 64)))
    assert not np.any(bias)
    first, second = start("gat")
    assert_uniform(first.w, np.sqrt(6 / (9 + 64)))
    assert_uniform(first.sender, np.sqrt(6 / (8 + 8)))
    assert_uniform(second.receiver, np.sqrt(6 / (1 + 70)))
    assert not np.any(first.bias)
    for kind in ("appnp", "gnn-lf", "gnn-hf", "pa-gnn"):
        maps = start(kind)
        assert_uniform(maps.hidden.w, 1 / 3)
        assert_uniform(maps.out.bias, 1 / 8)
    (hidden, out), gates = start("fagcn")
    np.testing.assert_allclose(np.std(out.w), 2 / np.sqrt(64 + 70), rtol=0.05)
    assert_uniform(out.bias, 1 / 8)
    assert_uniform(hidden.bias, 1 / 3)
    assert gates.sender.shape == (8, 64)
    np.testing.assert_allclose(np.std(gates.sender), 2 / np.sqrt(128 + 1), rtol=0.1)


@pytest.mark.slow
def test_pa_gnn_starts_as_gpr():
    stored, _ = make_features()
    model, gpr = small("pa-gnn"), small("gpr")
    inputs = model.make_inputs(GRAPH, stored, X_POS)
    key = jax.random.key(0)
    params = model.init(key, inputs, HPARAMS, num_classes=CLASSES)
    ours = model.apply(params, inputs, HPARAMS)
    theirs = gpr.apply(params._replace(local=None), inputs, HPARAMS)
    np.testing.assert_allclose(ours.logits, theirs.logits, atol=1e-12)
    assert not np.any(ours.local)
    assert model.penalty(ours, HPARAMS) == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_equals_finite_differences(kind, rng):
    """Along a random direction, in training mode."""
    model, inputs, params = build(kind, make_features()[0])
    masks = jitted_masks(jax.random.key(5), params, Run(inputs, HPARAMS), model=model)
    labels = jnp.asarray(rng.integers(0, CLASSES, size=NODES))

    def value(params):
        output = model.apply(params, inputs, HPARAMS, masks=masks)
        return model.loss(output, labels, labels >= 0, HPARAMS)

    assert_slope(value, params, rng, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_lanes_equal_a_loop(kind):
    """Runs side by side, gradients too, each with its own settings and masks."""
    stored, _ = make_features()
    model, inputs, _ = build(kind, stored)
    runs = [build(kind, stored, seed=seed)[2] for seed in range(3)]
    settings = [
        HPARAMS._replace(
            alpha=0.2 + 0.1 * i, depth=i + 1, degree=i + 1, epsilon=0.1 * i
        )
        for i in range(3)
    ]
    keys = jax.random.split(jax.random.key(7), 3)

    @partial(jax.value_and_grad, has_aux=True)
    def run(params, hparams, key):
        masks = model.draw_masks(key, params, Run(inputs, hparams))
        output = model.apply(params, inputs, hparams, masks=masks)
        labels = jnp.arange(NODES) % CLASSES
        return model.loss(output, labels, labels > 0, hparams), output.logits

    assert_lanes_equal_a_loop(run, runs, settings, list(keys), atol=1e-10)


@pytest.mark.parametrize("kind", ["gat", pytest.param("fagcn", marks=pytest.mark.slow)])
def test_no_array_has_a_row_and_column_per_node(kind):
    nodes = 301  # no width, and no number of edges
    edges = np.random.default_rng(0).integers(0, nodes, size=(500, 2))
    graph = Graph.from_edges(edges, num_nodes=nodes)
    model = small(kind)
    features = jnp.ones((nodes, FEATURES))
    inputs = model.make_inputs(graph, features, jnp.zeros((2, nodes, 32)))
    keys = jax.random.split(jax.random.key(0), 2)

    def run(key):
        params = model.init(key, inputs, HPARAMS, num_classes=CLASSES)

        def total(params):
            return jnp.sum(model.apply(params, inputs, HPARAMS).logits)

        return jax.grad(total)(params)

    text = jax.jit(jax.vmap(run)).lower(keys).as_text()
    assert f"{nodes}x" in text
    assert f"{nodes}x{nodes}" not in text


def test_netmf_equals_a_dense_factorisation():
    graph = GRAPHS["random"]
    matrix = reference.netmf_matrix(graph.to_scipy().toarray(), 3, 2)
    embedding = netmf(graph, width=4, window=3, negatives=2)
    u, s, _ = np.linalg.svd(matrix)
    expected = u[:, :4] * np.sqrt(s[:4])
    for column, other in zip(embedding.T, expected.T, strict=True):
        np.testing.assert_allclose(np.abs(column), np.abs(other), atol=1e-8)
        assert column[np.argmax(np.abs(column))] > 0
    again = netmf(graph, width=4, window=3, negatives=2)
    np.testing.assert_array_equal(embedding, again)


def test_netmf_of_repeated_values_is_always_the_same():
    """Forty triangles: every eigenvalue forty times."""
    corners = np.arange(120).reshape(40, 3)
    edges = [row[[i, i - 1]] for row in corners for i in range(3)]
    graph = Graph.from_edges(np.asarray(edges), num_nodes=120)
    embedding = netmf(graph, width=20)
    matrix = reference.netmf_matrix(graph.to_scipy().toarray(), 10, 1)
    largest = np.linalg.svd(matrix, compute_uv=False)[:20]
    np.testing.assert_allclose(embedding.T @ embedding, np.diag(largest), atol=1e-8)
    np.testing.assert_array_equal(embedding, netmf(graph, width=20))


def test_netmf_of_a_large_graph_finds_the_same_values(monkeypatch):
    graph = GRAPHS["random"]
    whole = netmf(graph, width=4)
    monkeypatch.setattr("dsf_jax.graph.embedding._DENSE", 0)
    np.testing.assert_allclose(netmf(graph, width=4), whole, atol=1e-8)


def test_netmf_in_blocks_of_rows(monkeypatch):
    graph = GRAPHS["random"]
    whole = netmf(graph, width=4)
    monkeypatch.setattr("dsf_jax.graph.embedding._BLOCK", 7)
    np.testing.assert_allclose(netmf(graph, width=4), whole, atol=1e-8)


def test_netmf_of_any_graph(graph):
    """Isolated nodes have no row, small graphs fewer columns."""
    embedding = netmf(graph, width=5)
    assert embedding.shape == (graph.num_nodes, 5)
    assert np.all(np.isfinite(embedding))
    isolated = np.diff(graph.to_scipy().indptr) == 0
    np.testing.assert_allclose(embedding[isolated], 0, atol=1e-12)


def test_rates_of_the_groups():
    hparams = HyperParams(lr=1, lr_gamma=2, lr_pos=3, decay=4, decay_gamma=5)
    groups = MODELS["pa-gnn"].groups(hparams._replace(decay_pos=6))
    assert groups == ((1, 4), (1, 4), (2, 5), (3, 6), (3, 6))
    assert MODELS["gcn"].groups(hparams) == (1, 4)


def test_spaces_are_within_reach_of_the_programs():
    assert set(KINDS) <= set(SPACES)
    assert max(SPACES["cheb"]["degree"][1]) == MODELS["cheb"].order
    assert SPACES["fagcn"]["depth"][2] == MODELS["fagcn"].layers
