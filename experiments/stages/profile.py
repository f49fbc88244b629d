"""Reads the hardware counters of one catalogue entry with Nsight Compute.

    python -m experiments.stages.profile sgemm_warptile --size 4096 --build-dir results/build/sm_90a \
        --out counters.csv --left-out left_out.txt

Clocks are left alone (--clock-control none). The .ncu-rep is read with the `ncu_report` module that ships with ncu; its
text output changes between versions. Without ncu, or without the permission, counters.csv has no rows and left_out.txt
says why and what would help; it names counters that are unknown here, too, and otherwise is empty.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import contracts
from contracts import UserError, load_yaml, read_rows, run_command, scratch, write_rows, write_text
from experiments.command_line import add_build_dir, add_checked, add_variant
from kernels import catalogue
from kernels.catalogue import Entry

logger = logging.getLogger(__name__)

LEAST_VERSION = (2022, 3)  # the first that knows Hopper and Ada
REQUIRED = "GEMM_LADDER_COUNTERS_REQUIRED"  # set by a pipeline that was asked for counters by name
PERMISSION = (
    "no permission to read hardware counters (ERR_NVGPUCTRPERM); remedy: run as root, or load the driver with "
    "NVreg_RestrictProfilingToAdminUsers=0"
)


class LeftOut(Exception):
    """Why counters cannot be read here: not a fault of the run."""


def metric_names() -> list[str]:
    """ncu's names of all counters in contracts/metrics.yaml."""
    groups = load_yaml(Path(contracts.__file__).parent / "metrics.yaml")
    return [metric["ncu"] for group in groups.values() for metric in group.values()]


def find_ncu() -> Path:
    """The ncu on PATH, links followed. Raises `LeftOut` where there is none."""
    found = shutil.which("ncu")
    if not found:
        raise LeftOut("no ncu on PATH; remedy: install NVIDIA Nsight Compute")
    return Path(found).resolve()


def report_folder(ncu: Path) -> Path:
    """Where `ncu_report` lies, in the installation that `ncu` belongs to."""
    roots = [
        *ncu.parents,
        *Path("/opt/nvidia/nsight-compute").glob("*"),
        *Path("/usr/local").glob("cuda*/nsight-compute*"),
    ]
    for root in roots:
        folder = root / "extras" / "python"
        if (folder / "ncu_report.py").is_file():
            return folder
    raise LeftOut(f"no ncu_report module beside {ncu.name}; remedy: a full install of Nsight Compute")


def read_report(folder: Path, path: Path, names: Iterable[str]) -> list[dict[str, Any]]:
    """The kernels of a report with these counters, as `experiments.gpu.read_report` prints them in its own process."""
    command = [sys.executable, "-m", "experiments.gpu.read_report", str(folder), str(path), *names]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise UserError(f"{path}: not a report that this ncu's module can read: {last}")
    kernels: list[dict[str, Any]] = json.loads(done.stdout)
    return kernels


def longest_kernel(
    kernels: list[dict[str, Any]], entry: Entry, size: int, names: list[str], beta: float = 0.0
) -> list[dict[str, Any]]:
    """Rows of counters.csv from the longest kernel of a report; a counter that it does not have has no row.

    With beta, of counters_with_beta.csv.
    """
    action = max(kernels, key=lambda kernel: kernel["metrics"]["gpu__time_duration.sum"][0])
    rows = []
    for name in names:
        if name not in action["metrics"]:
            continue
        value, unit = action["metrics"][name]
        rows.append(
            {
                "variant": entry.name,
                "m": size,
                "n": size,
                "k": size,
                **({"beta": beta} if beta else {}),
                "metric": name,
                "value": value,
                "unit": unit,
                "kernel": action["name"],
                "source_hash": entry.source_hash,
            }
        )
    return rows


def profile(
    entry: Entry, size: int, build_dir: Path, named: Sequence[str] = (), beta: float = 0.0
) -> tuple[list[dict[str, Any]], list[str]]:
    """Run ncu on one launch; rows of counters.csv, and counters that this ncu or GPU does not know. `named`: arguments
    that name the entry to `experiments.stages.profile_target`, if it is not the catalogue's. `beta`: other than 0, C is
    read, too.

    Raises `LeftOut` where counters cannot be read here, `UserError` where the kernel's own process failed.
    """
    ncu = find_ncu()
    check_version(ncu)
    reader = report_folder(ncu)
    names = metric_names()
    unknown: list[str] = []
    command = [
        "-m",
        "experiments.stages.profile_target",
        *(named or [entry.name]),
        "--size",
        str(size),
        f"--beta={beta:g}",
    ]
    command += ["--build-dir", str(build_dir), *catalogue.tuned_option()]
    with scratch() as folder:
        report = folder / "report.ncu-rep"
        while True:
            there, output = launched(ncu, names, report, command, "--target-processes", "all")
            if there:
                break
            if not (refused := named_in_errors(names, output)):
                explain(output, entry)
            names, unknown = [name for name in names if name not in refused], unknown + refused
        try:
            kernels = read_report(reader, report, names)
        except UserError as error:
            raise LeftOut(f"{error}; remedy: one installation of Nsight Compute on PATH, whole") from error
        rows = longest_kernel(kernels, entry, size, names, beta)
    read = {row["metric"] for row in rows}
    return rows, unknown + [name for name in names if name not in read]


def launched(
    ncu: Path, metrics: Sequence[str], report: Path, command: Sequence[str], *options: str
) -> tuple[bool, str]:
    """Run this Python with `command` under ncu, clocks left alone: whether there is a `report`, and what was said.

    The command turns profiling on where it begins, and leases the GPU itself: what ncu does before needs none.
    """
    whole = [str(ncu), "--clock-control", "none", "--profile-from-start", "off", *options]
    whole += ["--metrics", ",".join(metrics), "--export", str(report.with_suffix("")), sys.executable, *command]
    done = subprocess.run(whole, capture_output=True, text=True)
    return not done.returncode and report.is_file(), done.stdout + done.stderr


def under_ncu(command: Sequence[str], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """The launches of this Python with `command`, as `experiments.gpu.read_report` prints them; caches are not flushed.

    For what is measured by name: raises `UserError` where nothing can be counted.
    """
    try:
        ncu = find_ncu()
        reader = report_folder(ncu)
    except LeftOut as reason:
        raise UserError(f"nothing can be counted: {reason}") from reason
    with scratch() as folder:
        report = folder / "report.ncu-rep"
        there, output = launched(ncu, metrics, report, command, "--cache-control", "none")
        if not there:
            raise UserError(f"ncu failed: {(output.strip().splitlines() or ['no message'])[-1]}")
        return read_report(reader, report, metrics)


def check_version(ncu: Path) -> None:
    """Raises `LeftOut` for an ncu older than `LEAST_VERSION`; one that does not say its version is tried."""
    done = subprocess.run([str(ncu), "--version"], capture_output=True, text=True)
    found = re.search(r"Version (\d+)\.(\d+)", done.stdout)
    if found and (version := (int(found[1]), int(found[2]))) < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        raise LeftOut(f"ncu {version[0]}.{version[1]} is too old; remedy: Nsight Compute {least} or newer")


def named_in_errors(names: list[str], output: str) -> list[str]:
    """The counters that ncu complains of."""
    errors = " ".join(line for line in output.splitlines() if line.startswith(("==ERROR==", "==WARNING==")))
    return [name for name in names if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.]*\w)", errors)]


def explain(output: str, entry: Entry) -> NoReturn:
    """Raise what a failure of ncu means: for this machine, or for this kernel."""
    if "ERR_NVGPUCTRPERM" in output:
        raise LeftOut(PERMISSION)
    ours = [line for line in output.splitlines() if line.startswith("error:")]
    ncus = [line for line in output.splitlines() if "==ERROR==" in line]
    if ncus and not ours and "application" not in ncus[-1]:
        raise LeftOut(
            f"ncu: {ncus[-1].replace('==ERROR==', '').strip()}; remedy: an Nsight Compute that knows this GPU"
        )
    lines = ours or ncus or output.splitlines() or ["no message"]
    raise UserError(f"ncu failed on {entry.name}: {lines[-1].strip()}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Read hardware counters with Nsight Compute.")
    add_variant(parser)
    parser.add_argument("--size", type=int, required=True, help="m = n = k")
    parser.add_argument("--beta", type=float, default=0.0, help="other than 0, C is read, too (default: 0)")
    add_build_dir(parser)
    add_checked(parser)
    parser.add_argument("--out", required=True, type=Path, help="written: rows of counters.csv")
    parser.add_argument("--left-out", required=True, type=Path, help="written: why there are none, or nothing")
    required = REQUIRED in os.environ
    parser.add_argument("--required", action="store_true", default=required, help="fail where there can be no counters")
    options = parser.parse_args()
    entry = catalogue.find(options.variant)
    reason = ""
    rows: list[dict[str, Any]] = []
    if options.checked and any(not row["passed"] for row in read_rows(options.checked, "checks")):
        logger.warning(f"{entry.name} is not profiled: it failed a check")
    else:
        try:
            rows, unknown = profile(entry, options.size, options.build_dir, beta=options.beta)
        except LeftOut as left_out:
            if options.required:
                raise UserError(f"no counters of {entry.name}: {left_out}") from left_out
            reason = str(left_out)
            logger.warning(f"profile left out: {reason}")
        else:
            if unknown:
                reason = f"counters that this ncu or GPU does not know: {', '.join(unknown)}"
                logger.warning(reason)
    write_text(options.left_out, reason)
    write_rows(options.out, "counters_with_beta" if options.beta else "counters", rows)


if __name__ == "__main__":
    run_command(main)
