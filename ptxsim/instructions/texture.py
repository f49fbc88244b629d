"""Texture fetches of linear memory (PTX ISA 9.7.10.3): what tex1Dfetch makes.

A texture object is a number that `ptxsim.Texture` was given at launch. An index outside gives zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import PtxError
from ..ptx_types import TYPES
from ..syntax import Instruction, Register, Symbol, Vector
from .registry import RESULT_VECTOR, TEXEL, Modifiers, Step, anything, effect, takes

if TYPE_CHECKING:
    from ..machine import Machine

S32, U64 = TYPES["s32"], TYPES["u64"]


@effect("tex", anything("level"), anything("grad"), takes(RESULT_VECTOR, TEXEL, when="1d s32"), anything())
def tex(m: Machine, instruction: Instruction) -> Step:
    """tex.1d.v4.f32.s32 {a, b, c, d}, [texture, {x}]: element x of linear memory, converted to four components."""
    modifiers = Modifiers(instruction)
    if not modifiers.flag("1d") or modifiers.types[-1].name != "s32":
        modifiers.reject("anything but a 1-D fetch by integer index")
    modifiers.flag("v4")
    t = modifiers.types[0]
    modifiers.done()
    destination, address = instruction.operands
    writers = [m.writer(item, t) if item is not None else None for item in destination.items]
    if not isinstance(address.base, (Register, Symbol)):
        raise PtxError(f"{instruction.where}: {instruction.name}: a texture object must be in a register")
    handle = m.reader(address.base, U64)
    coordinate = address.index.items[0] if isinstance(address.index, Vector) else address.index
    index = m.reader(coordinate, S32)

    def step() -> None:
        lanes = np.arange(m.lanes) if m.active is None else np.flatnonzero(m.active)
        handles, x = handle()[lanes], index()[lanes].astype(np.int64)
        results = [np.zeros(m.lanes, t.dtype) for _ in range(4)]
        for number in np.unique(handles).tolist():
            texture = m.textures.get(number)
            if texture is None:
                raise m.fault(instruction, f"0x{number:x} is not a texture object", int(lanes[0]))
            here = np.flatnonzero(handles == number)
            inside = here[(x[here] >= 0) & (x[here] < texture.elements)]
            raw = m.arena.read(texture.address, texture.elements * texture.element_bytes)
            table = raw.view(texture.dtype).reshape(texture.elements, -1)
            for channel in range(table.shape[1]):
                results[channel][lanes[inside]] = table[x[inside], channel]
            if table.shape[1] < 4 and t.kind == "f":
                results[3][lanes[here]] = 1
            m.fetched(instruction, texture, lanes, x)
        for write, value in zip(writers, results, strict=True):
            if write is not None:
                write(value)

    return step
