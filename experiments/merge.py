"""Joins the parts that jobs wrote into one table.

    python -m experiments.merge bench part1.csv part2.csv --out results/h200/bench.csv

For resources the parts are the .json files beside the cubins; for samples, Parquet files.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from contracts import read_json, read_rows, replacing, run_command, write_rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Join parts of a table.")
    parser.add_argument("table", choices=["bench", "checks", "counters", "resources", "samples"])
    parser.add_argument("parts", nargs="*", type=Path)
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    if options.table == "samples":
        import pyarrow as pa
        import pyarrow.parquet as pq

        tables = [pq.read_table(part) for part in options.parts]
        with replacing(options.out) as temporary:
            pq.write_table(pa.concat_tables(tables).unify_dictionaries(), temporary, compression="zstd")
    elif options.table == "resources":
        write_rows(options.out, "resources", [read_json(part, "resources") for part in options.parts])
    else:
        write_rows(
            options.out, options.table, [row for part in options.parts for row in read_rows(part, options.table)]
        )


if __name__ == "__main__":
    run_command(main)
