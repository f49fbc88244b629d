"""Compiles kernels for the GPUs that the worklogs name, and records what comes of it: paper/compiled.csv.

    python -m experiments.stages.compiled                # all of paper/compiled.yaml, about two seconds for each

Registers, spills and machine instructions are the compiler's, so that no GPU is needed to hold a text's words against
them, for its own architecture. A row is one of resources.csv.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

from contracts import UserError, choose, read_json, read_yaml, run_command, scratch, write_rows
from experiments.stages.build import build_variant
from kernels import catalogue

CASES, TABLE = Path("paper/compiled.yaml"), Path("paper/compiled.csv")

logger = logging.getLogger(__name__)


def pairs(cases: Path) -> list[tuple[str, str]]:
    """Kernel and architecture of each row. Raises `UserError` for a kernel of no catalogue."""
    found = []
    for arch, names in read_yaml(cases, "compiled_cases").items():
        for name in names:
            choose(catalogue.kernels(), name, "kernel", f"{cases}: {arch}")
            found.append((name, arch))
    return found


def rows(cases: Path, configured_nvcc: str | None = None) -> list[dict[str, Any]]:
    """A row of resources.csv for each. Raises `UserError` with the compiler's first error."""
    found = []
    for name, arch in pairs(cases):
        with scratch() as folder:
            cubin = build_variant(name, arch, folder, configured_nvcc)
            row = read_json(cubin.with_suffix(".json"), "resources")
        logger.info(f"{name} for {arch}: {row['registers']} registers")
        found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=Path, default=CASES, metavar="YAML")
    parser.add_argument("--nvcc", metavar="PATH", help="the compiler (default: the one found on PATH)")
    parser.add_argument("--out", type=Path, default=TABLE, metavar="FILE.csv")
    options = parser.parse_args()
    if not options.cases.is_file():
        raise UserError(f"cannot read {options.cases}: no such file")
    write_rows(options.out, "resources", rows(options.cases, options.nvcc))


if __name__ == "__main__":
    run_command(main)
