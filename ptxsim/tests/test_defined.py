"""Values that nobody wrote: a fault where they matter, silence where they do not."""

from __future__ import annotations

import numpy as np
import pytest

import ptxsim

HEAD = """
.version 8.0
.target sm_90
.address_size 64
.func (.param .b32 result) same(.param .b32 given) {
    .reg .b32 %q;
    ld.param.b32 %q, [given];
    st.param.b32 [result], %q;
    ret;
}
.visible .entry k(.param .u64 out, .param .u32 n) {
    .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .f32 %f<16>; .reg .b64 %d<16>;
    .shared .align 16 .b8 s[512];
    .local .align 16 .b8 a[64];
    ld.param.u64 %d1, [out];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %d2, %r2, 4;
    add.s64 %d3, %d1, %d2;
    mov.u64 %d5, s;
    add.s64 %d6, %d5, %d2;
    setp.ne.u32 %p1, %r1, 0;
    setp.lt.u32 %p2, %r2, 16;
"""
STORE = "st.global.u32 [%d3], %r3;"
CALL = """{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r9; call (y), same, (x); ld.param.b32 %r3, [y]; }"""
MMA = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2,%f3,%f4}, {%r2,%r2,%r2,%r2}, {%r2,%r2}, "
BYTE = "st.shared.u8 [s], %r1; bar.sync 0; ld.shared.u32 %r4, [s];"
R9 = "register %r9, which nobody wrote, is read"
SHUFFLE = "mov.u32 %r3, 1; @%p2 shfl.sync.down.b32 %r3, %r2, 8, 31, 0xffff;"
HALF = "mov.b16 %h1, 3; mov.b32 %r3, {%h1, %h2};"

WRONG = {
    "stored": ("st.global.u32 [%d3], %r9;", f"{R9}: the undefined value is stored to global memory .*into out"),
    "address": ("add.s64 %d4, %d3, %d9; st.global.u32 [%d4], %r2;", "register %d9.* is used as an address"),
    "branch": ("setp.eq.u32 %p3, %r9, 5; @%p3 bra L; L:", f"{R9}.*decides a branch"),
    "predicate of a store": ("setp.eq.u32 %p3, %r9, 5; @%p3 st.global.u32 [%d3], %r2;", f"{R9}.*decides a branch"),
    "vote": ("setp.eq.u32 %p3, %r9, 5; vote.sync.any.pred %p4, %p3, -1;", f"{R9}.*is exchanged between"),
    "shuffled": ("shfl.sync.bfly.b32 %r3, %r9, 1, 31, -1;" + STORE, f"{R9}.*is stored to global"),
    "exchanged": ("atom.shared.exch.b32 %r3, [s+4], 1;" + STORE, "shared memory that nobody wrote .*into s"),
    "tensor core": (MMA + "{%f5,%f5,%f5,%f5};", "register %f5.* reaches the tensor core"),
    "one path": ("@!%p1 mov.u32 %r9, 1; st.global.u32 [%d3], %r9;", R9),
    "half of a word": (HALF + STORE, "register %h2"),
    "chosen": ("selp.b32 %r3, %r9, 1, %p1;" + STORE, R9),
    "computed": ("mov.u32 %r4, %r9; mad.lo.u32 %r3, %r4, 4, 1;" + STORE, R9),
    "added to": ("add.u32 %r9, %r9, 1; st.global.u32 [%d3], %r9;", R9),
    "guarded": ("mov.u32 %r3, 0; setp.eq.u32 %p3, %r9, 5; @%p3 add.u32 %r3, %r3, 1;" + STORE, R9),
    "chooser": ("setp.eq.u32 %p3, %r9, 5; selp.b32 %r3, 1, 2, %p3;" + STORE, R9),
    "kept bits": ("and.b32 %r3, %r9, 8;" + STORE, R9),
    "called": (CALL + STORE, R9),
    "local": ("ld.local.u32 %r3, [a+8];" + STORE, r"read of local memory that nobody wrote \(8 bytes into a\)"),
    "through local": ("st.local.u32 [a], %r9; ld.local.u32 %r3, [a];" + STORE, R9),
    "through shared": ("st.shared.u32 [%d6], %r9; bar.sync 0; ld.shared.u32 %r3, [s+4];" + STORE, R9),
    "local through shared": (
        "ld.local.u32 %r4, [a+8]; st.shared.u32 [%d6], %r4; bar.sync 0; ld.shared.u32 %r3, [s+4];" + STORE,
        r"read of local memory that nobody wrote \(8 bytes into a\)",
    ),
    "shared to tensor core": (
        "st.shared.u32 [%d6], %r9; bar.sync 0; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%d5];",
        f"{R9}.*is read by ldmatrix",
    ),
    "shared": ("ld.shared.u32 %r3, [s+4]; add.u32 %r3, %r3, 1;" + STORE, "shared memory that nobody wrote .*into s"),
    "a byte of a word": (BYTE + "and.b32 %r3, %r4, 65280;" + STORE, "shared memory that nobody wrote .*into s"),
    "shared, at once": ("atom.shared.add.u32 %r3, [s], 1;", "read of shared memory that nobody wrote"),
    "sign of a byte": (
        "ld.shared.s8 %r4, [s]; and.b32 %r3, %r4, 65280;" + STORE,
        "shared memory that nobody wrote .*in s",
    ),
    "part of a vector": (
        "st.shared.u32 [s], 1; bar.sync 0; ld.shared.v2.u32 {%r3, %r4}, [s]; st.global.u32 [%d3], %r4;",
        r"shared memory that nobody wrote \(shared address 0x404",
    ),
    "global": ("ld.global.u32 %r4, [%d3+128]; xor.b32 %r3, %r4, 1;" + STORE, "global memory .*128 bytes into out"),
}  # fmt: skip
RIGHT = {
    "thrown away": ("add.u32 %r4, %r9, 1; st.local.u32 [a], %r4;", 0),
    "not chosen": ("selp.b32 %r3, 1, %r9, %p1;" + STORE, 1),
    "masked": ("and.b32 %r3, %r9, 0;" + STORE, 0),
    "set": ("or.b32 %r3, %r9, -1;" + STORE, 2**32 - 1),
    "set by the first": ("mov.u32 %r4, -1; or.b32 %r3, %r4, %r9;" + STORE, 2**32 - 1),
    "the other decides": ("setp.eq.u32 %p3, %r9, 5; and.pred %p4, %p3, !%p1; selp.b32 %r3, 2, 3, %p4;" + STORE, 3),
    "the defined half": (HALF + "cvt.u32.u16 %r4, %r3; and.b32 %r3, %r4, 65535;" + STORE, 3),
    "shifted out": (HALF + "shl.b32 %r3, %r3, 16;" + STORE, 3 << 16),
    "permuted": (HALF + "prmt.b32 %r3, %r3, 0, 0x4410;" + STORE, 3),
    "both guarded": ("@%p2 mov.u32 %r9, 7; @%p2 st.global.u32 [%d3], %r9;", 7),
    "written after all": ("add.u32 %r4, %r9, 1; mov.u32 %r9, 6; mov.u32 %r3, %r9;" + STORE, 6),
    "never returned": ("st.local.u32 [a], %r9; st.local.u32 [a], 4; ld.local.u32 %r3, [a];" + STORE, 4),
    "called": (CALL.replace("%r9", "%r1") + STORE, 1),
    "the byte that was written": (BYTE + "and.b32 %r3, %r4, 255;" + STORE, 1),
    "shared again": ("st.shared.u32 [%d6], %r9; st.shared.u32 [%d6], 4; ld.shared.u32 %r3, [%d6];" + STORE, 4),
    "a vector's first alone": (
        "st.shared.u32 [s], 5; bar.sync 0; ld.shared.v2.u32 {%r3, _}, [s];" + STORE,
        5,
    ),
    "copied over": (
        "st.global.u32 [%d3], 4; st.shared.u32 [%d6], %r9; cp.async.ca.shared.global [%d6], [%d3], 4;"
        "cp.async.wait_all; ld.shared.u32 %r3, [%d6];" + STORE,
        4,
    ),
    "a vector's first": (
        "st.shared.u32 [s], 5; bar.sync 0; ld.shared.v2.u32 {%r3, %r4}, [s];" + STORE,
        5,
    ),
    "exchanged": (
        "mov.u32 %r3, 3; atom.global.exch.b32 %r4, [%d3+128], 1; atom.shared.exch.b32 %r4, [s], 1;" + STORE,
        3,
    ),
    "shuffled": (SHUFFLE + "shfl.sync.down.b32 %r3, %r3, 4, 31, -1; setp.gt.u32 %p3, %r2, 3; @%p3 ret;" + STORE, 12),
    "loaded too early": ("ld.global.u32 %r4, [%d3+128]; not.pred %p5, %p1; selp.b32 %r3, %r4, 8, %p5;" + STORE, 8),
}  # fmt: skip


def launch(body, **options):
    out = ptxsim.Array(np.zeros(128, np.uint32), "out", unwritten=True)
    kernel = ptxsim.load(f"{HEAD}\n{body}\nret;\n}}\n", "k")
    return kernel.launch(1, 32, [out, 1], **options), out.numpy()


@pytest.mark.parametrize(("body", "message"), WRONG.values(), ids=WRONG)
def test_an_undefined_value_that_matters_is_a_fault(body, message):
    with pytest.raises(ptxsim.KernelFault, match=message):
        launch(body)
    done, _ = launch(body, stop_at_first=False)
    # once, and nothing follows from it
    assert [found.kind for found in done.faults] == ["unwritten"]
    assert not launch(body, checks=False)[0].faults


NAMED = """
__device__ __forceinline__ int added(int n) {
    int inner;
    if (n > 100) inner = n;
    return inner + 1;
}
__global__ void named(int* out, int n) {
    float sums[8];
    int chosen;
    for (int i = 0; i < n; ++i) sums[i] = i;
    if (n > 5) chosen = 3;
    out[0] = chosen;
    out[1] = int(sums[7]);
    out[2] = added(n);
}
"""


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (
            ["-G"],
            [
                "variable chosen, which nobody wrote, is read",
                "read of local memory that nobody wrote (28 bytes into sums)",
                "variable inner, which nobody wrote, is read",
            ],
        ),
        # The optimiser has made up values for the others.
        ([], ["(byte 28 of the thread's 32; compile with -G for the variable's name)"]),
    ],
)
def test_the_variable_that_nobody_wrote_is_named(built, flags, names):
    kernel = ptxsim.load(built(NAMED, flags=flags), "named")
    out = ptxsim.Array(np.zeros(4, np.int32), "out")
    faults = kernel.launch(1, 1, [out, 4], stop_at_first=False).faults
    assert len(faults) == len(names)
    for fault, name in zip(faults, names, strict=True):
        assert name in fault.message and "k.cu:" in fault.message


@pytest.mark.parametrize(("body", "value"), RIGHT.values(), ids=RIGHT)
def test_an_undefined_value_that_does_no_harm_is_silent(body, value):
    done, out = launch(body)
    assert not done.faults and not done.notes and out[0] == value


def test_only_lanes_without_a_value_count():
    body = "@%p2 st.shared.u32 [%d6], 1; atom.shared.add.u32 %r3, [%d6], 1;"
    assert launch(body, stop_at_first=False)[0].faults[0].count == 16
    done, _ = launch("@%p2 mov.u32 %r9, 1; st.global.u32 [%d3], %r9;", stop_at_first=False)
    (found,) = done.faults
    assert found.count == 16 and "thread (16, 0, 0)" in found.message
