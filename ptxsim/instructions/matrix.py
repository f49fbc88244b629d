"""Warp-level matrix instructions: ldmatrix, movmatrix, mma.sync (PTX ISA 9.7.14.5)."""

from __future__ import annotations

import numpy as np

from .. import floats
from ..errors import PtxError
from ..syntax import Vector
from ..types import TYPES
from .registry import Modifiers, effect

WARP = 32
B32 = TYPES["b32"]


def _items(operand) -> tuple:
    return operand.items if isinstance(operand, Vector) else (operand,)


def require_whole_warps(m, instruction) -> None:
    """These instructions need all 32 threads of a warp."""
    if m.active is not None:
        here = m.active.reshape(-1, WARP)
        broken = here.any(axis=1) & ~here.all(axis=1)
        if broken.any():
            lane = int(np.flatnonzero(broken)[0]) * WARP + int(here[np.flatnonzero(broken)[0]].argmax())
            raise m.fault(instruction, f"{instruction.name}: not all threads of the warp are here", lane)


@effect("ldmatrix")
def ldmatrix(m, instruction):
    """ldmatrix: one, two or four 8x8 matrices of 16-bit elements; thread 8i+j gives the address of row j of matrix i;
    a thread receives elements (lane/4, lane%4*2) and the next, of the transposed matrix with `.trans`
    (PTX ISA 9.7.14.5.15)."""
    modifiers = Modifiers(instruction)
    modifiers.flag("sync")
    modifiers.flag("aligned")
    if not modifiers.flag("m8n8"):
        modifiers.reject("a shape other than m8n8")
    count = int((modifiers.one_of(("x1", "x2", "x4")) or modifiers.reject("this number"))[1])
    trans = modifiers.flag("trans")
    space = modifiers.one_of(("shared::cta", "shared"), "generic").split("::")[0]
    modifiers.done()
    destination, address = instruction.operands
    space, slot, offset = m.address(address, space)
    writers = [m.writer(item, B32) for item in _items(destination)]
    if len(writers) != count:
        raise PtxError(f"{instruction.where}: {instruction.name} with {len(writers)} registers")
    row_givers = np.arange(WARP) < 8 * count

    def step() -> None:
        require_whole_warps(m, instruction)
        saved = m.mask, m.active, m.whole, m.count
        if count < 4:
            givers = m.row_givers(count, row_givers)
            m.active = givers
        try:
            access = m.access(space, slot, offset, 16, instruction, "ldmatrix")
        finally:
            m.mask, m.active, m.whole, m.count = saved
        rows = np.stack([access.load(4, i) for i in range(4)], axis=1)  # [givers, 4 words]
        warps = len(rows) // (8 * count)
        matrices = rows.reshape(warps, count, 8, 4)
        if trans:
            elements = matrices.view(np.uint16).reshape(warps, count, 8, 8).transpose(0, 1, 3, 2)
            matrices = np.ascontiguousarray(elements).view(np.uint32)
        values = np.ascontiguousarray(matrices.reshape(warps, count, WARP).transpose(1, 0, 2)).reshape(count, -1)
        if warps == m.warps:
            for write, value in zip(writers, values, strict=True):
                write(value)
        else:
            lanes = np.flatnonzero(m.active)
            for write, value in zip(writers, values, strict=True):
                full = np.zeros(m.lanes, np.uint32)
                full[lanes] = value
                write(full)

    return step


@effect("movmatrix")
def movmatrix(m, instruction):
    """movmatrix: transpose an 8x8 matrix of 16-bit elements across the warp (PTX ISA 9.7.14.5.17)."""
    modifiers = Modifiers(instruction)
    modifiers.drop(("sync", "aligned", "m8n8", "trans"))
    modifiers.done()
    read, write = m.reader(instruction.operands[1], B32), m.writer(instruction.operands[0], B32)

    def step() -> None:
        require_whole_warps(m, instruction)
        matrix = np.ascontiguousarray(read()).view(np.uint16).reshape(-1, 8, 8).transpose(0, 2, 1)
        write(np.ascontiguousarray(matrix).reshape(-1).view(np.uint32))

    return step


def _a_16bit(words: list[np.ndarray], depth: int) -> np.ndarray:
    """A, 16 x depth: registers hold rows lane/4 and +8, then columns 8 further; two elements each
    (PTX ISA 9.7.14.5.8, figures of matrix fragments)."""
    w = [x.reshape(-1, 8, 4) for x in words]
    left = np.concatenate(w[0:2], axis=1)  # rows 0-7, 8-15 of columns 0-7, as pairs
    if depth == 8:
        return left
    return np.concatenate([left, np.concatenate(w[2:4], axis=1)], axis=2)


def _operands_16bit(a: list[np.ndarray], b: list[np.ndarray], depth: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.ascontiguousarray(_a_16bit(a, depth))  # [warps, 16, depth / 2]
    left = floats.unpack(pairs.view(np.uint16), name).astype(np.float64)
    # B, depth x 8: column lane/4, rows lane%4*2 and the next, then 8 further
    columns = np.concatenate([x.reshape(-1, 8, 4) for x in b], axis=2)  # [warps, 8 columns, depth / 2 pairs]
    right = floats.unpack(np.ascontiguousarray(columns).view(np.uint16), name).astype(np.float64)
    return left, right.transpose(0, 2, 1)


def _operands_tf32(a: list[np.ndarray], b: list[np.ndarray], depth: int) -> tuple[np.ndarray, np.ndarray]:
    """A, 16 x depth: rows lane/4 and +8 of column lane%4, then of column +4; B: row lane%4 (and +4), column lane/4."""
    w = [floats.unpack(x, "tf32").astype(np.float64).reshape(-1, 8, 4) for x in a]
    left = np.concatenate(w[0:2], axis=1)
    if depth == 8:
        left = np.concatenate([left, np.concatenate(w[2:4], axis=1)], axis=2)
    columns = [floats.unpack(x, "tf32").astype(np.float64).reshape(-1, 8, 4) for x in b]
    return left, np.concatenate(columns, axis=2).transpose(0, 2, 1)


SHAPES = {
    # (shape, type of A and B): registers of A, of B
    ("m16n8k16", "f16"): (4, 2),
    ("m16n8k16", "bf16"): (4, 2),
    ("m16n8k8", "f16"): (2, 1),
    ("m16n8k8", "bf16"): (2, 1),
    ("m16n8k8", "tf32"): (4, 2),
    ("m16n8k4", "tf32"): (2, 1),
}


@effect("mma")
def mma(m, instruction):
    """mma.sync: D = A B + C of a warp (PTX ISA 9.7.14.5.14).

    Products are exact; all of an instruction's products and C are summed in float64 and rounded to the accumulator's
    type once, to nearest. The hardware aligns and truncates instead, in an order that NVIDIA does not document: expect
    differences in the last bits. Of a tf32 operand the upper 19 bits count.
    """
    modifiers = Modifiers(instruction)
    modifiers.flag("sync")
    modifiers.flag("aligned")
    shape = modifiers.one_of([s for s, _ in SHAPES])
    if not (modifiers.flag("row") and modifiers.flag("col")):
        modifiers.reject("a layout other than .row.col")
    if len(modifiers.types) != 4:
        modifiers.reject("these types")
    d_type, a_type, b_type, c_type = (t.name for t in modifiers.types)
    if (
        (shape, a_type) not in SHAPES
        or a_type != b_type
        or d_type not in ("f16", "f32")
        or c_type not in ("f16", "f32")
    ):
        modifiers.reject("this shape and types")
    modifiers.done()
    depth = int(shape.split("k")[1])
    d, a, b, c = (_items(o) for o in instruction.operands)
    registers_a, registers_b = SHAPES[shape, a_type]
    wanted = (4 if d_type == "f32" else 2, registers_a, registers_b, 4 if c_type == "f32" else 2)
    if tuple(map(len, (d, a, b, c))) != wanted:
        raise PtxError(f"{instruction.where}: {instruction.name} with {len(d)}, {len(a)}, {len(b)}, {len(c)} registers")
    read_a, read_b = [m.reader(x, B32) for x in a], [m.reader(x, B32) for x in b]
    f32 = TYPES["f32"]
    read_c = [m.reader(x, f32 if c_type == "f32" else B32) for x in c]
    writers = [m.writer(x, f32 if d_type == "f32" else B32) for x in d]

    def step() -> None:
        require_whole_warps(m, instruction)
        words_a = [np.ascontiguousarray(read()) for read in read_a]
        words_b = [np.ascontiguousarray(read()) for read in read_b]
        if a_type == "tf32":
            left, right = _operands_tf32(words_a, words_b, depth)
        else:
            left, right = _operands_16bit(words_a, words_b, depth, a_type)
        product = np.matmul(left, right)  # [warps, 16, 8]
        # D: rows lane/4 and +8, columns lane%4*2 and the next
        parts = product.reshape(-1, 2, 8, 4, 2).transpose(1, 4, 0, 2, 3).reshape(2, 2, -1)  # [row half, column, lane]
        sums = _accumulators(read_c, c_type)
        results = [parts[0, 0] + sums[0], parts[0, 1] + sums[1], parts[1, 0] + sums[2], parts[1, 1] + sums[3]]
        if d_type == "f32":
            for write, value in zip(writers, results, strict=True):
                write(value.astype(np.float32))
        else:
            packed = [floats.pack(value, "f16") for value in results]
            writers[0](floats.joined(packed[0], packed[1]))
            writers[1](floats.joined(packed[2], packed[3]))

    return step


def _accumulators(read_c, c_type: str) -> list[np.ndarray]:
    if c_type == "f32":
        return [read().astype(np.float64) for read in read_c]
    pairs = [floats.halves(read()) for read in read_c]
    return [floats.unpack(x, "f16").astype(np.float64) for pair in pairs for x in pair]
