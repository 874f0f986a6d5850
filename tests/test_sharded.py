"""Nodes shared out over devices and processes, against one device."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from jax.experimental.compilation_cache import compilation_cache

from dsf_jax.engine import sharded
from dsf_jax.engine.grid import run_grid
from dsf_jax.engine.metrics import accuracy, roc_auc
from dsf_jax.engine.sharded import check_shardable, run_on_parts, shard
from dsf_jax.graph.partition import partition_nodes
from dsf_jax.models.model import Run, task_loss
from dsf_jax.ops.nodes import average
from dsf_jax.ops.operator import propagate
from dsf_jax.train import grid_jobs
from tests.training import (
    HPARAMS,
    assert_two_processes_say,
    jitted,
    make_problem,
    moved,
    run,
    settings_of,
    small,
)

NODES = 61  # an odd number: one row of two parts is no node
DROPS = HPARAMS._replace(
    dropout_x=0.3,
    dropout_h=0.4,
    dropout_z=0.2,
    dropout_pos=0.3,
    lambda_orth=0.5,
    lambda_l1=0.5,
    lambda_local=0.5,
)


jitted_init = jitted("init")


@pytest.fixture(scope="module", autouse=True)
def no_stored_programs():
    """Compile all that is run here: see `LOSES_ORDER`."""
    folder = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()
    yield
    jax.config.update("jax_compilation_cache_dir", folder)
    compilation_cache.reset_cache()


@pytest.fixture(scope="module")
def odd_problem():
    return make_problem(NODES)


def matrix_of(data):
    return data.inputs.filter_op.to_scipy()


@pytest.mark.parametrize("method", ["blocks", "metis"])
@pytest.mark.parametrize("num_parts", [1, 2, 5])
def test_parts_and_what_they_need(method, num_parts, odd_problem):
    if method == "metis":
        pytest.importorskip("pymetis")
    dense = matrix_of(odd_problem(small("gpr"))).toarray()
    found = partition_nodes(sp.csr_array(dense), num_parts, method=method)
    sizes = np.bincount(found.part, minlength=num_parts)
    assert sizes.min() > 0
    assert sizes.max() <= 1.2 * NODES / num_parts + 1
    for q in range(num_parts):
        is_needed = np.any(dense[found.part == q] != 0, axis=0)
        for p in range(num_parts):
            expected = 0 if p == q else np.sum(is_needed & (found.part == p))
            assert found.sends[p, q] == expected
    assert found.halo == found.sends.sum() / NODES
    assert found.filled >= found.halo


def test_a_path_is_cut_once():
    path = sp.diags_array([np.ones(99), np.ones(99)], offsets=[-1, 1])
    shuffled = np.random.default_rng(0).permutation(100)
    found = partition_nodes(sp.csr_array(path)[shuffled][:, shuffled], 2)
    assert found.sends.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "num_parts must lie in 1..3, got 0"),
        ((4,), "num_parts must lie in 1..3, got 4"),
        ((2, "greedy"), "method must be auto, metis or blocks, got 'greedy'"),
    ],
)
def test_parts_that_cannot_be(arguments, message):
    method = dict(zip(["method"], arguments[1:], strict=False))
    with pytest.raises(ValueError, match=message):
        partition_nodes(sp.eye_array(3), arguments[0], **method)


def test_products_and_scores(odd_problem, rng):
    """Both exchanges against scipy, and what is summed over nodes."""
    data = odd_problem(small("gpr"))
    x = jnp.asarray(rng.normal(size=(NODES, 3)))
    data = data._replace(
        inputs=data.inputs._replace(embedding=x), labels=data.labels % 2
    )

    def call(data):
        x, mask = data.inputs.embedding, data.val[0]
        product, pull = jax.vjp(lambda x: propagate(data.inputs.filter_op, x), x)
        scores = (
            accuracy(x, data.labels, mask),
            roc_auc(x[:, 0], data.labels, mask),
            task_loss(x, data.labels, mask),
        )
        return product, pull(x)[0], scores

    *_, expected = call(data)
    for exchange in ("halo", "all"):
        parts = shard(data, num_parts=2, exchange=exchange)
        assert np.sum(parts.nodes < 0) == 1
        product, pulled, scores = run_on_parts(call, parts)
        np.testing.assert_allclose(parts.collect(product), matrix_of(data) @ x)
        np.testing.assert_allclose(parts.collect(pulled), matrix_of(data) @ x)
        for found, value in zip(scores, expected, strict=True):
            np.testing.assert_allclose(found, [value, value], rtol=1e-12)


def test_stored_programs_are_refused_where_they_hang(
    odd_problem, monkeypatch, tmp_path
):
    data = odd_problem(small("gpr"))
    one, two = (shard(data, num_parts=num_parts) for num_parts in (1, 2))
    monkeypatch.setattr(sharded, "LOSES_ORDER", True)
    run_on_parts(lambda data: data.labels, two)
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        with pytest.raises(ValueError, match=f"not be set for parts .*{tmp_path}"):
            run_on_parts(lambda data: data.labels, two)
        run_on_parts(lambda data: data.train, one)
    finally:
        jax.config.update("jax_compilation_cache_dir", None)


def start(model, data, hparams):
    return jitted_init(
        jax.random.key(0), data.inputs, hparams, model=model, num_classes=3
    )


def make_step(model, hparams):
    """Loss, logits and gradient of a training step, dropout included."""

    def step(data, params):
        inputs, key = data.inputs, jax.random.key(1)
        masks = model.draw_masks(key, params, Run(inputs, hparams))

        def value(params):
            output = model.apply(params, inputs, hparams, masks=masks)
            return model.loss(output, data.labels, data.train[0], hparams), output

        out, gradient = jax.value_and_grad(value, has_aux=True)(params)
        return out[0], out[1].logits, average(gradient)

    return step


OTHERS = ("gpr", "dsf-bern-r", "dsf-jacobi-r", "dsf-gpr-residual", "dsf-gpr-content")


@pytest.mark.parametrize(
    ("name", "normalize"),
    [
        ("dsf-gpr-r", True),
        pytest.param("dsf-gpr-r", False, marks=pytest.mark.slow),
        *(
            pytest.param(name, True, marks=pytest.mark.slow)
            for name in (*OTHERS, "pa-gnn", "gcn", "cheb")
        ),
    ],
)
def test_two_devices_equal_one(name, normalize, odd_problem, rng):
    model = small(name)
    data = odd_problem(model)
    hparams = DROPS._replace(orth_normalize=normalize)
    params = start(model, data, hparams)
    # where weights start at 0, gradients and penalties would be 0, too
    params = moved(params, rng, 0.1)
    step, parts = make_step(model, hparams), shard(data, num_parts=2)
    loss, logits, gradient = jax.jit(step)(data, params)
    losses, rows, gradients = run_on_parts(step, parts, params)
    np.testing.assert_allclose(losses, [loss, loss], rtol=1e-12)
    np.testing.assert_allclose(parts.collect(rows), logits, atol=1e-12)
    for found, expected in zip(
        *map(jax.tree.leaves, (gradients, gradient)), strict=True
    ):
        np.testing.assert_allclose(found[0], expected, atol=1e-10)
        np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.slow
def test_single_precision(odd_problem):
    model = small("dsf-gpr-r")
    with jax.enable_x64(False):
        data = jax.tree.map(jnp.asarray, odd_problem(model))
        params = start(model, data, DROPS)
        step, parts = make_step(model, DROPS), shard(data, num_parts=2)
        _, logits, _ = jax.jit(step)(data, params)
        _, rows, _ = run_on_parts(step, parts, params)
        assert rows.dtype == logits.dtype == jnp.float32
        gap = np.abs(parts.collect(rows) - logits).max()
        assert gap < 1e-5 * np.abs(logits).max()


def compare_training(name):
    """Twenty epochs of three jobs on two devices, or processes, and on one."""
    model = small(name)
    data = make_problem(NODES)(model)
    jobs = grid_jobs(DROPS, num_splits=1, num_seeds=3, seed=0)
    train_config = settings_of(lanes=2, epochs=20, patience=20, keeps_params=True)
    configs = {"model": model, "train_config": train_config}
    alone = run(jobs, data, **configs)
    report = run_grid(jobs, shard(data, num_parts=2), **configs)
    np.testing.assert_array_equal(report.jobs.epochs_run, 20)
    for found, expected in zip(
        *map(jax.tree.leaves, (report.jobs, alone.jobs)), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpr", "dsf-gpr-r"])
def test_twenty_epochs_on_two_devices_equal_one(name):
    compare_training(name)


PROCESS = """
import sys
import tests, jax
jax.config.update("jax_num_cpu_devices", 1)
jax.distributed.initialize(f"127.0.0.1:{sys.argv[2]}", 2, int(sys.argv[1]))
assert jax.device_count() == 2 and jax.local_device_count() == 1
from tests.test_sharded import compare_processes
compare_processes()
print("same")
"""


def compare_processes():
    """One step and twenty epochs; called in each of two processes."""
    from jax.experimental import multihost_utils

    model = small("dsf-gpr-r")
    data = make_problem(NODES)(model)
    params = start(model, data, DROPS)
    step, parts = make_step(model, DROPS), shard(data, num_parts=2)
    expected = jax.jit(step)(data, params)
    there = jax.tree.map(np.asarray, params)
    found = run_on_parts(step, parts, there)
    _, rows, gradients = multihost_utils.process_allgather(found, tiled=True)
    np.testing.assert_allclose(parts.collect(rows), expected[1], atol=1e-12)
    for leaf, other in zip(
        *map(jax.tree.leaves, (gradients, expected[2])), strict=True
    ):
        np.testing.assert_allclose(leaf[0], other, atol=1e-10)
    compare_training("dsf-gpr-r")


@pytest.mark.slow
def test_two_processes_equal_one_device(tmp_path):
    assert_two_processes_say("same", PROCESS, tmp_path, PYTHONPATH=os.getcwd())


@pytest.mark.parametrize(
    "name", ["dsf-gpr-i", "gat", "favard", "optbasis", "dsf-gpr-r-no-ipe"]
)
def test_models_that_cannot_be_shared_out(name):
    with pytest.raises(ValueError, match="model must leave nodes to products"):
        check_shardable(small(name))


def test_parts_need_devices(odd_problem):
    data, devices = odd_problem(small("gpr")), jax.devices()[:1]
    with pytest.raises(ValueError, match=r"num_parts must be at most .*, got 2 for 1"):
        shard(data, num_parts=2, devices=devices)
