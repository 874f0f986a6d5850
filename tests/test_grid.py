"""The queue on several devices and in pieces, against one device and one piece."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from dsf_jax import MODELS, HyperParams
from dsf_jax.engine import grid
from dsf_jax.engine.grid import choose_lanes, run_grid
from dsf_jax.train import grid_jobs
from tests.training import (
    HPARAMS,
    assert_equal_jobs,
    assert_two_processes_say,
    run,
    settings_of,
    small,
)

PLATFORMS = ("cpu", "cuda", "tpu")


def unequal_jobs(num_seeds=7):
    """Lengths from two epochs to the limit: one diverges, one cannot improve."""
    jobs = grid_jobs(HPARAMS, num_splits=1, num_seeds=num_seeds, seed=8)
    lr = jobs.hparams.lr.at[1].set(jnp.nan).at[2].set(1e-9).at[4].set(0.2)
    return jobs._replace(hparams=jobs.hparams._replace(lr=lr))


@pytest.mark.parametrize(
    ("num_devices", "lanes"),
    [
        (4, 2),  # more devices than lanes
        pytest.param(1, 2, marks=pytest.mark.slow),
        pytest.param(2, 5, marks=pytest.mark.slow),  # not the same number on each
        pytest.param(4, 5, marks=pytest.mark.slow),
    ],
)
def test_devices_do_not_change_results(num_devices, lanes, problem):
    model = small("gpr")
    train_config = settings_of(lanes=lanes, keeps_params=True, patience=12)
    data, jobs = problem(model), unequal_jobs()
    whole = run(jobs, data, model=model, train_config=train_config)
    assert whole.jobs.epochs_run.min() == 2
    assert whole.jobs.epochs_run.max() > 12
    report = run_grid(
        jobs,
        data,
        model=model,
        train_config=train_config,
        devices=jax.devices()[:num_devices],
    )
    assert_equal_jobs(report.jobs, whole.jobs)
    np.testing.assert_allclose(report.summary.mean, whole.summary.mean)
    np.testing.assert_allclose(report.summary.ci95, whole.summary.ci95)
    assert 0 < report.occupancy.overall <= 1


@pytest.mark.parametrize("seconds", [0.0, pytest.param(100.0, marks=pytest.mark.slow)])
def test_pieces_and_padding_do_not_change_results(seconds, problem, monkeypatch):
    monkeypatch.setattr(grid, "PIECE_SECONDS", seconds)  # one epoch, or as they come
    model, train_config = small("gpr"), settings_of(lanes=3)
    data, jobs = problem(model), unequal_jobs()
    seen = []
    report = run_grid(
        jobs,
        data,
        model=model,
        train_config=train_config,
        devices=jax.devices()[:2],
        pad_to=20,
        on_progress=seen.append,
    )
    whole = run(jobs, data, model=model, train_config=train_config)
    assert_equal_jobs(report.jobs, whole.jobs)
    finished = np.concatenate([progress.finished for progress in seen])
    assert sorted(finished.tolist()) == list(range(7))
    for progress in seen:
        np.testing.assert_array_equal(
            progress.results.test, report.jobs.test[progress.finished]
        )
    last = seen[-1]
    assert (last.num_done, last.num_jobs, last.seconds_left) == (7, 7, 0.0)
    assert last.epochs >= int(report.jobs.epochs_run.sum())
    assert last.best_val == np.max(report.jobs.val)
    done = [progress.num_done for progress in seen]
    assert done == sorted(done)
    assert last.status.endswith(" s left")
    assert not any("nan" in progress.status for progress in seen)


@pytest.mark.slow
def test_what_the_callback_raises_ends_the_run(problem):
    model = small("gpr")

    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_grid(
            unequal_jobs(),
            problem(model),
            model=model,
            train_config=settings_of(lanes=2),
            on_progress=stop,
        )


def test_no_new_program_for_new_jobs_or_another_data_set(problem):
    model, train_config = small("gpr"), settings_of(lanes=2, epochs=2)
    data = problem(model)
    other = data._replace(
        labels=jnp.roll(data.labels, 1),
        inputs=data.inputs._replace(x_pos=data.inputs.x_pos + 1),
    )
    before = None
    for seed, these, num_seeds in ((0, data, 4), (1, other, 3)):
        hparams = HPARAMS._replace(lr=0.01 * (seed + 1), f_p=3 + seed)
        jobs = grid_jobs(hparams, num_splits=1, num_seeds=num_seeds, seed=seed)
        run_grid(jobs, these, model=model, train_config=train_config, pad_to=4)
        size = grid._advance._cache_size()
        assert before is None or size == before
        before = size


@pytest.mark.parametrize(
    "platform",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name != "tpu"))
        for name in PLATFORMS
    ],
)
def test_the_grid_can_be_exported(platform, problem):
    """Lowering for devices that this machine may not have."""
    model, train_config = small("dsf-gpr-r"), settings_of(lanes=2)
    with jax.enable_x64(False):
        data = jax.tree.map(jnp.asarray, problem(model))
        jobs = grid_jobs(HPARAMS, num_splits=2, num_seeds=1, seed=0)
        known = export.DisabledSafetyCheck.custom_call("cpu_csr_sparse_dense_ffi")
        exported = export.export(run, platforms=[platform], disabled_checks=[known])(
            jobs, data, model=model, train_config=train_config
        )
    assert exported.platforms == (platform,)
    assert len(exported.mlir_module_serialized) > 1000


def test_lanes_fall_with_the_size_of_the_graph(problem):
    model = small("dsf-gpr-r")
    data = problem(model)
    per_device = choose_lanes(data, model=model) // jax.device_count()
    assert per_device == 4
    large = data._replace(inputs=data.inputs._replace(features=jnp.zeros((200_000, 1))))
    assert choose_lanes(large, model=model) == jax.device_count()
    middle = data._replace(inputs=data.inputs._replace(features=jnp.zeros((1_500, 1))))
    for model, lanes in {"dsf-gpr-r": 2, "dsf-gpr-i": 1, "gpr": 4, "gat": 2}.items():
        found = choose_lanes(middle, model=MODELS[model])
        assert found == lanes * jax.device_count()


@pytest.mark.parametrize(
    ("num_nodes", "degree", "lanes"), [(6_000, 20, 2), (6_000, 10, 1), (20_000, 20, 1)]
)
def test_two_lanes_where_nodes_have_many_neighbours(problem, num_nodes, degree, lanes):
    model = MODELS["dsf-gpr-r"]
    inputs = problem(model).inputs
    op = inputs.filter_op.replace(weights=np.zeros(num_nodes * degree))
    inputs = inputs._replace(features=jnp.zeros((num_nodes, 1)), filter_op=op)
    data = problem(model)._replace(inputs=inputs)
    assert choose_lanes(data, model=model) == lanes * jax.device_count()


PROCESS = """
    import sys
    import jax
    jax.config.update("jax_enable_x64", True)
    jax.distributed.initialize(f"127.0.0.1:{sys.argv[2]}", 2, int(sys.argv[1]))
    import numpy as np
    from dsf_jax import HyperParams, MODELS, make_splits, regions
    from dsf_jax.experiments.evaluation import prepare
    from dsf_jax.engine.grid import run_grid
    from dsf_jax.train import TrainConfig, grid_jobs, run_jobs
    assert jax.device_count() == 2 and jax.local_device_count() == 1
    dataset = regions(60)
    data = prepare(dataset, make_splits(dataset, num_splits=2), model="gpr")
    jobs = grid_jobs(HyperParams(), num_splits=2, num_seeds=3, seed=0)
    configs = {
        "model": MODELS["gpr"],
        "train_config": TrainConfig(num_classes=2, epochs=30, patience=3, lanes=4),
    }
    report = run_grid(jobs, data, **configs)
    alone = run_jobs(jobs, data, **configs)
    np.testing.assert_allclose(report.jobs.test, alone.jobs.test, atol=1e-8)
    np.testing.assert_array_equal(report.jobs.epochs_run, alone.jobs.epochs_run)
    assert len(set(report.jobs.epochs_run.tolist())) > 1
    print("same", report.jobs.epochs_run.tolist())
"""


@pytest.mark.slow
def test_two_processes(tmp_path):
    assert_two_processes_say("same", PROCESS, tmp_path, XLA_FLAGS="")


def test_hyper_parameters_of_a_queue_are_arrays():
    jobs = grid_jobs(HyperParams(), num_splits=2, num_seeds=2, seed=0)
    assert {leaf.shape for leaf in jax.tree.leaves(jobs.hparams)} == {(4,)}
