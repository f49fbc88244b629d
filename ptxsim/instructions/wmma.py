"""wmma: matrix fragments whose layout is the implementation's own affair (PTX ISA 9.7.14.4).

Here threads hold the elements that they hold in the fragments of mma.sync. Of f16 inputs a thread
has twice as many elements as it needs, on hardware too: the second half repeats the first. Each
element is accessed by itself, so counters of these loads and stores do not tell what the hardware
does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from ..errors import Kind, PtxError
from ..machine import tensor_cores
from ..machine.memory import Access, MixedAccess
from ..ptx.syntax import Instruction
from ..ptx.types import TYPES, Type
from .matrix import elements, require_whole_warps, results
from .memory import SPACES
from .needs import Machine
from .registry import ADDRESS, RESULT_VECTOR, VALUE, VALUE_VECTOR, Modifiers, Step, effect, takes

WARP = 32
SHAPES = {
    "m16n16k16": (16, 16, 16),
    "m32n8k16": (32, 8, 16),
    "m8n32k16": (8, 32, 16),
    "m16n16k8": (16, 16, 8),
    "m8n8k4": (8, 8, 4),
}
ELEMENT = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "s8": 1, "u8": 1, "s32": 4, "f64": 8}
INPUTS = {
    "f16": ("f16", "f32"),
    "bf16": ("f32",),
    "tf32": ("f32",),
    "s8": ("s32",),
    "u8": ("s32",),
    "f64": ("f64",),
}
B32, B64, U32, U64 = TYPES["b32"], TYPES["b64"], TYPES["u32"], TYPES["u64"]


def _size(role: str, shape: str) -> tuple[int, int]:
    m, n, k = SHAPES[shape]
    return {"a": (m, k), "b": (k, n), "c": (m, n), "d": (m, n)}[role]


@cache
def _layout(role: str, shape: str, width: int) -> np.ndarray:
    """Return the elements (row-major numbers) that the threads of a warp hold, [elements, lanes];
    `width`: bytes of an element.
    """
    rows, columns = _size(role, shape)
    line, within = np.divmod(np.arange(rows * columns), columns)
    if role == "b":
        line, within = within, line
    together = 2 if role in "cd" else max(1, 4 // width)
    lane = line % 8 * 4 + within % (4 * together) // together
    blocks = [within // (4 * together), line // 8]
    keys = (within % together, *(blocks[::-1] if role != "b" else blocks), lane)
    return np.lexsort(keys).reshape(WARP, -1).T


@effect(
    "wmma",
    takes(RESULT_VECTOR, ADDRESS, optional=(VALUE,), when="load"),
    takes(ADDRESS, VALUE_VECTOR, optional=(VALUE,), when="store"),
    takes(RESULT_VECTOR, VALUE_VECTOR, VALUE_VECTOR, VALUE_VECTOR),
)
def wmma(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """wmma.load, wmma.store, wmma.mma (PTX ISA 9.7.14.4.3 to 9.7.14.4.5); sums as of mma.sync."""
    action = modifiers.one_of(("load", "store", "mma")) or modifiers.reject("this operation")
    role = modifiers.one_of(("a", "b", "c", "d")) or ""
    modifiers.drop(("sync", "aligned"))
    shape = modifiers.one_of(SHAPES) or modifiers.reject("this shape")
    if action == "mma":
        layouts = [name for name in instruction.modifiers if name in ("row", "col")]
        modifiers.drop(("row", "col"))
        saturates = modifiers.flag("satfinite")
        modifiers.flag("rn")
        return _mma(m, instruction, shape, modifiers.types, layouts, saturates)
    layout = modifiers.one_of(("row", "col"), "")
    space = modifiers.one_of(SPACES, "generic").split("::")[0]
    name = modifiers.type.name
    if name not in ELEMENT:
        modifiers.reject("this type")
    held = _layout(role, shape, ELEMENT[name])
    return _transfer(m, instruction, action, held, _size(role, shape), layout, space, name)


def _transfer(
    m: Machine,
    instruction: Instruction,
    action: str,
    held_by: np.ndarray,
    size: tuple[int, int],
    layout: str,
    space: str,
    name: str,
) -> Step:
    fragment, address = (
        instruction.operands[:2] if action == "load" else instruction.operands[1::-1]
    )
    stride = instruction.operands[2] if len(instruction.operands) > 2 else None
    space, slot, offset = m.operands.address(address, space)
    width, rows, columns = ELEMENT[name], *size
    natural = columns if layout == "row" else rows
    read_stride = (
        m.operands.reader(stride, U32)
        if stride is not None
        else lambda: m.state.uniform(np.uint32(natural))
    )
    # A thread needs `needed` elements; `each` of them fit a register.
    needed, each = len(held_by), max(1, 4 // width)
    held = len(fragment.items) * each
    if held % needed:
        raise PtxError(
            f"{instruction.where}: {instruction.name} with {len(fragment.items)} registers"
        )
    word = B64 if width == 8 else B32
    readers = (
        [m.operands.reader(item, word) for item in fragment.items] if action == "store" else []
    )
    writers = [m.operands.writer(item, word) for item in fragment.items] if action == "load" else []
    # The slot holds the address of one element of each thread.
    element_slot = m.state.new_slot()
    lines, within = divmod(held_by, columns) if layout == "row" else divmod(held_by, columns)[::-1]

    def set_addresses(number: int) -> None:
        base = m.state.registers[slot].astype(np.int64).reshape(-1, WARP)
        stride = read_stride().astype(np.int64).reshape(-1, WARP)
        at = base + (lines[number] * stride + within[number]) * width
        m.state.registers[element_slot] = at.view(np.uint64).reshape(-1)

    def load() -> None:
        require_whole_warps(m, instruction)
        values = []
        for number in range(needed):
            set_addresses(number)
            access = m.memory.access((space, element_slot, offset), width, instruction, "ld")
            require_no_local(m, instruction, access)
            full = np.zeros(m.state.lanes, word.dtype)
            full[slice(None) if access.lanes is None else access.lanes] = access.load(width)
            values.append(full)
        values *= held // needed
        for i, write in enumerate(writers):
            packed = values[i * each]
            for j in range(1, each):
                packed = packed | values[i * each + j] << np.uint32(8 * width * j)
            write(packed)

    def store() -> None:
        require_whole_warps(m, instruction)
        for number in range(needed):
            set_addresses(number)
            value = readers[number // each]()
            if each > 1:
                value = (value >> np.uint32(8 * width * (number % each))).astype(f"u{width}")
            access = m.memory.access((space, element_slot, offset), width, instruction, "st")
            require_no_local(m, instruction, access)
            access.store(width, value if access.lanes is None else value[access.lanes])

    return load if action == "load" else store


def require_no_local(m: Machine, instruction: Instruction, access: Access | MixedAccess) -> None:
    """Fragments are loaded from and stored to shared and global memory only (PTX ISA 9.7.14.4)."""
    for _, part in access.parts:
        if part.space.name == "local":
            lane = 0 if part.lanes is None else int(part.lanes[0])
            name = instruction.name.split(".sync")[0]
            what = f"{name} of local memory, an array of each thread: it must be shared or global memory"
            raise m.diag.fault(Kind.SPACE, instruction, what, lane)


def _matrix(
    m: Machine, readers: list[Callable[[], np.ndarray]], role: str, shape: str, name: str
) -> np.ndarray:
    """Return a fragment as matrices [warps, rows, columns] in float64, which holds whole numbers of
    32 bits exactly.
    """
    layout = _layout(role, shape, ELEMENT[name])
    held = elements(np.stack([read() for read in readers], axis=-1), name)[:, : len(layout)]
    matrix = held.reshape(m.state.warps, -1).take(np.argsort(layout.T, axis=None), axis=1)
    return matrix.astype(np.float64).reshape(m.state.warps, *_size(role, shape))


def _mma(
    m: Machine,
    instruction: Instruction,
    shape: str,
    types: list[Type],
    layouts: list[str],
    saturates: bool,
) -> Step:
    d_name, c_name = types[0].name, types[-1].name
    input_name = types[1].name if len(types) == 4 else "f16"
    sums = INPUTS.get(input_name, ())
    if (
        d_name not in sums
        or c_name not in sums
        or len(layouts) != 2
        or (saturates and d_name != "s32")
    ):
        raise PtxError(f"{instruction.where}: {instruction.name} is not supported")
    d, a, b, c = (operand.items for operand in instruction.operands)
    word = B64 if input_name == "f64" else B32
    reading = [[m.operands.reader(item, word) for item in operand] for operand in (a, b, c)]
    writers = [m.operands.writer(item, word) for item in d]

    def step() -> None:
        require_whole_warps(m, instruction)
        left = _matrix(m, reading[0], "a", shape, input_name)
        right = _matrix(m, reading[1], "b", shape, input_name)
        c = _matrix(m, reading[2], "c", shape, c_name)
        if d_name in ("s32", "f64"):
            total = np.matmul(left, right) + c
        else:
            total = tensor_cores.wmma(left, right.transpose(0, 2, 1), c, input_name, d_name)
        layout = _layout("d", shape, ELEMENT[d_name])
        by_element = total.reshape(m.state.warps, -1).T[layout].transpose(0, 2, 1)
        by_element = by_element.reshape(-1, m.state.lanes)
        for write, value in zip(writers, results(by_element, d_name, saturates), strict=True):
            write(value)

    return step
