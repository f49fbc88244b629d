"""Widths of a kernel's shared-memory accesses by source line, predicted from its PTX and found in
its cubin: rows of shared_widths.csv.

ptxas merges neighbouring accesses; the emulator's counters rest on knowing which (the rule:
ptxsim/ptx/merging.py). That the two differ on a line is no fault of the kernel.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ptxsim
from experiments.emulation import launching
from ptxsim.ptx import merging


def counted(counts: dict[int, int]) -> str:
    """Return `{32: 8, 128: 2}` as "8 x 32, 2 x 128"."""
    return ", ".join(f"{count} x {bits}" for bits, count in counts.items())


def rows(name: str, kernel: ptxsim.Kernel, cubin: Path) -> list[dict[str, Any]]:
    """Return the rows of the variant of that name."""
    with launching.refusals():
        lines = merging.compare(kernel.program, cubin)
    return [
        {
            "variant": name,
            "file": Path(line.file).name,
            "line": line.line,
            "opcode": line.opcode,
            "predicted": counted(line.predicted),
            "found": counted(line.actual),
            "agree": line.agree,
        }
        for line in lines
    ]
