"""Every instruction that works on one thread, against an oracle in Python's exact arithmetic, edge
values included.
"""

from __future__ import annotations

import itertools
import math
import operator
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
TIES = [
    1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 2.0**-24, 2.0**-25, 1.5 * 2.0**-24, 65519.0,
    1 + 2.0**-12,
]  # fmt: skip
FEW = [0.0, -0.0, 1.0, -1.0, 0.5, -2.75, 1024.0, 6e-5, -6e-5, math.inf, -math.inf, math.nan]
FLOATS = {
    "f16": [*FEW, 1.5, -2.5, 3.0, 3.25, 6e-8, 65504.0, 0.333, 1024.5],
    "f32": [
        0.0, -0.0, 1.0, -1.0, 1.5, -2.5, 0.5, -0.5, 3.0, 1e10, -1e10, 1e-10, 2.0**-126, -(2.0**-126), 2.0**-149,
        -(2.0**-149), 2.0**-140, 3.4028234663852886e38, -3.4028234663852886e38, math.inf, -math.inf, math.nan,
        1 + 2.0**-23, 1 - 2.0**-24, 2.0**31, -(2.0**31), 2.0**32, 2.0**63, 2.0**64,
        0.1, 1 / 3, 123.456, 2.5, 3.5, 16777217.0, 65504.0, 65520.0, 6e-8,
    ],
    "f64": [
        0.0, -0.0, 1.0, -1.5, math.pi, 1e300, -1e300, 5e-324, 2.0**-1022, math.inf, -math.inf, 0.1, 1 + 2.0**-52, 1e16,
        -7.25,
    ],
}  # fmt: skip
FLOATS["bf16"] = FLOATS["f16"]
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
# bits of precision, least and largest exponent
FORMATS = {
    "f16": (11, -14, 15),
    "bf16": (8, -126, 127),
    "tf32": (11, -126, 127),
    "f32": (24, -126, 127),
    "f64": (53, -1022, 1023),
}
MODES = ["rn", "rz", "rm", "rp"]
INTEGERS = ["s16", "u16", "s32", "u32", "s64", "u64"]


def size(name):
    """Bits of a type."""
    return int(name.lstrip("bfsu"))


def signed(x, bits):
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def reader(name, bits=None):
    """A function from bit patterns to the values that they have in a type."""
    bits = bits or size(name)
    if name in DTYPES:
        return lambda x: number(x, name)
    return (lambda x: signed(x, bits)) if name[0] == "s" else (lambda x: x & (1 << bits) - 1)


def clamped(x, bits, sign):
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if sign else (0, (1 << bits) - 1)
    return max(low, min(high, x))


def number(pattern, name):
    """A bit pattern as a Python float (of a packed pair: its lower half)."""
    bits = size(name)
    return float(
        np.array(pattern & (1 << bits) - 1, f"u{bits // 8}").view(DTYPES[name]).astype(np.float64)
    )


def encoded(value, name):
    """The nearest bit pattern of a float; a NaN is the one that instructions make."""
    bits = size(name)
    if math.isnan(value) and bits < 64:
        return (1 << bits - 1) - 1
    with np.errstate(over="ignore"):
        return int(np.array(value).astype(DTYPES[name]).view(f"u{bits // 8}"))


def f32(pattern):
    return number(pattern, "f32")


def bits32(value):
    return encoded(value, "f32")


F32_BITS = [bits32(v) for v in FLOATS["f32"]]


def grid(*columns):
    """All combinations, one column an input."""
    return list(zip(*itertools.product(*columns), strict=True))


def arrays(columns, widths):
    widths = [widths] * len(columns) if isinstance(widths, int) else widths
    return [np.array(c, f"u{w // 8}") for c, w in zip(columns, widths, strict=True)]


def completed(lines, columns):
    """An instruction with all inputs as its operands; lines as they are."""
    inputs = ", ".join(f"%i{n}" for n in range(len(columns)))
    return lines if ";" in lines else f"{lines} %o0, {inputs};"


def check(lines, columns, widths, oracle, out=None, declare=""):
    """Run `lines`, or one instruction, on the columns, all of one width or each of its own; `oracle`
    takes and gives bit patterns, of the inputs' width unless `out` says another.
    """
    inputs, lines = arrays(columns, widths), completed(lines, columns)
    outs = out if isinstance(out, list) else [out or widths]
    got = execute(lines, inputs, outs, declare)
    for row in range(len(inputs[0])):
        values = [int(x[row]) for x in inputs]
        want = oracle(*values)
        want = list(want) if isinstance(want, tuple) else [want]
        have = [int(g[row]) for g in got]
        assert have == [int(w) & (1 << b) - 1 for w, b in zip(want, outs, strict=True)], (
            lines,
            values,
            have,
        )


def alike(lines, columns, oracle, name, tolerance=0.0, source=None):
    """Run `lines` and compare as numbers: NaN with NaN, zeros with their sign; `oracle` takes and
    gives floats.
    """
    source, lines = source or name, completed(lines, columns)
    inputs = arrays(columns, size(source))
    (got,) = execute(lines, inputs, [size(name)])
    for row in range(len(inputs[0])):
        values = [number(int(x[row]), source) for x in inputs]
        want, have = oracle(*values), number(int(got[row]), name)
        if math.isnan(want):
            assert math.isnan(have), (lines, values, have)
            continue
        near = tolerance * abs(want) if math.isfinite(want) else 0
        assert have == want or abs(have - want) <= near, (lines, values, have, want)
        assert want != 0 or math.copysign(1, have) == math.copysign(1, want), (lines, values, have)


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


@pytest.mark.parametrize("type_", INTEGERS)
@pytest.mark.parametrize("name", TWO)
def test_integer_arithmetic(name, type_):
    bits, read = size(type_), reader(type_)
    values = WORDS[bits]
    columns = grid(values, [v for v in values if v] if name in ("div", "rem") else values)
    check(f"{name}.{type_}", columns, bits, lambda a, b: TWO[name](read(a), read(b), bits))


@pytest.mark.parametrize("t", INTEGERS)
def test_products_and_sums_of_three(t):
    n, read = size(t), reader(t)
    columns = grid(WORDS[n], WORDS[n][::2], WORDS[n][::3])
    check(f"sad.{t}", columns, n, lambda a, b, c: c + abs(read(a) - read(b)))
    if n > 16:
        check(f"mad.lo.{t}", columns, n, lambda a, b, c: a * b + c)
        check(f"mad.hi.{t}", columns, n, lambda a, b, c: (read(a) * read(b) >> n) + c)
    if n < 64:
        check(f"mul.wide.{t}", columns[:2], n, lambda a, b: read(a) * read(b), 2 * n)
        columns = grid(WORDS[n], WORDS[n][::2], WORDS[2 * n][::3])
        lines = f"mad.wide.{t} %o0, %i0, %i1, %i2;"
        check(lines, columns, [n, n, 2 * n], lambda a, b, c: read(a) * read(b) + c, 2 * n)


def test_saturating_sums():
    s, columns = reader("s32"), grid(WORDS[32], WORDS[32])
    check("add.sat.s32", columns, 32, lambda a, b: clamped(s(a) + s(b), 32, True))
    check("sub.sat.s32", columns, 32, lambda a, b: clamped(s(a) - s(b), 32, True))


def top(a):
    """The place of the highest set bit."""
    return a.bit_length() - 1 if a else 0xFFFFFFFF


@pytest.mark.parametrize("n", [16, 32, 64])
def test_bits_of_one_word(n):
    words, s = [WORDS[n]], reader(f"s{n}")
    check(f"abs.s{n}", words, n, lambda a: abs(s(a)))
    check(f"neg.s{n}", words, n, lambda a: -a)
    check(f"cnot.b{n}", words, n, lambda a: a == 0)
    check(f"not.b{n}", words, n, lambda a: ~a)
    if n == 16:
        return
    check(f"popc.b{n}", words, n, lambda a: a.bit_count(), 32)
    check(f"clz.b{n}", words, n, lambda a: n - a.bit_length(), 32)
    check(f"brev.b{n}", words, n, lambda a: int(f"{a:0{n}b}"[::-1], 2))
    check(f"bfind.u{n}", words, n, top, 32)
    check(f"bfind.shiftamt.u{n}", words, n, lambda a: n - 1 - top(a) if a else 0xFFFFFFFF, 32)
    check(f"bfind.s{n}", words, n, lambda a: top(~s(a) if s(a) < 0 else a), 32)


@pytest.mark.parametrize("n", [16, 32, 64])
def test_logic_and_shifts(n):
    columns = grid(WORDS[n], WORDS[n])
    check(f"and.b{n}", columns, n, lambda a, b: a & b)
    check(f"or.b{n}", columns, n, lambda a, b: a | b)
    check(f"xor.b{n}", columns, n, lambda a, b: a ^ b)
    columns, w = (
        grid(WORDS[n], [0, 1, 5, 15, 16, 31, 32, 33, 63, 64, 65, 255, 2**31, 2**32 - 1]),
        [n, 32],
    )
    check(f"shl.b{n}", columns, w, lambda a, b: a << b if b < 64 else 0, n)
    check(f"shr.u{n}", columns, w, lambda a, b: a >> b, n)
    check(f"shr.b{n}", columns, w, lambda a, b: a >> b, n)
    check(f"shr.s{n}", columns, w, lambda a, b: signed(a, n) >> b, n)
    check(f"shl.b{n} %o0, %i0, {n};", [WORDS[n]], n, lambda a: 0, n)
    check(f"shr.s{n} %o0, %i0, {n + 5};", [WORDS[n]], n, lambda a: signed(a, n) >> 64, n)


FUNNEL = {
    "l.wrap": lambda pair, n: pair << (n & 31) >> 32,
    "r.wrap": lambda pair, n: pair >> (n & 31),
    "l.clamp": lambda pair, n: pair << min(n, 32) >> 32,
    "r.clamp": lambda pair, n: pair >> min(n, 32),
}


@pytest.mark.parametrize("way", FUNNEL)
def test_funnel_shifts(way):
    columns = grid(WORDS[32][::2], WORDS[32][1::2], [0, 1, 13, 31, 32, 33, 64, 2**32 - 1])
    check(f"shf.{way}.b32", columns, 32, lambda a, b, n: FUNNEL[way](b << 32 | a, n))


@pytest.mark.parametrize("table", [0x00, 0x80, 0x96, 0xCA, 0xFE, 0xFF, 0x1B])
def test_lop3(table):
    def oracle(a, b, c):
        return sum(
            (table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i
            for i in range(32)
        )

    columns = grid(WORDS[32][::2], WORDS[32][1::2], WORDS[32][::3])
    check(f"lop3.b32 %o0, %i0, %i1, %i2, {table};", columns, 32, oracle, 32)


def test_prmt():
    def oracle(a, b, c):
        octets = (b << 32 | a).to_bytes(8, "little")
        out = []
        for i in range(4):
            s = c >> 4 * i & 15
            byte = octets[s & 7]
            out.append((0xFF if byte & 0x80 else 0) if s & 8 else byte)
        return int.from_bytes(bytes(out), "little")

    columns = grid(
        [0xDEADBEEF, 0x00FF7F80],
        [0x01234567, 0x89ABCDEF],
        [0x3210, 0x7654, 0x0426, 0x8888, 0xFEDC, 0x5140],
    )
    check("prmt.b32", columns, 32, oracle)
    # bytes from the highest on, by the last two bits of c (PTX ISA 9.7.9.7)
    modes = {
        "f4e": ("3210", "4321", "5432", "6543"),
        "b4e": ("5670", "6701", "7012", "0123"),
        "rc8": ("0000", "1111", "2222", "3333"),
        "ecl": ("3210", "3211", "3222", "3333"),
        "ecr": ("0000", "1110", "2210", "3210"),
        "rc16": ("1010", "3232", "1010", "3232"),
    }
    columns = grid([0xDEADBEEF], [0x01234567], [0, 1, 2, 3, 5])
    for mode, rows in modes.items():
        chosen = lambda a, b, c, rows=rows: oracle(a, b, int(rows[c & 3], 16))
        check(f"prmt.b32.{mode}", columns, 32, chosen)


@pytest.mark.parametrize("bits", [32, 64])
def test_bit_fields(bits):
    places, lengths = [0, 1, 5, 16, 31, 32, 33, 40, 63, 64, 200, 256], [0, 1, 8, 31, 32, 64, 255]
    columns, w = grid(WORDS[bits][::2], places, lengths), [bits, 32, 32]

    def extract(a, position, length):
        return (a >> (position & 255)) & ((1 << length) - 1)

    def extract_signed(a, position, length):
        position &= 255
        if length == 0:
            return 0
        sign = a >> min(position + length - 1, bits - 1) & 1
        field = [
            (a >> (position + i) & 1) if i < length and position + i < bits else sign
            for i in range(bits)
        ]
        return sum(bit << i for i, bit in enumerate(field))

    def insert(a, b, position, length):
        mask = (1 << length) - 1 << (position & 255)
        return b & ~mask | a << (position & 255) & mask

    check(f"bfe.u{bits}", columns, w, extract, bits)
    check(f"bfe.s{bits}", columns, w, extract_signed, bits)
    columns = grid(WORDS[bits][::3], WORDS[bits][1::4], places[::2], lengths)
    check(f"bfi.b{bits}", columns, [bits, bits, 32, 32], insert, bits)


def fns(mask, base, n):
    n = signed(n, 32)
    if n == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    places = range(base, 32) if n > 0 else range(base, -1, -1)
    found = [p for p in places if mask >> p & 1]
    return found[abs(n) - 1] if abs(n) <= len(found) else 0xFFFFFFFF


def test_masks_and_nth_bits():
    columns = grid([0, 1, 8, 31, 32, 40], [0, 1, 8, 31, 32, 40])
    check("bmsk.clamp.b32", columns, 32, lambda a, b: ((1 << min(b, 32)) - 1) << min(a, 32))
    mask = lambda a, b: ((1 << (b & 31)) - 1) << (a & 31)
    check("bmsk.wrap.b32", columns, 32, mask)
    check(
        "fns.b32",
        grid([0b1011011, 0xFFFFFFFF, 0], [0, 3, 31], [0, 1, 2, 2**32 - 1, 2**32 - 3]),
        32,
        fns,
    )


# comparison, selection


def ordered(test, if_nan=False):
    return lambda a, b: if_nan if math.isnan(a) or math.isnan(b) else test(a, b)


EQUAL = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b}
INT_TESTS = {
    **EQUAL,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
FLOAT_TESTS = {
    **{name: ordered(test) for name, test in INT_TESTS.items()},
    **{name + "u": ordered(test, True) for name, test in INT_TESTS.items()},
    "num": ordered(lambda a, b: True),
    "nan": ordered(lambda a, b: False, True),
}
TESTS = {"b": EQUAL, "s": INT_TESTS, "u": INT_TESTS, "f": FLOAT_TESTS}


@pytest.mark.parametrize("name", [*INTEGERS, "b16", "b32", "b64", *DTYPES])
def test_comparisons_and_choices(name):
    bits, read, real = size(name), reader(name), name in DTYPES
    values = [encoded(v, name) for v in FLOATS[name]] if real else WORDS[bits]
    columns = grid(values, values)
    for test, oracle in TESTS["f" if real else name[0]].items():
        truth = lambda a, b, o=oracle: o(read(a), read(b))
        check(f"setp.{test}.{name} %p, %i0, %i1; selp.b32 %o0, 1, 0, %p;", columns, bits, truth, 32)
        check(
            f"set.{test}.{'u32' if real else 's32'}.{name}",
            columns,
            bits,
            lambda a, b, t=truth: -t(a, b),
            32,
        )
        if not real:
            one = lambda a, b, t=truth: bits32(t(a, b))
            check(f"set.{test}.f32.{name}", columns, bits, one, 32)
    if not real or bits > 16:
        lines = f"setp.lt.u{bits} %p, %i0, %i1; selp.{name} %o0, %i0, %i1, %p;"
        check(lines, columns, bits, lambda a, b: min(a, b), bits)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_comparisons_of_pairs(name):
    values = [encoded(v, name) for v in FEW]
    pairs = [a | b << 16 for a, b in itertools.product(values[::2], values[1::2])]
    columns, one = grid(pairs, pairs[::3]), encoded(1.0, name)

    def halves(a, b):
        return tuple(number(a >> s, name) < number(b >> s, name) for s in (0, 16))

    lines = f"setp.lt.{name}x2 %p|%q, %i0, %i1; selp.b32 %o0, 1, 0, %p; selp.b32 %o1, 1, 0, %q;"
    check(lines, columns, 32, halves, [32, 32])
    lines = f"set.lt.{name}x2.{name}x2 %o0, %i0, %i1;"
    check(lines, columns, 32, lambda a, b: halves(a, b)[0] * one | halves(a, b)[1] * one << 16, 32)


def test_predicates_are_combined_and_negated():
    s, columns = reader("s32"), grid(WORDS[32][::2], WORDS[32])
    select = "selp.b32 %o0, 1, 0, %p;"
    check(f"setp.lo.u32 %p, %i0, %i1; {select}", columns, 32, lambda a, b: a < b, 32)
    check(f"setp.hs.u32 %p, %i0, %i1; {select}", columns, 32, lambda a, b: a >= b, 32)
    lines = f"setp.ne.b32 %q, %i0, 0; setp.lt.and.s32 %p|%q, %i0, %i1, %q; {select} selp.b32 %o1, 1, 0, %q;"
    check(
        lines, columns, 32, lambda a, b: (s(a) < s(b) and a != 0, s(a) >= s(b) and a != 0), [32, 32]
    )
    lines = f"setp.ne.b32 %q, %i0, 0; setp.eq.xor.u32 %p, %i0, %i1, !%q; {select}"
    check(lines, columns, 32, lambda a, b: (a == b) != (a == 0), 32)
    lines = "setp.gt.s32 %p, %i0, %i1; @%p mov.u32 %o0, 1; @!%p mov.u32 %o0, 2;"
    check(lines, columns, 32, lambda a, b: 1 if s(a) > s(b) else 2, 32)
    set_up = "setp.ne.u32 %p, %i0, 0; setp.ne.u32 %q, %i1, 0;"
    for name, oracle in {
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
    }.items():
        check(f"{set_up} {name}.pred %p, %p, %q; {select}", grid([0, 1], [0, 1]), 32, oracle, 32)
    check(f"{set_up} not.pred %p, %p; {select}", grid([0, 1], [0, 1]), 32, lambda a, b: 1 - a, 32)


def test_choices_by_sign():
    columns, s = grid(WORDS[32][::3], WORDS[32][1::3], WORDS[32]), reader("s32")
    for type_ in ("s32", "u32"):
        check(f"slct.{type_}.s32", columns, 32, lambda a, b, c: a if s(c) >= 0 else b)
    columns = grid([1], [2], [bits32(v) for v in FEW])
    check("slct.s32.f32", columns, 32, lambda a, b, c: a if f32(c) >= 0 else b)


# floats


def round_to(value: Fraction, precision: int, least: int, most: int, mode: str) -> float:
    sign, magnitude = (-1 if value < 0 else 1), abs(value)
    exponent = max(magnitude.numerator.bit_length() - magnitude.denominator.bit_length() - 1, least)
    while magnitude >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - precision + 1)
    whole, rest = divmod(magnitude, unit)
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


def rounded(value: float | Fraction, name: str, mode: str = "rn") -> float:
    """A number to a format, exactly; zeros, infinities and NaN stay as they are."""
    if value == 0 or (isinstance(value, float) and not math.isfinite(value)):
        return float(value)
    return round_to(Fraction(value), *FORMATS[name], mode)


OPERATIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c,
    "mad": lambda a, b, c: a * b + c,
}


def exact(operation, mode, name, *values):
    """The result of an operation in IEEE arithmetic; where an operand is no number or infinite,
    through NumPy.
    """
    with np.errstate(all="ignore"):
        wide = [np.float64(v) for v in values]
        plain = float(OPERATIONS[operation](*wide))
        product = float(wide[0] * wide[1])
    if not all(map(math.isfinite, values)) or (operation == "div" and values[1] == 0):
        return values[2] if len(values) == 3 and all(map(math.isfinite, values[:2])) else plain
    result = OPERATIONS[operation](*map(Fraction, values))
    if result != 0:
        return rounded(result, name, mode)
    if mode == "rm" and operation in ("add", "sub", "fma", "mad"):
        first = product if len(values) == 3 else values[0]
        second = -values[-1] if operation == "sub" else values[-1]
        return min(
            math.copysign(0, first),
            math.copysign(0, second),
            key=lambda zero: math.copysign(1, zero),
        )
    return plain * 0.0


@pytest.mark.parametrize(
    ("name", "mode"),
    [("f16", "rn"), ("bf16", "rn"), *itertools.product(("f32", "f64"), MODES)],
    ids=str,
)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_arithmetic_of_floats(operation, name, mode):
    if name.endswith("16") and operation in ("div", "mad"):
        return
    values = [encoded(v, name) for v in FLOATS[name]]
    columns = (
        grid(values, values[::2], values[::3])
        if operation in ("fma", "mad")
        else grid(values, values)
    )
    suffix = "" if name.endswith("16") and operation != "fma" else f".{mode}"
    operands = ", ".join(f"%i{i}" for i in range(len(columns)))
    oracle = lambda *given: exact(operation, mode, name, *given)
    alike(f"{operation}{suffix}.{name} %o0, {operands};", columns, oracle, name)


@pytest.mark.parametrize("mode", MODES)
def test_f32_fma_is_rounded_once(mode):
    """Products that fall close to half-way between two floats, and tiny ones."""
    rng = np.random.default_rng(5)
    near = [
        (1 + 2.0**-12, 1 + 2.0**-12, 2.0**-60),
        (1 + 2.0**-12, 1 + 2.0**-12, -(2.0**-60)),
        (2.0**-75, 2.0**-75, 2.0**-149),
        (2.0**-75, 2.0**-75 * (1 + 2.0**-20), 0.0),
        (2.0**-75, -(2.0**-75), 0.0),
    ]
    for _ in range(400):
        a, b = (1 + rng.integers(0, 2**23) * 2.0**-23 for _ in range(2))
        c = float(
            np.float32(2.0 ** int(rng.integers(-30, 30)) * (1 + rng.integers(0, 2**23) * 2.0**-23))
        )
        scale = float(2.0 ** rng.choice([0, -60, -130, -149, 60]))
        near.append(
            (a, b * scale if scale > 2.0**-126 else b, math.copysign(c * scale, rng.uniform(-1, 1)))
        )
    columns = [[bits32(v) for v in column] for column in zip(*near, strict=True)]
    oracle = lambda a, b, c: bits32(exact("fma", mode, "f32", f32(a), f32(b), f32(c)))
    check(f"fma.{mode}.f32", columns, 32, oracle)


@pytest.mark.parametrize("mode", MODES)
def test_f32_reciprocals_and_roots(mode):
    def root(x):
        if not math.isfinite(x) or x <= 0:
            return math.nan if x < 0 else x
        scaled = Fraction(x) * Fraction(4) ** 200
        whole = math.isqrt(scaled.numerator // scaled.denominator)
        between = Fraction(whole) + (Fraction(1, 3) if whole**2 != scaled else 0)
        return rounded(between / Fraction(2) ** 200, "f32", mode)

    alike(f"rcp.{mode}.f32", [F32_BITS], lambda x: exact("div", mode, "f32", 1.0, x), "f32")
    alike(f"sqrt.{mode}.f32", [F32_BITS], root, "f32")


def unit_interval(x):
    return 0.0 if math.isnan(x) or x <= 0 else min(x, 1.0)


def test_flush_and_saturate():
    def flushed(x):
        return math.copysign(0, x) if abs(x) < 2.0**-126 else x

    columns = grid(F32_BITS, F32_BITS[::2])
    for name in ("mul", "add"):
        oracle = lambda a, b, n=name: flushed(exact(n, "rn", "f32", flushed(a), flushed(b)))
        alike(f"{name}.ftz.f32", columns, oracle, "f32")
    saturated = lambda a, b: unit_interval(exact("add", "rn", "f32", a, b))
    alike("add.sat.f32", columns, saturated, "f32")


def test_moves_keep_the_bits_of_nan():
    columns = [[0x7FC12345, 0xFFFFFFFF, 0x7F800001, 0x3F800000]]
    check("mov.f32 %f, %i0; mov.b32 %o0, %f;", columns, 32, lambda a: a, 32, ".reg .f32 %f;")
    canonical = lambda a: 0x7FFFFFFF if a != 0x3F800000 else a
    check(
        "add.f32 %f, %i0, 0f00000000; mov.b32 %o0, %f;", columns, 32, canonical, 32, ".reg .f32 %f;"
    )


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("ex2.approx.f32", math.exp2),
        ("lg2.approx.f32", math.log2),
        ("sin.approx.f32", math.sin),
        ("cos.approx.f32", math.cos),
        ("tanh.approx.f32", math.tanh),
        ("rsqrt.approx.f32", lambda x: 1 / math.sqrt(x)),
        ("rcp.approx.f32", lambda x: 1 / x),
        ("sqrt.approx.f32", math.sqrt),
        ("ex2.approx.f16", math.exp2),
        ("ex2.approx.ftz.bf16", math.exp2),
        ("tanh.approx.f16", math.tanh),
        ("tanh.approx.bf16", math.tanh),
        ("rsqrt.approx.ftz.f64", lambda x: 1 / math.sqrt(x)),
        ("sqrt.rn.f64", math.sqrt),
        ("rcp.rn.f64", lambda x: 1 / x),
    ],
)
def test_functions(name, function):
    type_ = name.rpartition(".")[2]
    values = [0.5, 1.0, 2.0, 3.7, 10.0, 0.001, 100.0]
    if type_.endswith("16"):
        values = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -2.75, math.inf, -math.inf, math.nan]
    tolerance = (
        0.0
        if ".rn." in name
        else {"f16": 2.0**-9, "bf16": 2.0**-6, "f32": 1e-7, "f64": 2.0**-20}[type_]
    )
    alike(f"{name}", [[encoded(v, type_) for v in values]], function, type_, tolerance)


# conversions


INT_MODES = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


@pytest.mark.parametrize("mode", INT_MODES)
@pytest.mark.parametrize("to", ["s8", "u8", *INTEGERS])
def test_float_to_integer(to, mode):
    bits, sign = size(to), to[0] == "s"

    def oracle(a):
        x = f32(a)
        if math.isnan(x):
            return (1 << (bits - 1)) if bits == 64 else 0
        return clamped(
            math.copysign(2**99, x) if math.isinf(x) else INT_MODES[mode](Fraction(x)), bits, sign
        )

    check(f"cvt.{mode}.{to}.f32", [F32_BITS], 32, oracle, max(bits, 32))
    if bits >= 32:  # of a NaN that a 64-bit register holds, as an H100 does it
        of_nan = lambda a: 1 << (bits - 1)
        check(f"cvt.{mode}.{to}.f64", [[0x7FF8 << 48]], 64, of_nan, bits)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("source", INTEGERS)
def test_integer_to_float(source, mode):
    bits, read = size(source), reader(source)
    values = WORDS[bits] + (
        [16777217, 16777219, 33554434, 0x7FFFFF7F, 0x7FFFFFC0] if bits >= 32 else []
    )
    if bits == 64:
        values = [
            *values,
            2**53 + 1,
            2**60 + 2**36,
            2**60 + 2**36 + 1,
            2**62 + 1,
            2**63 + 2**39,
            2**63 + 2**39 + 1,
        ]
    for to in ("f32", "f64"):
        oracle = lambda a, t=to: encoded(rounded(Fraction(read(a)), t, mode), t)
        check(f"cvt.{mode}.{to}.{source}", [values], bits, oracle, size(to))


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("to", ["s8", "u8", "s16", "u32", "s64", "u64"])
def test_integer_to_integer(source, to):
    bits, out, read, write = size(source), size(to), reader(source), reader(to)
    check(f"cvt.{to}.{source}", [WORDS[bits]], bits, lambda a: write(read(a)), max(out, 32))
    stopped = lambda a: clamped(read(a), out, to[0] == "s")
    check(f"cvt.sat.{to}.{source}", [WORDS[bits]], bits, stopped, max(out, 32))


DOUBLES = [
    1 + 2.0**-24,
    1 + 3 * 2.0**-24,
    1 + 2.0**-24 + 2.0**-50,
    1e39,
    -1e39,
    2.0**-150,
    1.5 * 2.0**-150,
]


@pytest.mark.parametrize(
    ("to", "source", "modes"),
    [
        ("f16", "f32", ["rn", "rz"]),
        ("bf16", "f32", ["rn", "rz"]),
        ("f32", "f64", MODES),
        ("f64", "f32", [None]),
    ],
)
def test_conversions_between_floats(to, source, modes):
    values = [encoded(v, source) for v in (*FLOATS["f32"], *TIES, *(-v for v in TIES), *DOUBLES)]
    for mode in modes:
        lines = f"cvt.{mode}.{to}.{source} %o0, %i0;" if mode else f"cvt.{to}.{source} %o0, %i0;"
        alike(lines, [values], lambda x, m=mode: rounded(x, to, m or "rn"), to, source=source)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_conversions_of_16_bits(name):
    values = F32_BITS + [bits32(v) for v in TIES] + [bits32(-v) for v in TIES]
    narrow = lambda a: encoded(rounded(f32(a), name), name)
    relu = lambda a: narrow(a) if math.isnan(f32(a)) or f32(a) > 0 else 0
    check(f"cvt.rn.relu.{name}.f32", [values], 32, relu, 16)
    columns = grid(values, values[::4])
    check(f"cvt.rn.{name}x2.f32", columns, 32, lambda a, b: narrow(a) << 16 | narrow(b))
    every = np.arange(65536, dtype=np.uint16)
    (got,) = execute(f"cvt.f32.{name} %o0, %i0;", [every], [32])
    assert np.array_equal(
        got.view(np.float32), every.view(DTYPES[name]).astype(np.float32), equal_nan=True
    )


def test_conversions_of_f32_to_itself():
    def whole(x):
        return x if not math.isfinite(x) else math.copysign(float(round(Fraction(x))), x)

    values = F32_BITS + [bits32(v) for v in TIES]
    alike("cvt.rni.f32.f32", [values], whole, "f32")
    alike("cvt.sat.f32.f32", [values], unit_interval, "f32")
    alike("cvt.rna.tf32.f32", [values], lambda x: rounded(x, "tf32", "rna"), "f32")


def test_conversions_from_bytes():
    values, s8 = [0, 1, 0x7F, 0x80, 0xFF, 0x1234, 0xFF80], reader("s8")
    check("cvt.s32.s8", [values], 16, s8, 32)
    check("cvt.u32.u8", [values], 16, lambda a: a & 255, 32)
    check("cvt.rn.f32.s8", [values], 16, lambda a: bits32(float(s8(a))), 32)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2)],
    ids=["e4m3", "e5m2"],
)
def test_conversions_of_8_bit_floats(name, kind):
    largest = float(ml_dtypes.finfo(kind).max)
    values = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        0.3,
        448.0,
        464.0,
        465.0,
        1e6,
        -1e6,
        57344.0,
        2.0**-9,
        2.0**-10,
        math.inf,
    ]
    columns = grid(*[[bits32(v) for v in values]] * 2)

    def byte(x):
        return (
            0x7F
            if math.isnan(x)
            else int(np.array(max(-largest, min(largest, x))).astype(kind).view(np.uint8))
        )

    def half(b):
        return encoded(float(np.uint8(b).view(kind)), "f16")

    to = f"cvt.rn.satfinite.{name}x2.f32 %o0, %i0"
    check(f"{to}, %i1;", columns, 32, lambda a, b: byte(f32(a)) << 8 | byte(f32(b)), 16)
    check(f"{to}, %i0;", [[bits32(math.nan)]], 32, lambda a: 0x7F7F, 16)
    relu = lambda a, b: byte(max(0.0, f32(a))) << 8 | byte(max(0.0, f32(b)))
    check(f"cvt.rn.satfinite.relu.{name}x2.f32", columns, 32, relu, 16)
    every = [b for b in range(256) if math.isfinite(float(np.uint8(b).view(kind)))]
    pairs = [a | b << 8 for a, b in zip(every, every[::-1], strict=True)]
    back = [half(a & 255) | half(a >> 8) << 16 for a in pairs]
    check(f"cvt.rn.f16x2.{name}x2", [pairs], 16, dict(zip(pairs, back, strict=True)).get, 32)
    check(
        f"cvt.rn.satfinite.{name}x2.f16x2", [back], 32, dict(zip(back, pairs, strict=True)).get, 16
    )


# moves and packing


def test_packing():
    check("mov.b64 %o0, {%i0, %i1};", grid(WORDS[32], WORDS[32]), 32, lambda a, b: b << 32 | a, 64)
    check("mov.b64 {%o0, %o1}, %i0;", [WORDS[64]], 64, lambda a: (a, a >> 32), [32, 32])
    check("mov.b32 {%o0, %o1}, %i0;", [WORDS[32]], 32, lambda a: (a, a >> 16), [16, 16])
    check("mov.b32 {_, %o0}, %i0;", [WORDS[32]], 32, lambda a: a >> 16, 16)
    four = lambda a, b: a | b << 16 | b << 32 | a << 48
    check("mov.b64 %o0, {%i0, %i1, %i1, %i0};", grid(WORDS[16], WORDS[16]), 16, four, 64)
    check(
        "mov.b32 %o0, 0f3F800000; mov.b32 %o1, -1;", [[0]], 32, lambda a: (0x3F800000, -1), [32, 32]
    )


def test_special_registers():
    lane = np.arange(64, dtype=np.uint64) % 32
    below, bit = (np.uint64(1) << lane) - np.uint64(1), np.uint64(1) << lane
    want = {
        "laneid": lane,
        "ntid.x": 32,
        "lanemask_lt": below,
        "lanemask_eq": bit,
        "lanemask_le": below | bit,
    }
    want |= {"lanemask_gt": ~(below | bit), "lanemask_ge": ~below}
    lines = "".join(f"mov.u32 %o{n}, %{name};" for n, name in enumerate(want))
    got = execute(lines, [np.zeros(64, np.uint32)], [32] * len(want))
    for name, found, value in zip(want, got, want.values(), strict=True):
        assert (found == np.asarray(value).astype(np.uint32)).all(), name


@pytest.mark.parametrize("clock", ["clock64", "globaltimer"])
def test_a_wait_for_a_clock_ends(clock):
    """Hours on a device, within the instructions that a launch may execute."""
    wait = f"mov.u64 %o0, %{clock}; sub.u64 %o0, %o0, %s; setp.lt.u64 %p, %o0, {10**13};"
    (waited,) = execute(
        f"mov.u64 %s, %{clock};\nAGAIN: {wait} @%p bra AGAIN;", [], [64], ".reg .b64 %s;"
    )
    assert (waited >= 10**13).all() and (waited < 2 * 10**13).all()


# signs, extremes and pairs of floats


def extreme(choose, with_nan=False):
    """The least or largest of two, with an order of the zeros; a NaN is the result or gives way to
    the other.
    """

    def chosen(x, y):
        if math.isnan(x) or math.isnan(y):
            return math.nan if with_nan else y if math.isnan(x) else x
        return choose(x, y, key=lambda v: (v, math.copysign(1, v)))

    return chosen


@pytest.mark.parametrize("name", DTYPES)
def test_signs_and_extremes_of_floats(name):
    values = [encoded(v, name) for v in FEW]
    both = grid(values, values)
    alike(f"abs.{name}", [values], abs, name)
    alike(f"neg.{name}", [values], lambda x: -x, name)
    for opcode, choose in (("min", min), ("max", max)):
        alike(f"{opcode}.{name}", both, extreme(choose), name)
        if name != "f64":
            alike(f"{opcode}.NaN.{name}", both, extreme(choose, True), name)
            finite = grid(*[[v for v in values if not math.isnan(number(v, name))]] * 2)
            sign = lambda x, y, c=choose: (
                c(abs(x), abs(y)) * math.copysign(1, x) * math.copysign(1, y)
            )
            alike(f"{opcode}.xorsign.abs.{name}", finite, sign, name)
    if not name.endswith("16"):
        finite = grid([v for v in values if not math.isnan(number(v, name))], values)
        sign = lambda x, y: math.nan if math.isnan(y) else math.copysign(y, x)
        alike(f"copysign.{name}", finite, sign, name)


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_classes_of_floats(name):
    least = 2.0 ** FORMATS[name][1]
    values = [encoded(v, name) for v in [*FEW, least, least / 4, -least / 4]]
    classes = {
        "finite": math.isfinite,
        "infinite": math.isinf,
        "number": lambda x: not math.isnan(x),
        "notanumber": math.isnan,
        "normal": lambda x: math.isfinite(x) and abs(x) >= least,
        "subnormal": lambda x: 0 < abs(x) < least,
    }
    for test, oracle in classes.items():
        lines = f"testp.{test}.{name} %p, %i0; selp.b32 %o0, 1, 0, %p;"
        check(lines, [values], size(name), lambda a, o=oracle: o(number(a, name)), 32)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_pairs_of_halves(name):
    """Each half as the scalar instruction does it."""
    values = [encoded(v, name) for v in (*FEW, 3.25, -100.0)]
    pairs = [a | b << 16 for a, b in itertools.product(values[::2], values[::3])]
    whole = arrays(grid(pairs[::2], pairs[::3]), 32)
    two = ("add", "sub", "mul", "min", "max")
    ex2 = "ex2.approx.ftz" if name == "bf16" else "ex2.approx"
    for opcode in (*two, "fma.rn", "neg", "abs", ex2, "tanh.approx"):
        count = 3 if opcode == "fma.rn" else 2 if opcode in two else 1
        operands, inputs = ", ".join(["%i0", "%i1", "%i0"][:count]), whole[: min(count, 2)]
        (low,), (high,) = (
            execute(
                f"{opcode}.{name} %o0, {operands};",
                [(x >> s).astype(np.uint16) for x in inputs],
                [16],
            )
            for s in (0, 16)
        )
        (got,) = execute(f"{opcode}.{name}x2 %o0, {operands};", inputs, [32])
        assert (got == low.astype(np.uint32) | high.astype(np.uint32) << 16).all(), opcode


def ftz(x: float, least: float = 2.0**-126) -> float:
    return math.copysign(0.0, x) if abs(x) < least else x


@pytest.mark.parametrize(("name", "least"), [("f16", 2.0**-14), ("bf16", 2.0**-126)])
def test_flush_saturate_and_relu_of_halves(name, least):
    """Numbers at and below the smallest normal one, from 0 to 1 and beyond."""
    few = [0.0, -0.0, 1.0, -1.0, 0.5, least, -least, least / 2, least * 1.5, 0.75, math.nan]
    values = [encoded(x, name) for x in few]
    total = lambda *x: exact("add", "rn", name, *x)
    flushed = lambda a, b: ftz(total(ftz(a, least), ftz(b, least)), least)
    ways = {
        f"add.ftz.{name}": flushed if name == "f16" else None,
        f"add.sat.{name}": (lambda a, b: unit_interval(total(a, b))) if name == "f16" else None,
        f"fma.rn.relu.{name}": lambda a, b: total(a, b) if not total(a, b) <= 0 else 0.0,
    }
    for line, oracle in ways.items():
        one = f", 0x{encoded(1.0, name):04x}" if "fma" in line else ""
        operands = f"%i0{', %one' if one else ''}, %i1"
        if oracle:
            inputs = arrays(grid(values, values), 16)
            declare = f".reg .b16 %one; mov.b16 %one{one};" if one else ""
            (got,) = execute(f"{line} %o0, {operands};", inputs, [16], declare)
            for a, b, have in zip(*inputs, got, strict=True):
                want = oracle(number(int(a), name), number(int(b), name))
                have = number(int(have), name)
                assert have == want or (math.isnan(have) and math.isnan(want)), (line, a, b)


def test_flush_and_saturate_in_conversions():
    tiny = [
        bits32(x) for x in (0.0, 2.0**-126, 2.0**-127, -(2.0**-127), 2.0**-149, 1.5, -0.25, 1e9)
    ]
    read = lambda a: ftz(f32(a))
    for line, oracle, out in [
        ("cvt.rpi.ftz.s32.f32 %o0, %i0;", lambda a: clamped(math.ceil(read(a)), 32, True), 32),
        ("cvt.rmi.ftz.s64.f32 %o0, %i0;", lambda a: math.floor(read(a)), 64),
        ("cvt.rpi.s32.f32 %o0, %i0;", lambda a: clamped(math.ceil(f32(a)), 32, True), 32),
        ("cvt.ftz.f64.f32 %o0, %i0;", lambda a: encoded(read(a), "f64"), 64),
        ("cvt.ftz.sat.f32.f32 %o0, %i0;", lambda a: bits32(unit_interval(read(a))), 32),
        ("cvt.rn.sat.f16.f32 %o0, %i0;", lambda a: encoded(unit_interval(f32(a)), "f16"), 16),
        (
            "cvt.rmi.ftz.f32.f32 %o0, %i0;",
            lambda a: bits32(math.floor(read(a)) or read(a) * 0.0),
            32,
        ),
    ]:
        check(line, [tiny], 32, oracle, out)
    doubles = [encoded(x, "f64") for x in (2.0**-126, 2.0**-127, -(2.0**-140), 1.5, -3.0)]
    check("cvt.rn.ftz.f32.f64", [doubles], 64, lambda a: bits32(ftz(number(a, "f64"))), 32)
    columns = grid(F32_BITS, F32_BITS[::4])
    less = lambda a, b: read(a) < read(b)
    check("setp.lt.ftz.f32 %p, %i0, %i1; selp.b32 %o0, 1, 0, %p;", columns, 32, less, 32)
    choose = lambda a: 1 if read(a) >= 0 else 2
    check("slct.ftz.s32.f32 %o0, 1, 2, %i0;", [tiny], 32, choose, 32)


def test_unsigned_comparisons_of_signed_types():
    unsigned = {"lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge}
    for name, oracle in unsigned.items():
        for type_ in ("s32", "u32"):
            line = f"setp.{name}.{type_} %p, %i0, %i1; selp.b32 %o0, 1, 0, %p;"
            check(line, grid(WORDS[32], WORDS[32]), 32, oracle, 32)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_combined_comparisons_of_pairs(name):
    """Each half's result is combined with one predicate; integers get a mask for each half."""
    values = [encoded(x, name) for x in FEW[:6]]
    pairs = [a | b << 16 for a, b in itertools.product(values[::2], values[1::2])]
    columns = grid(pairs, pairs[::2], [0, 1])
    halves = lambda a, b: [number(a >> s, name) < number(b >> s, name) for s in (0, 16)]
    select = "selp.b32 %o0, 1, 0, %p; selp.b32 %o1, 1, 0, %q;"
    for combine, operation in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)):
        line = f"setp.ne.u32 %p, %i2, 0; setp.lt.{combine}.{name}x2 %p|%q, %i0, %i1, %p; {select}"
        oracle = lambda a, b, c, o=operation: [o(int(h), c) for h in halves(a, b)]
        check(line, columns, 32, lambda a, b, c, f=oracle: tuple(f(a, b, c)), [32, 32])
        line = f"setp.ne.u32 %p, %i2, 0; set.lt.{combine}.u32.{name}x2 %o0, %i0, %i1, %p;"
        masks = lambda a, b, c, f=oracle: f(a, b, c)[0] * 0xFFFF | f(a, b, c)[1] * 0xFFFF0000
        check(line, columns, 32, masks)
    mask = lambda a, b: sum(0xFFFF << 16 * n for n, h in enumerate(halves(a, b)) if h)
    check(f"set.lt.u32.{name}x2", columns[:2], 32, mask)


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
        # reads no carry
        check_words(f"{name_}.cc.{name} %o0, %i2, %i3; {first}.{name} %o1, %i2, %i3;", operation, 2)
    lines = f"mad.lo.cc.{name} %o0, %i0, %i1, %i2; madc.hi.{name} %o1, %i0, %i1, %i3;"

    def product(a, b, c, d):
        x, y = (signed(a, bits), signed(b, bits)) if name[0] == "s" else (a, b)
        return (x * y & mask) + c, (x * y >> bits) + d + ((x * y & mask) + c >> bits)

    check(lines, columns, [bits] * 4, product, [bits] * 2)


# the rest of the integers


def test_products_of_24_bits_and_dot_products():
    columns = grid(WORDS[32], WORDS[32], WORDS[32][::5])
    for kind, read in {"s": lambda x: signed(x, 24), "u": lambda x: x & 0xFFFFFF}.items():
        for part, shift in {"lo": 0, "hi": 16}.items():
            product = lambda a, b, c, r=read, n=shift: r(a) * r(b) >> n
            check(f"mul24.{part}.{kind}32", columns[:2], 32, lambda a, b, p=product: p(a, b, 0))
            total = lambda a, b, c, p=product: p(a, b, c) + c
            check(f"mad24.{part}.{kind}32", columns, 32, total)

    def parts(x, bits, sign):
        fields = [x >> s & (1 << bits) - 1 for s in range(0, 32, bits)]
        return [signed(f, bits) for f in fields] if sign else fields

    for s, t in itertools.product((False, True), repeat=2):
        a_type, b_type = ("s32" if s else "u32"), ("s32" if t else "u32")
        dot = lambda a, b, c, s=s, t=t: (
            c + sum(x * y for x, y in zip(parts(a, 8, s), parts(b, 8, t), strict=True))
        )
        check(f"dp4a.{a_type}.{b_type}", columns, 32, dot)
        for half, first in (("lo", 0), ("hi", 2)):

            def two(a, b, c, s=s, t=t, first=first):
                return c + sum(
                    x * y
                    for x, y in zip(parts(a, 16, s), parts(b, 8, t)[first : first + 2], strict=True)
                )

            check(f"dp2a.{half}.{a_type}.{b_type}", columns, 32, two)


def test_extension_from_a_position():
    columns = grid(WORDS[32], [0, 1, 5, 31, 32, 33, 100])

    def extend(a, b, sign, wrap):
        n = b % 32 if wrap else min(b, 32)
        return signed(a, n) if sign and n else a & (1 << n) - 1

    for mode, wrap in (("wrap", True), ("clamp", False)):
        check(f"szext.{mode}.u32", columns, 32, lambda a, b, w=wrap: extend(a, b, False, w))
        check(f"szext.{mode}.s32", columns, 32, lambda a, b, w=wrap: extend(a, b, True, w))


def test_pairs_of_integers():
    columns = grid(WORDS[32], WORDS[32])

    def pairs(a, b, sign, operation):
        read = (lambda x: signed(x, 16)) if sign else (lambda x: x)
        return sum(
            (operation(read(a >> s & 0xFFFF), read(b >> s & 0xFFFF)) & 0xFFFF) << s for s in (0, 16)
        )

    for kind, sign in (("s", True), ("u", False)):
        for name, operation in {"add": lambda x, y: x + y, "min": min, "max": max}.items():
            oracle = lambda a, b, s=sign, o=operation: pairs(a, b, s, o)
            check(f"{name}.{kind}16x2", columns, 32, oracle)
    relu = lambda a, b: pairs(a, b, True, lambda x, y: max(x, y, 0))
    check("max.relu.s16x2", columns, 32, relu)


VIDEO = {
    "vadd": lambda x, y: x + y,
    "vsub": lambda x, y: x - y,
    "vabsdiff": lambda x, y: abs(x - y),
    "vmin": min,
    "vmax": max,
}


@pytest.mark.parametrize(("kind", "sign"), [("s32", True), ("u32", False)])
def test_video_instructions(kind, sign):
    columns = grid(WORDS[32], WORDS[32])
    read = lambda x, bits=32: signed(x, bits) if sign else x & (1 << bits) - 1
    for name, operation in VIDEO.items():
        plain = lambda a, b, o=operation: o(read(a), read(b))
        check(f"{name}.{kind}.{kind}.{kind}", columns, 32, plain)
        sat = lambda a, b, o=operation: clamped(o(read(a), read(b)), 32, sign)
        check(f"{name}.{kind}.{kind}.{kind}.sat", columns, 32, sat)
        then = lambda a, b, o=operation: max(read(o(read(a), read(b)) & 0xFFFFFFFF), read(b))
        check(f"{name}.{kind}.{kind}.{kind}.max %o0, %i0, %i1, %i1;", columns, [32] * 2, then, 32)
    shifts = grid(WORDS[32], [0, 1, 5, 31, 32, 40])
    check(f"vshl.{kind}.{kind}.u32.clamp", shifts, 32, lambda a, b: read(a) << min(b, 32))
    check(f"vshr.{kind}.{kind}.u32.wrap", shifts, 32, lambda a, b: read(a) >> (b & 31))
    check(f"vshl.u32.u32.{kind}.wrap", shifts, 32, lambda a, b: a << (b & 31))
    check(f"vshr.u32.u32.{kind}.clamp", shifts, 32, lambda a, b: a >> min(b, 32))


@pytest.mark.parametrize(("kind", "sign"), [("s32", True), ("u32", False)])
@pytest.mark.parametrize("lanes", [2, 4])
def test_video_instructions_on_parts(lanes, kind, sign):
    columns = grid([*WORDS[32], 0x7F80FF01, 0x80017FFF], WORDS[32])
    bits = 32 // lanes
    read = lambda x: signed(x, bits) if sign else x
    split = lambda x: [read(x >> s & (1 << bits) - 1) for s in range(0, 32, bits)]
    average = lambda x, y: x + y + (x + y >= 0) >> 1  # halves away from zero
    joined = lambda parts: sum((p & (1 << bits) - 1) << i * bits for i, p in enumerate(parts))
    for name, operation in {**VIDEO, "vavrg": average}.items():
        results = lambda a, b, o=operation: [
            o(x, y) for x, y in zip(split(a), split(b), strict=True)
        ]
        opcode = f"{name}{lanes}.{kind}.{kind}.{kind}"
        check(
            f"{opcode} %o0, %i0, %i1, %i0;",
            columns,
            [32] * 2,
            lambda a, b, r=results: joined(r(a, b)),
            32,
        )
        sat = lambda a, b, r=results: joined([clamped(x, bits, sign) for x in r(a, b)])
        check(f"{opcode}.sat %o0, %i0, %i1, %i0;", columns, [32] * 2, sat, 32)
        total = lambda a, b, r=results: a + sum(r(a, b))
        check(f"{opcode}.add %o0, %i0, %i1, %i0;", columns, [32] * 2, total, 32)


def test_every_instruction_has_met_its_oracle(request):
    """Stands last: what the tests above ran, against what is registered."""
    here = {item.originalname for item in request.session.items if item.module is request.module}
    if {name for name in globals() if name.startswith("test_")} - here:
        pytest.skip("not all tests of this module were chosen")
    missing = sorted(f"{opcode}.{t or ''}" for opcode, t in set(registry.ELEMENTWISE) - TRIED)
    assert not missing, " ".join(missing)


IMMEDIATES = [
    *(
        (f"shf.{way}.{mode}.b32", n)
        for way in "lr"
        for mode in ("wrap", "clamp")
        for n in (0, 7, 31, 32, 40, 63)
    ),
    *(("prmt.b32", s) for s in (0x5410, 0x7632, 0x3210, 0x0123, 0x4321, 0x7531, 0x1111, 0x6EA1)),
]


def test_an_immediate_gives_what_a_register_does():
    a, b = np.random.default_rng(7).integers(0, 2**32, (2, 64), dtype=np.uint32)
    for name, value in IMMEDIATES:
        lines = f"{name} %o0, %i0, %i1, {value}; {name} %o1, %i0, %i1, %i2;"
        first, second = execute(lines, [a, b, np.full(64, value, np.uint32)], [32, 32])
        assert (first == second).all(), (name, value)
