"""Writes report tables and documents, all in one process.

python -m analysis.tabulate --inputs results/inputs.json --out results/tables [NAME ...]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from analysis import registry
from analysis.data import write_csv
from analysis.inputs import Inputs
from analysis.registry import Registered
from contracts import choose, run_command, write_rows, write_text


def tabulate(inputs: Inputs, names: Sequence[str], out: Path) -> None:
    """Write the tables named, or all of which every needed table is there, into a folder.

    Raises `UserError` for a name that is none before anything is written.
    """
    known = registry.tables()
    chosen = [choose(known, name, "table", registry.SOURCES) for name in names]
    wanted = chosen or [one for one in known.values() if all(map(inputs.has, one.where_needed))]

    def depth(one: Registered) -> int:
        """How many report tables are made one after another before this one."""
        first = (known[read.removeprefix("report:")] for read in one.reads if read.startswith("report:"))
        return 1 + max(map(depth, first), default=0)

    for one in sorted(wanted, key=depth):
        made = one.made(inputs)
        if one.kind == "document":
            write_text(out / one.file, made)
        elif one.schema:
            write_rows(out / one.file, one.schema, made)
        else:
            write_csv(out / one.file, made, one.digits)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", required=True, type=Path, metavar="FILE.json", help="what the run's plan says")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")
    parser.add_argument("names", nargs="*", metavar="NAME", help="those to write (if left out: all)")
    args = parser.parse_args()
    tabulate(Inputs.read(args.inputs, args.out), args.names, args.out)


if __name__ == "__main__":
    run_command(main)
