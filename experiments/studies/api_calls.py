"""Records where a benchmark program's time goes on host and GPU, as Nsight Systems would.

    python -m experiments.studies api_calls sgemm_blocktile_2d --size 128 --size 4096 \
        --build-dir results/build/sm_90a --out api_calls.csv

The program is that of the profiling worklog, part 1: three matrices from pageable host memory to
the GPU, then at each size one launch to warm up and 50 between two events. Nothing is copied back.
CUPTI records it through torch.profiler, which needs no permission. That sees CUDA calls, kernels
and copies, but no calls of the operating system, and it leaves out the making of events. The
allocation that makes the context comes before any recording, so the host's clock times it.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import logging
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contracts import UserError, scratch, write_rows
from contracts.rows import ApiCalls
from experiments.gpu.session import session
from experiments.stages.machine_code import code_of
from experiments.studies import squares
from kernels.catalogue import Problem, Variant

logger = logging.getLogger(__name__)

LAUNCHES = 50
HOST_TO_DEVICE = 1  # cudaMemcpyKind
# The kind of row that each category of a torch.profiler trace belongs to
KINDS = {
    "cuda_runtime": "api",
    "cuda_driver": "api",
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "gpu_memset": "copy",
}
# What torch.profiler calls those of CUDA's calls that it has no name for, and what the table does
UNNAMED = {"INVALID": "without a name"}
OF_THE_PROFILER = ("cudaDeviceSynchronize",)  # It waits so when it stops; the program does not.
LAUNCHING = re.compile("cu(da)?LaunchKernel")


class Runtime:
    """CUDA's runtime library, as a program in C++ calls it.

    torch.profiler records no memory or event calls of the driver's interface.

    :param version: of CUDA. Where torch has loaded such a library, this is the same one.
    """

    def __init__(self, version: str) -> None:
        try:
            self._library = ctypes.CDLL(f"libcudart.so.{version.partition('.')[0]}")
        except OSError:  # It is not where the system looks.
            from cuda.pathfinder import load_nvidia_dynamic_lib

            self._library = ctypes.CDLL(load_nvidia_dynamic_lib("cudart").abs_path)

    def _call(self, name: str, *arguments: Any) -> None:
        if status := getattr(self._library, name)(*arguments):
            raise UserError(f"{name} failed with status {status}")

    def malloc(self, nbytes: int) -> int:
        """Return the address of new device memory."""
        address = ctypes.c_void_p()
        self._call("cudaMalloc", ctypes.byref(address), ctypes.c_size_t(nbytes))
        return int(address.value or 0)

    def free(self, address: int) -> None:
        """Free memory of `malloc`."""
        self._call("cudaFree", ctypes.c_void_p(address))

    def copy_in(self, address: int, array: np.ndarray) -> None:
        """Copy a host array to the device, and return when the host may change it."""
        source, nbytes = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
        self._call("cudaMemcpy", ctypes.c_void_p(address), source, nbytes, HOST_TO_DEVICE)

    def event(self) -> ctypes.c_void_p:
        """Return a new event."""
        event = ctypes.c_void_p()
        self._call("cudaEventCreate", ctypes.byref(event))
        return event

    def record(self, event: ctypes.c_void_p, stream: int) -> None:
        """Record the event on a stream."""
        self._call("cudaEventRecord", event, ctypes.c_void_p(stream))

    def wait(self, event: ctypes.c_void_p) -> None:
        """Wait on the host until all before the event is done."""
        self._call("cudaEventSynchronize", event)

    def elapsed_ms(self, start: ctypes.c_void_p, stop: ctypes.c_void_p) -> float:
        """Return the time between two recorded events."""
        elapsed = ctypes.c_float()
        self._call("cudaEventElapsedTime", ctypes.byref(elapsed), start, stop)
        return elapsed.value


def run_program(
    runtime: Runtime,
    bind: Callable[..., Callable[[], None]],
    stream: int,
    sizes: Sequence[int],
    launches: int = LAUNCHES,
) -> dict[int, float]:
    """Run the program that is recorded; return the mean time of a launch at each size, in ms.

    The end of the last copy may overlap the first launch, which does not read C.

    :param bind: returns a launch of a problem on matrices at three addresses, on `stream`.
    """
    largest = max(sizes)
    rng = np.random.default_rng(1)
    host = [rng.uniform(-1, 1, (largest, largest)).astype(np.float32) for _ in range(3)]
    addresses = [runtime.malloc(matrix.nbytes) for matrix in host]
    for address, matrix in zip(addresses, host, strict=True):
        runtime.copy_in(address, matrix)
    start, stop = runtime.event(), runtime.event()
    times = {}
    for n in sizes:
        launch = bind(Problem.square(n), *addresses)
        launch()
        runtime.record(start, stream)
        for _ in range(launches):
            launch()
        runtime.record(stop, stream)
        runtime.wait(stop)
        times[n] = runtime.elapsed_ms(start, stop) / launches
    for address in addresses:
        runtime.free(address)
    return times


def allocations_us(runtime: Runtime, nbytes: int, count: int = 3) -> list[float]:
    """Return how long allocations take by the host's clock, the first one first."""
    addresses, times = [], []
    for _ in range(count):
        start = time.perf_counter()
        addresses.append(runtime.malloc(nbytes))
        times.append((time.perf_counter() - start) * 1e6)
    for address in addresses:
        runtime.free(address)
    return times


def summarise(events: Iterable[Mapping[str, Any]], sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Return the rows of what was recorded, the longest of each kind first.

    Raises `UserError` where launches are missing: a part was not recorded.

    :param events: of a Chrome trace; times are in microseconds.
    :param sizes: of the launches, in their order.
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for event in events:
        kind = KINDS.get(event.get("cat", "")) if event.get("ph") == "X" else None
        if kind and event["name"] not in OF_THE_PROFILER:
            groups[kind, UNNAMED.get(event["name"], event["name"])].append(event)
    totals: dict[str, float] = defaultdict(float)
    for (kind, _), members in groups.items():
        totals[kind] += sum(event["dur"] for event in members)
    expected = len(sizes) * (1 + LAUNCHES)
    recorded = sum(len(members) for (kind, _), members in groups.items() if kind == "kernel")
    if recorded != expected:
        raise UserError(f"torch.profiler recorded {recorded} of {expected} launches; run it again")
    rows: list[dict[str, Any]] = [
        {"kind": kind, "name": name, "share": _share(members, totals[kind])}
        | {"bytes": _bytes(members) if kind == "copy" else None}
        | _statistics([event["dur"] for event in members])
        for (kind, name), members in groups.items()
    ]
    order = list(dict.fromkeys(KINDS.values()))
    rows.sort(key=lambda row: (order.index(row["kind"]), -row["total_us"]))
    calls = [
        event
        for (kind, name), members in groups.items()
        if kind == "api" and LAUNCHING.match(name)
        for event in members
    ]
    return rows + _launch_rows(sorted(calls, key=lambda event: float(event["ts"])), sizes)


def _launch_rows(calls: Sequence[Mapping[str, Any]], sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Return what the calls that launch take the host at each size: the first one, and the others.

    Without one call a launch there are none, since nothing tells which call is the first.
    """
    if len(calls) != len(sizes) * (1 + LAUNCHES):
        logger.warning(f"{len(calls)} calls launched: which are the first of a size is not known")
        return []
    rows = []
    for place, n in enumerate(sizes):
        begin = place * (1 + LAUNCHES)
        times = [float(event["dur"]) for event in calls[begin : begin + 1 + LAUNCHES]]
        for name, part in (("first", times[:1]), ("later", times[1:])):
            rows.append({"kind": "launch", "name": name, "n": n} | _statistics(part))
    return rows


def _share(members: Sequence[Mapping[str, Any]], total: float) -> float:
    return float(sum(event["dur"] for event in members) / total) if total else 0.0


def _bytes(members: Sequence[Mapping[str, Any]]) -> int:
    return sum(int(event.get("args", {}).get("bytes", 0)) for event in members)


def _statistics(times: Sequence[float]) -> dict[str, Any]:
    """Return the columns about so many times in microseconds."""
    return {
        "calls": len(times),
        "total_us": float(sum(times)),
        "mean_us": statistics.fmean(times),
        "median_us": float(statistics.median(times)),
        "min_us": float(min(times)),
        "max_us": float(max(times)),
        "stddev_us": statistics.stdev(times) if len(times) > 1 else None,
    }


@contextlib.contextmanager
def profiled() -> Iterator[Any]:
    """Record what the block runs; yield a torch.profiler for `events_of`, once the block has ended.

    A context of CUDA must be there.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.zeros(1, device="cuda")  # The profiler starts in a context that torch knows.
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        yield recorded


def events_of(recorded: Any) -> list[dict[str, Any]]:
    """Return the events of a Chrome trace of what `profiled` recorded."""
    with scratch() as folder:
        trace = folder / "trace.json"
        recorded.export_chrome_trace(str(trace))
        events: list[dict[str, Any]] = json.loads(trace.read_text())["traceEvents"]
    return events


def measure(variant: Variant, sizes: Sequence[int], build_dir: Path) -> list[dict[str, Any]]:
    """Run and record the program; return rows of api_calls.csv.

    It must come before anything else of this process touches the GPU.
    """
    import torch

    from experiments.gpu.device import CatalogueKernel, Gpu

    runtime = Runtime(str(torch.version.cuda))
    first, *later = allocations_us(runtime, 4 * max(sizes) ** 2)
    gpu = Gpu(build_dir)
    kernel = CatalogueKernel(gpu, variant)
    with profiled() as recorded:
        times = run_program(runtime, kernel.bind, int(gpu.stream.handle), sizes)
    for n, milliseconds in times.items():
        logger.info(f"{variant.name}, n = {n}: {milliseconds * 1e3:.1f} us a launch by events")
    before = [
        {"kind": "context", "name": name} | _statistics(part)
        for name, part in (("first cudaMalloc", [first]), ("later cudaMalloc", later))
    ]
    common = {"variant": variant.name, "code_hash": code_of(variant, build_dir)}
    return [common | row for row in before + summarise(events_of(recorded), sizes)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the study."""
    squares.add_arguments(parser, order=", in the order of the program")


def require_profiler(study: str) -> None:
    """Raise `UserError` where torch.profiler cannot record a GPU; this imports torch."""
    try:
        import torch
    except ImportError:
        raise UserError(f"{study} needs torch for CUDA, which is not installed") from None
    if torch.version.cuda is None:
        raise UserError(f"{study} needs torch for CUDA; this one is {torch.__version__}")


def run(options: argparse.Namespace) -> None:
    """Write the table."""
    variant = options.catalogue.find(options.variant)
    if not isinstance(variant, Variant) or variant.dtype != "fp32":
        raise UserError(f"{variant.name} is no kernel in fp32 of this project; api_calls needs one")
    squares.require_taken(variant, options.size)
    require_profiler("api_calls")
    with session():
        rows = measure(variant, options.size, options.build_dir)
    kinds = sorted({row["kind"] for row in rows})
    logger.info(f"{variant.name}: {len(rows)} rows of {', '.join(kinds)}")
    write_rows(options.out, ApiCalls, rows)
