"""Loads, stores, atomics and asynchronous copies in every width and space."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from running import HEADER, fails

import ptxsim
from ptxsim.engine.device_memory import MAX_SPANS, OF_LAUNCH, DeviceMemory
from ptxsim.instructions.memory import swaps
from ptxsim.interface import Kernel
from ptxsim.machine.memory import GLOBAL_BASE
from ptxsim.ptx.parser import parse


def run(
    lines: str, data: np.ndarray, out: np.ndarray, declare: str = "", threads: int = 32, **options
) -> np.ndarray:
    """`%in` and `%out` hold the addresses of the arrays, `%t` the thread."""
    text = HEADER + "\n".join(
        [
            ".visible .entry k(.param .u64 in, .param .u64 out) {",
            ".reg .b16 %h<9>; .reg .b32 %r<9>, %t; .reg .f32 %f<9>; .reg .f64 %d<9>; .reg .pred %p<4>;",
            f".reg .b64 %x<9>, %in, %out; {declare}",
            "mov.u32 %t, %tid.x; ld.param.u64 %in, [in]; ld.param.u64 %out, [out];",
            lines,
            "ret; }",
        ]
    )
    result = ptxsim.Array(out, "out")
    ptxsim.load(text).launch(1, threads, [ptxsim.Array(data, "in"), result], **options)
    return result.numpy()


@pytest.mark.parametrize("space", ["global", "shared", "local", "generic"])
@pytest.mark.parametrize(
    ("type_", "register"),
    [("u8", "%h"), ("u16", "%h"), ("b32", "%r"), ("f32", "%f"), ("b64", "%x"), ("f64", "%d")],
)
@pytest.mark.parametrize("vector", [1, 2, 4])  # up to 16 bytes
def test_every_width_and_space(space, type_, register, vector):
    size = int(type_[1:]) // 8
    width = size * vector
    if width > 16:
        return
    data = np.random.default_rng(0).integers(0, 256, 32 * width).astype(np.uint8)
    registers = ", ".join(f"{register}{4 + i}" for i in range(vector))
    registers = f"{{{registers}}}" if vector > 1 else registers
    suffix = (f".v{vector}" if vector > 1 else "") + f".{type_}"
    lines = f"mad.wide.u32 %x0, %t, {width}, %in; mad.wide.u32 %x1, %t, {width}, %out;"
    lines += f"ld.global{suffix} {registers}, [%x0];"
    if space in ("shared", "local"):
        lines += (
            f"mov.u32 %r0, there; mad.lo.u32 %r0, %t, {width if space == 'shared' else 0}, %r0;"
        )
        lines += f"st.{space}{suffix} [%r0+{2 * width}], {registers};"
        lines += f"ld.{space}{suffix} {registers}, [%r0+{2 * width}];"
    elif space == "generic":
        lines += (
            f"mov.u64 %x2, there; cvta.shared.u64 %x2, %x2; mad.wide.u32 %x2, %t, {width}, %x2;"
        )
        lines += f"st{suffix} [%x2], {registers}; ld{suffix} {registers}, [%x2];"
    lines += f"st.global{suffix} [%x1], {registers};"
    declare = f".{'local' if space == 'local' else 'shared'} .align 16 .b8 there[{40 * width}];"
    assert (run(lines, data, np.zeros_like(data), declare) == data).all()


def test_loads_extend_to_the_register():
    data = np.array([0x80, 0x7F, 0xFF, 0x01] * 8, np.uint8)
    lines = (
        "cvt.u64.u32 %x0, %t; add.u64 %x0, %in, %x0; mad.wide.u32 %x1, %t, 8, %out;"
        "ld.global.s8 %r0, [%x0]; ld.global.u8 %r1, [%x0]; st.global.v2.b32 [%x1], {%r0, %r1};"
    )
    got = run(lines, data, np.zeros((32, 2), np.int32))
    assert (got[:, 0] == data.view(np.int8)).all() and (got[:, 1] == data).all()


def test_stores_of_part_of_a_register():
    data = np.arange(32, dtype=np.uint32) * 0x01010101
    lines = (
        "mad.wide.u32 %x0, %t, 4, %in; mad.wide.u32 %x1, %t, 4, %out;"
        "ld.global.u32 %r0, [%x0]; st.global.u8 [%x1+1], %r0; st.global.u16 [%x1+2], %r0;"
    )
    assert (run(lines, data, np.zeros(32, np.uint32)) == (data & 0xFFFFFF00)).all()


def test_predicated_access_leaves_others_alone():
    data = np.arange(32, dtype=np.uint32)
    lines = (
        "mad.wide.u32 %x0, %t, 400, %in; mad.wide.u32 %x1, %t, 4, %out; mov.u32 %r0, 77; setp.eq.u32 %p0, %t, 0;"
        "@%p0 ld.global.u32 %r0, [%x0+12]; st.global.u32 [%x1], %r0;"
    )
    assert run(lines, data, np.zeros(32, np.uint32)).tolist() == [3] + [77] * 31


ATOMS = {
    "add.u32": (lambda old, b: old + b, 32),
    "min.s32": (lambda old, b: min(old, b, key=lambda v: v - (1 << 32) if v >> 31 else v), 32),
    "max.u32": (max, 32),
    "and.b32": (lambda old, b: old & b, 32),
    "or.b32": (lambda old, b: old | b, 32),
    "xor.b32": (lambda old, b: old ^ b, 32),
    "exch.b32": (lambda old, b: b, 32),
    "inc.u32": (lambda old, b: 0 if old >= b else old + 1, 32),
    "dec.u32": (lambda old, b: b if old == 0 or old > b else old - 1, 32),
    "add.u64": (lambda old, b: old + b, 64),
    "max.s64": (lambda old, b: max(old, b, key=lambda v: v - (1 << 64) if v >> 63 else v), 64),
}


@pytest.mark.parametrize(("space", "words"), [("global", 4), ("global", 1), ("shared", 4)])
@pytest.mark.parametrize("name", ATOMS)
def test_atomics(name, space, words):
    update, bits = ATOMS[name]
    rng = np.random.default_rng(4)
    start = rng.integers(0, 2**bits, 4, dtype=np.uint64)
    operand = rng.integers(0, 2**bits, 32, dtype=np.uint64)
    size, r = bits // 8, "%r" if bits == 32 else "%x"
    data = np.concatenate([start, operand]).astype(f"u{size}")
    lines = f"""
        and.b32 %r0, %t, {words - 1}; mad.wide.u32 %x7, %r0, {size}, %in; mad.wide.u32 %x8, %t, {size}, %in;
        ld.global.b{bits} {r}2, [%x8+{4 * size}]; mad.wide.u32 %x8, %t, {size}, %out;"""
    if space == "global":
        lines += f"atom.global.{name} {r}3, [%x7], {r}2; st.global.b{bits} [%x8], {r}3; bar.sync 0;"
        lines += f"ld.global.b{bits} {r}4, [%x7]; st.global.b{bits} [%x8+{32 * size}], {r}4;"
    else:
        lines += f"""
            mov.u32 %r1, there; mad.lo.u32 %r1, %r0, {size}, %r1; ld.global.b{bits} {r}4, [%x7];
            setp.lt.u32 %p0, %t, 4; @%p0 st.shared.b{bits} [%r1], {r}4; bar.sync 0;
            atom.shared.{name} {r}3, [%r1], {r}2; st.global.b{bits} [%x8], {r}3;
            bar.sync 0; ld.shared.b{bits} {r}4, [%r1]; st.global.b{bits} [%x8+{32 * size}], {r}4;"""
    got = run(lines, data, np.zeros(64, f"u{size}"), f".shared .align 8 .b8 there[{4 * size}];")
    state = [int(v) % 2**bits for v in start]
    for lane in range(32):
        assert int(got[lane]) == state[lane % words]
        state[lane % words] = update(state[lane % words], int(operand[lane]) % 2**bits) % 2**bits
    assert [int(v) for v in got[32 : 32 + words]] == state[:words]


def test_the_cache_hint_of_a_copy_is_no_size():
    data = np.arange(128, dtype=np.uint32)
    lines = """mov.u32 %r0, there; mad.lo.u32 %r0, %t, 16, %r0; mad.wide.u32 %x0, %t, 16, %in; mov.b64 %x5, 0;
        cp.async.cg.shared.global.L2::cache_hint [%r0], [%x0], 16, %x5; cp.async.wait_all;
        ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r0]; mad.wide.u32 %x1, %t, 16, %out;
        st.global.v4.u32 [%x1], {%r1, %r2, %r3, %r4};"""
    assert (
        run(lines, data, np.zeros_like(data), ".shared .align 16 .b8 there[512];") == data
    ).all()


def test_float_atomics_and_cas():
    data = np.arange(32, dtype=np.float32)
    lines = (
        "mad.wide.u32 %x0, %t, 4, %in; ld.global.f32 %f0, [%x0]; red.global.add.f32 [%out], %f0;"
        "atom.global.cas.b32 %r0, [%out+4], 0, 5; atom.global.cas.b32 %r0, [%out+4], 5, 6;"
        "red.global.add.f64 [%out+8], 0d3FE0000000000000;"
    )
    got = run(lines, data, np.zeros(4, np.float32))
    assert got[0] == data.sum() and got.view(np.uint32)[1] == 6
    assert got[2:].view(np.float64)[0] == 16.0


def test_sums_of_halves_by_atomics():
    """Two pairs of 16-bit floats at a time, and one half alone."""
    values = (np.arange(64) % 9 - 3) / 4
    for name, dtype in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        data = values.astype(dtype).view(np.uint32)
        lines = f"""mad.wide.u32 %x0, %t, 4, %in; ld.global.u32 %r0, [%x0]; cvt.u16.u32 %h0, %r0;
            red.global.add.noftz.{name}x2 [%out], %r0; atom.global.add.noftz.{name} %h1, [%out+4], %h0;
            mad.wide.u32 %x1, %t, 2, %out; st.global.u16 [%x1+8], %h1;"""
        got = run(lines, data, np.zeros(20, np.uint32)).view(dtype).astype(float)
        assert got[:3].tolist() == [values[::2].sum(), values[1::2].sum(), values[::2].sum()]
        assert (got[4:36] == np.cumsum(values[::2]) - values[::2]).all()


@pytest.mark.parametrize("count", [1, 7, 8, 9, 40])
def test_many_swaps_of_one_word(count):
    rng = np.random.default_rng(count)
    for _ in range(40):
        old, compared, new = (rng.integers(0, 3, n).astype(np.uint32) for n in (1, count, count))
        now, found = int(old[0]), []
        for a, b in zip(compared.tolist(), new.tolist(), strict=True):
            found.append(now)
            now = b if a == now else now
        assert swaps(old, compared, new).tolist() == [*found, now]


def test_copies_whose_source_is_ignored_or_of_odd_size():
    lines = """mov.u32 %r0, there; mad.lo.u32 %r0, %t, 16, %r0; mad.wide.u32 %x0, %t, 16, %in;
        setp.ge.u32 %p0, %t, 30; @!%p0 bra SIZED; cp.async.cg.shared.global [%r0], [%x0], 16, %p1; bra DONE;
        SIZED: rem.u32 %r1, %t, {n}; cp.async.ca.shared.global [%r0], [%x0], 16, %r1;
        DONE: cp.async.wait_all; ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r0];
        mad.wide.u32 %x1, %t, 16, %out; st.global.v4.u32 [%x1], {%r1, %r2, %r3, %r4};"""
    data = np.random.default_rng(8).integers(1, 256, (32, 16)).astype(np.uint8)
    lines, declare = "setp.eq.u32 %p1, %t, 31;" + lines, ".shared .align 16 .b8 there[512];"
    got = run(lines.replace("{n}", "17"), data, np.zeros_like(data), declare)
    size = np.where(np.arange(32) == 31, 0, np.where(np.arange(32) == 30, 16, np.arange(32) % 17))
    assert (got == np.where(np.arange(16) < size[:, None], data, 0)).all()
    with pytest.raises(ptxsim.KernelFault, match="source size 17 is more than 16"):
        run(lines.replace("{n}", "18"), data, np.zeros_like(data), declare)


@pytest.mark.parametrize(("offset", "right"), [(8, True), (12, False)])
def test_a_parameter_ends(offset, right):
    text = f"""{HEADER}.visible .entry k(.param .align 8 .b8 e[16]) {{ .reg .b64 %x;
        ld.param.b64 %x, [e+{offset}]; ret; }}"""
    launch = lambda: ptxsim.load(text).launch(1, 32, [np.zeros(4, np.int32)])
    if right:
        launch()
        return
    with pytest.raises(ptxsim.KernelFault, match="parameter e is read beyond its end"):
        launch()


@pytest.mark.parametrize(("level", "width"), [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)])
def test_cp_async_lands_when_waited_for(level, width):
    data = np.random.default_rng(0).integers(0, 2**32, 8 * 32, dtype=np.uint32)
    words = width // 4
    lines = f"""
        mov.u32 %r0, there; mad.lo.u32 %r0, %t, {width}, %r0; mad.wide.u32 %x0, %t, {width}, %in;
        cp.async.{level}.shared.global [%r0], [%x0], {width}; cp.async.commit_group;
        cp.async.{level}.shared.global [%r0+{32 * width}], [%x0+{32 * width}], {width}, {width // 2};
        cp.async.commit_group;
        cp.async.wait_group 1; mad.wide.u32 %x1, %t, {width}, %out;"""
    for half in (0, 1):
        for i in range(words):
            at = half * 32 * width + 4 * i
            lines += f"ld.shared.b32 %r1, [%r0+{at}]; st.global.b32 [%x1+{at}], %r1;"
        lines += "cp.async.wait_all;" if half == 0 else ""
    got = run(
        lines, data, np.zeros(64 * words, np.uint32), f".shared .align 16 .b8 there[{64 * width}];"
    )
    first, second = data[: 32 * words], data[32 * words : 64 * words].copy()
    raw = second.view(np.uint8).reshape(32, width)
    raw[:, width // 2 :] = 0
    assert (got[: 32 * words] == first).all() and (got[32 * words :] == second).all()


def test_cp_async_group_that_is_not_waited_for():
    lines = """
        mov.u32 %r0, there; mad.lo.u32 %r0, %t, 4, %r0; mad.wide.u32 %x0, %t, 4, %in;
        cp.async.ca.shared.global [%r0], [%x0], 4; cp.async.commit_group;
        cp.async.ca.shared.global [%r0+128], [%x0], 4; cp.async.commit_group;
        cp.async.wait_group 1; ld.shared.b32 %r1, [%r0]; ld.shared.b32 %r1, [%r0+128];"""
    with fails("read before the wait"):
        run(
            lines,
            np.zeros(64, np.uint32),
            np.zeros(1, np.uint32),
            ".shared .align 16 .b8 there[256];",
        )


def test_a_source_size_of_zero_reads_nothing():
    lines = """
        mov.u32 %r0, there; mad.lo.u32 %r0, %t, 16, %r0; setp.lt.u32 %p0, %t, 2; selp.b32 %r2, 16, 0, %p0;
        mad.wide.u32 %x0, %t, 16, %in; cp.async.cg.shared.global [%r0], [%x0], 16, %r2; cp.async.wait_all;
        ld.shared.b32 %r1, [%r0+12]; mad.wide.u32 %x1, %t, 4, %out; st.global.b32 [%x1], %r1;"""
    data = np.arange(1, 9, dtype=np.uint32)  # 32 bytes: threads from 2 on would read past the end
    got = run(lines, data, np.full(32, 9, np.uint32), ".shared .align 16 .b8 there[512];")
    assert got.tolist() == [4, 8] + [0] * 30


def test_parameters_of_many_types():
    text = f"""{HEADER}
        .visible .entry k(.param .u8 a, .param .s16 b, .param .f32 c, .param .f64 d, .param .align 8 .b8 e[16],
                          .param .u64 out) {{
        .reg .b32 %r<4>; .reg .b64 %x<4>; .reg .f32 %f; .reg .f64 %d;
        ld.param.u64 %x0, [out]; ld.param.u8 %r0, [a]; ld.param.s16 %r1, [b];
        ld.param.f32 %f, [c]; ld.param.f64 %d, [d];
        ld.param.v2.b32 {{%r2, %r3}}, [e+8]; mov.b64 %x1, e; ld.param.b32 %x2, [%x1+4];
        st.global.b32 [%x0], %r0; st.global.b32 [%x0+4], %r1; st.global.f32 [%x0+8], %f; st.global.b32 [%x0+12], %r2;
        st.global.f64 [%x0+16], %d; st.global.b32 [%x0+24], %r3; st.global.b32 [%x0+28], %x2;
        ret; }}"""
    out = ptxsim.Array(np.zeros(8, np.int32))
    ptxsim.load(text).launch(1, 32, [200, -5, 1.5, 2.25, np.array([1, 2, 3, 4], np.int32), out])
    got = out.numpy()
    assert got[[0, 1, 3, 6, 7]].tolist() == [200, -5, 3, 4, 2]
    assert got.view(np.float32)[2] == 1.5 and got[4:6].view(np.float64)[0] == 2.25


@pytest.mark.parametrize("space", ["shared", "local", "global"])
def test_base_registers_that_point_below_the_start(space):
    """A compiler may keep `start - x` in a register, and add the rest as the offset of the
    access.
    """
    data = np.arange(32, dtype=np.uint32)
    lines = "mad.wide.u32 %x0, %t, 4, %in; ld.global.u32 %r1, [%x0];"
    lines += "mad.wide.u32 %x1, %t, 4, %out; mul.lo.u32 %r0, %t, -4;"
    if space == "global":
        lines += "cvt.s64.s32 %x2, %r0; add.s64 %x2, %x2, %in; sub.s64 %x2, %x2, 4096; ld.global.u32 %r2, [%x2+4220];"
    elif space == "local":
        lines += "st.local.u32 [%r0+124], %r1; ld.local.u32 %r2, [%r0+124]; sub.u32 %r2, 31, %r2;"
    else:
        lines += "shl.b32 %r3, %t, 2; st.shared.u32 [%r3+1024], %r1; bar.sync 0; ld.shared.u32 %r2, [%r0+1148];"
    lines += "st.global.u32 [%x1], %r2;"
    declare = f".{'local' if space == 'local' else 'shared'} .align 16 .b8 there[128];"
    declare += " .reg .b32 %unused; mov.u32 %unused, there;"
    assert (run(lines, data, np.zeros(32, np.uint32), declare) == data[::-1]).all()


@pytest.mark.parametrize(("address", "where"), [(0, "in no allocation"), (2**63, "in no space")])
def test_null_and_wild_pointers(address, where):
    with fails(where):
        run(f"mov.b64 %x0, {address}; st.u32 [%x0], 1;", np.zeros(1), np.zeros(1))


def test_memory_between_arrays_belongs_to_nobody():
    with fails("past the end of in"):
        run("st.global.u8 [%out+-1], 1;", np.zeros(4, np.uint8), np.zeros(4, np.uint8), threads=1)


# No state space coincides with another: a pointer that is used in the wrong one is a fault that
# says so


HEAD = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n) {
    .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %d<16>;
    .shared .align 16 .b8 s[512];
    .local .align 16 .b8 a[64];
    ld.param.u64 %d1, [out];
    mov.u32 %r1, s;
    mov.u64 %d2, s;
    cvta.shared.u64 %d3, %d2;
    mov.u64 %d4, a;
    cvta.local.u64 %d5, %d4;
    mov.u32 %r2, 9;
    st.shared.u32 [s], %r2;
    st.local.u32 [a], %r2;
    st.global.u32 [%d1+4], %r2;
"""
CUT = "cvt.u32.u64 %r4, {};"
WRONG = {
    "generic shared, cut": (CUT.format("%d3") + "ld.shared.u32 %r3, [%r4];", "generic address of shared memory cut"),
    "generic shared, whole": ("ld.shared.u32 %r3, [%d3];", "shared memory must stand"),
    "generic local, cut": (CUT.format("%d5") + "ld.local.u32 %r3, [%r4];", "generic address of local memory cut to 32"),
    "local as shared": (CUT.format("%d5") + "ld.shared.u32 %r3, [%r4];", "generic address of local memory cut to 32"),
    "global, cut": (CUT.format("%d1") + "ld.shared.u32 %r3, [%r4];", "address of global memory cut to 32 bits"),
    "shared as generic": ("ld.u32 %r3, [%d2];", "an offset in shared memory, not a generic address"),
    "generic shared as global": ("ld.global.u32 %r3, [%d3];", "a generic address of shared memory"),
    "generic local as global": ("st.global.u32 [%d5], %r2;", "a generic address of local memory"),
    "store, too": (CUT.format("%d3") + "st.shared.u32 [%r4], %r2;", "cut to 32 bits: __cvta_generic_to_shared"),
    "atomic": (CUT.format("%d3") + "red.shared.add.u32 [%r4], %r2;", "generic address of shared memory cut to 32"),
}  # fmt: skip
RIGHT = {
    "generic": "ld.u32 %r3, [%d3];",
    "back again": "cvta.to.shared.u64 %d6, %d3; cvt.u32.u64 %r4, %d6; ld.shared.u32 %r3, [%r4];",
    "an offset": "ld.shared.u32 %r3, [%r1];",
    "an offset in 64 bits": "ld.shared.u32 %r3, [%d2];",
    "local": "ld.u32 %r3, [%d5];",
    "local, back again": "cvta.to.local.u64 %d6, %d5; ld.local.u32 %r3, [%d6];",
    "global": "cvta.global.u64 %d6, %d1; ld.u32 %r3, [%d6+4];",
    "asked for": "isspacep.shared::cta %p1, %d3; selp.b32 %r3, 9, 0, %p1;",
    "rank": "getctarank.u64 %r4, %d3; add.u32 %r3, %r4, 9;",
}  # fmt: skip


def launch(body):
    out = ptxsim.Array(np.zeros(64, np.uint32), "out")
    ptxsim.load(f"{HEAD}\n{body}\nst.global.u32 [%d1], %r3;\nret;\n}}\n").launch(1, 1, [out, 1])
    return int(out.numpy()[0])


@pytest.mark.parametrize(("body", "message"), WRONG.values(), ids=WRONG)
def test_a_pointer_in_the_wrong_space_is_a_fault(body, message):
    with pytest.raises(ptxsim.KernelFault, match=f"out-of-bounds .*{message}"):
        launch(body)


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_a_pointer_in_its_own_space_is_silent(body):
    assert launch(body) == 9


# Loops that retry a compare-and-swap: the threads of a word do at once what they stand for


SOURCE = """
template <class T> __device__ T as(unsigned long long bits);
template <> __device__ double as(unsigned long long bits) { return __longlong_as_double(bits); }
template <> __device__ long long as(unsigned long long bits) { return bits; }
__device__ unsigned long long bits(double x) { return __double_as_longlong(x); }
__device__ unsigned long long bits(long long x) { return x; }
template <class T, class F> __device__ T until_swapped(T* to, F f) {
    unsigned long long *p = reinterpret_cast<unsigned long long*>(to), old = *p, expected;
    do {
        expected = old;
        old = atomicCAS(p, expected, bits(f(as<T>(expected))));
    } while (old != expected);
    return as<T>(old);
}
template <class T, class F> __device__ T while_(T* to, T value, F f) {
    unsigned long long *p = reinterpret_cast<unsigned long long*>(to), old = *p, expected;
    while (f(value, as<T>(old))) {
        expected = old;
        if ((old = atomicCAS(p, expected, bits(value))) == expected) break;
    }
    return as<T>(old);
}
#define KERNEL(name, T, call)                                      \\
    extern "C" __global__ void name(T* to, const T* from, T* found) { \\
        const int i = threadIdx.x + blockIdx.x * blockDim.x;       \\
        const T value = from[i];                                   \\
        found[i] = call;                                           \\
    }
KERNEL(add, double, until_swapped(to, [=](double old) { return old + value; }))
KERNEL(add_whole, long long, until_swapped(to, [=](long long old) { return old + value; }))
KERNEL(sub, double, until_swapped(to, [=](double old) { return old - value; }))
KERNEL(mul, double, until_swapped(to, [=](double old) { return old * value; }))
KERNEL(least, long long, while_(to, value, [](long long x, long long y) { return x < y; }))
KERNEL(most, double, while_(to, value, [](double x, double y) { return x > y; }))
KERNEL(other, double, until_swapped(to, [=](double old) { return 0.5 * old + value; }))
KERNEL(after_all, double, until_swapped(to, [=](double old) { return value - old; }))
"""
UPDATES = {
    "add": lambda old, v: old + v,
    "add_whole": lambda old, v: old + v,
    "sub": lambda old, v: old - v,
    "mul": lambda old, v: old * v,
    "least": min,
    "most": max,
    # These are done one after the other.
    "other": lambda old, v: 0.5 * old + v,
    "after_all": lambda old, v: v - old,
}


@pytest.mark.parametrize("name", UPDATES)
def test_threads_that_retry_come_one_after_the_other(built, name):
    kernel = ptxsim.load(built(SOURCE), name)
    dtype = np.int64 if name in ("add_whole", "least") else np.float64
    values = (np.arange(96) * 7 % 97 / 64 + 1).astype(dtype)
    # Each thread changes what those before it left.
    expected = [dtype(3 if name == "least" else 1)]
    for value in values:
        expected.append(dtype(UPDATES[name](expected[-1], value)))
    to = ptxsim.Array(np.array(expected[:1]), "to")
    found = ptxsim.Array(np.zeros(96, dtype), "found")
    done = kernel.launch(3, 32, [to, ptxsim.Array(values, "from"), found])
    assert to.numpy()[0] == expected[-1]
    assert (found.numpy() == np.array(expected[:-1])).all()
    assert (done.steps < 100) == (name not in ("other", "after_all"))


# Device memory that outlives launches: what is written in it, freed, and out of bounds


PTX = """
.version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 added = 5;
.global .align 8 .u64 there = added;
.visible .entry copy(.param .u64 to, .param .u64 from, .param .u32 n) {
    .reg .b32 %r<4>; .reg .b64 %d<5>; .reg .pred %p;
    ld.param.u64 %d1, [to]; ld.param.u64 %d2, [from]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p, %r2, %r1;
    @%p bra end;
    mul.wide.u32 %d3, %r2, 4;
    add.s64 %d1, %d1, %d3;
    add.s64 %d2, %d2, %d3;
    ld.global.u32 %r3, [%d2];
    ld.global.u64 %d4, [there];
    ld.global.u32 %r1, [%d4];
    add.u32 %r3, %r3, %r1;
    st.global.u32 [%d1], %r3;
end:
    ret;
}
"""
START = GLOBAL_BASE + OF_LAUNCH


@pytest.fixture
def memory():
    return DeviceMemory(np.zeros(OF_LAUNCH + (1 << 20), np.uint8))


@pytest.fixture
def copy(memory):
    """A function: to, from and count to a launch."""
    module = parse(PTX)
    kernel = Kernel(module, "copy", memory=memory)
    addresses = {"added": START, "there": START + 4096}
    for name, address in addresses.items():
        memory.allocated(address, module.variables[name].size, name)
    memory.place(module, module.variables.values(), addresses)

    def launch(to: int, source: int, n: int = 32) -> None:
        memory.finish()
        args = [to.to_bytes(8, "little"), source.to_bytes(8, "little"), n.to_bytes(4, "little")]
        kernel.launch(1, 32, args)

    return launch


def test_launches_see_what_earlier_ones_wrote(memory, copy):
    a, b, c = (START + 4096 * n for n in (2, 3, 4))
    for address in (a, b, c):
        memory.allocated(address, 128, "buffer")
    memory.write(a, np.arange(32, dtype=np.uint32))
    memory.written(a, 128)
    copy(b, a)
    copy(c, b)
    assert (memory.read(c, 128).view(np.uint32) == np.arange(32) + 10).all()
    memory.write(START, np.array([100], np.uint32))  # a variable is where its initialiser put it
    copy(c, a, 1)
    assert memory.read(c, 4).view(np.uint32)[0] == 100


def test_what_nobody_wrote(memory, copy):
    a, b = START + 8192, START + 12288
    memory.allocated(a, 128, "source")
    memory.allocated(b, 128, "target")
    with fails(r"read of global memory that nobody wrote .* 0 bytes into source"):
        copy(b, a)
    memory.written(a, 64)
    with fails(r"nobody wrote .* 64 bytes into source"):
        copy(b, a)
    copy(b, a, 16)
    with fails(r"nobody wrote .* 64 bytes into target"):
        copy(a, b)  # the launch before wrote half of it
    memory.written(b, 4, pitch=8, rows=16)
    assert memory._unwritten[b] == [(b + at, b + at + 4) for at in range(68, 128, 8)]
    memory.written(b, 1, pitch=1, rows=128)
    copy(a, b)
    memory.allocated(START + 16384, 65536 * 4, "large")
    memory.written(START + 16384, 1, pitch=2, rows=MAX_SPANS + 1)
    assert START + 16384 not in memory._unwritten  # too many pieces to keep


def test_memory_is_named_by_who_has_it_now(memory):
    at = START + (16 << 10) - GLOBAL_BASE
    memory.allocated(GLOBAL_BASE + at, 512, "first")
    memory.release(GLOBAL_BASE + at)
    memory.allocated(GLOBAL_BASE + at, 256, "second")
    memory.finish()
    assert memory.nearest(at + 4) == "4 bytes into second"
    assert memory.nearest(at + 260) == "260 bytes into first, which was freed"


def test_memory_of_a_launch(memory):
    memory.allocated(START, 128, "buffer")
    address = memory.allocate(100, "its own")
    memory.finish()
    assert GLOBAL_BASE < address < START and [a.name for a in memory.allocations] == [
        "its own",
        "buffer",
    ]
    with fails("no room for"):
        memory.allocate(OF_LAUNCH, "too much")
