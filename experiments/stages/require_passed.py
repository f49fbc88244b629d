"""Ends non-zero when a variant failed a check, after everything else is done.

python -m experiments.stages.require_passed --checks results/h200/checks.csv --out verdict.txt
"""

from __future__ import annotations

import argparse
from pathlib import Path

from contracts import UserError, read_rows, run_command, write_text
from contracts.rows import Checks


def main() -> None:
    parser = argparse.ArgumentParser(description="Fail where a check failed.")
    parser.add_argument("--checks", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path, help="written only where all passed")
    options = parser.parse_args()
    rows = read_rows(options.checks, Checks)
    failed = [row for row in rows if not row.passed]
    if failed:
        names = ", ".join(sorted({row.variant for row in failed}))
        first = failed[0]
        raise UserError(
            f"{len(failed)} of {len(rows)} checks failed, of: {names}; first: {first.variant}, "
            f"{first.case}: {first.detail}"
        )
    write_text(options.out, f"{len(rows)} checks passed\n")


if __name__ == "__main__":
    run_command(main)
