"""Barriers of a block and of a warp (PTX ISA 9.7.13.1 to 9.7.13.4): who waits, who is let go, and
who never comes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import Kind
from ..ptx.syntax import Instruction
from .batch import Batch
from .values import distinct

WARP = 32


# It takes a mask, values, and the threads of the barrier.
Finish = Callable[[np.ndarray, np.ndarray | None, np.ndarray], None]


@dataclass
class Waiting:
    """Threads that wait at one instruction."""

    instruction: Instruction
    # `number` is the barrier of each thread, None for a warp's.
    threads: np.ndarray
    number: np.ndarray | None = None
    # The barrier waits for `count` threads, where the instruction says so.
    count: np.ndarray | None = None
    # A warp barrier has a mask of lanes for each thread.
    members: np.ndarray | None = None
    # bar.red has a predicate and what to do with it.
    value: np.ndarray | None = None
    finish: Finish | None = None


class Barriers:
    """The waiting threads of a batch."""

    def __init__(self, machine: Batch) -> None:
        self.machine = machine
        self.waiting: list[Waiting] = []
        # bar.arrive counts per block, by number of the barrier.
        self.arrived: dict[int, np.ndarray] = {}
        # `parted` says where blocks passed a barrier at several instructions.
        self.parted: dict[int, str] = {}

    def block(
        self,
        instruction: Instruction,
        threads: np.ndarray,
        number: np.ndarray,
        count: np.ndarray | None = None,
        value: np.ndarray | None = None,
        finish: Finish | None = None,
    ) -> int | None:
        """Let threads reach a block's barrier.

        Where all threads of the batch do, they go on at once.
        """
        m = self.machine
        everyone = m.state.whole and count is None and not self.waiting and not self.arrived
        if everyone:
            self._note_exited(instruction, threads)
            m.events.order.barrier()
            if finish is not None:
                finish(threads, value, threads)
            return instruction.pc + 1
        self.waiting.append(Waiting(instruction, threads, number, count, None, value, finish))
        self._release_blocks()
        return None

    def arrive(self, instruction: Instruction, threads: np.ndarray, number: np.ndarray) -> None:
        """bar.arrive: threads are counted at the barrier, but do not wait."""
        for n in distinct(number[threads]).tolist():
            here = threads & (number == n)
            counts = np.bincount(
                self.machine.state.block_of[here], minlength=len(self.machine.state.blocks)
            )
            self.arrived[n] = self.arrived.get(n, 0) + counts
            self.machine.events.order.arrive(here, n)
        # The counted threads of the barrier are those of the instruction that waits.
        self._release_blocks()

    def warp(
        self, instruction: Instruction, threads: np.ndarray, members: np.ndarray
    ) -> int | None:
        """bar.warp.sync: threads wait for the named lanes of their warp."""
        m = self.machine
        lane_bit = np.arange(m.state.lanes) % WARP
        m.diag.refuse(
            Kind.MASK,
            instruction,
            threads & (members >> lane_bit.astype(members.dtype) & 1 == 0),
            lambda lane: (
                f"__syncwarp: member mask 0x{int(members[lane]):08x} lacks lane {lane % WARP}, which executes it"
            ),
        )
        if m.state.whole and not self.waiting:
            m.events.order.warp_sync(threads)
            return instruction.pc + 1
        self.waiting.append(Waiting(instruction, threads, members=members))
        self._release_warps()
        return None

    def after_exit(self) -> None:
        """Check whether barriers are complete now that fewer threads are alive."""
        if self.waiting:
            self._release_blocks()
            self._release_warps()

    def _expected(self) -> np.ndarray:
        """Return how many threads a barrier without a count waits for, in each block: all that have
        not exited.
        """
        state = self.machine.state
        return np.bincount(state.block_of[state.alive], minlength=len(state.blocks))

    def _note_exited(self, instruction: Instruction, threads: np.ndarray) -> None:
        """Threads that have exited are not waited for, which is allowed, but may not be meant."""
        m = self.machine
        if m.launch.checks.barriers and m.state.exited.any():
            here = distinct(m.state.block_of[threads])
            gone = np.flatnonzero(m.state.exited & np.isin(m.state.block_of, here))
            if len(gone):
                thread = m.state.thread_index(int(m.state.thread_of[gone[0]]))
                m.diag.note(
                    f"{m.diag.where(instruction)}: threads of the block, as {thread}, have exited before this barrier, "
                    "which the others pass without them"
                )

    def _release_blocks(self) -> None:
        m = self.machine
        parked = [w for w in self.waiting if w.number is not None]
        numbers = sorted(
            {n for w in parked for n in distinct(np.asarray(w.number)[w.threads]).tolist()}
        )
        for n in numbers:
            here = [(w, w.threads & (w.number == n)) for w in parked]
            here = [(w, threads) for w, threads in here if threads.any()]
            union = np.logical_or.reduce([threads for _, threads in here])
            counts = np.bincount(m.state.block_of[union], minlength=len(m.state.blocks))
            expected = self._expected()
            for w, threads in here:
                if w.count is not None:
                    expected[m.state.block_of[threads]] = w.count[threads]
            total = counts + self.arrived.get(n, 0)
            done = (counts > 0) & (total >= expected)
            if not done.any():
                continue
            freed = union & done[m.state.block_of]
            self._require_whole_warps(here, freed)
            if n in self.arrived:
                self.arrived[n] = np.where(done, 0, self.arrived[n])
            # A barrier with a count is not for the whole block.
            if here[0][0].count is None:
                self._note_exited(here[0][0].instruction, freed)
            self._note_parts(here, done)
            m.events.order.barrier(done, freed, n)
            for w, threads in here:
                gone = threads & freed
                if gone.any():
                    self._let_go(w, gone, freed)
        self._tidy()

    def _note_parts(self, here: list[tuple[Waiting, np.ndarray]], done: np.ndarray) -> None:
        """Remember blocks of which parts passed this barrier at different instructions."""
        if len(here) < 2:
            return
        block_of = self.machine.state.block_of
        for block in np.flatnonzero(done).tolist():
            instructions = {
                w.instruction: None for w, threads in here if (threads & (block_of == block)).any()
            }
            lines = [self.machine.diag.where(instruction) for instruction in instructions]
            if len(lines) > 1:
                self.parted[block] = (
                    f"a part of the block passed the barrier at {lines[0]}, another at {lines[1]}"
                )

    def hint(self, lane: int) -> str:
        """Return a likely cause of a race in this lane's block: a barrier that only some of its
        threads reached.
        """
        block = int(self.machine.state.block_of[lane])
        if block in self.parted:
            return "; " + self.parted[block]
        for w in self.waiting:
            if w.number is not None and (w.threads & (self.machine.state.block_of == block)).any():
                return f"; only a part of the block has reached the barrier at {self.machine.diag.where(w.instruction)}"
        return ""

    def _require_whole_warps(
        self, here: list[tuple[Waiting, np.ndarray]], freed: np.ndarray
    ) -> None:
        """An aligned barrier asks that all threads of a warp execute the same one (PTX ISA
        9.7.13.1).
        """
        m = self.machine
        if not m.launch.checks.barriers:
            return
        for w, threads in here:
            if not _aligned(w.instruction):
                continue
            # These include threads of other turns.
            threads = np.logical_or.reduce([t for o, t in here if o.instruction is w.instruction])
            warps = (threads & freed).reshape(-1, WARP)
            alive = (m.state.alive & freed).reshape(-1, WARP)
            split = warps.any(axis=1) & (alive & ~warps).any(axis=1)
            if split.any():
                number = int(np.flatnonzero(split)[0])
                lane = number * WARP + int(np.flatnonzero((alive & ~warps)[number])[0])
                other = next(o.instruction for o, t in here if t[lane])
                what = f"barrier reached by part of a warp here, by the other part at {m.diag.where(w.instruction)}"
                raise m.diag.fault(Kind.BARRIER, other, what, lane)

    def _let_go(self, w: Waiting, gone: np.ndarray, of_barrier: np.ndarray) -> None:
        m = self.machine
        w.threads = w.threads & ~gone
        if w.finish is not None:
            with m.state.acting(gone):
                w.finish(gone, w.value, of_barrier)
        m.state.join(w.instruction.pc + 1, gone)

    def _release_warps(self) -> None:
        m = self.machine
        parked = [w for w in self.waiting if w.members is not None]
        if not parked:
            return
        union = np.logical_or.reduce([w.threads for w in parked])
        lane_bit = np.uint64(1) << (np.arange(m.state.lanes) % WARP).astype(np.uint64)
        here = np.where(union, lane_bit, np.uint64(0)).reshape(-1, WARP).sum(axis=1)
        alive = np.where(m.state.alive, lane_bit, np.uint64(0)).reshape(-1, WARP).sum(axis=1)
        for w in parked:
            # Threads that wait at a warp barrier have members.
            assert w.members is not None
            needed = w.members.astype(np.uint64) & np.repeat(alive, WARP)
            gone = w.threads & ((needed & ~np.repeat(here, WARP)) == 0)
            if gone.any():
                m.events.order.warp_sync(gone)
                w.threads = w.threads & ~gone
                m.state.join(w.instruction.pc + 1, gone)
        self._tidy()

    def _tidy(self) -> None:
        self.waiting = [w for w in self.waiting if w.threads.any()]

    def stuck(self) -> None:
        """Nobody can run, and some wait: say who is missing."""
        m = self.machine
        w = self.waiting[0]
        lane = int(np.flatnonzero(w.threads)[0])
        block = m.state.block_of == m.state.block_of[lane]
        if w.members is not None:
            block = block & (np.arange(m.state.lanes) // WARP == lane // WARP)
        same = [o for o in self.waiting if (o.number is None) == (w.number is None)]
        waits_here = np.logical_or.reduce(
            [
                o.threads if w.number is None else o.threads & (o.number == w.number[lane])
                for o in same
            ]
        )
        missing = np.flatnonzero(block & (m.state.thread_of < m.state.threads) & ~waits_here)
        name = "warp barrier" if w.number is None else f"barrier {int(w.number[lane])}"
        if not len(missing):
            message = f"deadlock: {name} waits for more threads than the block has"
            raise m.diag.fault(Kind.DEADLOCK, w.instruction, message, lane)
        other = int(missing[0])
        thread = m.state.coordinates(other).split(", thread ")[1]
        where = next((o for o in self.waiting if o.threads[other]), None)
        rest = (
            f" waits at another barrier at {m.diag.where(where.instruction)}"
            if where
            else m.diag.waits_at(other)
        )
        what = f"deadlock: {name} is not reached by all threads: thread {thread}{rest}"
        raise m.diag.fault(Kind.DEADLOCK, w.instruction, what, lane)


def _aligned(instruction: Instruction) -> bool:
    return instruction.opcode == "bar" or "aligned" in instruction.modifiers


def require_barrier_number(
    machine: Batch, instruction: Instruction, number: np.ndarray, threads: np.ndarray
) -> None:
    """Refuse a barrier number outside of 0 to 15."""
    bad = threads & ((number < 0) | (number > 15))
    machine.diag.refuse(
        Kind.BARRIER,
        instruction,
        bad,
        lambda lane: f"barrier {int(number[lane])} does not exist (0 to 15 do)",
    )
