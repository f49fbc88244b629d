"""Measures one variant of one experiment beside its baseline, in one process.

    python -m experiments.stages.bench sgemm_ladder sgemm_warptile --build-dir results/build/sm_90a \
        --bench bench.csv --samples samples.parquet --checks checks.csv

At each size, on each kind of data that the experiment names: warm up until steady; a window in which variant and
baseline take turns (which comes first in a pair is drawn), from which time, clock and share come; the same outputs
checked where they lie; a window of the variant alone for power; and, within the experiment's budget, worklog C's own
protocol.

Clocks are left as they are, unless `--regime locked` says to lock them through NVML while it runs
(`experiments.gpu.clocks`). A sample whose SM clock, by the stamps around it, is then more than 1% off is rejected; a size
at which too few are left has no row, and `--left-out` says why.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from cuda.bindings import driver

from contracts import UserError, read_rows, run_command, write_rows, write_text
from experiments import declarations
from experiments.gpu import clocks, power
from experiments.gpu.device import Gpu, Memory, cuda
from experiments.gpu.lease import lease
from experiments.gpu.libraries import import_early, load_gemm
from experiments.gpu.timing import Samples, Stopwatch, duration_us, warm_up
from experiments.stages import statistics, verify
from experiments.stages.samples import write_samples
from kernels import catalogue
from kernels.catalogue import Dispatcher, Entry, Problem

T = TypeVar("T")
AS_FOUND = "back to back until steady, clocks as found"
LEAST_KEPT = 5
SAMPLED_ROWS = 8


@dataclass
class Matrices:
    """A, B and the two outputs of one problem on the device; `seed` made A and B, of the kind `data`."""

    a: Memory
    b: Memory
    c: dict[str, Memory]
    seed: int
    data: str


class Bench:
    """One variant and its baseline on the leased GPU; `target` is what its clocks are locked at, if they are."""

    def __init__(
        self,
        experiment: declarations.Experiment,
        entry: Entry,
        build_dir: Path,
        handle: object,
        target: clocks.Target | None = None,
    ) -> None:
        self.experiment, self.entry, self.handle, self.target = experiment, entry, handle, target
        self.baseline = catalogue.load()[entry.baseline]
        self.gpu = Gpu(build_dir)
        self.gemms = {"variant": load_gemm(self.gpu, entry), "baseline": load_gemm(self.gpu, self.baseline)}
        worklog = max((worklog_replays(n) for n in experiment.sizes), default=0)
        most = max(2 * experiment.samples, worklog if experiment.worklog_budget_s else 0)
        self.stopwatch = Stopwatch(self.gpu, most, experiment.flush_l2)
        self.bench: list[dict] = []
        self.checks: list[dict] = []
        self.samples: list[dict] = []
        self.left_out: list[str] = []

    def measure(self, n: int, data: str) -> None:
        """Measure m = n = k = `n` on inputs of this kind and append its rows."""
        experiment = self.experiment
        problem = Problem.square(n)
        matrices = self._matrices(problem, data)
        works = {
            role: gemm.bind(problem, matrices.a.address, matrices.b.address, matrices.c[role].address)
            for role, gemm in self.gemms.items()
        }
        variant, baseline = works["variant"], works["baseline"]

        def pair() -> None:
            variant()
            baseline()

        pair_us = warm_up(self.gpu, pair, experiment.warmup_s, chunk_s=min(0.1, max(experiment.warmup_s, 0.1) / 2))
        for memory in matrices.c.values():  # what is checked below was written by timed runs
            self.gpu.fill(memory, self.entry.dtype, n * n, 0, "nans")
        least = min(experiment.least_samples, experiment.samples)
        pairs = int(np.clip(experiment.window_s * 1e6 / pair_us, least, experiment.samples))
        order = drawn_order(list(works), pairs, matrices.seed)
        samples = self.stopwatch.run([works[role] for role in order])
        memory = clocks.memory_off_target(self.handle, self.target) if self.target else None
        roles = np.array(order)
        verdicts = {role: self._verdict(problem, matrices, role) for role in works}
        window = power.watch(self.gpu, self.handle, variant, duration_us(self.gpu, variant), experiment.power_s)
        worklog = self._worklog(n, variant)
        self._append(problem, matrices, samples, roles, verdicts, window, worklog, memory)

    def _matrices(self, p: Problem, data: str) -> Matrices:
        dtype, size = self.entry.dtype, verify.NUMPY_DTYPES[self.entry.dtype].itemsize
        seed = int(np.random.SeedSequence().entropy % 2**31)
        a, b = Memory(p.m * p.k * size), Memory(p.k * p.n * size)
        self.gpu.fill(a, dtype, p.m * p.k, seed, data)
        self.gpu.fill(b, dtype, p.k * p.n, seed + 1, data)
        return Matrices(a, b, {role: Memory(p.m * p.n * size) for role in self.gemms}, seed, data)

    def _worklog(self, n: int, work: Any) -> Samples | None:
        replays = worklog_replays(n)
        expected = replays * (duration_us(self.gpu, work, 3) + self.gpu.l2_bytes / 3e6)
        if expected > self.experiment.worklog_budget_s * 1e6:
            return None
        return self.stopwatch.run([work] * replays)

    def _verdict(self, p: Problem, matrices: Matrices, role: str) -> verify.Verdict:
        """Rows of C and all of C by Freivalds' test, in float64 on the device."""
        gpu, entry = self.gpu, self.entry if role == "variant" else self.baseline
        kind = "fp32" if entry.dtype == "tf32" else entry.dtype
        a, b, c = matrices.a.address, matrices.b.address, matrices.c[role].address
        rng = np.random.default_rng()
        rows = rng.choice(p.m, min(SAMPLED_ROWS, p.m), replace=False).astype(np.int32)
        row_numbers, signs = gpu.upload(rows), gpu.upload(rng.choice([-1.0, 1.0], p.n))

        def matvec(matrix: int, shape: tuple[int, int], x: int, mode: int) -> Memory:
            out = Memory(shape[0] * 8)
            i32 = np.int32
            gpu.harness(
                f"matvec_{kind}", shape[0], 256, matrix, i32(shape[1]), i32(shape[1]), x, i32(mode), out.address
            )
            return out

        def exact_rows(mode: int) -> np.ndarray:
            out, i32 = Memory(len(rows) * p.n * 8), np.int32
            gpu.harness(
                f"row_products_{kind}",
                (-(-p.n // 128), len(rows)),
                128,
                a,
                i32(p.lda),
                b,
                i32(p.ldb),
                i32(p.n),
                i32(p.k),
                row_numbers.address,
                i32(mode),
                out.address,
            )
            return gpu.download(out, np.float64, len(rows) * p.n).reshape(len(rows), p.n)

        plain, absolute, square = 0, 1, 2
        bx, b_sums = (matvec(b, (p.k, p.n), x, mode) for x, mode in ((signs.address, plain), (0, absolute)))
        abx, ab_sums = matvec(a, (p.m, p.k), bx.address, plain), matvec(a, (p.m, p.k), b_sums.address, absolute)
        cx, norms = matvec(c, (p.m, p.n), signs.address, plain), matvec(c, (p.m, p.n), 0, square)
        vectors = [gpu.download(memory, np.float64, p.m) for memory in (cx, abx, ab_sums, norms)]
        whole = verify.freivalds(p, entry.dtype, *vectors[:3], np.sqrt(vectors[3]))
        reference, magnitude = exact_rows(plain), exact_rows(absolute)
        output = self._rows_of_c(matrices.c[role], rows, p.n)
        sampled = verify.judge(output, reference, verify.bound(p, entry.dtype, reference, magnitude))
        return verify.combine(sampled, whole)

    def _rows_of_c(self, c: Memory, rows: np.ndarray, n: int) -> np.ndarray:
        out = np.empty((len(rows), n), verify.NUMPY_DTYPES[self.entry.dtype])
        for i, row in enumerate(rows):
            cuda(driver.cuMemcpyDtoH(out[i].ctypes.data, c.address + int(row) * out[i].nbytes, out[i].nbytes))
        return out

    def _append(
        self,
        p: Problem,
        matrices: Matrices,
        samples: Samples,
        roles: np.ndarray,
        verdicts: dict[str, verify.Verdict],
        window: power.Window,
        worklog: Samples | None,
        memory: str | None,
    ) -> None:
        experiment, entry = self.experiment, self.entry
        shape = {"m": p.m, "n": p.n, "k": p.k}
        of_data = f", {matrices.data}" if len(experiment.data) > 1 else ""
        for role, verdict in verdicts.items():
            timed = entry if role == "variant" else self.baseline
            case = f"after timing {experiment.name}" + ("" if role == "variant" else f" beside {entry.name}") + of_data
            self.checks.append(
                {
                    "variant": timed.name,
                    "source_hash": timed.source_hash,
                    "device": "gpu",
                    "case": case,
                    **shape,
                    "lda": p.lda,
                    "ldb": p.ldb,
                    "ldc": p.ldc,
                    "alpha": p.alpha,
                    "beta": p.beta,
                    "seed": matrices.seed,
                    "worst_error_share": verdict.worst,
                    "passed": verdict.passed,
                    "detail": verdict.detail,
                }
            )
        spoilt = None
        if self.target:
            spoilt = memory or off_target(samples, roles, self.target, window.throttle_reasons)
            samples = only_on_target(samples, self.target)
            worklog = only_on_target(worklog, self.target) if worklog else None
        regime = "locked" if self.target else "unlocked"
        head = {"experiment": experiment.name, "variant": entry.name, **shape, "regime": regime, "data": matrices.data}
        for kind, taken, timed_roles in (("interleaved", samples, roles), ("worklog", worklog, None)):
            for i in range(len(taken.time_us) if taken else 0):
                timed = self.baseline if timed_roles is not None and timed_roles[i] == "baseline" else entry
                self.samples.append(
                    {
                        **head,
                        "timed": timed.name,
                        "window": kind,
                        "index": i,
                        "time_us": float(taken.time_us[i]),
                        "sm_clock_mhz": float(taken.sm_clock_mhz[i]),
                        "kept": bool(taken.kept[i]),
                    }
                )
        if not all(verdict.passed for verdict in verdicts.values()):
            return  # a wrong result has no speed
        ours, theirs = (samples.of((roles == role) & samples.kept) for role in ("variant", "baseline"))
        if spoilt:
            self.left_out.append(f"{entry.name}, n = {p.n}{of_data}: {spoilt}")
            return
        if min(len(ours.time_us), len(theirs.time_us)) < LEAST_KEPT:
            raise UserError(
                f"{entry.name} at n = {p.n}: launch gaps spoilt {int((~samples.kept).sum())} of "
                f"{len(roles)} samples; leave the host's processor to the measurement"
            )
        middle, low, high = statistics.median_interval(ours.time_us)
        share, share_low, share_high = statistics.ratio_interval(theirs.time_us, ours.time_us)
        per_clock = p.flop / (ours.time_us * ours.sm_clock_mhz * self.gpu.sm_count)
        joules = window.power_w * window.run_us / 1e6 if window.power_w and window.run_us else None
        self.bench.append(
            {
                **head,
                "dtype": entry.dtype,
                "mechanism": self.target.mechanism if self.target else AS_FOUND,
                "baseline": self.baseline.name,
                "time_us_median": middle,
                "time_us_ci_low": low,
                "time_us_ci_high": high,
                "time_us_worklog": worklog_figure(worklog, locked=bool(self.target)) if worklog else None,
                "tflops": p.flop / middle / 1e6,
                "share_of_baseline": share,
                "share_ci_low": share_low,
                "share_ci_high": share_high,
                "flop_per_clock_sm": float(np.median(per_clock)),
                "sm_clock_mhz": float(np.median(ours.sm_clock_mhz)),
                "sm_clock_min_mhz": float(np.quantile(ours.sm_clock_mhz, 0.05)),
                "sm_clock_max_mhz": float(np.quantile(ours.sm_clock_mhz, 0.95)),
                "power_w": window.power_w,
                "gflop_per_j": p.flop / joules / 1e9 if joules else None,
                "temperature_c": window.temperature_c,
                "throttle_reasons": window.throttle_reasons,
                "samples": len(ours.time_us),
                "rejected": int((~samples.kept & (roles == "variant")).sum()),
                "source_hash": entry.source_hash,
            }
        )


def drawn_order(roles: Sequence[T], pairs: int, seed: int) -> list[T]:
    """Both roles once in each pair; in half of the pairs, drawn at random, in reverse.

    On an H200 what flushing leaves of the L2 cache recurs every four samples: with every second pair reversed, one role
    always met the better states, and cuBLAS had 0.87 to 1.11 times its own speed where it takes 10 to 40 us.
    """
    reverse = np.random.default_rng(seed).permutation(np.arange(pairs) % 2 == 1)
    return [role for flip in reverse for role in (reversed(roles) if flip else roles)]


def only_on_target(samples: Samples, target: clocks.Target) -> Samples:
    """The same samples, with those rejected whose SM clock is more than 1% off the locked one."""
    return replace(samples, kept=samples.kept & clocks.on_target(samples.sm_clock_mhz, target.sm_mhz))


def off_target(samples: Samples, roles: np.ndarray, target: clocks.Target, throttle_reasons: str) -> str | None:
    """Why a locked window counts for nothing: of the samples without a launch gap, too few kept the clock.

    None where enough are left of both roles, or where it is launch gaps that left too few.
    """

    def fewest(kept: np.ndarray) -> int:
        return min(int(kept[roles == role].sum()) for role in ("variant", "baseline"))

    kept = only_on_target(samples, target).kept
    if fewest(kept) >= LEAST_KEPT or fewest(samples.kept) < LEAST_KEPT:
        return None
    off = samples.kept & ~kept
    return (
        f"{int(off.sum())} of {len(off)} samples were more than 1% off the locked {target.sm_mhz} MHz "
        f"(their median: {np.nanmedian(samples.sm_clock_mhz[off]):.0f} MHz; throttle reasons: {throttle_reasons})"
    )


def worklog_figure(replays: Samples, *, locked: bool) -> float | None:
    """Worklog C's figure; with locked clocks over those of its replays that kept them, None where none did."""
    if not locked:
        return statistics.second_half_mean(replays.time_us)
    half = len(replays.time_us) // 2
    times = replays.time_us[half:][replays.kept[half:]]
    return float(np.mean(times)) if len(times) else None


def expected_s(experiment: declarations.Experiment, n: int) -> float:
    """A guess at the seconds that one size takes with one kind of data: fixed windows, and samples at 40 TFLOP/s."""
    pair = 2 * 2 * n**3 / 40e12
    window = max(experiment.window_s, experiment.least_samples * pair)
    return experiment.warmup_s + experiment.power_s + window + 5 * pair


def worklog_replays(n: int) -> int:
    """How often worklog C runs a problem of size n (seed 003, section 2)."""
    return int(800000 / n)


def run(options: argparse.Namespace) -> tuple[list[dict], list[dict], list[dict], list[str]]:
    """Measure every size; rows of bench.csv, checks.csv and samples.parquet, and why sizes were left out."""
    experiment = declarations.load(options.experiment, options.sizes_step)
    entry = catalogue.find(options.variant)
    if entry.name not in experiment.variants:
        raise UserError(f"{entry.name} takes no part in {experiment.name}; it has {', '.join(experiment.variants)}")
    failed = [row for row in read_rows(options.checked, "checks") if not row["passed"]] if options.checked else []
    if failed:
        say(f"{entry.name} is not timed: it failed {len(failed)} checks, first: {failed[0]['case']}")
        return [], [], [], []
    import_early(entry)
    with contextlib.ExitStack() as stack:
        stack.enter_context(lease())
        handle = stack.enter_context(power.nvml())
        target = None
        if options.regime == "locked":
            target = stack.enter_context(clocks.locked(handle, options.sm_mhz, options.memory_mhz))
        bench = Bench(experiment, entry, options.build_dir, handle, target)
        start = time.monotonic()
        problems = [(n, data) for n in experiment.sizes for data in experiment.data]
        expected = [expected_s(experiment, n) for n, _ in problems]
        for i, (n, data) in enumerate(problems):
            timed, left_out = len(bench.bench), len(bench.left_out)
            bench.measure(n, data)
            left = (time.monotonic() - start) * sum(expected[i + 1 :]) / sum(expected[: i + 1])
            row = bench.bench[-1] if len(bench.bench) > timed else None
            result = (
                f"{row['tflops']:.2f} TFLOP/s, {row['share_of_baseline']:.1%} of {row['baseline']}"
                if row
                else f"left out: {bench.left_out[-1]}"
                if len(bench.left_out) > left_out
                else "FAILED its check after timing"
            )
            on = f", {data}" if len(experiment.data) > 1 else ""
            by = f", by {entry.pick(Problem.square(n)).name}" if isinstance(entry, Dispatcher) else ""
            say(
                f"{experiment.name}: {entry.name}{by}, n = {n}{on} ({i + 1}/{len(problems)}): {result}; "
                f"about {left:.0f} s left"
            )
    return bench.bench, bench.checks, bench.samples, bench.left_out


def say(line: str) -> None:
    """Progress, to the terminal."""
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure one variant of one experiment.")
    parser.add_argument("experiment", help="name of a file in experiments/")
    parser.add_argument("variant", help="name in kernels/catalogue.yaml")
    parser.add_argument("--build-dir", required=True, type=Path)
    parser.add_argument("--checked", type=Path, help="its checks.csv; a variant that failed there is not timed")
    parser.add_argument("--sizes-step", type=int, help="step of swept sizes")
    parser.add_argument("--regime", choices=["unlocked", "locked"], default="unlocked", help="locked: sets the clocks")
    clocks.lock_arguments(parser)
    parser.add_argument("--bench", required=True, type=Path, help="written: rows of bench.csv")
    parser.add_argument("--checks", required=True, type=Path, help="written: rows of checks.csv")
    parser.add_argument("--samples", required=True, type=Path, help="written: samples.parquet")
    parser.add_argument("--left-out", type=Path, help="written: why sizes were left out, or nothing")
    options = parser.parse_args()
    bench, checks, samples, left_out = run(options)
    write_rows(options.checks, "checks", checks)
    write_samples(options.samples, samples)
    if options.left_out:
        write_text(options.left_out, "\n".join(left_out))
    write_rows(options.bench, "bench", bench)


if __name__ == "__main__":
    run_command(main)
