"""What is said of a program while it runs: lines for the user, and records for the reports."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from ..ptx.demangle import split
from . import elf
from .options import Options
from .protocol import Frame, Note, Payload

KINDS = {Note.REMARK: "note", Note.API_ERROR: "api_error", Note.UNSUPPORTED: "unsupported"}


class Reporter:
    """Prints and records. `records`: where records go, a line of JSON each.

    Attributes: executable: the program's file. allocations: by the name that messages use, the call
        that made an allocation, and where it comes from.
    """

    def __init__(self, options: Options, records: IO[str]) -> None:
        self.options, self.records = options, records
        self.executable = ""
        self.allocations: dict[str, tuple[str, tuple[Frame, ...]]] = {}
        self._once: set[str] = set()

    def say(self, text: str) -> None:
        """Print a line for the user."""
        with contextlib.suppress(OSError):
            sys.stderr.write(f"ptxsim: {self.with_places(text)}\n")
            sys.stderr.flush()

    def record(self, kind: str, content: dict[str, Any]) -> None:
        """Write a record."""
        with contextlib.suppress(OSError):
            self.records.write(json.dumps({"kind": kind, **content}) + "\n")
            self.records.flush()

    def report(self, kind: str, text: str) -> None:
        """Print a line, and record it."""
        self.say(text)
        self.record(kind, {"text": self.with_places(text)})

    def once(self, text: str) -> None:
        """Note something the first time."""
        if text not in self._once:
            self._once.add(text)
            if not self.options.quiet:
                self.say(f"note: {text}")
            self.record("note", {"text": self.with_places(text)})

    def note(self, payload: Payload) -> None:
        """Answer NOTE: the program's libraries have something to say."""
        kind, call = Note(payload.u32()), payload.text()
        text = re.sub(r"\b_Z\w+", lambda name: split(name[0])[0], payload.text())
        if call:
            colon = "" if kind == Note.UNSUPPORTED else ":"
            text = f"{self.at_line(call, payload.frames())}{colon} {text}"
        if kind == Note.ONCE:
            self.once(text)
        else:
            self.report(KINDS[kind], text)

    def at_line(self, call: str, frames: Iterable[Frame]) -> str:
        """Add to a call the line of the program's source from which it comes, if it is known."""
        line = self.line(frames)
        return f"{call} at {line}" if line else call

    def line(self, frames: Iterable[Frame]) -> str | None:
        """Return the line of the program's source from which a call comes, if it is known; not of
        Python's interpreter.
        """
        return None if Path(self.executable).name.startswith("python") else elf.first_line(frames)

    def with_places(self, text: str) -> str:
        """Add to a message the lines at which allocations that it names were made."""
        if "allocation " not in text or not self.allocations:
            return text
        names = "|".join(map(re.escape, sorted(self.allocations, key=len, reverse=True)))
        return re.sub(
            rf"(?:{names})\b",
            lambda match: f"{match[0]} ({self.at_line(*self.allocations[match[0]])})",
            text,
        )
