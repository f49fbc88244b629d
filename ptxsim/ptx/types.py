"""The fundamental types of PTX (PTX ISA 5.2) and the NumPy types that hold them.

A register of 16-bit floats is held as its bits (uint16), since PTX keeps `.f16` and `.bf16` values
in `.b16` registers; packed pairs (`.f16x2`, `.bf16x2`) likewise as uint32, and `.tf32` as the
uint32 whose upper 19 bits count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Type:
    """A scalar type: its PTX name, its kind (s, u, b, f or p) and the NumPy type that holds it."""

    name: str
    kind: str
    bits: int
    dtype: np.dtype

    @property
    def bytes(self) -> int:
        return max(1, self.bits // 8)

    @property
    def signed(self) -> bool:
        return self.kind == "s"

    def __repr__(self) -> str:
        return f".{self.name}"


def _all() -> dict[str, Type]:
    types = {"pred": Type("pred", "p", 1, np.dtype(bool))}
    for bits in (8, 16, 32, 64):
        types[f"s{bits}"] = Type(f"s{bits}", "s", bits, np.dtype(f"i{bits // 8}"))
        types[f"u{bits}"] = Type(f"u{bits}", "u", bits, np.dtype(f"u{bits // 8}"))
        types[f"b{bits}"] = Type(f"b{bits}", "b", bits, np.dtype(f"u{bits // 8}"))
    for name, bits, held in (
        ("f16", 16, "u2"),
        ("bf16", 16, "u2"),
        ("f16x2", 32, "u4"),
        ("bf16x2", 32, "u4"),
        ("tf32", 32, "u4"),
        ("f32", 32, "f4"),
        ("f64", 64, "f8"),
    ):
        types[name] = Type(name, "f", bits, np.dtype(held))
    return types


TYPES = _all()

INTEGERS = tuple(name for name, t in TYPES.items() if t.kind in "su" and t.bits > 8)
BITS = tuple(name for name, t in TYPES.items() if t.kind == "b" and t.bits > 8)
HALVES = ("f16", "bf16", "f16x2", "bf16x2")
FLOATS = ("f32", "f64")
UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
SIGNED = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}

# Registers are stored in these dtypes, by width in bits.
STORAGE = {
    1: np.dtype(bool),
    8: np.dtype("u1"),
    16: np.dtype("u2"),
    32: np.dtype("u4"),
    64: np.dtype("u8"),
}
