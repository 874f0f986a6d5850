"""`docs/settings.md` from the table of settings, the models and their search spaces.

    python benchmarks/settings_page.py

writes the page. Ablations have the settings of the full model and are left out.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dsf_jax.experiments.spaces import space_of
from dsf_jax.models.settings import FIELDS, Field
from dsf_jax.models.spectral import Diverse
from dsf_jax.models.zoo import MODELS

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"

NAMED = {name: model for name, model in MODELS.items() if "-no-" not in name}
SPECTRAL = {name: m for name, m in NAMED.items() if isinstance(m, Diverse)}
LEARNT = {name for name, m in SPECTRAL.items() if m.backbone.fixed_gamma is None}

TEXT = """\
# Settings

Written by `python benchmarks/settings_page.py` from `dsf_jax.models.settings.FIELDS`.

Every setting is a field of `dsf_jax.HyperParams`, or `--set field=value` on the command
line; where there is a choice, it is given by its word. All are traced: new values never
compile again, and in a queue of jobs each field is an array with one entry per run.
`evaluate`, `fit` and `tune` refuse what a model does not read (`Model.reads`), unless
it has its default.

- **spectral**: {spectral}.
- **learnt γ**: {learnt}.

What fixes the program is not here but in the model: `order` and `hidden` of any one,
`project_first` of a spectral one, the fields of its `dsf_jax.Backbone`, and `width`,
`has_orth`, `correlation`, `mean_correlation`, `num_sampled` of `dsf_jax.positional`.

{fields}
## Ranges of single models

A search (`dsf-jax tune`) draws from the ranges above, but for these models
(`dsf_jax.experiments.spaces`). A model of your own has the ranges above, with one rate
and one decay for all parameters.

{ranges}"""


def render() -> str:
    """The page."""
    fields = [
        (
            f"`{name}`",
            field.meaning,
            field.rule.text,
            _default(field),
            _range(field.search),
            _names({m for m, model in NAMED.items() if name in model.reads}),
        )
        for name, field in FIELDS.items()
    ]
    header = ("field", "meaning", "value", "default", "search", "read by")
    return TEXT.format(
        spectral=_names(set(SPECTRAL), SMALL),
        learnt=_names(LEARNT, {"spectral": set(SPECTRAL)}),
        fields=_table(header, fields),
        ranges=_table(("field", "search", "models"), _other_ranges()),
    )


def _other_ranges() -> Iterable[tuple[str, str, str]]:
    """Where the space of a model has another range than the table."""
    for name, field in FIELDS.items():
        found: dict[str, set[str]] = {}
        for model in NAMED:
            search = space_of(model).get(name)
            if name in NAMED[model].reads and search != field.search:
                found.setdefault(_range(search), set()).add(model)
        for text, models in found.items():
            yield f"`{name}`", text, _names(models)


def _small_groups() -> dict[str, set[str]]:
    """Groups whose names explain themselves."""
    diverse = {name for name in NAMED if name.startswith("dsf-")}
    groups = {"`dsf-*`": diverse}
    for end in ("i", "r", "residual", "mixture", "content"):
        own = {name for name in diverse if name.endswith(f"-{end}")}
        groups[f"`dsf-*-{end}`"] = own
    for base in NAMED:
        own = {name for name in diverse if name.startswith(f"dsf-{base}-")}
        if own:
            groups[f"`{base}`, `dsf-{base}-*`"] = {base} | own
    for base in NAMED:
        pair = {f"dsf-{base}-i", f"dsf-{base}-r"}
        if pair <= diverse:
            groups[f"`{base}`, `dsf-{base}-{{i,r}}`"] = {base} | pair
            groups[f"`dsf-{base}-{{i,r}}`"] = pair
    return groups


SMALL = _small_groups()
LARGE = {"all": set(NAMED), "spectral": set(SPECTRAL), "learnt γ": LEARNT}


def _names(models: set[str], groups: dict[str, set[str]] = LARGE | SMALL) -> str:
    """Models in few words: groups and single names, or a group but for some."""
    texts = [_cover(models, groups)]
    for text, group in groups.items():
        if models < group:
            texts.append(f"{text} but {_cover(group - models, SMALL)}")
    return min(texts, key=len)


def _cover(models: set[str], groups: dict[str, set[str]]) -> str:
    """Groups that make up the models, the first ones first, then single names."""
    left, texts = set(models), []
    for text, group in groups.items():
        if group and group <= left:
            texts.append(text)
            left -= group
    return ", ".join([*texts, *(f"`{name}`" for name in NAMED if name in left)])


def _default(field: Field) -> str:
    choices = field.rule.choices
    return choices[field.default] if choices else _value(field.default)


def _range(search: tuple[Any, ...] | None) -> str:
    match search:
        case None:
            return "not searched"
        case ("same", other):
            return f"as `{other}`"
        case ("choice", values):
            return ", ".join(map(_value, values))
        case ("step", low, high, step):
            return f"{_value(low)}, {_value(low + step)}, .., {_value(high)}"
        case ("log", low, high):
            return f"{_value(low)} to {_value(high)}, log-uniform"
        case (kind, low, high):
            return f"{_value(low)} to {_value(high)}, {kind}"
    raise ValueError(f"search must be a range, got {search!r}.")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else f"{value:g}".replace("e-0", "e-")


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
