"""The addresses of a warp's lanes at each instruction that accesses memory, at its first execution.

    first = FirstAccesses()
    kernel.launch(..., observers=[first])
    first.of[pc].shared.addresses

The costs of these addresses follow from them alone: `wavefronts` of shared memory, `sectors` of
global memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..machine.observer import MemoryEvent, Observer
from ..machine.state import WARP
from .wavefronts import LINE


@dataclass(frozen=True)
class Lanes:
    """What the first warp that accesses memory at an instruction asks for.

    `warp` is its number in its block. `addresses` has 32 byte addresses, None for lanes that are
    not active: of shared memory within the block's, of global memory from the 128-byte line of the
    smallest one.
    """

    warp: int
    addresses: tuple[int | None, ...]


@dataclass
class Accesses:
    """The lanes at one instruction, by space; a cp.async has both."""

    shared: Lanes | None = None
    global_: Lanes | None = None


class FirstAccesses(Observer):
    """The observer that keeps them, by pc; bulk copies, which no warp's lanes address, are left out."""

    def __init__(self) -> None:
        self.of: dict[int, Accesses] = {}

    def memory(self, event: MemoryEvent) -> None:
        if event.space not in ("shared", "global"):
            return
        accesses = self.of.setdefault(event.instruction.pc, Accesses())
        space = "shared" if event.space == "shared" else "global_"
        if getattr(accesses, space) is not None:
            return
        addresses, active = event.addresses()
        if not active.any():
            return
        row = int(active.any(axis=1).argmax())
        base = 0 if space == "shared" else int(addresses[row][active[row]].min()) // LINE * LINE
        pairs = zip(addresses[row].tolist(), active[row].tolist(), strict=True)
        lanes = tuple(address - base if on else None for address, on in pairs)
        warp = row % (event.state.padded // WARP)
        setattr(accesses, space, Lanes(warp, lanes))
