"""Video instructions on a word (PTX ISA 9.7.17), on two halves or four bytes (9.7.18), in their
plain form.
"""

from __future__ import annotations

import numpy as np

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

        def split(x: np.ndarray, signed: bool) -> np.ndarray:
            kind = "i" if signed else "u"
            return np.ascontiguousarray(x).view(f"{kind}{size}").reshape(-1, lanes).astype(np.int64)

        def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
            result = OPERATIONS[name](split(a, ta.signed), split(b, tb.signed))
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


def _shifted(a: np.ndarray, b: np.ndarray, left: bool, wrap: bool) -> np.ndarray:
    amount = b & 31 if wrap else np.clip(b, 0, 32)
    return a << amount if left else a >> amount


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
            result = (
                _shifted(x, y, name == "vshl", wrap)
                if name in ("vshl", "vshr")
                else OPERATIONS[name](x, y)
            )
            if sat:
                result = np.clip(result, ends.min, ends.max)
            result = result.astype(td.dtype)
            return SECOND[second](result, c[0]) if second else result

        return Elementwise(compute, td, (ta, tb, *((td,) if second else ())))

    elementwise(name, ("s32", "u32"))(build)


for _name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr"):
    _register_word(_name)
