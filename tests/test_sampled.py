"""Variant I with S estimated from a sample of the nodes."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dsf_jax import BACKBONES, HyperParams, diverse, evaluate, positional, regions
from dsf_jax.data.splits import make_splits
from dsf_jax.engine.grid import run_grid
from dsf_jax.experiments.evaluation import prepare
from dsf_jax.ipe import Heads, encode
from dsf_jax.models.model import Run
from dsf_jax.ops import a_tilde
from dsf_jax.ops.correlation import Correlation, correlate, correlate_sampled
from dsf_jax.train import TrainConfig, grid_jobs
from tests.graphs import GRAPHS

GRAPH, WIDTH, ORDER = GRAPHS["isolated"], 4, 3
DENSE = a_tilde(GRAPH).to_dense()
SETTINGS = {"eta1": 0.3, "eta2": 0.6, "scale": 0.1}
HPARAMS = HyperParams(eta1=0.3, eta2=0.5, dropout_pos=0.2, lr=0.05)


def sampled_model(num_sampled):
    own = {"num_sampled": num_sampled, "mean_correlation": True, "width": 8}
    local = positional("I", **own)
    return diverse(BACKBONES["gpr"], local, order=3, hidden=8)


@pytest.fixture(params=["free", "affine"])
def correlation(request, rng):
    bias = jnp.asarray(rng.normal(size=WIDTH)) if request.param == "affine" else None
    return Correlation(jnp.asarray(rng.normal(size=(WIDTH, WIDTH))), bias)


def test_the_mean_over_all_samples_is_the_sum_over_all_nodes(correlation, rng):
    pos = jnp.asarray(rng.normal(size=(5, WIDTH)))
    found = [
        correlate_sampled(correlation, pos, jnp.asarray(sample))
        for sample in itertools.combinations(range(5), 2)
    ]
    exact = correlate(correlation, pos)
    assert np.abs(found[0] - exact).max() > 0.1
    np.testing.assert_allclose(np.mean(found, axis=0), exact, atol=1e-12)


def test_a_sample_equals_a_loop_over_nodes(correlation, rng):
    pos, sample = rng.normal(size=(5, WIDTH)), [3, 0]
    w = np.asarray(correlation.w)
    left, right = pos @ w, pos
    if correlation.bias is not None:
        left = right = pos @ w + np.asarray(correlation.bias)
    expected = np.zeros_like(pos)
    for i in range(5):
        for j in sample:
            expected[i] += 5 / 2 / (1 + np.exp(-left[i] @ right[j])) * pos[j]
    found = correlate_sampled(correlation, jnp.asarray(pos), jnp.asarray(sample))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def plain_loss(correlation, heads, pos0, sample):
    """Eq. 6 and 7 step by step, for plain autodiff."""
    pos, stack = pos0, [pos0]
    eta1, eta2, scale = SETTINGS.values()
    for _ in range(ORDER):
        smooth = (1 + eta2) * DENSE @ pos
        smooth -= eta2 * scale * correlate_sampled(correlation, pos, sample)
        pos = jnp.tanh(eta1 * pos0 + (1 - eta1) * smooth)
        stack.append(pos)
    logits = jnp.einsum("knd,kd->kn", jnp.stack(stack), heads.w) + heads.bias[:, None]
    return jnp.sum(jnp.sin(logits)) + jnp.sum(pos**3)


def our_loss(correlation, heads, pos0, sample):
    encoding = encode(
        a_tilde(GRAPH), pos0, heads, correlation, sample=sample, **SETTINGS
    )
    return jnp.sum(jnp.sin(encoding.logits)) + jnp.sum(encoding.pos**3)


def test_gradients_equal_plain_autodiff_and_lanes_a_loop(correlation, rng):
    lanes, num_nodes = 3, GRAPH.num_nodes
    heads = Heads(
        jnp.asarray(rng.normal(size=(ORDER + 1, WIDTH))),
        jnp.asarray(rng.normal(size=ORDER + 1)),
    )
    pos0 = jnp.asarray(rng.normal(size=(lanes, num_nodes, WIDTH)))
    chosen = [rng.choice(num_nodes, 4, replace=False) for _ in range(lanes)]
    sample = jnp.asarray(np.stack(chosen))

    def both(loss):
        return jax.value_and_grad(loss, argnums=(0, 1, 2))

    together = jax.jit(jax.vmap(both(our_loss), in_axes=(None, None, 0, 0)))(
        correlation, heads, pos0, sample
    )
    for lane in range(lanes):
        own = correlation, heads, pos0[lane], sample[lane]
        alone, plain = jax.jit(both(our_loss))(*own), jax.jit(both(plain_loss))(*own)
        lane_of = jax.tree.map(lambda leaf, lane=lane: leaf[lane], together)
        for found in (alone, lane_of):
            jax.tree.map(
                lambda a, b: np.testing.assert_allclose(a, b, atol=1e-10), found, plain
            )


@pytest.fixture(scope="module")
def problem():
    dataset = regions(60)
    splits = make_splits(dataset, num_splits=2)
    return prepare(dataset, splits, model=sampled_model(9))


def test_a_sample_of_all_nodes_is_exact(problem):
    model = sampled_model(1000)
    params = model.init(jax.random.key(0), problem.inputs, HPARAMS, num_classes=2)
    logits = [
        kind.apply(params, problem.inputs, HPARAMS).logits
        for kind in (model, model.exact, sampled_model(9))
    ]
    np.testing.assert_allclose(logits[0], logits[1], atol=1e-12)
    assert np.abs(logits[2] - logits[1]).max() > 1e-3


def test_each_step_has_a_sample_and_all_evaluations_the_same(problem):
    model = sampled_model(9)
    run = Run(problem.inputs, HPARAMS)
    params = model.init(jax.random.key(0), *run[:2], num_classes=2)
    samples = [
        model.draw_masks(jax.random.key(i), params, run).sample.tolist() for i in (1, 2)
    ]
    assert samples[0] != samples[1]
    assert all(len(set(sample)) == 9 and max(sample) < 60 for sample in samples)
    masks = model.draw_masks(jax.random.key(1), params, run)
    output, logits = model.apply_both(params, run._replace(masks=masks))
    own = model.apply(params, problem.inputs, HPARAMS, masks=masks).logits
    np.testing.assert_allclose(output.logits, own, atol=1e-12)
    clean = model.apply(params, problem.inputs, HPARAMS).logits
    np.testing.assert_allclose(logits, clean, atol=1e-12)


def test_the_grid_equals_a_loop(problem):
    model = sampled_model(9)
    jobs = grid_jobs(HPARAMS, num_splits=2, num_seeds=2, seed=0)
    settings = TrainConfig(num_classes=2, epochs=12, patience=12, lanes=2)
    own = {"model": model, "train_config": settings}
    grid = run_grid(jobs, problem, **own).jobs
    for i in range(4):
        alone = jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], jobs)
        single = run_grid(alone, problem, **own).jobs
        for name in ("test", "val", "best_epoch", "train_loss"):
            found, expected = getattr(grid, name)[i], getattr(single, name)[0]
            np.testing.assert_allclose(found, expected, atol=1e-10)


def test_recorded_scores_are_exact(problem):
    """Those of the parameters that sampled validation scores chose."""
    model, hparams = sampled_model(1), HPARAMS._replace(eta2=1.0, eta1=0.0)
    sizes = {"num_splits": 2, "num_seeds": 3, "epochs": 30, "lanes": 1}
    record = evaluate(regions(60), model, hparams, **sizes)
    jobs = grid_jobs(hparams, num_splits=2, num_seeds=3, seed=0)
    settings = TrainConfig(num_classes=2, epochs=30, lanes=1, keeps_params=True)
    runs = run_grid(jobs, problem, model=model, train_config=settings).jobs
    assert np.ravel(record["best_epoch"]).tolist() == runs.best_epoch.tolist()
    for i in range(6):
        params = jax.tree.map(lambda leaf, i=i: jnp.asarray(leaf[i]), runs.params)
        logits = model.exact.apply(params, problem.inputs, hparams).logits
        is_right = np.asarray(logits).argmax(axis=1) == np.asarray(problem.labels)
        for name, masks in (("test", problem.test), ("val", problem.val)):
            expected = 100 * is_right[np.asarray(masks[i // 3])].mean()
            np.testing.assert_allclose(np.ravel(record[name])[i], expected, atol=1e-3)
    assert np.abs(np.ravel(record["val"]) - 100 * np.asarray(runs.val)).max() > 0.1


@pytest.mark.parametrize(
    ("variant", "num_sampled", "text"),
    [
        ("R", 9, "num_sampled must be 0 in variant R"),
        ("I", -1, "num_sampled must be at least 0, got -1"),
    ],
)
def test_what_cannot_be_sampled_is_refused(variant, num_sampled, text):
    with pytest.raises(ValueError, match=text):
        positional(variant, num_sampled=num_sampled)


def test_exact_is_the_model_itself_without_a_sample():
    exact = sampled_model(9).exact
    assert exact == sampled_model(0)
    assert exact.exact is exact
    assert dataclasses.replace(exact, order=2).exact.order == 2
