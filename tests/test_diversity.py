"""How diverse filters are: against NumPy, and in the records of an evaluation."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dsf_jax import MODELS, HyperParams, fit, node_filters, regions
from dsf_jax.experiments.evaluation import evaluate
from dsf_jax.explain.reading import read_filters
from dsf_jax.models.diversity import curve_spread, measure_diversity
from tests.graphs import GRAPHS

FEW = {"num_splits": 2, "num_seeds": 2, "epochs": 3, "lanes": 2}


def trained_like(name, **settings):
    """Parameters as they start, with positions that differ from node to node."""
    graph, model = GRAPHS["random"], MODELS[name]
    hparams = HyperParams(**settings)
    x_pos = 3 * jax.random.normal(jax.random.key(1), (2, graph.num_nodes, 32))
    inputs = model.make_inputs(graph, jnp.eye(graph.num_nodes), x_pos)
    params = model.init(jax.random.key(0), inputs, hparams, num_classes=3)
    return params, inputs, hparams, model


@pytest.mark.parametrize("name", ["dsf-gpr-r", "dsf-bern-i", "dsf-jacobi-r"])
def test_spread_and_saturation_equal_naive(name):
    params, inputs, hparams, model = trained_like(name, eta1=0.3, eta2=0.2)
    found = measure_diversity(params, inputs, hparams, model=model)
    curves = read_filters(params, inputs, hparams, model=model).curves
    mean = curves.mean(axis=0)
    expected = np.linalg.norm(curves - mean) / np.sqrt(len(curves))
    np.testing.assert_allclose(found.spread, expected / np.linalg.norm(mean))
    pos = np.asarray(model.node_positions(params, inputs, hparams))[1:]
    np.testing.assert_allclose(found.saturated, np.mean(np.abs(pos) > 0.99))
    assert found.spread > 0


def test_sums_over_neighbours_saturate_and_their_means_do_not():
    """Why the positions of Jacobi as released, on A + I, are cut off by tanh."""
    params, inputs, hparams, model = trained_like("dsf-jacobi-r", eta1=0.1)
    released = measure_diversity(params, inputs, hparams, model=model)
    backbone = model.backbone._replace(pos_op="a_tilde")
    model = dataclasses.replace(model, backbone=backbone)
    graph = GRAPHS["random"]
    inputs = model.make_inputs(graph, inputs.features, inputs.x_pos)
    normalised = measure_diversity(params, inputs, hparams, model=model)
    assert released.saturated > 0.3 > normalised.saturated


def test_a_base_model_has_no_spread():
    params, inputs, hparams, model = trained_like("bern")
    found = measure_diversity(params, inputs, hparams, model=model)
    assert found.spread < 1e-12
    assert found.saturated == 0


def test_an_evaluation_reports_the_spread_of_the_best_epoch():
    dataset, model = regions(60), "dsf-gpr-r"
    settings = HyperParams(f_p=4, lr=0.05, lr_pos=0.05)
    record = evaluate(dataset, model, settings, spread=True, **FEW)
    plain = evaluate(dataset, model, settings, **FEW)
    assert np.shape(record["spread"]) == np.shape(record["saturated"]) == (2, 2)
    assert record["test"] == plain["test"]
    assert "spread" not in plain
    curves = node_filters(fit(dataset, model, settings, epochs=3)).curves
    np.testing.assert_allclose(
        record["spread"][0][0], 100 * curve_spread(curves), rtol=1e-5
    )


def test_a_journal_keeps_the_spread(tmp_path):
    dataset, settings = regions(60), HyperParams(f_p=4)
    journal = tmp_path / "journal"
    arguments = (dataset, "dsf-gpr-r", settings)
    first = evaluate(*arguments, spread=True, journal=journal, **FEW)
    again = evaluate(*arguments, spread=True, journal=journal, **FEW)
    assert again["seconds"] == 0
    assert again["spread"] == first["spread"]
    with pytest.raises(ValueError, match="journal must be of the same runs"):
        evaluate(*arguments, journal=journal, **FEW)


def test_spread_of_a_baseline_is_refused():
    with pytest.raises(ValueError, match="spread must be False for 'gcn', got True"):
        evaluate(regions(60), "gcn", HyperParams(), spread=True, **FEW)
