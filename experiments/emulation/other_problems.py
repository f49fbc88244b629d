"""Emulates problems that the worklogs measured and of which there are no counters here.

    python -m experiments.emulation.other_problems        # for every worklog, some seconds a problem

`emulated` in a worklog's source.yaml names the problems; emulated.csv next to it has their counters. The texts' kernels
read C, ours only where beta is not 0, as it is in no ladder. Which bytes and sectors a kernel asks for follows from its
addresses alone.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from contracts import choose, run_command, scratch, worklogs, write_rows
from experiments.emulation import launching, predictions
from experiments.stages.build import build_variant
from kernels import catalogue
from kernels.problem import ProblemSpec

ARCH, SMS = "sm_90a", 132  # of an H200; neither changes what a kernel asks of global memory

logger = logging.getLogger(__name__)


def rows(
    cases: Sequence[Mapping[str, Any]], source: object, configured_nvcc: str | None = None
) -> list[dict[str, Any]]:
    """A row for each problem and counter.

    Raises `UserError` for a kernel that the catalogue does not have, naming `source`, and for a size that is
    not a multiple of its tiles.
    """
    found = []
    for case in cases:
        variant = choose(catalogue.load().kernels, case["kernel"], "kernel", f"{source}: emulated")
        with scratch() as folder:
            build_variant(variant.name, ARCH, folder, configured_nvcc)
            problem = replace(ProblemSpec.square(case["size"]), beta=case["beta"])
            predicted = predictions.predict(launching.load(variant, folder), variant, problem, SMS)
        logger.info(f"{variant.name}, n = {case['size']}, beta = {case['beta']:g}: {len(predicted.totals)} counters")
        shape = {"variant": variant.name, "size": case["size"], "beta": case["beta"], "arch": ARCH}
        found += [
            {**shape, "metric": metric, "value": float(value), "source_hash": variant.source_hash}
            for metric, value in predicted.totals.items()
        ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nvcc", metavar="PATH", help="the compiler (default: the one found on PATH)")
    options = parser.parse_args()
    for source in worklogs.sources().values():
        if "emulated" in source:
            found = rows(source["emulated"], source["folder"] / "source.yaml", options.nvcc)
            write_rows(source["folder"] / "emulated.csv", "emulated", found)


if __name__ == "__main__":
    run_command(main)
