"""Settings by data set and model: published ones, tuned ones, and where they are from.

Package data, one JSON object per line: `published.jsonl` holds what the authors of a
model published, `tuned.jsonl` what a search of ours found.
"""

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any, NamedTuple

from dsf_jax.data.catalog import CATALOG
from dsf_jax.graph.positional import KINDS
from dsf_jax.models.settings import GAMMA_INITS, MODELS, BaselineConfig, HyperParams

_NAMES = {"pos_kind": KINDS, "gamma_init": GAMMA_INITS}
_SHARES = {"dropout_x", "dropout_h", "dropout_z", "dropout_pos", "dropout_edge"}
_STRENGTHS = {"eta1", "eta2"}


class Preset(NamedTuple):
    """Settings of a model on a data set, and where they are from.

    Example:
      >>> Preset(HyperParams(eta1=0.9), "by hand").hparams.eta1
      0.9
    """

    hparams: HyperParams
    source: str


def preset(dataset: str, model: str, split_kind: str = "stratified") -> Preset:
    """The settings to use where none are given; the source says which they are.

    In this order: tuned for the data set and the split rule, published, tuned for
    another split rule, the defaults. Ablations have the settings of the full model, and
    the split of the authors those of the rule that it was made by.

    Example:
      >>> preset("nowhere", "gpr").source
      'defaults of the library'
    """
    full, ablation, _ = model.partition("-no-")
    if ablation:
        whole = preset(dataset, full, split_kind)
        return Preset(whole.hparams, f"as {full}: {whole.source}")
    split_kind = "stratified" if split_kind == "authors" else split_kind
    tuned = _rows("tuned", dataset, model)
    for row in tuned:
        if row["split_kind"] == split_kind:
            return _preset(row, "tuned by dsf-jax")
    found = published(dataset, model)
    if found is not None:
        return found
    for row in tuned:
        return _preset(row, f"tuned by dsf-jax for {row['split_kind']} splits")
    return Preset(default_settings(model), "defaults of the library")


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
    return Preset(settings_from_json(row["settings"]), f"{origin}: {row['source']}")


def default_settings(model: str) -> HyperParams:
    """Settings that suit a model on an unknown graph.

    For the spectral models and DSF they are near to what searches find on small graphs:
    on Texas DSF-GPR-R has 84 % with them and 64 % with those of `HyperParams`, which
    are usual for the baselines.

    Example:
      >>> GAMMA_INITS[default_settings("dsf-bern-r").gamma_init]
      'ones'
    """
    if isinstance(MODELS.get(model), BaselineConfig):
        return HyperParams()
    is_monomial = not any(base in model for base in ("bern", "jacobi"))
    return HyperParams(
        lr=0.05,
        lr_gamma=0.05,
        lr_pos=0.05,
        decay=1e-4,
        decay_pos=1e-4,
        dropout_z=0.2,
        gamma_init=GAMMA_INITS.index("ppr" if is_monomial else "ones"),
    )


def settings_to_json(hparams: HyperParams) -> dict[str, Any]:
    """Settings with names in the place of indices.

    Example:
      >>> settings_to_json(HyperParams())["pos_kind"]
      'rw'
    """
    return {
        field: _NAMES[field][int(value)] if field in _NAMES else _plain(value)
        for field, value in hparams._asdict().items()
    }


def settings_from_json(settings: Mapping[str, Any]) -> HyperParams:
    """Settings from their JSON form; what is not named keeps its default.

    Example:
      >>> settings_from_json({"lr": 0.1, "gamma_init": "nppr"}).gamma_init
      1
    """
    values = {
        field: _NAMES[field].index(value) if field in _NAMES else value
        for field, value in settings.items()
    }
    return HyperParams(**values)


def parse_setting(text: str) -> tuple[str, Any]:
    """Field and value of a setting written as `field=value`.

    Raises:
      ValueError: if the field is not known or the value does not suit it.

    Example:
      >>> parse_setting("eta1=0.5"), parse_setting("pos_kind=lap")
      (('eta1', 0.5), ('pos_kind', 0))
    """
    field, equals, value = text.partition("=")
    if not equals or field not in HyperParams._fields:
        raise ValueError(
            f"--set must be field=value with one of the fields "
            f"{', '.join(HyperParams._fields)}, got {text!r}."
        )
    if field in _NAMES:
        if value not in _NAMES[field]:
            raise ValueError(
                f"{field} must be one of {', '.join(_NAMES[field])}, got {value!r}."
            )
        return field, _NAMES[field].index(value)
    default = HyperParams._field_defaults[field]
    if isinstance(default, bool):
        if value not in ("true", "false"):
            raise ValueError(f"{field} must be true or false, got {value!r}.")
        return field, value == "true"
    return field, _parse_number(field, value, is_whole=isinstance(default, int))


def _parse_number(field: str, value: str, *, is_whole: bool) -> int | float:
    try:
        number = int(value) if is_whole else float(value)
    except ValueError:
        kind = "a whole number" if is_whole else "a number"
        raise ValueError(f"{field} must be {kind}, got {value!r}.") from None
    rules = {
        **dict.fromkeys(_SHARES, ("in [0, 1)", 0 <= number < 1)),
        **dict.fromkeys(_STRENGTHS, ("in [0, 1]", 0 <= number <= 1)),
        "f_p": ("between 1 and 32", 1 <= number <= 32),
        "depth": ("between 1 and 8", 1 <= number <= 8),
        "degree": ("between 0 and 3", 0 <= number <= 3),
        "mu": ("above 0 and at most 1", 0 < number <= 1),
        "a": ("above -1.5", number > -1.5),
        "b": ("above -1.5", number > -1.5),
        "rho_scale": ("above 0", number > 0),
    }
    rule, is_met = rules.get(field, ("at least 0", number >= 0))
    if not is_met:
        raise ValueError(f"{field} must be {rule}, got {value}.")
    return number


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _read(name: str) -> list[dict[str, Any]]:
    file = resources.files("dsf_jax.experiments").joinpath(f"{name}.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]
