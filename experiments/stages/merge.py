"""Joins the parts that jobs wrote into one table.

    python -m experiments.stages.merge checks part1.csv part2.csv --out results/h200/checks.csv

A row that stands in several parts, each the same, is there once: what one kernel's check, or one measurement, gave is
asked for by several experiments. For resources the parts are the .json files next to the cubins; for samples, Parquet
files.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from contracts import read_json, read_rows, registry, run_command, write_rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Join parts of a table.")
    joined = [name for name, table in registry.tables().items() if table.suffix in (".csv", ".parquet")]
    parser.add_argument("table", choices=joined, metavar="TABLE", help="in contracts/recorded.py")
    parser.add_argument("parts", nargs="*", type=Path)
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    table = registry.tables()[options.table]
    if table.suffix == ".parquet":
        from contracts.samples import read_samples, write_samples

        write_samples(options.out, map(read_samples, options.parts))
    else:
        every = (row for part in options.parts for row in rows(part, table.schema))
        write_rows(options.out, table.schema, {tuple(row.items()): row for row in every}.values())


def rows(part: Path, schema: str) -> list[dict[str, Any]]:
    """A part's rows; a JSON file is one."""
    return [read_json(part, schema)] if part.suffix == ".json" else read_rows(part, schema)


if __name__ == "__main__":
    run_command(main)
