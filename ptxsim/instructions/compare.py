"""Comparison and selection (PTX ISA 9.7.5, 9.7.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..machine import floats
from ..ptx.syntax import Pair
from ..ptx.types import BITS, FLOATS, HALVES, INTEGERS, TYPES, Type
from .registry import Compute, Elementwise, Modifiers, elementwise

ORDERED = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
UNSIGNED = {"lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}
COMBINE = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
PRED = TYPES["pred"]
# `set` gives these numbers, by the type of its result.
ONES: dict[str, Any] = {
    "f32": np.float32(1),
    "f16": np.uint16(0x3C00),
    "bf16": np.uint16(0x3F80),
}


def _float_ne(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """ne of numbers: false where one is NaN."""
    return (a != b) & ~np.isnan(a) & ~np.isnan(b)


def _unordered(test: Compute) -> Compute:
    return lambda a, b: test(a, b) | np.isnan(a) | np.isnan(b)


FLOATING: dict[str, Compute] = {
    **ORDERED,
    "ne": _float_ne,
    "equ": _unordered(np.equal),
    "neu": np.not_equal,
    "ltu": _unordered(np.less),
    "leu": _unordered(np.less_equal),
    "gtu": _unordered(np.greater),
    "geu": _unordered(np.greater_equal),
    "num": lambda a, b: ~np.isnan(a) & ~np.isnan(b),
    "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}


def comparison(m: Modifiers, t: Type) -> Compute:
    """Return the comparison of `setp` and `set` on values of type t, not a packed one."""
    if t.kind == "f":
        test = FLOATING[m.one_of(FLOATING) or m.reject("a comparison")]
        flushed = m.flag("ftz")
        if t.name in ("f16", "bf16"):
            return lambda a, b: test(floats.unpack(a, t.name), floats.unpack(b, t.name))
        return (lambda a, b: test(floats.flush(a), floats.flush(b))) if flushed else test
    tests: dict[str, Compute] = {**ORDERED, **UNSIGNED}
    name = m.one_of(tests) or m.reject("a comparison")
    if name in UNSIGNED and t.signed:
        u = np.dtype(f"u{t.bytes}")
        return lambda a, b: tests[name](a.view(u), b.view(u))
    return tests[name]


def comparisons(m: Modifiers, t: Type) -> Callable[[np.ndarray, np.ndarray], list[np.ndarray]]:
    """Return the comparison of values, or of both halves of packed pairs."""
    if t.name.endswith("x2"):
        test = comparison(m, TYPES[t.name.removesuffix("x2")])
        return lambda a, b: [*map(test, floats.halves(a), floats.halves(b))]
    test = comparison(m, t)
    return lambda a, b: [test(a, b)]


@elementwise("setp", (*INTEGERS, *BITS, *FLOATS, *HALVES))
def setp(m: Modifiers) -> Elementwise:
    """setp: p = (a cmp b) op c, q = !(a cmp b) op c (PTX ISA 9.7.6.2); of packed pairs, p is of the
    lower half and q of the upper one (9.7.7.2).
    """
    t = m.type
    combine = COMBINE.get(m.one_of(COMBINE) or "")
    test = comparisons(m, t)
    packed = t.name.endswith("x2")
    two = packed or isinstance(m.instruction.operands[0], Pair)

    def compute(a: np.ndarray, b: np.ndarray, *c: np.ndarray) -> Any:
        results = test(a, b)
        if two and not packed:
            results.append(~results[0])
        flags = [combine(p, c[0]) if combine else p for p in results]
        return tuple(flags) if two else flags[0]

    return Elementwise(compute, (PRED, PRED) if two else PRED, (t, t, PRED) if combine else (t, t))


@elementwise("set", (*INTEGERS, *BITS, *FLOATS, *HALVES))
def set_(m: Modifiers) -> Elementwise:
    """set: all ones (1.0 for a float result) where the comparison holds, else 0 (PTX ISA 9.7.6.1);
    of packed pairs in each half (9.7.7.1).
    """
    result, t = m.two_types()
    combine = COMBINE.get(m.one_of(COMBINE) or "")
    test = comparisons(m, t)
    all_ones = np.array(-1).astype(np.uint16 if t.name.endswith("x2") else result.dtype)
    yes = ONES.get(result.name.removesuffix("x2"), all_ones)

    def compute(a: np.ndarray, b: np.ndarray, *c: np.ndarray) -> np.ndarray:
        results = [combine(p, c[0]) if combine else p for p in test(a, b)]
        parts = [np.where(p, yes, np.zeros_like(yes)) for p in results]
        return floats.joined(*parts) if len(parts) == 2 else parts[0]

    return Elementwise(compute, result, (t, t, PRED) if combine else (t, t))


@elementwise("selp", (*INTEGERS, *BITS, *FLOATS))
def selp(m: Modifiers) -> Elementwise:
    """selp: a where the predicate holds, else b (PTX ISA 9.7.6.3)."""
    t = m.type
    return Elementwise(lambda a, b, c: np.where(c, a, b), t, (t, t, PRED))


@elementwise("slct", ("s32", "f32"))
def slct(m: Modifiers) -> Elementwise:
    """slct: a where c >= 0 (-0 included, NaN not), else b (PTX ISA 9.7.6.4)."""
    t, sign = m.two_types()
    flush = m.flag("ftz")

    def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        return np.where((floats.flush(c) if flush else c) >= 0, a, b)

    return Elementwise(compute, t, (t, t, sign))
