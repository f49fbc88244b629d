"""One run of the emulator for a kernel: correctness checks, predictions of its counters, bounds on its cycles, widths
of its shared accesses, and those of them that pictures show.

    python -m experiments.emulation sgemm_warptile --problem 4096 64x8192x512 --build-dir DIR --out-dir warptile

writes checks.csv, predictions.csv, bounds.csv, shared_widths.csv and bank_accesses.json (for
`experiments.emulation.bank_pictures`). Where small launches do not predict a large one, predictions and bounds have no
rows for that problem, and the reason is logged. A dispatcher has checks and predictions, of the kernels that it picks.
"""

from __future__ import annotations

import argparse
import logging
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from contracts import UserError, run_command, write_json, write_rows
from experiments.command_line import add_build_dir, add_problems, add_variant, find_machine
from experiments.emulation import RESULTS, bank_pictures, bounds, compare_gpu, launching, predictions, scaling, widths
from experiments.emulation.device import EmulatedDevice
from experiments.stages.check import check_cases, report
from experiments.stages.machine_code import code_of
from kernels.catalogue import Baseline, Runnable, Variant
from kernels.problem import ProblemSpec
from ptxsim import Kernel
from ptxsim.count import machines
from ptxsim.count.machines import Machine

logger = logging.getLogger(__name__)

Rows = list[dict[str, Any]]


def predicted_and_least(
    entry: Runnable, problems: list[ProblemSpec], kernels: dict[str, Kernel], build_dir: Path, machine: Machine
) -> tuple[Rows, Rows]:
    """Predictions and bounds; what is left out is logged."""
    predicted: Rows = []
    least: Rows = []
    for problem in problems:
        try:
            variant = entry.pick(problem.of(entry.b_layout))
            kernel = kernels[variant.name]
            scaled = scaling.emulate(kernel, variant, problem, machine.sms)
            predicted += predictions.rows(entry, problem, kernel.name, scaled, code_of(entry, build_dir))
            if variant is entry:
                least += bounds.rows(variant, problem, kernel, build_dir / f"{variant.name}.cubin", scaled, machine)
        except UserError as reason:
            logger.warning(f"{entry.name}, {problem.shown}, left out: {reason}")
    return predicted, least


def main() -> None:
    parser = argparse.ArgumentParser(description="Run one variant on the emulator, and report what that shows.")
    add_variant(parser)
    add_problems(parser, "that are predicted")
    add_build_dir(parser)
    parser.add_argument(
        "--machine",
        nargs="+",
        default=["h100"],
        help="whose rates bounds have: the first that ptxsim knows, or a .toml file",
    )
    parser.add_argument("--seed", type=int, help="of the first check; drawn afresh when left out")
    parser.add_argument("--results", action="store_true", help="keep results, for experiments.emulation.compare_gpu")
    parser.add_argument("--out-dir", required=True, type=Path)
    options = parser.parse_args()
    entry = options.catalogue.find(options.variant)
    if isinstance(entry, Baseline):
        raise UserError(f"{entry.name} is a library baseline: there is no PTX to run")
    known = [name for name in options.machine if name in machines.PRESETS]
    machine = find_machine(*known[:1] or options.machine[-1:])
    kernels = {variant.name: launching.load(variant, options.build_dir) for variant in entry.variants}
    emulator = nullcontext(EmulatedDevice(options.build_dir, kernels))
    checked = check_cases(emulator, entry, options.seed, large=None)
    report(entry, [one.row for one in checked])
    predicted, least = predicted_and_least(entry, options.problem, kernels, options.build_dir, machine)
    kernel = kernels[entry.name] if isinstance(entry, Variant) else None
    found = widths.rows(entry.name, kernel, options.build_dir / f"{entry.name}.cubin") if kernel else []
    pictured = []
    if isinstance(entry, Variant):
        pictured = bank_pictures.recorded(entry, kernels[entry.name], bank_pictures.load(options.catalogue).values())
    if options.results:
        compare_gpu.keep(options.out_dir / RESULTS, entry, checked)
    write_rows(options.out_dir / "checks.csv", "checks", [one.row for one in checked])
    write_rows(options.out_dir / "predictions.csv", "counters", predicted)
    write_rows(options.out_dir / "bounds.csv", "bounds", least)
    write_rows(options.out_dir / "shared_widths.csv", "shared_widths", found)
    write_json(options.out_dir / "bank_accesses.json", "bank_accesses", pictured)


if __name__ == "__main__":
    run_command(main)
