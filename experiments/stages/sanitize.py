"""Runs every kernel under NVIDIA's compute-sanitizer: memcheck, racecheck, initcheck, synccheck.

    python -m experiments.stages.sanitize --build-dir results/build/sm_90a --out sanitizer.csv

Each kernel runs on small problems in matrices that are exactly as large as they must be, so that
one element too far is out of bounds; with beta = 0, C has never been written, so that reading it is
found. A process runs `BATCH` kernels under one tool; only where it reports something is each run
alone, to tell whose fault it is. Several run at a time, for most of their work is the host's.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from contracts import UserError, run_command, write_rows, write_text
from contracts.rows import Sanitizer
from experiments.command_line import add_build_dir
from experiments.gpu.session import session
from experiments.stages import verify
from experiments.stages.cases import Case, cases
from experiments.stages.machine_code import code_of
from kernels.catalogue import Catalogue, Variant

logger = logging.getLogger(__name__)

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
BATCH = 12  # kernels
AT_A_TIME = 8  # processes: each has a CUDA context, a few hundred MB of the GPU
FLOP = 2**26  # of a case: instrumented code is up to a hundred times slower
DONE = "sanitized:"  # the child's own line for each kernel that ran to its end
# memcheck, initcheck and synccheck end with the first, racecheck with the second
SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard")
FINDING = re.compile(
    r"^=+ (?!COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY)(?=\S)(.+)$", re.MULTILINE
)


def find_tool() -> Path | None:
    """compute-sanitizer on PATH, or in the toolkit's usual place."""
    found = shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path="/usr/local/cuda/bin"
    )
    return Path(found) if found else None


def chosen(variant: Variant) -> list[Case]:
    """What each kernel runs: every case that it takes, up to `FLOP`."""
    return [case for case in cases(variant) if not case.refused and case.problem.flop <= FLOP]


def launch_all(variants: list[Variant], build_dir: Path) -> None:
    """Run these kernels once on each case: what the sanitizer watches."""
    from experiments.gpu.device import CatalogueKernel, Gpu, Memory

    gpu = Gpu(build_dir)
    for variant in variants:
        kernel, types = CatalogueKernel(gpu, variant), variant.types
        rng = np.random.default_rng(1)
        for case in chosen(variant):
            p = case.problem
            shapes = [(rows, ld) for rows, _, ld in (p.stored["A"], p.stored["B"])]
            a, b = (gpu.upload(verify.random_matrix(rng, *s, types.ab)) for s in shapes)
            c = (
                gpu.upload(verify.random_matrix(rng, p.m, p.ldc, types.c))
                if p.beta
                else Memory(p.m * p.ldc * types.c.bytes)
            )
            kernel.bind(p, a.address, b.address, c.address)()
            gpu.sync()
        print(DONE, variant.name, flush=True)


def run_tool(tool: Path, check: str, names: list[str], build_dir: Path) -> tuple[int, str]:
    """Errors that one run under the sanitizer reported, and its first words about them.

    Raises `UserError` where the sanitizer itself failed, or where a kernel did not run to its end
    without a report.
    """
    command = [
        str(tool),
        "--tool",
        check,
        "--print-limit",
        "20",
        "--error-exitcode",
        "0",
        sys.executable,
        "-m",
        "experiments.stages.sanitize",
        "--build-dir",
        str(build_dir),
        "--launch",
        *names,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    output = done.stdout + done.stderr
    summary = SUMMARY.findall(output)
    if not summary:
        last = (output.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"compute-sanitizer --tool {check} failed: {last}")
    errors = sum(int(a or b) for a, b in summary)
    missing = [name for name in names if f"{DONE} {name}\n" not in output]
    if missing and not errors:
        last = (output.strip().splitlines() or ["no message"])[-1]
        raise UserError(
            f"compute-sanitizer --tool {check}: {missing[0]} did not run to its end: {last}"
        )
    finding = FINDING.search(output)
    return errors, finding[1].strip() if errors and finding else ""


def sanitize(
    tool: Path, names: list[str], build_dir: Path, known: Catalogue
) -> list[dict[str, Any]]:
    """Rows of sanitizer.csv, by tool.

    Raises `UserError` where several kernels together were reported for something that none of them
    is alone: it cannot be said whose it is, and a row that says clean would hide it.
    """

    def of_batch(check: str, batch: list[str]) -> list[dict[str, Any]]:
        errors, _ = run_tool(tool, check, batch, build_dir)
        rows = []
        for name in batch:
            alone = run_tool(tool, check, [name], build_dir) if errors else (0, "")
            variant = known.kernels[name]
            row: dict[str, Any] = {
                "variant": name,
                "tool": check,
                "launches": len(chosen(variant)),
                "errors": alone[0],
            }
            rows.append(
                row
                | {
                    "detail": alone[1],
                    "passed": alone[0] == 0,
                    "code_hash": code_of(variant, build_dir),
                }
            )
        if errors and not sum(row["errors"] for row in rows):
            together = f"in {', '.join(batch[:3])}{', ...' if batch[3:] else ''} together"
            raise UserError(f"{check}: {errors} errors {together}, none in any alone; run it again")
        return rows

    batches = [names[start : start + BATCH] for start in range(0, len(names), BATCH)]
    with ThreadPoolExecutor(min(AT_A_TIME, os.cpu_count() or 1)) as pool:
        running = {
            check: [pool.submit(of_batch, check, batch) for batch in batches] for check in TOOLS
        }
        table: list[dict[str, Any]] = []
        try:
            for check, each in running.items():
                rows = [row for batch in each for row in batch.result()]
                logger.info(
                    f"{check}: {sum(row['errors'] for row in rows)} errors in {len(names)} kernels"
                )
                table += rows
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Run kernels under compute-sanitizer.")
    parser.add_argument(
        "variants",
        nargs="*",
        metavar="VARIANT",
        help="names in kernels/catalogue.yaml; all by default",
    )
    add_build_dir(parser)
    parser.add_argument("--out", type=Path, help="written: sanitizer.csv")
    parser.add_argument("--left-out", type=Path, help="written: why there is none, or nothing")
    parser.add_argument("--launch", nargs="+", metavar="VARIANT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.launch:
        launch_all([options.catalogue.kernels[name] for name in options.launch], options.build_dir)
        return
    if not options.out:
        raise UserError("--out is missing: where the table goes")
    for name in options.variants:
        if name not in options.catalogue.kernels:
            options.catalogue.find(name)  # names the nearest
            raise UserError(f"{name} is no kernel of this project: there is nothing to sanitize")
    tool, rows, reason = find_tool(), [], ""
    if tool is None:
        reason = "no compute-sanitizer on PATH; remedy: install it with the CUDA toolkit"
        logger.warning(f"sanitizer left out: {reason}")
    else:
        with session():
            rows = sanitize(
                tool,
                options.variants or [*options.catalogue.kernels],
                options.build_dir,
                options.catalogue,
            )
    if options.left_out:
        write_text(options.left_out, reason)
    write_rows(options.out, Sanitizer, rows)


if __name__ == "__main__":
    run_command(main)
