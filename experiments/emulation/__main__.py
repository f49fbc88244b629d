"""Runs kernels on the emulator: checks them, predicts their counters, and bounds their cycles.

    python -m experiments.emulation sgemm_warptile sgemm_naive --problem 4096 --build-dir DIR --out-dir OUT

writes checks.csv, predictions.csv, bounds.csv, shared_widths.csv, lens/NAME.json for the explorer,
and bank_accesses.json, which `experiments.emulation.bank_pictures` reads. Where a few blocks do not
predict a problem, it has no rows of predictions and bounds, and the reason is logged. A dispatcher
has checks, and predictions of the kernels that it picks.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from contracts import UserError, choose, run_command, write_json, write_rows
from contracts.rows import BankAccesses, Bounds, Checks, Counters, Lens, SharedWidths
from experiments.command_line import (
    add_build_dir,
    add_gpu,
    add_problems,
    add_variants,
    find_gpu,
    find_runnable,
)
from experiments.emulation import (
    LENS,
    RESULTS,
    bank_pictures,
    bounds,
    compare_gpu,
    launching,
    lens,
    predictions,
    widths,
)
from experiments.emulation.device import EmulatedDevice
from experiments.stages.check import Shared, check_cases, report, summary
from experiments.stages.machine_code import code_of
from kernels.catalogue import Runnable, Variant
from kernels.problem import ProblemSpec
from ptxsim import Kernel
from ptxsim.count.machines import Machine

logger = logging.getLogger(__name__)

Rows = list[dict[str, Any]]
MODELS: dict[str, type[BaseModel]] = {
    "checks.csv": Checks,
    "predictions.csv": Counters,
    "bounds.csv": Bounds,
    "shared_widths.csv": SharedWidths,
    "bank_accesses.json": BankAccesses,
}


def predicted_and_bounds(
    entry: Runnable,
    problems: list[ProblemSpec],
    kernels: dict[str, Kernel],
    build_dir: Path,
    gpu: Machine,
) -> tuple[Rows, Rows, lens.Costs]:
    """Return rows of predictions and of bounds, and the costs by instruction that the lens shows;
    log what is left out.
    """
    predicted: Rows = []
    minimum: Rows = []
    by_problem: dict[ProblemSpec, lens.Costs] = {}
    costs = lens.Costs(unknown="no size of it was predicted")
    for problem in problems:
        try:
            variant = entry.pick(problem.of(entry.b_layout))
            kernel, code = kernels[variant.name], code_of(entry, build_dir)
            prediction = predictions.predict(kernel, variant, problem, gpu.sms)
            predicted += predictions.rows(entry, problem, kernel.name, prediction, code)
            if variant is entry:
                cubin = build_dir / f"{variant.name}.cubin"
                rows = bounds.rows(variant, problem, kernel, cubin, prediction, gpu)
                minimum += rows
                by_problem[problem] = lens.Costs.of(problem, prediction, rows)
        except UserError as reason:
            costs = lens.Costs(unknown=str(reason))
            logger.warning(f"{entry.name}, {problem.shown}, left out: {reason}")
    nearest = sorted(by_problem, key=lambda problem: abs(problem.flop - lens.FLOP))
    return predicted, minimum, by_problem[nearest[0]] if nearest else costs


def problems_of(options: argparse.Namespace) -> Mapping[str, list[ProblemSpec]]:
    """Return the problems that are predicted of each variant.

    Raises `UserError` for a name that is not run.
    """
    problems = {name: list(options.problem) for name in options.variants}
    for name, *texts in options.predict:
        choose(problems, name, "variant", "--predict").extend(map(ProblemSpec.parse, texts))
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Run variants on the emulator, and report what that shows."
    )
    add_variants(parser)
    add_problems(parser, "that are predicted")
    of_one = "a variant, and problems that are predicted of it alone; may be given several times"
    parser.add_argument(
        "--predict", nargs="+", action="append", default=[], metavar="WORD", help=of_one
    )
    add_build_dir(parser)
    add_gpu(parser)
    parser.add_argument("--seed", type=int, help="of the first check; drawn afresh when left out")
    parser.add_argument(
        "--results", action="store_true", help="keep results, for experiments.emulation.compare_gpu"
    )
    parser.add_argument("--out-dir", required=True, type=Path)
    options = parser.parse_args()
    gpu, build_dir, out = find_gpu(options.gpu), options.build_dir, options.out_dir
    problems, pictures = problems_of(options), bank_pictures.load(options.catalogue).values()
    shared = Shared()
    tables: dict[str, list[Any]] = {name: [] for name in MODELS}
    # Each kernel is loaded once, and checked, predicted, bounded and drawn.
    for name in options.variants:
        entry = find_runnable(options.catalogue, name, "there is no PTX to run")
        kernels = {variant.name: launching.load(variant, build_dir) for variant in entry.variants}
        emulator = nullcontext(EmulatedDevice(build_dir, kernels))
        checked = check_cases(emulator, entry, options.seed, large=None, shared=shared)
        checks = [case.row for case in checked]
        report(entry, checks)
        if options.results:
            compare_gpu.save(out / RESULTS / f"{name}.npz", entry, checked)
        predicted, minimum, costs = predicted_and_bounds(
            entry, problems[name], kernels, build_dir, gpu
        )
        tables["checks.csv"] += checks
        tables["predictions.csv"] += predicted
        tables["bounds.csv"] += minimum
        if isinstance(entry, Variant):
            cubin = build_dir / f"{name}.cubin"
            tables["shared_widths.csv"] += widths.rows(name, kernels[name], cubin)
            accesses = bank_pictures.recorded(entry, kernels[name], pictures)
            tables["bank_accesses.json"] += accesses
            seen = lens.content(
                entry, kernels[name], build_dir, gpu.name, costs, summary(entry, checks)
            )
            write_json(out / LENS / f"{name}.json", Lens, seen, indent=None)
    (out / LENS).mkdir(parents=True, exist_ok=True)  # of dispatchers alone, too
    for name, rows in tables.items():
        write: Any = write_json if name.endswith(".json") else write_rows
        write(out / name, MODELS[name], rows)


if __name__ == "__main__":
    run_command(main)
