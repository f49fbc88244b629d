"""Warp-level matrix instructions: ldmatrix, movmatrix, mma.sync (PTX ISA 9.7.14.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import numpy as np

from ..errors import Kind
from ..machine import floats, tensor_cores
from ..machine.memory import Access, MixedAccess
from ..ptx.syntax import Instruction, items_of
from ..ptx.types import TYPES, Type
from .needs import Machine
from .registry import (
    ADDRESS,
    RESULT,
    RESULTS,
    VALUE,
    VALUES,
    Modifiers,
    Step,
    anything,
    effect,
    takes,
)

WARP = 32
B32 = TYPES["b32"]


def require_whole_warps(m: Machine, instruction: Instruction) -> None:
    """Refuse a warp of which not all 32 threads execute the instruction."""
    if m.state.active is not None:
        here = m.state.active.reshape(-1, WARP)
        broken = here & ~np.repeat(here.all(axis=1), WARP).reshape(here.shape)
        m.diag.refuse(
            Kind.OTHER,
            instruction,
            broken.reshape(-1),
            lambda _: f"{instruction.name}: not all threads of the warp are here",
        )


@effect("ldmatrix", takes(RESULTS, ADDRESS))
def ldmatrix(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """ldmatrix: one, two or four 8x8 matrices of 16-bit elements; thread 8i+j gives the address of
    row j of matrix i; a thread receives elements (lane/4, lane%4*2) and the next, of the transposed
    matrix with `.trans` (PTX ISA 9.7.14.5.15)."""
    access, count, trans = matrix_access(m, instruction, modifiers)
    writers = [m.operands.writer(item, B32) for item in items_of(instruction.operands[0])]

    def step() -> None:
        taken = access()
        rows = np.stack([taken.load(4, i) for i in range(4)], axis=1)  # [givers, 4 words]
        warps = len(rows) // (8 * count)
        matrices = rows.reshape(warps, count, 8, 4)
        if trans:
            elements = matrices.view(np.uint16).reshape(warps, count, 8, 8).transpose(0, 1, 3, 2)
            matrices = np.ascontiguousarray(elements).view(np.uint32)
        by_matrix = matrices.reshape(warps, count, WARP).transpose(1, 0, 2)
        values = np.ascontiguousarray(by_matrix).reshape(count, -1)
        if warps != m.state.warps:
            full = np.zeros((count, m.state.lanes), np.uint32)
            full[:, m.state.acting_lanes()] = values
            values = full
        for write, value in zip(writers, values, strict=True):
            write(value)

    return step


def matrix_access(
    m: Machine, instruction: Instruction, modifiers: Modifiers
) -> tuple[Callable[[], Access | MixedAccess], int, bool]:
    """Return what makes the access to memory of an ldmatrix or stmatrix; how many matrices there
    are, and whether they are transposed.
    """
    modifiers.drop(("sync", "aligned"))
    if not modifiers.flag("m8n8"):
        modifiers.reject("a shape other than m8n8")
    count = int((modifiers.one_of(("x1", "x2", "x4")) or modifiers.reject("this number"))[1])
    trans = modifiers.flag("trans")
    space = modifiers.one_of(("shared::cta", "shared"), "generic").split("::")[0]
    stores = instruction.opcode == "stmatrix"
    address, registers = instruction.operands if stores else instruction.operands[::-1]
    operand = m.operands.address(address, space)
    if len(items_of(registers)) != count:
        raise instruction.error(f"with {len(items_of(registers))} registers")
    row_givers = np.arange(WARP) < 8 * count

    def access() -> Access | MixedAccess:
        require_whole_warps(m, instruction)
        kind = "st" if stores else "ldmatrix"
        with m.state.acting(m.memory.row_givers(count, row_givers)) if count < 4 else nullcontext():
            return m.memory.access(operand, 16, instruction, kind)

    return access, count, trans


@effect("stmatrix", takes(ADDRESS, VALUES))
def stmatrix(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """stmatrix: the opposite of ldmatrix (PTX ISA 9.7.14.5.16)."""
    make_access, count, trans = matrix_access(m, instruction, modifiers)
    readers = [m.operands.reader(item, B32) for item in items_of(instruction.operands[1])]

    def step() -> None:
        here = slice(None) if m.state.active is None else m.state.active
        access = make_access()
        values = np.stack([read()[here] for read in readers]).reshape(count, -1, 8, 4)
        matrices = np.ascontiguousarray(values.transpose(1, 0, 2, 3))  # [warps, count, rows, words]
        if trans:
            elements = matrices.view(np.uint16).transpose(0, 1, 3, 2)
            matrices = np.ascontiguousarray(elements).view(np.uint32)
        rows = matrices.reshape(-1, 4)
        columns = [np.ascontiguousarray(rows[:, i]) for i in range(4)]
        if isinstance(access, Access):
            access.values = columns
        for i, value in enumerate(columns):
            access.store(4, value, i)

    return step


@effect("movmatrix", takes(RESULT, VALUE))
def movmatrix(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """movmatrix: transpose an 8x8 matrix of 16-bit elements across the warp (PTX ISA
    9.7.14.5.17).
    """
    modifiers.drop(("sync", "aligned", "m8n8", "trans"))
    read = m.operands.reader(instruction.operands[1], B32)
    write = m.operands.writer(instruction.operands[0], B32)

    def step() -> None:
        require_whole_warps(m, instruction)
        matrix = np.ascontiguousarray(read()).view(np.uint16).reshape(-1, 8, 8).transpose(0, 2, 1)
        write(np.ascontiguousarray(matrix).reshape(-1).view(np.uint32))

    return step


# An element has this many bits.
INTEGERS = {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
ELEMENTS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, **INTEGERS}
# Each kind of element has shapes: rows of A and bits along k (a row of A in 4, 8 or 16 words).
SHAPES = {
    ("f16", "bf16"): ("m16n8k8", "m16n8k16"),
    ("tf32",): ("m16n8k4", "m16n8k8"),
    ("f64",): ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"),
    ("e4m3", "e5m2"): ("m16n8k16", "m16n8k32"),
    ("s8", "u8"): ("m8n8k16", "m16n8k16", "m16n8k32"),
    ("s4", "u4"): ("m8n8k32", "m16n8k32", "m16n8k64"),
    ("b1",): ("m8n8k128", "m16n8k128", "m16n8k256"),
}


def elements(words: np.ndarray, name: str) -> np.ndarray:
    """Convert words [..., n] to elements [..., n * elements of a word], as float64 (of integers:
    int64).
    """
    words = np.ascontiguousarray(words)
    match name:
        case "f64" | "f32":
            return words.view(TYPES[name].dtype).astype(np.float64)
        case "tf32":
            return floats.unpack(words, "tf32").astype(np.float64)
        case "f16" | "bf16":
            return floats.unpack(words.view(np.uint16), name).astype(np.float64)
        case "e4m3" | "e5m2":
            return floats.unpack_fp8(words.view(np.uint8), name).astype(np.float64)
        case "s8" | "u8" | "s32":
            return words.view(TYPES[name].dtype).astype(np.int64)
        case "s4" | "u4":
            bytes_ = words.view(np.uint8)
            pairs = np.stack([bytes_ & 15, bytes_ >> 4], axis=-1)
            nibbles = pairs.reshape(*words.shape[:-1], -1).astype(np.int64)
            return np.where(nibbles > 7, nibbles - 16, nibbles) if name == "s4" else nibbles
    return np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little").astype(np.int64)


def results(sums: np.ndarray, name: str, saturates: bool = False) -> np.ndarray:
    """Return sums [elements, ...] in float64 or int64 as a matrix instruction rounds them
    [registers, ...]; those of s32 wrap, or stop at the ends.
    """
    if name == "f16":
        packed = floats.pack(sums, "f16")
        return floats.joined(packed[::2], packed[1::2])
    if name == "s32":
        clipped = np.clip(sums, -(2**31), 2**31 - 1) if saturates else sums
        return clipped.astype(np.int64).astype(np.uint32)
    return sums.astype(TYPES[name].dtype)


def rows_of_words(registers: list[np.ndarray], height: int) -> np.ndarray:
    """Return a fragment as [warps, rows, words]: thread lane holds, of row lane/4 and those 8
    further, word lane%4, then of the same rows the word 4 further, and so on (PTX ISA 9.7.14.5,
    figures of matrix fragments; B by columns).
    """
    halves = height // 8
    parts = [x.reshape(-1, 8, 4) for x in registers]
    columns = [np.concatenate(parts[i : i + halves], axis=1) for i in range(0, len(parts), halves)]
    return np.concatenate(columns, axis=2)


@effect("mma", anything("sp"), anything("block_scale"), takes(RESULTS, VALUES, VALUES, VALUES))
def mma(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """mma.sync: D = A B + C of a warp (PTX ISA 9.7.14.5.14).

    Of floats as Hopper's tensor cores do it (tensor_cores.py); of f64 summed and rounded once. Of a
    tf32 operand the upper 19 bits count. Sums of integers wrap, or with .satfinite stop at the
    ends.
    """
    return mma_together(m, [instruction], modifiers)


def mma_together(m: Machine, group: Sequence[Instruction], modifiers: Modifiers) -> Step:
    """Return the step of several mma.sync of one form, none of which reads or writes what another
    writes, as one of more warps.
    """
    instruction, numbers = group[0], len(group)
    modifiers.drop(("sync", "aligned"))
    shape = modifiers.one_of({s for shapes in SHAPES.values() for s in shapes})
    if not (modifiers.flag("row") and modifiers.flag("col")):
        modifiers.reject("a layout other than .row.col")
    modifiers.flag("kind::f8f6f4")
    saturate = modifiers.flag("satfinite")
    combine = modifiers.one_of(("xor", "and")) if modifiers.flag("popc") else None
    names = [name for name in instruction.modifiers if name in ELEMENTS or name in ("f32", "s32")]
    modifiers.drop([name for name in names if name not in TYPES])
    if len(names) != 4 or shape is None:
        modifiers.reject("this shape and types")
    d_type, a_type, b_type, c_type = names
    known = {name for names, shapes in SHAPES.items() if shape in shapes for name in names}
    fits = a_type in known and b_type in known
    sums = ("s32",) if a_type in INTEGERS else ("f64",) if a_type == "f64" else ("f16", "f32")
    same = a_type == b_type or ELEMENTS.get(a_type) == ELEMENTS.get(b_type) != 16
    if not (fits and same and d_type in sums and c_type in sums) or (a_type == "b1") != (
        combine is not None
    ):
        modifiers.reject("this shape and types")
    height, depth = int(shape[1:].split("n")[0]), int(shape.split("k")[1])
    groups = depth * ELEMENTS[a_type] // max(ELEMENTS[a_type], 32) // 4
    counts = tuple(len(items_of(operand)) for operand in instruction.operands)
    wanted = tuple(
        height // 4 // (2 if t == "f16" else 1) if t else count
        for t, count in ((d_type, 0), (None, height // 8 * groups), (None, groups), (c_type, 0))
    )
    if counts != wanted:
        raise instruction.error(f"with {', '.join(map(str, counts))} registers")
    word = TYPES["b64"] if a_type == "f64" else B32
    held = {"f16": B32}
    fragments = [[items_of(o) for o in each.operands] for each in group]

    def readers(operand: int, t: Type) -> list[Callable[[], np.ndarray]]:
        columns = zip(*(each[operand] for each in fragments), strict=True)
        return [_joined([m.operands.reader(x, t) for x in column]) for column in columns]

    read_a = readers(1, word)
    read_b = readers(2, word)
    read_c = readers(3, held.get(c_type) or TYPES[c_type])
    writers = [
        [m.operands.writer(x, held.get(d_type) or TYPES[d_type]) for x in each]
        for each, *_ in fragments
    ]

    def product(c: np.ndarray) -> np.ndarray:
        left = elements(rows_of_words([read() for read in read_a], height), a_type)
        right = elements(rows_of_words([read() for read in read_b], 8), b_type)
        if d_type in ("f16", "f32"):
            return tensor_cores.mma(left, right, c, (a_type, b_type), d_type)
        inner = np.matmul(left, right.transpose(0, 2, 1))  # [warps, height, 8]
        if combine == "xor":
            inner = left.sum(axis=2)[:, :, None] + right.sum(axis=2)[:, None, :] - 2 * inner
        return inner + c

    def step() -> None:
        require_whole_warps(m, instruction)
        # D: rows lane/4 and, of 16, 8 further; columns lane%4*2 and the next
        c = np.stack(_accumulators(read_c, c_type)).reshape(height // 8, 2, -1, 8, 4)
        whole = product(c.transpose(2, 0, 3, 4, 1).reshape(-1, height, 8))
        parts = (
            whole.reshape(-1, height // 8, 8, 4, 2)
            .transpose(1, 4, 0, 2, 3)
            .reshape(height // 4, -1)
        )
        total = results(parts, d_type, saturate)
        for number, into in enumerate(writers):
            lanes = slice(number * m.state.lanes, (number + 1) * m.state.lanes)
            for write, value in zip(into, total, strict=True):
                write(value if numbers == 1 else value[lanes])

    return step


def _joined(readers: list[Callable[[], np.ndarray]]) -> Callable[[], np.ndarray]:
    """One register of several instructions, one after the other."""
    if len(readers) == 1:
        (read,) = readers
        return lambda: np.ascontiguousarray(read())
    return lambda: np.concatenate([read() for read in readers])


def _accumulators(read_c: list[Callable[[], np.ndarray]], c_type: str) -> list[np.ndarray]:
    if c_type == "f16":
        pairs = [floats.halves(read()) for read in read_c]
        return [floats.unpack(x, "f16").astype(np.float64) for pair in pairs for x in pair]
    return [read().astype(np.int64 if c_type == "s32" else np.float64) for read in read_c]
