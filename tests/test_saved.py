"""Parameters on disk: what is read is what was written, or one clear line."""

import dataclasses

import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dsf_jax import MODELS, Backbone, HyperParams, legendre, regions
from dsf_jax.experiments.evaluation import dataset_inputs
from dsf_jax.experiments.fitting import fit
from dsf_jax.experiments.saved import load_params, save_params
from dsf_jax.models.params import init

HPARAMS = HyperParams(eta1=0.3, f_p=jnp.asarray(4), sole=True, lr=jnp.asarray(0.02))


def write(path, model, dataset, **changes):
    config = dataclasses.replace(MODELS[model], **changes)
    inputs = dataset_inputs(dataset, config)
    key, num_classes = jax.random.key(3), dataset.num_classes
    params = init(key, inputs, HPARAMS, config=config, num_classes=num_classes)
    save_params(path, params, HPARAMS, dataset, config=config, scores={"test": 0.5})
    return params, config


@pytest.mark.parametrize(
    "model", ["gpr", "dsf-gpr-i", "dsf-bern-r", "dsf-jacobi-r", "dsf-gpr-r-no-ipe"]
)
def test_read_equals_written(model, tmp_path):
    dataset = regions(60)
    params, config = write(tmp_path / "x", model, dataset, order=3, width=8)
    saved = load_params(tmp_path / "x", dataset)
    assert saved.config == config
    assert saved.scores == {"test": 0.5}
    assert jax.tree.structure(saved.params) == jax.tree.structure(params)
    jax.tree.map(np.testing.assert_array_equal, saved.params, params)
    for name, value in HPARAMS._asdict().items():
        assert getattr(saved.hparams, name) == np.asarray(value).item()


def refused(path, dataset):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 -- the callers look
        load_params(path, dataset)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


def test_parameters_of_another_graph_are_refused(tmp_path):
    write(tmp_path / "x", "dsf-bern-r", regions(60))
    message = refused(tmp_path / "x", regions(90))
    assert "must hold parameters for 'regions' (90 nodes" in message
    assert "got those of 'regions' (60 nodes" in message
    # the same size and name are not enough
    assert "got those of" in refused(tmp_path / "x", regions(60, seed=1))


def test_other_files_are_refused(tmp_path):
    dataset = regions(60)
    for content in (b"", b"text", flax.serialization.msgpack_serialize({"a": 1})):
        (tmp_path / "x").write_bytes(content)
        assert "must be a file from save_params" in refused(tmp_path / "x", dataset)
    with pytest.raises(FileNotFoundError):
        load_params(tmp_path / "missing", dataset)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("backbone", "fourier", "must name a model of this version"),
        ("hparams", {"zeta": 1}, "must name a model of this version"),
        ("config", {"order": 4}, "must hold arrays of the shapes"),
        ("params", {}, "must hold arrays of the shapes"),
    ],
)
def test_damaged_records_are_refused(key, value, message, tmp_path):
    dataset = regions(60)
    write(tmp_path / "x", "gpr", dataset)
    record = flax.serialization.msgpack_restore((tmp_path / "x").read_bytes())
    record[key] = value
    (tmp_path / "x").write_bytes(flax.serialization.msgpack_serialize(record))
    assert message in refused(tmp_path / "x", dataset)


@pytest.mark.parametrize(
    ("self_loops", "filter_op", "pos_op"),
    [(True, "a_tilde", "a_tilde"), (False, "a_hat", "a_hat")],
)
def test_files_with_self_loops_in_the_place_of_operators(
    self_loops, filter_op, pos_op, tmp_path
):
    dataset = regions(60)
    params, _ = write(tmp_path / "x", "dsf-gpr-r", dataset)
    record = flax.serialization.msgpack_restore((tmp_path / "x").read_bytes())
    del record["operators"]
    record["config"]["self_loops"] = self_loops
    (tmp_path / "x").write_bytes(flax.serialization.msgpack_serialize(record))
    saved = load_params(tmp_path / "x", dataset)
    assert (saved.config.filter_op, saved.config.pos_op) == (filter_op, pos_op)
    jax.tree.map(np.testing.assert_array_equal, saved.params, params)


def test_operators_are_kept(tmp_path):
    dataset = regions(60)
    backbone = MODELS["dsf-jacobi-r"].backbone._replace(pos_op="a_tilde")
    _, config = write(tmp_path / "x", "dsf-jacobi-r", dataset, backbone=backbone)
    assert load_params(tmp_path / "x", dataset).config == config


def test_own_backbones_are_not_saved(tmp_path):
    config = dataclasses.replace(
        MODELS["gpr"], backbone=Backbone(basis=lambda _: legendre)
    )
    params, _ = write(tmp_path / "x", "gpr", regions(60))
    with pytest.raises(ValueError, match="must be one of BACKBONES"):
        save_params(tmp_path / "y", params, HPARAMS, regions(60), config=config)
    assert not (tmp_path / "y").exists()


@pytest.mark.slow
def test_a_run_is_reproduced_and_kept(tmp_path):
    dataset = regions(60)
    config = dataclasses.replace(MODELS["dsf-gpr-r"], order=2, width=4, hidden=4)
    inputs = dataset_inputs(dataset, config)
    one, other = (
        fit(dataset, inputs, HyperParams(), config=config, epochs=3) for _ in range(2)
    )
    jax.tree.map(np.testing.assert_array_equal, one.params, other.params)
    assert one.epochs == 3
    assert 0 <= one.test <= 1


def test_an_infinite_loss_is_one_line():
    dataset = regions(60)
    config = dataclasses.replace(MODELS["gpr"], order=2, hidden=4)
    inputs = dataset_inputs(dataset, config)
    with pytest.raises(ValueError, match="training must have a finite loss"):
        fit(dataset, inputs, HyperParams(lr=1e300), config=config, epochs=5)
