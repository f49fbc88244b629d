"""Rounding as the hardware does it, on arrays.

The tool throughout: compute in float64, *round to odd* where float64 itself had to round, then
round once more to the narrow format. Rounding to odd with at least two spare bits makes the second
rounding the only one that shows (Boldo and Melquiond, "Emulation of FMA and correctly rounded
sums", 2008).

A float32 NaN that arithmetic made becomes 0x7fffffff only when its bits are looked at:
`canonical_bits`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

F4, F8 = np.dtype("f4"), np.dtype("f8")
U2, U4, U8, I8 = np.dtype("u2"), np.dtype("u4"), np.dtype("u8"), np.dtype("i8")
NAN32, NAN16 = np.uint32(0x7FFFFFFF), np.uint16(0x7FFF)


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: bits of precision, least exponent of a normal number, largest
    finite value.
    """

    precision: int
    min_exponent: int
    largest: float


FORMATS = {
    "f16": Format(11, -14, 65504.0),
    "bf16": Format(8, -126, float.fromhex("0x1.FEp127")),
    "tf32": Format(11, -126, float.fromhex("0x1.FFCp127")),
    "f32": Format(24, -126, float.fromhex("0x1.FFFFFEp127")),
}


# Each mode has a function that rounds to whole numbers.
ROUNDED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rn": np.rint,
    "rz": np.trunc,
    "rm": np.floor,
    "rp": np.ceil,
    "rna": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}


def canonical_bits(x: np.ndarray) -> np.ndarray:
    """Return the bits of a float array; every NaN of a float32 becomes the one that arithmetic
    makes, 0x7fffffff.
    """
    if x.dtype == F4:
        bits = x.view(U4)
        nan = np.isnan(x)
        return np.where(nan, NAN32, bits) if np.count_nonzero(nan) else bits
    return x.view(U8)


def flush(x: np.ndarray) -> np.ndarray:
    """`.ftz`: subnormal values to zero of their sign."""
    tiny = np.abs(x) < (np.float32(2.0**-126) if x.dtype == F4 else 2.0**-1022)
    return np.where(tiny, np.copysign(x.dtype.type(0), x), x) if np.count_nonzero(tiny) else x


def saturate(x: np.ndarray) -> np.ndarray:
    """`.sat`: clamp to [0, 1]; NaN becomes +0."""
    return np.where(x > 0, np.minimum(x, x.dtype.type(1)), x.dtype.type(0))


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """float64 sum and its exact error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """float64 product and its exact error (Dekker's splitting); without overflow or underflow."""
    p = a * b
    ta, tb = a * 134217729.0, b * 134217729.0
    ah, bh = ta - (ta - a), tb - (tb - b)
    al, bl = a - ah, b - bh
    return p, al * bl - (((p - ah * bh) - al * bh) - ah * bl)


def to_odd(nearest: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Round to odd, from a float64 rounded to nearest and the sign of what rounding dropped."""
    bits = nearest.view(I8)
    even = ((bits & 1) == 0) & (error != 0) & np.isfinite(nearest)
    # `away` is true where the exact value lies further from zero.
    away = (error > 0) == (nearest > 0)
    step = np.where(away, I8.type(1), I8.type(-1))
    return np.where(even & (nearest != 0), bits + step, bits).view(F8)


def quantize(x: np.ndarray, format_name: str, mode: str = "rn", relu: bool = False) -> np.ndarray:
    """Round float64 values to the nearest of a format, in the rounding mode rn, rz, rm, rp or rna;
    as float64.

    Overflow follows the mode (PTX ISA 9.7.9.21): rz stops at the largest finite value, rn goes to
    infinity.
    """
    fmt = FORMATS[format_name]
    _, exponent = np.frexp(x)
    scale = np.maximum(exponent - fmt.precision, fmt.min_exponent - fmt.precision + 1)
    units = np.ldexp(x, -scale)
    units = ROUNDED[mode](units)
    rounded = np.where(np.isfinite(x), np.copysign(np.ldexp(units, scale), x), x)
    over = (np.abs(rounded) > fmt.largest) & np.isfinite(x)
    if np.count_nonzero(over):
        clamps: Any = {"rz": True, "rm": x > 0, "rp": x < 0}.get(mode, False)
        limit = np.where(clamps, fmt.largest, np.inf)
        rounded = np.where(over, np.copysign(limit, x), rounded)
    if relu:
        # -0 becomes +0, too.
        rounded = np.where(rounded <= 0, 0.0, rounded)
    return rounded


def to_f32(x: np.ndarray, mode: str = "rn") -> np.ndarray:
    """float64 to float32, rounded once in the given mode."""
    return x.astype(F4) if mode == "rn" else quantize(x, "f32", mode).astype(F4)


_LOW, _HALF = np.int64(0x1FFFFFFF), np.int64(0x10000000)


def fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """float32 a * b + c, rounded once to nearest even.

    The product of two float32 is exact in float64. Where the float64 sum lies exactly half-way
    between two float32 (its 29 spare bits are 100...0), or is so small that more bits are spare, it
    may have been rounded to there: only then is the slow way taken.
    """
    s = np.multiply(a, b, dtype=F8)
    s += c
    r = s.astype(F4)
    if np.count_nonzero((s.view(I8) & _LOW) == _HALF) or _tiny(r, s):
        p = np.multiply(a, b, dtype=F8)
        s, error = two_sum(p, c.astype(F8))
        r = np.where(np.isfinite(s), to_odd(s, error), s).astype(F4)
    return r


def fma32_rows(
    factors: list[tuple[np.ndarray, np.ndarray]], addends: list[np.ndarray]
) -> np.ndarray:
    """`fma32` of several instructions at once, [instructions, threads].

    Factors are float32 values held as float64.
    """
    c = np.concatenate(addends).reshape(len(addends), -1)
    s = np.empty(c.shape, F8)
    for into, (a, b) in zip(s, factors, strict=True):
        np.multiply(a, b, into)
    s += c
    r = s.astype(F4)
    if np.count_nonzero((s.view(I8) & _LOW) == _HALF) or _tiny(r, s):
        for row, (a, b), addend in zip(r, factors, addends, strict=True):
            row[:] = fma32(a.astype(F4), b.astype(F4), addend)
    return r


def _tiny(r: np.ndarray, s: np.ndarray) -> bool:
    """Return whether any value is subnormal, or became zero: then the place of the half-way bit
    varies.
    """
    if not np.count_nonzero((r.view(U4) << np.uint32(1)) < np.uint32(0x02000000)):
        return False
    magnitude = np.abs(s)
    return bool(np.count_nonzero((magnitude < 2.0**-125) & (magnitude != 0)))


def sum_odd(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """float64 sum rounded to odd."""
    s, error = two_sum(a, b)
    return np.where(np.isfinite(s), to_odd(s, error), s)


def quotient_odd(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """float64 quotient of float32 values, rounded to odd."""
    q = a / b
    high, low = two_product(q, b)
    error = ((a - high) - low) * np.where(b < 0, -1.0, 1.0)
    return np.where(np.isfinite(q) & np.isfinite(b) & (q != 0), to_odd(q, error), q)


def root_odd(a: np.ndarray) -> np.ndarray:
    """float64 square root of float32 values, rounded to odd."""
    q = np.sqrt(a)
    high, low = two_product(q, q)
    return np.where(np.isfinite(q) & (q != 0), to_odd(q, (a - high) - low), q)


# These operations of float32 operands are rounded to odd in float64.
ODD: dict[str, Callable[..., np.ndarray]] = {
    "add": sum_odd,
    "sub": lambda a, b: sum_odd(a, -b),
    "mul": np.multiply,
    "fma": lambda a, b, c: sum_odd(a * b, c),
    "div": quotient_odd,
    "rcp": lambda a: quotient_odd(np.ones_like(a), a),
    "sqrt": root_odd,
}
# These are the same operations of float64 and of fractions.
PLAIN: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "fma": lambda a, b, c: a * b + c,
    "div": operator.truediv,
    "rcp": lambda a: 1 / a,
    "sqrt": np.sqrt,
}
# Sums have these two terms: an exact zero of opposite signs is -0 when rounding down.
TERMS: dict[str, Callable[..., tuple[Any, Any]]] = {
    "add": lambda a, b: (a, b),
    "sub": lambda a, b: (a, -b),
    "fma": lambda a, b, c: (a * b, c),
}


def rounded_f32(operation: str, mode: str, *operands: np.ndarray) -> np.ndarray:
    """Compute a float32 operation in a rounding mode other than nearest."""
    x = [o.astype(F8) for o in operands]
    exact = ODD[operation](*x)
    result = to_f32(exact, mode)
    if mode == "rm" and operation in TERMS:
        first, second = TERMS[operation](*x)
        zero = (result == 0) & ~((np.copysign(1, first) > 0) & (np.copysign(1, second) > 0))
        result = np.where(zero & (exact == 0), np.float32(-0.0), result)
    return result


def rounded_f64(operation: str, mode: str, *operands: np.ndarray) -> np.ndarray:
    """Compute a float64 operation exactly, lane by lane: for fma in every mode, and for the modes
    other than nearest.
    """
    out = np.empty_like(operands[0])
    for i, values in enumerate(zip(*(o.tolist() for o in operands), strict=True)):
        out[i] = _exact64(operation, mode, values)
    return out


def _exact64(operation: str, mode: str, values: tuple[float, ...]) -> float:
    with np.errstate(all="ignore"):
        x = [np.float64(v) for v in values]
        plain = PLAIN[operation](*x)
    if not all(np.isfinite(v) for v in values):
        if operation == "fma" and np.isfinite(values[0]) and np.isfinite(values[1]):
            # The product may overflow, but the exact one does not.
            return values[2]
        return float(plain)
    f = [Fraction(v) for v in values]
    if operation == "sqrt":
        return float("nan") if f[0] < 0 else _root64(f[0], mode)
    try:
        exact = PLAIN[operation](*f)
    except ZeroDivisionError:
        return float(plain)
    if exact == 0:
        if mode != "rm" or operation not in TERMS:
            return float(plain * 0.0)
        return -0.0 if any(np.signbit(term) for term in TERMS[operation](*x)) else 0.0
    return _fraction_to_double(exact, mode)


def directed(nearest: float, error: Fraction | int, mode: str) -> float:
    """Return the double for an exact value in a rounding mode, from the nearest one and what that
    lacks.
    """
    up = mode == "rp" or (mode == "rz" and math.copysign(1, nearest) < 0)
    if mode == "rn" or not error or up != (error > 0):
        return nearest
    return float(np.nextafter(nearest, np.inf if up else -np.inf))


def _root64(value: Fraction, mode: str) -> float:
    nearest = float(np.sqrt(float(value)))
    return directed(nearest, value - Fraction(nearest) ** 2, mode)


def _fraction_to_double(value: Fraction, mode: str) -> float:
    try:
        # Python rounds this quotient correctly.
        nearest = value.numerator / value.denominator
    except OverflowError:
        nearest = float("inf") if value > 0 else float("-inf")
    if not np.isinf(nearest):
        return directed(nearest, value - Fraction(nearest), mode)
    up = mode == "rp" or (mode == "rz" and value < 0)
    largest = float(np.finfo(F8).max)
    return nearest if mode == "rn" or (value > 0) == up else (largest if value > 0 else -largest)


def fma64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """float64 a * b + c, rounded once (Boldo and Melquiond); exactly, lane by lane, where exponents
    are extreme.
    """
    uh, ul = two_product(a, b)
    th, tl = two_sum(c, ul)
    vh, vl = two_sum(uh, th)
    z, error = two_sum(tl, vl)
    product = a * b
    # The product or the sum is exact in these cases.
    one_rounding = (a == 0) | (b == 0) | ((c == 0) & (product != 0))
    result = np.where(one_rounding, product + c, vh + to_odd(z, error))
    magnitude = np.abs(np.stack(np.broadcast_arrays(a, b, c, product, result)))
    safe = one_rounding | np.all((magnitude < 2.0**900) & (magnitude > 2.0**-900), axis=0)
    if not safe.all():
        odd = np.flatnonzero(~safe)
        result[odd] = rounded_f64(
            "fma", "rn", *(np.ascontiguousarray(o[odd]) for o in np.broadcast_arrays(a, b, c))
        )
    return result


# 16-bit formats: their bits as uint16


def unpack(bits: np.ndarray, name: str) -> np.ndarray:
    """Convert bits of f16 or bf16 (uint16), or tf32 (uint32), to float32, exactly. tf32: the upper
    19 bits count.
    """
    match name:
        case "f16":
            return bits.view(np.float16).astype(F4)
        case "bf16":
            return (bits.astype(U4) << np.uint32(16)).view(F4)
        case "tf32":
            return (bits & np.uint32(0xFFFFE000)).view(F4)
    raise ValueError(name)


def pack(x: np.ndarray, name: str, mode: str = "rn", relu: bool = False) -> np.ndarray:
    """float64 (or exact float32) values to the bits of f16 or bf16 (uint16) or tf32 (uint32),
    rounded once.
    """
    nan = np.isnan(x)
    if name == "f16" and mode == "rn" and not relu:
        bits = x.astype(np.float16).view(U2)
        return np.where(nan, NAN16, bits)
    rounded = quantize(x.astype(F8), name, mode, relu)
    if name == "f16":
        return np.where(nan, NAN16, rounded.astype(np.float16).view(U2))
    bits = rounded.astype(F4).view(U4)
    if name == "tf32":
        return np.where(nan, NAN32, bits)
    return np.where(nan, NAN16, (bits >> np.uint32(16)).astype(U2))


FP8 = {"e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2)}


def unpack_fp8(bits: np.ndarray, name: str) -> np.ndarray:
    """8-bit floats to float32, exactly."""
    return bits.view(FP8[name]).astype(np.float32)


def pack_fp8(x: np.ndarray, name: str, relu: bool = False) -> np.ndarray:
    """float32 to 8-bit floats: to nearest, ties to even; what is too large becomes the largest
    (`.satfinite`), NaN the NaN 0x7f (PTX ISA 9.7.9.21)."""
    largest = np.float32(ml_dtypes.finfo(FP8[name]).max)  # type: ignore[no-untyped-call]  # the library does not say
    inside = np.clip(np.where(x > 0, x, np.float32(0)) if relu else x, -largest, largest).astype(
        np.float32
    )
    bits = inside.astype(FP8[name]).view(np.uint8)
    return np.where(np.isnan(x), np.uint8(0x7F), bits)


def halves(bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper 16 bits of packed pairs."""
    return (bits & np.uint32(0xFFFF)).astype(U2), (bits >> np.uint32(16)).astype(U2)


def joined(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Packed pairs out of lower and upper 16 bits."""
    return low.astype(U4) | (high.astype(U4) << np.uint32(16))
