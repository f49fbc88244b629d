"""tensormap: maps that the device makes or changes (PTX ISA 9.7.9.27)."""

from __future__ import annotations

import numpy as np

from ..errors import PtxError
from ..machine import tensor_maps
from ..machine.memory import GLOBAL_BASE
from ..machine.operands import MemoryOperand
from ..ptx.syntax import Immediate, Instruction
from ..ptx.types import TYPES
from .needs import Machine
from .registry import ADDRESS, NUMBER, VALUE, Modifiers, Step, effect, takes

U64 = TYPES["u64"]
# This many bytes of a map are accessed at once.
PIECE = 16


@effect(
    "tensormap",
    takes(ADDRESS, ADDRESS, NUMBER, when="cp_fenceproxy"),
    takes(ADDRESS, VALUE, optional=(VALUE,)),
)
def tensormap(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """tensormap.replace: set a field of a map; tensormap.cp_fenceproxy: copy one from shared to
    global memory.
    """
    if modifiers.flag("cp_fenceproxy"):
        return _copy(m, instruction, modifiers)
    field = modifiers.one_of(tensor_maps.FIELDS)
    if not (modifiers.flag("replace") and modifiers.flag("tile")) or field is None:
        modifiers.reject("this operation")
    space = modifiers.one_of(("global", "shared::cta", "shared"), "generic").removesuffix("::cta")
    modifiers.drop(("b1024",))
    t = modifiers.type
    address, *more = instruction.operands
    operand = m.operands.address(address, space)
    ordinal = more.pop(0) if len(more) > 1 else Immediate(0)
    if not isinstance(ordinal, Immediate) or not 0 <= int(ordinal.value) < tensor_maps.MAX_RANK:
        raise PtxError(
            f"{instruction.where}: {instruction.name}: the ordinal must be a whole number from 0 to 4"
        )
    at, size = tensor_maps.field_at(
        field, int(ordinal.value) if field in tensor_maps.ORDINALS else 0
    )
    read = m.operands.reader(more[0], t)

    def step() -> None:
        for data, start, lane in _maps(m, instruction, operand):
            tensor_map = data[start : start + tensor_maps.BYTES]
            number = tensor_maps.decoded(tensor_map.tobytes())
            if number is not None and number < len(m.launch.tensor_maps):
                tensor_map[:] = np.frombuffer(
                    tensor_maps.fields_of(m.launch.tensor_maps[number]), np.uint8
                )
            tensor_map[: len(tensor_maps.MADE)] = np.frombuffer(tensor_maps.MADE, np.uint8)
            value = int(np.broadcast_to(read(), m.state.lanes)[lane]) & (1 << 8 * size) - 1
            tensor_map[at : at + size] = np.frombuffer(value.to_bytes(size, "little"), np.uint8)
            if data is m.memory.spaces["global"].data:
                m.events.global_memory.maps.changed(start + GLOBAL_BASE, lane, instruction)

    return step


def _maps(
    m: Machine, instruction: Instruction, operand: MemoryOperand
) -> list[tuple[np.ndarray, int, int]]:
    """Return where the maps of the active threads lie: an array of bytes and an index in it, with
    the thread.
    """
    access = m.memory.access(operand, PIECE, instruction, "atom", observed=False)
    maps = []
    for _, part in access.parts:
        m.memory.require_valid(part, tensor_maps.BYTES, 64, instruction, "atom")
        lanes = np.arange(m.state.lanes) if part.lanes is None else np.asarray(part.lanes)
        maps += [
            (part.space.data, at, lane)
            for at, lane in zip(part.flat().tolist(), lanes.tolist(), strict=True)
        ]
    return maps


def _copy(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """[to], [from], 128: by one lane of the warp is enough; the fence orders what is not reordered
    here.
    """
    modifiers.drop(
        (
            "global",
            "shared::",
            "tensormap::",
            "release",
            "acquire",
            "cta",
            "cluster",
            "gpu",
            "sys",
            "sync",
        )
    )
    modifiers.drop(("aligned",))
    destination, source, size = instruction.operands
    if int(size.value) != tensor_maps.BYTES:
        raise PtxError(
            f"{instruction.where}: {instruction.name} copies {tensor_maps.BYTES} bytes, not {size.value}"
        )
    destination_operand = m.operands.address(destination, "global")
    source_operand = m.operands.address(source, "shared")

    def step() -> None:
        taken = _maps(m, instruction, source_operand)
        put = _maps(m, instruction, destination_operand)
        # The warp copies together: the first lane of each address stands for it.
        first: dict[int, int] = {}
        for (data, start, _), (to, offset, lane) in zip(taken, put, strict=True):
            to[offset : offset + tensor_maps.BYTES] = data[start : start + tensor_maps.BYTES]
            first.setdefault(offset, lane)
        for offset, lane in first.items():
            m.events.global_memory.maps.changed(
                offset + GLOBAL_BASE, lane, instruction, released=True
            )

    return step
