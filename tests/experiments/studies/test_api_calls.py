"""A recorded program: one row for each kind of call, kernel and copy, and its launches by size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import ROOT, refused

from contracts import read_rows, write_rows
from contracts.rows import ApiCalls
from experiments.gpu.session import session
from experiments.stages import build, toolchain
from experiments.studies import api_calls
from kernels import catalogue
from kernels.catalogue import Variant

SIZES = (128, 256)
PER_SIZE = 1 + api_calls.LAUNCHES


def event(category: str, name: str, start: float, time: float, **args: Any) -> dict[str, Any]:
    """One event of a Chrome trace, as torch.profiler exports it; times in microseconds."""
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": time, "args": args}


def trace() -> Iterator[dict[str, Any]]:
    """A program of two sizes, whose first launch of each is the longest on the host."""
    yield {"ph": "M", "name": "process_name", "args": {"name": "python"}}
    yield event("cpu_op", "aten::zeros", 0, 9)
    for matrix in range(3):
        yield event("cuda_runtime", "cudaMemcpy", matrix, 4)
        yield event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", matrix, 2, bytes=1000)
    # An exporter may write calls in any order; their times tell.
    for number in reversed(range(len(SIZES) * PER_SIZE)):
        first = number % PER_SIZE == 0
        yield event("cuda_driver", "cuLaunchKernelEx", 100 + number, 50 if first else 5)
        yield event("kernel", "gemm", 200 + number, 10 if number < PER_SIZE else 30)
    for _ in SIZES:
        yield event("cuda_runtime", "cudaEventSynchronize", 900, 1000)
    yield event("cuda_runtime", "cudaDeviceSynchronize", 990, 7)


def test_what_was_recorded_is_summed_by_kind_and_name(tmp_path: Path) -> None:
    common = {"variant": "sgemm_vectorized", "code_hash": "0123456789abcdef"}
    path = tmp_path / "api_calls.csv"
    write_rows(path, ApiCalls, [common | row for row in api_calls.summarise(trace(), SIZES)])
    rows = read_rows(path, ApiCalls)
    named = {(row.kind, row.name): row for row in rows if row.kind != "launch"}
    assert [name for _, name in named] == [
        "cudaEventSynchronize",
        "cuLaunchKernelEx",
        "cudaMemcpy",
        "gemm",
        "Memcpy HtoD (Pageable -> Device)",
    ]
    launched = 2 * 50 + 100 * 5
    waits = named["api", "cudaEventSynchronize"]
    assert (waits.calls, waits.total_us) == (2, 2000)
    assert waits.share == pytest.approx(2000 / (2000 + launched + 3 * 4))
    copies = named["copy", "Memcpy HtoD (Pageable -> Device)"]
    assert (copies.calls, copies.bytes, copies.share) == (3, 3000, 1)
    kernels = named["kernel", "gemm"]
    assert (kernels.calls, kernels.mean_us, kernels.median_us) == (102, 20, 20)
    assert (kernels.min_us, kernels.max_us, kernels.bytes) == (10, 30, None)


def test_the_first_launch_of_each_size_is_a_row_of_its_own() -> None:
    rows = [row for row in api_calls.summarise(trace(), SIZES) if row["kind"] == "launch"]
    assert [(row["name"], row["n"], row["calls"], row["median_us"]) for row in rows] == [
        ("first", 128, 1, 50),
        ("later", 128, 50, 5),
        ("first", 256, 1, 50),
        ("later", 256, 50, 5),
    ]


def test_a_recording_that_lacks_launches_is_refused() -> None:
    events = [one for one in trace() if one.get("ts") != 200]
    with refused("torch.profiler recorded 101 of 102 launches"):
        api_calls.summarise(events, SIZES)
    # Without its call a kernel is known, but not which call was a size's first.
    rows = api_calls.summarise([one for one in trace() if one.get("ts") != 100], SIZES)
    assert {row["kind"] for row in rows} == {"api", "copy", "kernel"}


def test_a_call_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = object.__new__(api_calls.Runtime)
    runtime._library = SimpleNamespace(cudaFree=lambda *_: 1)  # type: ignore[assignment]
    with refused("^cudaFree failed with status 1$"):
        runtime.free(4096)


@pytest.mark.gpu
def test_the_program_runs_as_its_text_has_it(tmp_path: Path) -> None:
    """An emulated GPU has no profiler: there, the program is what can be tried."""
    from experiments.gpu.device import CatalogueKernel, Gpu

    kernel = catalogue.load().find("sgemm_vectorized")
    assert isinstance(kernel, Variant)
    build.build_kernel(kernel, "sm_90a", tmp_path)
    harness = ROOT / "experiments" / "gpu" / "harness.cu"
    build.compile_source(harness, tmp_path / "harness", "sm_90a", toolchain.nvcc())
    with session(wait_s=600):
        runtime = api_calls.Runtime("13.0")
        first, *later = api_calls.allocations_us(runtime, 4096)
        assert first > 0 and len(later) == 2
        gpu = Gpu(tmp_path)
        bind, stream = CatalogueKernel(gpu, kernel).bind, int(gpu.stream.handle)
        times = api_calls.run_program(runtime, bind, stream, (128, 256), launches=2)
    assert times.keys() == {128, 256} and min(times.values()) > 0
