"""Which threads run, and for how long.

Threads of a batch are in groups, one for each pc in the program where some wait; the group with the
smallest pc runs until it reaches the pc of another, which it joins. Since compilers lay code out so
that paths meet further on, that is reconvergence (min-PC scheduling); groups that jump back time
and again let the others run now and then, so that one thread may wait for another in a loop.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from ..check.defined import Defined
from ..errors import KernelFault, Kind, PtxsimError
from ..instructions.needs import Machine
from ..instructions.registry import Control, Step
from ..machine.convergence import Convergence, width
from ..machine.events import NOBODY
from ..machine.launch import Limits
from ..machine.state import WARP
from ..ptx import polling
from .basic_blocks import Runs
from .lowering import Lowering

FAR = 1 << 60
# After this many faults of one line the blocks that are running end.
MAX_FAULTS = 1000
# After this many turns of loops that look at memory, with nobody else running, it cannot change any
# more.
IDLE = 1 << 16
# After this many such turns, observers hear of it.
SEVERAL = 1 << 7
# After this many turns threads of a warp may go on without the others.
PARTING = 1 << 16


class Scheduler:
    """Runs the threads of a batch to their end."""

    limits: Limits
    # Without values, only what bears on the launch's counts is computed.
    values: bool
    convergence: Convergence
    # `polling` marks threads that go round a loop that polls once more.
    polling: np.ndarray
    # Each instruction counts once for all threads that were there.
    executed: int

    def __init__(self, machine: Machine, lowering: Lowering, runs: Runs, defined: Defined) -> None:
        self.machine, self.program, self.state = machine, machine.program, machine.state
        self.diag = machine.diag
        self.events = machine.events
        self.runs = runs
        self.defined = defined
        program = machine.program
        self.polls = polling.loops(program)
        # By these branches a loop polls again.
        self.rounds = polling.backward(program, self.polls)
        self.clocks = polling.clocks(program)
        self.poll_pcs = frozenset(
            pc for last, start in self.rounds.items() for pc in range(start, last + 1)
        )
        self.controls = [
            None if control is None else defined.control(i, control)
            for i, control in zip(program.code, lowering.controls, strict=True)
        ]
        for pc in self.rounds:
            self.controls[pc] = self._noting_polls(pc)
        # `tally` counts warps of straight runs of instructions, by first and last.
        self.tally: dict[tuple[int, int], Any] = {}
        # `polled` counts the same of rounds of loops that poll, after their first.
        self.polled: dict[tuple[int, int], Any] = {}
        end, together = len(program.code), FAR
        self.run_end = [0] * end
        # From each pc on, `together` has the next that a whole warp or warpgroup executes together.
        self.together = [FAR] * (end + 1)
        for pc in range(end - 1, -1, -1):
            if self.controls[pc] is not None:
                end, together = pc, FAR
            if width(program.code[pc]) is not None:
                together = pc
            self.run_end[pc], self.together[pc] = end, together

    def start(self, limits: Limits, convergence: Convergence) -> None:
        """Begin a batch."""
        self.limits, self.values, self.convergence = limits, self.machine.launch.values, convergence
        self.tally, self.polled = {}, {}
        self.polling = np.zeros(self.state.lanes, bool)
        self.events.silent = False
        self.executed = self.turns = self.idle = self.clock_reads = 0
        self.last_clock = self.in_vain = 0

    def run(self) -> None:
        """Run all threads to their end, a group of those at one pc after the other."""
        state = self.state
        state.groups = groups = {self.program.start[self.program.name]: state.alive}
        while True:
            # With nobody to run, either all have ended, or who waits waits for ever.
            if not groups:
                if any(w.registers for w in self.machine.clusters.waiting):
                    self.machine.clusters.stuck()
                if self.convergence.held:
                    self.convergence.release()
                    continue
                for waits in (self.machine.phases, self.machine.barriers, self.machine.clusters):
                    if waits.waiting:
                        waits.stuck()
                return
            pc = self._choose()
            threads = groups.pop(pc)
            state.enter(threads)
            if state.whole:
                threads = state.alive
            self._advance(pc, threads, min((p for p in groups if p > pc), default=FAR))

    def clock(self, pc: int) -> int:
        """Return the instructions executed so far by the batch, and some more at each look at the
        clock: in a loop that only waits for it, ever more, so that long waits end soon.
        """
        self.clock_reads += 1
        if pc in self.clocks:
            again = self.executed - self.last_clock < polling.MAX_INSTRUCTIONS
            self.in_vain = self.in_vain + 1 if again else 0
            self.clock_reads, self.last_clock = self.clock_reads + self.in_vain, self.executed
        return self.executed + self.clock_reads

    def execute(self, pc: int) -> None:
        """Execute one instruction for the active threads."""
        for step in self.runs.steps(pc, pc + 1, self.values):
            step()

    def _noting_polls(self, pc: int) -> Control:
        """Return the control of a branch by which a loop polls again; it notes which threads do."""
        instruction, start, control = self.program.code[pc], self.rounds[pc], self.controls[pc]
        # A branch has a control.
        assert control is not None
        predicate, negated = instruction.predicate, instruction.negated
        forward = instruction.operands[-1].index != start if instruction.opcode == "bra" else True

        def noting(active: np.ndarray) -> int | None:
            again = active
            if predicate is not None and not forward:
                chosen = self.state.registers[predicate.slot]
                again = active & (~chosen if negated else chosen)
            self.polling = self.polling | again
            return control(active)

        return noting

    def _choose(self) -> int:
        """Return the smallest pc, or backwards the largest that parts no warp; but at times
        another, so that no group waits for ever.
        """
        if len(self.state.groups) == 1:
            return next(iter(self.state.groups))
        self.turns += 1
        ready: Collection[int] = self.state.groups.keys()
        if self.polls and self.turns % 32:
            ready = (self.state.groups.keys() - self.polls.keys()) or ready
        if self.turns % 512 >= 480:
            # Once in a long while any may run, for a warp whose threads wait for each other.
            parts = self.turns % PARTING >= PARTING - 32
            others = sorted(ready) if parts else self._parting_no_warp(sorted(ready))
            return others[self.turns % len(others)]
        return min(ready) if self.state.turns is None else self._parting_no_warp(sorted(ready))[-1]

    def _parting_no_warp(self, pcs: list[int]) -> list[int]:
        """Return those of these pcs where none of the warps has threads at an earlier one."""
        behind = np.zeros(self.state.warps, bool)
        chosen = []
        for pc in pcs:
            warps = self.state.groups[pc].reshape(-1, WARP).any(axis=1)
            if not (warps & behind).any():
                chosen.append(pc)
            behind |= warps
        return chosen

    def _advance(self, pc: int, threads: np.ndarray, limit: int) -> None:
        """Run a group until it meets another, parts or ends."""
        controls, run_end = self.controls, self.run_end
        while True:
            # The group runs to the next branch, pc of another group, or meeting of a warp.
            end = run_end[pc]
            stop = end if end < limit else limit
            if not self.state.whole and (together := self.together[pc]) < stop:
                if together == pc:
                    ready = self._come_together(pc, threads)
                    if ready is None:
                        return
                    threads = ready
                    together = self.together[pc + 1]
                stop = min(stop, together)
            # The instructions are counted and executed.
            if self.events.observers:
                last = end + 1 if stop == end and stop != limit else stop
                self._count(pc, last, threads)
            at = pc
            while at < stop:
                at = self._steps(at, stop, threads)
            self.executed += stop - pc + 1
            if self.executed > self.limits.steps:
                raise self.diag.fault(
                    Kind.LIMIT,
                    self.program.code[min(stop, len(controls) - 1)],
                    f"more than {self.limits.steps:,} instructions executed: an endless loop, or a long one: raise the "
                    "limit `steps`, or give exec a --limit in seconds",
                    int(np.flatnonzero(threads)[0]),
                )
            # Where another group waits, the two go on as one.
            if stop == limit:
                self.state.join(limit, threads)
                return
            if stop < end:
                pc = stop
                continue
            if not self.state.whole and self.together[end] == end:
                ready = self._come_together(end, threads)
                if ready is None:
                    return
                threads = ready
            # The branch, barrier or exit at the end decides where the threads go on.
            control = controls[end]
            # A run ends with a control.
            assert control is not None
            next_pc = control(threads)
            # A loop that looks at memory goes round again: nothing has changed.
            if next_pc in self.polls and next_pc <= end:
                self.idle += 1
                if self.idle == SEVERAL:
                    for observer in self.events.observers:
                        observer.waits()
                if self.idle > IDLE:
                    raise self._polls_in_vain(next_pc, threads)
            else:
                self.idle = 0
            # Others come first where these are ahead of them, or go back.
            if next_pc is None:
                return
            if (
                next_pc >= limit
                or (next_pc <= end and limit != FAR)
                or (next_pc <= end and len(self.state.groups))
            ):
                self.state.join(next_pc, threads)
                return
            pc = next_pc

    def _steps(self, first: int, stop: int, threads: np.ndarray) -> int:
        """Execute a straight run up to `stop`, or up to a load of something undefined.

        Return the pc that comes next.
        """
        defined = self.defined
        for step in self.runs.steps(first, stop, self.values):
            try:
                step()
            except KernelFault as fault:
                self._go_on(step, fault, threads)
            if defined.latest is not None:
                return defined.settle() + 1
        return stop

    def _go_on(self, step: Step, fault: KernelFault, threads: np.ndarray) -> None:
        """Let the others execute the instruction after a fault of some threads. These threads go on
        after it, with what their registers held; so blocks end that have the fault time and again,
        as in a loop over freed memory.
        """
        while True:
            if fault.bad is None:
                raise fault
            if not self._follows_a_wrap(fault) and self.diag.faults.take(fault) > MAX_FAULTS:
                raise fault
            bad, together = fault.bad, width(self.program.code[fault.pc])
            # The rest of a warp does not execute what only the whole executes.
            if together and self.state.padded % together == 0:
                bad = np.repeat(bad.reshape(-1, together).any(axis=1), together)
            threads = threads & ~bad
            if not threads.any():
                return
            try:
                with self.state.acting(threads):
                    step()
                return
            except KernelFault as another:
                fault = another

    def _follows_a_wrap(self, fault: KernelFault) -> bool:
        """Return whether an access is out of bounds because of an index that wrapped, as has been
        reported.
        """
        wrapped = self.state.wrapped
        return (
            fault.kind is Kind.BOUNDS and wrapped is not None and not (fault.bad & ~wrapped).any()
        )

    def _count(self, pc: int, last: int, threads: np.ndarray) -> None:
        """A straight run of instructions is executed: by warps for the first time, or by those that
        poll again.
        """
        self.events.silent = False
        warps = self.state.active_warps()
        if self.rounds:
            if pc not in self.poll_pcs:
                self.polling = self.polling & ~threads
            elif (threads & self.polling).any():
                first = self.state.warps_with(threads & ~self.polling)
                polls = warps - first
                self.events.silent = not np.any(first)
                if np.any(polls):
                    self.polled[pc, last] = self.polled.get((pc, last), 0) + polls
                warps = first
        if self.state.by_block or warps:
            self.tally[pc, last] = self.tally.get((pc, last), 0) + warps

    def _polls_in_vain(self, pc: int, threads: np.ndarray) -> PtxsimError:
        """Return the fault that all that can run look at memory time and again, so that it cannot
        change any more.
        """
        what = "deadlock: waits in a loop for memory that nobody changes any more"
        stuck = np.flatnonzero(
            self.state.alive & ~np.logical_or.reduce([threads, *self.state.groups.values()])
        )
        if len(stuck):
            lane = int(stuck[0])
            what += f"; of those that cannot run, {self.state.coordinates(lane)}{self.diag.waits_at(lane)}"
        ended = ~self.state.alive.reshape(len(self.state.blocks), -1).any(axis=1)
        if "%envreg1" in self.program.specials and ended.any():
            block = self.state.grid_index(int(np.asarray(self.state.blocks)[ended][0]))
            what += f"; the grid's barrier waits for block {block}, too, which has ended"
        total = math.prod(self.state.grid)
        if len(self.state.blocks) < total:
            what += (
                f"; {len(self.state.blocks)} of the grid's {total} blocks run side by side here, and a block may wait "
                "for one that has not begun: on a device, too, only as many as it holds"
            )
        return self.diag.fault(Kind.DEADLOCK, self.polls[pc], what, int(np.flatnonzero(threads)[0]))

    def _come_together(self, pc: int, threads: np.ndarray) -> np.ndarray | None:
        """Return the threads at what a whole warp or warpgroup executes together: those that do so
        now are entered.
        """
        ready = self.convergence.arrive(pc, threads)
        if ready is not None and ready is not threads:
            self.state.enter(ready)
        return ready

    def count_executed(self) -> None:
        """Pass on to the observers how often each instruction was executed."""
        code = self.program.code
        for tally, name in ((self.tally, "executed"), (self.polled, "polled")):
            total: dict[int, Any] = {}
            for (first, last), warps in tally.items():
                for pc in range(first, last):
                    total[pc] = total.get(pc, 0) + warps
            tally.clear()
            for pc, warps in total.items():
                for observer in self.events.observers:
                    getattr(observer, name)(code[pc], warps)

    def leave(self, threads: np.ndarray) -> None:
        """End threads."""
        self.state.end(threads)
        self.machine.barriers.after_exit()
        self.machine.clusters.after_exit()
        self.machine.bulk_groups.after_exit(threads)
        if self.events.shared is not NOBODY:
            lanes = np.flatnonzero(threads)
            living = np.asarray(self.state.alive.reshape(len(self.state.blocks), -1).any(axis=1))
            for block in np.unique(self.state.block_of[lanes]).tolist():
                if not living[block]:
                    self.events.shared.block_ends(
                        block, int(lanes[self.state.block_of[lanes] == block][0])
                    )
        self.convergence.after_exit()
