"""Device memory that outlives a launch: allocations with addresses of their own, and what is in
them.

    kernel = Kernel(module, entry, memory=memory)
    kernel.launch(grid, block, [raw bytes of each parameter])

`ptxsim exec` keeps a program's device memory so, in pages that it shares with the program.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right, insort
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import PtxsimError
from ..machine.arrays import Texture
from ..machine.device import Device
from ..machine.memory import ALIGN, GLOBAL_BASE, GUARD, HEAP, Allocation, Arena, Heap
from ..machine.tensor_maps import BYTES as MAP_BYTES
from ..machine.tensor_maps import MAGIC, TensorMap, decoded
from ..machine.texture_arrays import TextureArray
from ..machine.values import runs
from ..ptx.program import Program
from ..ptx.syntax import Module, Variable
from .linking import initial_bytes
from .machine import Machine

PAGE = 4096
# No allocation of the program has these first bytes: standins/core.cpp leaves them out.
OF_LAUNCH = 16 << 20
# malloc's heap begins here; what launches need for themselves lies below.
HEAP_START = GLOBAL_BASE + OF_LAUNCH - HEAP
# An allocation with more spans that nobody wrote is not watched.
MAX_SPANS = 4096
# In larger allocations nothing is known of what nobody wrote.
MAX_WATCHED_BYTES = 256 << 20
# A span lies between two addresses.
Span = tuple[int, int]


class DeviceMemory(Arena):
    """Allocations in an array of bytes that begins at GLOBAL_BASE, however large: only what is
    touched takes memory.
    """

    def __init__(self, whole: np.ndarray, device: Device | None = None) -> None:
        super().__init__()
        self.device = device or Device()
        self.whole = whole
        self.live: dict[int, Allocation] = {}
        # Messages name what was released last.
        self.released_last: list[Allocation] = []
        # A launch needs these until it ends.
        self.of_launch: list[Allocation] = []
        # The memory belongs to this process.
        self.process: int | None = None
        # Textures have handles, tensor maps the number in their bytes, and variables addresses by
        # the id of their module.
        self.textures: dict[int, Texture | TextureArray] = {}
        self.tensor_maps: list[TensorMap] = []
        self.addresses: dict[int, dict[str, int]] = {}
        self._starts: list[int] = []
        # Unwritten spans are listed by the allocation's start.
        self._unwritten: dict[int, list[Span]] = {}
        self.finish()

    def allocated(self, start: int, size: int, name: str, written: bool = False) -> None:
        """Take memory at an address from now on. `written`: it may be read at once."""
        self.live[start] = Allocation(start, start + size, name)
        insort(self._starts, start)
        if not written and size <= MAX_WATCHED_BYTES:
            self._unwritten[start] = [(start, start + size)]

    def release(self, start: int) -> None:
        """Remove an allocation that was freed."""
        gone = self.live.pop(start)
        self._starts.remove(start)
        self._unwritten.pop(start, None)
        for address in [at for at in self.used_maps if gone.start <= at < gone.end]:
            del self.used_maps[address]
            self.changed_maps.pop(address, None)
        apart = [a for a in self.released_last if a.end <= gone.start or a.start >= gone.end]
        self.released_last = [*apart[-100:], gone]

    def holder(self, address: int) -> Allocation | None:
        """Return the allocation that an address belongs to."""
        i = bisect_right(self._starts, address) - 1
        allocation = self.live[self._starts[i]] if i >= 0 else None
        return allocation if allocation is not None and address < allocation.end else None

    def allocate(self, size: int, name: str, align: int = ALIGN) -> int:
        """Memory for one launch: its address, below all that the program has."""
        start = super().allocate(size, name, align)
        if self.top > HEAP_START:
            raise PtxsimError(
                f"{name}: no room for {size} bytes among the {OF_LAUNCH - HEAP} that a launch may need for itself"
            )
        self.of_launch.append(self.allocations.pop())
        return start

    def make_heap(self) -> None:
        """The heap of malloc, which outlives launches: a later one may use and free its blocks."""
        self.heap = self.heap or Heap(HEAP_START)

    def finish(self) -> None:
        """Rebuild the list of allocations for a launch."""
        blocks = [] if self.heap is None else self.heap.blocks.values()
        heap = sorted(blocks, key=lambda block: block.start)
        self.allocations = [*self.of_launch, *heap, *(self.live[start] for start in self._starts)]
        self.starts = [a.start - GLOBAL_BASE for a in self.allocations]
        self.ends = [a.end - GLOBAL_BASE for a in self.allocations]
        self.data = self.whole[: -(-(self.ends[-1] if self.ends else 1) // PAGE) * PAGE + PAGE]

    def onto(self, whole: np.ndarray) -> DeviceMemory:
        """Return a copy whose bytes lie in another array, such as a private mapping of the
        pages.
        """
        copy = DeviceMemory(whole)
        for name, value in vars(self).items():
            setattr(copy, name, value.copy() if isinstance(value, dict | list) else value)
        copy.whole, copy.heap, copy.device = whole, deepcopy(self.heap), replace(self.device)
        copy.finish()
        return copy

    def nearest(self, offset: int) -> str:
        at = offset + GLOBAL_BASE
        for a in reversed(self.released_last):
            if a.start <= at < a.end and self.holder(at) is None:
                return f"{at - a.start} bytes into {a.name}, which was freed"
        text = super().nearest(offset)
        if text == "in no allocation" and at < PAGE:
            return f"{at} bytes past a null pointer" if at else "a null pointer"
        if text == "in no allocation" and (name := self.of_host(at)) is not None:
            return f"an address of the host, in {name}, which kernels cannot use"
        return text

    def of_host(self, address: int) -> str | None:
        """Return what of the program's own memory lies at an address, if anything does."""
        if self.process is None:
            return None
        with contextlib.suppress(OSError), open(f"/proc/{self.process}/maps") as maps:
            for line in maps:
                bounds, _, _, _, _, *name = line.split()
                start, end = (int(part, 16) for part in bounds.split("-"))
                of_device = GLOBAL_BASE <= start < GLOBAL_BASE + len(self.whole)
                if start <= address < end and not of_device:
                    known = {"[stack]": "its stack", "[heap]": "its heap"}
                    return known.get("".join(name), "a variable or an array of its own")
        return None

    # variables of modules

    def place(
        self, module: Module, variables: Iterable[Variable], addresses: dict[str, int]
    ) -> None:
        """A module's variables are at these addresses, in allocations that exist: puts their
        initial values there.
        """
        self.addresses[id(module)] = addresses
        program = Program(module, next(iter(module.functions.values())))
        for variable in variables:
            if variable.initial:
                self.write(addresses[variable.name], initial_bytes(program, variable, addresses))
                self.written(addresses[variable.name], variable.size)

    def symbols(self, program: Program) -> dict[str, int]:
        """Return the addresses of a program's variables."""
        return self.addresses[id(program.module)]

    def write(self, address: int, data: np.ndarray) -> None:
        at = address - GLOBAL_BASE
        self.whole[at : at + data.nbytes] = data.reshape(-1).view(np.uint8)

    def never_written(self, module: Module) -> set[str]:
        """Return the variables of a module of which no byte was written."""
        addresses = self.addresses.get(id(module), {})
        return {name for name, at in addresses.items() if self.blank(at)}

    # what nobody wrote

    def blank(self, start: int) -> bool:
        """Return whether nobody has written a byte of the allocation that begins there."""
        return start in self.live and self._unwritten.get(start) == [(start, self.live[start].end)]

    def written(self, address: int, width: int, pitch: int = 0, rows: int = 1) -> None:
        """Record that the host wrote `width` bytes at an address, `rows` times, `pitch` bytes
        apart.
        """
        holder = self.holder(address)
        if holder is None or holder.start not in self._unwritten:
            return
        if width == pitch:
            width, rows = width * rows, 1
        if rows > MAX_SPANS:
            del self._unwritten[holder.start]
            return
        spans = self._unwritten[holder.start]
        for row in range(rows):
            start = address + row * pitch
            spans = [part for span in spans for part in _without(span, (start, start + width))]
        self._keep(holder.start, spans)

    def _keep(self, start: int, spans: list[Span]) -> None:
        if spans and len(spans) <= MAX_SPANS:
            self._unwritten[start] = spans
        else:
            self._unwritten.pop(start, None)

    def _variables(self) -> set[int]:
        """Return the addresses of the variables of modules."""
        return {at for addresses in self.addresses.values() for at in addresses.values()}

    def unwritten(self) -> list[Span]:
        """Return memory that nobody has written; of each allocation also an empty span at its
        start, by which a launch knows that pointers to it matter. Not of variables, which begin as
        zeros.
        """
        variables = self._variables()
        spans = {start: gaps for start, gaps in self._unwritten.items() if start not in variables}
        return [s for start, gaps in spans.items() for s in [(start, start), *gaps]]

    def after(self, machine: Machine) -> None:
        """Record what a launch that has ended wrote."""
        self.of_launch, self.top = [], GLOBAL_BASE + GUARD
        shadow = machine.global_memory
        variables = self._variables()
        if shadow is None:
            return
        for address in shadow.maps.used_maps:
            self.used_maps[address] = None
            self.changed_maps.pop(address, None)
        for address in self.used_maps:
            shadow.maps.change(address)
        for address, change in shadow.maps.changes.items():
            self.changed_maps[address] = f"{machine.program.title} at {change.instruction.where}"
        if shadow.unwritten is None:
            return
        size = shadow.size
        for start, spans in list(self._unwritten.items()):
            if start in variables:
                continue
            # Parts of each span that are still marked are left.
            left: list[Span] = []
            for first, end in spans:
                base = (first - GLOBAL_BASE) // size
                marks = shadow.unwritten[base : -(-(end - GLOBAL_BASE) // size)]
                if marks.all():
                    left.append((first, end))
                    continue
                parts = runs(marks)
                if len(parts) > MAX_SPANS:
                    left = []
                    break
                at = GLOBAL_BASE + (base + parts) * size
                left += [(max(a, first), min(b, end)) for a, b in at.tolist()]
            self._keep(start, left)

    def all_written(self) -> None:
        """Treat all memory as written, after writes that were not watched."""
        variables = self._variables()
        self._unwritten = {start: s for start, s in self._unwritten.items() if start in variables}

    # parameters

    def buffers(self, program: Program, params: bytes) -> dict[Variable, Any]:
        """Return, by parameter, the start of the allocation that it points into. None: it holds
        several pointers, so that what comes from it may be any of them.
        """
        buffers: dict[Variable, Any] = {}
        for parameter in program.parameters:
            raw = params[parameter.offset : parameter.offset + parameter.variable.size]
            number = decoded(raw) if len(raw) == MAP_BYTES else None
            if number is not None and number < len(self.tensor_maps):
                holders = [self.holder(self.tensor_maps[number].address)]
            else:
                pointers = np.frombuffer(raw[: len(raw) // 8 * 8], np.uint64).tolist()
                holders = [self.holder(word) for word in pointers]
                if MAGIC in raw:
                    holders += [None, None]
            starts = [holder.start for holder in holders if holder is not None]
            if len(starts) == 1 and len(holders) == 1:
                buffers[parameter.variable] = starts[0]
            elif starts or len(holders) > 16:
                buffers[parameter.variable] = None
        return buffers


def _without(span: Span, cut: Span) -> list[Span]:
    parts = [(span[0], min(span[1], cut[0])), (max(span[0], cut[1]), span[1])]
    if cut[0] < span[1] and cut[1] > span[0]:
        return [part for part in parts if part[0] < part[1]]
    return [span]
