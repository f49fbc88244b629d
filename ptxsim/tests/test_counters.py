"""Wavefronts and sectors, by hand and as the hardware counted them; what ptxas merges."""

from __future__ import annotations

import re

import numpy as np
import pytest
from running import HEADER, fails

import ptxsim
from ptxsim.count import bounds, wavefronts
from ptxsim.count.counters import LOWER_BOUNDS, POLLS, Counters, named
from ptxsim.count.prediction import extrapolate
from ptxsim.exec import records
from ptxsim.ptx.sass import assemble

LANE = np.arange(32)
ON = np.ones((1, 32), bool)


@pytest.mark.parametrize(
    ("addresses", "width", "waves", "ideal"),
    [
        (LANE * 4, 4, 1, 1),  # consecutive words
        (LANE * 0, 4, 1, 1),  # one word for all
        (LANE * 8, 4, 2, 1),
        (LANE * 128, 4, 32, 1),  # a column of a 32-wide tile
        (LANE * 132, 4, 1, 1),  # padded
        (LANE // 2 * 4, 2, 1, 1),
        (LANE, 1, 1, 1),
        (LANE * 8, 8, 2, 2),  # by half-warps
        (LANE // 2 * 8, 8, 1, 1),  # equal pairs: together
        (LANE * 16, 16, 4, 4),  # by quarter-warps
        (LANE * 0, 16, 2, 2),  # one address for all: the quarters in pairs
        (LANE // 16 * 512, 16, 2, 2),
        (LANE * 32, 16, 8, 4),  # every other 16 bytes: 2-way in each quarter
        (LANE // 2 * 16, 16, 2, 2),
        # equal two lanes apart: together; three apart, or some so and some so: not
        ((LANE // 4 * 2 + LANE % 2) * 8, 8, 1, 1),
        ((LANE // 4 * 2 + (LANE % 4 % 3 > 0)) * 8, 8, 2, 2),
        (np.where(LANE < 16, LANE // 2, LANE // 4 * 2 + LANE % 2) * 8, 8, 2, 2),
        (np.where(LANE < 16, LANE // 2, LANE // 4 * 2 + LANE % 2) * 16, 16, 2, 2),
    ],
)
def test_shared_wavefronts(addresses, width, waves, ideal):
    got = wavefronts.shared(addresses[None], ON, width)
    assert (int(got[0][0]), int(got[1][0])) == (waves, ideal)


def test_halves_of_a_store_are_not_served_together():
    assert wavefronts.shared((LANE // 2 * 8)[None], ON, 8, store=True)[0].tolist() == [2]
    assert wavefronts.shared((LANE * 0)[None], ON, 16, store=True)[0].tolist() == [4]


def test_inactive_lanes_want_nothing():
    active = ON & (LANE < 3)
    assert wavefronts.shared((LANE * 128)[None], active, 4)[0].tolist() == [3]
    assert wavefronts.shared((LANE * 128)[None], ON & False, 4)[0].tolist() == [0]
    assert wavefronts.shared((LANE * 16)[None], ON & (LANE < 8), 16)[0].tolist() == [1]


@pytest.mark.parametrize(("stride", "waves"), [(16, 4), (64, 16), (80, 4), (128, 32), (256, 32)])
def test_ldmatrix_wavefronts(stride, waves):
    assert wavefronts.ldmatrix((LANE % 8 * stride + LANE // 8 * 8192)[None], ON)[0].tolist() == [
        waves
    ]


def one_by_one(values, active) -> int:
    return len({v for lane in np.flatnonzero(active) for v in np.atleast_1d(values[lane])})


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_what_a_warp_touches_compared_with_sets(width):
    """Sectors, bytes, lines, sectors of local memory, and the writes of a cp.async."""
    rng = np.random.default_rng(width)
    for turn in range(50):
        most = [40, 300, 5000][turn % 3]
        at, source = (rng.integers(0, most, 32) * width for _ in range(2))
        on, reading = rng.random(32) < 0.8, rng.random(32) < 0.7
        here = at[None], on[None]
        touched, wanted = wavefronts.sectors(*here, width)
        assert touched[0] == one_by_one(at // 32, on)
        assert wanted[0] == one_by_one(at, on) * width
        assert bounds.count_lines(*here, width)[0] == one_by_one(at // 128, on)
        words = at[:, None] // 4 + np.arange(-(-width // 4))
        local = (words * 32 + LANE[:, None]) * 4 // 32
        assert wavefronts.local_sectors(*here, width)[0] == one_by_one(local, on)
        lines = np.where(reading, source // 128, -1)
        rounds = [on & (lines == line) for line in np.unique(lines[on])]
        banks = [np.bincount(np.unique(words[part]) % 32) for part in rounds]
        waves, ideal = wavefronts.cp_async(*here, width, source[None], reading[None])
        assert waves[0] == sum(int(served.max()) for served in banks)
        assert ideal[0] == -(-one_by_one(at, on) * width // 128)


def count(lines: str, threads: int = 32, merge_loads: bool = True) -> Counters:
    text = f"""{HEADER}.visible .entry k(.param .u64 p) {{ .reg .b32 %r<20>, %t, %a; .reg .b64 %x; .reg .pred %q;
        .reg .f32 %f<20>; .shared .align 16 .b8 s[4096]; mov.u32 %t, %tid.x; mov.u32 %a, s; {lines} ret; }}"""
    counters = Counters(merge_loads)
    ptxsim.load(text).launch(
        1, threads, [ptxsim.Array(np.zeros(4096, np.uint8))], observers=[counters], checks=False
    )
    return counters


LD = "smsp__inst_executed_op_shared_ld.sum"
WAVES = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"


@pytest.mark.parametrize(
    ("lines", "loads"),
    [
        ("ld.shared.f32 %f0, [%a]; bar.sync 0; ld.shared.f32 %f1, [%a+4];", 2),
        ("ld.shared.f32 %f0, [%a]; add.u32 %a, %a, 4; ld.shared.f32 %f1, [%a];", 1),
        ("ld.shared.f32 %f0, [%a]; bra L; L: ld.shared.f32 %f1, [%a+4];", 2),
        ("ld.shared.v2.f32 {%f0, %f1}, [%a]; ld.shared.v2.f32 {%f2, %f3}, [%a+8];", 1),
    ],
)
def test_which_loads_merge(lines, loads):
    """What compiled kernels, in test_merging.py, do not have."""
    assert count(lines).totals()[LD] == loads


@pytest.mark.parametrize(("stride", "waves"), [(4, 1), (128, 32)])
def test_a_cp_async_is_counted_by_the_lines_of_its_source(stride, waves):
    counters = count(
        f"ld.param.u64 %x, [p]; mad.wide.u32 %x, %t, {stride}, %x; mad.lo.u32 %a, %t, 4, %a;"
        "cp.async.ca.shared.global [%a], [%x], 4;"
    )
    assert [s.wavefronts for s in counters.by_instruction() if s.kind == "cp_async"] == [waves]


def test_merged_loads_cost_what_the_wide_one_does():
    lines = "mad.lo.u32 %a, %t, 16, %a;" + "".join(
        f"ld.shared.f32 %f{i}, [%a+{4 * i}];" for i in range(4)
    )
    counters = count(lines)
    assert counters.totals()[WAVES] == 4  # four scalar loads would cost 4 each
    assert sum(s.merged_into is not None for s in counters.by_instruction()) == 3
    assert count(lines, merge_loads=False).totals()[WAVES] == 16


def test_conflicts_are_counted_by_their_degree():
    counters = count("shl.b32 %r0, %t, 7; and.b32 %r0, %r0, 4095; st.shared.b32 [%r0+1024], %t;")
    (store,) = [s for s in counters.by_instruction() if s.kind == "st"]
    assert dict(store.ways) == {32: 1} and store.conflicts == 31 and store.ideal == 1


def test_cp_async_is_preceded_by_three_empty_loads():
    line = "cp.async.ca.shared.global [%a], [%x], 4;"
    totals = count(f"ld.param.u64 %x, [p]; {line}{line} bar.sync 0; {line}").totals()
    assert totals[LD] == 6 and totals["smsp__inst_executed_op_ldgsts.sum"] == 3


@pytest.mark.parametrize(
    ("copy", "times"),
    [
        ("cp.async.cg.shared.global [%a], [%x], 16;", 1),
        ("cp.async.cg.shared.global.L2::cache_hint [%a], [%x], 16, %x;", 1),
        # that may fill: each is counted twice
        ("cp.async.cg.shared.global [%a], [%x], 16, %t;", 2),
        ("cp.async.cg.shared.global.L2::cache_hint [%a], [%x], 16, %t, %x;", 2),
    ],
)
@pytest.mark.parametrize(("stride", "waves"), [(16, 4), (32, 8)])
def test_a_copy_that_may_fill_with_zeros_counts_twice(copy, times, stride, waves):
    start = f"ld.param.u64 %x, [p]; mad.lo.u32 %a, %t, {stride}, %a; mov.u32 %t, 16;"
    counters = count(start + copy)
    totals = counters.totals()
    assert (
        totals["smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum"]
        == waves * times
    )
    assert [s.ideal for s in counters.by_instruction() if s.kind == "cp_async"] == [4 * times]


def test_matrices_of_an_ldmatrix_are_not_served_together():
    """All rows at one address: a load of 128 bits would serve two quarters of a warp at once."""
    found = count("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%a];").totals()
    assert found["smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum"] == 4


def test_conflicts_of_copies_are_in_the_table_of_a_run():
    """A copy and a load with 32-way conflicts, as Nsight Compute counts them on an H100: 31 of
    each.
    """
    counters = count(
        "ld.param.u64 %x, [p]; mad.wide.u32 %x, %t, 4, %x; mad.lo.u32 %a, %t, 128, %a;"
        "cp.async.ca.shared.global [%a], [%x], 4;"
        "cp.async.wait_all; ld.shared.f32 %f0, [%a];"
    )
    made = records.LaunchRecord(
        1,
        1,
        "k",
        "k",
        (1, 1, 1),
        (32, 1, 1),
        (1, 1, 1),
        0,
        0.0,
        0,
        None,
        False,
        True,
        False,
        1,
        False,
    )
    made.sums = counters.sums()
    head, row = (re.split(" {2,}", line.strip()) for line in records.table([made]))
    assert dict(zip(head, row, strict=True))["conflicts"] == "62"


def test_all_counters_of_a_kernel_by_hand():
    """Two warps load and store in each way once; with what a warp does of it."""
    lines = """.local .align 4 .b8 l[8]; .reg .b64 %y, %z; ld.param.u64 %x, [p];
        mad.wide.u32 %y, %t, 8, %x; ld.global.u32 %r0, [%y]; // 8 sectors, of which 4 would do
        mad.wide.u32 %z, %t, 4, %x; st.global.u32 [%z+2052], %t; // 5 sectors: misaligned
        atom.global.add.u32 %r0, [%x], 1; // 1 sector
        mad.lo.u32 %r1, %t, 8, %a; ld.shared.u32 %r0, [%r1]; // 2 wavefronts
        mad.lo.u32 %r2, %t, 16, %a; st.shared.u32 [%r2], %t; // 4 wavefronts
        ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r3, %r4, %r5, %r6}, [%r2]; // 4, one a matrix
        stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r3}; // 1
        mad.lo.u32 %r7, %t, 4, %a; atom.shared.add.u32 %r0, [%r7], 1; // 1
        cp.async.ca.shared.global [%r7], [%z], 4; // 4 sectors, 1 wavefront; after 3 empty loads
        st.local.u32 [l], %t; ld.local.u32 %r0, [l+4]; // 4 sectors each
        """
    wave, conflict = (
        "l1tex__data_pipe_lsu_wavefronts_mem",
        "l1tex__data_bank_conflicts_pipe_lsu_mem",
    )
    counters = count(lines, threads=64)
    assert {stats.requests for stats in counters.by_instruction() if stats.space} == {2}
    # of a program without loops that poll, and without st.async
    assert set(counters.at_least()) == set(LOWER_BOUNDS)
    assert counters.totals() == {
        f"{wave}_shared_op_ld.sum": 2 * (2 + 4 + 1),
        f"{wave}_shared_op_st.sum": 2 * (4 + 1),
        f"{conflict}_shared_op_ld.sum": 2,
        f"{conflict}_shared_op_st.sum": 2 * 3,
        "smsp__inst_executed_op_shared_ld.sum": 2 * (1 + 3),
        "smsp__inst_executed_op_shared_st.sum": 2,
        "smsp__inst_executed_op_ldsm.sum": 2,
        "smsp__inst_executed_op_ldgsts.sum": 2,
        "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum": 2 * 4,
        "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum": 2,
        "memory_l1_wavefronts_shared": 2 * (7 + 5 + 1),
        "memory_l1_wavefronts_shared_ideal": 2 * (1 + 4 + 1 + 1 + 1 + 1),
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 2 * 3,
        "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": 2,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 2 * (8 + 1 + 4),
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": 2 * 5,
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": (128 + 4) / (8 + 1),
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio": 128 / 5,
        "memory_l2_theoretical_sectors_global": 2 * (8 + 1 + 5 + 4),
        "memory_l2_theoretical_sectors_global_ideal": 2 * (4 + 1 + 4 + 4),
        "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum": 2,
        "l1tex__t_requests_pipe_lsu_mem_local_op_st.sum": 2,
        "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum": 2 * 4,
        "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum": 2 * 4,
        "shared_loads_merged.sum": 0,
        "l2_sectors_bulk_ld.sum": 0,
        "l2_sectors_bulk_st.sum": 0,
    }


def test_executions_and_requests():
    counters = count("setp.gt.u32 %q, %t, 99; @%q st.shared.b32 [%a], %t;")
    (store,) = [s for s in counters.by_instruction() if s.instruction.opcode == "st"]
    assert store.executed == 1 and store.requests == 0  # predicated off
    counters = count(
        "setp.lt.u32 %q, %t, 40; @%q bra L; add.u32 %r0, %t, 1; L: add.u32 %r1, %t, 2;", threads=96
    )
    assert [s.executed for s in counters.by_instruction() if s.instruction.opcode == "add"] == [
        2,
        3,
    ]


def test_sums_grow_with_steps():
    runs = {3: {"a": 10.0}, 4: {"a": 14.0, "b": 2.0}, 5: {"a": 18.0, "b": 4.0}}
    assert extrapolate(runs, to_steps=10) == {"a": 10 + 4 * 7, "b": 2 * 7}


def test_what_does_not_grow_linearly_is_refused_by_name():
    runs = {3: {"a": 10.0, "b": 0.0}, 4: {"a": 14.0, "b": 1.0}, 5: {"a": 18.0, "b": 4.0}}
    with fails("b does not grow linearly: 0, 1 and 4 with 3, 4 and 5 steps"):
        extrapolate(runs, to_steps=10)


def test_a_ratio_follows_from_the_sums_of_the_large_launch():
    """A loop of loads that want all of a sector, after one that wants 4 bytes of each: the ratio is
    not linear.
    """
    text = """.reg .b64 %y, %z; ld.param.u64 %x, [p];
    shl.b32 %r0, %t, 5; cvt.u64.u32 %y, %r0; add.u64 %y, %y, %x; ld.global.b32 %r1, [%y];
    shl.b32 %r3, %t, 2; cvt.u64.u32 %z, %r3; add.u64 %z, %z, %x; mov.u32 %r2, 0;
    L: ld.global.b32 %r1, [%z]; add.u32 %r2, %r2, 1; setp.lt.u32 %q, %r2, STEPS; @%q bra L;"""
    runs = {steps: count(text.replace("STEPS", str(steps))) for steps in (3, 4, 5, 50)}
    ratio = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"
    small = {steps: runs[steps].sums() for steps in (3, 4, 5)}
    found = named(extrapolate(small, to_steps=50))
    assert found == runs[50].totals()
    assert runs[3].totals()[ratio] == pytest.approx(128 * 4 / (32 + 4 * 3))
    assert found[ratio] == pytest.approx(128 * 51 / (32 + 4 * 50))


def test_stmatrix_is_no_store_instruction(compiled):
    """It has wavefronts of stores, but ncu's smsp__inst_executed_op_shared_st does not count it
    (measured).
    """
    kernel = compiled("foreign_sm90.cu", "stored_matrices")
    args = [ptxsim.Array(np.zeros(384, np.uint32)), ptxsim.Array(np.zeros(128, np.uint32))]
    stats = kernel.count(1, 32, args).by_instruction()
    found = [s for s in stats if s.instruction.opcode == "stmatrix"]
    plain = sum(s.executed for s in stats if s.instruction.opcode == "st" and s.space == "shared")
    totals = ptxsim.count.counters.totals(stats)
    assert found and all(s.executed and s.wavefronts for s in found)
    assert totals["smsp__inst_executed_op_shared_st.sum"] == plain
    assert (
        totals["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"]
        >= sum(s.wavefronts for s in found)
        > 0
    )


@pytest.mark.parametrize("lanes", [64, 16384])
def test_polls_are_counted_apart(compiled, lanes):
    """Blocks wait for each other's flags: each once is counted, whatever the emulator's turns; the
    rest is polls.
    """
    blocks = 6
    args = [
        ptxsim.Array(np.zeros(64 + blocks, np.float32)),
        ptxsim.Array(np.ones(64 * blocks, np.float32)),
    ]
    counters = Counters()
    kernel = compiled("checks.cu", "stream_good")
    limits = ptxsim.Limits(lanes=lanes)
    kernel.launch(blocks, 64, args, observers=[counters], checks=False, limits=limits)
    (looks,) = [s for s in counters.by_instruction() if "acquire" in s.instruction.modifiers]
    assert (looks.executed, looks.requests, looks.sectors) == (blocks - 1, blocks - 1, blocks - 1)
    assert looks.polled > 0 and set(counters.at_least()) == {*LOWER_BOUNDS, *POLLS}


def test_a_loop_that_counts_its_rounds_does_not_poll(compiled):
    """What its volatile load and its atomic return does not decide when it ends: every round is
    executed.
    """
    rounds = 7
    kernel = compiled("features.cu", "counted_rounds")
    counters = Counters()
    out = ptxsim.Array(np.zeros(2, np.int32), "out")
    kernel.launch(
        1,
        32,
        [ptxsim.Array(np.zeros(1, np.int32)), np.int32(rounds), out],
        observers=[counters],
        checks=False,
    )
    assert out.numpy()[1] == 32 * rounds
    accesses = [
        s
        for s in counters.by_instruction()
        if s.instruction.opcode == "atom" or "volatile" in s.instruction.modifiers
    ]
    assert [(s.executed, s.polled) for s in accesses] == [(rounds, 0)] * 2


# Local memory is counted as the machine code has it


HEAD = """
.version 8.0
.target sm_90a
.address_size 64
.file 1 "k.cu"
.visible .entry k(.param .u64 out, .param .u32 n) {
    .reg .b32 %r<32>; .reg .b64 %d<16>; .reg .pred %p;
    .local .align 16 .b8 a[256];
    ld.param.u64 %d1, [out];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %d2, %r2, 4;
    add.s64 %d3, %d1, %d2;
    mov.u64 %d4, a;
    mul.wide.u32 %d5, %r1, 4;
    add.s64 %d6, %d4, %d5;
    and.b32 %r4, %r2, 7;
    mul.wide.u32 %d7, %r4, 4;
    add.s64 %d8, %d4, %d7;
    .loc 1 5 0
"""
NAME = "l1tex__t_{}_pipe_lsu_mem_local_op_{}.sum"
# requests and sectors of loads, and of stores, by two warps
COUNTED = {
    "one word": ("st.local.u32 [%d6], %r2; ld.local.u32 %r3, [%d6];", (2, 8, 2, 8)),
    "eight rows": ("st.local.u32 [%d8], %r2; ld.local.u32 %r3, [%d8];", (2, 64, 2, 64)),
    "four words": ("st.local.v4.u32 [%d4], {%r2, %r2, %r2, %r2}; ld.local.u32 %r3, [a+12];", (2, 8, 2, 32)),
    "a byte": ("st.local.u8 [%d6], %r2; ld.local.u8 %r3, [%d6];", (2, 8, 2, 8)),
    "generic": ("cvta.local.u64 %d9, %d6; st.u32 [%d9], %r2; ld.local.u32 %r3, [%d6];", (2, 8, 2, 8)),
    "half of a warp": (
        "setp.lt.u32 %p, %r2, 16; mov.u32 %r3, 0; @%p st.local.u32 [%d6], %r2; @%p ld.local.u32 %r3, [%d6];",
        (1, 2, 1, 2),
    ),
}  # fmt: skip


def launched(body, cubin=None):
    text = (
        body
        if body.lstrip().startswith(".version")
        else f"{HEAD}\n{body}\nst.global.u32 [%d3], %r3;\nret;\n}}\n"
    )
    kernel = ptxsim.load(text, cubin=cubin)
    counters = ptxsim.Counters()
    kernel.launch(1, 64, [ptxsim.Array(np.zeros(64, np.uint32)), 3], observers=[counters])
    return kernel, counters


@pytest.mark.parametrize(("body", "expected"), COUNTED.values(), ids=COUNTED)
def test_sectors_of_local_memory(body, expected):
    kernel, counters = launched(body)
    totals = counters.totals()
    found = [
        totals[NAME.format(what, kind)] for kind in ("ld", "st") for what in ("requests", "sectors")
    ]
    assert tuple(found) == expected
    # not among those of global memory
    assert totals["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 0
    predicted = ptxsim.predict(kernel, 4, 64, [ptxsim.Array(np.zeros(64, np.uint32)), 3]).totals
    assert predicted[NAME.format("sectors", "st")] == 4 * expected[3]


def test_what_functions_pass_is_not_counted():
    callee = """
.func (.param .b32 y) same(.param .b32 x) { .reg .b32 %q; ld.param.b32 %q, [x]; st.param.b32 [y], %q; ret; }
.visible .entry"""
    body = "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r2; call (y), same, (x); ld.param.b32 %r3, [y]; }"
    text = f"{HEAD}\n{body}\nst.global.u32 [%d3], %r3;\nret;\n}}\n".replace(
        "\n.visible .entry", callee, 1
    )
    assert NAME.format("sectors", "st") not in launched(text)[1].totals()


@pytest.mark.parametrize(("at", "kept"), [("a+4", False), ("%d6", True)])
def test_an_array_that_ptxas_keeps_in_registers_is_not_counted(at, kept, tmp_path):
    body = f"st.local.u32 [a], %r1;\nst.local.u32 [a+4], %r2;\nst.local.u32 [a+12], %r2;\nld.local.u32 %r3, [{at}];"
    source = tmp_path / "k.ptx"
    source.write_text(f"{HEAD.strip()}\n{body}\nst.global.u32 [%d3], %r3;\nret;\n}}\n")
    try:
        assemble(source, tmp_path / "k.cubin")
    except ptxsim.PtxsimError as error:
        pytest.skip(str(error))
    totals = launched(source.read_text(), tmp_path / "k.cubin")[1].totals()
    assert (NAME.format("sectors", "ld") in totals) == kept


def test_a_line_says_what_it_does_to_local_memory():
    _, counters = launched(
        "st.local.u32 [%d8], %r2; st.local.u32 [%d8], %r1; ld.local.u32 %r3, [%d8];"
    )
    (lines,) = ptxsim.annotate.costs(counters).values()
    (cost,) = (cost for cost in lines.values() if cost.local.stats)
    assert str(cost.local) == "local memory: 2 loads, 4 stores, 192 sectors"
    assert not cost.excess_sectors
