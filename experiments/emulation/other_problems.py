"""Emulates problems that no counter was read of, for the claims: paper/emulated.csv.

    python -m experiments.emulation.other_problems        # all of paper/emulated.yaml, some seconds for each

The texts' kernels read C, ours only where beta is not 0, which the counters of a ladder are not of. Which bytes and
sectors a kernel asks for follows from its addresses alone.
"""

from __future__ import annotations

import argparse
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from contracts import choose, read_yaml, run_command, scratch, write_rows
from experiments.emulation import launching, scaling
from experiments.stages.build import build_variant
from kernels import catalogue
from kernels.problem import ProblemSpec

CASES, TABLE = Path("paper/emulated.yaml"), Path("paper/emulated.csv")
ARCH, SMS = "sm_90a", 132  # of an H200; neither changes what a kernel asks of global memory

logger = logging.getLogger(__name__)


def rows(cases: Path, configured_nvcc: str | None = None) -> list[dict[str, Any]]:
    """A row for each problem and counter. Raises `UserError` for a kernel of no catalogue, or a size of no tiles."""
    found = []
    for case in read_yaml(cases, "emulated_cases"):
        variant = choose(catalogue.kernels(), case["kernel"], "kernel", cases)
        with scratch() as folder:
            build_variant(variant.name, ARCH, folder, configured_nvcc)
            problem = replace(ProblemSpec.square(case["size"]), beta=case["beta"])
            scaled = scaling.emulate(launching.load(variant, folder), variant, problem, SMS)
        logger.info(f"{variant.name}, n = {case['size']}, beta = {case['beta']:g}: {len(scaled.totals)} counters")
        shape = {"variant": variant.name, "size": case["size"], "beta": case["beta"], "arch": ARCH}
        found += [
            {**shape, "metric": metric, "value": float(value), "source_hash": variant.source_hash}
            for metric, value in scaled.totals.items()
        ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=Path, default=CASES, metavar="YAML")
    parser.add_argument("--nvcc", metavar="PATH", help="the compiler (default: the one found on PATH)")
    parser.add_argument("--out", type=Path, default=TABLE, metavar="FILE.csv")
    options = parser.parse_args()
    write_rows(options.out, "emulated", rows(options.cases, options.nvcc))


if __name__ == "__main__":
    run_command(main)
