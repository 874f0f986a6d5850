"""How diverse are the filters of the models of Table 2?

    python benchmarks/spreads.py --datasets texas

Older records of Table 2 hold no parameters, so each of their DSF cells is run again,
once on each of its ten splits, with the settings of its record. One record each in
`results/spreads.jsonl`: the spread of the filters between nodes and the share of
saturated positions, run by run. What is there already, or in the record of Table 2, is
skipped; runs on their way keep journals in `results/unfinished`.
"""

import argparse

import jax
from common import note, print_case, use_whole_computer
from table2 import RECORDS as TABLE_2
from table2 import SPREADS as RECORDS
from table2 import UNFINISHED, append_row, read_rows, row_key

from dsf_jax.data.catalog import load_dataset
from dsf_jax.experiments.evaluation import evaluate
from dsf_jax.models.settings import restrict, settings_from_json
from dsf_jax.models.zoo import MODELS


def main() -> None:
    """Parse the arguments and run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--models", nargs="+")
    arguments = parser.parse_args()
    use_whole_computer()
    UNFINISHED.mkdir(parents=True, exist_ok=True)
    done = {row_key(row) for row in read_rows(RECORDS)}
    for row in read_rows(TABLE_2):
        dataset, model, split_kind, _ = key = row_key(row)
        if arguments.datasets and dataset not in arguments.datasets:
            continue
        if arguments.models and model not in arguments.models:
            continue
        is_full = model.startswith("dsf-") and "-no-" not in model
        if not is_full or "spread" in row or key in done:
            continue
        name = "-".join(filter(None, key))
        note(name)
        journal = UNFINISHED / f"spread-{name}.journal"
        record = evaluate(
            load_dataset(dataset),
            model,
            restrict(settings_from_json(row["settings"]), MODELS[model].reads),
            num_seeds=1,
            split_kind=split_kind,
            spread=True,
            journal=journal,
        )
        append_row(RECORDS, record | {"settings_source": row["settings_source"]})
        journal.unlink()
        spreads = [run for split in record["spread"] for run in split]
        print_case(dataset=dataset, model=model, median=sorted(spreads)[5])
        jax.clear_caches()


if __name__ == "__main__":
    main()
