"""Errors with a message of one line: `PtxError` while reading a program, `PtxsimError` while
running one.
"""

from __future__ import annotations

import enum
import sys
import traceback
from typing import Any

EMULATOR_FAILED = 3  # the exit code of a programming error of the emulator


def report_own_failure(place: str = "") -> str:
    """Print the traceback of the exception that is handled, a programming error of the emulator,
    and a line that says where to report it. Return that line."""
    text = f"{place}the emulator itself failed; please report this traceback, with the program, as an issue of ptxsim"
    print(f"{traceback.format_exc()}ptxsim: {text}", file=sys.stderr, flush=True)
    return text


class PtxsimError(Exception):
    """A fault of the running program, or of how it was launched. The message is one line."""


class Kind(enum.StrEnum):
    """Kinds of faults. Exit codes, `--accept`, reports and reruns without a check go by them."""

    RACE = "race"  # of shared or global memory
    DEADLOCK = "deadlock"
    UNWRITTEN = "unwritten"  # a value that nobody wrote
    SPACE = "space"  # an operand in a memory that the instruction cannot use
    WRAP = "wrap"  # a 32-bit index
    BOUNDS = "bounds"
    ALIGNMENT = "alignment"
    COPY = "copy"  # an asynchronous copy that is not waited for, or is malformed
    FENCE = "fence"
    BARRIER = "barrier"
    MASK = "mask"  # of the lanes that a warp's instruction names
    MBARRIER = "mbarrier"
    WGMMA = "wgmma"
    ASSERT = "assert"
    TRAP = "trap"
    MEMORY = "memory"  # a free of what is not allocated
    LIMIT = "limit"  # of the emulator
    OTHER = "other"


class KernelFault(PtxsimError):
    """A fault of a thread of the running program.

    Attributes: kind. where: its line, and the lines that call, in words. places: the same as
        locations, innermost first. count: threads. bad: the threads (mask by lane of the batch)
        without which the instruction can be executed, None where it cannot. pc: the index of the
        instruction in the program.
    """

    def __init__(
        self, kind: Kind, message: str, where: str, places: tuple[Any, ...], pc: int, count: int = 1
    ) -> None:
        super().__init__(message)
        self.kind, self.where, self.places, self.pc, self.count = kind, where, places, pc, count
        self.bad: Any = None


class PtxError(PtxsimError):
    """A program that cannot be run: malformed PTX, an unknown instruction, a missing entry."""


class TooCostlyError(PtxsimError):
    """A grid costs more than the limit `thread_instructions`."""


class NoEntryError(PtxError):
    """The program has no such entry, or none at all."""
