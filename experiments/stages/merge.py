"""Joins the parts that jobs wrote into one table.

    python -m experiments.stages.merge checks part1.csv part2.csv --out results/h200/checks.csv

A row that stands in several parts, each the same, is there once: what one kernel's check, or one measurement, gave is
asked for by several experiments. For samples the parts are Parquet files. With --variants, only their rows are taken.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from contracts import read_rows, registry, run_command, write_rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Join parts of a table.")
    joined = [name for name, table in registry.tables().items() if table.suffix in (".csv", ".parquet")]
    parser.add_argument("table", choices=joined, metavar="TABLE", help="in contracts/recorded.py")
    parser.add_argument("parts", nargs="*", type=Path)
    parser.add_argument("--variants", nargs="+", metavar="VARIANT", help="leave out the rows of all others")
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    table = registry.tables()[options.table]
    if table.suffix == ".parquet":
        from contracts.samples import read_samples, write_samples

        write_samples(options.out, map(read_samples, options.parts))
    else:
        chosen = options.variants
        read = (row for part in options.parts for row in read_rows(part, table.schema))
        every = (row for row in read if not chosen or row["variant"] in chosen)
        write_rows(options.out, table.schema, {tuple(row.items()): row for row in every}.values())


if __name__ == "__main__":
    run_command(main)
