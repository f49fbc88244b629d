"""Runs kernels on the emulator: correctness checks, predictions of counters, bounds on cycles,
widths of shared accesses, and those of them that pictures show.

    python -m experiments.emulation sgemm_warptile sgemm_naive --problem 4096 --build-dir DIR --out-dir OUT

writes checks.csv, predictions.csv, bounds.csv, shared_widths.csv and bank_accesses.json (for
`experiments.emulation.bank_pictures`). Where a few blocks do not predict a problem, predictions and
bounds have no rows for that problem, and the reason is logged. A dispatcher has checks and
predictions, of the kernels that it picks.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contracts import UserError, choose, run_command, write_json, write_rows
from contracts.rows import BankAccesses, Bounds, Checks, Counters, SharedWidths
from experiments.command_line import (
    add_build_dir,
    add_gpu,
    add_problems,
    add_variants,
    find_gpu,
    find_runnable,
)
from experiments.emulation import (
    RESULTS,
    bank_pictures,
    bounds,
    compare_gpu,
    launching,
    predictions,
    widths,
)
from experiments.emulation.device import EmulatedDevice
from experiments.stages.check import Shared, check_cases, report
from experiments.stages.machine_code import code_of
from kernels.catalogue import Runnable, Variant
from kernels.problem import ProblemSpec
from ptxsim import Kernel
from ptxsim.count.machines import Machine

logger = logging.getLogger(__name__)

Rows = list[dict[str, Any]]


def predicted_and_bounds(
    entry: Runnable,
    problems: list[ProblemSpec],
    kernels: dict[str, Kernel],
    build_dir: Path,
    gpu: Machine,
) -> tuple[Rows, Rows]:
    """Predictions and bounds; what is left out is logged."""
    predicted: Rows = []
    minimum: Rows = []
    for problem in problems:
        try:
            variant = entry.pick(problem.of(entry.b_layout))
            kernel = kernels[variant.name]
            found = predictions.predict(kernel, variant, problem, gpu.sms)
            predicted += predictions.rows(
                entry, problem, kernel.name, found, code_of(entry, build_dir)
            )
            if variant is entry:
                minimum += bounds.rows(
                    variant, problem, kernel, build_dir / f"{variant.name}.cubin", found, gpu
                )
        except UserError as reason:
            logger.warning(f"{entry.name}, {problem.shown}, left out: {reason}")
    return predicted, minimum


@dataclass
class Found:
    """The rows of each file that is written."""

    checks: list[Checks] = field(default_factory=list)
    predictions: Rows = field(default_factory=list)
    bounds: Rows = field(default_factory=list)
    shared_widths: Rows = field(default_factory=list)
    bank_accesses: Rows = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Write them all."""
        write_rows(folder / "checks.csv", Checks, self.checks)
        write_rows(folder / "predictions.csv", Counters, self.predictions)
        write_rows(folder / "bounds.csv", Bounds, self.bounds)
        write_rows(folder / "shared_widths.csv", SharedWidths, self.shared_widths)
        write_json(folder / "bank_accesses.json", BankAccesses, self.bank_accesses)


def problems_of(options: argparse.Namespace) -> Mapping[str, list[ProblemSpec]]:
    """The problems that are predicted of each variant.

    Raises `UserError` for a name that is not run.
    """
    found = {name: list(options.problem) for name in options.variants}
    for name, *texts in options.predict:
        choose(found, name, "variant", "--predict").extend(map(ProblemSpec.parse, texts))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Run variants on the emulator, and report what that shows."
    )
    add_variants(parser)
    add_problems(parser, "that are predicted")
    words = "a variant, and problems that are predicted of it alone; may be given several times"
    parser.add_argument(
        "--predict", nargs="+", action="append", default=[], metavar="WORD", help=words
    )
    add_build_dir(parser)
    add_gpu(parser)
    parser.add_argument("--seed", type=int, help="of the first check; drawn afresh when left out")
    parser.add_argument(
        "--results", action="store_true", help="keep results, for experiments.emulation.compare_gpu"
    )
    parser.add_argument("--out-dir", required=True, type=Path)
    options = parser.parse_args()
    gpu = find_gpu(options.gpu)
    build_dir, problems = options.build_dir, problems_of(options)
    pictures, shared, found = bank_pictures.load(options.catalogue).values(), Shared(), Found()
    for name in options.variants:
        entry = find_runnable(options.catalogue, name, "there is no PTX to run")
        kernels = {variant.name: launching.load(variant, build_dir) for variant in entry.variants}
        emulator = nullcontext(EmulatedDevice(build_dir, kernels))
        checked = check_cases(emulator, entry, options.seed, large=None, shared=shared)
        report(entry, [one.row for one in checked])
        if options.results:
            compare_gpu.keep(options.out_dir / RESULTS / f"{name}.npz", entry, checked)
        predicted, minimum = predicted_and_bounds(entry, problems[name], kernels, build_dir, gpu)
        found.checks += [one.row for one in checked]
        found.predictions += predicted
        found.bounds += minimum
        if isinstance(entry, Variant):
            found.shared_widths += widths.rows(name, kernels[name], build_dir / f"{name}.cubin")
            found.bank_accesses += bank_pictures.recorded(entry, kernels[name], pictures)
    found.write(options.out_dir)


if __name__ == "__main__":
    run_command(main)
