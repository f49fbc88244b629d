"""ldmatrix and mma.sync, with fragments laid out thread by thread as the PTX ISA's figures show."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from running import execute, fails

import ptxsim


def launch(
    lines: str, inputs: list[np.ndarray], outputs: int, warps: int = 1, declare: str = ""
) -> np.ndarray:
    """Each thread has its words of the inputs in %i0, %i1 ... and leaves words in %o0 ...; result
    [thread, word].
    """
    columns = np.tile(np.concatenate([x.astype(np.uint32) for x in inputs], axis=1), (warps, 1)).T
    return np.stack(execute(lines, list(columns), [32] * outputs, declare), axis=1)


@pytest.mark.parametrize(("warps", "off"), [(1, []), (3, []), (3, [0])])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix(count, trans, warps, off):
    """The warps `off` take no part."""
    matrices = np.random.default_rng(0).integers(0, 65536, (count, 8, 8)).astype(np.uint16)
    stored = np.zeros((32, 4), np.uint32)  # thread 8i+j stores row j of matrix i
    stored[: 8 * count] = matrices.view(np.uint32).reshape(8 * count, 4)
    to = registers(0, count, "o")
    preset = "".join(f"mov.b32 %o{i}, 7;" for i in range(count))
    lines = f"""{preset} setp.ge.u32 %p, %index, {len(off) * 32};
        mov.u32 %s, buffer; mad.lo.u32 %s, %t, 16, %s; st.shared.v4.b32 [%s], {{%i0, %i1, %i2, %i3}};
        bar.sync 0; @%p ldmatrix.sync.aligned.m8n8.x{count}{".trans" if trans else ""}.shared.b16 {to}, [%s];"""
    got = launch(lines, [stored], count, warps, ".reg .b32 %s; .shared .align 16 .b8 buffer[512];")
    for lane in range(32 * warps):
        for i in range(count):
            m = matrices[i].T if trans else matrices[i]
            row, column = lane % 32 // 4, lane % 4 * 2
            want = int(m[row, column]) | int(m[row, column + 1]) << 16
            assert got[lane, i] == (7 if lane // 32 in off else want)


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix(count, trans):
    """The second of two warps stores."""
    words = np.random.default_rng(1).integers(0, 2**32, (32, count), np.uint32)
    lines = f"""setp.ge.u32 %p, %index, 32; mov.u32 %s, buffer; mad.lo.u32 %z, %t, 16, %s;
        mad.lo.u32 %s, %t, 4, %s;
        @%p stmatrix.sync.aligned.m8n8.x{count}{".trans" if trans else ""}.shared.b16 [%z], {registers(0, count)};
        bar.sync 0;"""
    lines += "".join(f"ld.shared.b32 %o{i}, [%s+{128 * i}];" for i in range(4))
    declare = ".reg .b32 %s, %z; .shared .align 16 .b8 buffer[512];"
    zeros = "mov.u32 %s, buffer; mad.lo.u32 %s, %t, 16, %s; mov.u32 %z, 0;"
    zeros += "st.shared.v4.b32 [%s], {%z, %z, %z, %z}; bar.sync 0;"
    got = launch(zeros + lines, [words], 4, 2, declare)
    assert not got[:32].any()
    for i in range(4):
        rows = got[32:, i].copy().view(np.uint16).reshape(8, 8)
        given = words[:, i].copy().view(np.uint16).reshape(8, 8) if i < count else np.zeros((8, 8))
        assert (rows == (given.T if trans else given)).all()


def registers(first: int, count: int, name: str = "i") -> str:
    return "{" + ", ".join(f"%{name}{first + i}" for i in range(count)) + "}"


INTEGERS = {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f64": np.float64}
NUMPY |= {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "f32": np.float32}
NUMPY |= {"s8": np.int8, "u8": np.uint8, "s32": np.int32}


def fragment(x: np.ndarray) -> list[np.ndarray]:
    """A matrix as the registers of each thread: a word of each eighth row, then 4 words further on
    (PTX ISA 9.7.14.5, figures)."""
    bits = x.view("u8" if x.dtype == np.float64 else "u4")
    group, place = np.arange(32) // 4, np.arange(32) % 4
    columns, rows = range(0, bits.shape[1], 4), range(0, len(bits), 8)
    return [bits[group + row, place + column] for column in columns for row in rows]


def accumulator(x: np.ndarray, name: str) -> list[np.ndarray]:
    """Sums as the registers of each thread: two neighbours of each eighth row."""
    group, place = np.arange(32) // 4, np.arange(32) % 4 * 2
    pairs = [(x[group + row, place], x[group + row, place + 1]) for row in range(0, len(x), 8)]
    if name == "f16":
        return [np.stack(pair, axis=1).view(np.uint32)[:, 0] for pair in pairs]
    return [part.view(f"u{part.itemsize}") for pair in pairs for part in pair]


def random_matrix(rng, rows: int, depth: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Random elements of a type, as they lie in memory and as numbers. Sums of products of the
    floats are exact: what is rounded, and how, is in test_tensor_cores.py."""
    if name not in INTEGERS:
        x = (rng.integers(-8, 9, (rows, depth)) / 4).astype(NUMPY[name])
        low = rng.integers(0, 1 << 13, x.shape, np.uint32)
        # Of tf32 the upper 19 bits count.
        stored = (x.view(np.uint32) | low).view(np.float32) if name == "tf32" else x
        return stored, x.astype(np.float64)
    raw, width = rng.integers(0, 256, (rows, depth * INTEGERS[name] // 8), np.uint8), INTEGERS[name]
    values = np.unpackbits(raw, axis=1, bitorder="little").reshape(rows, depth, width)
    weights = 1 << np.arange(width)
    weights[-1] *= -1 if name[0] == "s" else 1
    return raw, values.astype(np.int64) @ weights


@pytest.mark.parametrize(
    ("shapes", "types", "sums", "more"),
    [
        ("m16n8k8 m16n8k16", ("f16", "f16"), "f32", ""),
        ("m16n8k8 m16n8k16", ("f16", "f16"), "f16", ""),
        ("m16n8k8 m16n8k16", ("bf16", "bf16"), "f32", ""),
        ("m16n8k4 m16n8k8", ("tf32", "tf32"), "f32", ""),
        ("m8n8k4 m16n8k4 m16n8k8 m16n8k16", ("f64", "f64"), "f64", ""),
        ("m16n8k16 m16n8k32", ("e4m3", "e5m2"), "f32", ""),
        ("m8n8k16 m16n8k16 m16n8k32", ("s8", "u8"), "s32", ""),
        ("m8n8k16 m16n8k16", ("u8", "s8"), "s32", ".satfinite"),
        ("m8n8k32 m16n8k32 m16n8k64", ("s4", "u4"), "s32", ""),
        ("m16n8k64", ("u4", "s4"), "s32", ".satfinite"),
        ("m8n8k128 m16n8k128 m16n8k256", ("b1", "b1"), "s32", ".xor.popc"),
        ("m8n8k128 m16n8k256", ("b1", "b1"), "s32", ".and.popc"),
    ],
)
def test_shapes_of_mma(shapes, types, sums, more):
    for shape in shapes.split():
        rng = np.random.default_rng(6)
        rows, depth = int(shape[1:].partition("n")[0]), int(shape.partition("k")[2])
        a, x = random_matrix(rng, rows, depth, types[0])
        b, y = random_matrix(rng, 8, depth, types[1])
        whole = sums == "s32"
        c = (
            rng.integers(-(2**31), 2**31, (rows, 8))
            if whole
            else rng.integers(-32, 33, (rows, 8)) / 8
        )
        c[:2] = [[2**31 - 1], [-(2**31)]] if whole else 0.5
        want = (x @ y.T if "xor" not in more else (x[:, None] != y).sum(axis=2)) + c
        if whole:
            want = (want.clip(-(2**31), 2**31 - 1) if "sat" in more else want).astype(np.int32)
        given = [fragment(a), fragment(b), accumulator(c.astype(NUMPY[sums]), sums)]
        firsts = [0, len(given[0]), len(given[0]) + len(given[1])]
        operands = [registers(first, len(x)) for first, x in zip(firsts, given, strict=True)]
        out = accumulator(want.astype(NUMPY[sums]), sums)
        name = f"mma.sync.aligned.{shape}.row.col.{sums}.{types[0]}.{types[1]}.{sums}{more}"
        line = f"{name} {registers(0, len(out), 'o')}, {', '.join(operands)};"
        # by two warps
        inputs = [np.tile(x, 2) for part in given for x in part]
        got = execute(line, inputs, [8 * x.itemsize for x in out])
        assert all((x == np.tile(y, 2)).all() for x, y in zip(got, out, strict=True)), shape


# registers of A, B and the sums
WMMA = {
    ("m16n16k16", "f16", "f32"): (8, 8, 8),
    ("m32n8k16", "f16", "f16"): (8, 8, 4),
    ("m8n32k16", "f16", "f32"): (8, 8, 8),
    ("m16n16k16", "bf16", "f32"): (4, 4, 8),
    ("m32n8k16", "bf16", "f32"): (8, 2, 8),
    ("m8n32k16", "bf16", "f32"): (2, 8, 8),
    ("m16n16k16", "s8", "s32"): (2, 2, 8),
    ("m32n8k16", "u8", "s32"): (4, 1, 8),
    ("m8n32k16", "s8", "s32"): (1, 4, 8),
    ("m16n16k8", "tf32", "f32"): (4, 4, 8),
    ("m8n8k4", "f64", "f64"): (1, 1, 2),
}


@pytest.mark.parametrize("layouts", ["row row row", "col col col", "row col row", "col row col"])
@pytest.mark.parametrize("case", WMMA, ids=str)
def test_wmma(case, layouts):
    """A, B and the sums in rows or columns, with a stride of 8 elements more than they need."""
    (shape, kind, sums), counts = case, WMMA[case]
    m, n, k = (int(x) for x in shape.replace("n", " ").replace("k", " ")[1:].split())
    rng, by = np.random.default_rng(7), layouts.split()
    a, b, c = (rng.integers(-8, 9, size) for size in ((m, k), (k, n), (m, n)))
    if kind == "u8":
        a, b = np.abs(a), np.abs(b)
    saturates = sums == "s32" and by[0] == "row"
    c = c + (2**31 - 20 if saturates else 0)

    def lies(x, layout, name):
        x = x if layout == "row" else x.T
        room = np.zeros((len(x), x.shape[1] + 8), NUMPY[name])
        room[:, :-8] = x.astype(NUMPY[name])
        return room

    stored = [lies(x, y, z) for x, y, z in zip((a, b, c), by, (kind, kind, sums), strict=True)]
    word = "b64" if kind == "f64" else "b32"
    names = [registers(0, count, name) for count, name in zip(counts, "abc", strict=True)]
    declare = "".join(f".reg .{word} %{x}<{y}>;" for x, y in zip("abc", counts, strict=True))
    loads = "".join(
        f"wmma.load.{x}.sync.aligned.{y}.{shape}.global.{t} {r}, [%{x}{x}], {s.shape[1]};"
        for x, y, t, r, s in zip("abc", by, (kind, kind, sums), names, stored, strict=True)
    )
    types = f"{sums}.{sums}" if kind == "f16" else f"{sums}.{kind}.{kind}.{sums}"
    text = f""".version 8.0\n.target sm_90\n.address_size 64
        .visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) {{
        {declare} .reg .b64 %aa, %bb, %cc;
        ld.param.u64 %aa, [a]; ld.param.u64 %bb, [b]; ld.param.u64 %cc, [c]; {loads}
        wmma.mma.sync.aligned.{by[0]}.{by[1]}.{shape}.{types}{".satfinite" * saturates} {names[2]}, {", ".join(names)};
        wmma.store.d.sync.aligned.{by[2]}.{shape}.global.{sums} [%cc], {names[2]}, {stored[2].shape[1]}; ret; }}"""
    out = ptxsim.Array(stored[2].view(f"u{stored[2].itemsize}") if sums == "f16" else stored[2])
    views = [x.view(f"u{x.itemsize}") for x in stored[:2]]
    ptxsim.load(text).launch(1, 32, [*map(ptxsim.Array, views), out])
    want = np.minimum(a @ b + c, 2**31 - 1)
    got = out.numpy().view(NUMPY[sums])[:, :-8]
    assert ((got if by[2] == "row" else got.T) == want).all()


def test_movmatrix():
    given = np.arange(32, dtype=np.uint32)[:, None] * 0x00020002 + 0x00010000
    got = launch("movmatrix.sync.aligned.m8n8.trans.b16 %o0, %i0;", [given], 1)
    matrix = np.arange(64).reshape(8, 8).T
    want = [
        int(matrix[lane // 4, lane % 4 * 2]) | int(matrix[lane // 4, lane % 4 * 2 + 1]) << 16
        for lane in range(32)
    ]
    assert got[:, 0].tolist() == want


def test_a_part_of_a_warp_cannot_execute_mma():
    lines = (
        "setp.lt.u32 %p, %t, 7; @%p mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%o0, %o1, %o2, %o3}, "
        "{%i0, %i1}, {%i2}, {%i3, %i3, %i3, %i3};"
    )
    with fails("not all threads of the warp are here"):
        launch(lines, [np.zeros((32, 4), np.uint32)], 4)
