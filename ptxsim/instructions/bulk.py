"""Bulk copies: many bytes at once by one thread, plain or through a tensor map (PTX ISA 9.7.9.25.4,
9.7.9.25.5).

Into shared memory they signal an mbarrier, and land when somebody waits for it; out of shared
memory they belong to groups. They are made in pieces of at most 16 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import KernelFault, Kind, PtxError, PtxsimError
from ..machine import tensor_maps
from ..machine.async_copies import Copy
from ..machine.bulk_groups import Store
from ..machine.mbarriers import State
from ..machine.memory import BASES, GLOBAL_BASE, WINDOW, Access, Addresses, Space
from ..machine.values import distinct
from ..ptx.syntax import Address, Instruction, items_of
from ..ptx.types import TYPES, Type
from .mbarrier import objects_at
from .memory import combination
from .needs import Machine
from .registry import Compute, Modifiers, Step

U16, U32, S32, U64 = TYPES["u16"], TYPES["u32"], TYPES["s32"], TYPES["u64"]
OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
REDUCED = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "int32": "s32",
    "int64": "s64",
}
REDUCED |= {"uint32": "u32", "uint64": "u64"}
# Bulk copies come in pieces of 16 bytes; a box in shared memory is aligned to 128.
PIECE, ALIGN = 16, 128
# An mbarrier waits for a copy without groups.
NO_GROUP = np.zeros(0, np.int64)
# These are the spaces that a copy goes to and comes from.
INTO_SHARED = (["shared::cluster", "global"], ["shared::cta", "global"])
OUT_OF_SHARED, BETWEEN_BLOCKS = ["global", "shared::cta"], ["shared::cluster", "shared::cta"]
HINTS = ("L2", "mbarrier::complete_tx::bytes", "bulk_group")

# A reduction combines data with what is there, by elements of this many bytes.
Update = tuple[Compute, int]
# It takes lanes to maps and coordinates.
ReadMaps = Callable[[list[int]], list[tuple[tensor_maps.TensorMap, list[int]]]]


class Pieces(Access):
    """Pieces of memory that one thread accesses at once, or several threads do."""

    __slots__ = ()

    def __init__(
        self, space: Space, flat: np.ndarray, raw: np.ndarray, lane: int | np.ndarray
    ) -> None:
        """`flat`: where each begins in the space's array; `raw`: in the thread's part of it;
        `lane`: whose it is.
        """
        lanes = lane if isinstance(lane, np.ndarray) else np.full(len(flat), lane)
        super().__init__(space, Addresses(flat, None, raw, lanes, flat - raw), 0)

    def part(self, which: np.ndarray | slice) -> Pieces:
        """Some of the pieces."""
        where = self.where
        assert where.lanes is not None
        return Pieces(self.space, where.flat[which], where.raw[which], where.lanes[which])

    def split(self, each: int) -> Iterator[Pieces]:
        """Yield the pieces by so many, one copy after the other."""
        for first in range(0, len(self.where.flat), each):
            yield self.part(slice(first, first + each))


# A box has a lane, its map, pieces of shared memory, and coordinates.
Box = tuple[int, tensor_maps.TensorMap, Pieces, list[int]]


def bulk(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """cp.async.bulk, with tensor maps or without, cp.reduce.async.bulk, and the groups of
    stores.
    """
    if action := modifiers.one_of(("commit_group", "wait_group")):
        read = modifiers.flag("read")
        pending = int(instruction.operands[0].value) if action == "wait_group" else 0
        if action == "commit_group":
            return lambda: m.bulk_groups.commit()
        return lambda: m.bulk_groups.wait(pending, read)
    return Bulk(m, instruction, modifiers).step()


class Bulk:
    """A bulk copy: what its steps are made of."""

    def __init__(self, m: Machine, instruction: Instruction, modifiers: Modifiers) -> None:
        self.m, self.instruction, self.modifiers = m, instruction, modifiers
        # A reduction has an operation.
        self.operation: str | None = None
        if modifiers.flag("reduce"):
            self.operation = modifiers.one_of(OPERATIONS) or modifiers.reject("this operation")
        modifiers.flag("noftz")
        self.spaces = [
            name for name in instruction.modifiers if name.split("::")[0] in ("shared", "global")
        ]
        modifiers.drop(("shared::", "shared", "global", *HINTS))
        self.multicast = modifiers.flag("multicast::cluster")

    def step(self) -> Step:
        if self.modifiers.flag("prefetch"):
            return self._prefetch()
        return self._tensor() if self.modifiers.flag("tensor") else self._plain()

    def fault(self, kind: Kind, message: str, lane: int) -> KernelFault:
        return self.m.diag.fault(kind, self.instruction, message, lane)

    def _require_spaces(self, *known: list[str]) -> None:
        if self.spaces not in known:
            where = f"{self.instruction.where}: {self.instruction.name}"
            raise PtxError(f"{where}: a copy between these spaces is not supported")

    def _prefetch(self) -> Step:
        """Prefetch to L2: no data move, but the tensor map must be valid."""
        if not self.modifiers.flag("tensor"):
            return lambda: None
        read_maps = self._maps(self.instruction.operands[0], _dimensions(self.modifiers))

        def step() -> None:
            read_maps(self.m.state.acting_lanes().tolist())

        return step

    # plain

    def _plain(self) -> Step:
        """[to], [from], bytes(, [mbarrier])(, mask of blocks)(, policy)."""
        self._require_spaces(*INTO_SHARED, OUT_OF_SHARED, BETWEEN_BLOCKS)
        to_space, from_space = self.spaces
        destination, source, amount, *more = self.instruction.operands
        _, to_slot, to_offset = self.m.operands.address(destination, to_space.removesuffix("::cta"))
        _, from_slot, from_offset = self.m.operands.address(
            source, from_space.removesuffix("::cta")
        )
        read_amount = self.m.operands.reader(amount, U32)
        signals = to_space != "global"
        signal = self._signal(more.pop(0)) if signals else None
        read_mask = self.m.operands.reader(more.pop(0), U16) if self.multicast else None
        update = self._update(self.modifiers.type) if self.operation else None

        def pieces(
            name: str, slot: int, offset: int, size: int, kind: str, lanes: list[int]
        ) -> Pieces:
            space = self.m.memory.spaces[name.removesuffix("::cta")]
            where = space.addresses(self.m.state.registers[slot], self.m.state.mask_of(lanes))
            self.m.memory.require_valid(
                Access(space, where, offset), size, PIECE, self.instruction, kind
            )
            steps = np.arange(0, size, PIECE) + offset
            flat, raw = ((at[:, None] + steps).reshape(-1) for at in (where.flat, where.raw))
            return Pieces(space, flat, raw, np.repeat(lanes, len(steps)))

        def step() -> None:
            amounts = read_amount()
            lanes = self.m.state.acting_lanes().tolist()
            objects = signal() if signal is not None else {}
            if odd := [lane for lane in lanes if int(amounts[lane]) % 16]:
                what = f"cp.async.bulk: {int(amounts[odd[0]])} bytes are no multiple of 16"
                raise self.fault(Kind.COPY, what, odd[0])
            for size in distinct(amounts[lanes]).tolist():
                here = [lane for lane in lanes if amounts[lane] == size]
                if not size:
                    continue
                taken = pieces(from_space, from_slot, from_offset, size, "cp_async_ld", here)
                to = pieces(to_space, to_slot, to_offset, size, "cp_async", here)
                for which, of in _together(
                    here, to, size, objects if signals and read_mask is None else None
                ):
                    a, b = taken.part(which), to.part(which)
                    read = None
                    if from_space == "global":
                        self.m.events.bulk(a, PIECE, self.instruction, "ld", a.split(size // PIECE))
                    else:
                        read = self.m.events.shared.async_read(
                            a, np.asarray(a.lanes), PIECE, self.instruction
                        )
                    data = [a.load(8, i) for i in range(2)]
                    if signals:
                        mask = None if read_mask is None else int(read_mask()[of[0]])
                        self._deliver(
                            of[0], b, data, size * len(of), objects[of[0]], mask, read=read
                        )
                    else:
                        self._send(of[0], a, b, data, PIECE, update)

        return step

    # into shared memory

    def _signal(self, operand: Address) -> Callable[[], dict[int, int]]:
        """Return a function that says where the mbarriers of the active threads' copies lie in the
        batch's shared memory.
        """
        memory_operand = self.m.operands.address(operand, "shared::cluster")

        def at() -> dict[int, int]:
            objects, lanes = objects_at(self.m, memory_operand, self.instruction, "atom")
            return dict(zip(lanes.tolist(), objects.tolist(), strict=True))

        return at

    def _deliver(
        self,
        lane: int,
        to: Pieces,
        data: list[np.ndarray],
        size: int,
        bar: int,
        mask: int | None,
        pattern: int = 0,
        read: int | None = None,
    ) -> None:
        """Send data to shared memory, of the block itself or of those in the mask, and signal
        there.
        """
        part = len(self.m.memory.spaces["shared"].data) // len(self.m.state.blocks)
        # The mbarrier is in this block of the batch.
        own_block = bar // part
        if mask is None:
            blocks = [own_block]
        else:
            ranks = self.m.state.cluster_size
            first = int(self.m.state.block_of[lane]) // ranks * ranks
            if mask >> ranks or not mask:
                what = f"a multicast to the blocks of mask 0x{mask:x}, but the cluster has {ranks}"
                raise self.fault(Kind.OTHER, what, lane)
            blocks = [first + rank for rank in range(ranks) if mask >> rank & 1]
        for block in blocks:
            shift = (block - own_block) * part
            access = to
            if shift:
                access = Pieces(to.space, to.where.flat + shift, to.where.raw, lane)
            at = bar + shift
            copy = Copy(self.instruction, access, data, 8, PIECE, NO_GROUP, at, read, pattern)
            begin(self.m, copy, at, lane, size)

    # out of shared memory

    def _update(self, t: Type) -> Update:
        """Return how a reduction puts data into what is there, as unsigned integers; and the bytes
        of an element.
        """
        combine = combination(self.operation or "", t) or self.modifiers.reject("this operation")

        def update(old: np.ndarray, new: np.ndarray) -> np.ndarray:
            combined = combine(old.view(t.dtype), new.view(t.dtype))
            return np.ascontiguousarray(combined).view(old.dtype)

        return update, t.bytes

    def _send(
        self,
        lane: int,
        taken: Pieces,
        to: Access,
        data: list[np.ndarray],
        width: int,
        update: Update | None,
    ) -> None:
        """Data go to global memory; the source is being read until the thread waits for the store's
        group.
        """
        kind = "st" if update is None else "atom"
        self.m.events.bulk(to, width, self.instruction, kind)
        size = min(width, 8)
        if update is not None:
            combine, size = update
            raw = np.stack(data, axis=1).view(f"u{size}")
            data = [
                combine(to.load(size, i), np.ascontiguousarray(raw[:, i]))
                for i in range(raw.shape[1])
            ]
        for i, values in enumerate(data):
            to.store(size, values, i)
        self.m.bulk_groups.add(Store(self.instruction, lane, taken))

    def _maps(self, operand: Any, dimensions: int) -> ReadMaps:
        """Return a function: for each of some threads its tensor map and its coordinates, the
        innermost last.
        """
        space, slot, offset = self.m.operands.address(operand, "generic")
        base = BASES.get(space, 0)
        items = items_of(operand.index)
        if len(items) != dimensions:
            raise self.instruction.error(f"with {len(items)} coordinates")
        readers = [self.m.operands.reader(item, S32) for item in reversed(items)]

        def read(lanes: list[int]) -> list[tuple[tensor_maps.TensorMap, list[int]]]:
            addresses = self.m.state.registers[slot].view(np.uint64)
            coordinates = [read() for read in readers]
            return [
                (
                    self._map_at((int(addresses[lane]) + base + offset) % 2**64, dimensions, lane),
                    [int(c[lane]) for c in coordinates],
                )
                for lane in lanes
            ]

        return read

    def _map_at(self, address: int, dimensions: int, lane: int) -> tensor_maps.TensorMap:
        """Return the tensor map at a generic address, which must be aligned and have the given
        number of dimensions.
        """
        in_parameters = address // WINDOW == BASES["param"] // WINDOW
        space = self.m.memory.spaces["param" if in_parameters else "global"]
        at = address - (BASES["param"] if in_parameters else GLOBAL_BASE)
        raw = (
            space.data[at : at + tensor_maps.BYTES].tobytes() if 0 <= at < len(space.data) else b""
        )
        number = tensor_maps.decoded(raw)
        if not in_parameters:
            self.m.events.global_memory.maps.used(address, lane, self.instruction)
        if raw[: len(tensor_maps.MADE)] == tensor_maps.MADE:
            try:
                tensor_map = tensor_maps.made_by_device(raw)
            except PtxsimError as error:
                raise self.fault(Kind.OTHER, str(error), lane) from None
        elif number is not None and number < len(self.m.launch.tensor_maps):
            tensor_map = self.m.launch.tensor_maps[number]
        else:
            which = ""
            if space is self.m.memory.param_space:
                known = [
                    (n, p)
                    for n, p in enumerate(self.m.program.parameters)
                    if p.offset <= at < p.offset + p.variable.size
                ]
                which = "".join(f", byte {at - p.offset} of parameter {n}" for n, p in known)
            what = f"there is no tensor map at generic address 0x{address:x}{which}: pass a ptxsim.TensorMap for it"
            raise self.fault(Kind.OTHER, what, lane)
        if address % 64:
            what = f"the tensor map at generic address 0x{address:x} is not aligned to 64 bytes"
            raise self.fault(Kind.ALIGNMENT, what, lane)
        if tensor_map.rank != dimensions:
            what = f"{dimensions} coordinates, but the tensor map of {tensor_map.name} has {tensor_map.rank} dimensions"
            raise self.fault(Kind.OTHER, what, lane)
        return tensor_map

    def _tensor(self) -> Step:
        """[to], [map, {coordinates}], [mbarrier](, mask of blocks)(, policy);
        or [map, {coordinates}], [from](, policy)."""
        dimensions = _dimensions(self.modifiers)
        self._require_spaces(*INTO_SHARED, OUT_OF_SHARED)
        if self.spaces in INTO_SHARED:
            return self._tensor_load(dimensions)
        return self._tensor_store(dimensions)

    def _tensor_load(self, dimensions: int) -> Step:
        destination, source, bar, *more = self.instruction.operands
        boxes = self._boxes(destination, "shared::cluster", self._maps(source, dimensions))
        signal = self._signal(bar)
        read_mask = self.m.operands.reader(more[0], U16) if self.multicast else None

        def step() -> None:
            copies = list(boxes("cp_async"))
            objects = signal()
            for lane, box, to, coordinates in copies:
                data = np.zeros((math.prod(box.box[:-1]), box.inner_bytes), np.uint8)
                part = self._inside(box, coordinates, lane)
                if part is not None:
                    access, unit, inside, first, end = part
                    self.m.events.bulk(access, unit, self.instruction, "ld")
                    data[inside, first:end] = (
                        access.load(unit).view(np.uint8).reshape(-1, end - first)
                    )
                words = data.view(np.uint64).reshape(-1, 2)
                parts = [np.ascontiguousarray(words[:, i]) for i in range(2)]
                mask = None if read_mask is None else int(read_mask()[lane])
                self._deliver(lane, to, parts, box.bytes, objects[lane], mask, box.swizzle or PIECE)

        return step

    def _tensor_store(self, dimensions: int) -> Step:
        destination, source = self.instruction.operands[:2]
        boxes = self._boxes(source, "shared", self._maps(destination, dimensions))

        def step() -> None:
            for lane, box, taken, coordinates in boxes("cp_async_ld"):
                self.m.events.shared.boxes.box_stored(
                    taken, self.instruction, f"{'x'.join(map(str, box.box))} elements of {box.name}"
                )
                update = None
                if self.operation:
                    update = self._update(TYPES[REDUCED[box.dtype.name]])
                part = self._inside(
                    box,
                    coordinates,
                    lane,
                    box.item if self.operation else 8,
                    whole=not self.operation,
                )
                if part is None:
                    self.m.bulk_groups.add(Store(self.instruction, lane, taken))
                    continue
                access, unit, inside, first, end = part
                read, rows = self._read_inside(
                    taken, box, inside, first, box.bytes_inside(coordinates)
                )
                if beyond := end - first - rows.shape[1]:
                    rows = np.pad(rows, ((0, 0), (0, beyond)))
                data = [np.ascontiguousarray(rows).view(f"u{unit}").reshape(-1)]
                self._send(lane, read, access, data, unit, update)

        return step

    def _read_inside(
        self, taken: Pieces, box: tensor_maps.TensorMap, inside: np.ndarray, first: int, end: int
    ) -> tuple[Pieces, np.ndarray]:
        """Return what of a box in shared memory lies inside its tensor, bytes `first` to `end` of
        the rows that are `inside`: its access, checked, and its bytes [rows, end - first]. The rest
        of the box is not read.
        """
        unit = math.gcd(PIECE, first, end)
        raw = taken.where.raw.reshape(len(inside), -1)[inside]
        at = (
            (raw[:, :, None] + np.arange(0, PIECE, unit))
            .reshape(len(raw), -1)[:, first // unit : end // unit]
            .reshape(-1)
        )
        lane = int(np.asarray(taken.lanes)[0])
        origin = int(taken.where.flat[0] - taken.where.raw[0])
        space = taken.space
        read = Pieces(space, at + origin, at, lane)
        self.m.memory.require_valid(read, unit, unit, self.instruction, "cp_async_ld")
        self.m.events.shared.async_read(read, np.asarray(read.lanes), unit, self.instruction)
        step = min(unit, 8)
        data = np.stack([read.load(step, i) for i in range(unit // step)], axis=1)
        return read, data.view(np.uint8).reshape(len(raw), end - first)

    def _boxes(
        self, operand: Address, space_name: str, read_maps: ReadMaps
    ) -> Callable[[str], Iterator[Box]]:
        """Return a function that yields for each active thread its tensor map, the pieces of shared
        memory of its box, and the coordinates.
        """
        _, slot, offset = self.m.operands.address(operand, space_name)

        def each(kind: str) -> Iterator[Box]:
            lanes = self.m.state.acting_lanes().tolist()
            space, maps = self.m.memory.spaces[space_name], read_maps(lanes)
            where = space.addresses(self.m.state.registers[slot], self.m.state.mask_of(lanes))
            # A store reads what is inside.
            size = max(box.span for box, _ in maps) if kind == "cp_async" else PIECE
            self.m.memory.require_valid(
                Access(space, where, offset), size, PIECE, self.instruction, kind
            )
            starts = zip(
                lanes, (where.raw + offset).tolist(), (where.flat - where.raw).tolist(), strict=True
            )
            for (lane, raw, origin), (box, coordinates) in zip(starts, maps, strict=True):
                if raw % ALIGN:
                    what = (
                        f"misaligned box at {space.address_text(raw)}, "
                        f"which tensor copies take at multiples of {ALIGN} bytes"
                    )
                    raise self.fault(Kind.ALIGNMENT, what + self.m.diag.in_shared(raw), lane)
                if box.inner_bytes < box.swizzle:
                    self.m.diag.note(
                        f"{self.instruction.where}: rows of {box.inner_bytes} bytes with a swizzle of {box.swizzle}: "
                        f"taken as {box.swizzle} bytes apart in shared memory, which was not confirmed on a device"
                    )
                at = box.shared_offsets(raw).reshape(-1)
                yield lane, box, Pieces(space, at + origin, at, lane), coordinates

        return each

    def _inside(
        self,
        box: tensor_maps.TensorMap,
        coordinates: list[int],
        lane: int,
        max_bytes: int = 8,
        whole: bool = False,
    ) -> tuple[Pieces, int, np.ndarray, int, int] | None:
        """Return what of a box lies inside its tensor: an access of at most `max_bytes` each, that
        number, which rows, and the bytes of a row from and to; None where nothing does. `whole`:
        with all of the 16-byte piece in which a row ends, as an H200 stores it, with zeros beyond
        the row.
        """
        starts, inside, first, end = box.rows(coordinates)
        first, end = first * box.item, end * box.item
        if first == end or not inside.any():
            return None
        if whole:
            at = coordinates[-1] * box.item
            end = min(-(-(at + end) // 16) * 16 - at, box.inner_bytes)
        unit = math.gcd(max_bytes, coordinates[-1] * box.item % 16 or 16, first or 16, end)
        at = (starts[inside][:, None] - GLOBAL_BASE + np.arange(first, end, unit)).reshape(-1)
        access = Pieces(self.m.memory.spaces["global"], at, at, lane)
        if box.by_device:
            self.m.memory.require_valid(
                access, unit, unit, self.instruction, "cp_async" if whole else "cp_async_ld"
            )
        return access, unit, inside, first, end


def begin(m: Machine, copy: Copy, at: int, lane: int, size: int) -> None:
    """A copy of `size` bytes by a lane is on its way: it lands when somebody waits for the mbarrier
    at `at`.
    """

    def complete(state: State, index: int) -> None:
        state.bytes -= size

    def land() -> None:
        for number, values in enumerate(copy.data):
            copy.access.store(copy.size, values, number)
        m.events.shared.copy_lands(copy, None)
        m.phases.count(at, copy.instruction, -size)
        m.phases.change(copy.instruction, np.array([at]), np.array([lane]), complete)

    m.events.copy_begins(copy)
    m.phases.signal(at, land)


def _together(
    lanes: list[int], to: Pieces, size: int, objects: dict[int, int] | None
) -> Iterator[tuple[np.ndarray | slice, list[int]]]:
    """Which pieces, and of which threads, are copied together: those that signal one mbarrier,
    unless they overlap; without `objects` each thread's by themselves."""
    each = size // PIECE
    alone = objects is None or distinct(to.where.flat).size < len(to.where.flat)
    groups: dict[int, list[int]] = {}
    for number, lane in enumerate(lanes):
        groups.setdefault(number if alone or objects is None else objects[lane], []).append(number)
    for numbers in groups.values():
        which = (np.array(numbers)[:, None] * each + np.arange(each)).reshape(-1)
        yield which if len(groups) > 1 else slice(None), [lanes[number] for number in numbers]


# tensor maps


def _dimensions(modifiers: Modifiers) -> int:
    modifiers.flag("tile")
    return int((modifiers.one_of(f"{n}d" for n in range(1, 6)) or modifiers.reject("this mode"))[0])
