"""Joins the parts that jobs wrote into one table.

    python -m experiments.stages.merge bench part1.csv part2.csv --out results/h200/bench.csv

For resources the parts are the .json files beside the cubins; for samples, Parquet files.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from contracts import read_json, read_rows, run_command, write_rows

TABLES = [
    "agreement",
    "bench",
    "bounds",
    "checks",
    "counters",
    "cross_checks",
    "predictions",
    "timing_methods",
    "resources",
    "samples",
    "timeline",
]


def main() -> None:
    parser = argparse.ArgumentParser(description="Join parts of a table.")
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("parts", nargs="*", type=Path)
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    if options.table == "samples":
        from experiments.stages.samples import join_samples

        join_samples(options.parts, options.out)
    elif options.table == "resources":
        write_rows(options.out, "resources", [read_json(part, "resources") for part in options.parts])
    else:
        schema = "counters" if options.table == "predictions" else options.table
        write_rows(options.out, schema, [row for part in options.parts for row in read_rows(part, schema)])


if __name__ == "__main__":
    run_command(main)
