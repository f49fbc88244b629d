"""`ptxsim exec` and `ptxsim nvcc`."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from .. import gpus
from ..errors import EMULATOR_FAILED, PtxsimError
from ..machine import faults
from ..ptx.compiler import tool
from ..ptx.sources import require_writable, write_whole
from . import build, elf, supervisor
from .options import ORDERS, Options, add_options, number, whole
from .options import TYPES as COMMON
from .records import LaunchRecord, counted, junit, load, sarif, short, table

# Records of these kinds are errors, in addition to faults.
ERRORS = ("api_error", "unsupported", "host_fault", "lost", "internal")
# The binary has machine code and PTX.
GENCODE = "arch=compute_{0},code=[sm_{0},compute_{0}]"
INCLUDE = Path(__file__).parent / "include"
ARCHITECTURE = ("-arch", "--gpu-architecture", "-gencode", "--generate-code", "-code", "--gpu-code")


TYPES = COMMON | {"NAME": gpus.find, "CODE": whole(0, 255), "SECONDS": number(0.001, 1e9)}
OPTIONS = f"""
--gpu NAME              the device that the program sees: {", ".join(gpus.GPUS)} (default: %(default)s)
--report FILE           all launches, with counters and faults, as JSON
--junit FILE            a test for each kernel, as JUnit's XML
--sarif FILE            a result for each fault, as SARIF
--leak-check            note memory that was allocated and not freed when the program ends
--only --kernel-name PATTERN...  check and count only these kernels ('sgemm*', kernel_substring=sgemm); the others run
                        all the same
--skip-launches N       do not check and count the first N
--once                  check and count the first launch of each kernel and shape; later ones only execute (with
                        --sample, in part), or not even that where they would change nothing: the end of the report
                        says which
{ORDERS.strip()}
--sample COUNT          run only COUNT blocks of larger grids and predict the counters; the program's results are then
                        incomplete
--no-checks             look for no races, unwritten memory and missed barriers
--annotate KERNEL       print its source, with the costs of its last launch next to the lines
--bounds KERNEL         print the minimum cycles that each resource of the device needs for its last launch
--limit SECONDS         end a launch that takes longer to emulate
--error-exitcode CODE   the exit code if there were faults, whatever the program's is
--notes-exitcode CODE   the exit code if that would be 0 and there were notes
--log-file FILE         write the report there instead of to standard error
-q --quiet              report faults and errors only
"""


def add(commands: Any) -> None:
    """Add `exec` and `nvcc` to the subcommands of `ptxsim`."""
    parser = commands.add_parser(
        "exec",
        allow_abbrev=False,  # The program's own options may begin as ptxsim's do.
        help="run a CUDA program as it is, without a GPU: each launch is emulated, checked and counted",
        description="Runs a CUDA program (nvcc -cudart shared -lineinfo) without a GPU; the report goes to standard "
        "error. Exit code: the program's; 1 if that is 0 and there were faults; 2 if it cannot be run; "
        "3 if the emulator itself failed.",
    )
    add_options(parser, OPTIONS, TYPES, gpu="h100", skip_launches=0, orders=1)
    faults.add_options(parser, "end each launch with its first fault, as a launch that fails")
    parser.add_argument(
        "--destroy-on-device-error",
        choices=("context", "kernel"),
        default="context",
        help="what a fatal fault ends: the context, so that later calls fail as on a device (default), or the kernel",
    )
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the program's own")
    parser.set_defaults(act=execute)
    compiler = commands.add_parser(
        "nvcc", help="nvcc, with the flags that exec needs", prefix_chars="\0", add_help=False
    )
    compiler.add_argument("arguments", nargs="*")
    compiler.set_defaults(act=lambda options: nvcc(options.arguments))


def execute(given: argparse.Namespace) -> int:
    """Run the program and report on it.

    The exit code. Raises `PtxsimError` where it cannot be run.
    """
    options = Options(**{field.name: getattr(given, field.name) for field in fields(Options)})
    require_writable(
        [path for path in (given.report, given.junit, given.sarif, given.log_file) if path]
    )
    program = find_program(given.program)
    standins = build.standins()
    require_runnable(program, standins)
    err: int | None = None
    if given.log_file:
        err = os.dup(2)
        try:
            log = os.open(given.log_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        except OSError as error:
            raise PtxsimError(f"cannot write {given.log_file}: {error.strerror}") from None
        os.dup2(log, 2)
        os.close(log)
    try:
        outcome = supervisor.run(program, [given.program, *given.arguments], options, standins, err)
        code = conclude(outcome, options, given)
        sys.stderr.flush()
        return code
    except OSError as error:
        raise PtxsimError(f"cannot write {given.log_file}: {error.strerror}") from None
    finally:
        if err is not None:
            os.dup2(err, 2)
            os.close(err)


def find_program(name: str) -> Path:
    """Find a program as a shell would. Raises `PtxsimError`."""
    if Path(name).suffix in (".cu", ".cuh", ".cpp") and Path(name).is_file():
        out = Path(name).stem
        raise PtxsimError(
            f"{name} is a source: compile it with `ptxsim nvcc -o {out} {name}`, then `ptxsim exec ./{out}`"
        )
    if path := shutil.which(name):
        return Path(path)
    what = "a folder" if Path(name).is_dir() else "no such program"
    raise PtxsimError(f"{name}: {'not executable' if Path(name).is_file() else what}")


def require_runnable(program: Path, standins: Path) -> None:
    """Raise `PtxsimError`, with what to add, for a program that the stand-ins cannot serve."""
    binary = elf.read(program)
    if binary is None:
        # It may be a script: what it starts is checked when it loads a stand-in.
        return
    machine = elf.MACHINES.get(binary.machine, f"machine {binary.machine}")
    if machine != platform.machine():
        raise PtxsimError(f"{program.name}: compiled for {machine}; this is {platform.machine()}")
    runtime = next((name for name in binary.needed if name.startswith("libcudart.so")), None)
    if runtime is None:
        if ".nv_fatbin" in binary.sections and "libcuda.so.1" not in binary.needed:
            raise PtxsimError(
                f"{program.name}: linked with the static CUDA runtime, which talks to the driver alone; link it with "
                "nvcc -cudart shared (ptxsim nvcc does so)"
            )
        return
    if not (standins / runtime).exists():
        here = next(standins.glob("libcudart.so.*")).name
        raise PtxsimError(
            f"{program.name}: needs {runtime}, and the CUDA headers here are those of {here}: compile it with the CUDA "
            "toolkit that is installed here (ptxsim nvcc does so)"
        )
    if binary.rpath:
        raise PtxsimError(
            f"{program.name}: has an RPATH, which precedes LD_LIBRARY_PATH; link it with -Xlinker --enable-new-dtags"
        )


def conclude(outcome: supervisor.Outcome, options: Options, given: argparse.Namespace) -> int:
    """Print the table and the summary of a run, and write its reports. Return its exit code."""
    launches = [load(record) for record in outcome.records if record["kind"] == "launch"]
    faults = sum(len(launch.faults) for launch in launches)
    others = [record for record in outcome.records if record["kind"] in ERRORS]
    say = sys.stderr.write
    sys.stdout.flush()
    for record in outcome.records:
        if record["kind"] in ("annotation", "bounds"):
            say(record["text"])
    if outcome.status > 128:
        with contextlib.suppress(ValueError):
            say(f"ptxsim: the program was ended by {signal.Signals(outcome.status - 128).name}\n")
    for option, wanted, kind in (
        ("--annotate", options.annotate, "annotation"),
        ("--bounds", options.bounds, "bounds"),
    ):
        if wanted and not any(record["kind"] == kind for record in outcome.records):
            names = ", ".join(sorted({launch.title for launch in launches})) or "none"
            say(
                f"ptxsim: {option}: no kernel {wanted!r} was launched and counted; launched: {names}\n"
            )
    for line in report_lines(launches, len(others), options.quiet):
        say(f"{line}\n")
    failed = bool(faults or others)
    for path, content in _reports(outcome, launches, options, given).items():
        try:
            write_whole(path, content)
        except PtxsimError as error:
            say(f"ptxsim: {error}\n")
            failed = True
    sys.stderr.flush()
    if any(record["kind"] == "internal" for record in others):
        return EMULATOR_FAILED
    if failed and given.error_exitcode is not None:
        return int(given.error_exitcode)
    noted = any(record["kind"] == "note" for record in outcome.records)
    if noted and not outcome.status and not failed and given.notes_exitcode is not None:
        return int(given.notes_exitcode)
    return outcome.status or int(failed)


def _reports(
    outcome: supervisor.Outcome,
    launches: list[LaunchRecord],
    options: Options,
    given: argparse.Namespace,
) -> dict[Path, str]:
    """Return what is to be written to the files that --report, --junit and --sarif name."""
    errors = [record["text"] for record in outcome.records if record["kind"] in ERRORS]
    reports: dict[Path, str] = {}
    if given.junit is not None:
        reports[given.junit] = junit(launches, errors)
    if given.sarif is not None:
        reports[given.sarif] = sarif(launches, errors)
    if given.report is not None:
        calls = [record for record in outcome.records if record["kind"] == "library"]
        content = {
            "exit_status": outcome.status,
            "gpu": options.gpu.name,
            "faults": sum(len(launch.faults) for launch in launches),
            "errors": errors,
            "launches": [launch.json() for launch in launches],
            "library_calls": [{k: v for k, v in r.items() if k != "kind"} for r in calls],
            "notes": [record["text"] for record in outcome.records if record["kind"] == "note"],
        }
        reports[given.report] = json.dumps(content, indent=1) + "\n"
    return reports


def report_lines(launches: list[LaunchRecord], others: int, quiet: bool) -> list[str]:
    """Return the table of kernels and the summary; `others`: errors that are no faults of kernels."""
    lines = table(launches) if launches and not quiet else []
    faults = sum(len(launch.faults) for launch in launches)
    sampled = [launch for launch in launches if launch.sampled]
    if sampled:
        run, total = sum(s.blocks_run for s in sampled), sum(math.prod(s.grid) for s in sampled)
        lines.append(
            f"ptxsim: the program's results are incomplete: --sample ran {run:,} of the {total:,} blocks of "
            f"{counted(len(sampled), 'launch', 'launches')}"
        )
    left_out = Counter(short(launch.title) for launch in launches if launch.left_out)
    if left_out:
        each = ", ".join(f"{number:,} of {title}" for title, number in left_out.items())
        lines.append(
            f"ptxsim: --once left out {each}: an earlier launch had the same arguments, and what it read and wrote was "
            "in memory as it left it, so that their results are there"
        )
    if not quiet or faults or others:
        lines.append(f"ptxsim: {summary(launches, faults, others)}")
    return lines


def summary(launches: list[LaunchRecord], faults: int, others: int) -> str:
    """Return the last line: how many launches there were, and how many faults."""
    unchecked = sum(not launch.checked for launch in launches)
    parts = [counted(faults, "fault") if faults else "no faults"]
    if unchecked:
        parts.append(f"{unchecked} not checked")
    if unchecked == len(launches) > 0:
        parts = ["not checked"]
    if others:
        parts.append(counted(others, "other error"))
    kernels = len({launch.kernel for launch in launches})
    of = f" of {counted(kernels, 'kernel')}" if launches else ""
    seconds = sum(launch.seconds for launch in launches)
    return f"{counted(len(launches), 'launch', 'launches')}{of}, {seconds:.2f} s of emulation: {', '.join(parts)}"


def as_gencode(arguments: Sequence[str]) -> list[str]:
    """Replace -arch=sm_90a, for which nvcc 13.0 also compiles for plain compute_90, and
    -arch=native, as there is no GPU.
    """
    text = "\n".join(arguments)
    return re.sub(
        r"^(?:-arch|--gpu-architecture)[=\n](?:sm_(\d+[af])|native)$",
        lambda match: f"-gencode\n{GENCODE.format(match[1] or '90a')}",
        text,
        flags=re.M,
    ).split("\n")


def nvcc(arguments: Sequence[str]) -> int:
    """Run nvcc with what `exec` needs: the shared runtime, line information, PTX. Its exit code."""
    compiler = tool("nvcc")
    added: list[str] = []

    def lacks(*names: str) -> bool:
        return not any(argument.partition("=")[0] in names for argument in arguments)

    if lacks("-cudart", "--cudart"):
        added += ["-cudart", "shared"]
    if lacks("-lineinfo", "--generate-line-info", "-G", "--device-debug"):
        added.append("-lineinfo")
    if lacks("-g", "--debug"):
        added.append("-g")
    if lacks(*ARCHITECTURE):
        added += ["-gencode", GENCODE.format("90a")]
    if lacks("-code", "--gpu-code"):
        arguments = as_gencode(arguments)
    added += [f"-L{path}" for path in (build.standins(), *build.library_folders())]
    headers = ["-Xcompiler", f"-idirafter,{INCLUDE}"] if INCLUDE.is_dir() else []
    return subprocess.run([str(compiler), *added, *headers, *arguments]).returncode
