"""Memory: the global arena, and how the addresses of many threads become indices into flat arrays.

Generic addresses are numbers in windows: global memory at GLOBAL_BASE, shared, local and parameters
at bases of their own, so that a generic access finds its space (PTX ISA 5.1). Within shared, local
and parameter space an address is an offset. No space's addresses, cut to 32 bits, coincide with
those of another: a pointer that is used in a space that is not its own lies outside.
"""

from __future__ import annotations

import mmap
import sys
from bisect import bisect_right
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

# Any program has these addresses free, so that `exec` can put device memory there.
GLOBAL_BASE = 0x2000_6000_0000
WINDOW = 1 << 48
BASES = {
    "shared": 1 * WINDOW + 0x4000_0000,
    "local": 2 * WINDOW + 0x5000_0000,
    "param": 3 * WINDOW + 0x5800_0000,
}
# 32 bits hold these bits of an address.
LOW = (1 << 32) - 1
# From this bit on, a shared address has its block's rank in the cluster, as on sm_90.
RANK_AT = 24
# This many bytes lie between allocations.
GUARD = 512
# malloc has this many bytes for all threads, as cudaLimitMallocHeapSize says at first.
HEAP = 8 << 20
HEAP_NAME = "memory of malloc"
# Allocations are aligned as cudaMalloc's.
ALIGN = 256
INTP = np.dtype(np.intp)
# No GPU has more global memory.
MAX_MAPPED_BYTES = 1 << 40
# From this many bytes on, memory is mapped.
LARGE = 64 << 20
# With MAP_NORESERVE, Linux promises no pages that nobody touches.
NORESERVE = 0x4000


def zeros(count: int, dtype: np.typing.DTypeLike) -> np.ndarray:
    """Return an array of zeros that takes memory only where it is touched, however large."""
    size = count * np.dtype(dtype).itemsize
    if size < LARGE or sys.platform != "linux":
        return np.zeros(count, dtype)
    return np.frombuffer(
        mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE), dtype
    )


@dataclass(frozen=True)
class Allocation:
    """Addresses [start, end) and what they are."""

    start: int
    end: int
    name: str


class Heap:
    """The part of global memory from which malloc serves threads of kernels."""

    def __init__(self, start: int, size: int = HEAP) -> None:
        # No block has had these addresses yet.
        self.next, self.end = start, start + size
        # Blocks in use are listed by their start; starts of freed ones by size; ends of freed ones
        # by start.
        self.blocks: dict[int, Allocation] = {}
        self.reusable: dict[int, list[int]] = {}
        self.freed: dict[int, int] = {}

    def malloc(self, size: int) -> Allocation | None:
        """Return a block of at least `size` bytes; None where there are none left."""
        size = -(-max(size, 1) // 16) * 16
        if known := self.reusable.get(size):
            start = known.pop()
            del self.freed[start]
        elif self.next + size > self.end:
            return None
        else:
            # The gap catches accesses past the end.
            start, self.next = self.next, self.next + size + 16
        block = self.blocks[start] = Allocation(start, start + size, HEAP_NAME)
        return block

    def free(self, address: int) -> str | None:
        """Take a block back. Returns what is wrong, in words, where there is none at this
        address.
        """
        if address not in self.blocks:
            why = "it has been freed already" if address in self.freed else "malloc did not give it"
            return f"free of global address 0x{address:x}: {why}"
        block = self.blocks.pop(address)
        self.reusable.setdefault(block.end - block.start, []).append(address)
        self.freed[address] = block.end
        return None


class Arena:
    """Global memory: allocations in one flat array, guard gaps between them."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self.pending: list[tuple[int, np.ndarray]] = []
        # `filled` counts bytes that are written before the launch begins.
        self.filled = 0
        self.top = GLOBAL_BASE + GUARD
        self.data = np.zeros(0, np.uint8)
        self.heap: Heap | None = None
        # Tensor maps in global memory are listed by address: which ones earlier launches used, and
        # who changed them since.
        self.used_maps: dict[int, None] = {}
        self.changed_maps: dict[int, str] = {}

    def make_heap(self) -> None:
        """Reserve the heap of malloc, for a launch whose kernel calls it."""
        self.heap = Heap(-(-self.top // ALIGN) * ALIGN)
        self.top = self.heap.end + GUARD

    def malloc(self, size: int) -> int:
        """Allocate a block of the heap: its address, or 0 where none is left."""
        # A program that allocates has a heap.
        assert self.heap is not None
        block = self.heap.malloc(size)
        if block is None:
            return 0
        start, end = block.start - GLOBAL_BASE, block.end - GLOBAL_BASE
        index = bisect_right(self.starts, start)
        self.allocations.insert(index, block)
        self.starts.insert(index, start)
        self.ends.insert(index, end)
        return block.start

    def free(self, address: int) -> str | None:
        """Free a block of the heap.

        Returns what is wrong, in words, where there is none at this address.
        """
        assert self.heap is not None
        wrong = self.heap.free(address)
        if wrong is None:
            index = bisect_right(self.starts, address - GLOBAL_BASE) - 1
            del self.allocations[index], self.starts[index], self.ends[index]
        return wrong

    def allocate(self, size: int, name: str, align: int = ALIGN) -> int:
        """Reserve bytes and return their address."""
        start = -(-self.top // max(align, ALIGN)) * max(align, ALIGN)
        self.allocations.append(Allocation(start, start + size, name))
        self.top = start + size + GUARD
        return start

    @property
    def nbytes(self) -> int:
        """Return the bytes that a launch takes before it begins: of its arrays those that have
        contents.
        """
        span = self.top - GLOBAL_BASE
        return span if span > MAX_MAPPED_BYTES else self.filled

    def write(self, address: int, data: np.ndarray) -> None:
        """Put bytes at an address, now or when the memory is made."""
        if len(self.data):
            at = address - GLOBAL_BASE
            self.data[at : at + data.nbytes] = data.reshape(-1).view(np.uint8)
        else:
            self.filled += data.nbytes
            self.pending.append((address, data))

    def read(self, address: int, size: int) -> np.ndarray:
        at = address - GLOBAL_BASE
        return self.data[at : at + size]

    def finish(self) -> None:
        """Make the memory, after all allocations."""
        self.data = zeros(-(-(self.top + GUARD - GLOBAL_BASE) // 16) * 16, np.uint8)
        self.starts = [a.start - GLOBAL_BASE for a in self.allocations]
        self.ends = [a.end - GLOBAL_BASE for a in self.allocations]
        for address, data in self.pending:
            self.write(address, data)
        self.pending.clear()

    def string(self, address: int) -> str:
        """Return the zero-terminated text at a generic address."""
        at = address - GLOBAL_BASE
        raw = self.data[at : at + 4096].tobytes() if 0 <= at < len(self.data) else b"?"
        return raw.split(b"\0")[0].decode(errors="replace")

    def nearest(self, offset: int) -> str:
        """Describe where an address lies that belongs to no allocation."""
        address = offset + GLOBAL_BASE
        freed_blocks = self.heap.freed.items() if self.heap is not None else ()
        freed = next((start for start, end in freed_blocks if start <= address < end), None)
        if freed is not None:
            return f"{address - freed} bytes into memory of malloc that was freed"
        i = bisect_right(self.starts, offset) - 1
        if i >= 0 and offset < self.ends[i]:
            return f"{offset - self.starts[i]} bytes into {self.allocations[i].name}"
        if i >= 0 and offset - self.ends[i] < (1 << 32):
            size = self.ends[i] - self.starts[i]
            return f"{offset - self.ends[i]} bytes past the end of {self.allocations[i].name} ({size} bytes)"
        return "in no allocation"

    def beyond(self, offset: int, size: int) -> str:
        """Describe how far an access that begins in an allocation goes beyond it."""
        i = bisect_right(self.starts, offset) - 1
        if i < 0 or offset >= self.ends[i]:
            return ""
        over = offset + size - self.ends[i]
        return f" ({self.ends[i] - self.starts[i]} bytes), to {over} bytes beyond its end"


class Addresses:
    """The addresses that a base register holds, for the active threads, as offsets into a space.

    Made once for as long as the register is not written, however many accesses use it with various
    offsets. `raw` is relative to the thread's own part of the space (its block's shared memory, its
    local memory), `flat` to the array.
    """

    __slots__ = (
        "active",
        "base",
        "cache",
        "flat",
        "hi",
        "indices",
        "lanes",
        "lo",
        "low_bits",
        "raw",
        "varying",
    )

    def __init__(
        self,
        base: np.ndarray | None,
        active: np.ndarray | None,
        raw: np.ndarray,
        lanes: np.ndarray | None,
        origin: np.ndarray | None,
    ) -> None:
        self.base, self.active, self.lanes = base, active, lanes
        self.raw = raw
        self.flat = raw if origin is None else raw + origin
        self.lo, self.hi = int(raw.min()), int(raw.max())
        first = int(raw[0])
        self.low_bits = first & 15
        self.varying = int(np.bitwise_or.reduce((raw ^ first) & 15)) if self.lo != self.hi else 0
        self.indices: dict[int, np.ndarray] = {}
        # Observers keep here what follows from the addresses alone.
        self.cache: dict[Hashable, Any] = {}

    def index(self, shift: int) -> np.ndarray:
        """Return indices of elements of 2^shift bytes."""
        indices = self.indices.get(shift)
        if indices is None:
            indices = self.indices[shift] = self.flat >> shift if shift else self.flat
        return indices


SHIFT = {1: 0, 2: 1, 4: 2, 8: 3, 16: 4}


class Space:
    """A flat array of bytes, of which each thread sees the part that starts at its origin."""

    def __init__(
        self, name: str, data: np.ndarray, size: int, origin: np.ndarray | None, first: int = 0
    ) -> None:
        """A thread's part: `size` bytes, of which those from `first` on are its program's."""
        self.name, self.data, self.size, self.origin, self.first = name, data, size, origin, first
        self.is_shared = name.startswith("shared")
        self.views = {size: data.view(f"u{size}") for size in (1, 2, 4, 8)}

    def addresses(self, base: np.ndarray, active: np.ndarray | None) -> Addresses:
        """Resolve a base register (or offsets) for the active threads."""
        raw, origin = self.relative(base), self.origin
        if active is None:
            return Addresses(base, active, raw, None, origin)
        lanes = active.nonzero()[0]
        return Addresses(base, active, raw[lanes], lanes, None if origin is None else origin[lanes])

    def relative(self, base: np.ndarray) -> np.ndarray:
        """Return addresses as signed offsets: what lies below the space becomes negative."""
        if base.dtype.itemsize == 4:
            return base.view(np.int32).astype(INTP)
        return base.view(np.int64)

    def inside(self, where: Addresses, offset: int, width: int) -> np.ndarray | None:
        """Return which of the threads stay inside; None when all do."""
        if where.lo + offset >= self.first and where.hi + offset + width <= self.size:
            return None
        at = where.raw + offset
        return (at >= self.first) & (at + width <= self.size)

    def begins_inside(self, offset: int) -> bool:
        """Return whether there is memory at an offset."""
        return self.first <= offset < self.size

    def describe(self, offset: int) -> str:
        """Describe how an offset lies outside."""
        size = f"({self.size - self.first} bytes)"
        if offset < self.first:
            return f"{self.first - offset} bytes before the start {size}"
        return f"{offset - self.size} bytes past the end {size}"

    def beyond(self, offset: int, size: int) -> str:
        """Describe how far an access that begins inside goes beyond."""
        return ""

    def address_text(self, offset: int) -> str:
        return f"{self.name} address 0x{offset & 0xFFFFFFFF:x}"


class ClusterSpace(Space):
    """Shared memory of the blocks of clusters: the upper bits of an address are the rank of a block
    in the cluster.

    A thread's own block only, or all of its cluster (`shared::cluster`)."""

    def __init__(
        self,
        name: str,
        data: np.ndarray,
        size: int,
        origin: np.ndarray,
        first: int,
        rank: np.ndarray,
        blocks: int,
        part: int,
    ) -> None:
        """`rank`: of each lane's block; `blocks`: of a cluster; `part`: bytes of a block in
        `data`.
        """
        super().__init__(name, data, size, origin, first)
        self.origin: np.ndarray
        self.rank, self.blocks, self.part = rank, blocks, part

    def addresses(self, base: np.ndarray, active: np.ndarray | None) -> Addresses:
        lanes = None if active is None else active.nonzero()[0]
        chosen = slice(None) if lanes is None else lanes
        at, cta = self.relative(base)[chosen], self.rank[chosen]
        rank = at >> RANK_AT
        good = (rank >= 0) & (rank < self.blocks) if self.name == "shared::cluster" else rank == cta
        # What is bad stays outside.
        raw = np.where(good, at & (1 << RANK_AT) - 1, at)
        return Addresses(base, active, raw, lanes, self.origin[chosen] + (rank - cta) * self.part)

    def describe(self, offset: int) -> str:
        rank = offset >> RANK_AT
        if (
            0 <= rank < self.blocks
            and self.name == "shared"
            and offset & (1 << RANK_AT) - 1 < self.size
        ):
            return (
                f"in the block of rank {rank} of the cluster, which only .shared::cluster reaches"
            )
        return super().describe(offset)


class GlobalSpace(Space):
    """The arena as a space; also constant memory."""

    def __init__(self, arena: Arena) -> None:
        super().__init__("global", arena.data, len(arena.data), None)
        self.arena = arena

    def relative(self, base: np.ndarray) -> np.ndarray:
        base = base.view(np.int64) if base.dtype.itemsize == 8 else base.astype(np.int64)
        return base - GLOBAL_BASE

    def inside(self, where: Addresses, offset: int, width: int) -> np.ndarray | None:
        lo, hi = where.lo + offset, where.hi + offset + width
        arena = self.arena
        i = bisect_right(arena.starts, lo) - 1
        if i >= 0 and hi <= arena.ends[i]:
            return None
        if not arena.starts:
            return np.zeros(len(where.raw), bool)
        at = where.raw + offset
        part = np.searchsorted(np.asarray(arena.starts), at, side="right") - 1
        good = (part >= 0) & (at + width <= np.asarray(arena.ends)[part])
        return None if good.all() else good

    def begins_inside(self, offset: int) -> bool:
        i = bisect_right(self.arena.starts, offset) - 1
        return i >= 0 and offset < self.arena.ends[i]

    def describe(self, offset: int) -> str:
        return self.arena.nearest(offset)

    def beyond(self, offset: int, size: int) -> str:
        return self.arena.beyond(offset, size)

    def address_text(self, offset: int) -> str:
        return f"global address 0x{offset + GLOBAL_BASE:x}"


class Access:
    """One memory access of the active threads, checked: loads and stores its elements."""

    __slots__ = ("offset", "space", "values", "where")

    def __init__(self, space: Space, where: Addresses, offset: int) -> None:
        self.space, self.where, self.offset = space, where, offset
        # A store has values.
        self.values: list[np.ndarray] | None = None

    @property
    def lanes(self) -> np.ndarray | None:
        return self.where.lanes

    @property
    def parts(self) -> list[tuple[Any, Access]]:
        """As of a `MixedAccess`: all of its threads, and itself."""
        return [(slice(None), self)]

    def _element(self, size: int, number: int) -> tuple[np.ndarray, np.ndarray]:
        shift = SHIFT[size]
        index = self.where.index(shift)
        first = ((self.where.low_bits & (size - 1)) + self.offset) >> shift
        first += number
        if first < 0 or self.where.lo < 0:
            # An index below zero would count from the end.
            return self.space.views[size], index + first
        return self.space.views[size][first:], index

    def load(self, size: int, number: int = 0) -> np.ndarray:
        """Return the element at this place of a vector, for each active thread, as unsigned
        integers.
        """
        view, index = self._element(size, number)
        return view.take(index)

    def store(self, size: int, values: np.ndarray, number: int = 0) -> None:
        """Store values, those of the active threads only."""
        view, index = self._element(size, number)
        view[index] = values

    def put(self, size: int) -> None:
        """Store the access's values, elements of `size` bytes."""
        for number, values in enumerate(self.values or ()):
            self.store(size, values, number)

    def flat(self) -> np.ndarray:
        """Byte offsets into the space's array."""
        return self.where.flat + self.offset


class MixedAccess:
    """A generic access whose threads point into different spaces: one `Access` for each."""

    def __init__(self, parts: list[tuple[Any, Access]], lanes: np.ndarray) -> None:
        self.parts, self.lanes = parts, lanes

    def load(self, size: int, number: int = 0) -> np.ndarray:
        out = np.zeros(len(self.lanes), f"u{size}")
        for indices, access in self.parts:
            out[indices] = access.load(size, number)
        return out

    def store(self, size: int, values: np.ndarray, number: int = 0) -> None:
        for indices, access in self.parts:
            access.store(size, values[indices], number)

    def put(self, size: int) -> None:
        for _, access in self.parts:
            access.put(size)
