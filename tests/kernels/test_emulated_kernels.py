"""The catalogue's kernels: right results, and the counters that Nsight Compute read on a GPU."""

from __future__ import annotations

import csv
import functools
import math
from collections import defaultdict

import numpy as np
import pytest
from helpers import ARCHIVE

import ptxsim
from contracts.dtypes import Dtype
from experiments.emulation.launching import FEW_SMS, Arguments
from experiments.stages import verify
from kernels import arguments, catalogue
from ptxsim.count.counters import Counters, named
from ptxsim.count.extrapolation import extrapolate

MEASURED = ARCHIVE / "counters.csv"
N = 4096

# counted by the memory system itself, where warps meet: within these bounds of what one warp after another would need
LOOSE = {
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 0.0025,
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": 0.12,
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": 0.015,
}
LOOSER = {
    # it spills: local memory goes through the same pipe
    ("sgemm_at_swizzle_dbf_rw_3blocks", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"): 0.03,
    # beyond what was asked for, 12%: how much more is docs/hardware.md's open question
    ("sgemm_vectorized_padded", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"): 0.15,
    # the same excess between warps, 17% in the archive of 2026-11-22 (under 12% in the one before)
    ("hgemm_bcf_dbf_rw_fp16", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"): 0.18,
    # its wavefronts are exact; what ncu takes for ideal is not understood here
    ("sgemm_tiling", "memory_l1_wavefronts_shared_ideal"): 0.25,
}


@pytest.fixture(scope="session")
def variant(ptx):
    """A function: the catalogue's variant and its kernel."""

    @functools.cache
    def get(name: str) -> tuple[catalogue.Variant, ptxsim.Kernel]:
        return catalogue.load().find(name), ptxsim.load(ptx(name) / f"{name}.ptx")

    return get


NAMES = sorted(name for name in catalogue.load().kernels)
# one of each kind at every run; the others, which differ from these in a template value or one idea, with -m slow
QUICK = {"sgemm_naive", "sgemm_blocktile_2d", "sgemm_vectorized", "sgemm_warptile", "sgemm_tiling", "sgemm_at_swizzle"}
QUICK |= {"sgemm_at_swizzle_dbf_rw", "sgemm_t128x128x8_texld", "sgemm_t128x256x8_cpasync"}
QUICK |= {"hgemm_naive_bf16", "hgemm_bcf_dbf_rw_fp16", "tf32gemm_bcf_dbf", "sgemm_3xtf32_mma_outside"}
QUICK |= {"sgemm_3xtf32_wgmma_outside"}
QUICK |= {"hgemm_wgmma_smem_bf16", "hgemm_wgmma_tma_fp16", "hgemm_wgmma_ws_bf16", "hgemm_wgmma_store_bf16"}
QUICK |= {"hgemm_wgmma_pingpong_bcol_bf16", "tf32gemm_wgmma", "tf32gemm_wgmma_bcol"}
QUICK |= {"hgemm_transposed_112x128_c2x2_fp16", "hgemm_transposed_144x64_c4x1_k2_bf16"}
EACH = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in NAMES]


def tiles(found) -> tuple[int, int, int]:
    return found.tile["m"], found.tile["n"], found.tile["k"]


def launch(found, kernel, m, n, k, alpha, beta, pad, seed=0, low=-1.0, **options):
    """C as the kernel leaves it, and in float64, of numbers from `low` to 1; C poisoned where it must not be read."""
    rng = np.random.default_rng(seed)
    ab, c_type = found.types.ab, found.types.c
    column = found.b_layout == "column"
    lda, ldb, ldc = k + pad, (k if column else n) + pad, n + pad

    def matrix(rows: int, columns: int, stride: int, dtype: Dtype = ab) -> np.ndarray:
        full = np.full((rows, stride), np.nan, np.float32)
        full[:, :columns] = rng.uniform(low, 1, (rows, columns))
        return full.astype(dtype.numpy)

    a, b, c = matrix(m, k, lda), matrix(n, k, ldb) if column else matrix(k, n, ldb), matrix(m, n, ldc, c_type)
    if beta == 0:
        c[:] = np.nan
    out = ptxsim.Array(c, "C")
    problem = catalogue.Problem(m, n, k, lda, ldb, ldc, alpha, beta, found.b_layout)
    grid = found.grid(problem, FEW_SMS)
    matrices = {"A": ptxsim.Array(a, "A"), "B": ptxsim.Array(b, "B"), "C": out}
    args = arguments.pack(found.arguments, problem, matrices, math.prod(grid), Arguments())
    kernel.launch(grid, found.threads, args, found.shared_bytes, **options)
    a, b = (
        verify.as_read(x, ab, found.narrowing).astype(np.float64)
        for x in (a[:, :k], b[:, :k].T if column else b[:, :n])
    )
    exact = alpha * (a @ b)
    if beta:
        exact += beta * c[:, :n].astype(np.float64)
    return out.numpy(), exact


def smallest(found) -> tuple[int, int, int]:
    bm, bn, bk = tiles(found)
    return 2 * bm, 2 * bn, 3 * bk if bk > 1 else 40


# of these, test_hopper.py has problems with alpha, beta and rows that are longer, too
EDGES_ELSEWHERE = {"hgemm_wgmma_smem_bf16", "hgemm_wgmma_tma_fp16", "hgemm_wgmma_store_bf16"}
EDGES_ELSEWHERE |= {"hgemm_wgmma_pingpong_bcol_bf16", "tf32gemm_wgmma", "tf32gemm_wgmma_bcol"}
ALONE = QUICK - EDGES_ELSEWHERE
WITH_VALUES = [
    pytest.param(name, *values, marks=() if name in quick else pytest.mark.slow)
    for name in NAMES
    for values, quick in (((1.0, 0.0, 0), QUICK), ((1.5, -0.5, 8), ALONE))
]


@pytest.mark.parametrize(("name", "alpha", "beta", "pad"), WITH_VALUES)
def test_kernels_of_the_catalogue(variant, name, alpha, beta, pad):
    found, kernel = variant(name)
    m, n, k = smallest(found)
    got, exact = launch(found, kernel, m, n, k, alpha, beta, pad)
    error = np.abs(got[:, :n].astype(np.float64) - exact)
    sums = 4 * found.types.accumulate.unit_roundoff * np.sqrt(k) + found.types.ab.step_roundoff
    bound = sums * (k / 3 + 1) + found.types.c.unit_roundoff * np.abs(exact)
    assert (error <= bound).all(), float((error / bound).max())
    assert np.isnan(got[:, n:].astype(np.float32)).all()


@pytest.mark.parametrize(("name", "within"), [("sgemm_3xtf32_wgmma", False), ("sgemm_3xtf32_wgmma_outside", True)])
def test_long_sums_of_one_sign_keep_fp32s_accuracy_outside_of_the_tensor_cores_alone(variant, name, within):
    found, kernel = variant(name)
    m, n, k = 64, 64, 512
    got, exact = launch(found, kernel, m, n, k, 1.0, 0.0, 0, low=0.0)
    error = np.abs(got - exact) / exact
    assert (error.max() <= (np.sqrt(k) + 3) * 2.0**-24) == within, error.max() * 2.0**24


def test_odd_sizes(variant):
    for name in ("sgemm_naive", "sgemm_coalesced"):
        found, kernel = variant(name)
        got, exact = launch(found, kernel, 45, 77, 19, 1.5, -0.5, 3)
        assert np.allclose(got[:, :77], exact, atol=1e-5)


def test_a_matrix_too_small_is_out_of_bounds(variant):
    _, kernel = variant("sgemm_vectorized")
    with pytest.raises(
        ptxsim.PtxsimError, match=r"vectorized.cu:\d+: .*out-of-bounds global load .* past the end of B"
    ):
        a, b, c = (
            ptxsim.Array(np.zeros(size, np.float32), name) for size, name in ((1024, "A"), (1020, "B"), (128**2, "C"))
        )
        kernel.launch(1, 256, [128, 128, 8, 1.0, a, 8, b, 128, 0.0, c, 128])


def test_results_do_not_depend_on_the_batch(variant):
    found, kernel = variant("sgemm_blocktile_1d")
    m, n, k = smallest(found)
    one, _ = launch(found, kernel, m, n, k, 1.0, 0.0, 0, limits=ptxsim.Limits(lanes=512))
    all_, _ = launch(found, kernel, m, n, k, 1.0, 0.0, 0)
    assert (one == all_).all()


def measured() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = defaultdict(dict)
    if MEASURED.is_file():
        with MEASURED.open() as file:
            for row in csv.DictReader(file):
                if int(row["n"]) == N:
                    found[row["variant"]][row["metric"]] = float(row["value"])
    return found


def predicted(found, kernel) -> dict[str, float]:
    """Totals at N, from 2x2 blocks with 3 and 4 k-steps."""
    bm, bn, bk = tiles(found)
    bk = max(bk, 32)
    runs = {}
    for steps in (3, 4, 5):
        counters = Counters()
        launch(found, kernel, 2 * bm, 2 * bn, bk * steps, 1.0, 0.0, 0, observers=[counters], checks=False, values=False)
        runs[steps] = counters.sums()
    return named(extrapolate(runs, 4, N // bk, (N // bm) * (N // bn)))


# Not counted like this on the card: empty loads before fence.proxy.async, which only a cubin shows; wavefronts of loads
# and stores that meet those of wgmma; and accesses where blocks share a tile, which they do not in small launches
# (`experiments.emulation.scaling` predicts these: tests/experiments/emulation/test_archived.py).
UNEXPLAINED = {
    "hgemm_wgmma_smem_bf16",
    "hgemm_wgmma_pingpong_bcol_bf16",
    "sgemm_3xtf32_wgmma_outside",
    "tf32gemm_wgmma",
    "tf32gemm_wgmma_bcol",
}


@pytest.mark.parametrize("name", EACH)
def test_counters_as_archived(request, variant, name):
    if name in UNEXPLAINED:
        request.applymarker(pytest.mark.xfail(strict=True, reason="counted otherwise on the card: not modelled yet"))
    hardware = measured().get(name)
    if not hardware:
        pytest.skip("not measured")
    found, kernel = variant(name)
    for metric, value in predicted(found, kernel).items():
        if metric not in hardware or "bank_conflicts" in metric:
            continue  # conflicts are wavefronts less the ideal ones
        bound = LOOSER.get((name, metric), LOOSE.get(metric, 1e-8))  # counters.csv has nine digits
        assert value == pytest.approx(hardware[metric], rel=bound, abs=0.5), metric
