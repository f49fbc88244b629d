"""Widths of each kernel's shared-memory accesses by source line: foreseen from its PTX, and found in its cubin.

    python -m experiments.widths --build-dir results/build/sm_90a --out shared_widths.csv [VARIANT ...]

ptxas merges neighbouring accesses; the emulator's counters rest on knowing which (ptxsim/merging.py has the rule). A
line where the two differ is named on stderr; that is no fault of the kernel.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import ptxsim
from contracts import UserError, run_command, write_rows
from kernels import catalogue
from ptxsim import merging


def shown(counts: dict[int, int]) -> str:
    """`{32: 8, 128: 2}` as "8 x 32, 2 x 128"."""
    return ", ".join(f"{count} x {bits}" for bits, count in counts.items())


def rows_of(name: str, build_dir: Path) -> list[dict[str, Any]]:
    """Rows of shared_widths.csv of one kernel."""
    stem = build_dir / name
    try:
        lines = merging.compare(ptxsim.load(stem.with_suffix(".ptx")).program, stem.with_suffix(".cubin"))
    except ptxsim.PtxsimError as error:
        raise UserError(f"ptxsim: {error}") from error
    return [
        {
            "variant": name,
            "file": Path(line.file).name,
            "line": line.line,
            "opcode": line.opcode,
            "foreseen": shown(line.foreseen),
            "found": shown(line.found),
            "agree": line.agree,
        }
        for line in lines
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare foreseen widths of shared accesses with the cubins'.")
    parser.add_argument("variants", nargs="*", help="names in kernels/catalogue.yaml; all kernels, if none is given")
    parser.add_argument("--build-dir", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path, help="written: shared_widths.csv")
    options = parser.parse_args()
    table = [row for name in options.variants or catalogue.kernels() for row in rows_of(name, options.build_dir)]
    for row in table:
        if not row["agree"]:
            print(
                "{variant}: {file}:{line}: {opcode}: foreseen {foreseen}; found {found}".format(**row), file=sys.stderr
            )
    agreeing = sum(row["agree"] for row in table)
    print(f"{agreeing} of {len(table)} lines with shared accesses have the widths that were foreseen")
    write_rows(options.out, "shared_widths", table)


if __name__ == "__main__":
    run_command(main)
