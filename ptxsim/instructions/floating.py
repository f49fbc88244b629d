"""Arithmetic of floats: f32 and f64 (PTX ISA 9.7.3), f16, bf16 and their packed pairs (9.7.4).

f32 results are rounded once, in the mode asked for; `.ftz` makes subnormal operands and results
zero. The approximations (`.approx`, `.full`, and every ex2, lg2, sin, cos, tanh, rsqrt) are
computed in float64 and rounded to nearest: at least as close as the hardware's, whose tables NVIDIA
does not publish, so the last bits may differ. Products and sums of 16-bit formats are exact in
float64, so each result is rounded once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..machine import floats
from ..ptx.types import FLOATS, HALVES, TYPES, Type
from .registry import Compute, Elementwise, Modifiers, elementwise, same_type

MODES = ("rn", "rz", "rm", "rp")


def finished(m: Modifiers, compute: Compute, count: int) -> Elementwise:
    """Return an operation on `count` operands of the instruction's type, with its `.ftz` and
    `.sat`.
    """
    t = m.type
    ftz, sat = m.flag("ftz"), m.flag("sat")
    if ftz:
        inner = compute
        compute = lambda *x: floats.flush(inner(*map(floats.flush, x)))
    if sat:
        unclamped = compute
        compute = lambda *x: floats.saturate(unclamped(*x))
    return Elementwise(compute, t, (t,) * count)


def arithmetic(m: Modifiers, operation: str, nearest: Compute, count: int) -> Elementwise:
    """Return an IEEE operation in its rounding mode."""
    mode = m.one_of(MODES, "rn")
    if mode == "rn":
        return finished(m, nearest, count)
    exact = floats.rounded_f32 if m.type.name == "f32" else floats.rounded_f64
    return finished(m, lambda *x: exact(operation, mode, *x), count)


def approximate(function: Compute) -> Compute:
    """Return a function computed in float64 and rounded to the type of its operand."""
    return lambda x: function(x.astype(np.float64)).astype(x.dtype)


def _ieee(opcode: str, nearest: Compute, count: int, flags: tuple[str, ...] = ()) -> None:
    """Register an operation on `count` operands; flags of approximations are rounded to nearest
    here.
    """

    def build(m: Modifiers) -> Elementwise:
        m.one_of(flags)
        return arithmetic(m, opcode, nearest, count)

    elementwise(opcode, FLOATS)(build)


_ieee("add", np.add, 2)  # PTX ISA 9.7.3.3
_ieee("sub", np.subtract, 2)  # 9.7.3.4
_ieee("mul", np.multiply, 2)  # 9.7.3.5
_ieee("div", np.divide, 2, ("approx", "full"))  # 9.7.3.8
_ieee("rcp", lambda a: a.dtype.type(1) / a, 1, ("approx",))  # 9.7.3.13
_ieee("sqrt", np.sqrt, 1, ("approx",))  # 9.7.3.15
elementwise("abs", FLOATS)(lambda m: finished(m, np.abs, 1))  # 9.7.3.9
elementwise("neg", FLOATS)(lambda m: finished(m, np.negative, 1))  # 9.7.3.10


def _approximation(opcode: str, function: Compute, types: tuple[str, ...] = ("f32",)) -> None:
    """Register a function of one operand."""

    def build(m: Modifiers) -> Elementwise:
        m.flag("approx")
        return finished(m, approximate(function), 1)

    elementwise(opcode, types)(build)


_approximation("rsqrt", lambda x: 1 / np.sqrt(x), FLOATS)  # PTX ISA 9.7.3.16
_approximation("sin", np.sin)  # 9.7.3.18
_approximation("cos", np.cos)  # 9.7.3.19
_approximation("lg2", np.log2)  # 9.7.3.20
_approximation("ex2", np.exp2)  # 9.7.3.21
_approximation("tanh", np.tanh)  # 9.7.3.22


@elementwise("fma", FLOATS)
def fma(m: Modifiers) -> Elementwise:
    """fma: a * b + c, rounded once (PTX ISA 9.7.3.6)."""
    return arithmetic(m, "fma", floats.fma32 if m.type.name == "f32" else floats.fma64, 3)


# From sm_20 on, mad is fma (PTX ISA 9.7.3.7).
elementwise("mad", FLOATS)(fma)


def minimum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the lesser; a number wins over NaN; -0 is less than +0."""
    return np.where(a == b, np.where(np.signbit(a), a, b), np.fmin(a, b))


def maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the greater; a number wins over NaN; +0 is greater than -0."""
    return np.where(a == b, np.where(np.signbit(a), b, a), np.fmax(a, b))


def register_extremes(
    types: tuple[str, ...], finish: Callable[[Modifiers, Compute, int], Elementwise]
) -> None:
    """Register min and max: `.NaN` lets NaN win; `.xorsign.abs` compares magnitudes (PTX ISA
    9.7.3.11, 9.7.3.12, 9.7.4.7, 9.7.4.8).
    """

    def register(opcode: str, choose: Compute) -> None:
        def build(m: Modifiers) -> Elementwise:
            nan, xorsign = m.flag("NaN"), m.flag("xorsign")
            m.flag("abs")

            def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
                result = choose(np.abs(a), np.abs(b)) if xorsign else choose(a, b)
                if nan:
                    result = np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), result)
                return (
                    np.where(np.signbit(a) ^ np.signbit(b), -result, result) if xorsign else result
                )

            return finish(m, compute, 2)

        elementwise(opcode, types)(build)

    register("min", minimum)
    register("max", maximum)


register_extremes(FLOATS, finished)
# b with the sign of a (PTX ISA 9.7.3.2)
same_type("copysign", FLOATS, lambda a, b: np.copysign(b, a), 2)


@elementwise("testp", FLOATS)
def testp(m: Modifiers) -> Elementwise:
    """testp: finite, infinite, number, notanumber, normal or subnormal (PTX ISA 9.7.3.1)."""
    t = m.type
    min_normal = np.finfo(t.dtype).smallest_normal
    tests: dict[str, Compute] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= min_normal),
        "subnormal": lambda a: (a != 0) & (np.abs(a) < min_normal),
    }
    test = m.one_of(tests) or m.reject("a test without its property")
    return Elementwise(tests[test], TYPES["pred"], (t,))


# f16, bf16 and their packed pairs (PTX ISA 9.7.4)


def on_halves(t: Type, function: Compute) -> Compute:
    """Return a function of float64 arrays as one of the bits of the type; of both halves for a
    packed type.
    """
    name = t.name.removesuffix("x2")

    def single(*bits: np.ndarray) -> np.ndarray:
        values = [floats.unpack(b, name).astype(np.float64) for b in bits]
        return floats.pack(function(*values), name)

    if not t.name.endswith("x2"):
        return single
    return lambda *pairs: floats.joined(*map(single, *map(floats.halves, pairs)))


def operation_on_halves(m: Modifiers, function: Compute, count: int) -> Elementwise:
    """Return an operation on `count` operands of 16 bits, with its `.ftz`, `.sat` and `.relu`."""
    t = m.type
    m.one_of(("rn",))
    if m.flag("ftz"):
        inner, tiny = function, 2.0**-14 if t.name.startswith("f16") else 2.0**-126

        def flushed(x: np.ndarray) -> np.ndarray:
            return np.where(np.abs(x) < tiny, np.copysign(0.0, x), x)

        function = lambda *x: flushed(inner(*map(flushed, x)))
    if m.flag("sat"):
        unclamped = function
        function = lambda *x: floats.saturate(unclamped(*x))
    if m.flag("relu"):
        signed = function
        function = lambda *x: (lambda y: np.where(y <= 0, 0.0, y))(signed(*x))
    return Elementwise(on_halves(t, function), t, (t,) * count)


def _of_halves(opcode: str, function: Compute, count: int, flags: tuple[str, ...] = ()) -> None:
    """Register a function of `count` operands; approximations are rounded to nearest here."""

    def build(m: Modifiers) -> Elementwise:
        m.one_of(flags)
        return operation_on_halves(m, function, count)

    elementwise(opcode, HALVES)(build)


_of_halves("add", np.add, 2)  # PTX ISA 9.7.4.1
_of_halves("sub", np.subtract, 2)  # 9.7.4.2
_of_halves("mul", np.multiply, 2)  # 9.7.4.3
# fma is rounded to odd in float64, then once (9.7.4.4).
_of_halves("fma", lambda a, b, c: floats.sum_odd(a * b, c), 3)
_of_halves("neg", np.negative, 1)  # 9.7.4.5
_of_halves("abs", np.abs, 1)  # 9.7.4.6
_of_halves("tanh", np.tanh, 1, ("approx",))  # 9.7.4.9
_of_halves("ex2", np.exp2, 1, ("approx",))  # 9.7.4.10
register_extremes(HALVES, operation_on_halves)
