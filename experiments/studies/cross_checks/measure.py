"""Times one catalogue entry with NVBench too, in the same process, as a second opinion on `experiments.gpu.timing`.

    python -m experiments.studies.cross_checks.measure sgemm_warptile --size 1024 --size 4096 \
        --build-dir results/build/sm_90a --out cross_checks.csv

NVBench's cold measurement is what ours claims to be: L2 flushed, no launch latency, one launch a sample. At each size
ours runs before and after it, so that a drift of the card shows in neither. Where the card lowers its clock under load,
the two see different clocks, since NVBench waits between samples; cycles are compared as well as times for that reason.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

import numpy as np

from contracts import UserError, run_command, scratch, write_rows
from experiments.command_line import add_build_dir, add_variant
from experiments.gpu.session import session
from experiments.stages.machine_code import code_of
from kernels.catalogue import Entry, Problem

logger = logging.getLogger(__name__)

WINDOW_S = 0.4  # of ours, before and after
LEAST, MOST = 20, 300  # samples of ours in each


def nvbench() -> Any:
    """The module of NVBench's Python package."""
    try:
        import cuda.bench
    except ImportError as error:
        raise UserError(f"no NVBench ({error}); remedy: pip install -e ./ptxsim -e '.[nvbench]'") from error
    return cuda.bench


def ours(gpu: Any, work: Any) -> tuple[np.ndarray, np.ndarray]:
    """Times in us and SM clocks in MHz of samples that hold no gap."""
    from experiments.gpu.timing import Stopwatch, duration_us

    count = int(np.clip(WINDOW_S * 1e6 / duration_us(gpu, work, 5), LEAST, MOST))
    samples = Stopwatch(gpu, count).run([work] * count)
    return samples.time_us[samples.kept], samples.sm_clock_mhz[samples.kept]


def cross_check(entry: Entry, sizes: list[int], build_dir: Path) -> list[dict[str, Any]]:
    """Rows of cross_checks.csv, one a size."""
    bench = nvbench()
    from experiments.gpu.device import Gpu, Memory
    from experiments.gpu.libraries import bind_for_timing, load_gemm
    from experiments.gpu.timing import warm_up

    gpu = Gpu(build_dir)
    gemm = load_gemm(gpu, entry)
    taken: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}

    def measure(state: Any) -> None:
        n = state.get_int64("n")
        a, b = (gpu.filled(entry.types.ab, n * n, seed, "uniform") for seed in range(2))
        c = Memory(n * n * entry.types.c.bytes)
        work = bind_for_timing(gemm, Problem.square(n, entry.b_layout), a.address, b.address, c.address)
        state.set_stream(gpu.stream)
        warm_up(gpu, work, 0.3)
        before = ours(gpu, work)
        state.exec(lambda launch: work(), batched=False)
        taken[n] = [before, ours(gpu, work)]

    bench.register(measure).set_name(entry.name).add_int64_axis("n", sizes)
    with scratch() as folder:
        report = folder / "nvbench.json"
        bench.run_all_benchmarks(["cross_check", "--quiet", "--jsonbin", str(report)])
        from cuda.bench.results import BenchmarkResult

        states = list(BenchmarkResult.from_json(report)[entry.name])
    return [_row(entry, state, taken, code_of(entry, build_dir)) for state in states]


def _row(entry: Entry, state: Any, taken: dict[int, list[tuple[np.ndarray, np.ndarray]]], code: str) -> dict[str, Any]:
    n = int(next(axis["value"] for axis in state.axis_values if axis["name"] == "n"))
    if state.is_skipped or not state.samples:
        raise UserError(f"NVBench skipped {entry.name} at n = {n}: {state.skip_reason or 'no samples'}")
    times, clocks = (np.concatenate(parts) for parts in zip(*taken[n], strict=True))
    theirs_us = np.asarray(state.samples, np.float64) * 1e6
    theirs_mhz = np.asarray(state.frequencies, np.float64) / 1e6 if state.frequencies else None
    row = {"variant": entry.name, "m": n, "n": n, "k": n, "method": "nvbench"}
    row |= {"time_us": float(np.median(times)), "sm_clock_mhz": float(np.median(clocks)), "samples": len(times)}
    row |= {"other_time_us": float(np.median(theirs_us)), "other_samples": len(theirs_us)}
    row["other_sm_clock_mhz"] = float(np.median(theirs_mhz)) if theirs_mhz is not None else None
    return row | {"code_hash": code}


def main() -> None:
    parser = argparse.ArgumentParser(description="Time one catalogue entry with NVBench too.")
    add_variant(parser)
    parser.add_argument("--size", type=int, action="append", required=True, help="m = n = k; may be given again")
    add_build_dir(parser)
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    entry = options.catalogue.find(options.variant)
    for size in options.size:
        if reason := entry.refusal(Problem.square(size, entry.b_layout)):
            raise UserError(reason)
    with session():
        rows = cross_check(entry, options.size, options.build_dir)
    for row in rows:
        logger.info(
            f"{entry.name}, n = {row['n']}: {row['time_us']:.2f} us, NVBench {row['other_time_us']:.2f} us "
            f"({row['time_us'] / row['other_time_us'] - 1:+.2%})"
        )
    write_rows(options.out, "cross_checks", rows)


if __name__ == "__main__":
    run_command(main)
