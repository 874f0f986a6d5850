"""What does it change if variant I sums S over a sample of the nodes?

    python benchmarks/sampled.py --datasets chameleon cora --sampled 256 1024

DSF-GPR-I with settings in which S acts, (1 - η1) η2 > 0: those that ship for Cora, and
on Chameleon, where η1 = 1 is published, those of DSF-GPR-R with η1 = η2 = 0.5. One run
on each of ten splits, exact and with every number of sampled nodes; training and
stopping see the sample, scores are those of the exact model. One JSON line per case:
the paired difference from exact, the saturated share of the positions, milliseconds per
epoch. Finished cases are kept in `results/sampled.jsonl` and not run again.
"""

import argparse
import dataclasses
from typing import Any

import jax
import numpy as np
from common import note, print_case, use_whole_computer
from table2 import ROOT, UNFINISHED, append_row, read_rows

from dsf_jax.data.catalog import load_dataset
from dsf_jax.experiments.evaluation import evaluate, finite_scores
from dsf_jax.experiments.intervals import paired_difference
from dsf_jax.experiments.presets import preset
from dsf_jax.models.local import positional
from dsf_jax.models.settings import HyperParams, restrict
from dsf_jax.models.zoo import MODELS

RECORDS = ROOT / "benchmarks" / "results" / "sampled.jsonl"
MODEL = "dsf-gpr-i"


def settings_of(dataset: str) -> HyperParams:
    """Settings in which S acts."""
    own = preset(dataset, MODEL).hparams
    if own.eta1 < 1 and own.eta2 > 0:
        return own
    like = preset(dataset, "dsf-gpr-r").hparams
    return restrict(like, MODELS[MODEL].reads)._replace(eta1=0.5, eta2=0.5)


def run_case(dataset: str, num_sampled: int) -> dict[str, Any]:
    """Ten runs, added to the records."""
    local = positional("I", num_sampled=num_sampled)
    model = dataclasses.replace(MODELS[MODEL], local=local)
    UNFINISHED.mkdir(parents=True, exist_ok=True)
    journal = UNFINISHED / f"sampled-{dataset}-{num_sampled}.journal"
    record = evaluate(
        load_dataset(dataset),
        model,
        settings_of(dataset),
        num_seeds=1,
        spread=True,
        journal=journal,
    )
    record |= {"num_sampled": num_sampled}
    append_row(RECORDS, record)
    journal.unlink()
    return record


def main() -> None:
    """Parse the arguments, run what is missing, print every case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--datasets", nargs="+", default=["chameleon", "cora"])
    parser.add_argument("--sampled", nargs="+", type=int, default=[256, 1024])
    arguments = parser.parse_args()
    use_whole_computer()
    found = {(row["dataset"], row["num_sampled"]): row for row in read_rows(RECORDS)}
    for dataset in arguments.datasets:
        for num_sampled in (0, *arguments.sampled):
            key = dataset, num_sampled
            if key not in found:
                note(f"{dataset}: {num_sampled or 'all'} nodes")
                found[key] = run_case(*key)
                jax.clear_caches()
            show(found[key], found[dataset, 0])


def show(record: dict[str, Any], exact: dict[str, Any]) -> None:
    """One line."""
    less = paired_difference(*map(finite_scores, (record, exact)), "clustered")
    print_case(
        dataset=record["dataset"],
        num_sampled=record["num_sampled"],
        mean=record["mean"],
        less_exact=less.mean,
        half=less.half,
        spread=float(np.median(record["spread"])),
        saturated=float(np.median(record["saturated"])),
        ms_per_epoch_run=1e3 * record["seconds"] / float(np.sum(record["epochs_run"])),
    )


if __name__ == "__main__":
    main()
