"""Runs a command and reports how much of its time the GPU was busy, as NVML says.

    python -m experiments.gpu.gpu_utilization --out results/h200/gpu_utilization.json snakemake --cores 8 all

NVML's utilization is the share of its last sampling period (a sixth of a second to a second) in which any kernel ran.
It is read five times a second; the mean over the command's time is written, of each visible GPU. The exit code is the
command's.
"""

from __future__ import annotations

import argparse
import datetime
import logging
import shlex
import subprocess
import time
from pathlib import Path

import pynvml

from contracts import UserError, run_command, write_json
from experiments.gpu import discovery

logger = logging.getLogger(__name__)

PERIOD_S = 0.2


def watch(command: list[str]) -> tuple[int, float, list[list[int]]]:
    """Exit code, seconds, and NVML's percentages of each visible GPU while `command` ran."""
    try:
        pynvml.nvmlInit()
        handles = [discovery.physical(handle) for handle in discovery.visible_handles()]
    except pynvml.NVMLError as error:
        raise UserError(
            f"no GPU to watch: NVML says {error}; run the command without experiments.gpu.gpu_utilization"
        ) from error
    if not handles:
        raise UserError("no GPU to watch: none is visible; run the command without experiments.gpu.gpu_utilization")
    seen: list[list[int]] = [[] for _ in handles]
    start = time.monotonic()
    try:
        process = subprocess.Popen(command)
    except OSError as error:
        raise UserError(f"{command[0]}: {error.strerror}; accepted: a program and its arguments") from error
    while True:
        try:
            code = process.wait(PERIOD_S)
            break
        except subprocess.TimeoutExpired:
            pass
        except KeyboardInterrupt:  # the command has had it, too, and ends in its own way
            continue
        for handle, percentages in zip(handles, seen, strict=True):
            try:
                percentages.append(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
            except pynvml.NVMLError as error:
                process.wait()
                raise UserError(f"NVML does not tell the utilization of this GPU: {error}") from error
    return code, time.monotonic() - start, seen


def main() -> int:
    parser = argparse.ArgumentParser(description="How much of a command's time the GPU was busy.")
    parser.add_argument("--out", type=Path, help="written: gpu_utilization.json")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND ...", help="what to run")
    options = parser.parse_args()
    if not options.command:
        raise UserError("no command; accepted: python -m experiments.gpu.gpu_utilization [--out FILE] COMMAND ...")
    start = datetime.datetime.now(datetime.UTC)
    code, seconds, seen = watch(options.command)
    shares = [sum(percentages) / len(percentages) / 100 if percentages else None for percentages in seen]
    busy = ", ".join(f"{share:.0%}" for share in shares if share is not None)
    logger.info(f"{seconds:.0f} s, exit code {code}; GPU busy {busy or 'unknown: it ended too soon'}")
    if options.out:
        document = {
            "command": shlex.join(options.command),
            "date": start.date().isoformat(),
            "exit_code": code,
            "wall_s": round(seconds, 1),
            "busy_share": [None if share is None else round(share, 4) for share in shares],
            "readings": len(seen[0]),
        }
        write_json(options.out, "gpu_utilization", document)
    return code


if __name__ == "__main__":
    run_command(main)
