"""Threads of a warp that come late to what the whole warp executes together are waited for."""

from __future__ import annotations

import numpy as np
import pytest
from running import HEADER, fails

import ptxsim

ENTRY = """.visible .entry k(.param .u64 out) {{
.reg .b32 %r<20>; .reg .b64 %rd<4>; .reg .pred %p<4>; .reg .f32 %f<5>;
ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mad.wide.u32 %rd2, %r1, 4, %rd1; mov.u32 %r2, 0;
{lines}
st.global.u32 [%rd2], %r2; ret; }}
"""


def run(lines: str, block: int = 64) -> np.ndarray:
    out = ptxsim.Array(np.zeros(block, np.uint32))
    ptxsim.load(HEADER + ENTRY.format(lines=lines)).launch(1, block, [out])
    return out.numpy()


# for r3 in 0..60: each thread goes round (7 tid + r3) % 13 times, then all of the warp do
# `together`
UNEVEN = """mov.u32 %r3, 0;
OUTER: mad.lo.u32 %r4, %r1, 7, %r3; rem.u32 %r4, %r4, 13; mov.u32 %r5, 0;
INNER: setp.ge.u32 %p1, %r5, %r4; @%p1 bra AFTER; add.u32 %r5, %r5, 1; bra INNER;
AFTER: {together}
add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 60; @%p2 bra OUTER;"""


def trips(thread: np.ndarray, turn: int) -> np.ndarray:
    return (7 * thread + turn) % 13


@pytest.mark.parametrize("mask", ["-1", "%r7"])
def test_shuffles_after_loops_of_uneven_length(mask):
    """%r7: the even lanes, or the odd ones."""
    lines = (
        "and.b32 %r6, %r1, 1; setp.eq.u32 %p3, %r6, 0; selp.b32 %r7, 0x55555555, 0xaaaaaaaa, %p3;\n"
    )
    got = run(
        lines
        + UNEVEN.format(
            together=f"shfl.sync.bfly.b32 %r8, %r5, 2, 31, {mask}; mad.lo.u32 %r2, %r2, 3, %r8;"
        )
    )
    thread, want = np.arange(64), np.zeros(64, np.uint32)
    for turn in range(60):
        want = want * np.uint32(3) + trips(thread ^ 2, turn).astype(np.uint32)
    assert (got == want).all()


def test_ldmatrix_after_loops_of_uneven_length():
    lines = """.shared .align 16 .b8 buffer[128]; and.b32 %r9, %r1, 31; shl.b32 %r10, %r9, 2; mov.u32 %r11, buffer;
    add.u32 %r10, %r10, %r11; st.shared.u32 [%r10], %r9; and.b32 %r12, %r9, 7; mad.lo.u32 %r11, %r12, 16, %r11;
    bar.sync 0;\n"""
    lines += UNEVEN.format(
        together="ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r11]; add.u32 %r2, %r2, %r8;"
    )
    assert (run(lines, 32) == 60 * np.arange(32)).all()


MMA = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r1}, {%r1}, {%f1, %f2, %f3, %f4};"
ZEROS = "".join(f"mov.f32 %f{i}, 0f00000000; " for i in (1, 2, 3, 4))
HALF = "and.b32 %r9, %r1, 31; setp.ge.u32 %p1, %r9, 16; @%p1 bra OTHERS; {here} bra AFTER; OTHERS: {there} AFTER:"
HALF = ZEROS + HALF


SHUFFLE = "shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;"


@pytest.mark.parametrize(
    ("here", "there", "message"),
    [
        (
            MMA,
            "bar.sync 0;",
            r"thread \(16, 0, 0\) is missing, which waits at the barrier at PTX line",
        ),
        (MMA, MMA, r"mma.* thread \(16, 0, 0\) is missing, which is at PTX line"),
        (SHUFFLE, SHUFFLE, "member mask 0xffffffff, but the threads that are here are 0x0000ffff"),
        (MMA, "exit;", r"not all threads of the warp are here$"),
        ("bar.warp.sync 0xffff0000;", "", "member mask 0xffff0000 lacks lane 0, which executes it"),
    ],
)
def test_who_is_missing_is_reported(here, there, message):
    with fails(message):
        run(HALF.format(here=here, there=there))


def test_threads_that_have_exited_are_not_waited_for():
    got = run(HALF.format(here="shfl.sync.idx.b32 %r2, %r1, 1, 31, 0xffff;", there="exit;"), 32)
    assert (got == [1] * 16 + [0] * 16).all()
