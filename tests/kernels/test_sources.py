"""Each kernel source, on the emulator: right on small problems, and what it cannot take is
refused.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.emulation.device import EmulatedDevice
from experiments.stages.cases import Case
from experiments.stages.check import run_case
from kernels import catalogue
from kernels.catalogue import Problem, Variant

KERNELS = catalogue.load().kernels


def one_of_each() -> list[str]:
    """A kernel of each source and, where a source branches on them, of each width of element and
    layout of B.
    """
    kinds: dict[object, str] = {}
    for name, v in KERNELS.items():
        kinds.setdefault((v.source, v.types.ab.bytes, v.b_layout), name)
    return list(kinds.values())


def whole_tiles(variant: Variant) -> Problem:
    """Two tiles along m and n, or as many as a cluster has, and three steps over k; rows are
    longer.
    """
    clusters = dict(zip(variant.raster, variant.cluster, strict=True))
    m, n = (max(2, clusters[axis]) * variant.tile[axis] for axis in "mn")
    k = 3 * variant.splits * variant.tile["k"] if variant.tile["k"] > 1 else 40
    b_row = k if variant.b_layout == "column" else n
    return Problem(m, n, k, k + 16, b_row + 16, n + 16, 0.75, -1.5, variant.b_layout)


def odd(variant: Variant) -> Problem:
    """Nothing is a multiple of a tile; rows are whole 16 bytes where the kernel needs that."""
    m, n, k = 300, 270, 70
    b_row = k if variant.b_layout == "column" else n
    lda, ldb, ldc = (-(-row // 16) * 16 for row in (k, b_row, n))
    return Problem(m, n, k, lda, ldb, ldc, 0.75, -1.5, variant.b_layout)


@pytest.mark.parametrize("name", one_of_each())
def test_a_source_computes_what_it_must(name: str, ptx) -> None:
    variant = KERNELS[name]
    device = EmulatedDevice(ptx(name))
    tiles = whole_tiles(variant)
    cases = {
        "whole tiles": tiles,
        "beta = 0": replace(tiles, alpha=1.0, beta=0.0),
        "alpha = 0": replace(tiles, alpha=0.0),
    }
    if not {"m", "n", "k"} & variant.multiples.keys():
        cases["odd sizes"] = odd(variant)
    for case, problem in cases.items():
        assert run_case(device, variant, Case(case, problem), seed=1).detail == "", case


@pytest.mark.parametrize(
    "name", [name for name in one_of_each() if KERNELS[name].b_layout == "column"]
)
def test_a_kernel_of_a_column_major_b_takes_no_other(name: str, ptx) -> None:
    variant, device = KERNELS[name], EmulatedDevice(ptx(name))
    by_rows = replace(odd(variant), ldb=272, b_layout="row")
    refused = run_case(device, variant, Case("", by_rows), seed=1).detail
    assert refused.endswith("cannot take this problem: B is row-major, but it must be column-major")
    # the same code given a B row after row: the case is made as it lies
    other = replace(variant, b_layout="row")
    assert "elements are off" in run_case(device, other, Case("", by_rows), seed=1).detail


@pytest.mark.parametrize(
    ("name", "sms"),
    [("tf32gemm_wgmma", 1), ("hgemm_wgmma_store_fp16", 3), ("hgemm_wgmma_streamk_fp16", 6)],
)
def test_a_persistent_kernel_takes_any_number_of_multiprocessors(name: str, sms: int, ptx) -> None:
    variant, device = KERNELS[name], EmulatedDevice(ptx(name), sms=sms)
    assert run_case(device, variant, Case("", odd(variant)), seed=1).detail == ""


def sums_of_one_sign(name: str, folder: Path) -> float:
    """The largest relative error of sums of 512 products from 0 to 1, in units of 2^-24."""
    rng, (m, n, k) = np.random.default_rng(0), (64, 64, 512)
    a, b = (rng.uniform(0, 1, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    buffers = [np.pad(x.ravel(), 256) for x in (a, b, np.zeros((m, n), np.float32))]
    after = EmulatedDevice(folder).run(KERNELS[name], Problem(m, n, k, k, n, n), buffers, 0)
    c = after[2][256:-256].reshape(m, n)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    return float((np.abs(c - exact) / exact).max() * 2.0**24)


def test_long_sums_of_one_sign_keep_fp32s_accuracy_outside_of_the_tensor_cores_alone(ptx) -> None:
    fp32 = np.sqrt(512) + 3
    assert sums_of_one_sign("sgemm_3xtf32_wgmma", ptx("sgemm_3xtf32_wgmma")) > fp32
    assert sums_of_one_sign("sgemm_3xtf32_wgmma_outside", ptx("sgemm_3xtf32_wgmma_outside")) <= fp32
