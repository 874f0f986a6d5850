"""Training: the protocol, the optimiser, and the queue against plain loops."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
import sklearn.metrics

from dsf_jax import MODELS
from dsf_jax.engine.metrics import accuracy, summarise
from dsf_jax.engine.optimizer import update
from dsf_jax.engine.queue import advance, is_over, occupancy, open_queue
from dsf_jax.models import Run
from dsf_jax.train import (
    Jobs,
    grid_jobs,
    init_state,
    make_program,
    train_epoch,
)
from tests.training import (
    HPARAMS,
    STATIC,
    assert_equal_jobs,
    jitted,
    run,
    settings_of,
    small,
)

LANES = (1, 5, 50)

jitted_start = jax.jit(init_state, static_argnames=STATIC)
jitted_epoch = jax.jit(train_epoch, static_argnames=STATIC)
jitted_apply, jitted_update = jitted("apply"), jax.jit(update)


@partial(jax.jit, static_argnames=("model", "is_binary"))
def naive_step(params, moments, epoch, key, split, hparams, data, *, model, is_binary):
    """One update, then one evaluation."""
    key = jax.random.fold_in(key, epoch)
    masks = model.draw_masks(key, params, Run(data.inputs, hparams))

    def value(params):
        output = model.apply(params, data.inputs, hparams, masks=masks)
        train = data.train[split]
        return model.loss(output, data.labels, train, hparams, is_binary=is_binary)

    loss, gradient = jax.value_and_grad(value)(params)
    params, moments = update(params, gradient, moments, model.groups(hparams))
    logits = model.apply(params, data.inputs, hparams).logits
    return params, moments, loss, logits


def naive_score(logits, labels, mask, metric):
    logits, labels = np.asarray(logits)[mask], np.asarray(labels)[mask]
    if metric == "roc_auc":
        return sklearn.metrics.roc_auc_score(labels, logits[:, 1] - logits[:, 0])
    return np.mean(np.argmax(logits, axis=1) == labels)


def naive_loss(logits, labels, mask, metric):
    logits, labels = np.asarray(logits)[mask], np.asarray(labels)[mask]
    if metric == "roc_auc":
        sign = 2 * (labels[:, None] == np.arange(2)) - 1
        return np.mean(np.log1p(np.exp(-sign * logits)))
    probabilities = scipy.special.softmax(logits, axis=1)
    return -np.mean(np.log(probabilities[np.arange(len(labels)), labels]))


def naive_run(key, split, hparams, data, model, train_config):
    """The authors' protocol, one Python step after the other."""
    job = Jobs(key, split, hparams)
    state = jitted_start(job, data, model=model, train_config=train_config)
    params, moments = state.params, state.moments
    best = {"val": 0.0, "test": 0.0, "best_epoch": 0, "params": params}
    waited, metric, val_losses = 0, train_config.metric, []
    val_mask, test_mask = (np.asarray(mask[split]) for mask in (data.val, data.test))
    for epoch in range(1, train_config.epochs + 1):
        params, moments, loss, logits = naive_step(
            *(params, moments, epoch - 1, key, split, hparams, data),
            model=model,
            is_binary=metric == "roc_auc",
        )
        val = naive_score(logits, data.labels, val_mask, metric)
        val_losses.append(naive_loss(logits, data.labels, val_mask, metric))
        if not np.isfinite(loss):
            return best | {"epochs_run": epoch, "is_finite": False}
        is_better = {
            "first-best": val > best["val"],
            "last-best": val >= best["val"],
            "lowest-loss": val_losses[-1] < min(val_losses[:-1], default=np.inf),
        }
        if is_better[train_config.selection]:
            test = naive_score(logits, data.labels, test_mask, metric)
            best = {"val": val, "test": test, "best_epoch": epoch, "params": params}
            waited = 0
        else:
            waited += 1
        window = train_config.patience
        if train_config.selection == "lowest-loss":
            # as in GPR-GNN, whose epochs begin at 0
            if epoch - 1 > window and val_losses[-1] > np.mean(
                val_losses[-(window + 1) : -1]
            ):
                break
        elif waited > window:
            break
    losses = {"train_loss": loss, "val_loss": val_losses[-1]}
    return best | losses | {"epochs_run": epoch, "is_finite": True}


def assert_same(results, index, expected):
    """All fields, the best parameters too if the results have them."""
    for name, value in expected.items():
        leaves = jax.tree.leaves(getattr(results, name))
        for leaf, other in zip(leaves, jax.tree.leaves(value), strict=bool(leaves)):
            np.testing.assert_allclose(leaf[index], other, atol=1e-8, err_msg=name)


@pytest.mark.parametrize(
    "name",
    [
        "dsf-gpr-r",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in (
                *("gpr", "bern", "jacobi", "dsf-bern-r", "dsf-jacobi-r"),
                *("dsf-gpr-i", "dsf-bern-i", "dsf-jacobi-i", "dsf-gpr-r-no-ipe"),
                *("gcn", "gat", "cheb", "appnp", "gnn-lf", "gnn-hf", "fagcn"),
                *("pa-gnn", "dsf-appnp-r", "dsf-gnn-lf-r", "chebnetii", "favard"),
                *("dsf-chebnetii-r", "dsf-favard-r", "dsf-optbasis-r"),
            )
        ),
    ],
)
def test_the_grid_equals_a_loop_of_plain_runs(name, problem):
    model, train_config = small(name), settings_of(lanes=3, keeps_params=True)
    data = problem(model)
    jobs = grid_jobs(HPARAMS, num_splits=2, num_seeds=2, seed=1)
    result = run(jobs, data, model=model, train_config=train_config)
    for i in range(4):
        alone = naive_run(
            jobs.key[i], jobs.split[i], HPARAMS, data, model, train_config
        )
        assert_same(result.jobs, i, alone)
    assert len(set(result.jobs.epochs_run.tolist())) > 1  # lanes really were refilled


@pytest.mark.parametrize("selection", ["last-best", "lowest-loss"])
def test_rules_of_the_base_models_equal_a_plain_loop(selection, problem):
    """Their own choice of an epoch and of the end, with lanes that are refilled."""
    model = small("gpr")
    train_config = settings_of(
        lanes=2, epochs=60, patience=4, selection=selection, keeps_params=True
    )
    data = problem(model)
    jobs = grid_jobs(HPARAMS, num_splits=3, num_seeds=2, seed=1)
    result = run(jobs, data, model=model, train_config=train_config)
    for i in range(6):
        alone = naive_run(
            jobs.key[i], jobs.split[i], HPARAMS, data, model, train_config
        )
        assert_same(result.jobs, i, alone)
    assert np.all(result.jobs.epochs_run < 60)
    ours = run(jobs, data, model=model, train_config=settings_of(lanes=2, epochs=60))
    assert np.any(ours.jobs.best_epoch != result.jobs.best_epoch)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jacobi", "dsf-gpr-r"])
def test_the_grid_equals_a_loop_after_200_epochs(name, problem):
    model = small(name)
    train_config = settings_of(lanes=2, keeps_params=True, epochs=200, patience=200)
    data = problem(model)
    hparams = HPARAMS._replace(lr=0.003)  # the best epoch comes late
    jobs = grid_jobs(hparams, num_splits=2, num_seeds=1, seed=1)
    result = run(jobs, data, model=model, train_config=train_config)
    for i in range(2):
        alone = naive_run(
            jobs.key[i], jobs.split[i], hparams, data, model, train_config
        )
        assert alone["epochs_run"] == 200
        assert_same(result.jobs, i, alone)


def test_an_empty_queue(problem):
    model = small("gpr")
    jobs = jax.tree.map(
        lambda leaf: leaf[:0], grid_jobs(HPARAMS, num_splits=1, num_seeds=1, seed=0)
    )
    result = run(jobs, problem(model), model=model, train_config=settings_of())
    assert result.jobs.test.shape == (0,)
    assert result.summary.num_finite == 0
    assert result.occupancy.overall == 0


@pytest.mark.slow
@pytest.mark.parametrize("lanes", LANES)
def test_results_do_not_depend_on_lanes_or_order(lanes, problem):
    model = small("dsf-gpr-r")
    data = problem(model)
    jobs = grid_jobs(HPARAMS, num_splits=3, num_seeds=2, seed=2)
    expected = run(jobs, data, model=model, train_config=settings_of(lanes=3)).jobs
    order = np.random.default_rng(lanes).permutation(6)
    shuffled = jax.tree.map(lambda leaf: leaf[order], jobs)
    result = run(shuffled, data, model=model, train_config=settings_of(lanes=lanes))
    assert_equal_jobs(result.jobs, jax.tree.map(lambda leaf: leaf[order], expected))


@pytest.mark.parametrize("chunk", [1, pytest.param(7, marks=pytest.mark.slow)])
def test_a_queue_may_run_piece_by_piece(chunk, problem):
    model, train_config = small("gpr"), settings_of(lanes=3)
    data = problem(model)
    jobs = grid_jobs(HPARAMS, num_splits=3, num_seeds=2, seed=2)
    whole = run(jobs, data, model=model, train_config=train_config)
    program = make_program(data, model=model, train_config=train_config)
    queue = open_queue(jobs, program, lanes=3, num_jobs=6)
    step = jax.jit(lambda queue: advance(queue, jobs, program, max_epochs=chunk))
    calls = 0
    while not is_over(queue):
        queue, calls = step(queue), calls + 1
    assert calls == -(-int(queue.epochs) // chunk) > 1
    assert np.all(queue.is_done)
    assert_equal_jobs(queue.results, whole.jobs)
    assert occupancy(queue) == whole.occupancy


SEARCHES = {
    "dsf-gpr-r": (
        {},
        {"lr": 0.1, "dropout_pos": 0.5, "pos_kind": 0, "f_p": 3},
        {"eta1": 1.0, "lambda_orth": 0.0, "dropout_x": 0.0},
    ),
    "fagcn": ({"depth": 1}, {"depth": 3, "epsilon": 0.1}, {"depth": 2}),
    "cheb": ({"degree": 1}, {"degree": 3}, {"degree": 2}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_is_a_queue_too(name, problem):
    """Jobs with their own settings, positional kind, f_p and depth included."""
    model, train_config = small(name), settings_of(lanes=2)
    data = problem(model)
    settings = [HPARAMS._replace(**changes) for changes in SEARCHES[name]]
    jobs = Jobs(
        key=jax.random.split(jax.random.key(4), 3),
        split=jnp.asarray([0, 1, 2], jnp.int32),
        hparams=jax.tree.map(lambda *values: jnp.asarray(values), *settings),
    )
    result = run(jobs, data, model=model, train_config=train_config)
    for i, hparams in enumerate(settings):
        alone = naive_run(
            jobs.key[i], jobs.split[i], hparams, data, model, train_config
        )
        assert_same(result.jobs, i, alone)


@pytest.fixture(params=[(float("nan"), True), (1e30, False)], ids=["nan", "1e30"])
def bad_rate(request):
    """A learning rate that cannot work; 1e30 in float32."""
    lr, is_double = request.param
    with jax.enable_x64(is_double):
        yield lr


def test_a_diverging_job_is_reported_and_harms_nobody(bad_rate, problem):
    model, train_config = small("gpr"), settings_of(lanes=2)
    data = jax.tree.map(jnp.asarray, problem(model))
    jobs = grid_jobs(HPARAMS, num_splits=1, num_seeds=4, seed=3)
    healthy = run(jobs, data, model=model, train_config=train_config).jobs
    rates = jobs.hparams.lr.at[1].set(bad_rate)
    sick_jobs = jobs._replace(hparams=jobs.hparams._replace(lr=rates))
    result = run(sick_jobs, data, model=model, train_config=train_config)
    sick = result.jobs
    assert sick.is_finite.tolist() == [True, False, True, True]
    assert sick.epochs_run[1] == 2  # the first update spoils the second loss
    assert result.summary.num_finite == 3
    others = np.asarray([0, 2, 3])
    np.testing.assert_allclose(sick.test[others], healthy.test[others])
    np.testing.assert_allclose(result.summary.mean, np.mean(healthy.test[others]))


@pytest.mark.parametrize(
    ("changes", "num_seeds"),
    [
        ({"epochs": 1}, 1),
        ({"lanes": 8, "patience": 0}, 3),
        pytest.param({"epochs": 1, "lanes": 2}, 3, marks=pytest.mark.slow),
        pytest.param({"patience": 0}, 1, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_short_runs_and_queues(changes, num_seeds, problem):
    model, train_config = small("gpr"), settings_of(**changes)
    data = problem(model)
    jobs = grid_jobs(HPARAMS, num_splits=1, num_seeds=num_seeds, seed=5)
    result = run(jobs, data, model=model, train_config=train_config)
    for i in range(num_seeds):
        alone = naive_run(jobs.key[i], 0, HPARAMS, data, model, train_config)
        assert_same(result.jobs, i, alone)


@pytest.mark.slow
def test_occupancy(problem):
    model = small("gpr")
    data = problem(model)
    jobs = grid_jobs(HPARAMS, num_splits=3, num_seeds=4, seed=6)
    result = run(jobs, data, model=model, train_config=settings_of(lanes=3))
    epochs = np.asarray(result.jobs.epochs_run)
    assert result.occupancy.while_queued == 1.0
    assert 0.5 < result.occupancy.overall <= 1.0
    one = run(jobs, data, model=model, train_config=settings_of(lanes=1))
    assert one.occupancy.overall == 1.0
    np.testing.assert_array_equal(one.jobs.epochs_run, epochs)


def test_no_retrace_for_new_jobs(problem):
    model, train_config = small("gpr"), settings_of(lanes=2)
    sizes = []
    for seed in (0, 1):
        hparams = HPARAMS._replace(lr=0.01 * (seed + 1), f_p=3 + seed)
        jobs = grid_jobs(hparams, num_splits=1, num_seeds=4, seed=seed)
        run(jobs, problem(model), model=model, train_config=train_config)
        sizes.append(run._cache_size())
    assert sizes[0] == sizes[1]


def test_early_stopping_on_recorded_scores(problem):
    """Ties do not count as better, the first best is kept, and waiting is counted."""
    model = small("gpr")
    data = problem(model)
    job = Jobs(jax.random.key(0), jnp.asarray(0), HPARAMS)
    state = jitted_start(job, data, model=model, train_config=settings_of())
    flags = model.flags(HPARAMS)
    seen = []
    for _ in range(25):
        logits = jitted_apply(state.params, data.inputs, HPARAMS, model=model).logits
        if state.epoch > 0:
            seen.append(float(accuracy(logits, data.labels, data.val[0])))
        state, is_over = jitted_epoch(
            state, job, data, flags, model=model, train_config=settings_of()
        )
        if is_over:
            break
    first_best = int(np.argmax(seen)) + 1
    assert state.best.best_epoch == first_best
    assert len(set(seen)) < len(seen)  # there were ties
    assert state.best.epochs_run == len(seen) == min(first_best + 5, 25)


def test_update_is_torch_adam_with_coupled_decay(problem):
    """Two updates against the formulas, group by group."""
    model = small("dsf-gpr-r")
    data = problem(model)
    hparams = HPARAMS._replace(decay=0.1, decay_gamma=0.2, decay_pos=0.3)
    job = Jobs(jax.random.key(1), jnp.asarray(0), hparams)
    state = jitted_start(job, data, model=model, train_config=settings_of())
    params, moments = state.params, state.moments
    gradients = [
        jax.tree.map(lambda leaf, s=s: np.sin(s + np.asarray(leaf) * 7), params)
        for s in (1, 2)
    ]
    ours = params
    for gradient in gradients:
        ours, moments = jitted_update(ours, gradient, moments, model.groups(hparams))
    groups = {
        "hidden": (hparams.lr, 0.1),
        "out": (hparams.lr, 0.1),
        "gamma": (hparams.lr_gamma, 0.2),
        "local": (hparams.lr_pos, 0.3),
    }
    for field, (lr, decay) in groups.items():
        leaves = jax.tree.leaves(getattr(params, field))
        for i, leaf in enumerate(leaves):
            p, m, v = np.asarray(leaf), 0.0, 0.0
            for t, gradient in enumerate(gradients, start=1):
                g = np.asarray(jax.tree.leaves(getattr(gradient, field))[i]) + decay * p
                m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
                unbiased = np.sqrt(v / (1 - 0.999**t)) + 1e-8
                p = p - lr * m / (1 - 0.9**t) / unbiased
            np.testing.assert_allclose(
                jax.tree.leaves(getattr(ours, field))[i], p, atol=1e-12
            )


def test_free_weights_of_nodes_do_not_decay(problem):
    model = small("dsf-gpr-r-no-ipe")
    data = problem(model)
    job = Jobs(jax.random.key(1), jnp.asarray(0), HPARAMS)
    state = jitted_start(job, data, model=model, train_config=settings_of())
    nothing = jax.tree.map(np.zeros_like, state.params)
    hparams = HPARAMS._replace(decay_pos=1.0)
    groups = model.groups(hparams)
    moved, _ = jitted_update(state.params, nothing, state.moments, groups)
    np.testing.assert_array_equal(moved.local, state.params.local)


def test_binary_task_scores_roc_auc(problem):
    model = small("gpr")
    data = problem(model)
    binary = data._replace(labels=(data.labels > 0).astype(int))
    train_config = settings_of(num_classes=2, metric="roc_auc")
    jobs = grid_jobs(HPARAMS, num_splits=2, num_seeds=1, seed=0)
    result = run(jobs, binary, model=model, train_config=train_config)
    for i in range(2):
        alone = naive_run(
            jobs.key[i], jobs.split[i], HPARAMS, binary, model, train_config
        )
        assert_same(result.jobs, i, alone)
    with pytest.raises(ValueError, match="metric must be 'accuracy' for 3 classes"):
        settings_of(metric="roc_auc")


def test_summary_equals_scipy(rng):
    scores = rng.normal(size=12)
    is_finite = np.arange(12) != 5
    summary = summarise(jnp.asarray(scores), jnp.asarray(is_finite))
    kept = scores[is_finite]
    low, high = scipy.stats.t.interval(
        0.95, df=10, loc=kept.mean(), scale=scipy.stats.sem(kept)
    )
    np.testing.assert_allclose(summary.mean, kept.mean())
    np.testing.assert_allclose(summary.std, kept.std(ddof=1))
    np.testing.assert_allclose(summary.ci95, (high - low) / 2)
    assert summary.num_finite == 11


def test_flags_of_jobs_side_by_side():
    hparams = HPARAMS._replace(
        eta1=jnp.asarray([1.0, 0.5]), eta2=jnp.asarray([0.5, 0.0])
    )
    dsf, fagcn = MODELS["dsf-gpr-i"], MODELS["fagcn"]
    assert dsf.flags(hparams) == {"has_correlation": False, "no_dropout_pos": True}
    assert fagcn.flags(hparams) == {"max_depth": 2}
    hparams = hparams._replace(
        dropout_pos=jnp.asarray([0.0, 0.1]), depth=jnp.asarray([1, 4])
    )
    assert dsf.flags(hparams) == {"has_correlation": False, "no_dropout_pos": False}
    assert fagcn.flags(hparams) == {"max_depth": 4}
    assert MODELS["gpr"].flags(hparams) == {}


@pytest.mark.parametrize("name", ["num_classes", "epochs", "patience", "lanes"])
def test_bad_train_configs_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be at least .*, got -1"):
        settings_of(**{name: -1})
