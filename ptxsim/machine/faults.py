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

from ..errors import KernelFault, Kind, PtxsimError
from ..ptx.syntax import Location

# With these a device ends the kernel, or an instruction is left out here. Threads that then wait in
# vain have no fault of their own.
ENDING = {Kind.BOUNDS, Kind.ALIGNMENT, Kind.SPACE, Kind.COPY, Kind.TRAP, Kind.ASSERT, Kind.MEMORY}
ACCEPTABLE = [kind for kind in Kind if kind is not Kind.OTHER]


@dataclass(frozen=True)
class Accepted:
    """Faults that the user accepts: their kind (one of `Kind`), the line where they happen, or that calls
    the function where they do, in a file given by its name or the end of its path (line 0:
    anywhere), and the reason.

    >>> kernel = ptxsim.load("scale.ptx")
    >>> x, y = (ptxsim.Array(np.zeros(64, np.float32), name) for name in "xy")
    >>> accepted = ptxsim.Accepted("bounds", "scale.cu", 4, "the caller pads")
    >>> kernel.launch(3, 32, [y, x, 2.0, 96], accept=[accepted]).faults[0].accepted
    'the caller pads'
    """

    kind: str
    file: str
    line: int
    reason: str

    def fits(self, kind: str, places: Sequence[Location]) -> bool:
        """Return whether a fault of a kind, at a line and the lines that call it, is accepted."""
        return kind == self.kind and (not self.line or self._at(places))

    def _at(self, locations: Sequence[Location]) -> bool:
        parts = PurePath(self.file).parts
        return any(
            location.line == self.line and PurePath(location.file).parts[-len(parts) :] == parts
            for location in locations
        )


def parse_accepted(text: str) -> Accepted:
    """Parse the option `race@softmax.cu:12=reason`, or `race=reason`.

    Raises `PtxsimError`, one line.
    """
    match = re.fullmatch(r"(\w+)(?:@(.+):([1-9]\d*))?=\s*(\S.*)", text)
    if match is None:
        raise PtxsimError(
            f"--accept {text!r}: expected KIND@FILE:LINE=REASON, as in race@softmax.cu:12='one value', or KIND=REASON"
        )
    kind, file, line, reason = match[1], match[2] or "", match[3] or 0, match[4]
    if kind not in ACCEPTABLE:
        raise PtxsimError(
            f"--accept {text!r}: kind {kind!r} is not known; known: {', '.join(ACCEPTABLE)}"
        )
    return Accepted(kind, file, int(line), reason)


def add_options(parser: argparse.ArgumentParser, stop_at_first: str) -> None:
    """Options of a command that launches kernels. `stop_at_first`: what that option does there."""
    parser.add_argument("--stop-at-first", action="store_true", help=stop_at_first)
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        type=parse_accepted,
        metavar="KIND[@FILE:LINE]=REASON",
        help=f"accept faults of a kind, at a line or anywhere, for a reason; kinds: {', '.join(ACCEPTABLE)}",
    )


@dataclass(frozen=True)
class Found:
    """A fault of a launch, once for each line and kind.

    Attributes: kind. where: its line, and the lines that call, in words. message: its first
        occurrence, as one line. count: how often it occurred, by threads. accepted: the reason
        where it is accepted, else None. ended: whether the blocks that were running ended with it,
        unfinished.
    """

    kind: Kind
    where: str
    message: str
    count: int
    accepted: str | None
    ended: bool = False

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
        self.recorded: dict[tuple[str, Kind], Found] = {}
        self.taken: Counter[tuple[str, Kind]] = Counter()

    def take(self, fault: KernelFault, ended: bool = False) -> int:
        """Record a fault, or raise it where the launch ends with its first. `ended`: whether
        running blocks did. Returns how often this line has had this kind of fault, however many
        threads had it at the same time."""
        if fault.kind is Kind.DEADLOCK and any(kind in ENDING for _, kind in self.recorded):
            return 0
        key = fault.where, fault.kind
        known = self.recorded.get(key)
        if known is None:
            reason = next((a.reason for a in self.accept if a.fits(fault.kind, fault.places)), None)
            if reason is None and self.stop_at_first:
                raise fault
            known = Found(fault.kind, fault.where, str(fault), 0, reason)
        self.recorded[key] = replace(
            known, count=known.count + fault.count, ended=known.ended or ended
        )
        self.taken[key] += 1
        return self.taken[key]
