"""Parameters on disk: what is read is what was written, or one clear line."""

import dataclasses
from pathlib import Path

import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dsf_jax import MODELS, Backbone, HyperParams, regions
from dsf_jax.bases import legendre
from dsf_jax.experiments.evaluation import dataset_inputs
from dsf_jax.experiments.fitting import fit
from dsf_jax.experiments.saved import load_params, save_params
from tests.training import jitted, resize

# files and logits of the release before models had local weights
OLD = np.load(Path(__file__).parent / "saved_1.npz")

HPARAMS = HyperParams(eta1=0.3, f_p=jnp.asarray(4), sole=True, lr=jnp.asarray(0.02))


init = jitted("init")


def write(path, model, dataset, **changes):
    model = resize(MODELS[model], order=3, hidden=4, width=8)
    model = dataclasses.replace(model, **changes)
    inputs = dataset_inputs(dataset, model)
    key, num_classes = jax.random.key(3), dataset.num_classes
    params = init(key, inputs, HPARAMS, model=model, num_classes=num_classes)
    save_params(path, params, HPARAMS, dataset, model=model, scores={"test": 0.5})
    return params, model


@pytest.mark.parametrize(
    "model",
    [
        *("gpr", "dsf-gpr-i", "dsf-bern-r", "dsf-jacobi-r", "dsf-gpr-r-no-ipe"),
        *("gcn", "gat", "cheb", "fagcn", "appnp", "gnn-lf", "pa-gnn", "dsf-appnp-r"),
    ],
)
def test_read_equals_written(model, tmp_path):
    dataset = regions(60)
    params, model = write(tmp_path / "x", model, dataset)
    saved = load_params(tmp_path / "x", dataset)
    assert saved.model == model
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
        ("model", {"name": "fourier", "changes": {}}, "must name a model of this ver"),
        ("model", {"name": "gpr"}, "must name a model of this version"),
        ("hparams", {"zeta": 1}, "must name a model of this version"),
        (
            "model",
            {"name": "gpr", "changes": {"order": 4}},
            "must hold arrays of the shapes",
        ),
        ("params", {}, "must hold arrays of the shapes"),
    ],
)
def test_damaged_records_are_refused(key, value, message, tmp_path):
    dataset = regions(60)
    write(tmp_path / "x", "gpr", dataset)
    rewrite(tmp_path / "x", **{key: value})
    assert message in refused(tmp_path / "x", dataset)


def rewrite(path, **changes):
    """A file as it was before there was a checksum, with other entries."""
    outer = flax.serialization.msgpack_restore(path.read_bytes())
    record = flax.serialization.msgpack_restore(outer["content"]) | changes
    path.write_bytes(flax.serialization.msgpack_serialize(record))
    return record


def test_files_from_before_there_was_a_checksum_are_read(tmp_path):
    dataset = regions(60)
    params, _ = write(tmp_path / "x", "gpr", dataset)
    rewrite(tmp_path / "x")
    saved = load_params(tmp_path / "x", dataset)
    jax.tree.map(np.testing.assert_array_equal, saved.params, params)


def test_a_flipped_byte_is_noticed(tmp_path):
    dataset, path = regions(60), tmp_path / "x"
    write(path, "gpr", dataset)
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        flipped = bytes([content[place] ^ (1 << place % 8)])
        path.write_bytes(content[:place] + flipped + content[place + 1 :])
        assert "it is not, or is damaged" in refused(path, dataset)


@pytest.mark.parametrize(
    "change",
    [
        lambda array: array.astype(np.int8),
        lambda array: array.astype(bool),
        lambda array: array.astype(complex),
        lambda array: array.astype(np.float16),
        lambda array: np.full_like(array, np.nan),
    ],
)
def test_numbers_of_other_kinds_are_refused(change, tmp_path):
    dataset = regions(60)
    write(tmp_path / "x", "gpr", dataset)
    params = rewrite(tmp_path / "x")["params"]
    changed = {name: change(array) for name, array in params.items()}
    write(tmp_path / "x", "gpr", dataset)
    rewrite(tmp_path / "x", params=changed)
    assert "must hold finite numbers in float32" in refused(tmp_path / "x", dataset)


@pytest.mark.parametrize(
    "changes",
    [
        {"graph": 3},
        {"graph": {}},
        {"model": None},
        {"model": {"name": "gpr", "changes": {"order": "many"}}},
        {"model": {"name": "gpr", "changes": {"order": 10**9}}},
        {"model": {"name": "gpr", "changes": {"a.b.c": 1}}},
        {"hparams": {"lr": "fast"}},
        {"hparams": {"lr": float("nan")}},
        {"scores": 3},
        {"scores": {"test": "good"}},
        {"params": 3},
        {"params": {"a": "b"}},
    ],
)
def test_whatever_is_wrong_is_one_line(changes, tmp_path):
    dataset = regions(60)
    write(tmp_path / "x", "gpr", dataset)
    rewrite(tmp_path / "x", **changes)
    assert "must" in refused(tmp_path / "x", dataset)


@pytest.mark.parametrize(
    "name", [key.removesuffix("/file") for key in OLD.files if key.endswith("/file")]
)
def test_older_files_load_as_they_were(name, tmp_path):
    dataset = regions(60)
    (tmp_path / "x").write_bytes(OLD[f"{name}/file"].tobytes())
    saved = load_params(tmp_path / "x", dataset)
    inputs = dataset_inputs(dataset, saved.model)
    output = saved.model.apply(saved.params, inputs, saved.hparams)
    np.testing.assert_allclose(output.logits, OLD[f"{name}/logits"], atol=1e-12)


@pytest.mark.parametrize(
    ("self_loops", "filter_op", "pos_op"),
    [(True, "a_tilde", "a_tilde"), (False, "a_hat", "a_hat")],
)
def test_files_with_self_loops_in_the_place_of_operators(
    self_loops, filter_op, pos_op, tmp_path
):
    content = OLD["dsf-gpr-r-no-orth/file"].tobytes()
    record = flax.serialization.msgpack_restore(content)
    del record["operators"]
    record["config"]["self_loops"] = self_loops
    (tmp_path / "x").write_bytes(flax.serialization.msgpack_serialize(record))
    backbone = load_params(tmp_path / "x", regions(60)).model.backbone
    assert (backbone.filter_op, backbone.pos_op) == (filter_op, pos_op)


def test_operators_are_kept(tmp_path):
    dataset = regions(60)
    backbone = MODELS["dsf-jacobi-r"].backbone._replace(pos_op="a_tilde")
    _, model = write(tmp_path / "x", "dsf-jacobi-r", dataset, backbone=backbone)
    assert load_params(tmp_path / "x", dataset).model == model


def test_own_backbones_are_not_saved(tmp_path):
    model = dataclasses.replace(
        MODELS["gpr"], backbone=Backbone(basis=lambda _: legendre)
    )
    params, _ = write(tmp_path / "x", "gpr", regions(60))
    with pytest.raises(ValueError, match="must be one of MODELS, or differ"):
        save_params(tmp_path / "y", params, HPARAMS, regions(60), model=model)
    assert not (tmp_path / "y").exists()


@pytest.mark.slow
def test_a_run_is_reproduced_and_kept(tmp_path):
    dataset = regions(60)
    model = resize(MODELS["dsf-gpr-r"], order=2, width=4, hidden=4)
    one, other = (fit(dataset, model, HyperParams(), epochs=3) for _ in range(2))
    jax.tree.map(np.testing.assert_array_equal, one.params, other.params)
    assert one.scores["epochs"] == 3
    assert 0 <= one.scores["test"] <= 100


@pytest.mark.parametrize("epochs", [1, 5])  # the first has no loss after its update
def test_an_infinite_loss_is_one_line(epochs):
    dataset = regions(60)
    model = dataclasses.replace(MODELS["gpr"], order=2, hidden=4)
    with pytest.raises(ValueError, match="training must have a finite loss"):
        fit(dataset, model, HyperParams(lr=1e300), epochs=epochs)
