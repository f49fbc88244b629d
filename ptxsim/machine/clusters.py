"""Clusters of blocks: ranks, their barrier (PTX ISA 9.7.13.4), and the registers that setmaxnreg
moves in a block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..errors import Kind
from ..ptx.sizes import Dim3
from ..ptx.syntax import Instruction
from .batch import Batch
from .state import split
from .values import distinct

WARP = 32
UNKNOWN_START = (
    "is not checked: how many registers the kernel starts with is not known (.maxnreg says so, or .maxntid with "
    ".minnctapersm, or a cubin)"
)
IGNORED = "does nothing: ptxas ignored it, the machine code has no USETMAXREG (its warnings C7507 and C7508 say why)"


@dataclass
class Waiting:
    """Threads that wait at a barrier.cluster.wait, or at a setmaxnreg.inc for `registers` registers
    per thread.
    """

    instruction: Instruction
    threads: np.ndarray
    registers: int = 0


def in_clusters(grid: Dim3, cluster: Dim3, blocks: np.ndarray) -> np.ndarray:
    """Return the blocks in the order in which they run: cluster by cluster, each in the order of
    its ranks. Of a cluster of which a block is given, all are.
    """
    if cluster == (1, 1, 1):
        return blocks
    clusters = [grid[i] // cluster[i] for i in range(3)]
    x, y, z = split(blocks, grid)
    number = x // cluster[0] + clusters[0] * (y // cluster[1] + clusters[1] * (z // cluster[2]))
    numbers = distinct(number)[:, None]
    rank = np.arange(math.prod(cluster))[None, :]
    (cx, cy, cz), (rx, ry, rz) = split(numbers, clusters), split(rank, cluster)
    x, y, z = cx * cluster[0] + rx, cy * cluster[1] + ry, cz * cluster[2] + rz
    return (x + grid[0] * (y + grid[1] * z)).reshape(-1)


class Clusters:
    """The clusters of a batch of blocks."""

    def __init__(self, machine: Batch) -> None:
        m = self.machine = machine
        self.lanes = m.state.cluster_lanes
        # `arrived` counts how often each thread arrived, `waited` how often it went on.
        self.arrived = np.zeros(m.state.lanes, np.int64)
        self.waited = np.zeros(m.state.lanes, np.int64)
        self.waiting: list[Waiting] = []
        # `registers` counts those of a thread, by warp.
        self.registers = np.full(m.state.warps, m.launch.registers or 0, np.int64)

    # the barrier

    def arrive(self, instruction: Instruction, threads: np.ndarray, orders: bool) -> None:
        """barrier.cluster.arrive; `orders`: what the threads did before it is ordered, as by
        `.release`.
        """
        self.arrived = self.arrived + threads
        for key, lanes in self._split(threads):
            self.machine.events.order.release(key, lanes, relaxed=not orders)
        twice = threads & (self.arrived > self.waited + 1)
        self.machine.diag.refuse(
            Kind.BARRIER,
            instruction,
            twice,
            lambda _: "barrier.cluster.arrive a second time without a wait between",
        )
        self.release()

    def wait(self, instruction: Instruction, threads: np.ndarray) -> int | None:
        """barrier.cluster.wait: until all threads of the cluster that have not ended arrived."""
        early = threads & (self.arrived == self.waited)
        self.machine.diag.refuse(
            Kind.BARRIER,
            instruction,
            early,
            lambda _: "barrier.cluster.wait without an arrive before it",
        )
        self.waiting.append(Waiting(instruction, threads))
        self.release()
        return None

    def _split(self, threads: np.ndarray) -> Iterator[tuple[tuple[str, int], np.ndarray]]:
        """Split threads by their cluster."""
        lanes = np.flatnonzero(threads)
        for cluster in distinct(lanes // self.lanes).tolist():
            yield ("cluster", cluster), lanes[lanes // self.lanes == cluster]

    def after_exit(self) -> None:
        """Check whether barriers are complete now that fewer threads are alive."""
        if self.waiting:
            self.release()

    def _min_arrivals(self) -> np.ndarray:
        """Return for each cluster how often its slowest thread has arrived."""
        arrived = np.where(self.machine.state.alive, self.arrived, 1 << 60)
        return arrived.reshape(-1, self.lanes).min(axis=1)

    def release(self) -> None:
        """Let go whoever need not wait any more."""
        m = self.machine
        parked, self.waiting = self.waiting, []
        minimum = np.repeat(self._min_arrivals(), self.lanes) if parked else np.zeros(0, np.int64)
        for w in parked:
            gone = self._granted(w) if w.registers else w.threads & (minimum > self.waited)
            if gone.any():
                if not w.registers:
                    self.waited = self.waited + gone
                    self._note_exited(w.instruction, gone)
                    for key, lanes in self._split(gone):
                        m.events.order.phase_ends(key)
                        m.events.order.acquire(key, lanes)
                        m.events.shared.cluster_met(lanes)
                m.state.join(w.instruction.pc + 1, gone)
                w.threads = w.threads & ~gone
            if w.threads.any():
                self.waiting.append(w)

    def _note_exited(self, instruction: Instruction, threads: np.ndarray) -> None:
        """A block that has ended is not waited for, which is allowed, but may not be meant."""
        m = self.machine
        if m.launch.checks.barriers and m.state.exited.any():
            here = np.repeat(threads.reshape(-1, self.lanes).any(axis=1), m.state.cluster_size)
            ended = ~m.state.alive.reshape(len(m.state.blocks), -1).any(axis=1)
            for block in np.flatnonzero(here & ended)[:1].tolist():
                index = m.state.block_index(block * m.state.padded)
                m.diag.note(
                    f"{m.diag.where(instruction)}: a block of the cluster, {index}, "
                    "has ended before this barrier, which the others pass without it",
                    key=(instruction.pc, "ended"),
                )

    # registers

    def set_registers(
        self, instruction: Instruction, threads: np.ndarray, count: int, more: bool
    ) -> int | None:
        """setmaxnreg: change the registers per thread of these threads' warps."""
        m, start = self.machine, self.machine.launch.registers
        if not start:
            m.diag.note(
                f"{instruction.where}: setmaxnreg {UNKNOWN_START if start is None else IGNORED}"
            )
            return instruction.pc + 1
        lanes = np.flatnonzero(threads)
        held = self.registers[lanes // WARP]
        wrong = held > count if more else held < count
        if wrong.any():
            index = int(np.flatnonzero(wrong)[0])
            what = f"setmaxnreg.{'inc' if more else 'dec'} to {count} registers, but the warp has {int(held[index])}"
            raise m.diag.fault(Kind.DEADLOCK, instruction, what, int(lanes[index]))
        if more:
            self.waiting.append(Waiting(instruction, threads, count))
            self.release()
            return None
        self.registers[distinct(lanes // WARP)] = count
        if self.waiting:
            self.release()
        return instruction.pc + 1

    def _granted(self, w: Waiting) -> np.ndarray:
        """Return the threads at a setmaxnreg.inc whose block has registers enough."""
        m = self.machine
        per_block = m.state.padded // WARP
        gone = np.zeros(m.state.lanes, bool)
        for warp in distinct(np.flatnonzero(w.threads) // WARP).tolist():
            first = warp // per_block * per_block
            block = self.registers[first : first + per_block]
            if (
                block.sum() - self.registers[warp] + w.registers
                <= (m.launch.registers or 0) * per_block
            ):
                self.registers[warp] = w.registers
                gone[warp * WARP : (warp + 1) * WARP] = True
        return gone & w.threads

    # words

    def stuck(self) -> None:
        """Nobody can run, and some wait: say for what."""
        m, w = self.machine, max(self.waiting, key=lambda w: w.registers)
        lane = int(np.flatnonzero(w.threads)[0])
        if w.registers:
            block = self.registers.reshape(-1, m.state.padded // WARP)[m.state.block_of[lane]]
            raise m.diag.fault(
                Kind.DEADLOCK,
                w.instruction,
                f"deadlock: setmaxnreg.inc waits for registers: {w.registers} a thread are asked for, the block's "
                f"{len(block)} warps started with {m.launch.registers} a thread and hold "
                f"{', '.join(f'{int(n)}' for n in block)} now",
                lane,
            )
        cluster = np.arange(m.state.lanes) // self.lanes == lane // self.lanes
        missing = np.flatnonzero(cluster & m.state.alive & (self.arrived <= self.waited[lane]))
        if not len(missing):
            raise m.diag.fault(
                Kind.DEADLOCK, w.instruction, "deadlock: barrier.cluster waits", lane
            )
        other = int(missing[0])
        raise m.diag.fault(
            Kind.DEADLOCK,
            w.instruction,
            f"deadlock: the cluster's barrier waits for {len(missing)} threads that do not arrive; the first is "
            f"{m.state.coordinates(other)}{m.diag.waits_at(other)}",
            lane,
        )
