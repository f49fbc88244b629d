"""On a GPU: planted faults fail, libraries and clocks agree with independent readings, inputs are
random.

What is not marked `card` runs on an emulated GPU, too, on smaller problems: test_emulated.py.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pynvml
import pytest
from helpers import ROOT, assert_one_line, few_sms, refused, run_module

from analysis.timings import timings
from contracts.dtypes import dtypes
from experiments import declarations
from experiments.emulation import compare_gpu, launching
from experiments.emulation.device import EmulatedDevice
from experiments.gpu import algorithm_search, discovery, fastest_call
from experiments.gpu.device import CatalogueKernel, Memory
from experiments.gpu.fastest_call import FastestCall
from experiments.gpu.libraries import CublasGemm, bind_for_timing, how_called, load_gemm
from experiments.gpu.session import session
from experiments.gpu.timing import Stopwatch, duration_us, warm_up
from experiments.stages import bench as bench_stage
from experiments.stages import build, toolchain, verify
from experiments.stages.bench import Bench, Request, measurement
from experiments.stages.cases import cases
from experiments.stages.check import GUARD, GpuDevice, check_variant, guarded, inside, run_case
from experiments.stages.interleave import Matrices, check_output
from experiments.stages.library_calls import LibraryCalls
from experiments.stages.store import Measurement, Store
from kernels import catalogue
from kernels.catalogue import Baseline, Problem, Variant
from kernels.problem import ProblemSpec

pytestmark = pytest.mark.gpu
card = pytest.mark.card

KERNELS = catalogue.load().kernels
FAULT_SOURCE = ROOT / "tests" / "faults" / "gemm.cu"
# The faults in the order of the enum in FAULT_SOURCE, each with the problems that it must fail on
# and words of the report.
FAULTS: dict[str, tuple[Callable[[Problem], bool], str]] = {
    "none": (lambda p: False, ""),
    "dropped_product": (lambda p: p.alpha != 0, "expected"),
    "dropped_step": (lambda p: p.alpha != 0, "expected"),
    "missing_barrier": (lambda p: p.alpha != 0 and p.k > 16, ""),
    "swapped": (lambda p: p.alpha != 0, "expected"),
    "wrong_ld": (lambda p: p.alpha != 0 and p.ldb != p.ldc, ""),
    "beta_ignored": (lambda p: p.beta != 0, "expected"),
    "reads_c": (lambda p: p.beta == 0, "not finite"),
    "nothing_written": (lambda p: p.beta == 0, "not finite"),
    "one_nan": (lambda p: True, "1 elements are not finite"),
    "writes_before": (lambda p: True, "wrote outside C: in C"),
    "writes_behind": (lambda p: True, "wrote outside C: in C"),
    "writes_input": (lambda p: True, "wrote outside C: in A"),
}


BLOCK = {"m": 64, "n": 64, "k": 16}


def faulty(name: str) -> Variant:
    """A catalogue entry for the kernel with this fault."""
    changes: dict[str, Any] = {"source": FAULT_SOURCE, "entry": "faulty_gemm", "threads": 256}
    changes |= {"tile": BLOCK, "multiples": BLOCK, "raster": "nm"}
    template = {"FAULT": list(FAULTS).index(name)}
    smem_tile = KERNELS["sgemm_smem_tile"]
    return replace(smem_tile, name=f"fault_{name}", template=template, **changes)


# The others would show no more on an emulated GPU.
EMULATED = ("none", "dropped_step", "nothing_written", "one_nan", "writes_behind")
CHECKED = [*KERNELS.values(), faulty("none")]


def sized(on_card: int, on_emulator: int) -> int:
    """What a test takes: the emulator computes some millions of products a second."""
    return on_emulator if discovery.rehearsing() else on_card


@pytest.fixture(scope="module", autouse=True)
def small() -> Iterator[None]:
    """On an emulated GPU, few SMs, and one run of what is repeated until a clock is steady or a
    race decided.
    """
    with pytest.MonkeyPatch.context() as patch:
        if discovery.rehearsing():
            few_sms(patch)
            for module in (bench_stage, fastest_call):
                patch.setattr(module, "warm_up", lambda gpu, work, *_, **__: duration_us(gpu, work))
            for name, rounds in (("FIRST_ROUNDS", 1), ("SECOND_ROUNDS", (1, 1))):
                patch.setattr(algorithm_search, name, rounds)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The harness, the faults and, on a card, every variant, built for this GPU."""
    here = discovery.gpu()
    assert here is not None
    out, arch = tmp_path_factory.mktemp("build"), here.arch
    faults, variants = (EMULATED, ()) if discovery.rehearsing() else (FAULTS, KERNELS)
    harness = ROOT / "experiments" / "gpu" / "harness.cu"
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        work = [pool.submit(build.build_kernel, faulty(name), arch, out) for name in faults]
        work += [pool.submit(build.build_variant, name, arch, out) for name in variants]
        nvcc = toolchain.nvcc()
        work.append(pool.submit(build.compile_source, harness, out / "harness", arch, nvcc))
    for job in work:
        job.result()
    return out


@pytest.fixture(scope="module")
def device(folder: Path) -> Iterator[GpuDevice]:
    """The GPU, held for as long as this file's tests run."""
    with session(wait_s=600):
        yield GpuDevice(folder)


# ---- the check -----------------------------------------------------------------------------------


@card
@pytest.mark.parametrize("variant", CHECKED, ids=lambda variant: variant.name)
def test_every_variant_passes(variant: Variant, device: GpuDevice) -> None:
    """Also the kernel that the faults are planted in: its late warp does no harm behind a
    barrier.
    """
    rows = check_variant(nullcontext(device), variant, seed=3, large=1024)
    assert [f"{row.case}: {row.detail}" for row in rows if not row.passed] == []


@card
def test_kernels_whose_blocks_share_tiles_agree_with_the_emulator_in_every_bit(
    folder: Path, device: GpuDevice
) -> None:
    """With as many blocks as it launches."""
    as_emulated = GpuDevice(folder, launching.sms_of)
    for variant in KERNELS.values():
        if variant.stream_k and variant.dtype == "fp32":
            emulated = compare_gpu.emulate(variant, EmulatedDevice(folder), seed=2)
            rows = compare_gpu.agree(variant, nullcontext(as_emulated), emulated)
            differing = {row.case: row.differing for row in rows if not row.passed}
            assert differing == {}, variant.name


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in EMULATED else card) for n in list(FAULTS)[1:]]
)
def test_a_planted_fault_fails_in_every_case_that_can_show_it(name: str, device: GpuDevice) -> None:
    shows, said = FAULTS[name]
    variant = faulty(name)
    large = None if discovery.rehearsing() else 1024
    tried = [case for case in cases(variant, large) if not case.refused and shows(case.problem)]
    assert len(tried) >= 2
    for seed, case in enumerate(tried):
        result = run_case(device, variant, case, seed)
        assert not result.passed, case.name
        assert said in result.detail, (case.name, result.detail)


# ---- timed runs ----------------------------------------------------------------------------------


def bench(variant: Variant, folder: Path, data: str = "uniform", **factors: float) -> Measurement:
    """What is stored of a short measurement of one size. factors: alpha and beta, 1 and 0."""
    plain = ProblemSpec(64, 64, 32) if discovery.rehearsing() else ProblemSpec.square(1024)
    short = {"warmup_s": 0.05, "window_s": 0.05, "samples": sized(20, 3), "precision": 1e-9}
    protocol = declarations.Protocol(**short, processes=1)
    item = declarations.Item(variant.name, replace(plain, **factors), data, "boost", protocol)
    shipped = catalogue.load()
    asked = Request(replace(shipped, entries={**shipped, variant.name: variant}), folder)
    with discovery.nvml() as handle:
        calls = LibraryCalls(Store(folder / "measured"), asked.entries, folder)
        result = Bench(folder, handle, calls, asked).measure(item, "0" * 8)
        return measurement(item, result, None, asked, "0" * 8)


def rows_of(stored: Measurement) -> list[dict]:
    """Its rows of analysis.timings."""
    assert stored.samples is not None
    windows = pd.DataFrame(map(vars, stored.rows.windows))
    return timings(windows, stored.samples.to_pandas(), 132).to_dict("records")


@pytest.mark.parametrize("factors", [{}, {"alpha": 0.75, "beta": -0.5}], ids=["plain", "scaled"])
def test_a_right_kernel_is_timed_and_its_output_checked(
    factors: dict[str, float], device: GpuDevice, folder: Path
) -> None:
    stored = bench(faulty("none"), folder, **factors)
    passed = [(row.variant, row.passed) for row in stored.rows.checks]
    assert passed == [("fault_none", True), ("cublas_fp32", True)]
    (row,) = rows_of(stored)
    assert row["time_us_low"] <= row["time_us"] <= row["time_us_high"]
    assert 0 < row["fraction"] < sized(1, 1000) and row["samples"] + row["rejected"] == sized(20, 3)
    assert stored.samples is not None and len(stored.samples) == sized(40, 6)


@card
def test_on_zeros_the_result_must_be_zero_and_written(device: GpuDevice, folder: Path) -> None:
    """The bound is zero there, so what passes is exact; what was in C before was not."""
    stored = bench(faulty("none"), folder, "zeros")
    assert [(row.passed, row.error_over_bound) for row in stored.rows.checks] == [(True, 0.0)] * 2
    assert stored.samples is not None and rows_of(stored)[0]["data"] == "zeros"
    assert set(stored.samples["data"].to_pylist()) == {"zeros"}


WRONG = [(name, data) for name in ("nothing_written", "one_nan") for data in ("uniform", "zeros")]
WRONG += [("missing_barrier", "uniform")]


@pytest.mark.parametrize(
    ("name", "data"),
    [("dropped_step", "uniform"), *(pytest.param(*case, marks=card) for case in WRONG)],
)
def test_a_wrong_result_has_no_speed(name: str, data: str, device: GpuDevice, folder: Path) -> None:
    """The output of the timed runs is checked where it lies, and a failure leaves no row of
    analysis.timings.
    """
    stored = bench(faulty(name), folder, data)
    checks = stored.rows.checks
    assert [row.passed for row in checks] == [False, True] and checks[0].detail
    assert [row.passed for row in stored.rows.windows] == [False]
    assert rows_of(stored) == []


@card
def test_the_stopwatch_agrees_with_nvml_and_with_plain_events(device: GpuDevice) -> None:
    """A GEMM of some 30 ms: its clock is NVML's within 1%, its time that of many back to back
    within 2%.
    """
    gpu, n, runs = device.gpu, 8192, 30
    a, b, c = (Memory(n * n * 4) for _ in range(3))
    for seed, matrix in enumerate((a, b)):
        gpu.fill(matrix, dtypes()["fp32"], n * n, seed, "uniform")
    kernel = CatalogueKernel(gpu, KERNELS["sgemm_warptile"])
    work = kernel.bind(Problem.square(n), a.address, b.address, c.address)
    stopwatch = Stopwatch(gpu, runs, flush_l2=False)
    warm_up(gpu, work, 1.0)
    seen: list[int] = []
    stop = threading.Event()
    with discovery.nvml() as handle:

        def poll() -> None:
            while not stop.wait(0.02):
                seen.append(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))

        watcher = threading.Thread(target=poll)
        watcher.start()
        samples = stopwatch.run([work] * runs)
        stop.set()
        watcher.join()
    assert len(seen) >= 5 and samples.kept.sum() >= 0.9 * runs
    assert np.median(samples.sm_clock_mhz) == pytest.approx(np.median(seen), rel=0.01)
    assert np.mean(samples.time_us) == pytest.approx(duration_us(gpu, work, runs), rel=0.02)


@card
def test_a_flush_empties_l2_and_is_not_in_the_sample(device: GpuDevice) -> None:
    """Reading 16 MB is slower after a flush, but by less than the flush itself takes."""
    gpu, rows, cols = device.gpu, 4096, 1024
    memory, out = Memory(rows * cols * 4), Memory(rows * 8)
    gpu.fill(memory, dtypes()["fp32"], rows * cols, 1, "uniform")
    matvec = gpu.harness_launcher("matvec_fp32", rows, 256)

    def work() -> None:
        matvec(memory.address, np.int32(cols), np.int32(cols), 0, np.int32(0), out.address)

    warm, cold = (
        np.median(Stopwatch(gpu, 40, flush_l2=flush).run([work] * 40).time_us)
        for flush in (False, True)
    )
    flush_us = gpu.l2_bytes / 4e6  # at 4 TB/s
    assert warm < cold < warm + flush_us


@card
def test_out_of_memory_is_one_line(device: GpuDevice, folder: Path) -> None:
    arguments = ("sgemm_naive", "--problem", 150_000, "--build-dir", folder)
    visible = os.environ["CUDA_VISIBLE_DEVICES"]
    done = run_module("experiments.stages.profile_target", *arguments, CUDA_VISIBLE_DEVICES=visible)
    assert_one_line(done, "GPU out of memory: 83.82 GiB asked for", "take a smaller size")


# ---- libraries -----------------------------------------------------------------------------------

ODD = Problem(257, 129, 65, lda=72, ldb=136, ldc=144)
BASELINES = [entry for entry in catalogue.load().values() if isinstance(entry, Baseline)]
BASELINES = [entry for entry in BASELINES if entry.library not in discovery.missing_libraries()]
EMULATED_LIBRARIES = [entry for entry in BASELINES if entry.name == "cublas_bf16"]
CUBLAS = [entry for entry in BASELINES if entry.library in ("cublas", "cublaslt")]
LIMITED = {
    "triton": replace(ODD, n=136),
    "cublaslt": Problem(272, 144, 80, 96, 112, 160, b_layout="column"),
}


def odd(entry: Baseline) -> Problem:
    """What is as odd as this library takes it: some move whole 16 bytes only."""
    return LIMITED.get(entry.library, ODD)


def library_result(
    device: GpuDevice, entry: Baseline, p: Problem, algorithm: int | None = None
) -> verify.CheckResult:
    """Run a library between guard bands; nothing outside C may be written.

    algorithm: the index of one of cublasLtMatmul's, in place of the plain call.
    """
    gpu, types, rng = device.gpu, entry.types, np.random.default_rng(17)
    a, b = (verify.random_matrix(rng, *shape, types.ab) for shape in ((p.m, p.k), (p.k, p.n)))
    if entry.dtype == "tf32":  # The library sees them so.
        a, b = ((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b))
    c0 = np.full((p.m, p.n), np.nan, types.c.numpy)
    if p.beta:
        c0 = verify.random_matrix(rng, p.m, p.n, types.c)
    stored = (a, b if p.b_layout == "row" else b.T, c0)
    before = [guarded(x, ld) for x, ld in zip(stored, (p.lda, p.ldb, p.ldc), strict=True)]
    memories = [gpu.upload(x) for x in before]
    addresses = [m.address + GUARD * x.itemsize for m, x in zip(memories, before, strict=True)]
    gemm = load_gemm(gpu, entry)
    if algorithm is None:
        gemm.bind(p, *addresses)()
    else:
        assert isinstance(gemm, CublasGemm)
        gemm.lt.candidates(p, types, *addresses)[algorithm]()
    after = gpu.download(memories[2], types.c.numpy, before[2].size)
    c = inside(after, p.m, p.n, p.ldc).copy()
    inside(after, p.m, p.n, p.ldc)[:] = c0
    assert after.tobytes() == before[2].tobytes(), "wrote outside C"
    return verify.evaluate(c, *verify.expected(p, types, a, b, c0, of_library=True))


@pytest.mark.parametrize(
    "entry",
    [pytest.param(e, marks=() if e in EMULATED_LIBRARIES else card) for e in BASELINES],
    ids=lambda entry: entry.name,
)
def test_a_library_is_right_on_an_odd_problem_with_wide_rows(
    entry: Baseline, device: GpuDevice
) -> None:
    """cuBLAS takes alpha and beta, too."""
    scaled = [(0.75, -1.5), (1.0, 1.0), (0.0, 1.0), (-2.0, 0.0)] if entry in CUBLAS else []
    for alpha, beta in [(1.0, 0.0), *scaled]:
        result = library_result(device, entry, replace(odd(entry), alpha=alpha, beta=beta))
        assert result.passed, f"{alpha}, {beta}: {result.detail}"


@card
@pytest.mark.parametrize(
    "entry", [e for e in BASELINES if e.library != "torch"], ids=lambda entry: entry.name
)
def test_a_library_with_several_calls_is_right_by_every_call_and_names_the_winner(
    entry: Baseline, device: GpuDevice
) -> None:
    """Each algorithm that cuBLAS's heuristic gives, or configuration of Triton's, on a size at
    which several run.
    """
    gpu, p = device.gpu, Problem.square(1024, entry.b_layout)
    gemm = load_gemm(gpu, entry)
    assert isinstance(gemm, FastestCall)
    matrices = Matrices.fill(gpu, p, entry.types, "uniform", ["variant"])
    addresses = matrices.a.address, matrices.b.address, matrices.c["variant"].address
    calls = gemm.calls(p, *addresses)
    assert len(calls) > 2 and (next(iter(calls)) == "cublasGemmEx") == (entry.library == "cublas")
    for name, call in calls.items():
        matrices.poison(gpu, "variant")
        call()
        result = check_output(gpu, matrices, "variant", call)
        assert result.passed, f"{name}: {result.detail}"
    matrices.poison(gpu, "variant")
    work = bind_for_timing(gemm, p, *addresses)
    work()
    assert check_output(gpu, matrices, "variant", work).passed and how_called(gemm, p) in calls


@card
@pytest.mark.parametrize("entry", CUBLAS, ids=lambda entry: entry.name)
def test_every_cublaslt_algorithm_is_right_on_an_odd_problem(
    entry: Baseline, device: GpuDevice
) -> None:
    """With wide rows, alpha and beta; some problems have no algorithm, but not all of them."""
    gemm, count = CublasGemm(device.gpu, entry), 0
    plain = Problem.packed(256, 128, 64, entry.b_layout)
    for p in (odd(entry), replace(odd(entry), alpha=0.75, beta=-1.5), plain):
        for index in range(len(gemm.lt.candidates(p, entry.types, *([4096] * 3)))):
            result = library_result(device, entry, p, index)
            count += 1
            assert result.passed, f"{p}, algorithm {index + 1}: {result.detail}"
    assert count > 2


@card
def test_torch_refuses_alpha_and_beta(device: GpuDevice) -> None:
    torch_gemm = load_gemm(device.gpu, catalogue.load().find("torch_matmul_fp32"))
    with refused(r"torch_matmul_fp32 takes alpha = 1, beta = 0 only, not 1\.0, 0\.5"):
        torch_gemm.bind(replace(ODD, beta=0.5), 0, 0, 0)


# ---- inputs --------------------------------------------------------------------------------------


def filled(
    device: GpuDevice, dtype: str, data: str, seed: int = 1, count: int = 2**20
) -> np.ndarray:
    """A buffer that the device filled, as it came."""
    kind = dtypes()[dtype]
    return device.gpu.download(device.gpu.filled(kind, count, seed, data), kind.numpy, count)


@card
@pytest.mark.parametrize("dtype", list(dtypes()))
def test_uniform_inputs(dtype: str, device: GpuDevice) -> None:
    """In [-1, 1), or up to 1 where rounding takes them there, as random numbers are."""
    raw = filled(device, dtype, "uniform")
    values = raw.astype(np.float64)
    assert values.min() >= -1 and values.min() < -0.99 and values.max() > 0.99
    assert values.max() < 1 if dtype in ("fp32", "tf32") else values.max() <= 1
    assert abs(values.mean()) < 0.005 and values.std() == pytest.approx(3**-0.5, rel=0.01)
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.01
    assert len(np.unique(values)) > min(1000, 6 / dtypes()[dtype].unit_roundoff)
    assert (raw == filled(device, dtype, "uniform")).all()
    assert (raw != filled(device, dtype, "uniform", seed=2)).mean() > 0.9
    if dtype in ("fp32", "tf32"):
        bits = raw.view(np.uint32)
        assert (bits & 0x2000).any() and (bits & 0x1FFF).any() == (dtype == "fp32")


@card
@pytest.mark.parametrize("dtype", list(dtypes()))
def test_other_inputs(dtype: str, device: GpuDevice) -> None:
    normal, zeros, nans = (
        filled(device, dtype, data).astype(np.float64) for data in ("normal", "zeros", "nans")
    )
    assert np.isfinite(normal).all() and abs(normal.mean()) < 0.01
    assert normal.std() == pytest.approx(1, rel=0.01)
    # It would be 0.866 for uniform numbers.
    assert np.abs(normal).mean() == pytest.approx((2 / np.pi) ** 0.5, rel=0.01)
    assert not zeros.any() and np.isnan(nans).all()


def test_a_fill_ends_where_it_is_asked_to(device: GpuDevice) -> None:
    memory = Memory(4 * 3000)
    device.gpu.fill(memory, dtypes()["fp32"], 3000, 1, "nans")
    device.gpu.fill(memory, dtypes()["fp32"], 1001, 1, "uniform")
    values = device.gpu.download(memory, np.float32, 3000)
    assert np.isfinite(values[:1001]).all() and np.isnan(values[1001:]).all()
