"""Errors with a message of one line: `PtxError` while reading a program, `PtxsimError` while
running one.
"""

from __future__ import annotations

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


class KernelFault(PtxsimError):
    """A fault of a thread of the running program. `what`: in words, without its place; `places`:
    the line of the source, then the lines that call; `count`: threads; `bad`: the threads (mask by
    lane of the batch) without which the instruction can be executed, None where it cannot; `pc`:
    the instruction's place in the program."""

    def __init__(
        self, message: str, what: str, where: str, places: tuple[Any, ...], count: int = 1
    ) -> None:
        super().__init__(message)
        self.what, self.where, self.places, self.count = what, where, places, count
        self.bad: Any = None
        self.pc = 0


class PtxError(PtxsimError):
    """A program that cannot be run: malformed PTX, an unknown instruction, a missing entry."""


class TooCostlyError(PtxsimError):
    """A grid costs more than the limit `thread_instructions`."""


class NoEntryError(PtxError):
    """The program has no such entry, or none at all."""
