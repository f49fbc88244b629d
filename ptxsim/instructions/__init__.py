"""The semantics of instructions: one place each. Importing this package registers them all.

Sections are those of the PTX ISA of CUDA 12.9 (version 8.8).
"""

from __future__ import annotations

from ..errors import PtxError
from ..ptx.syntax import Instruction
from . import (  # noqa: F401
    async_copy,
    compare,
    control,
    convert,
    floating,
    integer,
    logic,
    matrix,
    mbarrier,
    memory,
    move,
    store_async,
    tensormap,
    texture,
    video,
    warp,
    wgmma,
    wmma,
)
from .registry import CONTROLS, EFFECTS, find_elementwise


def require_known(instruction: Instruction) -> None:
    """Raise `PtxError` for an instruction that has no semantics here."""
    opcode = instruction.opcode
    if opcode in CONTROLS or opcode in EFFECTS or find_elementwise(instruction) is not None:
        return
    raise PtxError(f"{instruction.where}: instruction {instruction.name} is not known")
