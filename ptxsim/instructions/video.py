"""Video instructions on a word (PTX ISA 9.7.17), on two halves or four bytes (9.7.18), in their
plain form.
"""

from __future__ import annotations

import numpy as np

from .integer import parts_of
from .registry import Compute, Elementwise, Modifiers, elementwise

OPERATIONS: dict[str, Compute] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vavrg": lambda a, b: (a + b + ((a + b) >= 0)) >> 1,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
}


def _register(name: str, lanes: int) -> None:
    size = 4 // lanes

    def build(m: Modifiers) -> Elementwise:
        """v{add,sub,avrg,absdiff,min,max}{2,4}: d = a op b in each part; `.add` sums the parts onto
        c.
        """
        td, ta, tb = m.types
        total, sat = m.flag("add"), m.flag("sat")
        parts = np.dtype(f"{'i' if td.signed else 'u'}{size}")

        def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
            operands = parts_of(a, size, ta.signed), parts_of(b, size, tb.signed)
            result = OPERATIONS[name](*operands)
            if total:
                return (c.astype(np.int64) + result.sum(axis=1)).astype(td.dtype)
            if sat:
                result = np.clip(result, np.iinfo(parts).min, np.iinfo(parts).max)
            return np.ascontiguousarray(result.astype(parts)).reshape(-1).view(td.dtype)

        return Elementwise(compute, td, (ta, tb, td))

    elementwise(f"{name}{lanes}", ("s32", "u32"))(build)


for _name in OPERATIONS:
    for _lanes in (2, 4):
        _register(_name, _lanes)


SECOND = {"add": np.add, "min": np.minimum, "max": np.maximum}
SHIFTS = {"vshl": np.left_shift, "vshr": np.right_shift}


def _register_word(name: str) -> None:
    def build(m: Modifiers) -> Elementwise:
        """v{add,sub,absdiff,min,max,shl,shr}: d = a op b on 34-bit integers; `.sat` clamps to the
        type of d; a second operation with c follows."""
        td, ta, tb = m.types
        sat, second = m.flag("sat"), m.one_of(SECOND)
        wrap = m.flag("wrap")
        m.flag("clamp")
        ends = np.iinfo(td.dtype)

        def compute(a: np.ndarray, b: np.ndarray, *c: np.ndarray) -> np.ndarray:
            x, y = a.astype(np.int64), b.astype(np.int64)
            if name in SHIFTS:
                result = SHIFTS[name](x, y & 31 if wrap else np.clip(y, 0, 32))
            else:
                result = OPERATIONS[name](x, y)
            if sat:
                result = np.clip(result, ends.min, ends.max)
            result = result.astype(td.dtype)
            return SECOND[second](result, c[0]) if second else result

        return Elementwise(compute, td, (ta, tb, *((td,) if second else ())))

    elementwise(name, ("s32", "u32"))(build)


for _name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax", *SHIFTS):
    _register_word(_name)
