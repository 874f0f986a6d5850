"""Fit, predict, look, save: five lines from arrays to predictions."""

import numpy as np
import pytest

import dsf_jax as dsf

# one of every kind of parameters: fit, predict, save and load know no model by name
KINDS = ("dsf-gpr-residual", "dsf-bern-i", "gat", "pa-gnn", "dsf-favard-r")
OTHERS = (
    *("gpr", "jacobi", "dsf-chebnetii-r", "optbasis", "dsf-gpr-mixture"),
    *("dsf-gpr-content", "gcn", "cheb", "fagcn", "appnp"),
)


@pytest.mark.parametrize(
    "name", [*KINDS, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]
)
def test_from_arrays_to_predictions(name, tmp_path, rng):
    """What a reader does with an own graph, some nodes unlabelled."""
    edges, x = rng.integers(0, 40, size=(120, 2)), rng.normal(size=(40, 5))
    labels = np.where(np.arange(40) < 30, np.arange(40) % 3, -1)
    dataset = dsf.make_dataset(edges, x, labels)
    masks = np.arange(40) < 18, (np.arange(40) >= 18) & (np.arange(40) < 30)
    fitted = dsf.fit(dataset, name, masks=masks, epochs=4)
    found = dsf.predict(fitted)
    assert found.classes.shape == (40,)
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(found.probabilities.argmax(1), found.classes)
    val = 100 * np.mean(found.classes[18:30] == labels[18:30])
    np.testing.assert_allclose(fitted.scores["val"], val, atol=1e-4)
    assert np.isnan(fitted.scores["test"])
    dsf.save(tmp_path / "model", fitted)
    again = dsf.load(tmp_path / "model", dataset)
    assert again.model == fitted.model
    np.testing.assert_array_equal(dsf.predict(again).classes, found.classes)


def test_filters_of_a_fitted_model():
    fitted = dsf.fit(dsf.regions(60), "dsf-gpr-r", epochs=3)
    filters = dsf.node_filters(fitted)
    weights = fitted.model.local_weights(fitted.params, fitted.inputs, fitted.hparams)
    np.testing.assert_allclose(filters.beta, weights.beta)
    lam = filters.lam
    monomials = (1 - lam)[None, :] ** np.arange(11)[:, None]
    np.testing.assert_allclose(filters.curves, filters.beta.T @ monomials, atol=1e-9)
    assert filters.spread > 0
    plain = dsf.node_filters(dsf.fit(dsf.regions(60), "gpr", epochs=3))
    assert plain.spread < 1e-12
    with pytest.raises(ValueError, match="fitted must be a model with polynomial fil"):
        dsf.node_filters(fitted._replace(model=dsf.MODELS["gcn"]))


def test_masks_by_name_and_a_rule_are_the_same():
    dataset = dsf.regions(60)
    split = dsf.make_splits(dataset, num_splits=1, seed=3)
    masks = {name: mask[0] for name, mask in split._asdict().items()}
    by_rule = dsf.fit(dataset, "gpr", seed=3, epochs=3)
    by_name = dsf.fit(dataset, "gpr", seed=3, epochs=3, masks=masks)
    assert by_rule.scores == by_name.scores
    assert 0 <= by_rule.scores["test"] <= 100


def test_settings_as_a_dictionary_change_those_that_ship():
    dataset = dsf.regions(60)
    shipped = dsf.preset("regions", "dsf-gpr-r").hparams
    fitted = dsf.fit(dataset, "dsf-gpr-r", {"pos_kind": "lap"}, epochs=3)
    assert fitted.hparams == shipped._replace(pos_kind="lap")
