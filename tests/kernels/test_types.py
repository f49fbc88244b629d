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
    found = Types.named(name)
    assert (found.ab.name, found.accumulate.name, found.c.name) == parts and found.name == name


def test_cublaslt_refuses_products_of_8_bit_floats_that_it_does_not_take() -> None:
    entry = catalogue.load()["cublaslt_fp8_e4m3_bf16"]
    good = Problem(272, 128, 80, 96, 96, 136, b_layout="column")
    addresses = dict.fromkeys("ABC", 4096)
    assert entry.refusal(good, addresses) is None
    for key, value in {"m": 264, "n": 120, "k": 72, "lda": 88, "ldc": 132}.items():
        assert f"{key} = {value}, but it must be a multiple of" in entry.refusal(
            replace(good, **{key: value}), addresses
        )
    assert "B begins 8 bytes past" in entry.refusal(good, addresses | {"B": 4104})
    assert "compute capability 8.9" in entry.unfit("sm_80") and entry.unfit("sm_90a") is None


def checked(tmp_path: Path, ab: str, c: str, last: str) -> list[Any]:
    """All checks, on the emulator, of a kernel that adds up `last` products an element."""
    made = catalogue.load().made_of(
        "naive",
        {
            "source": "sgemm/naive.cu",
            "entry": "naive",
            "template": {"BLOCK": 32},
            "threads": 1024,
            "tile": {"m": "BLOCK", "n": "BLOCK", "k": 1},
            "grid": "mn",
            "b_layout": "column",
            "idea": "8-bit floats",
            "baseline": "cublaslt_fp8_e4m3_bf16",
            "types": {"ab": ab, "accumulate": "fp32", "c": c},
        },
    )
    source = tmp_path / "source.cu"
    text = SOURCE.replace("AB*", f"{dtypes()[ab].c_type}*").replace("T*", f"{dtypes()[c].c_type}*")
    source.write_text(text.replace("T(", f"{dtypes()[c].c_type}(").replace("LAST", last))
    variant: Variant = replace(made, source=source)
    build.build_kernel(variant, ARCH, tmp_path)
    return check_cases(nullcontext(EmulatedDevice(tmp_path)), variant, seed=1, large=None)


def test_a_kernel_of_8_bit_floats_is_built_and_passes_every_check(tmp_path: Path) -> None:
    ab, c = "fp8_e5m2", "fp32"
    found = checked(tmp_path, ab, c, "k")
    assert len(found) > 15 and all(one.row.passed for one in found), [one.row for one in found]
    for one in found:
        assert (
            one.inputs.before[0].dtype == dtypes()[ab].numpy
            and one.inputs.before[2].dtype == dtypes()[c].numpy
        )


def test_a_kernel_of_8_bit_floats_that_drops_a_product_fails(tmp_path: Path) -> None:
    found = checked(tmp_path, "fp8_e4m3", "bf16", "k - 1")
    summed = [one for one in found if one.inputs.case.problem.alpha and not one.inputs.case.refused]
    assert summed and not any(one.row.passed for one in summed)
