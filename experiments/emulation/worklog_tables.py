"""Compiles and emulates what the worklogs' texts speak of and the experiments do not have, and
records it next to them.

    python -m experiments.emulation.worklog_tables        # for every worklog, some seconds a kernel

`compiled` in a worklog's source.yaml names kernels by architecture: compiled.csv has a row of
resources.csv for each, so that a text's registers, spills and instructions are compared on its
author's GPU. `emulated` names problems, whose counters are in emulated.csv. The texts' kernels read
C, ours only where beta is not 0, as it is in no ladder. Which bytes and sectors a kernel asks for
follows from its addresses alone.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from contracts import choose, read_json, run_command, scratch, validated, worklogs, write_rows
from contracts.declared import EmulatedProblem
from contracts.rows import Emulated, Resources
from experiments.emulation import launching, predictions
from experiments.stages.build import build_variant
from kernels import catalogue
from kernels.problem import ProblemSpec

ARCH, SMS = "sm_90a", 132  # Neither changes what a kernel asks of global memory.

logger = logging.getLogger(__name__)


def compiled(
    cases: Mapping[str, Sequence[str]], source: object, nvcc: str | None = None
) -> list[Resources]:
    """Return a row of resources.csv for each kernel of each architecture.

    Raises `UserError` for a kernel that the catalogue does not have, naming `source`, and with the
    compiler's first error.
    """
    pairs = [(name, arch) for arch, names in cases.items() for name in names]
    for name, arch in pairs:
        choose(catalogue.load().kernels, name, "kernel", f"{source}: compiled: {arch}")
    rows = []
    for name, arch in pairs:
        with scratch() as folder:
            cubin = build_variant(name, arch, folder, nvcc)
            row = read_json(cubin.with_suffix(".json"), Resources)
        logger.info(f"{name} for {arch}: {row.registers} registers")
        rows.append(row)
    return rows


def emulated(
    cases: Sequence[EmulatedProblem], source: object, nvcc: str | None = None
) -> list[Emulated]:
    """Return a row for each problem and counter.

    Raises `UserError` for a kernel that the catalogue does not have, naming `source`, and for a
    size that is not a multiple of its tiles.
    """
    rows = []
    for case in cases:
        variant = choose(catalogue.load().kernels, case.kernel, "kernel", f"{source}: emulated")
        with scratch() as folder:
            build_variant(variant.name, ARCH, folder, nvcc)
            problem = replace(ProblemSpec.square(case.size), beta=case.beta)
            predicted = predictions.predict(launching.load(variant, folder), variant, problem, SMS)
        logger.info(
            f"{variant.name}, n = {case.size}, beta = {case.beta:g}: {len(predicted.totals)} counters"
        )
        shape: dict[str, Any] = {
            "variant": variant.name,
            "size": case.size,
            "beta": case.beta,
            "arch": ARCH,
        }
        shape["source_hash"] = variant.source_hash
        for metric, value in predicted.totals.items():
            row = shape | {"metric": metric, "value": float(value)}
            rows.append(validated(row, Emulated, source))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--nvcc", metavar="PATH", help="the compiler (default: the one found on PATH)"
    )
    options = parser.parse_args()
    for name, source in worklogs.sources().items():
        folder = worklogs.FOLDER / name
        path = folder / "source.yaml"
        if source.compiled:
            rows = compiled(source.compiled, path, options.nvcc)
            write_rows(folder / "compiled.csv", Resources, rows)
        if source.emulated:
            counted = emulated(source.emulated, path, options.nvcc)
            write_rows(folder / "emulated.csv", Emulated, counted)


if __name__ == "__main__":
    run_command(main)
