"""Reads the hardware counters of catalogue entries with Nsight Compute, which starts once for many
of them.

    python -m experiments.stages.profile sgemm_warptile sgemm_naive --problem 4096 --build-dir results/build/sm_90a \
        --store measured --out manifest.json

An entry that fails costs its own counters; ncu starts again for those after it. Clocks are left
alone (--clock-control none). The .ncu-rep is read with the `ncu_report` module that ships with ncu;
its text output changes between versions. Without ncu, or without the permission, nothing is stored,
and the manifest says why and what would help; it names counters that are unknown here, too.
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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import contracts
from contracts import UserError, load_yaml, run_command, scratch, validated
from contracts.files import checksum
from contracts.rows import Counters, CountersWithBeta, MeasuredRows
from experiments.command_line import (
    add_build_dir,
    add_checked,
    add_manifest,
    add_problems,
    add_variants,
)
from experiments.gpu.session import UNKNOWN
from experiments.stages import store
from experiments.stages.machine_code import code_of
from experiments.stages.store import Key, Measurement
from kernels.catalogue import Baseline, Entry
from kernels.problem import ProblemSpec

logger = logging.getLogger(__name__)

LEAST_VERSION = (2022, 3)  # the first that knows Hopper and Ada
# the kernel of harness.cu that stands between a library's launches and its neighbours'
MARK = "next_entry"
ENTRIES = 32  # for which ncu starts once: what a run that is killed loses
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
    return [
        metric["ncu"] for group in groups.values() for metric in group.values() if "ncu" in metric
    ]


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
    raise LeftOut(
        f"no ncu_report module next to {ncu.name}; remedy: a full install of Nsight Compute"
    )


def read_report(folder: Path, path: Path, names: Iterable[str]) -> list[dict[str, Any]]:
    """The kernels of a report with these counters, as `experiments.gpu.read_report` prints them in
    its own process.
    """
    command = [sys.executable, "-m", "experiments.gpu.read_report", str(folder), str(path), *names]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise UserError(f"{path}: not a report that this ncu's module can read: {last}")
    kernels: list[dict[str, Any]] = json.loads(done.stdout)
    return kernels


Kernels = list[dict[str, Any]]
Counter = Counters | CountersWithBeta


def marked(entries: Sequence[Entry]) -> list[bool]:
    """Before which entries `profile_target` launches the mark.

    A kernel or dispatcher of ours launches one kernel, a library nobody knows how many. ncu spends
    as many passes on a mark as on a kernel, so there is none between two of ours.
    """
    library = [isinstance(entry, Baseline) for entry in entries]
    return [False, *(one or other for one, other in pairwise(library))]


def of_entries(
    kernels: Kernels, entries: Sequence[Entry], then_failed: bool
) -> list[Kernels] | None:
    """The kernels of a report, for each entry that ran; None where their numbers do not tell whose
    they are.

    `then_failed`: a further entry failed, whose launches may follow.
    """
    if not entries or (len(entries) == 1 and not then_failed):
        return [kernels][: len(entries)]
    sections: list[Kernels] = [[]]
    for kernel in kernels:
        if kernel["name"] == MARK:
            sections.append([])
        else:
            sections[-1].append(kernel)
    starts = [place for place, mark in enumerate(marked(entries)) if mark]
    groups: list[Kernels] = []
    for (start, end), section in zip(pairwise([0, *starts, len(entries)]), sections, strict=False):
        if isinstance(entries[start], Baseline):
            groups.append(section)
        elif len(section) == end - start or (then_failed and end == len(entries)):
            groups += [[kernel] for kernel in section[: end - start]]
    return groups if len(groups) == len(entries) else None


def longest_kernel(
    kernels: Kernels, entry: Entry, problem: ProblemSpec, names: list[str], build_dir: Path
) -> list[Counter]:
    """Return the counters of the longest of an entry's kernels, as rows; one that it lacks has
    none.
    """
    action = max(kernels, key=lambda kernel: kernel["metrics"]["gpu__time_duration.sum"][0])
    shared = {**problem.row, "kernel": action["name"], "code_hash": code_of(entry, build_dir)}
    rows: list[Counter] = []
    for name in names:
        if name not in action["metrics"]:
            continue
        value, unit = action["metrics"][name]
        read = {"variant": entry.name, "metric": name, "value": value, "unit": unit, **shared}
        # Counters of problems where C is read are a table of their own.
        model: type[Counter] = CountersWithBeta if problem.beta else Counters
        beta = {"beta": problem.beta} if problem.beta else {}
        rows.append(validated(read | beta, model, f"{entry.name}: ncu's {name}"))
    return rows


@dataclass(frozen=True)
class Counted:
    """The counters of one entry: rows of counters.csv, and those that this ncu or GPU does not
    know.
    """

    rows: list[Counter]
    unknown: list[str]
    session: str = UNKNOWN


@dataclass(frozen=True)
class Session:
    """ncu, and the problem on which it is to count.

    Raises `LeftOut` where counters cannot be read here.
    """

    problem: ProblemSpec
    build_dir: Path
    store: Path | None = None
    ncu: Path = field(default_factory=lambda: find_ncu())
    names: list[str] = field(default_factory=lambda: metric_names())

    def __post_init__(self) -> None:
        check_version(self.ncu)
        report_folder(self.ncu)

    def count(
        self, entries: Sequence[Entry], named: Sequence[str] = ()
    ) -> Iterator[tuple[Entry, Counted | str]]:
        """Each entry with its counters, or with why it has none, as they come.

        ncu starts once for `ENTRIES` of them, or for those that are left when one has failed.
        `named`: arguments that name the first to `experiments.stages.profile_target`, if it is not
        the catalogue's. Raises `LeftOut`.
        """
        left = list(entries)
        while left:
            batch = left[:ENTRIES]
            if not (results := self._started(batch, named)):
                raise LeftOut(
                    f"ncu counted nothing of {batch[0].name}; remedy: an Nsight Compute that knows this GPU"
                )
            yield from zip(batch, results, strict=False)
            left = left[len(results) :]

    def _started(self, entries: list[Entry], named: Sequence[str]) -> list[Counted | str]:
        """The results of the first entry, and of those after it until one fails."""
        first, *then = entries
        command = ["-m", "experiments.stages.profile_target", *(named or [first.name])]
        command += [
            "--problem",
            str(self.problem),
            "--build-dir",
            str(self.build_dir),
        ]
        command += ["--then", *(entry.name for entry in then)] if then else []
        command += ["--store", str(self.store)] if self.store else []
        names, unknown = list(self.names), list[str]()
        with scratch() as folder:
            report, log = folder / "report.ncu-rep", folder / "done"
            while True:
                log.unlink(missing_ok=True)
                target = [*command, "--done", str(log)]
                there, output = launched(
                    self.ncu, names, report, target, "--target-processes", "all"
                )
                if there or not (refused := named_in_errors(names, output)):
                    break
                names, unknown = [name for name in names if name not in refused], unknown + refused
            done = (
                [json.loads(line) for line in log.read_text().splitlines()] if log.is_file() else []
            )
            if not report.is_file():  # what ran before the one that failed is counted without it
                before = (
                    self._started(entries[: len(done)], named)
                    if 0 < len(done) < len(entries)
                    else []
                )
                return [*before, explain(output, entries[len(before)])]
            try:
                kernels = read_report(report_folder(self.ncu), report, names)
            except UserError as error:
                raise LeftOut(
                    f"{error}; remedy: one installation of Nsight Compute on PATH, whole"
                ) from error
        ran = entries if there else entries[: len(done)]
        if (groups := of_entries(kernels, ran, then_failed=not there)) is None:
            # one alone has all that there is
            return self._started(entries[: len(entries) // 2], named)
        found: list[Counted | str] = []
        for entry, one, group in zip(ran, done or [{}], groups, strict=False):
            rows = (
                longest_kernel(group, entry, self.problem, names, self.build_dir) if group else []
            )
            read = {row.metric for row in rows}
            missing = unknown + [name for name in names if name not in read]
            found.append(Counted(rows, missing, one.get("session", UNKNOWN)))
        if len(found) < len(entries) and not there:
            found.append(explain(output, entries[len(found)]))
        return found


def profile(
    entry: Entry, problem: ProblemSpec, build_dir: Path, named: Sequence[str] = ()
) -> tuple[list[Counter], list[str]]:
    """The counters of one entry (see `Session`): its rows, and the counters that this ncu or GPU
    does not know.

    Raises `LeftOut` where counters cannot be read here, `UserError` where the kernel's own process
    failed.
    """
    ((_, result),) = Session(problem, build_dir).count([entry], named)
    if isinstance(result, str):
        raise UserError(result)
    return result.rows, result.unknown


def launched(
    ncu: Path, metrics: Sequence[str], report: Path, command: Sequence[str], *options: str
) -> tuple[bool, str]:
    """Run this Python with `command` under ncu, clocks left alone: whether there is a `report`, and
    what was said.

    The command turns profiling on where it begins, and holds the GPU itself: what ncu does before
    needs none. ncu lets one profiler onto a system at a time, by a lock in TMPDIR; here each has a
    GPU of its own.
    """
    whole = [str(ncu), "--clock-control", "none", "--profile-from-start", "off", *options]
    whole += [
        "--metrics",
        ",".join(metrics),
        "--export",
        str(report.with_suffix("")),
        sys.executable,
        *command,
    ]
    own = os.environ | {"TMPDIR": str(report.parent)}
    done = subprocess.run(whole, capture_output=True, text=True, env=own)
    return not done.returncode and report.is_file(), done.stdout + done.stderr


def under_ncu(command: Sequence[str], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """The launches of this Python with `command`, as `experiments.gpu.read_report` prints them;
    caches are not flushed.

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
    """Raises `LeftOut` for an ncu older than `LEAST_VERSION`; one that does not say its version is
    tried.
    """
    done = subprocess.run([str(ncu), "--version"], capture_output=True, text=True)
    found = re.search(r"Version (\d+)\.(\d+)", done.stdout)
    if found and (version := (int(found[1]), int(found[2]))) < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        raise LeftOut(
            f"ncu {version[0]}.{version[1]} is too old; remedy: Nsight Compute {least} or newer"
        )


def named_in_errors(names: list[str], output: str) -> list[str]:
    """The counters that ncu complains of."""
    errors = " ".join(
        line for line in output.splitlines() if line.startswith(("==ERROR==", "==WARNING=="))
    )
    return [
        name for name in names if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.]*\w)", errors)
    ]


def explain(output: str, entry: Entry) -> str:
    """What a failure of ncu means for this kernel.

    Raises `LeftOut` for what is this machine's fault.
    """
    if "ERR_NVGPUCTRPERM" in output:
        raise LeftOut(PERMISSION)
    ours = [line for line in output.splitlines() if line.startswith("error:")]
    ncus = [line for line in output.splitlines() if "==ERROR==" in line]
    if ncus and not ours and "application" not in ncus[-1]:
        raise LeftOut(
            f"ncu: {ncus[-1].replace('==ERROR==', '').strip()}; remedy: an Nsight Compute that knows this GPU"
        )
    lines = ours or ncus or output.splitlines() or ["no message"]
    return f"ncu failed on {entry.name}: {lines[-1].strip()}"


def measured(
    entries: list[Entry], session: Session, kept: store.Store
) -> list[tuple[Entry, Measurement]]:
    """Return the counters of each entry, stored or read now.

    Raises `LeftOut` where there can be none, and `UserError` with why an entry has none.
    """

    def fingerprint(entry: Entry) -> store.Fingerprint:
        return store.fingerprint_of(entry, session.build_dir) | {
            "metrics": checksum(" ".join(session.names).encode())[:16]
        }

    def measure(
        todo: list[Entry], _: dict[Key, Measurement]
    ) -> Iterator[tuple[Entry, Measurement | str]]:
        for entry, result in session.count(todo):
            if isinstance(result, str):
                yield entry, result
                continue
            unknown = ", ".join(result.unknown)
            note = f"counters that this ncu or GPU does not know: {unknown}" if unknown else ""
            rows = MeasuredRows(
                counters=[row for row in result.rows if isinstance(row, Counters)],
                counters_with_beta=[r for r in result.rows if isinstance(r, CountersWithBeta)],
            )
            yield entry, Measurement(fingerprint(entry), result.session, rows, note)

    return store.run_kept(
        kept,
        entries,
        lambda entry: Key("profile", entry.name, str(session.problem)),
        lambda entry: fingerprint(entry).__eq__,
        measure,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Read hardware counters with Nsight Compute.")
    add_variants(parser)
    add_problems(parser, "whose counters are read", required=True)
    add_build_dir(parser)
    add_manifest(parser)
    add_checked(parser)
    required = REQUIRED in os.environ
    parser.add_argument(
        "--required",
        action="store_true",
        default=required,
        help="fail where there can be no counters",
    )
    options = parser.parse_args()
    kept = store.Store(options.store)
    entries = [options.catalogue.find(name) for name in options.variants]
    failed_checks = store.failed_checks(kept, options.checked)
    for entry in entries:
        if entry.name in failed_checks:
            logger.warning(f"{entry.name} is not profiled: it failed a check")
    entries = [entry for entry in entries if entry.name not in failed_checks]
    measurements, failed = list[Measurement](), list[str]()
    try:
        for problem in options.problem:
            session = Session(problem, options.build_dir, options.store)
            try:
                measurements += [stored for _, stored in measured(entries, session, kept)]
            except UserError as error:
                failed.append(str(error))
    except LeftOut as left_out:
        if options.required:
            raise UserError(
                f"no counters of {', '.join(options.variants)}: {left_out}"
            ) from left_out
        reasons = [str(left_out)]
        logger.warning(f"profile left out: {left_out}")
    else:
        if failed:
            raise UserError("; ".join(failed))
        reasons = list(dict.fromkeys(stored.note for stored in measurements if stored.note))
        for reason in reasons:
            logger.warning(reason)
    store.write_manifest(options.out, measurements, left_out={"profile": reasons})


if __name__ == "__main__":
    run_command(main)
