"""An estimate of what a launch reads from DRAM and writes to it: the requests of all SMs through a model of L2.

    jobs = [Job(((row * steps, 32768), (columns + column * steps, 32768)), steps, 1024.0, ("C", row, column), 131072) ...]
    simulate([iter(jobs)] * 66, held_bytes(machines.find("h100-sxm")), drift=DRIFT).read

A *unit* is what loads together: a block, or a cluster whose blocks share loads by multicast. Units go through their jobs
(parts of tiles) step after step over k. What they ask for is looked up in a cache of whole slices (the part of a tile of
A or B that one step needs) that evicts the least recently used. Three things decide what is read:

- *The order of tiles*: which rows of A and columns of B the units that run at a time share.
- *The size of L2.* GPUs of compute capability 8.0 and 9.0 have two partitions of L2, and data that SMs of both sides
  read are in both (Choquette et al., "NVIDIA A100 Tensor Core GPU", IEEE Micro 41(2), 2021, on the partitions).
  Operands of a matrix product are read from both sides, so that half of L2 counts.
- *Drift.* Units that share a slice must ask for it within the time that L2 keeps it. Nothing keeps them in step: each
  lags or leads by a random walk, whose standard deviation after t clocks is drift * sqrt(t). Without drift every slice
  that is shared in a round of tiles is read once.

What the model leaves out: how bandwidth holds up whoever misses, L2's sets and its true policy of replacement, partial
sums of stream-K, and L1.
"""

from __future__ import annotations

import heapq
import random
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .errors import PtxsimError
from .machines import Machine

# Clocks per square root of a clock. The only fitted constant: docs/l2-traffic.md has the fit and its error.
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
    """Bytes of a launch."""

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
