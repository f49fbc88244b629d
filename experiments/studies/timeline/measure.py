"""Records one benchmark process as Nsight Systems would: its CUDA calls, its kernels, its memory operations.

    python -m experiments.studies.timeline.measure sgemm_vectorized --build-dir results/build/sm_90a --out timeline.csv

The process is that of the profiling worklog (part 1): three matrices of 4096 x 4096 to the device, then at each size a
warm-up and 50 timed launches between two events. The records are CUPTI's, through torch.profiler, which needs no
permission.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from contracts import UserError, run_command, scratch, write_rows
from experiments.command_line import add_build_dir
from experiments.gpu.session import session
from experiments.stages.machine_code import code_of
from kernels.catalogue import Problem, Variant

logger = logging.getLogger(__name__)

SIZES = (128, 256, 512, 1024, 2048, 4096)
LAUNCHES = 50
# CUPTI's categories, as torch.profiler names them, and the table that each belongs to
TABLES = {
    "cuda_runtime": "api",
    "cuda_driver": "api",
    "kernel": "kernel",
    "gpu_memcpy": "memory",
    "gpu_memset": "memory",
}


def summarise(events: Iterable[Mapping[str, Any]], variant: Variant, code: str) -> list[dict[str, Any]]:
    """Rows of timeline.csv, the longest of each table first, from the events of a Chrome trace (times in us).

    code: the kernel's code hash.
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for event in events:
        if event.get("ph") == "X" and event.get("cat") in TABLES:
            groups[TABLES[event["cat"]], event["name"]].append(event)
    total: defaultdict[str, float] = defaultdict(float)
    for (table, _), members in groups.items():
        total[table] += sum(event["dur"] for event in members)
    rows = []
    for (table, name), members in groups.items():
        times = [float(event["dur"]) for event in members]
        moved = [int(event.get("args", {}).get("bytes", 0)) for event in members]
        rows.append(
            {
                "variant": variant.name,
                "table": table,
                "name": name,
                "calls": len(times),
                "fraction": sum(times) / total[table] if total[table] else 0.0,
                "total_us": sum(times),
                "mean_us": statistics.fmean(times),
                "median_us": statistics.median(times),
                "min_us": min(times),
                "max_us": max(times),
                "stddev_us": statistics.stdev(times) if len(times) > 1 else None,
                "bytes": sum(moved) if table == "memory" else None,
                "code_hash": code,
            }
        )
    order = list(dict.fromkeys(TABLES.values()))
    return sorted(rows, key=lambda row: (order.index(row["table"]), -row["total_us"]))


def benchmark(torch: Any, gpu: Any, variant: Variant) -> None:
    """The process that is recorded; `gpu` is an `experiments.gpu.device.Gpu`."""
    from experiments.gpu.libraries import load_gemm

    largest = SIZES[-1]
    stream = torch.cuda.ExternalStream(int(gpu.stream.handle))
    rng = np.random.default_rng(1)
    with torch.cuda.stream(stream):
        host = [torch.from_numpy(rng.uniform(-1, 1, (largest, largest)).astype(np.float32)) for _ in range(3)]
        a, b, c = (matrix.to("cuda") for matrix in host)
        gemm = load_gemm(gpu, variant)
        for n in SIZES:
            work = gemm.bind(Problem.square(n, variant.b_layout), a.data_ptr(), b.data_ptr(), c.data_ptr())
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            work()
            start.record()
            for _ in range(LAUNCHES):
                work()
            stop.record()
            stop.synchronize()


def record(variant: Variant, build_dir: Path) -> list[dict[str, Any]]:
    """Run and record the process; rows of timeline.csv."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    if not torch.cuda.is_available():
        raise UserError(f"the timeline needs a torch that is built for CUDA; this one is {torch.__version__}")
    from experiments.gpu.device import Gpu

    gpu = Gpu(build_dir)
    torch.zeros(1, device="cuda")  # the first start of the profiler expects a context
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        benchmark(torch, gpu, variant)
    with scratch() as folder:
        trace = folder / "trace.json"
        recorded.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    rows = summarise(events, variant, code_of(variant, build_dir))
    launches = sum(row["calls"] for row in rows if row["table"] == "kernel" and variant.entry in row["name"])
    expected = len(SIZES) * (1 + LAUNCHES)
    if launches != expected:
        raise UserError(f"CUPTI recorded {launches} launches of {variant.entry}, not {expected}; no timeline")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Summarise the CUDA calls, kernels and copies of a benchmark process.")
    parser.add_argument("variant", help="name of an fp32 kernel in kernels/catalogue.yaml")
    add_build_dir(parser)
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    variant = options.catalogue.find(options.variant)
    if not isinstance(variant, Variant) or variant.dtype != "fp32":
        raise UserError(f"{variant.name} is not an fp32 kernel of this project; the timeline needs one")
    with session():
        rows = record(variant, options.build_dir)
    logger.info(f"{variant.name}: {len(rows)} kinds of CUDA calls, kernels and copies recorded")
    write_rows(options.out, "timeline", rows)


if __name__ == "__main__":
    run_command(main)
