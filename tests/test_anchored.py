"""Local weights that start at their base model."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dsf_jax import BACKBONES, MODELS, Graph, HyperParams, diverse
from dsf_jax.experiments.spaces import space_of
from dsf_jax.models import Run, content, measure_diversity, mixture, residual
from dsf_jax.models.anchored import columns_in_use, node_columns
from dsf_jax.models.settings import COLUMNS, FORMS
from dsf_jax.models.zoo import ANCHORED
from dsf_jax.ops.matrix import project
from dsf_jax.train import grid_jobs
from tests.training import (
    HPARAMS,
    assert_equal_jobs,
    assert_lanes_equal_a_loop,
    assert_slope,
    jitted,
    moved,
    run,
    settings_of,
)

LOCALS = {
    "residual": residual(width=5),
    "recurrence": residual(width=5, has_recurrence=True),
    "both": residual(width=5, has_signal=True),
    "mixture": mixture(3, width=5),
    "contrast-mixture": mixture(3, width=5, has_signal=True, has_columns=False),
    "content": content(2),
}
KINDS = ("residual", "mixture", "content")
SETTINGS = HPARAMS._replace(lr_local=0.02, lambda_local=0.1, f_p=6)


def small(backbone, local=None):
    return diverse(BACKBONES[backbone], local, order=3, hidden=8)


def deviating(params, rng, size=0.5):
    """Parameters whose deviations are not 0."""
    return params._replace(local=moved(params.local, rng, size))


init, apply, local_weights = map(jitted, ("init", "apply", "local_weights"))


def start(model, problem):
    data, key = problem(model), jax.random.key(3)
    return data, init(key, data.inputs, SETTINGS, model=model, num_classes=3)


@partial(jax.jit, static_argnames="model")
def at_start(inputs, *, model):
    """Logits and weights of every node before training."""
    params = model.init(jax.random.key(3), inputs, SETTINGS, num_classes=3)
    weights = model.local_weights(params, inputs, SETTINGS)
    return model.apply(params, inputs, SETTINGS).logits, weights.beta


@pytest.mark.parametrize(
    ("backbone", "kind"),
    [("gpr", kind) for kind in LOCALS]
    + [(backbone, "residual") for backbone in ANCHORED[1:]]
    + [
        pytest.param(backbone, kind, marks=pytest.mark.slow)
        for backbone in ANCHORED[1:]
        for kind in list(LOCALS)[1:]
    ],
)
def test_starts_at_its_base_model(backbone, kind, problem):
    base, model = small(backbone), small(backbone, LOCALS[kind])
    expected, _ = at_start(problem(base).inputs, model=base)
    logits, weights = at_start(problem(model).inputs, model=model)
    np.testing.assert_allclose(logits, expected, atol=1e-12)
    np.testing.assert_allclose(weights, np.tile(weights[:, :1], weights.shape[1]))


@pytest.mark.parametrize(
    ("backbone", "kind"),
    [
        ("gpr", "mixture"),
        ("bern", "residual"),
        pytest.param("jacobi", "content", marks=pytest.mark.slow),
        pytest.param("chebnetii", "both", marks=pytest.mark.slow),
        pytest.param("gpr", "recurrence", marks=pytest.mark.slow),
    ],
)
def test_a_rate_of_0_trains_the_base_model(backbone, kind, problem):
    jobs = grid_jobs(SETTINGS._replace(lr_local=0.0), num_splits=2, num_seeds=2, seed=0)
    results = []
    for local in (None, LOCALS[kind]):
        model = small(backbone, local)
        config = settings_of(lanes=2)
        results.append(run(jobs, problem(model), model=model, train_config=config).jobs)
    base, own = results
    assert_equal_jobs(own._replace(train_loss=base.train_loss), base)
    assert np.all(base.best_epoch > 0)


def test_another_rate_trains_another_model(problem):
    model = small("gpr", LOCALS["residual"])
    data, config = problem(model), settings_of(lanes=2)
    jobs = [
        grid_jobs(SETTINGS._replace(lr_local=rate), num_splits=1, num_seeds=2, seed=0)
        for rate in (0.0, 0.05)
    ]
    still, moving = (run(j, data, model=model, train_config=config).jobs for j in jobs)
    assert not np.allclose(still.val_loss, moving.val_loss, atol=1e-6)


def naive_deviations(kind, params, x, signal, op, settings):
    """Deviations of every node and order, by loops."""
    local = LOCALS[kind]
    parts = []
    if local.has_columns:
        words = COLUMNS[settings.pos_columns].split("+")
        own = np.array(x)
        own[:, :2] *= "degree" in words
        for j in range(32):
            own[:, 2 + j] *= ("lap" in words) and j < settings.f_p
            own[:, 34 + j] *= ("rw" in words) and j < settings.f_p
        parts.append(own)
    if local.has_signal:
        once = op @ signal
        parts += [signal, np.abs(once - signal), np.abs(op @ once - signal)]
    code = np.tanh(np.concatenate(parts, axis=1) @ params.code.w + params.code.bias)
    t = np.zeros((4, len(code)))
    if "mixture" in kind:
        gate, delta = params.heads
        for i, row in enumerate(np.exp(code @ gate)):
            t[:, i] = sum(
                (share - 1 / 3) * delta[m] for m, share in enumerate(row / row.sum())
            )
        return t
    pos = code
    for k in range(4):
        if k > 0 and local.has_recurrence:
            pos = np.tanh(settings.eta1 * code + (1 - settings.eta1) * op @ pos)
        for i in range(len(code)):
            t[k, i] = pos[i] @ params.heads.w[k] + params.heads.bias[k]
    return t


@pytest.mark.parametrize(
    ("kind", "form"),
    [("residual", form) for form in FORMS]
    + [(kind, "once") for kind in LOCALS if kind != "residual"],
)
def test_weights_equal_loops(kind, form, problem, rng):
    settings = SETTINGS._replace(
        residual_form=FORMS.index(form), pos_columns=COLUMNS.index("degree+rw")
    )
    model = small("gpr", LOCALS[kind])
    data, params = start(model, problem)
    params = deviating(params, rng)
    weights = local_weights(params, data.inputs, settings, model=model)
    params, inputs = jax.tree.map(np.asarray, params), data.inputs
    op = np.asarray(inputs.filter_op.to_scipy().todense())
    features = np.asarray(project(inputs.features, jnp.eye(inputs.features.shape[1])))
    hidden = np.maximum(features @ params.hidden.w + params.hidden.bias, 0)
    signal = hidden @ params.out.w + params.out.bias
    t = naive_deviations(kind, params.local, inputs.columns, signal, op, settings)
    gamma = np.asarray(params.gamma)[:, None]
    if "mixture" in kind:
        expected = gamma + t
    else:
        times = {"once": 1, "twice": 2, "plus": 0}[form]
        added = np.tanh(t) if form == "plus" else 0
        expected = gamma * (1 + times * np.tanh(t)) + added
    np.testing.assert_allclose(weights.beta, expected, atol=1e-12)


@pytest.mark.parametrize("backbone", ["bern", "chebnetii"])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_kept_at_0_or_above_stay_there(backbone, kind, problem, rng):
    model = small(backbone, LOCALS[kind])
    data, params = start(model, problem)
    params = deviating(params, rng, 5.0)
    weights = local_weights(params, data.inputs, SETTINGS, model=model)
    assert float(weights.beta.min()) >= 0
    assert float(weights.beta.std(axis=1).max()) > 0.01
    assert "residual_form" not in model.reads


def test_factors_deviate_inside_of_the_activation(problem, rng):
    model = small("jacobi", LOCALS["residual"])
    data, params = start(model, problem)
    params = deviating(params, rng)
    rho = local_weights(params, data.inputs, SETTINGS, model=model).rho
    t = LOCALS["residual"].deviations(params.local, Run(data.inputs, SETTINGS))
    expected = SETTINGS.rho_scale * np.tanh(params.local.base[:, None] + t)[:-1]
    np.testing.assert_allclose(rho, expected, atol=1e-12)


@pytest.mark.parametrize("kind", ["recurrence", "both", "contrast-mixture"])
def test_gradients_equal_finite_differences(kind, problem, rng):
    model = small("gpr", LOCALS[kind])
    data, params = start(model, problem)

    def value(params):
        output = model.apply(params, data.inputs, SETTINGS)
        return model.loss(output, data.labels, data.train[0], SETTINGS)

    assert_slope(value, deviating(params, rng), rng, rtol=1e-6)


@pytest.mark.parametrize("kind", ["both", "mixture"])
def test_lanes_equal_a_loop(kind, problem, rng):
    model = small("jacobi", LOCALS[kind])
    data, params = start(model, problem)
    lanes = [deviating(params, rng) for _ in range(2)]
    settings = [SETTINGS, SETTINGS._replace(pos_columns=1, f_p=3, eta1=0.9)]

    def logits(params, hparams):
        return model.apply(params, data.inputs, hparams).logits

    assert_lanes_equal_a_loop(logits, lanes, settings, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_grid_equals_a_loop_of_runs(kind, problem):
    model = small("gpr", LOCALS[kind])
    data = problem(model)
    jobs = grid_jobs(SETTINGS, num_splits=2, num_seeds=2, seed=0)
    together = run(jobs, data, model=model, train_config=settings_of(lanes=3)).jobs
    alone = [
        run(
            jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], jobs),
            data,
            model=model,
            train_config=settings_of(lanes=1),
        ).jobs
        for i in range(4)
    ]
    assert_equal_jobs(together, jax.tree.map(lambda *x: jnp.concatenate(x), *alone))


def test_the_penalty_pulls_to_the_base(problem, rng):
    model = small("gpr", LOCALS["residual"])
    data, params = start(model, problem)
    output = apply(deviating(params, rng), data.inputs, SETTINGS, model=model)
    t = np.arctanh(np.asarray(output.local))
    assert np.abs(t).max() > 0.1
    expected = SETTINGS.lambda_local * (np.tanh(t) ** 2).sum(axis=0).mean()
    np.testing.assert_allclose(model.penalty(output, SETTINGS), expected)
    start_output = apply(params, data.inputs, SETTINGS, model=model)
    assert model.penalty(start_output, SETTINGS) == 0


def test_columns_are_standardised_and_cut(rng):
    star = Graph.from_edges([(0, i) for i in range(1, 40)], num_nodes=41)
    x_pos = rng.normal(size=(2, 41, 32))
    x_pos[1, :, 3] = 7.0  # the same for all
    columns = node_columns(star, x_pos)
    assert np.abs(columns).max() <= 3
    np.testing.assert_array_equal(columns[:, 2 + 32 + 3], 0)
    degrees = np.array([39] + [1] * 39 + [0])
    logs = np.log1p(degrees)
    around = np.array([logs[1]] + [logs[0]] * 39 + [0])
    for column, raw in ((0, logs), (1, around), (2, x_pos[0, :, 0])):
        expected = np.clip((raw - raw.mean()) / raw.std(), -3, 3)
        np.testing.assert_allclose(columns[:, column], expected, atol=1e-12)


@pytest.mark.parametrize("words", COLUMNS)
def test_columns_in_use(words):
    in_use = np.asarray(columns_in_use(HyperParams(pos_columns=words, f_p=5)))
    kinds = {"degree": in_use[:2], "lap": in_use[2:34], "rw": in_use[34:]}
    for word, part in kinds.items():
        size = 2 if word == "degree" else 5
        expected = np.arange(len(part)) < (size if word in words.split("+") else 0)
        np.testing.assert_array_equal(part, expected)


@pytest.mark.parametrize("backbone", ANCHORED)
@pytest.mark.parametrize("kind", KINDS)
def test_the_search_space_holds_the_base_model(backbone, kind):
    space, base = space_of(f"dsf-{backbone}-{kind}"), space_of(backbone)
    assert {name: space[name] for name in base} == base
    assert 0.0 in space["lr_local"][1]
    assert set(space) <= MODELS[f"dsf-{backbone}-{kind}"].reads


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"width": 0}, "width must be at least 1, got 0"),
        ({"has_columns": False}, "must not both be False"),
    ],
)
def test_wrong_options(options, words):
    with pytest.raises(ValueError, match=words):
        residual(**options)


def test_wrong_mixtures():
    with pytest.raises(ValueError, match="num_experts must be at least 2, got 1"):
        mixture(1)
    with pytest.raises(ValueError, match="has_recurrence must be False"):
        mixture(has_recurrence=True)


jitted_diversity = jax.jit(measure_diversity, static_argnames="model")


def test_diversity_is_measured(problem, rng):
    model = small("gpr", LOCALS["residual"])
    data, params = start(model, problem)
    before, after = (
        jitted_diversity(p, data.inputs, SETTINGS, model=model)
        for p in (params, deviating(params, rng))
    )
    assert before.spread < 1e-12
    assert after.spread > 0.01
    assert after.saturated == 0  # there are no positions
