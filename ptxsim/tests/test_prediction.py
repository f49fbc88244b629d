"""Counters of a grid from a few of its blocks: the same as of all of them, or a reason."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from running import fails

import ptxsim
from ptxsim.cli import main
from ptxsim.count import bounds, prediction
from ptxsim.count.prediction import _Apart, sample
from ptxsim.count.trip_counts import trip_counts
from ptxsim.ptx.compiler import compile_ptx

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
extern "C" __global__ void columns(float* out, const float* in, int n) {
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += in[(k * gridDim.x + blockIdx.x) % 640 * 32 + threadIdx.x];
    out[blockIdx.x * 32 + threadIdx.x] = sum;
}
extern "C" __global__ void squares(float* out, const float* in, int n) {
    float sum = 0;
    for (int k = 0; k < n; ++k)
        for (int j = 0; j < k; ++j) sum += in[j * 32 + threadIdx.x];
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
extern "C" __global__ void persistent(float* out, const float* in, int n) {
    for (int tile = blockIdx.x; tile < 10; tile += gridDim.x) {
        float sum = 0;
        for (int k = 0; k < n; ++k) sum += in[k % 640 * 32 + threadIdx.x];
        out[tile * 32 + threadIdx.x] = sum;
    }
}
extern "C" __global__ void tiles(float* c, const float* a, const float* b, int k, int rows) {
    for (int tile = blockIdx.x; tile < 16; tile += gridDim.x) {  // of 4 x 4
        float sum = 0;
        for (int i = 0; i < k; ++i)
            sum += a[(tile / 4 * rows + i) * 32 + threadIdx.x] * b[(tile % 4 * rows + i) * 32 + threadIdx.x];
        c[tile * 32 + threadIdx.x] = sum;
    }
}
extern "C" __global__ void alone(float* out, int n) {  // the first lane of each warp goes through a loop of its own
    __shared__ volatile int sum[64];
    for (int k = 0; k < n; ++k) {
        if (threadIdx.x % 32 == 0)
            for (int j = 0; j < 1 + threadIdx.x / 32; ++j) sum[threadIdx.x] = sum[threadIdx.x] + 1;
        out[k * 64 + threadIdx.x] = 1;
    }
}
"""


@pytest.fixture(scope="module")
def source(compiled, tmp_path_factory) -> Path:
    compiled("faults.cu", "trap_good")  # skips where there is no compiler
    path = tmp_path_factory.mktemp("prediction") / "all.cu"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def ptx_text(source) -> str:
    return compile_ptx(source)


def floats(*counts: int) -> list[ptxsim.Array]:
    return [ptxsim.Array(np.zeros(count, np.float32)) for count in counts]


LOADED = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"


@pytest.mark.parametrize("grid", [(1, 1), (2, 3), (5, 9), (12, 12)])
def test_edges(ptx_text, grid):
    kernel = ptxsim.load(ptx_text, "edges")
    n = 8 * max(grid) - 3
    args = [*floats(n * n, n * n), n]
    found = ptxsim.predict(kernel, grid, (8, 8), args)
    assert found.totals == pytest.approx(kernel.count(grid, (8, 8), args).totals(), rel=1e-12)
    assert found.blocks == grid[0] * grid[1] and found.sampled <= 15
    assert found.totals["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] > 0


@pytest.mark.parametrize("case", ["shared and global memory", "boxes of TMA"])
def test_blocks_run_together_count_as_each_by_itself(compiled, ptx_text, case):
    grid, shared, cluster = (4, 1), 0, 1
    if case == "boxes of TMA":
        source = ptxsim.TensorMap(ptxsim.Array(np.zeros((64 * 5, 32), np.float32)), (32, 32))
        kernel, block, args, shared, cluster = (
            compiled("tma.cu", "multicast"),
            160,
            [*floats(2048), source, 5, 0],
            4 * 4096,
            2,
        )
    else:
        kernel, grid, block, args = (
            ptxsim.load(ptx_text, "edges"),
            (8, 8),
            (8, 8),
            [*floats(61 * 61, 61 * 61), 61],
        )
    found = []
    for lanes in (int(np.prod(block)), 16384):
        apart, limits = _Apart(by_instruction=True), ptxsim.Limits(lanes=lanes)
        kernel.launch(
            grid,
            block,
            args,
            shared,
            observers=[apart],
            checks=False,
            limits=limits,
            values=False,
            blocks=list(range(4)),
        )
        found.append(apart.sums(cluster))
    assert found[0] == found[1] and len(found[0]) == 4 // cluster


def test_a_long_loop_from_short_ones(ptx_text):
    """Rows of a matrix are added up; what a launch over 1,000,000 of them counts follows from 8, 12
    and 16.
    """
    kernel = ptxsim.load(ptx_text, "columns")
    data = floats(32 * 40, 32 * 640)
    small = ptxsim.predict(kernel, 40, 32, [*data, 16], over=(2, (4, 8, 12)))
    assert small.totals == pytest.approx(ptxsim.predict(kernel, 40, 32, [*data, 16]).totals)
    args = [*data, 1_000_000]
    large = ptxsim.predict(kernel, 40, 32, args, over=(2, (8, 12, 16)), by_instruction=True)
    assert large.totals[LOADED] == 40 * 4 * 1_000_000
    # All blocks read what the array holds, and no more.
    assert large.work.counts["sectors"] == 640 * 4


def trips(lines: str) -> list[int]:
    """`trip_counts` of a kernel with pointers p and q, and numbers k and n, which are loaded."""
    text = f""".version 8.0\n.target sm_90\n.address_size 64
        .visible .entry f(.param .u64 p, .param .u64 q, .param .u32 k, .param .u32 n) {{
        .reg .b32 %r<20>; .reg .b64 %y<9>; .reg .pred %q<4>;
        .shared .b8 s[64]; ld.param.u32 %r0, [k]; ld.param.u32 %r1, [n]; ld.param.u64 %y0, [p]; mov.u32 %r2, 0;
        mov.u32 %r3, %ctaid.x; mov.u32 %r4, %tid.x; mul.wide.u32 %y1, %r4, 4; add.u64 %y2, %y0, %y1;
        {lines} ret; }}"""
    return trip_counts(ptxsim.load(text).program)


ROUND = "add.u32 %r2, %r2, 1; setp.lt.u32 %q0, %r2, {}; @%q0 bra L;"


@pytest.mark.parametrize(
    ("lines", "found"),
    {
        "L: ld.global.u32 %r5, [%y2]; " + ROUND.format("%r0"): [2],
        "shr.u32 %r6, %r0, 3; L: ld.global.u32 %r5, [%y2]; " + ROUND.format("%r6"): [2],
        # by threads of a block, each with its own part
        "mov.u32 %r2, %r4; L: ld.global.u32 %r5, [%y2]; " + ROUND.format("%r0"): [2],
        "L: ld.global.u32 %r5, [%y2]; " + ROUND.format("%r0") + " st.global.u32 [%y2], %r1;": [2],
        # no loop; a stride; what is stored; by block; out of memory
        "setp.lt.u32 %q0, %r2, %r0; @%q0 bra L; ld.global.u32 %r5, [%y2]; L:": [],
        "L: mad.wide.u32 %y3, %r0, %r2, %y2; ld.global.u32 %r5, [%y3]; " + ROUND.format("%r0"): [],
        "L: st.global.u32 [%y2], %r0; " + ROUND.format("%r0"): [],
        # an address, and the size, of a copy
        "mad.wide.u32 %y3, %r0, 4, %y2; L: cp.async.ca.shared.global [%r7], [%y3], 4; "
        + ROUND.format("%r0"): [],
        "L: cp.async.ca.shared.global [%r7], [%y2], 4, %r0; " + ROUND.format("%r0"): [2],
        # no whole number
        "ld.param.f32 %r6, [n]; cvt.rzi.u32.f32 %r7, %r6; L: ld.global.u32 %r5, [%y2]; "
        + ROUND.format("%r7"): [],
        # half of a parameter
        "ld.param.u32 %r6, [q+4]; L: ld.global.u32 %r5, [%y2]; " + ROUND.format("%r6"): [],
        "mov.u32 %r2, %r3; L: ld.global.u32 %r5, [%y2]; " + ROUND.format("%r0"): [],
        "L: ld.global.u32 %r5, [%y2]; min.u32 %r6, %r5, %r0; " + ROUND.format("%r6"): [],
    }.items(),
)
def test_arguments_that_count_trips(lines, found):
    assert trips(lines) == found


def test_clusters_begin_at_multiples_of_their_size(ptx_text):
    """Three classes on an axis of three clusters, two on one of two: all of them are run."""
    firsts = [x + 3 * (y + 6 * z) for z in (0, 4) for y in (0, 2, 4) for x in range(3)]
    assert prediction.edges(ptxsim.load(ptx_text, "edges"), (3, 6, 8), (1, 2, 4)) == firsts


def test_the_neighbours_of_a_middle_block():
    assert prediction._neighbours((3, 4, 5)) == [31, 32, 34, 43]
    assert prediction._neighbours((2, 1, 3)) == [3, 2, 5]


def test_a_large_count_of_trips_is_shortened(ptx_text):
    """So many trips that the whole launch would take minutes, and the counts of it all the same."""
    kernel = ptxsim.load(ptx_text, "columns")
    data = floats(32 * 40, 32 * 640)
    found = ptxsim.predict(kernel, 40, 32, [*data, 10_000_000])
    assert found.totals[LOADED] == 40 * 4 * 10_000_000
    assert found.over == (2, (128, 192, 256))
    assert ptxsim.predict(kernel, 40, 32, [*data, 100]).over is None


def test_blocks_of_a_persistent_kernel_differ_in_their_number_of_tiles(ptx_text):
    """All blocks run once, with few trips; of those that do the same, up to three run with more."""
    kernel = ptxsim.load(ptx_text, "persistent")
    data = floats(32 * 10, 32 * 640)
    found = ptxsim.predict(kernel, 4, 32, [*data, 1_000_000])
    assert found.totals[LOADED] == 10 * 4 * 1_000_000
    assert found.sampled == found.blocks == 4 and found.over == (2, (128, 192, 256))
    # two blocks with two of the tiles, and six with one
    more = ptxsim.predict(kernel, 8, 32, [*data, 2000])
    assert more.totals == kernel.count(8, 32, [*data, 2000]).totals() and more.sampled == 5
    with fails(r"blocks \(2, 0, 0\) and \(1, 0, 0\).* do not do the same"):
        ptxsim.predict(kernel, 4, 32, [*data, 100])


@pytest.mark.parametrize("grid", [8, 6])
def test_sectors_of_a_persistent_kernel_are_those_of_all_blocks(ptx_text, grid):
    """Blocks share rows and columns of tiles, which neighbours do not show; with 6 blocks some have
    more tiles.
    """
    kernel = ptxsim.load(ptx_text, "tiles")
    k = 1600
    args = [*floats(16 * 32, 4 * k * 32, 4 * k * 32), k, k]
    found = ptxsim.predict(kernel, grid, 32, args, by_instruction=True)
    assert found.over == (3, (128, 192, 256))
    assert found.work.counts["sectors"] == 2 * 4 * k * 32 * 4 / 32


def test_warps_are_not_parted_in_long_loops(ptx_text):
    """A warp whose first lane was apart goes on as one, however long it runs: each store is a
    single request.
    """
    totals = ptxsim.load(ptx_text, "alone").count(1, 64, [*floats(3000 * 64), 3000]).totals()
    assert totals["l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"] == 2 * 3000


@pytest.mark.parametrize(
    ("entry", "over", "message"),
    [
        ("columns", (2, (8, 12)), "expected three or more values"),
        ("columns", (2, (8, 12, 40)), "expected three or more values from 1 to 16 - 1"),
        ("columns", (2, (3, 7, 11)), "expected three or more values"),
        ("columns", (0, (4, 8, 12)), "argument 0 is no whole number"),
        ("squares", (2, (4, 8, 12)), r"argument 2 in steps of 4: .* does not grow linearly"),
    ],
)
def test_what_does_not_lead_to_the_launch_s_own_is_refused(ptx_text, entry, over, message):
    with fails(message):
        ptxsim.predict(
            ptxsim.load(ptx_text, entry), 40, 32, [*floats(32 * 40, 32 * 640), 16], over=over
        )


def test_atomics_whose_results_decide_nothing(ptx_text):
    kernel = ptxsim.load(ptx_text, "histogram")
    data = ptxsim.Array(np.arange(3200, dtype=np.int32))
    args = [ptxsim.Array(np.zeros(9, np.int32)), data, ptxsim.Array(np.zeros(3200, np.int32))]
    assert ptxsim.predict(kernel, 100, 32, args).totals == pytest.approx(
        kernel.count(100, 32, args).totals()
    )


def test_operands_of_wgmma_and_textures(compiled):
    """Observers see them by methods of their own: 128 rows of 128 bytes of a block are 128
    wavefronts.
    """
    kernel = compiled("wgmma.cu", "gemm<__half, 1, false, false, 0>")
    args = [
        ptxsim.Array(np.zeros((64, 64), np.float32)),
        *(ptxsim.Array(np.zeros((64, 64), np.uint16)) for _ in "ab"),
    ]
    counters = kernel.count(50, 128, args)
    found = ptxsim.predict(kernel, 50, 128, args).totals
    assert found == pytest.approx(counters.totals())
    assert (
        found["memory_l1_wavefronts_shared"]
        - found["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"]
        == 6400
    )


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (
            "triangle",
            r"triangle: blocks \(\d+, 0, 0\) and \(\d+, 0, 0\), neither at another edge .*ld.sum is [\d,]+ and ",
        ),
        (
            "queue",
            r"queue: all.cu:33, .*: what a block does depends on what others did before, by",
        ),
    ],
)
def test_why_it_cannot(ptx_text, entry, reason):
    arrays = [ptxsim.Array(np.zeros(3200, np.float32)), ptxsim.Array(np.zeros(3200, np.int32))]
    with fails(reason) as caught:
        ptxsim.predict(ptxsim.load(ptx_text, entry), 100, 32, [*arrays, 50])
    assert "\n" not in str(caught.value) and "run the whole grid" in str(caught.value)


def test_the_command(source, tmp_path, capsys):
    out = tmp_path / "counters.json"
    options = ["--entry=edges", "--grid=500,500", "--block=8,8", *["--arg=zeros:f32:4000x4000"] * 2]
    assert main(["predict", str(source), *options, "--arg=4000", "--out", str(out)]) == 0
    shown, saved = capsys.readouterr().out, json.loads(out.read_text())
    assert shown.startswith("edges: 250,000 blocks, predicted from ")
    assert saved["blocks"] == 250_000 and saved["sampled"] <= 15
    assert saved["totals"]["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 4000 * 4000 * 4 / 32


@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 1, 1), (3, 4, 1), (7, 5, 3), (100, 2, 1)])
def test_each_block_is_of_one_class(grid):
    classes = sample(grid)
    chosen, sizes = classes.of, classes.sizes
    assert sum(sizes.values()) == grid[0] * grid[1] * grid[2] and set(chosen.values()) == set(sizes)
    assert all(0 <= number < sum(sizes.values()) for number in chosen)


TAKES_TURNS = """
extern "C" __global__ void turns(const float* a, float* c, volatile int* turn, int tiles, int steps) {
    if (threadIdx.x == 0) while (turn[blockIdx.x] == 0) {}
    __syncthreads();
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        float sum = 0;
        for (int k = 0; k < steps; ++k) sum += a[(tile * steps + k) * 32 + threadIdx.x];
        c[tile * 32 + threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0 && blockIdx.x + 1 < gridDim.x) turn[blockIdx.x + 1] = 1;
}
"""


def test_blocks_that_wait_for_others_are_predicted_from_whole_launches(tmp_path):
    """Five launches say what a block, its wait, a step of it, a tile and a step of it cost; one
    more tests that.
    """
    (tmp_path / "turns.cu").write_text(TAKES_TURNS)
    kernel = ptxsim.load(tmp_path / "turns.cu", "turns")

    def sample(blocks, tiles, steps):
        a, c = (ptxsim.Array(np.zeros(size * 32, np.float32)) for size in (tiles * steps, tiles))
        turn = ptxsim.Array(np.eye(1, blocks + 1, dtype=np.int32)[0])  # the first block may begin
        work = blocks, blocks - 1, blocks * steps, tiles, tiles * steps  # the first does not wait
        launch = {"grid": blocks, "block": 32, "args": [a, c, turn, tiles, steps]}
        return prediction.Sample(launch, work, (tiles * steps, 1))

    large, small = (
        sample(6, 24, 64),
        [sample(b, t, s) for b, t in ((1, 4), (4, 4), (4, 8)) for s in (32, 16)],
    )
    counters, traffic = ptxsim.Counters(), bounds.Traffic()
    kernel.launch(**large.arguments, observers=[counters, traffic], checks=False)
    found = prediction.predict_from(kernel, large, small)
    assert found.totals == pytest.approx(counters.totals())
    assert found.counters.totals() == pytest.approx(counters.totals())
    work = bounds.Work.observed(counters, traffic)
    assert found.work.executed == pytest.approx(work.executed)
    assert found.work.counts["sectors"] == pytest.approx(work.counts["sectors"])
    wrong = prediction.Sample({**small[1].arguments}, (*small[1].work[:4], 500), small[1].area)
    with fails("follows from the others"):
        prediction.predict_from(kernel, large, [small[0], wrong, *small[2:]])
