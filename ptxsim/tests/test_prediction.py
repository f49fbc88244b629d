"""Counters of a grid from a few of its blocks: the same as of all of them, or a reason."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ptxsim
from ptxsim.cli import main
from ptxsim.compiler import compile_ptx
from ptxsim.prediction import sample

SOURCE = """
extern "C" __global__ void edges(float* out, const float* in, int n) {  // a stencil with ragged edges on both axes
    __shared__ float s[8][9];
    int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    float sum = 0;
    if (x < n && y < n) {
        s[threadIdx.x][threadIdx.y] = in[y * n + x];
        if (x > 0) sum += in[y * n + x - 1];
        if (y > 0) sum += in[(y - 1) * n + x];
        for (int k = 0; k < (blockIdx.y ? 3 : 5); ++k) sum += s[threadIdx.x][threadIdx.y] * k;
        out[y * n + x] = sum;
    }
}
extern "C" __global__ void triangle(float* out, const float* in, int n) {
    float sum = 0;
    for (int k = 0; k <= blockIdx.x; ++k) sum += in[k * 32 + threadIdx.x];
    out[blockIdx.x * 32 + threadIdx.x] = sum;
}
extern "C" __global__ void queue(float* out, int* next, int n) {  // each block takes the next tile that is left
    __shared__ int tile;
    while (true) {
        if (threadIdx.x == 0) tile = atomicAdd(next, 1);
        __syncthreads();
        if (tile >= n) return;
        out[tile * 32 + threadIdx.x] = tile;
        __syncthreads();
    }
}
extern "C" __global__ void histogram(int* counts, const int* in, int* old) {  // atomics whose results decide nothing
    atomicAdd(counts + threadIdx.x % 8, in[blockIdx.x * 32 + threadIdx.x]);
    old[blockIdx.x * 32 + threadIdx.x] = atomicAdd(counts + 8, 1);
}
"""


@pytest.fixture(scope="module")
def text(compiled) -> str:
    compiled("faults.cu", "trap_good")  # skips where there is no compiler
    return SOURCE


@pytest.fixture(scope="module")
def ptx_text(text, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("prediction") / "all.cu"
    path.write_text(text)
    return compile_ptx(path)


@pytest.mark.parametrize("grid", [(1, 1), (2, 3), (5, 9), (12, 12)])
def test_edges(ptx_text, grid):
    kernel = ptxsim.load(ptx_text, "edges")
    n = 8 * max(grid) - 3
    arrays = [ptxsim.Array(np.zeros((n, n), np.float32)) for _ in range(2)]
    counters = ptxsim.Counters()
    kernel.launch(grid, (8, 8), [*arrays, n], observers=[counters], checks=False)
    found = ptxsim.predict(kernel, grid, (8, 8), [*arrays, n])
    assert found.totals == pytest.approx(counters.totals(), rel=1e-12)
    assert found.blocks == grid[0] * grid[1] and found.sampled <= 15
    assert found.totals["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] > 0


def test_atomics_whose_results_decide_nothing(ptx_text):
    kernel = ptxsim.load(ptx_text, "histogram")
    data = ptxsim.Array(np.arange(3200, dtype=np.int32))
    args = [ptxsim.Array(np.zeros(9, np.int32)), data, ptxsim.Array(np.zeros(3200, np.int32))]
    counters = ptxsim.Counters()
    kernel.launch(100, 32, args, observers=[counters], checks=False)
    assert ptxsim.predict(kernel, 100, 32, args).totals == pytest.approx(counters.totals())


def test_operands_of_wgmma_and_textures(compiled):
    """They are told to observers by themselves: 128 rows of 128 bytes of a block are 128 wavefronts."""
    kernel = compiled("wgmma.cu", "gemm<__half, 1, false, false, 0>")
    args = [ptxsim.Array(np.zeros((64, 64), np.float32)), *(ptxsim.Array(np.zeros((64, 64), np.uint16)) for _ in "ab")]
    counters = kernel.count(50, 128, args)
    found = ptxsim.predict(kernel, 50, 128, args).totals
    assert found == pytest.approx(counters.totals())
    assert found["memory_l1_wavefronts_shared"] - found["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"] == 6400


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (
            "triangle",
            r"triangle: blocks \(\d+, 0, 0\) and \(\d+, 0, 0\), neither at another edge .*ld.sum is [\d,]+ and ",
        ),
        (
            "queue",
            r"queue: .*, called from all.cu:22: what a block does depends on what others did before, by",
        ),
    ],
)
def test_why_it_cannot(ptx_text, entry, reason):
    arrays = [ptxsim.Array(np.zeros(3200, np.float32)), ptxsim.Array(np.zeros(3200, np.int32))]
    with pytest.raises(ptxsim.PtxsimError, match=reason) as caught:
        ptxsim.predict(ptxsim.load(ptx_text, entry), 100, 32, [*arrays, 50])
    assert "\n" not in str(caught.value) and "run the whole grid" in str(caught.value)


def test_the_command(text, tmp_path, capsys):
    path, out = tmp_path / "all.cu", tmp_path / "counters.json"
    path.write_text(text)
    options = ["--grid", "500,500", "--block", "8,8", "--arg", "zeros:f32:4000x4000", "--arg", "zeros:f32:4000x4000"]
    assert main(["predict", str(path), "--entry", "edges", *options, "--arg", "4000", "--out", str(out)]) == 0
    shown, told = capsys.readouterr().out, json.loads(out.read_text())
    assert shown.startswith("edges: 250,000 blocks, as ") and told["blocks"] == 250_000 and told["sampled"] <= 15
    assert told["totals"]["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 4000 * 4000 * 4 / 32


@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 1, 1), (3, 4, 1), (7, 5, 3), (100, 2, 1)])
def test_each_block_is_of_one_class(grid):
    chosen, sizes = sample(grid)
    assert sum(sizes.values()) == grid[0] * grid[1] * grid[2] and set(chosen.values()) == set(sizes)
    assert all(0 <= number < sum(sizes.values()) for number in chosen)
