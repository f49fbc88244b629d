"""Conversion between types (PTX ISA 9.7.9.21)."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..machine import floats
from ..ptx.types import TYPES, Type
from .registry import Compute, Elementwise, Modifiers, elementwise

INT_MODES = ("rni", "rzi", "rmi", "rpi")
FLOAT_MODES = ("rn", "rz", "rm", "rp", "rna")
NARROW = ("f16", "bf16", "tf32")
ROUND = {mode: floats.ROUNDED[mode.removesuffix("i")] for mode in INT_MODES}


SOURCES = [
    name
    for name, t in TYPES.items()
    if t.kind in "su" or name in ("f16", "bf16", "f32", "f64", "f16x2")
]


@elementwise("cvt", SOURCES)
def cvt(m: Modifiers) -> Elementwise:
    """cvt: from the last type to the first, rounded and saturated as asked (PTX ISA 9.7.9.21)."""
    for name in ("e4m3x2", "e5m2x2"):
        if m.flag(name):
            return _fp8(m, name.removesuffix("x2"))
    if len(m.types) != 2:
        m.reject("this combination of types")
    to, source = m.types
    integer_mode, float_mode = m.one_of(INT_MODES), m.one_of(FLOAT_MODES)
    ftz, sat, relu = m.flag("ftz"), m.flag("sat"), m.flag("relu")
    m.flag("satfinite") and m.reject(".satfinite")
    packed = to.name in ("f16x2", "bf16x2")
    if packed:
        return _pack_two(m, to, float_mode or "rn", relu)
    if source.kind == "f" and to.kind == "f":
        compute = _float_to_float(to, source, float_mode or "rn", integer_mode, ftz, sat, relu)
    elif source.kind == "f":
        compute = _float_to_int(to, source, integer_mode or "rzi", ftz)
    elif to.kind == "f":
        compute = _int_to_float(to, source, float_mode or "rn", sat)
    else:
        compute = _int_to_int(to, source, sat)
    return Elementwise(compute, to, (source,))


def widened(x: np.ndarray, t: Type) -> np.ndarray:
    """Return a value of a float type as float64, exactly."""
    return (floats.unpack(x, t.name) if t.name in NARROW else x).astype(np.float64)


def _pack_two(m: Modifiers, to: Type, mode: str, relu: bool) -> Elementwise:
    """cvt.rn.f16x2.f32 d, a, b: a goes to the upper half, b to the lower."""
    name, f32 = to.name.removesuffix("x2"), TYPES["f32"]
    if m.two_types()[1].name != "f32" or len(m.instruction.operands) != 3:
        m.reject("this source type")

    def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return floats.joined(floats.pack(b, name, mode, relu), floats.pack(a, name, mode, relu))

    return Elementwise(compute, to, (f32, f32))


def _fp8(m: Modifiers, name: str) -> Elementwise:
    """Convert pairs of 8-bit floats, from two f32 or a pair of f16, and back to a pair of f16."""
    t, b16 = m.type, TYPES["b16"]
    m.flag("rn")
    relu = m.flag("relu")
    to_fp8 = m.instruction.modifiers[-1] == t.name
    if m.flag("satfinite") != to_fp8 or t.name not in (("f32", "f16x2") if to_fp8 else ("f16x2",)):
        m.reject("this combination of types")

    def joined(high: np.ndarray, low: np.ndarray) -> np.ndarray:
        packed = [floats.pack_fp8(x, name, relu).astype(np.uint16) for x in (high, low)]
        return packed[0] << np.uint16(8) | packed[1]

    if not to_fp8:

        def widen(x: np.ndarray) -> np.ndarray:
            raw = np.ascontiguousarray(x).view(np.uint8)
            pair = (floats.unpack_fp8(raw[i::2].copy(), name).astype(np.float64) for i in (0, 1))
            return floats.joined(*(floats.pack(value, "f16", "rn", relu) for value in pair))

        return Elementwise(widen, t, (b16,))
    if t.name == "f32":
        return Elementwise(joined, b16, (t, t))
    of_pair = lambda x: joined(*(floats.unpack(h, "f16") for h in floats.halves(x)[::-1]))
    return Elementwise(of_pair, b16, (t,))


def _same(x: np.ndarray) -> np.ndarray:
    return x


def _float_to_float(
    to: Type, source: Type, mode: str, integer: str | None, ftz: bool, sat: bool, relu: bool
) -> Compute:
    if to.name == source.name == "f32" and integer is None:
        compute: Compute = _same
    elif to.name == "f32" and source.name in NARROW and integer is None:
        compute = partial(floats.unpack, name=source.name)
    else:

        def converted(x: np.ndarray) -> np.ndarray:
            value = widened(x, source)
            if integer is not None:
                value = np.copysign(ROUND[integer](value), value)
            if sat and to.name in NARROW:
                value = floats.saturate(value)
            if to.name in NARROW:
                return floats.pack(value, to.name, mode, relu)
            return floats.to_f32(value, mode) if to.name == "f32" else value

        compute = converted
    inner = compute
    if ftz and (source.name == "f32" or to.name == "f32"):
        before: Compute = floats.flush if source.name == "f32" else _same
        after: Compute = floats.flush if to.name == "f32" else _same
        compute = lambda x: after(inner(before(x)))
    if sat and to.name not in NARROW:
        unclamped = compute
        return lambda x: floats.saturate(unclamped(x))
    return compute


def _float_to_int(to: Type, source: Type, mode: str, ftz: bool) -> Compute:
    """Convert what is out of range to the nearest integer of the type.

    NaN becomes 0, but 2^(n-1) where a 64-bit type takes part.
    """
    info = np.iinfo(to.dtype)
    nan = to.dtype.type(0)
    if source.name == "f64" or to.bits == 64:
        nan = to.dtype.type(info.min if to.signed else 1 << (to.bits - 1))
    # The largest numbers of 64 bits round to 2^63 and 2^64.
    above = float(info.max) + (0.0 if to.bits == 64 else 1.0)

    def compute(x: np.ndarray) -> np.ndarray:
        if ftz and source.name == "f32":
            x = floats.flush(x)
        whole = ROUND[mode](widened(x, source))
        inside = (whole >= float(info.min)) & (whole < above)
        result = np.where(inside, whole, 0.0).astype(to.dtype)
        result = np.where(whole >= above, to.dtype.type(info.max), result)
        result = np.where(whole < float(info.min), to.dtype.type(info.min), result)
        return np.where(np.isnan(whole), nan, result)

    return compute


def _int_to_float(to: Type, source: Type, mode: str, sat: bool) -> Compute:
    def exact_enough(x: np.ndarray) -> np.ndarray:
        """Return integers as float64, rounded to odd where 64 bits do not fit."""
        value = x.astype(np.float64)
        if source.bits < 64 or to.name == "f64":
            return value
        big = np.abs(value) >= 2.0**62
        back = np.where(big, 0.0, value).astype(x.dtype)
        error = np.where(big, x - _big(value, x.dtype), x - back).view(np.int64)
        return floats.to_odd(value, np.sign(error).astype(np.float64))

    def compute(x: np.ndarray) -> np.ndarray:
        if to.name == "f64":
            if mode == "rn" or source.bits < 64:
                return x.astype(np.float64)
            return _int64_to_double(x, mode)
        value = exact_enough(x)
        if to.name in NARROW:
            return floats.pack(value, to.name, mode)
        result = floats.to_f32(value, mode)
        return floats.saturate(result) if sat and to.name == "f32" else result

    return compute


def _big(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert doubles of 2^62 and more back to integers, modulo 2^64 (2^64 itself becomes 0)."""
    with np.errstate(all="ignore"):
        # Such doubles are multiples of 2^10, or at least of 512.
        half = np.ldexp(value, -11).astype(np.int64)
        low = (value - np.ldexp(half.astype(np.float64), 11)).astype(np.int64)
    return ((half << 11) + low).view(dtype)


def _int64_to_double(x: np.ndarray, mode: str) -> np.ndarray:
    nearest = x.astype(np.float64).tolist()
    pairs = zip(x.tolist(), nearest, strict=True)
    return np.array([floats.directed(value, exact - int(value), mode) for exact, value in pairs])


def _int_to_int(to: Type, source: Type, sat: bool) -> Compute:
    if not sat:
        return lambda x: x.astype(to.dtype)
    ends, info = np.iinfo(to.dtype), np.iinfo(source.dtype)
    low = source.dtype.type(max(ends.min, info.min))
    high = source.dtype.type(min(ends.max, info.max))
    return lambda x: np.clip(x, low, high).astype(to.dtype)
