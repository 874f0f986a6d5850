"""Settings by name: what is shipped, and what a user writes."""

import json
from importlib import resources

import pytest

from dsf_jax import Backbone, HyperParams, diverse, positional
from dsf_jax.bases import legendre
from dsf_jax.data.catalog import DATASETS
from dsf_jax.experiments.presets import (
    default_settings,
    preset,
    published,
    settings_from_json,
)
from dsf_jax.experiments.spaces import SPACES, complete, space_of
from dsf_jax.models.settings import (
    GAMMA_INITS,
    check_settings,
    parse_setting,
    restrict,
    settings_to_json,
)
from dsf_jax.models.zoo import MODELS


def rows(name):
    text = resources.files("dsf_jax.experiments").joinpath(f"{name}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("file", ["published", "tuned"])
def test_shipped_settings_are_complete_and_unique(file):
    seen = set()
    for row in rows(file):
        assert row["dataset"] in DATASETS
        assert row["model"] in MODELS
        assert row["source"]
        hparams = settings_from_json(row["settings"])
        for field, value in settings_to_json(hparams).items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            assert parse_setting(f"{field}={text}")[0] == field
        kinds = row.get("split_kind"), row.get("scaling")
        seen.add((row["dataset"], row["model"], *kinds))
    assert len(seen) == len(rows(file))


def test_published_settings_of_chameleon():
    """A row of facts in full, and all six DSF models are there."""
    found = {row["model"] for row in rows("published") if row["dataset"] == "chameleon"}
    assert found == {
        *("gpr", "bern", "jacobi", "chebnetii", "favard", "optbasis"),
        *(f"dsf-{base}-{v}" for base in ("gpr", "bern", "jacobi") for v in "ir"),
    }
    row = next(row for row in rows("published") if row["model"] == "dsf-jacobi-r")
    expected = {
        **{"lr": 0.09, "lr_gamma": 0.02, "lr_pos": 0.02},
        **{"decay": 4e-7, "decay_gamma": 9e-6, "decay_pos": 7e-5},
        **{"dropout_x": 0.7, "dropout_z": 0.1, "dropout_pos": 0.1},
        **{"eta1": 0.5, "eta2": 0.0, "lambda_orth": 1.0, "orth_normalize": True},
        **{"pos_kind": "rw", "f_p": 24, "gamma_init": "ones"},
        **{"a": 0.0, "b": 0.5, "rho_scale": 1.0, "sole": True},
    }
    assert row["settings"] == expected


def test_settings_tuned_for_another_scaling_are_not_taken(monkeypatch):
    row = {"dataset": "chameleon", "model": "gpr", "split_kind": "stratified"}
    other = {"settings": {"lr": 0.5}, "scaling": "raw", "source": "a search"}
    own = {"settings": {"lr": 0.25}, "scaling": "rows", "source": "a search"}
    found = {"tuned": [row | other, row | own], "published": []}
    monkeypatch.setattr("dsf_jax.experiments.presets._read", found.get)
    assert preset("chameleon", "gpr").hparams.lr == 0.25
    found["tuned"].pop()
    assert preset("chameleon", "gpr").source == "defaults of the library"


def test_the_split_of_the_authors_has_the_settings_of_its_rule():
    assert preset("texas", "gpr", "authors") == preset("texas", "gpr", "stratified")


def test_tuned_settings_for_their_split_rule_come_first_and_the_source_says_so():
    tuned = preset("regions", "gpr")
    assert tuned.source.startswith("tuned by dsf-jax: ")
    other = preset("regions", "gpr", "balanced")
    assert other.source.startswith("tuned by dsf-jax for stratified splits: ")
    assert other.hparams == tuned.hparams
    published = preset("actor", "bern", "balanced")
    assert published.source.startswith("published: He et al.")
    assert published.hparams.dropout_z == 0.9
    assert preset("actor", "dsf-bern-r").source == "defaults of the library"


def test_published_settings_are_found_beside_tuned_ones():
    found = published("texas", "gpr")
    assert found is not None
    assert found.source.startswith("published: Chien et al.")
    assert preset("texas", "gpr").hparams != found.hparams
    assert published("texas", "dsf-gpr-r") is None


def test_ablations_have_the_settings_of_the_full_model():
    full, ablated = (preset("regions", f"dsf-gpr-r{end}") for end in ("", "-no-ipe"))
    assert ablated.hparams == restrict(full.hparams, MODELS["dsf-gpr-r-no-ipe"].reads)
    assert ablated.source == f"as dsf-gpr-r: {full.source}"


def test_defaults_suit_the_kind_of_model():
    assert default_settings("gcn") == HyperParams()
    assert default_settings("dsf-gpr-r").lr_pos == 0.05
    assert default_settings("gpr").gamma_init == GAMMA_INITS.index("ppr")
    assert default_settings("jacobi").gamma_init == GAMMA_INITS.index("ones")


def test_json_form_round_trip():
    hparams = HyperParams(pos_kind=0, gamma_init=2, f_p=7, sole=True, lr=0.3)
    assert settings_from_json(settings_to_json(hparams)) == hparams


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("eta1", "--set must be field=value"),
        ("eta3=1", "--set must be field=value with one of the fields lr, "),
        ("eta1=1.5", r"eta1 must be in \[0, 1\], got 1.5"),
        ("dropout_x=1", r"dropout_x must be in \[0, 1\), got 1"),
        ("f_p=2.5", "f_p must be a whole number, got '2.5'"),
        ("f_p=40", "f_p must be between 1 and 32, got 40"),
        ("lr=fast", "lr must be a number, got 'fast'"),
        ("lr=-1", "lr must be at least 0, got -1"),
        ("lr=nan", "lr must be finite and at least 0, got nan"),
        ("pos_kind=walk", "pos_kind must be one of lap, rw, got 'walk'"),
        ("sole=yes", "sole must be true or false, got 'yes'"),
        ("rho_scale=0", "rho_scale must be above 0, got 0"),
        ("mu=1.5", "mu must be above 0 and at most 1, got 1.5"),
    ],
)
def test_bad_settings_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_setting(text)


@pytest.mark.parametrize("model", SPACES)
def test_spaces_name_settings_and_keep_to_their_limits(model):
    space = SPACES[model]
    assert set(space) <= set(HyperParams._fields)
    for field, (kind, *rule) in space.items():
        values = {"choice": lambda r: r[0], "same": lambda r: []}.get(
            kind, lambda r: r[:2]
        )(rule)
        for value in values:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            parse_setting(f"{field}={text}")
        if kind == "same":
            assert space[rule[0]][0] != "same"


def test_an_ablation_has_the_space_of_the_full_model():
    assert space_of("dsf-gpr-r-no-orth").items() <= SPACES["dsf-gpr-r"].items()
    assert "lambda_orth" not in space_of("dsf-gpr-r-no-orth")
    with pytest.raises(ValueError, match="model must be a name in MODELS .*got 'mlp'"):
        space_of("mlp")


@pytest.mark.parametrize("name", MODELS)
def test_shipped_settings_are_what_a_model_reads(name):
    for dataset in ("texas", "chameleon", "regions", "csbm"):
        check_settings(preset(dataset, name).hparams, reads=MODELS[name].reads)


@pytest.mark.parametrize("name", MODELS)
def test_spaces_are_what_a_model_reads(name):
    space, reads = space_of(name), MODELS[name].reads
    assert set(space) <= reads
    assert {"lr", "decay", "dropout_x"} <= set(space)
    for field in ("eta1", "f_p", "pos_kind"):
        assert (field in space) == (field in reads)


def test_a_model_of_ones_own_has_a_space():
    model = diverse(Backbone(basis=lambda _: legendre), positional("R"))
    space = space_of(model)
    assert set(space) == model.reads
    assert space["lr_pos"] == ("same", "lr")


def test_followers_get_the_value_of_their_leader():
    chosen = complete(SPACES["dsf-gpr-r"], {"lr": 0.1, "decay": 0.2, "dropout_x": 0.3})
    assert chosen["lr_gamma"] == chosen["lr_pos"] == 0.1
    assert chosen["decay_gamma"] == chosen["decay_pos"] == 0.2
    assert chosen["dropout_h"] == 0.3


def test_a_torn_last_row_does_not_stop_the_others(tmp_path, monkeypatch):
    source = resources.files("dsf_jax.experiments")
    for name in ("published", "tuned"):
        content = source.joinpath(f"{name}.jsonl").read_bytes()
        (tmp_path / f"{name}.jsonl").write_bytes(content)
    expected = preset("texas", "gpr")
    with (tmp_path / "tuned.jsonl").open("ab") as file:
        file.write(b'{"dataset": "texas", "model": "gp')
    monkeypatch.setattr(resources, "files", lambda package: tmp_path)
    with pytest.warns(UserWarning, match=r"tuned\.jsonl: line \d+.* is torn"):
        assert preset("texas", "gpr") == expected
