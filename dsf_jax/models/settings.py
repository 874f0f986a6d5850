"""The settings of all models: one table, in the place of the defaults of `HyperParams`.

A field is written once: its meaning with the paper's symbol, the rule for its values,
its default and the range of a search. `FIELDS` is that table; the command line, search
spaces, error texts and docs/settings.md are made from it. Which fields a model reads is
said by the model (`Model.reads`).

Every setting is traced, so that a search or a grid of runs is one compiled program and
new values never compile again.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from dsf_jax.graph.positional import KINDS

GAMMA_INITS = ("ppr", "nppr", "random", "one-hot", "ones")

Range = tuple[Any, ...]  # of a search: see `dsf_jax.experiments.spaces`


class Rule(NamedTuple):
    """Which values a field may have; for words, `choices` in the order of their index.

    Example:
      >>> RATE.holds(-0.1)
      False
    """

    text: str
    holds: Callable[[Any], Any]
    choices: tuple[str, ...] = ()


class Field(NamedTuple):
    """A row of the table.

    Example:
      >>> FIELDS["eta1"].rule.text
      'in [0, 1]'
    """

    default: Any
    meaning: str
    rule: Rule
    search: Range | None = None


def _one_of(*words: str) -> Rule:
    in_range = range(len(words))
    text = f"one of {', '.join(words)}"
    return Rule(text, lambda value: np.isin(value, in_range), words)


RATE = Rule("at least 0", lambda value: value >= 0)
_SHARE = Rule("in [0, 1)", lambda value: (value >= 0) & (value < 1))
_STRENGTH = Rule("in [0, 1]", lambda value: (value >= 0) & (value <= 1))
_FLAG = Rule("true or false", lambda value: np.isin(value, (0, 1)))
_EXPONENT = Rule("above -1.5", lambda value: value > -1.5)

_LR, _DECAY = ("log", 1e-4, 1e-1), ("log", 5e-8, 1e-2)
_DROPOUT, _EITHER = ("step", 0.0, 0.8, 0.1), ("choice", [False, True])


def _between(low: int, high: int) -> Rule:
    text = f"between {low} and {high}"
    return Rule(text, lambda value: (value >= low) & (value <= high))


# columns of local weights that start at their base model, and how they become weights
COLUMNS = (
    *("degree", "lap", "rw", "lap+rw"),
    *("degree+lap", "degree+rw", "degree+lap+rw"),
)
FORMS = ("once", "twice", "plus")


class _Table(NamedTuple):
    lr: Any = Field(0.01, "learning rate of the maps of features", RATE, _LR)
    lr_gamma: Any = Field(0.01, "learning rate of γ", RATE, _LR)
    lr_pos: Any = Field(
        0.01, "learning rate of what makes θ, ρ, Δ, or a learnt basis", RATE, _LR
    )
    decay: Any = Field(5e-4, "L2 of the maps of features", RATE, _DECAY)
    decay_gamma: Any = Field(0.0, "L2 of γ", RATE, _DECAY)
    decay_pos: Any = Field(
        5e-4, "L2 of what makes θ, ρ, Δ, or a learnt basis", RATE, _DECAY
    )
    dropout_x: Any = Field(0.5, "dropout on features X", _SHARE, _DROPOUT)
    dropout_h: Any = Field(0.5, "dropout on the hidden layer", _SHARE, _DROPOUT)
    dropout_z: Any = Field(
        0.5, "dropout on the signal that is filtered (dprate)", _SHARE, _DROPOUT
    )
    dropout_pos: Any = Field(
        0.0,
        "dropout on the first positions P^(0); of PA-GNN: on what its second "
        "network filters",
        _SHARE,
        _DROPOUT,
    )
    dropout_edge: Any = Field(0.5, "dropout on the weights of edges", _SHARE, _DROPOUT)
    eta1: Any = Field(
        0.5, "pull η1 of positions to P^(0)", _STRENGTH, ("step", 0.0, 1.0, 0.1)
    )
    eta2: Any = Field(
        0.0, "strength η2 of S, variant I", _STRENGTH, ("step", 0.1, 1.0, 0.1)
    )
    lambda_orth: Any = Field(
        0.1, "weight λ of the orthogonality loss", RATE, ("log", 1e-2, 1.0)
    )
    orth_normalize: Any = Field(
        True, "whether L_Orth normalises the columns of P", _FLAG, _EITHER
    )
    pos_kind: Any = Field(
        KINDS.index("rw"),
        "positional features X_p",
        _one_of(*KINDS),
        ("choice", ["lap", "rw"]),
    )
    f_p: Any = Field(
        16, "columns of X_p in use, f_p", _between(1, 32), ("step", 2, 32, 2)
    )
    gamma_init: Any = Field(
        GAMMA_INITS.index("ppr"),
        "start of γ",
        _one_of(*GAMMA_INITS),
        ("choice", ["ppr", "nppr", "random"]),
    )
    alpha: Any = Field(
        0.1,
        "α of the starts ppr and nppr, of APPNP, GNN-LF and GNN-HF; for one-hot "
        "the order that is 1",
        RATE,
        ("choice", [0.1, 0.2, 0.5, 0.9]),
    )
    a: Any = Field(1.0, "Jacobi's a, at λ = 0", _EXPONENT, ("step", -1.0, 2.0, 0.25))
    b: Any = Field(1.0, "Jacobi's b, at λ = 2", _EXPONENT, ("step", -0.5, 2.0, 0.25))
    rho_scale: Any = Field(
        1.0,
        "α of JacobiConv: ρ lies in (-α, α)",
        Rule("above 0", lambda value: value > 0),
        ("choice", [0.5, 1.0, 1.5, 2.0]),
    )
    sole: Any = Field(False, "whether all channels share a filter", _FLAG, _EITHER)
    mu: Any = Field(
        0.9,
        "μ of GNN-LF",
        Rule("above 0 and at most 1", lambda value: (value > 0) & (value <= 1)),
        ("uniform", 0.6, 0.9),
    )
    beta: Any = Field(0.9, "β of GNN-HF; a large one hurts", RATE, ("log", 0.01, 1.0))
    epsilon: Any = Field(
        0.3,
        "ε of FAGCN: share of the first hidden features in every layer",
        RATE,
        ("step", 0.1, 1.0, 0.1),
    )
    depth: Any = Field(2, "layers of FAGCN", _between(1, 8), ("step", 1, 8, 1))
    degree: Any = Field(2, "orders of ChebNet", _between(0, 3), ("choice", [1, 2, 3]))
    lambda_l1: Any = Field(
        0.01, "weight of the L1 penalty on offsets", RATE, ("log", 1e-4, 1.0)
    )
    lr_local: Any = Field(
        0.001,
        "learning rate of local weights that start at their base model",
        RATE,
        ("choice", [0.0, 3e-4, 1e-3, 3e-3, 1e-2]),
    )
    decay_local: Any = Field(
        0.0,
        "L2 of local weights that start at their base model",
        RATE,
        ("choice", [0.0, 1e-4, 1e-3, 1e-2]),
    )
    lambda_local: Any = Field(
        0.0,
        "weight of the pull of local weights to the base model",
        RATE,
        ("choice", [0.0, 1e-3, 1e-2, 1e-1]),
    )
    pos_columns: Any = Field(
        COLUMNS.index("degree+lap+rw"),
        "standardised columns that local weights are made of; f_p of each kind",
        _one_of(*COLUMNS),
        ("choice", list(COLUMNS)),
    )
    residual_form: Any = Field(
        FORMS.index("once"),
        "weights γ (1 + tanh t), γ (1 + 2 tanh t) or γ + tanh t",
        _one_of(*FORMS),
        ("choice", list(FORMS)),
    )


FIELDS: dict[str, Field] = dict(_Table._field_defaults)
"""The table: every field by its name."""


class HyperParams(_Table):
    """Settings that are traced: numbers, or arrays with one entry per run.

    A choice may be given by its word, and is kept as its index. Parameters fall into
    three groups with a learning rate and a decay each: the maps of the features, γ, and
    what makes the local weights. Models that publish fewer rates repeat them.

    Example:
      >>> HyperParams(eta1=0.9, pos_kind="lap")._replace(lr=0.05).pos_kind
      0
    """

    __slots__ = ()

    def __new__(cls, *args: Any, **changes: Any) -> "HyperParams":
        """Words become indices, and what is not given its default."""
        values = _Table(*args, **changes)
        return tuple.__new__(cls, map(_value_of, cls._fields, values))

    @classmethod
    def _make(cls, values: Iterable[Any]) -> "HyperParams":  # type: ignore[override]
        return cls(*values)


def _value_of(name: str, value: Any) -> Any:
    if isinstance(value, Field):
        return value.default
    if not isinstance(value, str):
        return value
    rule = FIELDS[name].rule
    if value not in rule.choices:
        kind = rule.text if rule.choices else f"a number {rule.text}"
        raise ValueError(f"{name} must be {kind}, got {value!r}.")
    return rule.choices.index(value)


def check_settings(hparams: HyperParams, *, reads: Collection[str] = ()) -> None:
    """Refuse values that break the rule of their field; tracers pass.

    Args:
      hparams: the settings.
      reads: fields of a model, `Model.reads`; with these, a field beyond them must
        have its default, since it would change nothing.

    Raises:
      ValueError: naming field, value, rule and remedy.

    Example:
      >>> check_settings(HyperParams(eta1=13))
      Traceback (most recent call last):
        ...
      ValueError: eta1 must be in [0, 1], got 13; see docs/settings.md.
    """
    for name, value in hparams._asdict().items():
        if isinstance(value, jax.core.Tracer):
            continue
        check_value(name, value)
        if reads and name not in reads and np.any(value != FIELDS[name].default):
            raise ValueError(
                f"{name} must be left out, got {_plain(value)}: the model does not "
                f"read it, only {list_fields(reads)}."
            )


def check_config(
    config: Any, least: Mapping[str, int], **choices: Collection[str]
) -> None:
    """Refuse a field of a static configuration that is too small or no known word.

    Raises:
      ValueError: naming field, value and rule.

    Example:
      >>> check_config(Rule("", bool), {}, text=("on", "off"))
      Traceback (most recent call last):
        ...
      ValueError: text must be one of on, off, got ''.
    """
    for name, smallest in least.items():
        if not getattr(config, name) >= smallest:
            raise ValueError(
                f"{name} must be at least {smallest}, got {getattr(config, name)}; "
                "choose a larger one."
            )
    for name, words in choices.items():
        if getattr(config, name) not in words:
            raise ValueError(
                f"{name} must be one of {', '.join(words)}, got "
                f"{getattr(config, name)!r}."
            )


def list_fields(reads: Collection[str]) -> str:
    """Fields in the order of the table, for people.

    Example:
      >>> list_fields({"decay", "lr"})
      'lr, decay'
    """
    return ", ".join(name for name in FIELDS if name in reads)


def check_value(name: str, value: Any) -> None:
    """Refuse a value that breaks the rule of its field.

    Example:
      >>> check_value("f_p", 24)
    """
    rule, array = FIELDS[name].rule, np.asarray(value)
    is_number = np.issubdtype(array.dtype, np.number) or array.dtype == bool
    is_finite = is_number and np.all(np.isfinite(array))
    if not is_finite or not np.all(rule.holds(array)):
        text = f"finite and {rule.text}" if is_number and not is_finite else rule.text
        raise ValueError(
            f"{name} must be {text}, got {_plain(value)}; see docs/settings.md."
        )


def restrict(hparams: HyperParams, reads: Collection[str]) -> HyperParams:
    """Settings with the defaults of all fields that a model does not read.

    For settings of another model, or of a file that holds more fields.

    Example:
      >>> restrict(HyperParams(lr=0.5, eta1=0.9), {"lr"}).eta1
      0.5
    """
    kept = {name: getattr(hparams, name) for name in FIELDS if name in reads}
    return HyperParams(**kept)


def settings_to_json(hparams: HyperParams) -> dict[str, Any]:
    """Settings with words in the place of indices.

    Example:
      >>> settings_to_json(HyperParams())["pos_kind"]
      'rw'
    """
    return {
        name: choices[int(value)]
        if (choices := FIELDS[name].rule.choices)
        else _plain(value)
        for name, value in hparams._asdict().items()
    }


def settings_from_json(settings: Mapping[str, Any]) -> HyperParams:
    """Settings from their JSON form; what is not named keeps its default.

    Example:
      >>> settings_from_json({"lr": 0.1, "gamma_init": "nppr"}).gamma_init
      1
    """
    return HyperParams(**settings)


def parse_setting(text: str) -> tuple[str, Any]:
    """Field and value of a setting written as `field=value`.

    Raises:
      ValueError: if the field is not known or the value does not suit it.

    Example:
      >>> parse_setting("eta1=0.5"), parse_setting("pos_kind=lap")
      (('eta1', 0.5), ('pos_kind', 0))
    """
    name, equals, value = text.partition("=")
    if not equals or name not in FIELDS:
        raise ValueError(
            f"--set must be field=value with one of the fields {', '.join(FIELDS)}, "
            f"got {text!r}."
        )
    if FIELDS[name].rule.choices:
        return name, _value_of(name, value)
    kinds: dict[type, tuple[str, Callable[[str], Any]]] = {
        bool: ("true or false", {"true": True, "false": False}.__getitem__),
        int: ("a whole number", int),
        float: ("a number", float),
    }
    kind, parse = kinds[type(FIELDS[name].default)]
    try:
        number = parse(value)
    except (KeyError, ValueError):
        raise ValueError(f"{name} must be {kind}, got {value!r}.") from None
    check_value(name, number)
    return name, number


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") and np.size(value) == 1 else value
