"""Runs the double buffer of xor_double_buffer.cu on the emulator for sm_86 and sm_90, or on a GPU.

    python -m experiments.studies xor_double_buffer --out paper/worklogs/sgemm_cu/xor_double_buffer.csv
    python -m experiments.studies xor_double_buffer --on-gpu --out paper/worklogs/sgemm_cu/xor_double_buffer.csv

The first command replaces the emulator's rows of the file, the second those of this GPU. A GPU runs
the program by itself and under each tool of NVIDIA's compute-sanitizer. Columns: `COLUMNS`.
"""

from __future__ import annotations

import argparse
import csv
import json
import logging
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from contracts import UserError, atomic_write
from experiments.gpu import discovery

logger = logging.getLogger(__name__)

# device: "ptxsim" or the GPU's name. tool: what looked for faults; empty where nothing did. xor_of:
# "address", as the text says, or "offset". wrong, elements: of C, n x n. faults: how many the tool
# reported. fault, line: its first message, and the line of xor_double_buffer.cu that reads what
# nobody wrote.
COLUMNS = ("device", "tool", "arch", "xor_of", "n", "wrong", "elements", "faults", "fault", "line")
SOURCE = Path(__file__).resolve().parent / "xor_double_buffer.cu"
KERNELS = SOURCE.parents[2] / "kernels"
KINDS = ("address", "offset")  # The XOR is of one of them.
SIZES = (128, 256)  # one block of 128 x 128, and four
ARCHES = ("sm_86", "sm_90")
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")
RESULT = re.compile(r"(\d+) of (\d+) elements are wrong")
SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard")
FAULT = re.compile(
    rf"block \(.*?\), thread \(.*?\): (.+?) at .*?{re.escape(SOURCE.name)}:(\d+): the undefined value"
)


def output_of(command: list[str]) -> str:
    """Return the standard output of a command that must end well.

    Raises `UserError` with its last line otherwise.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise UserError(
            f"cannot run {command[0]}: {error.strerror}; a CUDA toolkit is needed on PATH"
        ) from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise UserError(f"{' '.join(command[:3])} ended with {done.returncode}: {lines[-1]}")
    return done.stdout


def wrong_elements(output: str) -> dict[str, Any]:
    """Return what the program printed, as `wrong` and `elements`."""
    result = RESULT.search(output)
    if result is None:
        raise UserError(f"{SOURCE.name} printed no result, but {output.strip()!r}")
    return {"wrong": int(result[1]), "elements": int(result[2])}


def compiled(compiler: list[str], arch: str, xor_of: str, folder: Path) -> str:
    """Return the path of the program, built for one architecture and one kind of XOR."""
    program = str(folder / f"{arch}_{xor_of}")
    define = ["-DOF_THE_OFFSET"] if xor_of == "offset" else []
    output_of([*compiler, f"-arch={arch}", *define, f"-I{KERNELS}", "-o", program, str(SOURCE)])
    return program


def on_emulator(
    folder: Path, arches: Sequence[str] = ARCHES, sizes: Sequence[int] = SIZES
) -> Iterator[dict[str, Any]]:
    """Yield rows of the emulator, with the first fault that it reports."""
    ptxsim = [sys.executable, "-m", "ptxsim"]
    for arch, xor_of in product(arches, KINDS):
        program, report = compiled([*ptxsim, "nvcc"], arch, xor_of, folder), folder / "report.json"
        for n in sizes:
            command = [*ptxsim, "exec", "--quiet", "--report", str(report), program, str(n)]
            done = subprocess.run(command, capture_output=True, text=True)
            row = {"device": "ptxsim", "tool": "ptxsim", "arch": arch, "xor_of": xor_of, "n": n}
            yield row | wrong_elements(done.stdout) | first_fault(json.loads(report.read_text()))


def first_fault(report: dict[str, Any]) -> dict[str, Any]:
    """Return how many faults a report of `ptxsim exec` has, and the first one's message and line."""
    faults = [fault for launch in report["launches"] for fault in launch["faults"]]
    columns: dict[str, Any] = {"faults": len(faults), "fault": "", "line": ""}
    if faults and (parts := FAULT.search(faults[0])):
        columns |= {"fault": parts[1], "line": int(parts[2])}
    return columns


def on_gpu(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield rows of the first GPU: the program by itself, then under each tool of compute-sanitizer."""
    gpu = discovery.gpu()
    if gpu is None:
        raise UserError("--on-gpu needs an NVIDIA GPU, and none is visible here")
    arch = gpu.arch.removesuffix("a")
    for xor_of in KINDS:
        program = compiled(["nvcc", "-lineinfo"], arch, xor_of, folder)
        row = {"device": gpu.name, "tool": "", "arch": arch, "xor_of": xor_of}
        row |= {"faults": "", "fault": "", "line": ""}
        for n in SIZES:
            yield row | {"n": n} | wrong_elements(output_of([program, str(n)]))
        for tool in SANITIZERS:
            output = output_of(["compute-sanitizer", "--tool", tool, program, str(SIZES[0])])
            summary = SUMMARY.search(output)
            if summary is None:
                raise UserError(f"compute-sanitizer --tool {tool} printed no summary")
            errors = {"tool": tool, "n": SIZES[0], "faults": int(summary[1] or summary[2])}
            yield row | errors | wrong_elements(output)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the study."""
    parser.add_argument(
        "--on-gpu", action="store_true", help="on this machine's GPU instead of the emulator"
    )
    parser.add_argument("--out", required=True, type=Path, help="written: xor_double_buffer.csv")


def run(options: argparse.Namespace) -> None:
    """Write the table, in which the rows of other devices stay."""
    others = []
    if options.out.is_file():
        with options.out.open(newline="") as file:
            others = list(csv.DictReader(file))
    with tempfile.TemporaryDirectory() as folder:
        rows = list((on_gpu if options.on_gpu else on_emulator)(Path(folder)))
    others = [row for row in others if row["device"] != rows[0]["device"]]
    with atomic_write(options.out) as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(others + rows if options.on_gpu else rows + others)
    for row in rows:
        logger.info(
            f"{row['device']} {row['tool']} {row['arch']}, n = {row['n']}: {row['wrong']} wrong elements"
        )
