"""Integer arithmetic (PTX ISA 9.7.1) and extended precision (9.7.2)."""

from __future__ import annotations

import numpy as np

from ..ptx.types import INTEGERS, TYPES, Type
from .registry import Compute, Elementwise, Modifiers, elementwise, same_type

WORDS = ("s32", "u32", "s64", "u64")


def double(t: Type) -> Type:
    """Return the type of twice the width, as `.wide` gives."""
    return TYPES[f"{t.kind}{2 * t.bits}"]


def high_product(a: np.ndarray, b: np.ndarray, t: Type) -> np.ndarray:
    """Return the upper half of a product."""
    if t.bits < 64:
        wide = double(t).dtype
        return ((a.astype(wide) * b.astype(wide)) >> wide.type(t.bits)).astype(t.dtype)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    ua, ub = a.view(np.uint64), b.view(np.uint64)
    al, ah, bl, bh = ua & low, ua >> half, ub & low, ub >> half
    middle = ah * bl + ((al * bl) >> half)
    other = al * bh + (middle & low)
    high = ah * bh + (middle >> half) + (other >> half)
    if t.signed:
        high = high - np.where(a < 0, ub, np.uint64(0)) - np.where(b < 0, ua, np.uint64(0))
    return high.view(t.dtype)


def product(m: Modifiers, t: Type) -> tuple[Compute, Type]:
    """Return the function and result type of `mul` in its mode."""
    mode = m.one_of(("lo", "hi", "wide"), "lo")
    if mode == "lo":
        return np.multiply, t
    if mode == "hi":
        return lambda a, b: high_product(a, b, t), t
    wide = double(t)
    return lambda a, b: np.multiply(a, b, dtype=wide.dtype), wide


def clamped(compute: Compute) -> Compute:
    """`.sat`: a sum or difference of s32, clamped."""
    low, high = -(2**31), 2**31 - 1
    return lambda a, b: np.clip(compute(a.astype(np.int64), b), low, high).astype(np.int32)


def _carrying(m: Modifiers, compute: Compute, count: int, reads: bool = True) -> Elementwise:
    """Return an operation on `count` operands that reads the carry flag, or writes it (`.cc`), or
    both; `compute` takes the flag, or None, last and gives a result and the flag.
    """
    writes = m.flag("cc")
    both: Compute = compute if reads else lambda *x: compute(*x, None)
    act: Compute = both if writes else lambda *x: both(*x)[0]
    return Elementwise(act, m.type, (m.type,) * count, reads, writes)


def _add_carry(
    a: np.ndarray, b: np.ndarray, carry: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    unsigned = np.dtype(f"u{a.itemsize}")
    ua, ub = a.view(unsigned), b.view(unsigned)
    total = ua + ub
    out = total < ua
    if carry is not None:
        total = total + carry.astype(unsigned)
        out = out | (carry & (total == 0))
    return total.view(a.dtype), out


def _sub_borrow(
    a: np.ndarray, b: np.ndarray, borrow: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    unsigned = np.dtype(f"u{a.itemsize}")
    ua, ub = a.view(unsigned), b.view(unsigned)
    out = ua < ub
    total = ua - ub
    if borrow is not None:
        out = out | (borrow & (total == 0))
        total = total - borrow.astype(unsigned)
    return total.view(a.dtype), out


def _sums(opcode: str, plain: Compute, carrying: Compute) -> None:
    """add and sub: `.sat` clamps s32; `.cc` writes the carry or borrow (PTX ISA 9.7.1.1, 9.7.1.2,
    9.7.2.1, 9.7.2.3). addc and subc read it, too (9.7.2.2, 9.7.2.4)."""

    def build(m: Modifiers) -> Elementwise:
        if "cc" in m.left:
            return _carrying(m, carrying, 2, reads=False)
        return Elementwise(clamped(plain) if m.flag("sat") else plain, m.type, (m.type, m.type))

    elementwise(opcode, INTEGERS)(build)
    elementwise(f"{opcode}c", WORDS)(lambda m: _carrying(m, carrying, 2))


_sums("add", np.add, _add_carry)
_sums("sub", np.subtract, _sub_borrow)


@elementwise("mul", INTEGERS)
def mul(m: Modifiers) -> Elementwise:
    """mul: the low half, the high half, or all (`.wide`) of a * b (PTX ISA 9.7.1.3)."""
    t = m.type
    compute, result = product(m, t)
    return Elementwise(compute, result, (t, t))


@elementwise("mad", INTEGERS)
def mad(m: Modifiers) -> Elementwise:
    """mad: d = a * b + c; with `.cc` carries out; `.hi.sat` clamps s32 (PTX ISA 9.7.1.4,
    9.7.2.5).
    """
    t = m.type
    multiply, result = product(m, t)
    if "cc" in m.left:
        carrying = lambda a, b, c, carry: _add_carry(multiply(a, b), c, carry)
        return _carrying(m, carrying, 3, reads=False)
    finish = clamped(np.add) if m.flag("sat") else np.add
    return Elementwise(lambda a, b, c: finish(multiply(a, b), c), result, (t, t, result))


@elementwise("madc", WORDS)
def madc(m: Modifiers) -> Elementwise:
    """madc: d = a * b + c + carry (PTX ISA 9.7.2.6)."""
    multiply, _ = product(m, m.type)
    return _carrying(m, lambda a, b, c, carry: _add_carry(multiply(a, b), c, carry), 3)


def _low24(x: np.ndarray) -> np.ndarray:
    """Return the low 24 bits, sign- or zero-extended to 64."""
    shift = 40
    if x.dtype.kind == "i":
        return (x.astype(np.int64) << shift) >> shift
    return x.astype(np.int64) & 0xFFFFFF


def _product24(m: Modifiers, t: Type) -> Compute:
    if m.one_of(("lo", "hi"), "lo") == "lo":
        return lambda a, b: (_low24(a) * _low24(b)).astype(t.dtype)
    return lambda a, b: ((_low24(a) * _low24(b)) >> 16).astype(t.dtype)


@elementwise("mul24", ("s32", "u32"))
def mul24(m: Modifiers) -> Elementwise:
    """mul24: 32 bits of the 48-bit product of 24-bit integers (PTX ISA 9.7.1.5)."""
    t = m.type
    return Elementwise(_product24(m, t), t, (t, t))


@elementwise("mad24", ("s32", "u32"))
def mad24(m: Modifiers) -> Elementwise:
    """mad24: mul24, plus c; `.hi.sat` clamps s32 (PTX ISA 9.7.1.6)."""
    t = m.type
    finish = clamped(np.add) if m.flag("sat") else np.add
    multiply = _product24(m, t)
    return Elementwise(lambda a, b, c: finish(multiply(a, b), c), t, (t, t, t))


# c + |a - b| (PTX ISA 9.7.1.7)
same_type("sad", INTEGERS, lambda a, b, c: c + np.where(a < b, b - a, a - b), 3)


def quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Division that truncates.

    By zero the result is unspecified in PTX; the hardware's sequence gives all ones.
    """
    zero = b == 0
    if a.dtype.kind == "u":
        return np.where(zero, ~a.dtype.type(0), a // np.where(zero, a.dtype.type(1), b))
    unsigned = np.dtype(f"u{a.itemsize}")
    # The least number's absolute value is 2^(n-1) as an unsigned number.
    ua, ub = np.abs(a).view(unsigned), np.abs(b).view(unsigned)
    q = (ua // np.where(zero, unsigned.type(1), ub)).view(a.dtype)
    return np.where(zero, a.dtype.type(-1), np.where((a < 0) != (b < 0), -q, q))


# A quotient is truncated towards zero (PTX ISA 9.7.1.8).
same_type("div", INTEGERS, quotient, 2)
# A remainder has the sign of a (9.7.1.9).
same_type("rem", INTEGERS, lambda a, b: a - quotient(a, b) * b, 2)
# The absolute value of the least number is itself (9.7.1.10).
same_type("abs", ("s16", "s32", "s64"), np.abs, 1)
same_type("neg", ("s16", "s32", "s64"), np.negative, 1)  # 9.7.1.11


def _extreme(opcode: str, choose: Compute) -> None:
    """min and max: the lesser or the greater; `.relu` then clamps at 0 (PTX ISA 9.7.1.12,
    9.7.1.13).
    """

    def build(m: Modifiers) -> Elementwise:
        t = m.type
        clamped_at_0 = lambda a, b: np.maximum(choose(a, b), t.dtype.type(0))
        return Elementwise(clamped_at_0 if m.flag("relu") else choose, t, (t, t))

    elementwise(opcode, INTEGERS)(build)


_extreme("min", np.minimum)
_extreme("max", np.maximum)


def _pairs(name: str, operation: Compute) -> None:
    def build(m: Modifiers) -> Elementwise:
        """add, min and max of two 16-bit integers, `.relu` with them (PTX ISA 9.7.1.1, 9.7.1.12,
        9.7.1.13).
        """
        kind = m.one_of(("s16x2", "u16x2")) or m.reject("this type")
        relu = m.flag("relu")
        dtype = np.dtype("i2" if kind[0] == "s" else "u2")

        def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            result = operation(*(np.ascontiguousarray(x).view(dtype) for x in (a, b)))
            return (np.maximum(result, dtype.type(0)) if relu else result).view(np.uint32)

        return Elementwise(compute, TYPES["b32"], (TYPES["b32"],) * 2)

    elementwise(name)(build)


for _name, _operation in (("add", np.add), ("min", np.minimum), ("max", np.maximum)):
    _pairs(_name, _operation)


@elementwise("popc", ("b32", "b64"))
def popc(m: Modifiers) -> Elementwise:
    """popc: how many bits are set (PTX ISA 9.7.1.14)."""
    return Elementwise(lambda a: np.bitwise_count(a).astype(np.uint32), TYPES["u32"], (m.type,))


def bit_length(x: np.ndarray) -> np.ndarray:
    """Return the position after the highest set bit of unsigned numbers; 0 for 0."""
    length, rest = np.zeros(x.shape, np.uint32), x
    for step in (4 * x.itemsize >> i for i in range((8 * x.itemsize).bit_length() - 1)):
        upper = rest >> x.dtype.type(step)
        nonzero = upper != 0
        length = length + np.where(nonzero, np.uint32(step), np.uint32(0))
        rest = np.where(nonzero, upper, rest)
    return length + (rest != 0).astype(np.uint32)


@elementwise("clz", ("b32", "b64"))
def clz(m: Modifiers) -> Elementwise:
    """clz: leading zeros (PTX ISA 9.7.1.15)."""
    bits = np.uint32(m.type.bits)
    return Elementwise(lambda a: bits - bit_length(a), TYPES["u32"], (m.type,))


@elementwise("bfind", WORDS)
def bfind(m: Modifiers) -> Elementwise:
    """bfind: position of the highest bit that is not a sign bit, else all ones; `.shiftamt` counts
    from the top (PTX ISA 9.7.1.16)."""
    t = m.type
    shiftamt = m.flag("shiftamt")

    def compute(a: np.ndarray) -> np.ndarray:
        unsigned = (np.where(a < 0, ~a, a) if t.signed else a).view(f"u{t.bytes}")
        length = bit_length(unsigned)
        position = length - np.uint32(1)
        if shiftamt:
            return np.where(length == 0, position, np.uint32(t.bits - 1) - position)
        return position

    return Elementwise(compute, TYPES["u32"], (t,))


@elementwise("fns", ("b32",))
def fns(m: Modifiers) -> Elementwise:
    """fns: position of the n-th set bit from a base, up or down; all ones where there is none (PTX
    ISA 9.7.1.17).
    """

    def position(mask: int, base: int, offset: int) -> int:
        if offset == 0:
            return base if base < 32 and mask >> base & 1 else 0xFFFFFFFF
        positions = range(base, 32) if offset > 0 else range(min(base, 31), -1, -1)
        set_bits = [p for p in positions if mask >> p & 1]
        return set_bits[abs(offset) - 1] if abs(offset) <= len(set_bits) else 0xFFFFFFFF

    def compute(mask: np.ndarray, base: np.ndarray, offset: np.ndarray) -> np.ndarray:
        values = zip(mask.tolist(), base.tolist(), offset.tolist(), strict=True)
        return np.array([position(*v) for v in values], np.uint32)

    return Elementwise(compute, TYPES["b32"], (TYPES["b32"], TYPES["b32"], TYPES["s32"]))


@elementwise("brev", ("b32", "b64"))
def brev(m: Modifiers) -> Elementwise:
    """brev: the bits in reverse order (PTX ISA 9.7.1.18)."""
    t = m.type

    def compute(a: np.ndarray) -> np.ndarray:
        swapped = a.byteswap()
        for step, mask in ((4, 0x0F), (2, 0x33), (1, 0x55)):
            pattern = t.dtype.type(int.from_bytes(bytes([mask]) * t.bytes, "little"))
            shift = t.dtype.type(step)
            swapped = ((swapped >> shift) & pattern) | ((swapped & pattern) << shift)
        return swapped

    return Elementwise(compute, t, (t,))


def clamped_shift(op: Compute, a: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Shift by an unsigned amount; from the width on, everything is shifted out."""
    bits = 8 * a.itemsize
    if by.strides == (0,) and by[0] < bits:
        # All threads have one amount, mostly an immediate.
        return op(a, a.dtype.type(by[0]))
    fits = by < bits
    shifted = op(a, np.where(fits, by, 0).astype(a.dtype))
    if a.dtype.kind == "i" and op is np.right_shift:
        return np.where(fits, shifted, a >> a.dtype.type(bits - 1))
    return np.where(fits, shifted, a.dtype.type(0))


@elementwise("bfe", WORDS)
def bfe(m: Modifiers) -> Elementwise:
    """bfe: the field of `length` bits at `position`, sign- or zero-extended (PTX ISA 9.7.1.19)."""
    t = m.type
    u = np.dtype(f"u{t.bytes}")

    def compute(a: np.ndarray, position: np.ndarray, length: np.ndarray) -> np.ndarray:
        position, length = position & np.uint32(255), length & np.uint32(255)
        # The shift is arithmetic for signed types.
        shifted = clamped_shift(np.right_shift, a, position)
        width = np.minimum(length, np.uint32(t.bits))
        mask = ~clamped_shift(np.left_shift, np.full(a.shape, ~u.type(0)), width)
        field = shifted.view(u) & mask
        if not t.signed:
            return field
        top = np.minimum(position + length - np.uint32(1), np.uint32(t.bits - 1))
        negative = (clamped_shift(np.right_shift, a.view(u), top) & u.type(1)) != 0
        extended = np.where(negative, field | ~mask, field)
        return np.where(length == 0, u.type(0), extended).view(t.dtype)

    return Elementwise(compute, t, (t, TYPES["u32"], TYPES["u32"]))


@elementwise("bfi", ("b32", "b64"))
def bfi(m: Modifiers) -> Elementwise:
    """bfi: `length` low bits of a put into b at `position` (PTX ISA 9.7.1.20)."""
    t = m.type

    def compute(
        a: np.ndarray, b: np.ndarray, position: np.ndarray, length: np.ndarray
    ) -> np.ndarray:
        position = position & np.uint32(255)
        length = np.minimum(length & np.uint32(255), np.uint32(t.bits))
        ones = np.full(a.shape, ~t.dtype.type(0))
        mask = clamped_shift(np.left_shift, ~clamped_shift(np.left_shift, ones, length), position)
        return (clamped_shift(np.left_shift, a, position) & mask) | (b & ~mask)

    return Elementwise(compute, t, (t, t, TYPES["u32"], TYPES["u32"]))


@elementwise("bmsk", ("b32",))
def bmsk(m: Modifiers) -> Elementwise:
    """bmsk: a mask of `b` ones from bit `a` on; `.clamp` or `.wrap` (PTX ISA 9.7.1.22)."""
    wrap = m.one_of(("clamp", "wrap")) == "wrap"

    def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if wrap:
            a, b = a & np.uint32(31), b & np.uint32(31)
        ones = np.full(a.shape, np.uint32(0xFFFFFFFF))
        return clamped_shift(np.left_shift, ~clamped_shift(np.left_shift, ones, b), a)

    return Elementwise(compute, TYPES["b32"], (TYPES["u32"], TYPES["u32"]))


@elementwise("szext", ("s32", "u32"))
def szext(m: Modifiers) -> Elementwise:
    """szext: sign- or zero-extend the low `b` bits of a; `.clamp` or `.wrap` (PTX ISA 9.7.1.21)."""
    t = m.type
    wrap = m.one_of(("clamp", "wrap")) == "wrap"

    def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if wrap:
            b = b & np.uint32(31)
        spare = np.uint32(32) - np.minimum(b, np.uint32(32))
        shifted = clamped_shift(np.left_shift, a, spare)
        return clamped_shift(np.right_shift, shifted, np.minimum(spare, np.uint32(31))) * (
            spare < 32
        )

    return Elementwise(compute, t, (t, TYPES["u32"]))


def parts_of(x: np.ndarray, size: int, signed: bool) -> np.ndarray:
    """Return the integers of `size` bytes that words hold, [words, integers]."""
    parts = np.ascontiguousarray(x).view(f"{'i' if signed else 'u'}{size}")
    return parts.reshape(len(x), -1).astype(np.int64)


def _dot_product(opcode: str, size: int) -> None:
    """dp4a, dp2a: c plus the dot product of four bytes, or of two halves of a with two bytes (`.lo`
    or `.hi`) of b (PTX ISA 9.7.1.23, 9.7.1.24); a and b have types of their own."""

    def build(m: Modifiers) -> Elementwise:
        ta, tb = m.two_types()
        first = 2 if size == 2 and m.one_of(("lo", "hi")) == "hi" else 0

        def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
            left = parts_of(a, size, ta.signed)
            dot = (left * parts_of(b, 1, tb.signed)[:, first : first + left.shape[1]]).sum(axis=1)
            return c + dot.astype(np.uint32)

        return Elementwise(compute, TYPES["u32"], (ta, tb, TYPES["u32"]))

    elementwise(opcode, ("s32", "u32"))(build)


_dot_product("dp4a", 1)
_dot_product("dp2a", 2)
