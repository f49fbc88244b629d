"""What can go wrong, each as one line: `PtxError` while reading a program, `PtxsimError` while running one."""

from __future__ import annotations


class PtxsimError(Exception):
    """A fault of the running program, or of how it was launched. The message is one line."""


class PtxError(PtxsimError):
    """A program that cannot be run: malformed PTX, an unknown instruction, a missing entry."""


class NoEntryError(PtxError):
    """The program has no such entry, or none at all."""
