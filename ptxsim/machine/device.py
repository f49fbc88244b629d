"""The device that launches run on: how many multiprocessors it has, and its clock.

The clock is made up; it is not a measurement. It only grows, by what the emulator did: by a fixed
amount for each launch and each instruction, which all threads of a batch execute together, and by
the bytes of copies and fills. The amounts are about what the emulator itself takes, so elapsed
times are of that order, but the same in each run. Everything on the device reads this one clock:
`%clock64` (at the GPU's boost clock), `%globaltimer` and events.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ptx.sizes import SMS

# A launch takes this many ns.
OF_LAUNCH = 20_000_000
OF_INSTRUCTION = 1_000
OF_COPY, BYTES_OF_A_NS = 1_000, 1_000


@dataclass
class Device:
    """A device that is shared by the launches of a process."""

    sms: int = SMS
    clock_mhz: float = 1980.0
    # The clock counts from the moment when the device was switched on.
    ns: int = 1_000_000_000

    def cycles(self, ns: int) -> int:
        """Return the cycle counter of each multiprocessor at a time."""
        return int(ns * self.clock_mhz / 1000)

    def after(self, instructions: int) -> int:
        """Return the time, in ns, once so many more instructions have been executed."""
        return self.ns + instructions * OF_INSTRUCTION

    def launched(self) -> None:
        """A launch begins."""
        self.ns += OF_LAUNCH

    def executed(self, instructions: int) -> None:
        """A batch of blocks has ended, after so many instructions."""
        self.ns = self.after(instructions)

    def copied(self, size: int) -> None:
        """Bytes were copied or filled."""
        self.ns += OF_COPY + size // BYTES_OF_A_NS
