"""wgmma: small GEMMs through every layout of the operands, what it refuses, and what hurts who uses
it too early.
"""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from running import fails

import ptxsim
from ptxsim.instructions.wgmma import Descriptor

BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
TYPES = {"__nv_bfloat16": BF16, "__half": np.float16, "float": np.float32, "unsigned char": E4M3}
SWIZZLES = {0: "none", 1: "128 bytes", 2: "64 bytes", 3: "32 bytes"}
(
    EARLY,
    NO_FENCE,
    SCALED,
    OVERWRITTEN,
    NO_BARRIER,
    RESERVED,
    HALF,
    NO_COMMIT,
    DIFFERENT,
    NO_PROXY,
    STRIDE,
) = range(1, 12)


def matrices(dtype, *shape: int, seed: int = 0) -> list[np.ndarray]:
    """Two, of numbers whose sums of products are exact: what is rounded is in
    test_tensor_cores.py.
    """
    rng = np.random.default_rng(seed)
    return [(rng.integers(-8, 9, shape) / 4).astype(dtype) for _ in range(2)]


def product(a, b) -> np.ndarray:
    return a.astype(np.float64) @ np.swapaxes(b.astype(np.float64), -1, -2)


@pytest.fixture(scope="session")
def compiled(module):
    """A function from an entry's name to a kernel of wgmma.cu."""
    return lambda entry: ptxsim.Kernel(module("wgmma.cu"), entry)


def gemm(compiled, name: str, a, b, **options) -> np.ndarray:
    out = ptxsim.Array(np.zeros((64, 64), np.float32), "out")
    bits = [ptxsim.Array(x.view(f"u{x.dtype.itemsize}"), n) for x, n in ((a, "a"), (b, "b"))]
    compiled(name).launch(1, 128, [out, *bits], **options)
    return out.numpy()


# whether A and B lie by columns
MAJORS = ["false, false", "true, false", "false, true", "true, true"]
LAYOUTS = [
    *itertools.product(["__nv_bfloat16", "__half"], MAJORS),
    ("float", MAJORS[0]),
    ("unsigned char", MAJORS[0]),
]


@pytest.mark.parametrize("swizzle", SWIZZLES, ids=SWIZZLES.values())
@pytest.mark.parametrize(("name", "majors"), LAYOUTS)
def test_every_layout_of_operands(compiled, name, majors, swizzle):
    a, b = matrices(TYPES[name], 64, 128 // np.dtype(TYPES[name]).itemsize)
    assert (gemm(compiled, f"gemm<{name}, {swizzle}, {majors}, 0>", a, b) == product(a, b)).all()


def test_operand_a_in_registers_and_a_turned_sign(compiled):
    a, b = matrices(np.float16, 64, 64)
    assert (gemm(compiled, "from_registers<0>", a, b) == -product(a, b)).all()


@pytest.mark.parametrize("tiles", [1, 3, 12])
def test_warpgroups_with_roles_and_loops_of_their_own(compiled, tiles):
    a, b = matrices(BF16, 3 * tiles, 64, 64)
    out = ptxsim.Array(np.zeros((2, 64, 64), np.float32), "out")
    args = [out, *(ptxsim.Array(x.view(np.uint16)) for x in (a, b)), tiles]
    compiled("roles<0>").launch(1, 384, args, shared_bytes=8 * 64 * 128)
    each = product(a, b)
    assert (out.numpy() == np.stack([each[:tiles].sum(axis=0), each[tiles:].sum(axis=0)])).all()


def test_counts_without_values(compiled):
    """What its operands hold, by instruction; of all, 128 bytes are a wavefront that is no
    load's.
    """
    a, b = matrices(np.float16, 64, 64)
    args = [
        ptxsim.Array(np.zeros((64, 64), np.float32)),
        *(ptxsim.Array(x.view(np.uint16)) for x in (a, b)),
    ]
    for entry, rows in (("gemm<__half, 1, false, false, 0>", 128), ("from_registers<0>", 64)):
        kernel, counters = compiled(entry), ptxsim.Counters()
        counts = kernel.count(3, 128, args).by_instruction()
        kernel.launch(3, 128, args, observers=[counters], checks=False)
        assert [vars(s) for s in counts] == [vars(s) for s in counters.by_instruction()]
        found = [s for s in counts if s.operand_bytes]
        assert [s.instruction.opcode for s in found] == ["wgmma"] * 4
        assert {(s.executed, s.operand_bytes, s.wavefronts) for s in found} == {
            (12, 3 * 32 * rows, 0)
        }
        others = sum(s.wavefronts for s in counts if s.space == "shared")
        assert counters.totals()["memory_l1_wavefronts_shared"] == others + 4 * 3 * 32 * rows // 128


# ---- faults --------------------------------------------------------------------------------------

USUAL = "gemm<__half, 1, false, false, {}>"
REGISTERS = "from_registers<{}>"  # operand A
FAULTS = [
    (USUAL, EARLY, r"reads the result of the wgmma at wgmma\.cu:\d+.* before a wait_group for it"),
    (USUAL, NO_FENCE, r"wgmma\.mma_async without a wgmma\.fence before it"),
    (USUAL, SCALED, r"its accumulator is written at wgmma\.cu:\d+.*, after the last wgmma\.fence"),
    (
        USUAL,
        OVERWRITTEN,
        r"writes what wgmma.* at wgmma\.cu:\d+.* may still read: no wgmma\.wait_group between",
    ),
    (USUAL, NO_BARRIER, r"race: .* thread .* writes at wgmma\.cu:\d+"),
    (USUAL, RESERVED, r"matrix descriptor 0x\w+: bits 0x20000000000000 must be zero"),
    (
        USUAL,
        STRIDE,
        r"parts of the matrix lie at one place: .* 8 rows take 1024, but its stride is 512 and",
    ),
    (USUAL, HALF, r"wgmma\.mma_async.*: 64 of a warpgroup's 128 threads execute it"),
    (
        USUAL,
        NO_COMMIT,
        r"reads the result .* before a wait_group for it; it is in no group yet \(commit_group\)",
    ),
    (
        USUAL,
        NO_PROXY,
        r"reads what thread .* by an ordinary store, without a fence\.proxy\.async between",
    ),
    (USUAL, DIFFERENT, r"wgmma: the threads of the warpgroup have different matrix descriptors"),
    (
        REGISTERS,
        NO_FENCE,
        r"its operand A is written at wgmma\.cu:\d+.*, after the last wgmma\.fence",
    ),
    (
        REGISTERS,
        OVERWRITTEN,
        r"writes a register that the wgmma at wgmma\.cu:\d+.* uses before a wait_group",
    ),
]


@pytest.mark.parametrize(("entry", "fault", "message"), FAULTS)
def test_a_fault_is_found(compiled, entry, fault, message):
    a, b = matrices(np.float16, 64, 64)
    with fails(message) as error:
        gemm(compiled, entry.format(fault), a, b)
    assert "wgmma.cu:" in str(error.value) and "thread (" in str(error.value)


def test_a_stage_given_back_before_its_wgmma_is_over_is_found(compiled):
    a, b = matrices(BF16, 9, 64, 64)
    args = [
        ptxsim.Array(np.zeros((2, 64, 64), np.float32)),
        *(ptxsim.Array(x.view(np.uint16)) for x in (a, b)),
        3,
    ]
    with fails(r"writes what wgmma.* may still read: no wgmma\.wait_group between"):
        compiled(f"roles<{OVERWRITTEN}>").launch(1, 384, args, shared_bytes=8 * 64 * 128)


def test_without_checks_the_sums_are_there_at_once(compiled):
    a, b = matrices(np.float16, 64, 64)
    assert (
        gemm(compiled, f"gemm<__half, 1, false, false, {NO_COMMIT}>", a, b, checks=False)
        == product(a, b)
    ).all()


HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
LINES = """.visible .entry k() {{ .reg .f32 %f<5>; .reg .b32 %r<5>; .reg .b64 %rd<5>; .reg .pred %p;
.shared .align 1024 .b8 tile[{size}]; mov.u32 %r1, tile; shr.u32 %r1, %r1, 4; cvt.u64.u32 %rd1, %r1;
mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1; {more}
wgmma.fence.sync.aligned; {line} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; ret; }}"""
D4 = "{%f1, %f2, %f3, %f4}"


@pytest.mark.parametrize(
    ("shape", "operands", "message"),
    [
        ("m64n8k8.f32.f16.f16", "1, 1, 1, 0, 0", "this shape and types of"),
        ("m64n12k16.f32.f16.f16", "1, 1, 1, 0, 0", "this shape and types of"),
        ("m64n8k32.s32.s8.e4m3", "1", "this shape and types of"),
        ("m64n8k32.f32.s8.s8", "1", "this shape and types of"),
        ("m64n8k8.f32.tf32.tf32", "1, 1, 1, 0, 0", "must be 1 or -1 twice$"),
        ("m64n8k16.f32.f16.f16", "1, 1, 2, 0, 0", "then 0 or 1 twice$"),
        ("m64n16k16.f32.f16.f16", "1, 1, 1, 0, 0", "8 registers for D"),
    ],
)
def test_what_there_is_not_is_refused(shape, operands, message):
    line = f"wgmma.mma_async.sync.aligned.{shape} {D4}, %rd1, %rd1, {operands};"
    with fails(message):
        ptxsim.load(HEADER + LINES.format(line=line, size=1024, more=""))


BYTES = """.visible .entry k(.param .u64 out, .param .u64 in, .param .s32 start) {{
.reg .b32 %r<9>; .reg .b32 %d<4>; .reg .b64 %rd<9>; .reg .pred %p; .shared .align 1024 .b8 tile[2560];
mov.u32 %r1, %tid.x; setp.ge.u32 %p, %r1, 128; @%p exit;
ld.param.u64 %rd1, [in]; mov.u32 %r2, tile; mov.u32 %r3, 0;
COPY: mad.lo.u32 %r4, %r3, 512, 0; mad.lo.u32 %r4, %r1, 4, %r4; cvt.u64.u32 %rd2, %r4; add.u64 %rd2, %rd1, %rd2;
ld.global.u32 %r5, [%rd2]; add.u32 %r4, %r2, %r4; st.shared.u32 [%r4], %r5;
add.u32 %r3, %r3, 1; setp.lt.u32 %p, %r3, 4;
@%p bra COPY; setp.lt.u32 %p, %r1, {columns};
mad.lo.u32 %r4, %r1, 4, 2048; cvt.u64.u32 %rd2, %r4; add.u64 %rd2, %rd1, %rd2;
@%p ld.global.u32 %r5, [%rd2]; add.u32 %r4, %r2, %r4; @%p st.shared.u32 [%r4], %r5;
fence.proxy.async.shared::cta; bar.sync 0;
shr.u32 %r6, %r2, 4; cvt.u64.u32 %rd3, %r6; mov.u64 %rd4, 0x1000080000; or.b64 %rd3, %rd3, %rd4;
add.u64 %rd5, %rd3, 128; ld.param.s32 %r7, [start];
mov.u32 %d0, %r7; mov.u32 %d1, %r7; mov.u32 %d2, %r7; mov.u32 %d3, %r7;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64{shape}{more} {{%d0, %d1, %d2, %d3}}, %rd3, %rd5, {rest};
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
ld.param.u64 %rd6, [out]; mul.wide.u32 %rd7, %r1, 16; add.u64 %rd6, %rd6, %rd7;
st.global.u32 [%rd6], %d0; st.global.u32 [%rd6+4], %d1; st.global.u32 [%rd6+8], %d2;
st.global.u32 [%rd6+12], %d3; ret; }}"""


NUMPY = {"s8": np.int8, "u8": np.uint8, "f16": np.float16, "bf16": BF16, "tf32": np.float32}
NUMPY |= {"e4m3": E4M3, "e5m2": ml_dtypes.float8_e5m2, "s32": np.int32, "f32": np.float32}
SIGNS = [("1, 1", 1), ("-1, 1", -1), ("1, -1", -1), ("-1, -1", 1)]


@pytest.mark.parametrize("threads", [128, 160])
@pytest.mark.parametrize(
    ("shape", "rest", "sign", "adds"),
    [
        *[(f"n8k32.s32.{a}.{b}", "1", 1, 1) for a in ("s8", "u8") for b in ("s8", "u8")],
        ("n8k32.s32.u8.s8.satfinite", "1", 1, 1),
        ("n8k32.s32.s8.s8.satfinite", "0", 1, 0),
        *[("n16k16.f16.f16.f16", f"1, {signs}, 0, 0", sign, 1) for signs, sign in SIGNS],
        ("n8k16.f32.bf16.bf16", "0, 1, -1, 0, 0", -1, 0),
        ("n16k32.f16.e4m3.e5m2", "1, 1, 1", 1, 1),
        ("n8k32.f32.e5m2.e4m3", "1, -1, 1", -1, 1),
        ("n8k8.f32.tf32.tf32", "1, 1, 1", 1, 1),
    ],
)
def test_types_without_a_swizzle(shape, rest, sign, adds, threads):
    """Rows of 32 bytes: 8 rows of 16 bytes lie together. Integers wrap, or stop at the ends."""
    sizes, d, a, b, *more = shape.split(".")
    columns, rng = int(sizes[1 : sizes.index("k")]), np.random.default_rng(5)
    operands = []
    for rows, t in ((64, a), (columns, b)):
        count = 32 // np.dtype(NUMPY[t]).itemsize
        whole = rng.integers(-128, 128, (rows, count)).astype(np.int8)
        operands.append(
            whole.view(NUMPY[t]) if t in ("s8", "u8") else (whole // 16 / 2).astype(NUMPY[t])
        )
    laid = [
        x.view(np.uint8).reshape(-1, 8, 2, 16).transpose(0, 2, 1, 3).reshape(-1) for x in operands
    ]
    start = np.full(2, 2**31 - 1) if d == "s32" else np.array([1.5, -2 if d == "f16" else 1.5])
    bits = start.astype(NUMPY[d]).view(np.int32)[0]
    out = ptxsim.Array(np.zeros((128, 4), np.int32))
    text = HEADER + BYTES.format(shape=shape, rest=rest, columns=8 * columns, more="")
    ptxsim.load(text).launch(1, threads, [out, ptxsim.Array(np.concatenate(laid)), bits])
    exact = np.int64 if d == "s32" else np.float64
    left, right = (x.astype(exact) for x in operands)
    want = sign * (left @ right.T) + np.tile(start, columns // 2) * adds
    if d == "s32":
        want = np.clip(want, -(2**31), 2**31 - 1) if more else (want + 2**31) % 2**32 - 2**31
    got = out.numpy().view(NUMPY[d])
    lane = np.arange(128)
    for i in range(columns // 2):
        rows, at = (
            lane // 32 * 16 + lane % 32 // 4 + i // 2 % 2 * 8,
            i // 4 * 8 + lane % 4 * 2 + i % 2,
        )
        assert (got[:, i] == want[rows, at].astype(NUMPY[d])).all()


def test_operands_beyond_shared_memory_and_unwritten_ones_are_found():
    line = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {D4}, %rd1, %rd1, 1, 1, 1, 0, 0;"
    # 1024 bytes from 8 rows to the next
    more = "mov.u64 %rd2, 0x0000004000000010; or.b64 %rd1, %rd1, %rd2;"
    for size, message in (
        (1024, "out-of-bounds wgmma read of 16 bytes"),
        (8192, "read of shared memory that nobody wrote"),
    ):
        with fails(message):
            ptxsim.load(HEADER + LINES.format(line=line, size=size, more=more)).launch(1, 128, [])


def test_a_copy_of_what_is_written_after_the_fence_is_found():
    """As of its source; a copy alone is the compiler's affair."""
    line = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {D4}, {{%r3, %r3, %r3, %r3}}, %rd1, 1, 1, 1, 0;"
    init = "mov.u32 %r4, %tid.x; shl.b32 %r4, %r4, 3; mov.u32 %r2, tile; add.u32 %r4, %r4, %r2; mov.b64 %rd3, 0; "
    init += (
        "st.shared.u64 [%r4], %rd3; fence.proxy.async.shared::cta; bar.sync 0; add.u32 %r2, %r1, 1;"
    )
    copied = LINES.format(line="mov.u32 %r3, %r2; " + line, size=1024, more=init)
    ptxsim.load(HEADER + copied).launch(1, 128, [])
    written = LINES.format(
        line="add.u32 %r2, %r1, 2; mov.u32 %r3, %r2; " + line, size=1024, more=init
    )
    with fails(r"its operand A is written at PTX line \d+, after the last wgmma\.fence"):
        ptxsim.load(HEADER + written).launch(1, 128, [])


def test_two_groups_of_roles_in_part_of_a_warpgroup_are_reported():
    lines = LINES.format(
        line="mov.u32 %r2, %tid.x; setp.lt.u32 %p, %r2, 40; @%p bra AFTER;", size=1024, more=""
    )
    message = r"wgmma\.commit_group.*: not all threads of the warpgroup are here: thread \(0, 0, 0\) is missing"
    with fails(message):
        ptxsim.load(HEADER + lines.replace("ret;", "AFTER: bar.sync 0; ret;")).launch(1, 128, [])


@pytest.mark.parametrize(("mode", "row"), [(1, 128), (2, 64)])
@pytest.mark.parametrize("phase", range(8))
def test_a_base_offset_moves_the_swizzle_with_the_start(mode, row, phase):
    word = mode << 62 | (8 * row >> 4) << 32 | 1 << 16
    there = Descriptor.unpack(word | phase << 49 | (0x400 + 128 * phase) >> 4).pieces(16, False)
    assert (there - 128 * phase == Descriptor.unpack(word | 0x400 >> 4).pieces(16, False)).all()
