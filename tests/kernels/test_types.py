"""A GEMM of several types: its name, what is refused, and a kernel of 8-bit floats from its entry
to its checks.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  # NumPy knows 8-bit floats by it
import pytest
from helpers import ARCH

from contracts.dtypes import Types, dtypes
from experiments.emulation.device import EmulatedDevice
from experiments.stages import build
from experiments.stages.check import check_cases
from kernels import catalogue
from kernels.catalogue import Problem, Variant

SOURCE = """
#include "include/epilogue.cuh"
#include <cuda_bf16.h>
#include <cuda_fp8.h>

template <int BLOCK>
__global__ void naive(int m, int n, int k, float alpha, const AB* A, int lda, const AB* B, int ldb, float beta, T* C,
                      int ldc) {
    if (alpha == 0.0f) k = 0;
    const int row = blockIdx.x * BLOCK + threadIdx.x % BLOCK, column = blockIdx.y * BLOCK + threadIdx.x / BLOCK;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (int p = 0; p < LAST; ++p) sum += float(A[row * lda + p]) * float(B[column * ldb + p]);
    C[row * ldc + column] = T(alpha * sum + (beta == 0.0f ? 0.0f : beta * float(C[row * ldc + column])));
}
"""


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("tf32", ("tf32", "fp32", "fp32")),
        ("bf16_fp32", ("bf16", "fp32", "fp32")),
        ("fp8_e5m2_fp8_e4m3", ("fp8_e5m2", "fp32", "fp8_e4m3")),
        ("fp16_fp16_fp16", ("fp16", "fp16", "fp16")),
    ],
)
def test_types_have_a_name_that_says_them(name: str, parts: tuple[str, str, str]) -> None:
    types = Types.named(name)
    assert (types.ab.name, types.accumulate.name, types.c.name) == parts and types.name == name


def test_cublaslt_refuses_products_of_8_bit_floats_that_it_does_not_take() -> None:
    entry = catalogue.load()["cublaslt_fp8_e4m3_bf16"]
    good = Problem(272, 128, 80, 96, 96, 136, b_layout="column")
    addresses = dict.fromkeys("ABC", 4096)
    assert entry.unsupported_reason(good, addresses) is None
    for key, value in {"m": 264, "n": 120, "k": 72, "lda": 88, "ldc": 132}.items():
        unsupported_reason = entry.unsupported_reason(replace(good, **{key: value}), addresses)
        assert f"{key} = {value}, but it must be a multiple of" in unsupported_reason
    assert "B begins 8 bytes past" in entry.unsupported_reason(good, addresses | {"B": 4104})
    assert (
        "compute capability 8.9" in entry.unsupported("sm_80")
        and entry.unsupported("sm_90a") is None
    )


def checked(tmp_path: Path, ab: str, c: str, last: str) -> list[Any]:
    """All checks, on the emulator, of a kernel that adds up `last` products an element."""
    entry = {"source": "sgemm/naive.cu", "entry": "naive", "template": {"BLOCK": 32}}
    entry |= {"threads": 1024, "tile": {"m": "BLOCK", "n": "BLOCK", "k": 1}, "raster": "mn"}
    entry |= {"b_layout": "column", "idea": "8-bit floats", "baseline": "cublaslt_fp8_e4m3_bf16"}
    entry |= {"types": {"ab": ab, "accumulate": "fp32", "c": c}}
    made, source = catalogue.load().made_of("naive", entry), tmp_path / "source.cu"
    of_c = dtypes()[c].c_type
    text = SOURCE.replace("AB*", f"{dtypes()[ab].c_type}*").replace("T*", f"{of_c}*")
    source.write_text(text.replace("T(", f"{of_c}(").replace("LAST", last))
    variant: Variant = replace(made, source=source)
    build.build_kernel(variant, ARCH, tmp_path)
    return check_cases(nullcontext(EmulatedDevice(tmp_path)), variant, seed=1, large=None)


def test_a_kernel_of_8_bit_floats_is_built_and_passes_every_check(tmp_path: Path) -> None:
    cases = checked(tmp_path, "fp8_e5m2", "fp32", "k")
    assert len(cases) > 15 and all(case.row.passed for case in cases), [c.row for c in cases]
    for case in cases:
        a, _, c = case.inputs.before
        assert (a.dtype, c.dtype) == (dtypes()["fp8_e5m2"].numpy, dtypes()["fp32"].numpy)


def test_a_kernel_of_8_bit_floats_that_drops_a_product_fails(tmp_path: Path) -> None:
    cases = checked(tmp_path, "fp8_e4m3", "bf16", "k - 1")
    summed = [c for c in cases if c.inputs.case.problem.alpha and not c.inputs.case.refused]
    assert summed and not any(case.row.passed for case in summed)
