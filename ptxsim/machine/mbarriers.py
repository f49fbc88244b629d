"""mbarrier objects: barriers in shared memory that count arrivals and bytes of copies by phases
(PTX ISA 9.7.13.15).

The object is one word of 64 bits in shared memory; what is in it is the implementation's own: here
the parity of the present phase, the arrivals that a phase expects, those still to come, and the
bytes still to come. Threads that meet at one object take turns, in the order of their numbers.

A thread at a try_wait goes on when its phase is over; where that can never be, the launch ends with
an error that says how many arrivals are missing. Copies that signal an object land when somebody
waits for it, so that what reads their destination before that is found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import Kind
from ..ptx.syntax import Instruction
from .batch import Batch
from .values import distinct

# The fields have 20 and 21 bits.
COUNT, BYTES = 20, 21
MAX_COUNT = (1 << COUNT) - 1
EXPECTED_AT, PENDING_AT, BYTES_AT = 1, 1 + COUNT, 1 + 2 * COUNT


@dataclass
class State:
    """The state of an mbarrier object."""

    parity: int
    expected: int
    pending: int
    bytes: int

    @classmethod
    def unpack(cls, word: int) -> State:
        return cls(
            word & 1,
            word >> EXPECTED_AT & MAX_COUNT,
            word >> PENDING_AT & MAX_COUNT,
            (word >> BYTES_AT & (1 << BYTES) - 1) - (1 << BYTES - 1),
        )

    def pack(self) -> int:
        held = self.bytes + (1 << BYTES - 1)
        return (
            self.parity
            | self.expected << EXPECTED_AT
            | self.pending << PENDING_AT
            | held << BYTES_AT
        )


@dataclass
class Parked:
    """Threads at a try_wait: objects and the parities of the phases that they wait for, by lane of
    the batch.
    """

    instruction: Instruction
    threads: np.ndarray
    # Objects are counted in bytes from the start of the batch's shared memory.
    objects: np.ndarray
    parity: np.ndarray
    # `write` writes the predicate.
    write: Callable[[np.ndarray], None]


class Phases:
    """The mbarrier objects of a batch."""

    def __init__(self, machine: Batch) -> None:
        self.machine = machine
        self.waiting: list[Parked] = []
        # Of each object, `signals` has copies that have not landed.
        self.signals: dict[int, list[Callable[[], None]]] = {}
        # `made` says what initialised it, and for how many arrivals.
        self.made: dict[int, tuple[Instruction, int]] = {}
        # `came` counts arrivals in this phase, by instruction.
        self.came: dict[int, dict[Instruction, int]] = {}
        # `ended` has the number of phases that are over, and the arrivals of the last.
        self.ended: dict[int, tuple[int, dict[Instruction, int]]] = {}
        # `bytes` counts bytes expected (and brought, negative) in this phase, by instruction.
        self.bytes: dict[int, dict[Instruction, int]] = {}

    @property
    def _words(self) -> np.ndarray:
        return self.machine.memory.spaces["shared"].views[8]

    def read(self, objects: np.ndarray) -> np.ndarray:
        return self._words[objects >> 3]

    def init(
        self, instruction: Instruction, objects: np.ndarray, lanes: np.ndarray, counts: np.ndarray
    ) -> None:
        """Threads initialise objects, each with its number of expected arrivals."""
        self._words[objects >> 3] = np.array(
            [State(0, n, n, 0).pack() for n in counts.tolist()], np.uint64
        )
        for at, lane, count in zip(objects.tolist(), lanes.tolist(), counts.tolist(), strict=True):
            self.made[at] = instruction, count
            for known in (self.came, self.ended, self.bytes):
                known.pop(at, None)
            self.machine.events.shared.object_made(at, lane, instruction)

    def note_arrivals(
        self, instruction: Instruction, objects: np.ndarray, counts: np.ndarray
    ) -> None:
        """Record arrivals and their counts, for the message of a deadlock."""
        for at in distinct(objects).tolist():
            of_object = self.came.setdefault(at, {})
            of_object[instruction] = of_object.get(instruction, 0) + int(
                counts[objects == at].sum()
            )

    def count_down(
        self, instruction: Instruction, objects: np.ndarray, lanes: np.ndarray, counts: np.ndarray
    ) -> np.ndarray:
        """Apply arrivals with these counts: those at one object at once, where none but the last
        ends a phase, and one by one otherwise. The words that they found."""
        before = np.zeros(len(objects), np.uint64)
        distinct, which = np.unique(objects, return_inverse=True)
        for number, at in enumerate(distinct.tolist()):
            here = (which == number).nonzero()[0] if len(distinct) > 1 else slice(None)
            before[here] = self._down(instruction, at, lanes[here], counts[here])
        if self.waiting:
            self.release()
        return before

    def _down(
        self, instruction: Instruction, at: int, lanes: np.ndarray, counts: np.ndarray
    ) -> np.ndarray:
        """Apply arrivals at one object."""
        total, word = int(counts.sum()), int(self._words[at >> 3])
        state = State.unpack(word)
        if len(lanes) == 1 or total > state.pending or not state.pending:
            of_thread = counts.tolist()

            def act(state: State, index: int) -> None:
                state.pending -= of_thread[index]

            return self.change(instruction, np.full(len(lanes), at), lanes, act)
        before = (word - (np.cumsum(counts) - counts << PENDING_AT)).astype(np.uint64)
        state.pending -= total
        self._settle(instruction, state, int(lanes[-1]), at)
        self._words[at >> 3] = state.pack()
        return before

    def change(
        self,
        instruction: Instruction,
        objects: np.ndarray,
        lanes: np.ndarray,
        act: Callable[[State, int], None],
    ) -> np.ndarray:
        """`act(state, index)` for each thread, in turns; the words that they found."""
        before = np.zeros(len(objects), np.uint64)
        for index, (at, lane) in enumerate(zip(objects.tolist(), lanes.tolist(), strict=True)):
            word = int(self._words[at >> 3])
            before[index] = word
            state = State.unpack(word)
            act(state, index)
            self._settle(instruction, state, lane, at)
            self._words[at >> 3] = state.pack()
        if self.waiting:
            self.release()
        return before

    def count(self, at: int, instruction: Instruction, size: int) -> None:
        """Record who expects bytes at the object at `at`, or (negative) delivers them."""
        of_object = self.bytes.setdefault(at, {})
        of_object[instruction] = of_object.get(instruction, 0) + size

    def _settle(self, instruction: Instruction, state: State, lane: int, at: int) -> None:
        """Refuse an invalid state of an object; end its phase when no arrivals and bytes are
        pending.
        """
        if state.pending < 0 or state.expected < 0:
            message = "mbarrier: more arrivals than the phase expects"
            raise self.machine.diag.fault(Kind.MBARRIER, instruction, message, lane)
        if not -(1 << BYTES - 1) < state.bytes < 1 << BYTES - 1:
            message = f"mbarrier: {state.bytes} bytes to come are too many"
            raise self.machine.diag.fault(Kind.MBARRIER, instruction, message, lane)
        if state.pending == 0 and state.bytes == 0:
            state.parity ^= 1
            state.pending = state.expected
            self.bytes.pop(at, None)
            self.ended[at] = self.ended.get(at, (0, {}))[0] + 1, self.came.pop(at, {})
            self.machine.events.order.phase_ends(at)

    def signal(self, at: int, land: Callable[[], None]) -> None:
        """A copy that will signal the object at `at` is under way."""
        self.signals.setdefault(at, []).append(land)
        if any((p.objects[p.threads] == at).any() for p in self.waiting):
            self.arrive_now(at)
            self.release()

    def arrive_now(self, at: int) -> None:
        """Complete all copies that are to signal an object."""
        for land in self.signals.pop(at, []):
            land()

    def over(self, objects: np.ndarray, parity: np.ndarray) -> np.ndarray:
        """Return for each object whether the phase of this parity is over."""
        for at in distinct(objects).tolist():
            if at in self.signals:
                self.arrive_now(at)
        return (self.read(objects) & np.uint64(1)) != parity

    def wait(
        self,
        instruction: Instruction,
        threads: np.ndarray,
        objects: np.ndarray,
        parity: np.ndarray,
        write: Callable[[np.ndarray], None],
    ) -> int | None:
        """Let threads come to a try_wait; `objects` and `parity` by lane of the batch."""
        self.waiting.append(Parked(instruction, threads, objects, parity, write))
        self.release()
        return None

    def release(self) -> None:
        """Release the threads whose phase is over."""
        m = self.machine
        parked, self.waiting = self.waiting, []
        for p in parked:
            lanes = p.threads.nonzero()[0]
            done = self.over(p.objects[lanes], p.parity[lanes])
            if done.any():
                gone = m.state.mask_of(lanes[done])
                self.passed(lanes[done], p.objects[lanes[done]])
                with m.state.acting(gone):
                    p.write(m.state.uniform(np.bool_(True)))
                m.state.join(p.instruction.pc + 1, gone)
                p.threads = p.threads & ~gone
            if p.threads.any():
                self.waiting.append(p)

    def arrive(self, objects: np.ndarray, lanes: np.ndarray, relaxed: bool = False) -> None:
        """Threads arrive: what they did before is ordered before what those do who see the phase
        end.
        """
        for at in distinct(objects).tolist():
            self.machine.events.order.release(at, lanes[objects == at], relaxed)

    def passed(self, lanes: np.ndarray, objects: np.ndarray) -> None:
        """Threads have seen the phases of these objects end."""
        for at in distinct(objects).tolist():
            self.machine.events.order.acquire(at, lanes[objects == at])

    def stuck(self) -> None:
        """Raise the fault that nobody can run and some wait for a phase; of several it names one
        that waits for copies.
        """
        entries = []
        for p in self.waiting:
            lane = int(p.threads.nonzero()[0][0])
            entries.append((p, lane, State.unpack(int(self.read(p.objects[lane : lane + 1])[0]))))
        p, lane, state = max(entries, key=lambda entry: entry[2].bytes != 0)
        missing = [f"{state.pending} of {state.expected} arrivals"] * bool(state.pending)
        missing += [f"{state.bytes} bytes of copies"] * (state.bytes > 0)
        what = f"waits for {' and '.join(missing)}" if missing else ""
        if state.bytes < 0:
            what += f"{' and ' if missing else ''}cannot end, as copies brought {-state.bytes} bytes more than expected"
        what += self._account(int(p.objects[lane])) + self._history(p, lane)
        message = f"deadlock: the phase of this mbarrier {what}{self._others(p, lane)}"
        raise self.machine.diag.fault(Kind.DEADLOCK, p.instruction, message, lane)

    def _history(self, p: Parked, lane: int) -> str:
        """In words, what set up an object that somebody waits for: its init, its phases so far,
        where arrivals came from, and where the parity comes from that is waited for."""
        m, at = self.machine, int(p.objects[lane])
        parts = []
        if at in self.made:
            instruction, count = self.made[at]
            parts.append(
                f"initialised for {count} arrival{'s' * (count != 1)} at {m.diag.where(instruction)}"
            )
        number, last = self.ended.get(at, (0, {}))
        came = self.came.get(at, {})
        for when, arrivals in (
            ("in this phase", came),
            ("in the one before", {} if came else last),
        ):
            if arrivals:
                listed = " and ".join(f"{n} at {m.diag.where(i)}" for i, n in arrivals.items())
                parts.append(f"arrived {when}: {listed}")
        if not came and not last:
            parts.append("nobody has arrived")
        parity = f"its phase {number} (parity {number & 1}) runs, and parity {int(p.parity[lane])} is waited for"
        source = (
            m.diag.definition(p.instruction.operands[2])
            if len(p.instruction.operands) > 2
            else None
        )
        if source is not None and m.diag.where(source) != m.diag.where(p.instruction):
            parity += f", which comes from {m.diag.where(source)}"
        parts.append(parity)
        return f" ({'; '.join(parts)})"

    def _account(self, at: int) -> str:
        """Describe which bytes were expected in an object's phase and which arrived."""
        m, parts = self.machine, []
        for instruction, size in self.bytes.get(at, {}).items():
            verb = "expects" if size > 0 else "brought"
            parts.append(f"{m.diag.where(instruction)} {verb} {abs(size)}")
        return f" ({'; '.join(parts)})" if parts else ""

    def _others(self, first: Parked, lane: int) -> str:
        """Describe where other threads of the block wait."""
        m, others = self.machine, dict[str, str]()
        for p in self.waiting:
            here = (p.threads & (m.state.block_of == m.state.block_of[lane])).nonzero()[0]
            if len(here) and p is not first:
                state = State.unpack(int(self.read(p.objects[here[:1]])[0]))
                what = f"{state.bytes} bytes"
                if state.pending:
                    what = f"{state.pending} of {state.expected} arrivals"
                thread = m.state.thread_index(int(m.state.thread_of[here[0]]))
                at = m.diag.where(p.instruction)
                others.setdefault(at, f"thread {thread} at {at} for {what}")
        for name, park in m.diag.parks:
            for w in park.waiting if park is not self else ():
                here = (w.threads & (m.state.block_of == m.state.block_of[lane])).nonzero()[0]
                if len(here):
                    at = m.diag.where(w.instruction)
                    thread = m.state.thread_index(int(m.state.thread_of[here[0]]))
                    others.setdefault(
                        at, f"thread {thread} and {len(here) - 1} more at the {name} at {at}"
                    )
        return f"; also wait: {', '.join(others.values())}" if others else ""
