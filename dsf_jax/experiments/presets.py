"""Settings by data set and model: published ones, tuned ones, and where they are from.

Package data, one JSON object per line: `published.jsonl` holds what the authors of a
model published, `tuned.jsonl` what a search of ours found.
"""

from collections.abc import Mapping
from importlib import resources
from typing import Any, NamedTuple

from dsf_jax.data.catalog import CATALOG, check_name
from dsf_jax.data.dataset import Dataset
from dsf_jax.models.model import Model
from dsf_jax.models.settings import (
    HyperParams,
    check_settings,
    list_fields,
    restrict,
    settings_from_json,
)
from dsf_jax.models.spectral import Diverse
from dsf_jax.models.zoo import MODELS, find_model, name_of
from dsf_jax.storage import read_lines

Settings = HyperParams | Mapping[str, Any]


class Preset(NamedTuple):
    """Settings of a model on a data set, and where they are from.

    Example:
      >>> Preset(HyperParams(eta1=0.9), "by hand").hparams.eta1
      0.9
    """

    hparams: HyperParams
    source: str


def preset(
    dataset: str | Dataset, model: str | Model, split_kind: str = "stratified"
) -> Preset:
    """The settings to use where none are given; the source says which they are.

    In this order: tuned for the data set and the split rule, published, tuned for
    another split rule, the defaults, which a model of your own has, too. Ablations have
    the settings of the full model, and the split of the authors those of the rule that
    it was made by.

    Args:
      dataset: one of `DATASETS`, or a data set, which may be your own.
      model: a name in `MODELS`, or a model of your own.
      split_kind: the rule of the splits.

    Raises:
      ValueError: if a name is not known; with the nearest.

    Example:
      >>> preset("photo", "gat").source
      'defaults of the library'
    """
    model, name = find_model(model), name_of(model)
    if isinstance(dataset, Dataset):
        dataset = dataset.name
    else:
        check_name(dataset)
    return _preset_of(dataset, model, name, split_kind)


def _preset_of(dataset: str, model: Model, name: str, split_kind: str) -> Preset:
    full, ablation, _ = name.partition("-no-")
    if ablation and full in MODELS:
        whole = _preset_of(dataset, MODELS[full], full, split_kind)
        own = restrict(whole.hparams, model.reads)
        return Preset(own, f"as {full}: {whole.source}")
    split_kind = "stratified" if split_kind == "authors" else split_kind
    tuned = _rows("tuned", dataset, name)
    for row in tuned:
        if row["split_kind"] == split_kind:
            return _preset(row, "tuned by dsf-jax")
    found = published(dataset, name)
    if found is not None:
        return found
    for row in tuned:
        return _preset(row, f"tuned by dsf-jax for {row['split_kind']} splits")
    return Preset(default_settings(model), "defaults of the library")


def choose_settings(
    dataset: Dataset,
    model: Model,
    settings: Settings | None,
    *,
    split_kind: str = "stratified",
) -> HyperParams:
    """Settings as given; a dictionary changes those that ship or suit.

    Raises:
      ValueError: if a value breaks its rule or is not read by the model.

    Example:
      >>> from dsf_jax import regions
      >>> choose_settings(regions(60), MODELS["gpr"], {"gamma_init": "ones"}).gamma_init
      4
    """
    if isinstance(settings, HyperParams):
        check_settings(settings, reads=model.reads)
        return settings
    changes = dict(settings or {})
    for field in changes:
        if field not in model.reads:
            raise ValueError(
                f"settings must be fields that the model reads, got {field!r}; it "
                f"reads {list_fields(model.reads)}."
            )
    base = preset(dataset, model, split_kind).hparams
    hparams = base._replace(**changes)
    check_settings(hparams, reads=model.reads)
    return hparams


def published(dataset: str, model: str) -> Preset | None:
    """What the authors of a model published for a data set, if they did.

    Example:
      >>> published("texas", "dsf-gpr-r") is None
      True
    """
    for row in _rows("published", dataset, model):
        return _preset(row, "published")
    return None


def _rows(file: str, dataset: str, model: str) -> list[dict[str, Any]]:
    """Rows for the features as `load_dataset` scales them."""
    default = CATALOG[dataset].scaling if dataset in CATALOG else ""
    return [
        row
        for row in _read(file)
        if (row["dataset"], row["model"]) == (dataset, model)
        and row.get("scaling", default) == default
    ]


def _preset(row: Mapping[str, Any], origin: str) -> Preset:
    reads = find_model(row["model"]).reads  # a row may hold settings of others, too
    hparams = restrict(settings_from_json(row["settings"]), reads)
    return Preset(hparams, f"{origin}: {row['source']}")


def default_settings(model: str | Model) -> HyperParams:
    """Settings that suit a model on an unknown graph.

    For the spectral models and DSF they are near to what searches find on small graphs:
    on Texas DSF-GPR-R has 84 % with them and 64 % with those of `HyperParams`, which
    are usual for the baselines.

    Example:
      >>> default_settings("dsf-gpr-r").lr
      0.05
    """
    model = find_model(model)
    if not isinstance(model, Diverse) or not model.reads >= {"lr_gamma"}:
        return HyperParams()
    suited = HyperParams(
        lr=0.05,
        lr_gamma=0.05,
        lr_pos=0.05,
        decay=1e-4,
        decay_pos=1e-4,
        dropout_z=0.2,
        gamma_init=model.backbone.gamma_start,
        # the one order that is 1
        alpha=0.0 if model.backbone.gamma_start == "one-hot" else 0.1,
    )
    return restrict(suited, model.reads)


def _read(name: str) -> list[dict[str, Any]]:
    file = resources.files("dsf_jax.experiments").joinpath(f"{name}.jsonl")
    return read_lines(file)
