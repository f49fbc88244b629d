"""The emulated machine: all threads of a batch of blocks at once, one array element (a lane) a
thread.

What it is made of: the threads (state.py), what their instructions do (lowering.py, of operands.py
and instructions/), memory (accesses.py), which of them run (scheduler.py), who watches and counts
(events.py), what is wrong, in words (diagnostics.py); and, for a batch, where threads and copies
wait (barriers.py, phases.py, clusters.py, ...).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..check.defined import Defined
from ..check.flags import Flags
from ..check.global_memory import GlobalMemory, watched
from ..check.order import Order
from ..check.shared_memory import SharedMemory
from ..check.volatile import flag_reads
from ..check.waits import swaps, unseen, waits
from ..check.wraps import Wraps
from ..instructions import registry
from ..instructions.memory import STACK
from ..instructions.move import special_value
from ..instructions.wmma import ELEMENT
from ..machine.accesses import Accesses
from ..machine.async_copies import Copies
from ..machine.barriers import Barriers
from ..machine.bulk_groups import BulkGroups
from ..machine.clusters import Clusters
from ..machine.convergence import Convergence, width
from ..machine.diagnostics import Diagnostics
from ..machine.events import NOBODY, Events
from ..machine.launch import LaunchConfig, Limits
from ..machine.layout import SCRATCH, reserved
from ..machine.mbarriers import Phases
from ..machine.memory import GLOBAL_BASE, ClusterSpace, GlobalSpace, Space
from ..machine.observer import Observer
from ..machine.operands import Operands
from ..machine.state import Calls, State
from ..machine.warpgroups import Warpgroups, Watch
from ..ptx import reaching_definitions as origins
from ..ptx.program import Program, align_up
from ..ptx.syntax import Immediate, is_store_async
from ..ptx.types import TYPES
from .basic_blocks import Runs
from .lowering import Lowering
from .scheduler import Scheduler


class Machine:
    """Compiles a program once, and runs batches of its blocks."""

    launch: LaunchConfig
    barriers: Barriers
    phases: Phases
    clusters: Clusters
    bulk_groups: BulkGroups
    warpgroups: Warpgroups
    copies: Copies

    def __init__(self, program: Program) -> None:
        self.program = program
        # Threads have registers, memory, and observers that learn of what they do.
        self.origins = origins.find(program)
        self.watch = Watch.of(program)
        self.state = State(program.slots)
        self.operands = Operands(program, self.state, lambda name: special_value(self, name))
        self.diag = Diagnostics(program, self.state)
        self.events = Events(self.state)
        self.memory = Accesses(
            program,
            self.state,
            self.diag,
            self.events,
            self.origins,
            smallest_shared_access(program),
        )
        # What watches registers takes part in compiling the instructions.
        self.calls = Calls()
        self.wraps = Wraps(self, self.operands, program)
        self.events.defined = self.defined = Defined(self)
        parts = (pc for pc in self.wraps.watched.parts if program.code[pc].opcode != "shr")
        self.defined.whole = {*parts, *self.wraps.watched.widening}
        # Instructions become steps, steps straight runs, which the scheduler executes.
        lowering = Lowering(self, self.wraps)
        self.runs = Runs(self, lowering, self.defined)
        self.scheduler = Scheduler(self, lowering, self.runs, self.defined)
        self.lane_masks = {
            i.pc: self.operands.reader(i.operands[-1], TYPES["u32"])
            for i in program.code
            if width(i) == 0 and i.operands
        }
        # The checks know this of the program; a launch has its own shadows of memory.
        self.order: Order | None = None
        self.global_memory: GlobalMemory | None = None
        # Accesses at these pcs are watched.
        self.watched: set[int] = set()
        self.unseen, self.swaps = unseen(program), swaps(self.operands, program)
        self.waits = waits(self.operands, program, self.scheduler.polls, self.scheduler.rounds)
        self.flag_reads = flag_reads(program, self.scheduler.poll_pcs)
        self.cluster_fences = any(
            i.opcode == "fence" and "cluster" in i.modifiers and "mbarrier_init" not in i.modifiers
            for i in program.code
        )

    def prepare(self, launch: LaunchConfig) -> None:
        """Begin a launch."""
        self.launch = launch
        self.state.prepare(launch.grid, launch.block, launch.cluster)
        self.diag.prepare(launch.faults)
        self.operands.symbols = launch.symbols
        launch.shared_bytes = (
            align_up(self.program.static_shared_bytes, 16) + launch.dynamic_shared_bytes
        )
        raw = np.zeros(align_up(max(16, len(launch.params)), 16), np.uint8)
        raw[: len(launch.params)] = np.frombuffer(launch.params, np.uint8)
        self.memory.param_space = Space("param", raw, len(launch.params), None)
        self.runs.prepare(launch.buffers)
        unwritten = launch.unwritten if launch.checks.unwritten else ()
        self.watched = set()
        if launch.checks.global_races or unwritten:
            homes = {launch.homes.get(start, start) for start, _ in unwritten}
            self.watched = watched(self.program, self.origins, launch.buffers, homes)
        spans = [(start - GLOBAL_BASE, end - GLOBAL_BASE) for start, end in unwritten]
        self.order = order = Order(self.state, self.cluster_fences)
        self.flags = Flags(order, self.waits, self.unseen, self.swaps)
        self.global_memory = (
            GlobalMemory(self, order, self.flags, self.watched, spans, self.flag_reads)
            if self.watched
            else None
        )

    def run_batch(self, blocks: np.ndarray, limits: Limits, observers: Sequence[Observer]) -> None:
        """Run the blocks with these linear numbers to their end."""
        self.state.start(
            blocks, any(observer.by_block for observer in observers), self.launch.backwards
        )
        self.events.observers = tuple(observers)
        self._start(limits)
        with np.errstate(all="ignore"):
            try:
                self.scheduler.run()
            finally:
                self.launch.device.executed(self.scheduler.executed + self.scheduler.clock_reads)
            self.events.shared.finish()
        self.scheduler.count_executed()

    def release(self) -> None:
        """Let go of the memory of a launch."""
        if self.global_memory is not None:
            self.global_memory.finish()
        for held in (self.state, self.memory, self.calls):
            held.release()
        self.wraps.clear()
        self.copies.release()
        self.events.subscribe(NOBODY, NOBODY, NOBODY, NOBODY, set())
        self.order = self.global_memory = None

    def _start(self, limits: Limits) -> None:
        """Everything that a batch has of its own."""
        alloca = STACK if "alloca" in self.program.opcodes else 0
        frames = max(
            self.program.local_bytes * (limits.depth + 1 if self.program.recursive else 1), 16
        )
        self.calls.start(self.state.lanes, frames, alloca, limits.depth)
        self._make_memory(frames + alloca)
        self.defined.start()
        self.barriers, self.phases, self.clusters = Barriers(self), Phases(self), Clusters(self)
        self.bulk_groups = BulkGroups(self)
        self.warpgroups = Warpgroups(self, self.watch)
        self.copies = Copies(self)
        convergence = Convergence(self, self.lane_masks, self.scheduler.execute)
        self.diag.parks = (
            ("barrier", self.barriers),
            ("mbarrier", self.phases),
            ("barrier of the cluster", self.clusters),
        )
        self.diag.held, self.diag.hint = convergence.held, self.barriers.hint
        self._start_checks()
        self.operands.start()
        self.wraps.clear()
        self.scheduler.start(limits, convergence)

    def _make_memory(self, local: int) -> None:
        """Make the spaces of a batch; `local`: bytes of each thread's own."""
        state, base = self.state, self.program.shared_base
        own_shared = first, end = base, base + self.launch.shared_bytes
        if names_special(self.program, "reserved_smem"):
            scratch = reserved(self.program.module.target, self.launch.shared_bytes, "1")
            first, end = min(first, scratch), max(end, scratch + SCRATCH)
        shared = align_up(max(end, base + 16), 16)
        self.diag.shared_size = end
        lane = np.arange(state.lanes, dtype=np.int64)
        spaces: dict[str, Space] = {
            "global": GlobalSpace(self.launch.arena),
            "local": Space("local", np.zeros(state.lanes * local, np.uint8), local, lane * local),
            "param": self.memory.param_space,
        }
        spaces["const"] = spaces["global"]
        part = (np.zeros(len(state.blocks) * shared, np.uint8), end, state.block_of * shared, first)
        if state.cluster_size > 1:
            for name in ("shared", "shared::cluster"):
                spaces[name] = ClusterSpace(name, *part, state.rank, state.cluster_size, shared)
        else:
            spaces["shared"] = spaces["shared::cluster"] = Space("shared", *part)
        self.memory.start(spaces, own_shared)

    def _start_checks(self) -> None:
        """Start who watches the memory of a batch."""
        order, space, checks = self.order, self.memory.spaces["shared"], self.launch.checks
        # A launch has an order.
        assert order is not None
        shared = None
        order.start()
        if space.size > space.first and (checks.races or checks.unwritten):
            beyond_barriers = has_proxies(self.program) or self.state.cluster_size > 1
            shared = SharedMemory(self, order, self.flags, beyond_barriers)
            order.pending = shared
        self.flags.start()
        if shared is None and self.global_memory is None:
            self.events.subscribe(NOBODY, NOBODY, NOBODY, NOBODY, set())
        else:
            watched = self.watched if self.global_memory else set()
            self.events.subscribe(
                order, self.flags, shared or NOBODY, self.global_memory or NOBODY, watched
            )


def names_special(program: Program, part: str) -> bool:
    """Return whether a program reads a special register with this in its name."""
    return any(part in name for name in program.specials)


def has_proxies(program: Program) -> bool:
    """Return whether bulk copies, st.async or wgmma of a program access shared memory, besides
    loads and stores.
    """
    return any(
        i.opcode == "wgmma" or "bulk" in i.modifiers or is_store_async(i) for i in program.code
    )


def smallest_shared_access(program: Program) -> int:
    """Return the bytes of the smallest access that may go to shared memory."""
    smallest = 16
    for instruction in program.code:
        opcode, modifiers = instruction.opcode, instruction.modifiers
        if opcode == "mbarrier":
            smallest = min(smallest, 8)
        if opcode not in ("ld", "st", "atom", "red", "cp", "wmma"):
            continue
        if opcode == "cp":
            amount = instruction.operands[2] if len(instruction.operands) > 2 else None
            size = int(amount.value) if isinstance(amount, Immediate) else 16
        elif {"global", "local", "const", "param"} & {m.split("::")[0] for m in modifiers}:
            continue
        elif opcode == "wmma":
            size = 16
            if "mma" not in modifiers:
                size = next((ELEMENT[m] for m in reversed(modifiers) if m in ELEMENT), 1)
        else:
            size = registry.Modifiers(instruction).type.bytes
            size *= int(next((m[1] for m in modifiers if m in ("v2", "v4")), 1))
        smallest = min(smallest, size)
    return smallest
