"""Arithmetic of f16, bf16 and their packed pairs (PTX ISA 9.7.4).

Products and sums of these formats are exact in float64, so each result is rounded once.
"""

from __future__ import annotations

import numpy as np

from ..machine import floats
from ..ptx.types import HALVES, Type
from .floating import register_extremes
from .registry import Compute, Elementwise, Modifiers, elementwise


def on_halves(t: Type, function: Compute) -> Compute:
    """Return a function of float64 arrays as one of the bits of the type; of both halves for a
    packed type.
    """
    name = t.name.removesuffix("x2")

    def single(*bits: np.ndarray) -> np.ndarray:
        return floats.pack(
            function(*(floats.unpack(b, name).astype(np.float64) for b in bits)), name
        )

    def packed(*pairs: np.ndarray) -> np.ndarray:
        low, high = zip(*(floats.halves(p) for p in pairs), strict=True)
        return floats.joined(single(*low), single(*high))

    return packed if t.name.endswith("x2") else single


def operation(m: Modifiers, function: Compute, count: int) -> Elementwise:
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


def _register(opcode: str, function: Compute, count: int, flags: tuple[str, ...] = ()) -> None:
    """Register a function of `count` operands; approximations are rounded to nearest here."""

    def build(m: Modifiers) -> Elementwise:
        m.one_of(flags)
        return operation(m, function, count)

    elementwise(opcode, HALVES)(build)


_register("add", np.add, 2)  # PTX ISA 9.7.4.1
_register("sub", np.subtract, 2)  # 9.7.4.2
_register("mul", np.multiply, 2)  # 9.7.4.3
# fma is rounded to odd in float64, then once (9.7.4.4).
_register("fma", lambda a, b, c: floats.sum_odd(a * b, c), 3)
_register("neg", np.negative, 1)  # 9.7.4.5
_register("abs", np.abs, 1)  # 9.7.4.6
_register("tanh", np.tanh, 1, ("approx",))  # 9.7.4.9
_register("ex2", np.exp2, 1, ("approx",))  # 9.7.4.10


register_extremes(HALVES, operation)
