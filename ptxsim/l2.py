"""An estimate of what a launch reads from DRAM and writes there: the requests of all SMs through a model of L2.

    requests = Requests()
    kernel.launch(grid, block, arguments, observers=[requests], checks=False, values=False)
    print(requests.estimate(machines.find("h100-sxm"), blocks_per_sm=1).read)

A *unit* is what loads together: a block, or a cluster whose blocks share loads by multicast. Units go through their
jobs step after step. What they ask for is looked up in a cache that evicts the least recently used. `simulate` takes
jobs from anywhere, for instance parts of tiles that a formula lists, where a launch is too large to be emulated.

For matrix products three things decide what is read:

- *The order of tiles*: which rows of A and columns of B the units that run at a time share.
- *The size of L2.* It has two partitions on GPUs of compute capability 8.0 and 9.0, and each keeps what its own SMs
  read (NVIDIA A100 Tensor Core GPU Architecture, whitepaper, 2020, on the L2 cache). SMs of both sides read the
  operands of a matrix product, which are then in both partitions: half of L2 counts.
- *Drift.* Units that share a part of an operand must ask for it within the time for which L2 keeps it. Nothing keeps
  them in step: each lags or leads by a random walk, whose standard deviation after t clocks is drift * sqrt(t).

What the model leaves out: that misses hold a unit up where bandwidth is short, L2's sets and its true policy of
replacement, L1, and what blocks leave in memory for each other.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .errors import PtxsimError
from .machines import Machine
from .memory import Access
from .observer import Launched, MemoryEvent, Observer
from .syntax import Instruction
from .wavefronts import LINE

# Clocks per square root of a clock. The only fitted constant.
DRIFT = 8.2


class Job(NamedTuple):
    """What a unit asks of L2 for one part of a tile: at step s, for each of `loads`, the slice `first + s`."""

    loads: tuple[tuple[int, int], ...]  # number of the first slice, and bytes of a slice
    steps: int
    clocks: float  # of a step, where nothing holds it up
    stored: Hashable = None  # what is written at the end, as one slice with this name; None: nothing
    stored_bytes: int = 0


@dataclass(frozen=True)
class L2Traffic:
    """The bytes that a launch moves."""

    asked: int  # of L2 by loads; what multicast delivers to several SMs counts once
    read: int  # from DRAM
    written: int  # to DRAM before the launch ends; what is left in L2 is written after it

    @property
    def missed(self) -> float:
        """The share of what is asked for that DRAM delivers."""
        return self.read / self.asked if self.asked else 0.0


def held_bytes(machine: Machine) -> int:
    """Bytes of different data that L2 holds where SMs of all its partitions read them."""
    return machine.l2_bytes // machine.l2_partitions


def simulate(
    queues: Sequence[Iterator[Job]], capacity: int, drift: float = DRIFT, seed: int = 0, in_step_every: int = 0
) -> L2Traffic:
    """One unit for each of `queues`; where several units have the same iterator, whoever ends a job takes the next.

    Args:
        capacity: of L2 in bytes of different data (`held_bytes`).
        drift: in clocks per square root of a clock; 0 keeps units in step that have jobs of the same length.
        seed: of the random walks.
        in_step_every: after so many jobs each, units wait for each other; 0: never.

    Raises `PtxsimError`, one line, for a drift or a capacity that is none.
    """
    if not drift >= 0:
        raise PtxsimError(f"drift = {drift} is not allowed; allowed: 0 or more clocks per square root of a clock")
    if capacity < 1:
        raise PtxsimError(f"capacity = {capacity} is not allowed; allowed: a positive number of bytes")
    draw = random.Random(seed)
    cache: OrderedDict[Hashable, tuple[int, bool]] = OrderedDict()  # bytes, and whether DRAM lacks them
    used = asked = read = written = 0
    at: list[tuple[float, int]] = []  # when each unit begins its next step
    jobs: list[Job] = []
    done, begun, pace = [0] * len(queues), [0] * len(queues), [0.0] * len(queues)
    waiting: list[int] = []

    def begin(unit: int, now: float) -> None:
        """The unit's next job, if there is one."""
        if (job := next(queues[unit], None)) is not None:
            jobs[unit] = job
            length = job.steps * job.clocks
            pace[unit] = job.clocks * max(0.0, 1 + draw.gauss(0, drift) / length**0.5)
            done[unit] = 0
            begun[unit] += 1
            heapq.heappush(at, (now, unit))

    nothing = Job((), 0, 0.0)
    jobs = [nothing] * len(queues)
    for unit in range(len(queues)):
        begin(unit, 0.0)
    latest = 0.0
    while at:
        now, unit = at[0]
        job, step = jobs[unit], done[unit]
        for first, size in job.loads:
            asked += size
            if first + step in cache:
                cache.move_to_end(first + step)
            else:
                cache[first + step] = size, False
                used += size
                read += size
        done[unit] = step + 1
        now += pace[unit]
        if step + 1 < job.steps:
            heapq.heapreplace(at, (now, unit))
        else:
            if job.stored is not None:
                used -= cache.pop(job.stored, (0, False))[0]
                cache[job.stored] = job.stored_bytes, True
                used += job.stored_bytes
            heapq.heappop(at)
            latest = max(latest, now)
            if in_step_every and begun[unit] % in_step_every == 0:
                waiting.append(unit)
            else:
                begin(unit, now)
            if not at:  # the others wait, or have ended
                for unit in sorted(waiting):
                    begin(unit, latest)
                waiting.clear()
        while used > capacity:
            size, dirty = cache.popitem(last=False)[1]
            used -= size
            written += size * dirty
    return L2Traffic(asked, read, written)


class Requests(Observer):
    """Records, by unit and in order, what a launch asks of L2: each bulk copy as one request, each other load by lines
    of 128 bytes. Copies that overlap without being the same count as different data."""

    def __init__(self) -> None:
        self.by_unit: dict[int, list[tuple[Hashable, int]]] = {}  # by its first block: what, and bytes
        self._unit: dict[int, int] = {}  # of each block

    def begins(self, kernel: Launched, grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
        self._state = kernel.state

    def batch(self, blocks: np.ndarray) -> None:
        size = math.prod(self._state.cluster)
        for place, block in enumerate(blocks.tolist()):
            self._unit[block] = int(blocks[place // size * size])
            self.by_unit.setdefault(self._unit[block], [])

    def memory(self, event: MemoryEvent) -> None:
        if event.space != "global" or event.kind.removesuffix("_ordered") not in ("ld", "cp_async_ld"):
            return
        addresses, active = event.addresses()
        blocks = np.broadcast_to(event.blocks()[:, None], addresses.shape)[active].astype(np.int64)
        lines = addresses[active] // LINE
        for number in np.unique((blocks << 40) + lines).tolist():
            self.by_unit[self._unit[number >> 40]].append((number & ((1 << 40) - 1), LINE))

    def bulk(self, instruction: Instruction, access: Access, width: int, kind: str) -> None:
        pieces = access.flat()
        if kind != "ld" or not pieces.size or access.lanes is None:
            return
        unit = self._unit[int(self._state.blocks[self._state.block_of[access.lanes[0]]])]
        self.by_unit[unit].append(((int(pieces[0]), pieces.size), pieces.size * width))

    def estimate(self, machine: Machine, blocks_per_sm: int, drift: float = DRIFT) -> L2Traffic:
        """What the whole launch reads from DRAM on a GPU that gives units out in order, to whoever is free. What a unit
        asks for is taken to come at the rate at which L2 can serve an SM. Stores are not simulated."""
        together = math.prod(self._state.cluster)
        numbers: dict[Hashable, int] = {}
        waiting = iter([self.by_unit[unit] for unit in sorted(self.by_unit)])

        def jobs() -> Iterator[Job]:
            for requests in waiting:
                for what, size in requests:
                    number = numbers.setdefault(what, len(numbers))
                    yield Job(((number, size),), 1, size / together / machine.l2_bytes_per_clock)

        units = min(len(self.by_unit), max(1, machine.sms * blocks_per_sm // together))
        return simulate([jobs() for _ in range(units)], held_bytes(machine), drift)
