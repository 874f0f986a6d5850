"""Quantities in words: values as people read them, each with a meaning."""

import pytest

from dsf_jax.explain.summary import describe_graph, describe_model
from dsf_jax.graph.locality import Unevenness
from dsf_jax.graph.spectrum import RatioSpread

MODEL = {"metric": "accuracy", "val": 80.0, "test": 75.04, "epochs": 9.0}
GRAPH = {
    **{"nodes": 2277, "edges": 31371, "communities": 15, "variance_share": 0.426},
    **{"variance_share_by_chance": 0.0062, "distance_correlation": 0.378},
    "unevenness": Unevenness(0.1104, 0.034, 0.051, 0.571)._asdict(),
    "ratio_spread": RatioSpread(0.0, 0.0651, 0.712, 0.001, 0.49, 0.65)._asdict(),
}


def told(quantities):
    return {quantity.name: quantity.value for quantity in quantities}


def test_values_are_rounded_for_people():
    assert told(describe_model(MODEL | {"curve_spread": 0.12})) == {
        "validation score": "80.0 %",
        "test score": "75.0 %",
        "epochs": "9",
        "spread of the filters": "12 %",
    }
    found = told(describe_graph(GRAPH))
    assert found["edges"] == "31,371"
    assert found["spread of local homophily"] == "0.11"
    assert found["nodes unlike the whole"] == "5.1 %"
    assert found["nodes with a twin"] == "57 %"
    assert found["variance between them"] == "43 %"
    assert found["the same by chance"] == "0.62 %"
    assert found["rank correlation"] == "0.38"
    assert found["largest ξ of a node"] == "0.712"
    assert found["zeros of ξ"] == "0.1 %"


@pytest.mark.parametrize(
    ("spread", "text"), [(0.00044, "0.044 %"), (0.62, "62 %"), (1.0, "100 %")]
)
def test_percentages_are_never_powers_of_ten(spread, text):
    found = told(describe_model(MODEL | {"curve_spread": spread}))
    assert found["spread of the filters"] == text


def test_what_is_not_known_is_not_a_number_on_the_screen():
    model = MODEL | {"test": float("nan"), "curve_spread": 0.0}
    assert "test score" not in told(describe_model(model))
    odd = {"variance_share": float("nan"), "distance_correlation": float("nan")}
    odd["unevenness"] = Unevenness(*[float("nan")] * 4)._asdict()
    found = told(describe_graph(GRAPH | odd | {"ratio_spread": None}))
    assert found["variance between them"] == found["rank correlation"] == "none"
    assert found["spread of local homophily"] == found["nodes with a twin"] == "none"
    assert len(found) == 10


def test_the_meaning_of_a_score_is_that_of_its_metric():
    (_, auc, *_) = describe_model(MODEL | {"metric": "roc_auc", "curve_spread": 0.0})
    assert "ROC" in auc.meaning
    assert "test nodes" in auc.meaning
