"""What do the choices change that the paper leaves open, or its code makes otherwise?

    python benchmarks/choices.py --datasets texas chameleon --choices loops orth

Each choice is run beside what the authors ran, with the same splits and seeds, and the
same settings (tuned for the latter, or published) unless it says otherwise: 10 splits x
10 seeds on small graphs, x 2 seeds on others. One record each in
`results/choices.jsonl`; what is there already is skipped, and runs on their way keep
journals in `results/unfinished`.
"""

import argparse
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from common import note, print_case, use_whole_computer
from results_rows import AS_RUN
from table2 import (
    BASES,
    R_MODELS,
    SMALL,
    UNFINISHED,
    append_row,
    read_rows,
    search_size,
)
from table2 import CHOICES as RECORDS

from dsf_jax.data.catalog import load_dataset
from dsf_jax.experiments.evaluation import evaluate
from dsf_jax.experiments.presets import preset
from dsf_jax.experiments.search import tune
from dsf_jax.experiments.spaces import Space, space_of
from dsf_jax.models.backbones import CLASSICAL_JACOBI
from dsf_jax.models.model import Model
from dsf_jax.models.settings import HyperParams, restrict, settings_from_json
from dsf_jax.models.zoo import MODELS

Change = Callable[[Any], Model]  # from a model with the fields in question


class Choice(NamedTuple):
    """One way to do it otherwise."""

    model: str  # its name
    text: str
    change: Change = lambda model: model
    hparams: Callable[[HyperParams, str], HyperParams] = lambda h, dataset: h
    scaling: str = "authors"  # of the features
    is_tuned: bool = False  # by a search of its own, as long as that of Table 2
    ranges: Space = {}  # of that search, where they differ
    patience: int = 100  # epochs without a better validation score


def _model(**fields: Any) -> Change:
    """The model with other values of its own fields."""
    return lambda model: dataclasses.replace(model, **fields)


def _backbone(**fields: Any) -> Change:
    """The model with other fields of its backbone."""
    return lambda model: dataclasses.replace(
        model, backbone=model.backbone._replace(**fields)
    )


def _local(**fields: Any) -> Change:
    """The model with other fields of its local weights."""
    return lambda model: dataclasses.replace(
        model, local=dataclasses.replace(model.local, **fields)
    )


def _settings_of(model: str) -> Callable[[HyperParams, str], HyperParams]:
    """Take what a search for another model varies from its settings, not positions."""

    def change(hparams: HyperParams, dataset: str) -> HyperParams:
        other = preset(dataset, model).hparams
        fields = [field for field in space_of(model) if not field.endswith("_pos")]
        return hparams._replace(**{field: getattr(other, field) for field in fields})

    return change


CHOICES = {
    "gpr": Choice("gpr", AS_RUN),
    "perceptron": Choice(
        "gpr",
        "without the graph: γ stays (1, 0, ..., 0)",
        hparams=lambda h, _: h._replace(gamma_init="ppr", alpha=1.0, lr_gamma=0.0),
    ),
    "gpr-r": Choice("dsf-gpr-r", AS_RUN),
    "loops": Choice(
        "dsf-gpr-r",
        "positions and filter on Â, without self-loops",
        change=_backbone(filter_op="a_hat", pos_op="a_hat"),
    ),
    "algorithm-1": Choice(
        "dsf-gpr-r",
        "filter hidden features, then classify (Algorithm 1)",
        change=_model(project_first=False),
    ),
    "orth": Choice(
        "dsf-gpr-r",
        "the other form of L_Orth",
        hparams=lambda h, _: h._replace(orth_normalize=not h.orth_normalize),
    ),
    "raw": Choice("dsf-gpr-r", "features as in the file", scaling="raw"),
    "decay": Choice(
        "dsf-gpr-r", "no decay of γ", hparams=lambda h, _: h._replace(decay_gamma=0.0)
    ),
    "jacobi-r": Choice("dsf-jacobi-r", AS_RUN),
    "outside": Choice(
        "dsf-jacobi-r",
        "ρ outside of the recurrence",
        change=_backbone(factors_inside=False),
    ),
    **{
        f"jacobi-{name}": Choice(
            "dsf-jacobi-r",
            f"positions on {title} instead of A + I",
            change=_backbone(pos_op=name),
        )
        for name, title in (("a_tilde", "Ã"), ("a_hat", "Â"))
    },
    "textbook": Choice(
        "dsf-jacobi-r",
        "Jacobi polynomials of the textbook",
        change=_model(backbone=CLASSICAL_JACOBI),
    ),
    "sole": Choice(
        "dsf-jacobi-r",
        "shared filters for filters per channel, or the reverse",
        hparams=lambda h, _: h._replace(sole=not h.sole),
    ),
    **{
        f"{base}-settings": Choice(
            f"dsf-{base}-r",
            "settings of the base model for what the two share",
            hparams=_settings_of(base),
        )
        for base in BASES
    },
    **{
        f"raw-{model}": Choice(
            model,
            "features as in the file, tuned for them",
            scaling="raw",
            is_tuned=True,
        )
        for model in ("gpr", "dsf-gpr-r", "jacobi", "dsf-jacobi-r", "cheb")
    },
    "narrow": Choice(
        "cheb",
        "32 hidden units, as in GPR-GNN's comparison, tuned for them",
        change=_model(hidden=32),
        is_tuned=True,
    ),
    "ends": Choice(
        "dsf-gpr-r",
        "α may be 0 and 1, as GPR-GNN's may, tuned with that",
        is_tuned=True,
        ranges={"alpha": space_of("gpr")["alpha"]},
    ),
    "wide": Choice(
        "gat",
        "8 heads of 64 units instead of 8, as in GPR-GNN's comparison",
        change=_model(hidden=512),
    ),
    **{
        f"as-in-file-{model}": Choice(model, "features as in the file", scaling="raw")
        for model in ("gat", "fagcn")
    },
    **{
        f"unstopped-{model}": Choice(
            model, "the best of all 1,000 epochs, no early stopping", patience=1000
        )
        for model in (*BASES, *R_MODELS, "fagcn")
    },
    "unstopped-as-in-file": Choice(
        "fagcn",
        "features as in the file, no early stopping",
        scaling="raw",
        patience=1000,
    ),
    "gpr-i": Choice("dsf-gpr-i", AS_RUN),
    "mean": Choice(
        "dsf-gpr-i",
        "mean of S instead of its sum",
        change=_local(mean_correlation=True),
    ),
    "free": Choice(
        "dsf-gpr-i", "σ(P W Pᵀ) with a free W", change=_local(correlation="free")
    ),
    **{
        f"no-s-{base}": Choice(
            f"dsf-{base}-i",
            "without S: η2 = 0",
            hparams=lambda h, _: h._replace(eta2=0.0),
        )
        for base in BASES
    },
}


def run_choice(dataset: str, name: str, num_seeds: int) -> None:
    """Evaluate it and append the record."""
    choice = CHOICES[name]
    model = choice.change(MODELS[choice.model])
    found = preset(dataset, choice.model)
    UNFINISHED.mkdir(parents=True, exist_ok=True)
    loaded = load_dataset(dataset, scaling=choice.scaling)
    hparams, source = choice.hparams(found.hparams, dataset), found.source
    hparams = restrict(hparams, model.reads)
    unfinished = UNFINISHED / f"choice-{dataset}-{name}"
    study, journal = (unfinished.with_suffix(end) for end in (".study", ".journal"))
    if choice.is_tuned:
        num_trials, num_splits = search_size(dataset)
        result = tune(
            loaded,
            model,
            num_trials=num_trials,
            num_splits=num_splits,
            storage=study,
            base=hparams,
            space=space_of(choice.model) | choice.ranges,
        )
        hparams = settings_from_json(result["settings"])
        source = f"{num_trials} trials, {result['date']}"
    record = evaluate(
        loaded,
        model,
        hparams,
        num_seeds=num_seeds,
        patience=choice.patience,
        journal=journal,
    )
    more = {"model": choice.model, "choice": name, "text": choice.text}
    append_row(RECORDS, record | more | {"settings_source": source})
    for file in (study, journal):
        file.unlink(missing_ok=True)
    print_case(dataset=dataset, choice=name, mean=record["mean"], ci95=record["ci95"])


def main() -> None:
    """Parse the arguments and run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--datasets", nargs="+", default=["texas", "chameleon"])
    quick = [name for name, choice in CHOICES.items() if not choice.is_tuned]
    parser.add_argument("--choices", nargs="+", default=quick, choices=list(CHOICES))
    arguments = parser.parse_args()
    use_whole_computer()
    done = {(row["dataset"], row["choice"]) for row in read_rows(RECORDS)}
    for dataset in arguments.datasets:
        for name in arguments.choices:
            if (dataset, name) not in done:
                note(f"{dataset}, {CHOICES[name].model}: {CHOICES[name].text}")
                run_choice(dataset, name, 10 if dataset in SMALL else 2)
                jax.clear_caches()


if __name__ == "__main__":
    main()
