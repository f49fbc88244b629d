"""Measures one variant of one experiment beside its baseline, in one process.

    python -m experiments.stages.bench sgemm_ladder sgemm_warptile --build-dir results/build/sm_90a \
        --windows windows.csv --samples samples.parquet --checks checks.csv

At each size, on each kind of data that the experiment names: choose the fastest call of cuBLAS; warm up until steady; a
window in which variant and baseline take turns (which comes first in a pair is drawn), for time, clock and share; the
same outputs checked where they lie; a window of the variant alone for power; and, within the experiment's budget,
worklog C's own protocol. What was measured is written as it came; `python -m analysis.bench` makes bench.csv of it.

Clocks are left as they are, unless `--regime locked` says to lock them through NVML while it runs
(`experiments.gpu.clocks`). A sample whose SM clock, by the stamps around it, is then more than 1% off is rejected; a
size at which too few are left is left out, and `--left-out` says why.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from contracts import UserError, read_rows, run_command, write_rows, write_text
from contracts.samples import GAP, NO_CLOCK, OFF_TARGET, samples_table, write_samples
from experiments import declarations
from experiments.command_line import add_build_dir, add_checked, add_variant
from experiments.gpu import clocks, discovery, power
from experiments.gpu.device import Gpu
from experiments.gpu.lease import lease
from experiments.gpu.libraries import how_called, import_early, load_gemm
from experiments.gpu.timing import Samples, Stopwatch, Work, duration_us, warm_up
from experiments.stages import verify
from experiments.stages.turns import LEAST_KEPT, ROLES, Matrices, Turns, check_output, take_turns
from kernels import catalogue
from kernels.catalogue import Dispatcher, Entry, Problem

logger = logging.getLogger(__name__)

AS_FOUND = "back to back until steady, clocks as found"


@dataclass(frozen=True)
class Taken:
    """What was measured at one size on one kind of data."""

    problem: Problem
    data: str
    seed: int
    turns: Turns
    checked: dict[str, verify.CheckResult]
    power: power.Window
    worklog: Samples | None = None
    memory: str | None = None  # why the memory clock, if locked, did not stay
    baseline_call: str | None = None  # which of its library's calls the baseline was


class Bench:
    """Measures one variant and its baseline on the leased GPU; `target`: what its clocks are locked at, if they are."""

    def __init__(
        self,
        experiment: declarations.Experiment,
        entry: Entry,
        build_dir: Path,
        handle: object,
        target: clocks.Target | None = None,
    ) -> None:
        self.experiment, self.entry, self.handle, self.target = experiment, entry, handle, target
        self.gpu = Gpu(build_dir)
        entries = dict(zip(ROLES, (entry, catalogue.load()[entry.baseline]), strict=True))
        loaded = {one.name: load_gemm(self.gpu, one) for one in entries.values()}  # a baseline beside itself: once
        self.gemms = {role: loaded[one.name] for role, one in entries.items()}
        worklog = max((worklog_replays(n) for n in experiment.sizes), default=0)
        most = max(2 * experiment.samples, worklog if experiment.worklog_budget_s else 0)
        self.stopwatch = Stopwatch(self.gpu, most, experiment.flush_l2)

    def measure(self, n: int, data: str) -> Taken:
        """Measure m = n = k = `n` on inputs of this kind."""
        experiment, gpu = self.experiment, self.gpu
        problem = Problem.square(n, self.entry.b_layout)
        matrices = Matrices.fill(gpu, problem, self.entry.dtype, data)
        works = {role: matrices.bind(gemm, role) for role, gemm in self.gemms.items()}
        variant, baseline = works.values()

        def pair() -> None:
            variant()
            baseline()

        pair_us = warm_up(gpu, pair, experiment.warmup_s, chunk_s=min(0.1, max(experiment.warmup_s, 0.1) / 2))
        for role in works:  # what is checked below was written by timed runs
            matrices.poison(gpu, role)
        least = min(experiment.least_samples, experiment.samples)
        pairs = int(np.clip(experiment.window_s * 1e6 / pair_us, least, experiment.samples))
        turns = take_turns(self.stopwatch, works, pairs, matrices.seed)
        memory = clocks.memory_off_target(self.handle, self.target) if self.target else None
        checked = {role: check_output(gpu, matrices, role) for role in works}
        window = power.watch(gpu, self.handle, variant, duration_us(gpu, variant), experiment.power_s)
        worklog, call = self._worklog(n, variant), how_called(self.gemms["baseline"], problem)
        return Taken(problem, data, matrices.seed, turns, checked, window, worklog, memory, call)

    def _worklog(self, n: int, work: Work) -> Samples | None:
        replays = worklog_replays(n)
        expected = replays * (duration_us(self.gpu, work, 3) + self.gpu.l2_bytes / 3e6)
        if expected > self.experiment.worklog_budget_s * 1e6:
            return None
        return self.stopwatch.run([work] * replays)


@dataclass
class Record:
    """The rows of one variant in one experiment and clock regime."""

    experiment: declarations.Experiment
    entry: Entry
    target: clocks.Target | None = None
    windows: list[dict[str, Any]] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    samples: list[pa.Table] = field(default_factory=list)

    def add(self, taken: Taken) -> str:
        """Append the rows of one size on one kind of data; what came of it, in words.

        Raises `UserError` where launch gaps leave too few samples.
        """
        self.checks += [self._check(taken, role) for role in ROLES]
        reasons = why_rejected(taken.turns.samples, self.target)
        self.samples.append(self._samples(taken, "interleaved", taken.turns.samples, taken.turns.roles, reasons))
        if taken.worklog:
            why = why_rejected(taken.worklog, self.target)
            self.samples.append(self._samples(taken, "worklog", taken.worklog, ROLES[0], why))
        passed = all(result.passed for result in taken.checked.values())
        left_out = None
        if passed and self.target:
            left_out = taken.memory or off_target(taken.turns, reasons, self.target, taken.power.throttle_reasons)
        self.windows.append(self._window(taken, passed, left_out))
        if not passed:
            return "FAILED its check after timing"  # a wrong result has no speed
        if left_out:
            return f"left out: {self._problem(self.windows[-1])}: {left_out}"
        ours, theirs = (taken.turns.of(role, reasons == "").time_us for role in ROLES)
        if min(len(ours), len(theirs)) < LEAST_KEPT:
            spoilt, unknown = (int((reasons == reason).sum()) for reason in (GAP, NO_CLOCK))
            raise UserError(
                f"{self.entry.name} at n = {taken.problem.n}: launch gaps spoilt {spoilt} of {len(reasons)} samples, "
                f"and the clock of {unknown} is not known; leave the host's processor to the measurement"
            )
        middle = float(np.median(ours))
        share = float(np.median(theirs)) / middle
        by = f" ({taken.baseline_call})" if taken.baseline_call else ""
        return f"{taken.problem.flop / middle / 1e6:.2f} TFLOP/s, {share:.1%} of {self.entry.baseline}{by}"

    @property
    def left_out(self) -> list[str]:
        """The sizes that were left out, each with why."""
        return [f"{self._problem(row)}: {row['left_out']}" for row in self.windows if row["left_out"]]

    def _problem(self, row: dict[str, Any]) -> str:
        return f"{self.entry.name}, n = {row['n']}{self._of_data(row['data'])}"

    def _of_data(self, data: str) -> str:
        return f", {data}" if len(self.experiment.data) > 1 else ""

    def _head(self, taken: Taken) -> dict[str, Any]:
        p = taken.problem
        regime = "locked" if self.target else "unlocked"
        key = {"experiment": self.experiment.name, "variant": self.entry.name, "m": p.m, "n": p.n, "k": p.k}
        return {**key, "regime": regime, "data": taken.data}

    def _window(self, taken: Taken, passed: bool, left_out: str | None) -> dict[str, Any]:
        return {
            **self._head(taken),
            "dtype": self.entry.dtype,
            "mechanism": self.target.mechanism if self.target else AS_FOUND,
            "locked_sm_mhz": self.target.sm_mhz if self.target else None,
            "baseline": self.entry.baseline,
            "baseline_call": taken.baseline_call,
            "seed": taken.seed,
            "passed": passed,
            "left_out": left_out,
            "power_w": taken.power.power_w,
            "power_run_us": taken.power.run_us,
            "temperature_c": taken.power.temperature_c,
            "throttle_reasons": taken.power.throttle_reasons,
            "source_hash": self.entry.source_hash,
        }

    def _samples(self, taken: Taken, window: str, samples: Samples, roles: Any, reasons: np.ndarray) -> pa.Table:
        columns = {"window": window, "role": roles, "index": np.arange(len(reasons)), "time_us": samples.time_us}
        columns |= {"sm_clock_mhz": samples.sm_clock_mhz.astype(np.float32)}
        columns |= {"kept": reasons == "", "reason": np.where(reasons == "", np.array(None), reasons)}
        return samples_table(len(reasons), self._head(taken) | columns)

    def _check(self, taken: Taken, role: str) -> dict[str, Any]:
        p, result = taken.problem, taken.checked[role]
        timed = self.entry if role == "variant" else catalogue.load()[self.entry.baseline]
        beside = "" if role == "variant" else f" beside {self.entry.name}"
        return {
            "variant": timed.name,
            "source_hash": timed.source_hash,
            "device": "gpu",
            "case": f"after timing {self.experiment.name}{beside}{self._of_data(taken.data)}",
            **{key: getattr(p, key) for key in ("m", "n", "k", "lda", "ldb", "ldc", "alpha", "beta")},
            "seed": taken.seed,
            "worst_error_share": result.worst,
            "passed": result.passed,
            "detail": result.detail,
        }


def why_rejected(samples: Samples, target: clocks.Target | None) -> np.ndarray:
    """Of each sample why it does not count, "" where it does; with locked clocks, one more than 1% off does not."""
    reasons = np.full(len(samples.time_us), "", f"<U{max(map(len, (GAP, NO_CLOCK, OFF_TARGET)))}")
    if target:
        reasons[~clocks.on_target(samples.sm_clock_mhz, target.sm_mhz)] = OFF_TARGET
    reasons[np.isnan(samples.sm_clock_mhz)] = NO_CLOCK
    reasons[~samples.kept] = GAP
    return reasons


def off_target(turns: Turns, reasons: np.ndarray, target: clocks.Target, throttle_reasons: str) -> str | None:
    """Why a locked window counts for nothing: of the samples without a launch gap, too few kept the clock.

    None where enough are left of both roles, or where it is launch gaps that left too few.
    """

    def fewest(kept: np.ndarray) -> int:
        return min(int(kept[turns.roles == role].sum()) for role in ROLES)

    no_gap, kept = reasons != GAP, reasons == ""
    if fewest(kept) >= LEAST_KEPT or fewest(no_gap) < LEAST_KEPT:
        return None
    off = no_gap & ~kept
    return (
        f"{int(off.sum())} of {len(off)} samples were more than 1% off the locked {target.sm_mhz} MHz "
        f"(their median: {np.nanmedian(turns.samples.sm_clock_mhz[off]):.0f} MHz; throttle reasons: {throttle_reasons})"
    )


def expected_s(experiment: declarations.Experiment, n: int) -> float:
    """A guess at the seconds that one size takes with one kind of data: fixed windows, and samples at 40 TFLOP/s."""
    pair = 2 * 2 * n**3 / 40e12
    window = max(experiment.window_s, experiment.least_samples * pair)
    return experiment.warmup_s + experiment.power_s + window + 5 * pair


def worklog_replays(n: int) -> int:
    """How often worklog C runs a problem of size n (seed 003, section 2)."""
    return int(800000 / n)


def run(options: argparse.Namespace) -> Record:
    """Measure every size on every kind of data."""
    experiment = declarations.load(options.experiment, options.sizes_step)
    entry = catalogue.find(options.variant)
    if entry.name not in experiment.variants:
        raise UserError(f"{entry.name} takes no part in {experiment.name}; it has {', '.join(experiment.variants)}")
    failed = [row for row in read_rows(options.checked, "checks") if not row["passed"]] if options.checked else []
    if failed:
        logger.warning(f"{entry.name} is not timed: it failed {len(failed)} checks, first: {failed[0]['case']}")
        return Record(experiment, entry)
    import_early(entry)
    with contextlib.ExitStack() as stack:
        stack.enter_context(lease())
        handle = stack.enter_context(discovery.nvml())
        target = None
        if options.regime == "locked":
            target = stack.enter_context(clocks.locked(handle, options.sm_mhz, options.memory_mhz))
        bench, record = Bench(experiment, entry, options.build_dir, handle, target), Record(experiment, entry, target)
        start = time.monotonic()
        problems = [(n, data) for n in experiment.sizes for data in experiment.data]
        expected = [expected_s(experiment, n) for n, _ in problems]
        for i, (n, data) in enumerate(problems):
            result = record.add(bench.measure(n, data))
            left = (time.monotonic() - start) * sum(expected[i + 1 :]) / sum(expected[: i + 1])
            on = f", {data}" if len(experiment.data) > 1 else ""
            by = f", by {entry.pick(Problem.square(n, entry.b_layout)).name}" if isinstance(entry, Dispatcher) else ""
            logger.info(
                f"{experiment.name}: {entry.name}{by}, n = {n}{on} ({i + 1}/{len(problems)}): {result}; "
                f"about {left:.0f} s left"
            )
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure one variant of one experiment.")
    parser.add_argument("experiment", help="name of a file in experiments/")
    add_variant(parser)
    add_build_dir(parser)
    add_checked(parser)
    parser.add_argument("--sizes-step", type=int, help="step of swept sizes")
    parser.add_argument("--regime", choices=["unlocked", "locked"], default="unlocked", help="locked: sets the clocks")
    clocks.lock_arguments(parser)
    parser.add_argument("--windows", required=True, type=Path, help="written: rows of windows.csv")
    parser.add_argument("--checks", required=True, type=Path, help="written: rows of checks.csv")
    parser.add_argument("--samples", required=True, type=Path, help="written: samples.parquet")
    parser.add_argument("--left-out", type=Path, help="written: why sizes were left out, or nothing")
    options = parser.parse_args()
    record = run(options)
    write_rows(options.checks, "checks", record.checks)
    write_samples(options.samples, record.samples)
    if options.left_out:
        write_text(options.left_out, "\n".join(record.left_out))
    write_rows(options.windows, "windows", record.windows)


if __name__ == "__main__":
    run_command(main)
