"""Faults of a launch: each line and kind once, with a count; those that its user accepts, with the
reason.

kernel.launch(..., stop_at_first=False, accept=[ptxsim.Accepted("race", "softmax.cu", 12, "all write
one value")])
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from ..errors import KernelFault, PtxsimError
from ..ptx.syntax import Location

# Kinds of faults by their words, the first that fits
KINDS = {
    "race": r"race|accesses shared memory of block .* which may have ended",
    "deadlock": r"deadlock|setmaxnreg",
    "unwritten": r"read of (local|shared|global) memory that nobody wrote|register .* which nobody wrote",
    "space": r"wmma\.\S+ of local memory",
    "wrap": r"a 32-bit index wraps",
    "bounds": r"out-of-bounds|parameter .* is read beyond|accesses shared memory of (a )?block",
    "alignment": r"misaligned|.*is not aligned",
    "copy": r"read before the wait|write: a |the block ends before|cp\.async|writes what .* may still read",
    "fence": r".*without a fence|signals an mbarrier|reads through the read-only cache",
    "barrier": r"barrier|warp barrier",
    "mbarrier": r"mbarrier|mbarrier\.",
    "wgmma": r"wgmma|reads the result of|writes a register that|takes as operand A|.*of a warpgroup",
    "assert": r"assertion",
    "trap": r"trap",
    "memory": r"free of",
    "limit": r"more than \d+ instructions|calls nest deeper",
}
OTHER = "other"


def kind_of(what: str) -> str:
    """Return the kind of a fault, which its message begins with."""
    return next((kind for kind, words in KINDS.items() if re.match(words, what)), OTHER)


@dataclass(frozen=True)
class Accepted:
    """Faults that the user accepts: their kind (`KINDS`), the line where they happen, or that calls
    the function where they do, in a file given by its name or the end of its path (line 0:
    anywhere), and the reason."""

    kind: str
    file: str
    line: int
    reason: str

    def fits(self, kind: str, places: Sequence[Location]) -> bool:
        return kind == self.kind and (not self.line or self._at(places))

    def _at(self, places: Sequence[Location]) -> bool:
        parts = PurePath(self.file).parts
        return any(
            place.line == self.line and PurePath(place.file).parts[-len(parts) :] == parts
            for place in places
        )


def parse_accepted(text: str) -> Accepted:
    """Parse the option `race@softmax.cu:12=reason`, or `race=reason`.

    Raises `PtxsimError`, one line.
    """
    found = re.fullmatch(r"(\w+)(?:@(.+):([1-9]\d*))?=\s*(\S.*)", text)
    if found is None:
        raise PtxsimError(
            f"--accept {text!r}: expected KIND@FILE:LINE=REASON, as in race@softmax.cu:12='one value', or KIND=REASON"
        )
    kind, file, line, reason = found[1], found[2] or "", found[3] or 0, found[4]
    if kind not in KINDS:
        raise PtxsimError(
            f"--accept {text!r}: kind {kind!r} is not known; known: {', '.join(KINDS)}"
        )
    return Accepted(kind, file, int(line), reason)


def add_options(parser: argparse.ArgumentParser, stop_at_first: str) -> None:
    """Options of a command that launches kernels. `stop_at_first`: what that option does there."""
    parser.add_argument("--stop-at-first", action="store_true", help=stop_at_first)
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        metavar="KIND[@FILE:LINE]=REASON",
        help=f"accept faults of a kind, at a line or anywhere, for a reason; kinds: {', '.join(KINDS)}",
    )


@dataclass(frozen=True)
class Found:
    """A fault of a launch: its first occurrence as one line, and how often it occurred (by
    threads).
    """

    kind: str
    where: str
    message: str
    count: int
    accepted: str | None  # the reason, where it is accepted
    ended: bool = False  # whether the blocks that were running ended with it, unfinished

    @property
    def acceptance(self) -> str:
        """One line about an accepted fault, with the reason."""
        times = f" [{self.count:,} times]" if self.count > 1 else ""
        return f"accepted: {self.kind} at {self.where}{times}: {self.accepted}"

    def __str__(self) -> str:
        return self.message if self.count == 1 else f"{self.message} [{self.count:,} times]"


class Faults:
    """The faults that a launch has had so far."""

    def __init__(self, stop_at_first: bool = True, accept: Sequence[Accepted] = ()) -> None:
        self.stop_at_first, self.accept = stop_at_first, tuple(accept)
        self.found: dict[tuple[str, str], Found] = {}
        self.taken: Counter[tuple[str, str]] = Counter()

    def take(self, fault: KernelFault, ended: bool = False) -> int:
        """Record a fault, or raise it where the launch ends with its first. `ended`: whether
        running blocks did. Returns how often this line has had this kind of fault, however many
        threads had it at the same time."""
        key = fault.where, kind_of(fault.what)
        known = self.found.get(key)
        if known is None:
            reason = next((a.reason for a in self.accept if a.fits(key[1], fault.places)), None)
            if reason is None and self.stop_at_first:
                raise fault
            known = Found(key[1], fault.where, str(fault), 0, reason)
        self.found[key] = replace(
            known, count=known.count + fault.count, ended=known.ended or ended
        )
        self.taken[key] += 1
        return self.taken[key]
