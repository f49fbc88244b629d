"""Logic and shifts (PTX ISA 9.7.8)."""

from __future__ import annotations

import functools

import numpy as np

from ..ptx.types import BITS, TYPES
from .integer import clamped_shift
from .registry import Elementwise, Modifiers, elementwise, same_type

U32, B32 = TYPES["u32"], TYPES["b32"]


same_type("and", ("pred", *BITS), np.bitwise_and, 2)  # PTX ISA 9.7.8.1
same_type("or", ("pred", *BITS), np.bitwise_or, 2)  # 9.7.8.2
same_type("xor", ("pred", *BITS), np.bitwise_xor, 2)  # 9.7.8.3
same_type("not", ("pred", *BITS), np.invert, 1)  # 9.7.8.4
# cnot gives 1 where a is 0, else 0 (9.7.8.5).
same_type("cnot", BITS, lambda a: (a == 0).astype(a.dtype), 1)


@elementwise("lop3", ("b32",))
def lop3(m: Modifiers) -> Elementwise:
    """lop3: any function of three bits, by its truth table (PTX ISA 9.7.8.6). `.and` and `.or` with
    a predicate are not supported."""

    def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray, table: np.ndarray) -> np.ndarray:
        result = np.zeros(a.shape, np.uint32)
        truth = int(table[0])
        for row in range(8):
            if truth >> row & 1:
                x, y, z = a if row & 4 else ~a, b if row & 2 else ~b, c if row & 1 else ~c
                result = result | (x & y & z)
        return result

    return Elementwise(compute, B32, (B32, B32, B32, U32))


@elementwise("shf", ("b32",))
def shf(m: Modifiers) -> Elementwise:
    """shf: funnel shift of the pair b:a; `.l` gives the upper, `.r` the lower word; the amount is
    clamped at 32 or wraps (PTX ISA 9.7.8.7)."""
    left = m.one_of(("l", "r")) == "l"
    wrap = m.one_of(("wrap", "clamp")) == "wrap"

    def compute(a: np.ndarray, b: np.ndarray, by: np.ndarray) -> np.ndarray:
        if by.strides == (0,):
            # All threads have one amount, mostly an immediate: a rotation of two operations.
            amount = int(by[0]) & 31 if wrap else min(int(by[0]), 32)
            high, low = (amount, 32 - amount) if left else (32 - amount, amount)
            if not 0 < amount < 32:
                return b if (amount == 0) == left else a
            return (b << np.uint32(high)) | (a >> np.uint32(low))
        n = (by & np.uint32(31) if wrap else np.minimum(by, np.uint32(32))).astype(np.uint64)
        pair = (b.astype(np.uint64) << np.uint64(32)) | a
        shifted = (pair << n) >> np.uint64(32) if left else pair >> n
        return shifted.astype(np.uint32)

    return Elementwise(compute, B32, (B32, B32, U32))


@elementwise("shl", BITS)
def shl(m: Modifiers) -> Elementwise:
    """shl: a << b; 0 from the width on (PTX ISA 9.7.8.8)."""
    return Elementwise(lambda a, b: clamped_shift(np.left_shift, a, b), m.type, (m.type, U32))


@elementwise("shr", (*BITS, "u16", "u32", "u64", "s16", "s32", "s64"))
def shr(m: Modifiers) -> Elementwise:
    """shr: a >> b; signed types keep the sign; from the width on only the sign is left (PTX ISA
    9.7.8.9).
    """
    return Elementwise(lambda a, b: clamped_shift(np.right_shift, a, b), m.type, (m.type, U32))


@elementwise("prmt", ("b32",))
def prmt(m: Modifiers) -> Elementwise:
    """prmt: four bytes picked out of the eight of b:a (PTX ISA 9.7.9.7); the modes are selections
    made of c[1:0].
    """
    mode = m.one_of(("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"))
    tables = {
        "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
        "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
        "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
        "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
        "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
        "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
    }

    def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        if not mode and c.strides == (0,) and not int(c[0]) & 0x8888:
            return _permuted(a, b, int(c[0]) & 0xFFFF)
        if mode:
            c = np.array(tables[mode], np.uint32)[c & np.uint32(3)]
        pair = (b.astype(np.uint64) << np.uint64(32)) | a
        result = np.zeros(a.shape, np.uint32)
        for index in range(4):
            choice = (c >> np.uint32(4 * index)) & np.uint32(0xF)
            by = (choice & np.uint32(7)).astype(np.uint64) * np.uint64(8)
            byte = (pair >> by).astype(np.uint8)
            if not mode:
                # The fourth bit of a selector spreads the sign.
                signed = byte.view(np.int8)
                byte = np.where(choice & np.uint32(8), signed >> 7, signed).view(np.uint8)
            result = result | (byte.astype(np.uint32) << np.uint32(8 * index))
        return result

    return Elementwise(compute, B32, (B32, B32, B32))


def _permuted(a: np.ndarray, b: np.ndarray, selector: int) -> np.ndarray:
    """Return the bytes of b:a that an immediate selects; those that move together are moved at
    once.
    """
    masks: dict[tuple[bool, int], int] = {}
    for index in range(4):
        choice = selector >> 4 * index & 7
        key = choice >= 4, index - choice % 4
        masks[key] = masks.get(key, 0) | 0xFF << 8 * index
    parts = []
    for (upper, by), mask in masks.items():
        source, bits = b if upper else a, np.uint32(8 * abs(by))
        moved = source << bits if by > 0 else source >> bits if by else source
        parts.append(moved & np.uint32(mask))
    return functools.reduce(np.bitwise_or, parts)
