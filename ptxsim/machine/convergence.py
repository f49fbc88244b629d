"""Instructions that a whole warp, or warpgroup, executes together (PTX's .aligned, and .sync with a
mask of lanes).

Threads of one come to such an instruction by and by, in whatever order groups of threads happen to
run: those that are early are held there until the others have come. What nobody can come to any
more is executed as it is, and says itself who is missing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import Kind
from ..ptx.syntax import Instruction
from .batch import Batch

WARP, WARPGROUP = 32, 128
WIDTHS = {
    **dict.fromkeys(("mma", "wmma", "ldmatrix", "stmatrix", "movmatrix"), WARP),
    **dict.fromkeys(("wgmma", "setmaxnreg"), WARPGROUP),
}
# With .sync, the last operand of these names lanes of the warp.
MASKED = ("shfl", "vote", "match", "redux", "elect")
# A missing part of the warp or warpgroup is a fault of its own kind for these.
INCOMPLETE = {"wgmma": Kind.WGMMA, "setmaxnreg": Kind.DEADLOCK}
LANE_BIT = np.uint32(1) << np.arange(WARP, dtype=np.uint32)


def width(instruction: Instruction) -> int | None:
    """Return how many threads must be there together; 0: those that a mask names; None: the
    instruction is no such.
    """
    if instruction.opcode in WIDTHS:
        return WIDTHS[instruction.opcode]
    return 0 if instruction.opcode in MASKED and "sync" in instruction.modifiers else None


class Convergence:
    """The threads of a batch that are held at such instructions."""

    def __init__(
        self,
        machine: Batch,
        masks: dict[int, Callable[[], np.ndarray]],
        execute: Callable[[int], None],
    ) -> None:
        """`masks`: of the instructions with one, by pc, what reads it; `execute`: one
        instruction, by its pc.
        """
        self.machine, self.masks, self.execute = machine, masks, execute
        self.held: dict[int, np.ndarray] = {}
        # For each width, `_known` has threads that were complete, and who lived then.
        self._known: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        groups = -(-machine.state.padded // WARPGROUP)
        self.warpgroup_of = machine.state.block_of * groups + machine.state.thread_of // WARPGROUP
        self.warpgroups = len(machine.state.blocks) * groups

    def arrive(self, pc: int, threads: np.ndarray) -> np.ndarray | None:
        """Let threads come to the instruction at `pc`. Return those that may execute it now, with
        any that were held there.
        """
        m = self.machine
        width_here = width(m.program.code[pc])
        # Only instructions with a width come here.
        assert width_here is not None
        early = self.held.pop(pc, None)
        if early is not None:
            threads = threads | early
        elif width_here:
            # A whole warp or warpgroup meets here, not the lanes of a mask.
            known = self._known.get(width_here)
            if known is not None and known[0] is threads and known[1] is m.state.alive:
                return threads
        ready = threads & ~self._short(pc, width_here, threads)
        rest = threads & ~ready
        if not rest.any():
            self._known[width_here] = threads, m.state.alive
            return threads
        self.held[pc] = rest
        return ready if ready.any() else None

    def _short(self, pc: int, width_here: int, threads: np.ndarray) -> np.ndarray:
        """Return the lanes that wait for live threads of their warp or warpgroup that have not
        arrived.
        """
        m = self.machine
        missing = m.state.alive & ~threads
        if width_here == WARP:
            return np.repeat(missing.reshape(-1, WARP).any(axis=1), WARP)
        if width_here == WARPGROUP:
            return (np.bincount(self.warpgroup_of[missing], minlength=self.warpgroups) > 0)[
                self.warpgroup_of
            ]
        lacking = np.where(missing.reshape(-1, WARP), LANE_BIT, np.uint32(0)).sum(
            axis=1, dtype=np.uint32
        )
        return (self.masks[pc]() & np.repeat(lacking, WARP)) != 0

    def after_exit(self) -> None:
        """Check whether warps are complete now that fewer threads are alive."""
        held = dict(self.held)
        self.held.clear()
        for pc, threads in held.items():
            self.machine.state.join(pc, threads)

    def release(self) -> None:
        """Nobody else can run: threads that wait say for whom; those with a mask go on, and find
        out themselves.
        """
        m = self.machine
        pc = min(self.held)
        instruction, threads = m.program.code[pc], self.held[pc]
        needed = width(instruction)
        if needed:
            lane = int(np.flatnonzero(threads)[0])
            what = "warp" if needed == WARP else "warpgroup"
            same = self.warpgroup_of == self.warpgroup_of[lane]
            if needed == WARP:
                same = np.arange(m.state.lanes) // WARP == lane // WARP
            other = int(np.flatnonzero(same & m.state.alive & ~threads)[0])
            who = f"thread {m.state.thread_index(int(m.state.thread_of[other]))} is missing{m.diag.waits_at(other)}"
            raise m.diag.fault(
                INCOMPLETE.get(instruction.opcode, Kind.OTHER),
                instruction,
                f"{instruction.name}: not all threads of the {what} are here: {who}",
                lane,
            )
        m.state.enter(self.held.pop(pc))
        self.execute(pc)
        m.state.join(pc + 1, threads)
