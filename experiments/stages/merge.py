"""Joins the parts that jobs wrote into one table.

    python -m experiments.stages.merge checks part1.csv part2.csv --out results/h200/checks.csv

A row that stands in several parts, each the same, is there once: what one kernel's check, or one
measurement, gave is asked for by several experiments. For samples the parts are Parquet files. With
--variants, only their rows are taken, in this order.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from contracts import read_rows, run_command, write_rows
from contracts.rows import TABLES


def main() -> None:
    parser = argparse.ArgumentParser(description="Join parts of a table.")
    joined = [name for name, table in TABLES.items() if table.suffix in (".csv", ".parquet")]
    parser.add_argument("table", choices=joined, metavar="TABLE", help="in contracts/rows.py")
    parser.add_argument("parts", nargs="*", type=Path)
    words = "take the rows of these alone, in this order"
    parser.add_argument("--variants", nargs="+", default=[], metavar="VARIANT", help=words)
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    table = TABLES[options.table]
    if table.suffix == ".parquet":
        from contracts.samples import read_samples, write_samples

        write_samples(options.out, map(read_samples, options.parts))
    else:
        every = [row for part in options.parts for row in read_rows(part, table.model)]
        if order := {name: place for place, name in enumerate(options.variants)}:
            every = sorted(
                (row for row in every if row.variant in order),
                key=lambda row: order[row.variant],
            )
        write_rows(
            options.out, table.model, {tuple(vars(row).items()): row for row in every}.values()
        )


if __name__ == "__main__":
    run_command(main)
