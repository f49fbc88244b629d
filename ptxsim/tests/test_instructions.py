"""Every instruction that works on one thread, against an oracle in Python's exact arithmetic, edge values included."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from running import TRIED, execute

from ptxsim.instructions import registry

WORDS = {
    16: [0, 1, 2, 7, 8, 15, 16, 17, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF, 0x1234, 0xABCD],
    32: [0, 1, 2, 3, 5, 7, 31, 32, 33, 64, 255, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFFFFFE, 0xDEADBEEF],
    64: [
        0, 1, 3, 31, 32, 63, 64, 65, 2**31, 2**32, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64 - 2,
        0xFEDCBA9876543210,
    ],
}  # fmt: skip
F32 = [
    0.0, -0.0, 1.0, -1.0, 1.5, -2.5, 0.5, -0.5, 3.0, 1e10, -1e10, 1e-10, 2.0**-126, -(2.0**-126), 2.0**-149,
    -(2.0**-149), 2.0**-140, 3.4028234663852886e38, -3.4028234663852886e38, math.inf, -math.inf, math.nan,
    1 + 2.0**-23, 1 - 2.0**-24, 2.0**31, -(2.0**31), 2.0**32, 2.0**63, 2.0**64,
    0.1, 1 / 3, 123.456, 2.5, 3.5, 16777217.0, 65504.0, 65520.0, 6e-8,
]  # fmt: skip


def signed(x, bits):
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def pattern(value, bits):
    return int(value) & ((1 << bits) - 1)


def grid(*columns):
    """All combinations, one column an input."""
    rows = list(itertools.product(*columns))
    return list(zip(*rows, strict=True))


def check(lines, columns, widths, oracle, out, declare=""):
    """Run `lines` on the columns; `oracle` takes and gives integers (bit patterns)."""
    inputs = [np.array(c, f"u{w // 8}") for c, w in zip(columns, widths, strict=True)]
    outs = out if isinstance(out, list) else [out]
    got = execute(lines, inputs, outs, declare)
    for row in range(len(inputs[0])):
        values = [int(x[row]) for x in inputs]
        want = oracle(*values)
        want = list(want) if isinstance(want, tuple) else [want]
        have = [int(g[row]) for g in got]
        assert have == [pattern(w, b) for w, b in zip(want, outs, strict=True)], (lines, [hex(v) for v in values], have)


def trunc_div(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


TWO = {
    "add": lambda a, b, n: a + b,
    "sub": lambda a, b, n: a - b,
    "mul.lo": lambda a, b, n: a * b,
    "mul.hi": lambda a, b, n: (a * b) >> n,
    "min": lambda a, b, n: min(a, b),
    "max": lambda a, b, n: max(a, b),
    "div": lambda a, b, n: trunc_div(a, b) if b else -1,
    "rem": lambda a, b, n: a - trunc_div(a, b) * b if b else a,
}


@pytest.mark.parametrize("kind", ["s", "u"])
@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("name", TWO)
def test_integer_arithmetic(name, bits, kind):
    values = WORDS[bits]
    columns = grid(values, [v for v in values if v] if name in ("div", "rem") else values)
    read = (lambda x: signed(x, bits)) if kind == "s" else (lambda x: x)
    check(
        f"{name}.{kind}{bits} %o0, %i0, %i1;",
        columns,
        [bits, bits],
        lambda a, b: TWO[name](read(a), read(b), bits),
        bits,
    )


@pytest.mark.parametrize("kind", ["s", "u"])
@pytest.mark.parametrize("bits", [16, 32])
def test_wide_products(bits, kind):
    read = (lambda x: signed(x, bits)) if kind == "s" else (lambda x: x)
    columns = grid(WORDS[bits], WORDS[bits])
    check(f"mul.wide.{kind}{bits} %o0, %i0, %i1;", columns, [bits] * 2, lambda a, b: read(a) * read(b), 2 * bits)
    columns = grid(WORDS[bits], WORDS[bits][::2], WORDS[2 * bits][::3])
    check(
        f"mad.wide.{kind}{bits} %o0, %i0, %i1, %i2;",
        columns,
        [bits, bits, 2 * bits],
        lambda a, b, c: read(a) * read(b) + c,
        2 * bits,
    )


@pytest.mark.parametrize("kind", ["s", "u"])
@pytest.mark.parametrize("bits", [32, 64])
def test_mad_and_sad(bits, kind):
    read = (lambda x: signed(x, bits)) if kind == "s" else (lambda x: x)
    columns = grid(WORDS[bits], WORDS[bits][::2], WORDS[bits][::3])
    t, w = f"{kind}{bits}", [bits] * 3
    check(f"mad.lo.{t} %o0, %i0, %i1, %i2;", columns, w, lambda a, b, c: a * b + c, bits)
    check(f"mad.hi.{t} %o0, %i0, %i1, %i2;", columns, w, lambda a, b, c: (read(a) * read(b) >> bits) + c, bits)
    check(f"sad.{t} %o0, %i0, %i1, %i2;", columns, w, lambda a, b, c: c + abs(read(a) - read(b)), bits)


def test_saturating_sums():
    columns = grid(WORDS[32], WORDS[32])
    clamp = lambda x: max(-(2**31), min(2**31 - 1, x))  # noqa: E731
    s = lambda x: signed(x, 32)  # noqa: E731
    check("add.sat.s32 %o0, %i0, %i1;", columns, [32] * 2, lambda a, b: clamp(s(a) + s(b)), 32)
    check("sub.sat.s32 %o0, %i0, %i1;", columns, [32] * 2, lambda a, b: clamp(s(a) - s(b)), 32)


@pytest.mark.parametrize("bits", [32, 64])
def test_bit_counting(bits):
    columns, w = [WORDS[bits]], [bits]
    check(f"popc.b{bits} %o0, %i0;", columns, w, lambda a: a.bit_count(), 32)
    check(f"clz.b{bits} %o0, %i0;", columns, w, lambda a: bits - a.bit_length(), 32)
    check(f"brev.b{bits} %o0, %i0;", columns, w, lambda a: int(f"{a:0{bits}b}"[::-1], 2), bits)
    top = lambda a: a.bit_length() - 1 if a else 0xFFFFFFFF  # noqa: E731
    check(f"bfind.u{bits} %o0, %i0;", columns, w, top, 32)
    check(f"bfind.shiftamt.u{bits} %o0, %i0;", columns, w, lambda a: bits - 1 - top(a) if a else 0xFFFFFFFF, 32)
    magnitude = lambda a: ~signed(a, bits) if signed(a, bits) < 0 else a  # noqa: E731
    check(f"bfind.s{bits} %o0, %i0;", columns, w, lambda a: top(magnitude(a)), 32)
    check(f"abs.s{bits} %o0, %i0;", columns, w, lambda a: abs(signed(a, bits)), bits)
    check(f"neg.s{bits} %o0, %i0;", columns, w, lambda a: -a, bits)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_logic_and_shifts(bits):
    columns, w = grid(WORDS[bits], WORDS[bits]), [bits, bits]
    check(f"and.b{bits} %o0, %i0, %i1;", columns, w, lambda a, b: a & b, bits)
    check(f"or.b{bits} %o0, %i0, %i1;", columns, w, lambda a, b: a | b, bits)
    check(f"xor.b{bits} %o0, %i0, %i1;", columns, w, lambda a, b: a ^ b, bits)
    columns, w = grid(WORDS[bits], [0, 1, 5, 15, 16, 31, 32, 33, 63, 64, 65, 255, 2**31, 2**32 - 1]), [bits, 32]
    check(f"shl.b{bits} %o0, %i0, %i1;", columns, w, lambda a, b: a << b if b < 64 else 0, bits)
    check(f"shr.u{bits} %o0, %i0, %i1;", columns, w, lambda a, b: a >> b if b < 64 else 0, bits)
    check(f"shr.s{bits} %o0, %i0, %i1;", columns, w, lambda a, b: signed(a, bits) >> min(b, 64), bits)
    check(f"shl.b{bits} %o0, %i0, {bits};", [WORDS[bits]], [bits], lambda a: 0, bits)
    check(f"shr.s{bits} %o0, %i0, {bits + 5};", [WORDS[bits]], [bits], lambda a: signed(a, bits) >> 64, bits)


def test_funnel_shifts():
    columns = grid(WORDS[32][::2], WORDS[32][1::2], [0, 1, 13, 31, 32, 33, 64, 2**32 - 1])
    pair = lambda a, b: b << 32 | a  # noqa: E731
    w = [32] * 3
    check("shf.l.wrap.b32 %o0, %i0, %i1, %i2;", columns, w, lambda a, b, n: pair(a, b) << (n & 31) >> 32, 32)
    check("shf.r.wrap.b32 %o0, %i0, %i1, %i2;", columns, w, lambda a, b, n: pair(a, b) >> (n & 31), 32)
    check("shf.l.clamp.b32 %o0, %i0, %i1, %i2;", columns, w, lambda a, b, n: pair(a, b) << min(n, 32) >> 32, 32)
    check("shf.r.clamp.b32 %o0, %i0, %i1, %i2;", columns, w, lambda a, b, n: pair(a, b) >> min(n, 32), 32)


@pytest.mark.parametrize("table", [0x00, 0x80, 0x96, 0xCA, 0xFE, 0xFF, 0x1B])
def test_lop3(table):
    def oracle(a, b, c):
        return sum((table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i for i in range(32))

    columns = grid(WORDS[32][::2], WORDS[32][1::2], WORDS[32][::3])
    check(f"lop3.b32 %o0, %i0, %i1, %i2, {table};", columns, [32] * 3, oracle, 32)


def test_prmt():
    def oracle(a, b, c):
        octets = (b << 32 | a).to_bytes(8, "little")
        out = []
        for i in range(4):
            s = c >> 4 * i & 15
            byte = octets[s & 7]
            out.append((0xFF if byte & 0x80 else 0) if s & 8 else byte)
        return int.from_bytes(bytes(out), "little")

    columns = grid([0xDEADBEEF, 0x00FF7F80], [0x01234567, 0x89ABCDEF], [0x3210, 0x7654, 0x0426, 0x8888, 0xFEDC, 0x5140])
    check("prmt.b32 %o0, %i0, %i1, %i2;", columns, [32] * 3, oracle, 32)
    check("prmt.b32.rc8 %o0, %i0, %i1, %i2;", grid([0xDEADBEEF], [5], [0, 1, 2, 3, 5]), [32] * 3,
          lambda a, b, c: (a >> 8 * (c & 3) & 255) * 0x01010101, 32)  # fmt: skip


@pytest.mark.parametrize("bits", [32, 64])
def test_bit_fields(bits):
    places = [0, 1, 5, 16, 31, 32, 33, 40, 63, 64, 200, 256]
    columns, w = grid(WORDS[bits][::2], places, [0, 1, 8, 31, 32, 64, 255]), [bits, 32, 32]

    def extract(a, position, length):
        position, length = position & 255, length & 255
        return (a >> position) & ((1 << length) - 1) if position < bits else 0

    def extract_signed(a, position, length):
        position, length = position & 255, length & 255
        if length == 0:
            return 0
        sign = a >> min(position + length - 1, bits - 1) & 1
        field = [(a >> (position + i) & 1) if i < length and position + i < bits else sign for i in range(bits)]
        return sum(bit << i for i, bit in enumerate(field))

    check(f"bfe.u{bits} %o0, %i0, %i1, %i2;", columns, w, extract, bits)
    check(f"bfe.s{bits} %o0, %i0, %i1, %i2;", columns, w, extract_signed, bits)

    def insert(a, b, position, length):
        position, length = position & 255, length & 255
        for i in range(length):
            if position + i < bits and i < bits:
                b = b & ~(1 << (position + i)) | (a >> i & 1) << (position + i)
        return b

    columns = grid(WORDS[bits][::3], WORDS[bits][1::4], places[::2], [0, 1, 8, 31, 32, 64, 255])
    check(f"bfi.b{bits} %o0, %i0, %i1, %i2, %i3;", columns, [bits, bits, 32, 32], insert, bits)


def test_masks_and_nth_bits():
    columns = grid([0, 1, 8, 31, 32, 40], [0, 1, 8, 31, 32, 40])
    check("bmsk.clamp.b32 %o0, %i0, %i1;", columns, [32] * 2, lambda a, b: ((1 << min(b, 32)) - 1) << min(a, 32), 32)
    check("fns.b32 %o0, %i0, %i1, %i2;", grid([0b1011010, 0xFFFFFFFF, 0], [0, 3, 31], [0, 1, 2]), [32] * 3,
          lambda m, b, n: fns(m, b, n), 32)  # fmt: skip


def fns(mask, base, n):
    if n == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    found = [p for p in range(base, 32) if mask >> p & 1]
    return found[n - 1] if n <= len(found) else 0xFFFFFFFF


# comparison, selection


INT_TESTS = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def test_setp_unsigned_names_combination_and_two_destinations():
    columns = grid(WORDS[32][::2], WORDS[32])
    check("setp.lo.u32 %p, %i0, %i1; selp.b32 %o0, 7, 9, %p;", columns, [32] * 2, lambda a, b: 7 if a < b else 9, 32)
    check("setp.hs.u32 %p, %i0, %i1; selp.b32 %o0, 7, 9, %p;", columns, [32] * 2, lambda a, b: 7 if a >= b else 9, 32)
    lines = (
        "setp.ne.b32 %q, %i0, 0; setp.lt.and.s32 %p|%q, %i0, %i1, %q;selp.b32 %o0, 1, 0, %p; selp.b32 %o1, 1, 0, %q;"
    )
    s = lambda x: signed(x, 32)  # noqa: E731
    check(lines, columns, [32] * 2, lambda a, b: (s(a) < s(b) and a != 0, s(a) >= s(b) and a != 0), [32, 32])
    lines = "setp.ne.b32 %q, %i0, 0; setp.eq.xor.u32 %p, %i0, %i1, !%q; selp.b32 %o0, 1, 0, %p;"
    check(lines, columns, [32] * 2, lambda a, b: (a == b) != (a == 0), 32)
    check("set.gt.u32.s32 %o0, %i0, %i1;", columns, [32] * 2, lambda a, b: -1 if s(a) > s(b) else 0, 32)
    check("set.le.f32.u32 %o0, %i0, %i1;", columns, [32] * 2, lambda a, b: 0x3F800000 if a <= b else 0, 32)
    check("slct.u32.s32 %o0, %i0, 5, %i1;", columns, [32] * 2, lambda a, b: a if s(b) >= 0 else 5, 32)
    lines = "setp.gt.s32 %p, %i0, %i1; @%p mov.u32 %o0, 1; @!%p mov.u32 %o0, 2;"
    check(lines, columns, [32] * 2, lambda a, b: 1 if s(a) > s(b) else 2, 32)


def f32(bits):
    return float(np.uint32(bits).view(np.float32))


def bits32(value):
    return 0x7FFFFFFF if math.isnan(value) else int(np.float32(value).view(np.uint32))


F32_BITS = [int(np.float32(v).view(np.uint32)) for v in F32]
FLOAT_TESTS = {
    **{name: (test, False) for name, test in INT_TESTS.items()},
    **{name + "u": (test, True) for name, test in INT_TESTS.items()},
    "num": (lambda a, b: True, False),
    "nan": (lambda a, b: False, True),
}


@pytest.mark.parametrize("name", FLOAT_TESTS)
def test_setp_floats(name):
    test, if_nan = FLOAT_TESTS[name]

    def oracle(a, b):
        x, y = f32(a), f32(b)
        return if_nan if math.isnan(x) or math.isnan(y) else test(x, y)

    lines = f"setp.{name}.f32 %p, %i0, %i1; selp.b32 %o0, 1, 0, %p;"
    check(lines, grid(F32_BITS, F32_BITS), [32] * 2, oracle, 32)


# floats


def round_f32(value: Fraction, mode: str) -> float:
    """A rational to float32, exactly; not zero."""
    return round_to(value, 24, -126, 127, mode)


def round_to(value: Fraction, precision: int, least: int, most: int, mode: str) -> float:
    sign, size = (-1 if value < 0 else 1), abs(value)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length() - 1, least)
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - precision + 1)
    whole, rest = divmod(size, unit)
    up = {
        "rn": rest * 2 > unit or (rest * 2 == unit and whole % 2),
        "rna": rest * 2 >= unit,
        "rz": False,
        "rm": sign < 0 and rest > 0,
        "rp": sign > 0 and rest > 0,
    }[mode]
    result = (whole + bool(up)) * unit
    largest = (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** most
    if result > largest:
        stops = mode == "rz" or (mode == "rm" and sign > 0) or (mode == "rp" and sign < 0)
        return sign * (float(largest) if stops else math.inf)
    return sign * float(result)


EXACT = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
}


def exact_f32(name, mode, *values):
    """The result of an operation in IEEE arithmetic, NaN and infinities through NumPy."""
    with np.errstate(all="ignore"):
        x = [np.float64(v) for v in values]
        plain = {
            "add": lambda: x[0] + x[1],
            "sub": lambda: x[0] - x[1],
            "mul": lambda: x[0] * x[1],
            "div": lambda: x[0] / x[1],
            "fma": lambda: x[0] * x[1] + x[2],
        }[name]()
    if not all(map(math.isfinite, values)) or (name == "div" and values[1] == 0):
        return float(plain)
    f = [Fraction(v) for v in values]
    exact = f[0] * f[1] + f[2] if name == "fma" else EXACT[name](*f)
    if exact != 0:
        return round_f32(exact, mode)
    if mode == "rm" and name in ("add", "sub", "fma"):
        sign = np.copysign(1, x[0]) * np.copysign(1, x[1])
        first, second = {"add": (x[0], x[-1]), "sub": (x[0], -x[-1]), "fma": (sign, x[-1])}[name]
        return 0.0 if math.copysign(1, first) > 0 and math.copysign(1, second) > 0 else -0.0
    return float(plain * 0.0)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_f32_arithmetic(name, mode):
    oracle = lambda a, b: bits32(exact_f32(name, mode, f32(a), f32(b)))  # noqa: E731
    check(f"{name}.{mode}.f32 %o0, %i0, %i1;", grid(F32_BITS, F32_BITS), [32] * 2, oracle, 32)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_f32_fma_is_rounded_once(mode):
    rng = np.random.default_rng(5)
    special = grid(F32_BITS[::2], F32_BITS[1::3], F32_BITS[::3])
    near = []  # products that fall close to half-way between two floats, and tiny ones
    for _ in range(400):
        a, b = (1 + rng.integers(0, 2**23) * 2.0**-23 for _ in range(2))
        c = float(np.float32(2.0 ** int(rng.integers(-30, 30)) * (1 + rng.integers(0, 2**23) * 2.0**-23)))
        scale = float(2.0 ** rng.choice([0, -60, -130, -149, 60]))
        near.append((a, b * scale if scale > 2.0**-126 else b, math.copysign(c * scale, rng.uniform(-1, 1))))
    near.append((1 + 2.0**-12, 1 + 2.0**-12, 2.0**-60))
    near.append((1 + 2.0**-12, 1 + 2.0**-12, -(2.0**-60)))
    near.append((2.0**-75, 2.0**-75, 2.0**-149))
    near.append((2.0**-75, 2.0**-75 * (1 + 2.0**-20), 0.0))
    near.append((2.0**-75, -(2.0**-75), 0.0))
    more = [[bits32(v) for v in column] for column in zip(*near, strict=True)]
    columns = [list(s) + m for s, m in zip(special, more, strict=True)]
    oracle = lambda a, b, c: bits32(exact_f32("fma", mode, f32(a), f32(b), f32(c)))  # noqa: E731
    check(f"fma.{mode}.f32 %o0, %i0, %i1, %i2;", columns, [32] * 3, oracle, 32)


def test_f32_one_operand():
    columns, w = [F32_BITS], [32]
    flip = lambda a: a ^ 0x80000000  # noqa: E731
    keep = lambda a, r: 0x7FFFFFFF if math.isnan(f32(a)) else r  # noqa: E731
    check("neg.f32 %o0, %i0;", columns, w, lambda a: keep(a, flip(a)), 32)
    check("abs.f32 %o0, %i0;", columns, w, lambda a: keep(a, a & 0x7FFFFFFF), 32)
    with np.errstate(all="ignore"):
        for mode in ("rn", "rz", "rm", "rp"):
            oracle = lambda a: bits32(exact_f32("div", mode, 1.0, f32(a)))  # noqa: B023, E731
            check(f"rcp.{mode}.f32 %o0, %i0;", columns, w, oracle, 32)

            def root(a):
                x = f32(a)
                if not math.isfinite(x) or x <= 0:
                    return bits32(float(np.sqrt(np.float64(x))))
                scaled = Fraction(x) * Fraction(4) ** 200
                whole = math.isqrt(scaled.numerator // scaled.denominator)
                exact = Fraction(whole) + (Fraction(1, 3) if whole**2 != scaled else 0)
                return bits32(round_f32(exact / Fraction(2) ** 200, mode))  # noqa: B023

            check(f"sqrt.{mode}.f32 %o0, %i0;", columns, w, root, 32)


def test_flush_and_saturate():
    def flushed(x):
        return math.copysign(0, x) if abs(x) < 2.0**-126 else x

    columns = grid(F32_BITS, F32_BITS[::2])
    oracle = lambda a, b: bits32(flushed(exact_f32("mul", "rn", flushed(f32(a)), flushed(f32(b)))))  # noqa: E731
    check("mul.ftz.f32 %o0, %i0, %i1;", columns, [32] * 2, oracle, 32)
    oracle = lambda a, b: bits32(flushed(exact_f32("add", "rn", flushed(f32(a)), flushed(f32(b)))))  # noqa: E731
    check("add.ftz.f32 %o0, %i0, %i1;", columns, [32] * 2, oracle, 32)

    def saturated(a, b):
        x = exact_f32("add", "rn", f32(a), f32(b))
        return bits32(0.0 if math.isnan(x) or x <= 0 else min(x, 1.0))

    check("add.sat.f32 %o0, %i0, %i1;", columns, [32] * 2, saturated, 32)


def test_moves_keep_the_bits_of_nan():
    columns = [[0x7FC12345, 0xFFFFFFFF, 0x7F800001, 0x3F800000]]
    check("mov.f32 %f, %i0; mov.b32 %o0, %f;", columns, [32], lambda a: a, 32, ".reg .f32 %f;")
    canonical = lambda a: 0x7FFFFFFF if a != 0x3F800000 else a  # noqa: E731
    check("add.f32 %f, %i0, 0f00000000; mov.b32 %o0, %f;", columns, [32], canonical, 32, ".reg .f32 %f;")


@pytest.mark.parametrize("name", ["ex2", "lg2", "sin", "cos", "tanh", "rsqrt", "rcp", "sqrt"])
def test_f32_approximations(name):
    x = np.array([0.5, 1.0, 2.0, 3.7, 10.0, 0.001, 100.0], np.float32)
    (got,) = execute(f"{name}.approx.f32 %o0, %i0;", [x.view(np.uint32)], [32])
    wide = x.astype(np.float64)
    want = {
        "ex2": np.exp2,
        "lg2": np.log2,
        "sin": np.sin,
        "cos": np.cos,
        "tanh": np.tanh,
        "rsqrt": lambda v: 1 / np.sqrt(v),
        "rcp": lambda v: 1 / v,
        "sqrt": np.sqrt,
    }[name](wide)
    assert np.allclose(got.view(np.float32), want, rtol=1e-7)


F64 = [
    0.0, -0.0, 1.0, -1.5, math.pi, 1e300, -1e300, 5e-324, 2.0**-1022, math.inf, -math.inf, 0.1, 1 + 2.0**-52, 1e16,
    -7.25,
]  # fmt: skip


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "fma"])
def test_f64_arithmetic(name, mode):
    b64 = lambda v: int(np.float64(v).view(np.uint64))  # noqa: E731
    d = lambda b: float(np.uint64(b).view(np.float64))  # noqa: E731
    count = 3 if name == "fma" else 2
    columns = grid(*[[b64(v) for v in F64]] * count)

    def oracle(*raw):
        values = [d(v) for v in raw]
        if not all(map(math.isfinite, values)) or (name == "div" and values[1] == 0):
            with np.errstate(all="ignore"):
                if name == "fma" and all(map(math.isfinite, values[:2])):
                    return b64(values[2])
                return b64(exact_f32(name, "rn", *values))
        f = [Fraction(v) for v in values]
        exact = f[0] * f[1] + f[2] if name == "fma" else EXACT[name](*f)
        if exact == 0:
            return b64(exact_f32(name, mode, *values))
        return b64(round_to(exact, 53, -1022, 1023, mode))

    operands = ", ".join(f"%i{i}" for i in range(count))
    inputs = [np.array(c, np.uint64) for c in columns]
    (got,) = execute(f"{name}.{mode}.f64 %o0, {operands};", inputs, [64])
    for row in range(len(got)):
        raw = [int(x[row]) for x in inputs]
        want = oracle(*raw)
        if math.isnan(d(want)):
            assert math.isnan(d(int(got[row])))
        else:
            assert int(got[row]) == want, (name, mode, [d(v) for v in raw])


# conversions


INT_MODES = {"rni": lambda x: round(x), "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


@pytest.mark.parametrize("mode", INT_MODES)
@pytest.mark.parametrize("to", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
def test_float_to_integer(to, mode):
    bits, sign = int(to[1:]), to[0] == "s"
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if sign else (0, (1 << bits) - 1)
    wide = max(bits, 32)

    def oracle(a):
        x = f32(a)
        if math.isnan(x):
            return (1 << (bits - 1)) if bits == 64 else 0
        whole = (low if x < 0 else high) if math.isinf(x) else INT_MODES[mode](Fraction(x))
        return max(low, min(high, whole))

    check(f"cvt.{mode}.{to}.f32 %o0, %i0;", [F32_BITS], [32], oracle, wide)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("source", ["s16", "u16", "s32", "u32", "s64", "u64"])
def test_integer_to_float(source, mode):
    bits = int(source[1:])
    values = WORDS[bits] + ([16777217, 16777219, 33554434, 0x7FFFFF7F, 0x7FFFFFC0] if bits >= 32 else [])
    if bits == 64:
        values = [*values, 2**53 + 1, 2**60 + 2**36, 2**60 + 2**36 + 1, 2**62 + 1, 2**63 + 2**39, 2**63 + 2**39 + 1]

    def oracle(a):
        x = signed(a, bits) if source[0] == "s" else a
        return bits32(round_f32(Fraction(x), mode)) if x else 0

    check(f"cvt.{mode}.f32.{source} %o0, %i0;", [values], [bits], oracle, 32)

    def to_double(a):
        x = signed(a, bits) if source[0] == "s" else a
        return int(np.float64(round_to(Fraction(x), 53, -1022, 1023, mode)).view(np.uint64)) if x else 0

    check(f"cvt.{mode}.f64.{source} %o0, %i0;", [values], [bits], to_double, 64)


def test_integer_to_integer():
    for source, to in itertools.product(
        ("s16", "u16", "s32", "u32", "s64", "u64"), ("s8", "u8", "s16", "u32", "s64", "u64")
    ):
        bits, out = int(source[1:]), int(to[1:])
        read = (lambda x, b=bits: signed(x, b)) if source[0] == "s" else (lambda x: x)
        write = (lambda x, b=out: signed(x, b)) if to[0] == "s" else (lambda x, b=out: x & ((1 << b) - 1))
        wide = max(out, 32)
        check(f"cvt.{to}.{source} %o0, %i0;", [WORDS[bits]], [bits], lambda a: write(read(a)), wide)  # noqa: B023
        low, high = (-(1 << (out - 1)), (1 << (out - 1)) - 1) if to[0] == "s" else (0, (1 << out) - 1)
        oracle = lambda a: max(low, min(high, read(a)))  # noqa: B023, E731
        check(f"cvt.sat.{to}.{source} %o0, %i0;", [WORDS[bits]], [bits], oracle, wide)


FORMATS = {"f16": (11, -14, 15), "bf16": (8, -126, 127)}
NARROW = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


def narrow(value: float, name: str, mode: str = "rn") -> int:
    if math.isnan(value):
        return 0x7FFF
    if math.isinf(value) or value == 0:
        return int(np.array(value).astype(NARROW[name]).view(np.uint16))
    rounded = round_to(Fraction(value), *FORMATS[name], mode)
    result = int(np.array(abs(rounded)).astype(NARROW[name]).view(np.uint16))
    return result | (0x8000 if value < 0 else 0)


TIES = [
    1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 2.0**-24, 2.0**-25, 1.5 * 2.0**-24, 65519.0,
    1 + 2.0**-12,
]  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_narrow_conversions(name):
    values = F32_BITS + [bits32(v) for v in TIES] + [bits32(-v) for v in TIES]
    for mode in ("rn", "rz"):
        check(f"cvt.{mode}.{name}.f32 %o0, %i0;", [values], [32], lambda a: narrow(f32(a), name, mode), 16)  # noqa: B023
    relu = lambda a: narrow(f32(a), name) if math.isnan(f32(a)) or f32(a) > 0 else 0  # noqa: E731
    check(f"cvt.rn.relu.{name}.f32 %o0, %i0;", [values], [32], lambda a: relu(a), 16)
    pair = lambda a, b: narrow(f32(a), name) << 16 | narrow(f32(b), name)  # noqa: E731
    check(f"cvt.rn.{name}x2.f32 %o0, %i0, %i1;", grid(values, values[::4]), [32] * 2, pair, 32)
    every = np.arange(65536, dtype=np.uint16)
    (got,) = execute(f"cvt.f32.{name} %o0, %i0;", [every], [32])
    want = every.view(NARROW[name]).astype(np.float32)
    assert np.array_equal(got.view(np.float32), want, equal_nan=True)


def test_tf32_conversion():
    def oracle(a):
        x = f32(a)
        if not math.isfinite(x) or x == 0:
            return bits32(x)
        return bits32(round_to(Fraction(x), 11, -126, 127, "rna"))

    values = F32_BITS + [bits32(v) for v in TIES]
    check("cvt.rna.tf32.f32 %o0, %i0;", [values], [32], oracle, 32)


def test_float_to_float():
    b64 = lambda v: int(np.float64(v).view(np.uint64))  # noqa: E731
    values = [
        1 + 2.0**-24,
        1 + 3 * 2.0**-24,
        1 + 2.0**-24 + 2.0**-50,
        1e39,
        -1e39,
        2.0**-150,
        1.5 * 2.0**-150,
        0.1,
        -0.0,
        math.inf,
    ]
    for mode in ("rn", "rz", "rm", "rp"):

        def oracle(a):
            x = float(np.uint64(a).view(np.float64))
            return bits32(x if x == 0 or math.isinf(x) else round_f32(Fraction(x), mode))  # noqa: B023

        check(f"cvt.{mode}.f32.f64 %o0, %i0;", [[b64(v) for v in values]], [64], oracle, 32)
    check(
        "cvt.f64.f32 %o0, %i0;",
        [[b for b in F32_BITS if b & 0x7FFFFFFF <= 0x7F800000]],
        [32],
        lambda a: b64(f32(a)),
        64,
    )

    def whole(a):
        x = f32(a)
        return bits32(x if not math.isfinite(x) else math.copysign(float(round(Fraction(x))), x))

    check("cvt.rni.f32.f32 %o0, %i0;", [F32_BITS], [32], whole, 32)
    sat = lambda a: bits32(0.0 if math.isnan(f32(a)) or f32(a) <= 0 else min(1.0, f32(a)))  # noqa: E731
    check("cvt.sat.f32.f32 %o0, %i0;", [F32_BITS], [32], sat, 32)


@pytest.mark.parametrize("name", FORMATS)
def test_half_arithmetic(name):
    values = [narrow(v, name) for v in (*F32[:12], 6e-8, 65504.0, 0.333, math.inf, math.nan, 1024.5, 3.25)]
    value = lambda b: float(np.array(b, np.uint16).view(NARROW[name]).astype(np.float64))  # noqa: E731

    def rounded(operation, *raw):
        x = [value(b) for b in raw]
        if all(map(math.isfinite, x)):
            f = [Fraction(v) for v in x]
            exact = f[0] * f[1] + f[2] if operation == "fma" else EXACT[operation](*f)
            if exact != 0:
                return narrow(round_to(exact, *FORMATS[name], "rn"), name)
        return narrow(exact_f32(operation, "rn", *x), name)

    for operation in ("add", "sub", "mul"):
        oracle = lambda a, b: rounded(operation, a, b)  # noqa: B023, E731
        check(f"{operation}.{name} %o0, %i0, %i1;", grid(values, values), [16] * 2, oracle, 16)
    oracle = lambda a, b, c: rounded("fma", a, b, c)  # noqa: E731
    check(f"fma.rn.{name} %o0, %i0, %i1, %i2;", grid(values, values[::2], values[::3]), [16] * 3, oracle, 16)
    both = lambda a, b: rounded("mul", a & 0xFFFF, b & 0xFFFF) | rounded("mul", a >> 16, b >> 16) << 16  # noqa: E731
    pairs = [a | b << 16 for a, b in itertools.product(values[::3], values[::4])]
    check(f"mul.{name}x2 %o0, %i0, %i1;", grid(pairs, pairs), [32] * 2, both, 32)


# moves and packing


def test_packing():
    columns = grid(WORDS[32], WORDS[32])
    check("mov.b64 %o0, {%i0, %i1};", columns, [32] * 2, lambda a, b: b << 32 | a, 64)
    check("mov.b64 {%o0, %o1}, %i0;", [WORDS[64]], [64], lambda a: (a, a >> 32), [32, 32])
    check("mov.b32 {%o0, %o1}, %i0;", [WORDS[32]], [32], lambda a: (a, a >> 16), [16, 16])
    check("mov.b32 {_, %o0}, %i0;", [WORDS[32]], [32], lambda a: a >> 16, 16)
    check("mov.b64 %o0, {%i0, %i1, %i1, %i0};", grid(WORDS[16], WORDS[16]), [16] * 2,
          lambda a, b: a | b << 16 | b << 32 | a << 48, 64)  # fmt: skip
    check("mov.b32 %o0, 0f3F800000; mov.b32 %o1, -1;", [[0]], [32], lambda a: (0x3F800000, -1), [32, 32])
    check("vabsdiff4.u32.u32.u32 %o0, %i0, %i1, %i0;", columns, [32] * 2,
          lambda a, b: sum(abs((a >> s & 255) - (b >> s & 255)) << s for s in (0, 8, 16, 24)), 32)  # fmt: skip


def test_special_registers():
    got = execute(
        "mov.u32 %o0, %laneid; mov.u32 %o1, %ntid.x; mov.u32 %o2, %lanemask_lt;", [np.zeros(64, np.uint32)], [32] * 3
    )
    lane = np.arange(64) % 32
    assert (got[0] == lane).all() and (got[1] == 32).all() and (got[2] == (1 << lane) - 1).all()


# the same by other types


def f64(bits_):
    return float(np.array(bits_, np.uint64).view(np.float64))


def b64(value):
    return int(np.array(value, np.float64).view(np.uint64))


def number(bits_, name):
    """A bit pattern as a Python float (of a packed pair: its lower half)."""
    if name in NARROW:
        return float(np.array(bits_ & 0xFFFF, np.uint16).view(NARROW[name]).astype(np.float64))
    return f32(bits_) if name == "f32" else f64(bits_)


FLOAT_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
FEW = [0.0, -0.0, 1.0, -1.0, 0.5, -2.75, 1024.0, 6e-5, -6e-5, math.inf, -math.inf, math.nan]


def encoded(value, name):
    if name in NARROW:
        return narrow(value, name)
    return bits32(value) if name == "f32" else b64(value)


def alike(lines, columns, widths, oracle, name, tolerance=0.0):
    """Run `lines` and compare as numbers: NaN with NaN, zeros with their sign; `oracle` takes and gives floats."""
    inputs = [np.array(c, f"u{w // 8}") for c, w in zip(columns, widths, strict=True)]
    (got,) = execute(lines, inputs, [FLOAT_BITS[name]])
    for row in range(len(inputs[0])):
        values = [number(int(x[row]), name) for x in inputs]
        want, have = oracle(*values), number(int(got[row]), name)
        if math.isnan(want):
            assert math.isnan(have), (lines, values, have)
        else:
            assert abs(have - want) <= tolerance * abs(want) if tolerance and math.isfinite(want) else have == want, (
                lines,
                values,
                have,
                want,
            )
            assert want != 0 or math.copysign(1, have) == math.copysign(1, want), (lines, values, have)


def least(x, y):
    if math.isnan(x) or math.isnan(y):
        return y if math.isnan(x) else x
    return min(x, y, key=lambda v: (v, math.copysign(1, v)))


def most(x, y):
    if math.isnan(x) or math.isnan(y):
        return y if math.isnan(x) else x
    return max(x, y, key=lambda v: (v, math.copysign(1, v)))


def nan_or(choose):
    return lambda x, y: math.nan if math.isnan(x) or math.isnan(y) else choose(x, y)


@pytest.mark.parametrize("name", FLOAT_BITS)
def test_signs_and_extremes_of_floats(name):
    bits = FLOAT_BITS[name]
    values = [encoded(v, name) for v in FEW]
    both = grid(values, values)
    alike(f"abs.{name} %o0, %i0;", [values], [bits], abs, name)
    alike(f"neg.{name} %o0, %i0;", [values], [bits], lambda x: -x, name)
    alike(f"min.{name} %o0, %i0, %i1;", both, [bits] * 2, least, name)
    alike(f"max.{name} %o0, %i0, %i1;", both, [bits] * 2, most, name)
    if name != "f64":
        alike(f"min.NaN.{name} %o0, %i0, %i1;", both, [bits] * 2, nan_or(least), name)
        alike(f"max.NaN.{name} %o0, %i0, %i1;", both, [bits] * 2, nan_or(most), name)
    if bits > 16:
        sign = lambda x, y: math.nan if math.isnan(y) else math.copysign(y, x)  # noqa: E731
        finite = grid([v for v in values if not math.isnan(number(v, name))], values)
        alike(f"copysign.{name} %o0, %i0, %i1;", finite, [bits] * 2, sign, name)


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_classes_of_floats(name):
    tiny = 2.0**-140 if name == "f32" else 2.0**-1060
    least_normal = 2.0**-126 if name == "f32" else 2.0**-1022
    values = [encoded(v, name) for v in [*FEW, tiny, -tiny]]
    classes = {
        "finite": math.isfinite,
        "infinite": math.isinf,
        "number": lambda x: not math.isnan(x),
        "notanumber": math.isnan,
        "normal": lambda x: math.isfinite(x) and abs(x) >= least_normal,
        "subnormal": lambda x: 0 < abs(x) < least_normal,
    }
    for test, oracle in classes.items():
        lines = f"testp.{test}.{name} %p, %i0; selp.b32 %o0, 1, 0, %p;"
        check(lines, [values], [FLOAT_BITS[name]], lambda a, o=oracle: int(o(number(a, name))), 32)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_pairs_of_halves(name):
    """Each half as the scalar instruction does it."""
    values = [encoded(v, name) for v in (*FEW, 3.25, -100.0)]
    pairs = [a | b << 16 for a, b in itertools.product(values[::2], values[::3])]
    columns = grid(pairs[::2], pairs[::3])
    one = [np.array([p & 0xFFFF for p in c], np.uint16) for c in columns]
    two = [np.array([p >> 16 for p in c], np.uint16) for c in columns]
    whole = [np.array(c, np.uint32) for c in columns]
    for opcode, count in {
        "add": 2, "sub": 2, "mul": 2, "fma.rn": 3, "min": 2, "max": 2, "neg": 1, "abs": 1, "ex2.approx": 1,
        "tanh.approx": 1,
    }.items():  # fmt: skip
        if opcode == "ex2.approx" and name == "bf16":
            opcode = "ex2.approx.ftz"
        operands = ", ".join(["%i0", "%i1", "%i0"][:count])
        (low,) = execute(f"{opcode}.{name} %o0, {operands};", one[: min(count, 2)], [16])
        (high,) = execute(f"{opcode}.{name} %o0, {operands};", two[: min(count, 2)], [16])
        (got,) = execute(f"{opcode}.{name}x2 %o0, {operands};", whole[: min(count, 2)], [32])
        assert (got == low.astype(np.uint32) | high.astype(np.uint32) << 16).all(), opcode


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_functions_of_halves(name):
    values = [encoded(v, name) for v in (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -2.75, math.inf, -math.inf, math.nan)]

    def two_to(x):
        return math.inf if x == math.inf else 2.0**x

    tolerance = 2.0**-9 if name == "f16" else 2.0**-6
    ftz = ".ftz" if name == "bf16" else ""
    alike(f"ex2.approx{ftz}.{name} %o0, %i0;", [values], [16], two_to, name, tolerance)
    alike(f"tanh.approx.{name} %o0, %i0;", [values], [16], math.tanh, name, tolerance)


def test_functions_of_doubles():
    values = [b64(v) for v in (0.25, 2.0, 3.0, 1e10, 1e-10, 4.0)]
    alike("sqrt.rn.f64 %o0, %i0;", [values], [64], math.sqrt, "f64")
    alike("rcp.rn.f64 %o0, %i0;", [values], [64], lambda x: 1 / x, "f64")
    alike("rsqrt.approx.ftz.f64 %o0, %i0;", [values], [64], lambda x: 1 / math.sqrt(x), "f64", 2.0**-20)
    three = grid(values, values, values)
    alike(
        "mad.rn.f64 %o0, %i0, %i1, %i2;",
        three,
        [64] * 3,
        lambda a, b, c: float(Fraction(a) * Fraction(b) + Fraction(c)),
        "f64",
    )
    few = [bits32(v) for v in (0.1, -3.0, 1e10, 1e-20, 1 / 3)]
    columns = grid(few, few, few)
    (fused,) = execute("fma.rn.f32 %o0, %i0, %i1, %i2;", [np.array(c, np.uint32) for c in columns], [32])
    (mad,) = execute("mad.rn.f32 %o0, %i0, %i1, %i2;", [np.array(c, np.uint32) for c in columns], [32])
    assert (fused == mad).all()


# carries


@pytest.mark.parametrize("name", ["u32", "s32", "u64", "s64"])
def test_carries_through_two_words(name):
    bits = int(name[1:])
    values = [0, 1, 2, 2 ** (bits - 1), 2**bits - 1, 2**bits - 2]
    columns = grid(values, values, values[::2], values[::2])  # low a, low b, high a, high b
    mask = 2**bits - 1

    def check_words(lines, operation, words):
        def oracle(a, b, c, d):
            total = operation(c << bits | a, d << bits | b)
            return tuple(total >> n * bits & mask for n in range(words))

        check(lines, columns, [bits] * 4, oracle, [bits] * words)

    for name_, operation in {"add": lambda x, y: x + y, "sub": lambda x, y: x - y}.items():
        first = f"{name_}.cc.{name} %o0, %i0, %i1; {name_}c"
        check_words(f"{first}.{name} %o1, %i2, %i3;", operation, 2)
        check_words(f"{first}.cc.{name} %o1, %i2, %i3; {name_}c.{name} %o2, 0, 0;", operation, 3)
    lines = f"mad.lo.cc.{name} %o0, %i0, %i1, %i2; madc.hi.{name} %o1, %i0, %i1, %i3;"

    def product(a, b, c, d):
        x, y = (signed(a, bits), signed(b, bits)) if name[0] == "s" else (a, b)
        return (x * y & mask) + c, (x * y >> bits) + d + ((x * y & mask) + c >> bits)

    check(lines, columns, [bits] * 4, product, [bits] * 2)


# choices and comparisons


SETP = {"s16": 16, "u16": 16, "b16": 16, "s32": 32, "u32": 32, "b32": 32, "s64": 64, "u64": 64, "b64": 64}


@pytest.mark.parametrize("name", SETP)
def test_comparisons_and_choices_of_integers(name):
    bits = SETP[name]
    columns = grid(WORDS[bits], WORDS[bits])
    read = (lambda x: signed(x, bits)) if name[0] == "s" else (lambda x: x)
    tests = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b}
    if name[0] != "b":
        tests = INT_TESTS
    for test, oracle in tests.items():
        truth = lambda a, b, o=oracle: o(read(a), read(b))  # noqa: E731
        check(f"setp.{test}.{name} %p, %i0, %i1; selp.b32 %o0, 1, 0, %p;", columns, [bits] * 2, truth, 32)
        check(f"set.{test}.u32.{name} %o0, %i0, %i1;", columns, [bits] * 2, lambda a, b, t=truth: -t(a, b), 32)
        as_float = lambda a, b, t=truth: bits32(1.0) if t(a, b) else 0  # noqa: E731
        check(f"set.{test}.f32.{name} %o0, %i0, %i1;", columns, [bits] * 2, as_float, 32)
    lines = f"setp.lt.u{bits} %p, %i0, %i1; selp.{name} %o0, %i0, %i1, %p;"
    check(lines, columns, [bits] * 2, lambda a, b: a if a < b else b, bits)


@pytest.mark.parametrize("name", FLOAT_BITS)
def test_comparisons_and_choices_of_floats(name):
    bits = FLOAT_BITS[name]
    values = [encoded(v, name) for v in FEW]
    columns = grid(values, values)
    for test, oracle in {
        "eq": lambda x, y: x == y,
        "lt": lambda x, y: x < y,
        "gtu": lambda x, y: not x <= y,
        "nan": lambda x, y: math.isnan(x) or math.isnan(y),
    }.items():
        truth = lambda a, b, o=oracle: o(number(a, name), number(b, name))  # noqa: E731
        check(f"setp.{test}.{name} %p, %i0, %i1; selp.b32 %o0, 1, 0, %p;", columns, [bits] * 2, truth, 32)
        check(f"set.{test}.u32.{name} %o0, %i0, %i1;", columns, [bits] * 2, lambda a, b, t=truth: -t(a, b), 32)
    if bits > 16:
        lines = f"setp.lt.{name} %p, %i0, %i1; selp.{name} %o0, %i0, %i1, %p;"
        check(lines, columns, [bits] * 2, lambda a, b: a if number(a, name) < number(b, name) else b, bits)
        return
    pairs = [a | b << 16 for a, b in itertools.product(values[::2], values[1::2])]
    columns = grid(pairs, pairs[::3])
    halves = lambda a, b: tuple(number(a >> s, name) < number(b >> s, name) for s in (0, 16))  # noqa: E731
    lines = f"setp.lt.{name}x2 %p|%q, %i0, %i1; selp.b32 %o0, 1, 0, %p; selp.b32 %o1, 1, 0, %q;"
    check(lines, columns, [32] * 2, halves, [32, 32])
    ones = lambda a, b: sum((narrow(1.0, name) if t else 0) << s for t, s in zip(halves(a, b), (0, 16), strict=True))  # noqa: E731
    check(f"set.lt.{name}x2.{name}x2 %o0, %i0, %i1;", columns, [32] * 2, ones, 32)


def test_choices_by_sign():
    columns = grid(WORDS[32][::3], WORDS[32][1::3], WORDS[32])
    check("slct.s32.s32 %o0, %i0, %i1, %i2;", columns, [32] * 3, lambda a, b, c: a if signed(c, 32) >= 0 else b, 32)
    by = [bits32(v) for v in FEW]
    columns = grid([1], [2], by)
    oracle = lambda a, b, c: a if f32(c) >= 0 else b  # noqa: E731
    check("slct.s32.f32 %o0, %i0, %i1, %i2;", columns, [32] * 3, oracle, 32)


def test_predicates():
    columns = grid([0, 1], [0, 1])
    set_up = "setp.ne.u32 %p, %i0, 0; setp.ne.u32 %q, %i1, 0;"
    for name, oracle in {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b}.items():
        lines = f"{set_up} {name}.pred %p, %p, %q; selp.u32 %o0, 1, 0, %p;"
        check(lines, columns, [32] * 2, oracle, 32)
    check(f"{set_up} not.pred %p, %p; selp.u32 %o0, 1, 0, %p;", columns, [32] * 2, lambda a, b: 1 - a, 32)


# the rest of the integers


def test_integers_of_16_bits_and_bits_of_all_sizes():
    w16 = grid(WORDS[16], WORDS[16][::2], WORDS[16][1::3])
    for kind, read in {"s": lambda x: signed(x, 16), "u": lambda x: x}.items():
        check(f"sad.{kind}16 %o0, %i0, %i1, %i2;", w16, [16] * 3, lambda a, b, c, r=read: c + abs(r(a) - r(b)), 16)
    check("abs.s16 %o0, %i0;", [WORDS[16]], [16], lambda a: abs(signed(a, 16)), 16)
    check("neg.s16 %o0, %i0;", [WORDS[16]], [16], lambda a: -a, 16)
    for bits in (16, 32, 64):
        check(f"cnot.b{bits} %o0, %i0;", [WORDS[bits]], [bits], lambda a: int(a == 0), bits)
        check(f"not.b{bits} %o0, %i0;", [WORDS[bits]], [bits], lambda a: ~a, bits)
        columns = grid(WORDS[bits], [0, 1, 15, 16, 31, 32, 63, 64, 65])
        check(f"shr.b{bits} %o0, %i0, %i1;", columns, [bits, 32], lambda a, b, n=bits: a >> b if b < n else 0, bits)


def test_products_of_24_bits_and_dot_products():
    columns = grid(WORDS[32], WORDS[32], WORDS[32][::5])
    for kind, read in {"s": lambda x: signed(x, 24), "u": lambda x: x & 0xFFFFFF}.items():
        for part, shift in {"lo": 0, "hi": 16}.items():
            product = lambda a, b, c, r=read, n=shift: r(a) * r(b) >> n  # noqa: E731
            check(
                f"mul24.{part}.{kind}32 %o0, %i0, %i1;", columns[:2], [32] * 2, lambda a, b, p=product: p(a, b, 0), 32
            )
            total = lambda a, b, c, p=product: p(a, b, c) + c  # noqa: E731
            check(f"mad24.{part}.{kind}32 %o0, %i0, %i1, %i2;", columns, [32] * 3, total, 32)

    def parts(x, bits, sign):
        fields = [x >> s & (1 << bits) - 1 for s in range(0, 32, bits)]
        return [signed(f, bits) for f in fields] if sign else fields

    for s, t in itertools.product((False, True), repeat=2):
        a_type, b_type = ("s32" if s else "u32"), ("s32" if t else "u32")
        dot = lambda a, b, c, s=s, t=t: c + sum(x * y for x, y in zip(parts(a, 8, s), parts(b, 8, t), strict=True))  # noqa: E731
        check(f"dp4a.{a_type}.{b_type} %o0, %i0, %i1, %i2;", columns, [32] * 3, dot, 32)
        for half, first in (("lo", 0), ("hi", 2)):

            def two(a, b, c, s=s, t=t, first=first):
                return c + sum(x * y for x, y in zip(parts(a, 16, s), parts(b, 8, t)[first : first + 2], strict=True))

            check(f"dp2a.{half}.{a_type}.{b_type} %o0, %i0, %i1, %i2;", columns, [32] * 3, two, 32)


def test_extension_from_a_position():
    columns = grid(WORDS[32], [0, 1, 5, 31, 32, 33, 100])

    def extend(a, b, sign, wrap):
        n = b % 32 if wrap else min(b, 32)
        return signed(a, n) if sign and n else a & (1 << n) - 1

    for mode, wrap in (("wrap", True), ("clamp", False)):
        check(f"szext.{mode}.u32 %o0, %i0, %i1;", columns, [32] * 2, lambda a, b, w=wrap: extend(a, b, False, w), 32)
        check(f"szext.{mode}.s32 %o0, %i0, %i1;", columns, [32] * 2, lambda a, b, w=wrap: extend(a, b, True, w), 32)


def test_pairs_of_integers():
    columns = grid(WORDS[32], WORDS[32])

    def pairs(a, b, sign, operation):
        read = (lambda x: signed(x, 16)) if sign else (lambda x: x)
        return sum((operation(read(a >> s & 0xFFFF), read(b >> s & 0xFFFF)) & 0xFFFF) << s for s in (0, 16))

    for kind, sign in (("s", True), ("u", False)):
        for name, operation in {"add": lambda x, y: x + y, "min": min, "max": max}.items():
            oracle = lambda a, b, s=sign, o=operation: pairs(a, b, s, o)  # noqa: E731
            check(f"{name}.{kind}16x2 %o0, %i0, %i1;", columns, [32] * 2, oracle, 32)
    relu = lambda a, b: pairs(a, b, True, lambda x, y: max(x, y, 0))  # noqa: E731
    check("max.relu.s16x2 %o0, %i0, %i1;", columns, [32] * 2, relu, 32)


VIDEO = {
    "vadd": lambda x, y: x + y,
    "vsub": lambda x, y: x - y,
    "vabsdiff": lambda x, y: abs(x - y),
    "vmin": min,
    "vmax": max,
}


def clamped(x, bits, sign):
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if sign else (0, (1 << bits) - 1)
    return max(low, min(high, x))


@pytest.mark.parametrize(("kind", "sign"), [("s32", True), ("u32", False)])
def test_video_instructions(kind, sign):
    columns = grid(WORDS[32], WORDS[32])
    read = lambda x, bits=32: signed(x, bits) if sign else x & (1 << bits) - 1  # noqa: E731
    for name, operation in VIDEO.items():
        plain = lambda a, b, o=operation: o(read(a), read(b))  # noqa: E731
        check(f"{name}.{kind}.{kind}.{kind} %o0, %i0, %i1;", columns, [32] * 2, plain, 32)
        sat = lambda a, b, o=operation: clamped(o(read(a), read(b)), 32, sign)  # noqa: E731
        check(f"{name}.{kind}.{kind}.{kind}.sat %o0, %i0, %i1;", columns, [32] * 2, sat, 32)
        then = lambda a, b, o=operation: max(read(o(read(a), read(b)) & 0xFFFFFFFF), read(b))  # noqa: E731
        check(f"{name}.{kind}.{kind}.{kind}.max %o0, %i0, %i1, %i1;", columns, [32] * 2, then, 32)
    shifts = grid(WORDS[32], [0, 1, 5, 31, 32, 40])
    check(f"vshl.{kind}.{kind}.u32.clamp %o0, %i0, %i1;", shifts, [32] * 2, lambda a, b: read(a) << min(b, 32), 32)
    check(f"vshr.{kind}.{kind}.u32.wrap %o0, %i0, %i1;", shifts, [32] * 2, lambda a, b: read(a) >> (b & 31), 32)
    check(f"vshl.u32.u32.{kind}.wrap %o0, %i0, %i1;", shifts, [32] * 2, lambda a, b: a << (b & 31), 32)
    check(f"vshr.u32.u32.{kind}.clamp %o0, %i0, %i1;", shifts, [32] * 2, lambda a, b: a >> min(b, 32), 32)


@pytest.mark.parametrize(("kind", "sign"), [("s32", True), ("u32", False)])
@pytest.mark.parametrize("lanes", [2, 4])
def test_video_instructions_on_parts(lanes, kind, sign):
    columns = grid([*WORDS[32], 0x7F80FF01, 0x80017FFF], WORDS[32])
    bits = 32 // lanes
    read = lambda x: signed(x, bits) if sign else x  # noqa: E731
    split = lambda x: [read(x >> s & (1 << bits) - 1) for s in range(0, 32, bits)]  # noqa: E731
    average = lambda x, y: x + y + (x + y >= 0) >> 1  # noqa: E731  (halves away from zero)
    joined = lambda parts: sum((p & (1 << bits) - 1) << i * bits for i, p in enumerate(parts))  # noqa: E731
    for name, operation in {**VIDEO, "vavrg": average}.items():
        results = lambda a, b, o=operation: [o(x, y) for x, y in zip(split(a), split(b), strict=True)]  # noqa: E731
        opcode = f"{name}{lanes}.{kind}.{kind}.{kind}"
        check(f"{opcode} %o0, %i0, %i1, %i0;", columns, [32] * 2, lambda a, b, r=results: joined(r(a, b)), 32)
        sat = lambda a, b, r=results: joined([clamped(x, bits, sign) for x in r(a, b)])  # noqa: E731
        check(f"{opcode}.sat %o0, %i0, %i1, %i0;", columns, [32] * 2, sat, 32)
        total = lambda a, b, r=results: a + sum(r(a, b))  # noqa: E731
        check(f"{opcode}.add %o0, %i0, %i1, %i0;", columns, [32] * 2, total, 32)


# conversions of bytes and of 8-bit floats


def test_conversions_from_bytes():
    values = [0, 1, 0x7F, 0x80, 0xFF, 0x1234, 0xFF80]
    check("cvt.s32.s8 %o0, %i0;", [values], [16], lambda a: signed(a, 8), 32)
    check("cvt.u32.u8 %o0, %i0;", [values], [16], lambda a: a & 255, 32)
    check("cvt.rn.f32.s8 %o0, %i0;", [values], [16], lambda a: bits32(float(signed(a, 8))), 32)


@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
def test_conversions_of_8_bit_floats(name):
    kind = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[name]
    largest = float(ml_dtypes.finfo(kind).max)
    values = [
        bits32(v)
        for v in (0.0, -0.0, 1.0, -1.5, 0.3, 448.0, 464.0, 465.0, 1e6, -1e6, 57344.0, 2.0**-9, 2.0**-10, math.inf)
    ]

    def byte(x):
        if math.isnan(x):
            return 0x7F
        return int(np.array(max(-largest, min(largest, x))).astype(kind).view(np.uint8))

    columns = grid(values, values)
    pair = lambda a, b: byte(f32(a)) << 8 | byte(f32(b))  # noqa: E731
    check(f"cvt.rn.satfinite.{name}x2.f32 %o0, %i0, %i1;", columns, [32] * 2, pair, 16)
    check(f"cvt.rn.satfinite.{name}x2.f32 %o0, %i0, %i0;", [[bits32(math.nan)]], [32], lambda a: 0x7F7F, 16)
    relu = lambda a, b: byte(max(0.0, f32(a))) << 8 | byte(max(0.0, f32(b)))  # noqa: E731
    check(f"cvt.rn.satfinite.relu.{name}x2.f32 %o0, %i0, %i1;", columns, [32] * 2, relu, 16)
    every = [b for b in range(256) if math.isfinite(float(np.uint8(b).view(kind)))]
    pairs = [a | b << 8 for a, b in zip(every, every[::-1], strict=True)]
    half = lambda b: int(np.array(float(np.uint8(b).view(kind)), np.float16).view(np.uint16))  # noqa: E731
    check(f"cvt.rn.f16x2.{name}x2 %o0, %i0;", [pairs], [16], lambda a: half(a & 255) | half(a >> 8) << 16, 32)
    back = [half(a & 255) | half(a >> 8) << 16 for a in pairs]
    oracle = dict(zip(back, pairs, strict=True))
    check(f"cvt.rn.satfinite.{name}x2.f16x2 %o0, %i0;", [back], [32], lambda a: oracle[a], 16)


def test_every_instruction_has_met_its_oracle(request):
    """Stands last: what the tests above ran, against what is registered."""
    here = {item.originalname for item in request.session.items if item.module is request.module}
    if {name for name in globals() if name.startswith("test_")} - here:
        pytest.skip("not all tests of this module were chosen")
    missing = sorted(f"{opcode}.{t or ''}" for opcode, t in set(registry.ELEMENTWISE) - TRIED)
    assert not missing, " ".join(missing)
