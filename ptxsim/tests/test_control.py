"""Jumps, calls, the stack, barriers and special registers, by the tables of the PTX ISA."""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import HEADER, execute, fails

import ptxsim

X = np.random.default_rng(5).integers(0, 2**32, 64, np.uint32)
LANE = np.arange(64, dtype=np.uint32) % 32


def launch(lines: str, declare: str = "", before: str = "", grid=1, block=32, words=32, **options):
    """Run `lines`, which have the address of thread i's words of `out` in %x; return `out`."""
    text = f"""{HEADER}{before}.visible .entry k(.param .u64 out) {{
        .reg .b64 %x, %y, %z; .reg .b32 %r<9>, %t; .reg .pred %p; .shared .align 8 .b8 s[64];
        {declare} ld.param.u64 %x, [out]; mov.u32 %t, %tid.x; mad.wide.u32 %x, %t, 4, %x;
        {lines} ret; }}"""
    out = ptxsim.Array(np.zeros(words, np.uint32), "out")
    ptxsim.load(text, "k").launch(grid, block, [out], **options)
    return out.numpy()


JUMPS = """mov.u32 %o0, 0; rem.u32 %o1, %i0, {n}; T: .branchtargets A, B, C;
    brx.idx %o1, T; A: add.u32 %o0, %o0, 1; B: add.u32 %o0, %o0, 10; C: add.u32 %o0, %o0, 100;"""


def test_a_table_of_jumps():
    got, _ = execute(JUMPS.format(n=3), [X], [32, 32])
    assert (got == np.array([111, 110, 100])[X % 3]).all()
    with pytest.raises(ptxsim.KernelFault, match=r"brx\.idx: index 3 is beyond the table"):
        execute(JUMPS.format(n=4), [LANE], [32, 32])


TWICE = """.func (.reg .b32 result) twice(.reg .b32 given, .param .b32 more) {
    .reg .b32 %m; ld.param.b32 %m, [more]; mad.lo.u32 result, given, 2, %m; ret; }
    .func (.param .b32 result) once(.reg .b32 given, .param .b32 more) {
    .reg .b32 %m; ld.param.b32 %m, [more]; add.u32 %m, given, %m; st.param.b32 [result], %m; ret; }
    """


@pytest.mark.parametrize(
    ("call", "want"),
    {
        "call (%r1), twice, (%t, m);": 2 * LANE[:32] + 5,
        "call (%r1), twice, (7, m);": 19,
        "call (y), once, (%t, m); ld.param.b32 %r1, [y];": LANE[:32] + 5,
        # each lane by its own pointer, and only the odd ones
        "mov.u64 %y, twice; @%p call (%r1), %y, (%t, m), F;": np.where(
            LANE[:32] % 2, 2 * LANE[:32] + 5, 9
        ),
    }.items(),
)
def test_parameters_in_registers(call, want):
    lines = (
        f"and.b32 %r1, %t, 1; setp.ne.u32 %p, %r1, 0; mov.u32 %r1, 9; st.param.b32 [m], 5; {call}"
    )
    got = launch(f"{lines} st.global.u32 [%x], %r1;", ".param .b32 m, y;", TWICE)
    assert (got == want).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("call (%r1), twice, (%t);", "twice is called with 1 arguments"),
        ("call twice, (%t, m);", "twice is called with 2 arguments"),
        ("call (%x), twice, (%t, m);", "twice is called with an argument of another size"),
        ("call (%r1), twice, (%x, m);", "twice is called with an argument of another size"),
        ("call (3), twice, (%t, m);", "a constant cannot take the result of twice"),
        ("call (%r1), twice, (%t, s);", "s is no parameter or local variable of the function"),
        ("mov.u64 %y, 77; call (%r1), %y, (%t, m), F;", "call of 0x4d: no function"),
    ],
)
def test_calls_that_do_not_fit_are_refused(call, message):
    with fails(message):
        launch(f"st.param.b32 [m], 5; {call}", ".param .b32 m;", TWICE)


def test_the_stack():
    """Lane n takes 8 n bytes, then 16 with an alignment of 64, twice from one place."""
    lines = """shl.b32 %r1, %t, 3; alloca.u32 %r2, %r1; stacksave.u32 %r3; sub.u32 %r2, %r3, %r2;
        alloca.u32 %r4, 16, 64; and.b32 %r5, %r4, 63; stackrestore.u32 %r3; alloca.u32 %r6, 16, 64;
        sub.u32 %r6, %r4, %r6; setp.lt.u32 %p, %t, 5; @%p stackrestore.u32 %r4; stacksave.u32 %r7;
        sub.u32 %r7, %r7, %r4; mad.wide.u32 %x, %t, 12, %x; st.global.u32 [%x], %r2;
        st.global.u32 [%x+4], %r5; st.global.u32 [%x+8], %r6; st.global.u32 [%x+12], %r7;"""
    got = launch(lines, words=128).reshape(32, 4)
    assert got.tolist() == [[8 * n, 0, 0, 16 * (n >= 5)] for n in range(32)]
    launch("alloca.u32 %r1, 4096;")
    with pytest.raises(ptxsim.KernelFault, match=r"thread \(3, .* alloca: more than 4096 bytes"):
        launch("setp.eq.u32 %p, %t, 3; selp.b32 %r2, 4100, 8, %p; alloca.u32 %r1, %r2;")


@pytest.mark.parametrize(("count", "threads"), [(", 64", 64), (", 96", 96), ("", 96), ("", 95)])
def test_barriers_with_a_predicate(count, threads):
    """Of three warps two or all meet at barrier 3; of 95 threads, thread 95 has exited before."""
    lines = f"""setp.ge.u32 %p, %t, {threads}; @%p exit;
        and.b32 %r1, %t, 3; setp.eq.u32 %p, %r1, 0; bar.red.popc.u32 %r1, 3{count}, %p;
        setp.ne.u32 %p, %t, 41; bar.red.or.pred %p, 3{count}, !%p; selp.b32 %r2, 10000, 0, %p;
        setp.ne.u32 %p, %t, 95; bar.red.and.pred %p, 3{count}, %p; selp.b32 %r3, 1000, 0, %p;
        add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; st.global.u32 [%x], %r1;"""
    got, thread = launch(lines, block=96, words=96), np.arange(96)
    assert (
        got == np.where(thread < threads, 10000 + 1000 * (threads < 96) + -(-threads // 4), 0)
    ).all()


def test_addresses_of_a_cluster():
    """Blocks (2, 3) of a grid of (4, 6), in clusters of (2, 3): what each thread 0 reads."""
    names = ["ctaid.x", "ctaid.y", "nctaid.y", "clusterid.x", "clusterid.y", "nclusterid.x"]
    names += ["nclusterid.y", "cluster_ctaid.x", "cluster_ctaid.y", "cluster_nctaid.y"]
    names += ["cluster_ctarank", "cluster_nctarank", "ctaid.z", "nctaid.z", "tid.y", "ntid.y"]
    names += ["warpid", "nwarpid", "smid", "nsmid", "total_smem_size", "dynamic_smem_size"]
    text = "".join(
        f"mov.u32 %r1, %{name}; st.global.u32 [%x+{4 * n}], %r1;" for n, name in enumerate(names)
    )
    lines = f"""mov.u32 %r1, %tid.y; add.u32 %t, %t, %r1;
        setp.ne.u32 %p, %t, 0; @%p bra END; mov.u32 %r1, %ctaid.y; mov.u32 %r2, %ctaid.x;
        mad.lo.u32 %r1, %r1, 4, %r2; mad.wide.u32 %x, %r1, 128, %x; {text} mov.u32 %r3, 5;
        mov.u32 %r1, s; mapa.shared::cluster.u32 %r2, %r1, %r3; sub.u32 %r4, %r2, %r1;
        getctarank.shared::cluster.u32 %r5, %r2; cvta.shared.u64 %y, %r1; cvt.u64.u32 %y, %r1;
        cvta.shared.u64 %y, %y; mapa.u64 %z, %y, %r3; getctarank.u64 %r6, %z;
        isspacep.shared::cta %p, %z; selp.b32 %r7, 1, 0, %p; isspacep.shared::cta %p, %y;
        selp.b32 %r8, 2, 0, %p; add.u32 %r7, %r7, %r8; isspacep.shared::cluster %p, %z;
        selp.b32 %r8, 4, 0, %p; add.u32 %r7, %r7, %r8; isspacep.global %p, %x;
        selp.b32 %r8, 8, 0, %p; add.u32 %r7, %r7, %r8; isspacep.global %p, %z;
        selp.b32 %r8, 16, 0, %p; add.u32 %r7, %r7, %r8; isspacep.const %p, %x;
        selp.b32 %r8, 32, 0, %p; add.u32 %r7, %r7, %r8; st.global.u32 [%x+96], %r5;
        st.global.u32 [%x+100], %r6; st.global.u32 [%x+104], %r7; END:"""
    out = launch(lines, grid=(4, 6), block=(16, 2), words=24 * 32, cluster=(2, 3), shared_bytes=32)
    for block, row in enumerate(out.reshape(24, 32).tolist()):
        x, y = block % 4, block // 4
        rank = x % 2 + y % 3 * 2
        want = [x, y, 6, x // 2, y // 3, 2, 2, x % 2, y % 3, 3, rank, 6, 0, 1, 0, 2]
        want += [0, 64, block % 132, 132, 96, 32, 0, 0]
        assert row[:22] == want[:22] and row[24:26] == [5, 5], block
        assert row[26] == 2 + 4 + 8 + (rank == 5), block


FORMAT = r"%5d|%-4u|%03x|%c|%%|%lld|%zu|%.2f|%e|%p|%s|%hhd|%+i\n"
PRINTED = "   -3|7   |02a|A|%|-5000000000|18446744073709551615|0.50|2.500000e-01|0x10|text|9|+8\n"
VALUES = ["u32 -3", "u32 7", "u32 42", "u32 65", "u64 -5000000000", "u64 -1"]
VALUES += ["f64 0d3FE0000000000000", "f64 0d3FD0000000000000", "u64 16", "u64 %y", "u32 9", "u32 8"]


def test_printf(capsys):
    """Arguments lie at multiples of their size; two threads print one after the other."""
    text = lambda name, x: f".global .align 1 .b8 {name}[] = {{{', '.join(str(b) for b in x)}, 0}};"
    before = text("f", FORMAT.replace(r"\n", "\n").encode()) + text("w", b"text")
    before += ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);"
    at, stores = 0, ""
    for type_, value in map(str.split, VALUES):
        size = int(type_[1:]) // 8
        at = -(-at // size) * size
        stores += f"st.local.{type_} [v+{at}], {value};"
        at += size
    lines = f"""setp.ge.u32 %p, %t, 2; @%p bra END; mov.u64 %y, w; cvta.global.u64 %y, %y; {stores}
        mov.u64 %y, f; cvta.global.u64 %y, %y; st.param.b64 [a], %y; mov.u64 %y, v;
        cvta.local.u64 %y, %y; st.param.b64 [b], %y; call (c), vprintf, (a, b); END:"""
    launch(lines, ".param .b64 a, b; .param .b32 c; .local .align 8 .b8 v[128];", before)
    assert capsys.readouterr().out == PRINTED * 2


@pytest.mark.parametrize(
    ("copy", "sum_", "right"),
    [
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32", 8, True),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.max.u32", 4, True),
        ("cp.async.bulk.global.shared::cta.bulk_group", 4, False),
    ],
)
def test_bulk_stores_of_two_blocks_to_one_place(copy, sum_, right):
    lines = f"""setp.ne.u32 %p, %t, 0; @%p bra END; mov.u32 %r1, 4; mov.u32 %r2, s;
        st.shared.v4.u32 [s], {{%r1, %r1, %r1, %r1}}; fence.proxy.async; {copy} [%x], [%r2], 16;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END:"""
    text = f"""{HEADER}.visible .entry k(.param .u64 out) {{ .reg .b64 %x; .reg .b32 %r<9>, %t; .reg .pred %p;
        .shared .align 16 .b8 s[64]; ld.param.u64 %x, [out]; mov.u32 %t, %tid.x; {lines} ret; }}"""
    out = ptxsim.Array(np.zeros(4, np.uint32))
    done = ptxsim.load(text).launch(2, 32, [out], stop_at_first=False)
    assert (not done.faults) == right and out.numpy().tolist() == [sum_] * 4


# Threads of a warp that come late to what the whole warp executes together are waited for


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


# Straight-line programs made by hypothesis, compared with a direct evaluator on Python integers
# and NumPy scalars


MASK = 0xFFFFFFFF
LANES = 32
signed = lambda x: x - (1 << 32) if x >> 31 else x

INTEGER = {
    "add.s32": lambda a, b: a + b,
    "sub.u32": lambda a, b: a - b,
    "mul.lo.s32": lambda a, b: a * b,
    "mul.hi.u32": lambda a, b: a * b >> 32,
    "mul.hi.s32": lambda a, b: signed(a) * signed(b) >> 32,
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "xor.b32": lambda a, b: a ^ b,
    "min.s32": lambda a, b: min(signed(a), signed(b)),
    "max.u32": lambda a, b: max(a, b),
    "shl.b32": lambda a, b: a << b if b < 32 else 0,
    "shr.s32": lambda a, b: signed(a) >> min(b, 32),
    "shr.u32": lambda a, b: a >> b if b < 32 else 0,
}

step = st.tuples(
    st.sampled_from([*sorted(INTEGER), "mad.lo.u32", "selp.b32"]),
    st.integers(0, 5),  # destination
    st.integers(0, 5),
    st.one_of(st.integers(0, 5), st.integers(6, MASK).map(lambda v: ("immediate", v))),
    st.integers(0, 5),
    st.booleans(),  # guarded by a predicate
)


def shown(operand):
    return str(operand[1]) if isinstance(operand, tuple) else f"%v{operand}"


@settings(max_examples=40)
@given(st.lists(step, min_size=1, max_size=40), st.integers(0, 2**32 - 1))
def test_integer_programs(steps, seed):
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(0, 2**32, LANES, dtype=np.uint32) for _ in range(3)]
    lines = [f"mov.u32 %v{i}, %i{i % 3};" for i in range(6)] + ["setp.lt.u32 %p, %i0, %i1;"]
    state = [[int(inputs[i % 3][lane]) for i in range(6)] for lane in range(LANES)]
    truth = [bool(inputs[0][lane] < inputs[1][lane]) for lane in range(LANES)]
    for name, d, a, b, c, guarded in steps:
        guard = "@%p " if guarded else ""
        if name == "mad.lo.u32":
            lines.append(f"{guard}{name} %v{d}, %v{a}, {shown(b)}, %v{c};")
        elif name == "selp.b32":
            lines.append(f"{guard}{name} %v{d}, %v{a}, {shown(b)}, %p;")
        else:
            lines.append(f"{guard}{name} %v{d}, %v{a}, {shown(b)};")
        for lane, v in enumerate(state):
            if guarded and not truth[lane]:
                continue
            y = b[1] if isinstance(b, tuple) else v[b]
            if name == "mad.lo.u32":
                result = v[a] * y + v[c]
            elif name == "selp.b32":
                result = v[a] if truth[lane] else y
            else:
                result = INTEGER[name](v[a], y)
            v[d] = result & MASK
    lines += [f"mov.u32 %o{i}, %v{i};" for i in range(6)]
    got = execute("\n".join(lines), inputs, [32] * 6, ".reg .b32 %v<6>;")
    assert [[int(g[lane]) for g in got] for lane in range(LANES)] == state


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 31), min_size=LANES, max_size=LANES),
    st.integers(1, 7),
    st.integers(0, 40),
)
def test_divergent_loops(trips, stride, bound):
    """Each thread leaves a loop by itself: by its count, or by a break in the middle."""
    inputs = [np.array(trips, np.uint32)]
    lines = f"""
        mov.u32 %v0, 0; mov.u32 %v1, 0;
        LOOP: setp.ge.u32 %p, %v0, %i0; @%p bra DONE;
        mad.lo.u32 %v1, %v0, %v0, %v1;
        setp.gt.u32 %q, %v1, {bound * 50}; @%q bra DONE;
        add.u32 %v0, %v0, {stride}; bra LOOP;
        DONE: mov.u32 %o0, %v1; mov.u32 %o1, %v0;"""
    got = execute(lines, inputs, [32, 32], ".reg .b32 %v<2>;")
    for lane, trip in enumerate(trips):
        i = total = 0
        while i < trip:
            total += i * i
            if total > bound * 50:
                break
            i += stride
        assert (int(got[0][lane]), int(got[1][lane])) == (total, i)


# What the lanes of a warp do together, compared with the pseudo-code and tables of the PTX ISA:
# in whole warps, in a part of one, and with a mask for each lane


RNG = np.random.default_rng(3)
RANDOM = RNG.integers(0, 2**32, 64, np.uint32)
RANDOM[::5] = 7
SMALL = np.array([lane // 3 % 3 for lane in range(64)], np.uint32)
OWN_LANE = np.arange(64, dtype=np.uint32) % 32
EVEN, ODD, FULL = 0x55555555, 0xAAAAAAAA, 0xFFFFFFFF
# Code that sets %q for the lanes that execute an instruction, and their mask
PARTS = {
    "all": ("setp.lt.u32 %q, %t, 32;", FULL),
    "the first 20": ("setp.lt.u32 %q, %t, 20;", 0xFFFFF),
    "odd": ("and.b32 %m, %t, 1; setp.eq.u32 %q, %m, 1;", ODD),
}
MASK_OF_EACH = f"and.b32 %m, %t, 1; setp.eq.u32 %q, %m, 1; selp.b32 %m, {ODD}, {EVEN}, %q;"


def members(mask: int, lane: int) -> list[int]:
    """The lanes of a mask in the warp of a lane."""
    return [lane // 32 * 32 + n for n in range(32) if mask >> n & 1]


def warp(lines: str, inputs, outputs: int, part: str) -> list[np.ndarray]:
    """Run `lines` for the lanes of a part, `@%q` before the instruction; the others leave 99."""
    preset = "".join(f"mov.u32 %o{n}, 99;" for n in range(outputs))
    return execute(f"{part} {preset} {lines}", inputs, [32] * outputs, ".reg .b32 %m;")


def shuffled(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """Which lane's value a shuffle gives, and whether that is in range (PTX ISA 9.7.9.6)."""
    b, clamp, mask = b & 31, c & 31, c >> 8 & 31
    high, low = lane & mask | clamp & ~mask, lane & mask
    j = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": low | b & ~mask}[mode]
    good = j >= high if mode == "up" else j <= high
    return (j, True) if good else (lane, False)


@pytest.mark.parametrize("c", [0, 31, 0x1800, 0x181F, 0x1C03, 0x100F, 0x0417])
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles(mode, c):
    by = RNG.integers(0, 40, 64, np.uint32)
    lines = f"shfl.sync.{mode}.b32 %o0|%p, %i0, %i1, {c}, -1; selp.b32 %o1, 1, 0, %p;"
    got, inside = warp(lines, [RANDOM, by], 2, "")
    for lane in range(64):
        j, good = shuffled(mode, lane % 32, int(by[lane]), c)
        assert (got[lane], inside[lane]) == (RANDOM[lane // 32 * 32 + j], good), lane


VOTES = {
    "all": lambda flags: all(flags),
    "any": lambda flags: any(flags),
    "uni": lambda flags: len(set(flags)) == 1,
}


@pytest.mark.parametrize("limit", [0, 1, 10, 26, 32])
@pytest.mark.parametrize("part", PARTS)
def test_votes(part, limit):
    """The second warp votes the other way round."""
    before, mask = PARTS[part]
    given = np.where(np.arange(64) < 32, limit > OWN_LANE, limit <= OWN_LANE).astype(np.uint32)
    for sync in (".sync", ""):
        last = f", {mask}" if sync else ""
        lines = "setp.ne.u32 %p, %i0, 0; @%q vote" + f"{sync}.ballot.b32 %o0, %p{last};"
        for n, name in enumerate(VOTES, 1):
            lines += f"setp.ne.u32 %p, %i0, 0; @%q vote{sync}.{name}.pred %p, %p{last};"
            lines += f"@%q selp.b32 %o{n}, 1, 0, %p;"
        got = warp(lines + "@%q activemask.b32 %o4;", [given], 5, before)
        for lane in range(64):
            here = members(mask, lane)
            ballot = sum(int(given[n]) << n % 32 for n in here)
            flags = [bool(given[n]) for n in here]
            want = [ballot, *(vote(flags) for vote in VOTES.values()), mask]
            assert [int(x[lane]) for x in got] == (want if lane in here else [99] * 5), lane


REDUCTIONS = {
    "add": operator.add,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}


@pytest.mark.parametrize("type_", ["s32", "u32", "b32"])
def test_reductions_of_lanes_with_one_mask(type_):
    names = list(REDUCTIONS)[:3] if type_ != "b32" else list(REDUCTIONS)[3:]
    lines = "".join(f"redux.sync.{name}.{type_} %o{n}, %i0, %m;" for n, name in enumerate(names))
    values = [int(x) for x in (RANDOM.view(np.int32) if type_ == "s32" else RANDOM)]
    got = warp(lines, [RANDOM], 3, MASK_OF_EACH)
    for lane in range(64):
        group = [values[n] for n in members(ODD if lane % 2 else EVEN, lane)]
        for n, name in enumerate(names):
            assert got[n][lane] == functools.reduce(REDUCTIONS[name], group) % 2**32, (name, lane)


@pytest.mark.parametrize("same", [False, True])
def test_lanes_with_equal_values(same):
    values = (OWN_LANE % 2 if same else SMALL).astype(np.uint32)
    lines = "match.any.sync.b32 %o0, %i0, %m; mov.b64 %w, {%m, %i0};"
    lines += "match.any.sync.b64 %o1, %w, %m; match.all.sync.b32 %o2|%p, %i0, %m;"
    lines += "selp.b32 %o3, 1, 0, %p; match.all.sync.b32 %o4, %i0, %m;"
    got = execute(f"{MASK_OF_EACH} {lines}", [values], [32] * 5, ".reg .b32 %m; .reg .b64 %w;")
    for lane in range(64):
        mask = ODD if lane % 2 else EVEN
        here = members(mask, lane)
        equal = sum(1 << n % 32 for n in here if values[n] == values[lane])
        every = len({int(values[n]) for n in here}) == 1
        want = [equal, equal, mask * every, every, mask * every]
        assert [int(x[lane]) for x in got] == want, lane


@pytest.mark.parametrize(("mask", "leader"), [(FULL, 0), (0xFFFFF000, 12), (1 << 31, 31)])
def test_the_lowest_lane_is_elected(mask, leader):
    part = f"shl.b32 %m, 1, %t; and.b32 %m, %m, {mask}; setp.ne.u32 %q, %m, 0;"
    lines = f"@%q elect.sync %o0|%p, {mask}; @%q selp.b32 %o1, 1, 0, %p;"
    got = warp(lines, [RANDOM], 2, part)
    inside = np.isin(OWN_LANE, members(mask, 0))
    assert (got[0] == np.where(inside, leader, 99)).all()
    assert (got[1] == np.where(inside, leader == OWN_LANE, 99)).all()


@pytest.mark.parametrize(
    ("mask", "lanes"), [(FULL, 20), (0xFFFFE, 20), (0x1FFFFF, 20)], ids=["more", "lacks 0", "waits"]
)
def test_a_mask_names_those_who_are_here(mask, lanes):
    with pytest.raises(ptxsim.KernelFault, match=f"member mask 0x{mask:08x}, but .* 0x000fffff"):
        warp(f"@%q vote.sync.any.pred %p, %q, {mask};", [RANDOM], 1, PARTS[f"the first {lanes}"][0])
