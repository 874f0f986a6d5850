"""Base models as their own authors tuned them, and the split that DSF's published.

    python benchmarks/published.py --datasets texas chameleon --models gpr

Two questions, one record per case in `results/published.jsonl`:

- How much of a gain is the tuning of the base? The published settings of GPR-GNN,
  BernNet and JacobiConv on our ten splits, once with DSF's rule for the epoch that
  counts and once with their own.
- Are our splits harder? Nine models on the one split of Chameleon that DSF's authors
  published, 50 seeds each, with the settings that ship; the base models with their
  published settings as well.

What is there already is skipped, and runs on their way keep journals in
`results/unfinished`.
"""

import argparse
from typing import Any, NamedTuple

import jax
from common import note, print_case, use_whole_computer
from table2 import BASES, I_MODELS, R_MODELS, UNFINISHED, append_row, read_rows
from table2 import PUBLISHED as RECORDS

from dsf_jax.data.catalog import load_dataset
from dsf_jax.experiments.evaluation import evaluate
from dsf_jax.experiments.presets import preset, published

DATASETS = ("texas", "cornell", "chameleon", "cora", "citeseer")
# how the authors of a base model chose an epoch, and ended a run
OWN_RULES: dict[str, dict[str, Any]] = {
    "gpr": {"selection": "lowest-loss", "patience": 200},
    "bern": {"selection": "lowest-loss", "patience": 200},
    "jacobi": {"selection": "last-best", "patience": 200},
}


class Case(NamedTuple):
    """One grid of runs."""

    dataset: str
    model: str
    origin: str  # of the settings: published or shipped
    rule: str = "dsf"  # or own
    split_kind: str = "stratified"

    @property
    def name(self) -> str:
        """File name of what is unfinished."""
        return "-".join(self)


CASES = (
    *(
        Case(dataset, model, "published", rule)
        for dataset in DATASETS
        for model in BASES
        for rule in ("dsf", "own")
    ),
    *(
        Case("chameleon", model, origin, split_kind="authors")
        for model in (*BASES, *R_MODELS, *I_MODELS)
        for origin in (("published", "shipped") if model in BASES else ("shipped",))
    ),
)


def run_case(case: Case) -> None:
    """Evaluate it and append the record."""
    found = preset(case.dataset, case.model)
    if case.origin == "published":
        authors = published(case.dataset, case.model)
        assert authors is not None
        found = authors
    UNFINISHED.mkdir(parents=True, exist_ok=True)
    journal = UNFINISHED / f"published-{case.name}.journal"
    is_ours = case.split_kind == "stratified"
    record = evaluate(
        load_dataset(case.dataset),
        case.model,
        found.hparams,
        split_kind=case.split_kind,
        num_splits=10 if is_ours else 1,
        num_seeds=10 if is_ours else 50,
        spread=case.model not in BASES,
        journal=journal,
        **(OWN_RULES[case.model] if case.rule == "own" else {}),
    )
    more = {"origin": case.origin, "rule": case.rule, "settings_source": found.source}
    append_row(RECORDS, record | more)
    journal.unlink()
    print_case(**case._asdict(), mean=record["mean"], ci95=record["ci95"])


def main() -> None:
    """Parse the arguments and run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--models", nargs="+")
    arguments = parser.parse_args()
    use_whole_computer()
    done = {Case(*(row[field] for field in Case._fields)) for row in read_rows(RECORDS)}
    for case in CASES:
        if arguments.datasets and case.dataset not in arguments.datasets:
            continue
        if arguments.models and case.model not in arguments.models:
            continue
        if case not in done:
            note(case.name)
            run_case(case)
            jax.clear_caches()


if __name__ == "__main__":
    main()
