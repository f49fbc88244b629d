"""After a wrong result, try_kernel runs the same kernel as nvcc -G compiles it."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import run_module

KERNEL = """
template <int COUNT>
__global__ void row_of_sums(int m, int n, int k, float alpha, const float* A, int lda, const float* B, int ldb,
                            float beta, float* C, int ldc) {
    const int row = blockIdx.x * 32 + threadIdx.x, first = blockIdx.y * 8;
    if (row >= m) return;
    float sum[COUNT] = {};
    if (alpha != 0)
        for (int p = 0; p < k; ++p)
#pragma unroll
            for (int j = 0; j < 8; ++j) sum[j] += A[row * lda + p] * B[p * ldb + min(first + j, n - 1)];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        if (first + j >= n) continue;
        float* c = &C[row * ldc + first + j];
        *c = alpha * sum[j] + (beta != 0 ? beta * *c : 0);
    }
}
"""
LIKE = ["--like", "sgemm_naive", "--tile", "m=32", "n=8", "k=1", "--threads", "32", "--size", "64"]


@pytest.mark.parametrize("count", [4, 8])
def test_a_wrong_result_is_looked_into_with_debug_code(count: int, tmp_path: Path) -> None:
    source = tmp_path / "sums.cu"
    source.write_text(KERNEL)
    template = ["--template", f"COUNT={count}"]
    done = run_module("experiments.try_kernel", source, *LIKE, *template, "--out-dir", tmp_path / "out")
    said = " ".join(done.stdout.split())
    assert done.returncode == (count < 8), done.stdout + done.stderr
    assert ("with -G" in said) == (count < 8)
