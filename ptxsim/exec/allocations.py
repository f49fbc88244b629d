"""The device memory of a program: allocations, textures and tensor maps."""

from __future__ import annotations

import numpy as np

from ..engine.device_memory import DeviceMemory
from ..errors import PtxsimError
from ..machine.arrays import Array, Texture
from ..machine.memory import GLOBAL_BASE
from ..machine.tensor_maps import MAGIC, TensorMap
from ..machine.texture_arrays import TextureArray
from .host_order import HostOrder
from .protocol import MemoryKind, Payload, Reply
from .reporter import Reporter
from .timeline import HOST, Spans

# These follow the integers of CUtensorMapDataType; the last ones flush denormals or round to tf32.
WIDE = ("float16", "float32", "float64", "bfloat16", "float32", "float32", "float32")
MAP_TYPES = ("uint8", "uint16", "uint32", "int32", "uint64", "int64", *WIDE)
# `DTYPES` holds NumPy's types by CUarray_format.
DTYPES = {1: "u1", 2: "u2", 3: "u4", 8: "i1", 9: "i2", 10: "i4", 16: "f2", 32: "f4"}
# The index is the number of CUaddress_mode.
ADDRESS_MODES = ("wrap", "clamp", "mirror", "border")
# These are bits of an array's flags, with which its depth counts layers.
LAYERED, CUBE = 1, 4


class Allocations:
    """Answers messages about device memory."""

    def __init__(self, memory: DeviceMemory, order: HostOrder, reporter: Reporter) -> None:
        self.memory, self.order, self.reporter = memory, order, reporter

    def allocated(self, payload: Payload) -> None:
        """Answer ALLOCATED."""
        (address, size), kind = payload.u64s(2), MemoryKind(payload.u32())
        stream, of_stream = payload.u64(), payload.u32()
        name = f"allocation {len(self.reporter.allocations) + 1}"
        call = self.reporter.allocations[name] = payload.text(), payload.frames()
        of_host = kind in (MemoryKind.MANAGED, MemoryKind.HOST)
        self.memory.allocated(address, size, name, written=of_host)
        if of_host:
            self.order.of_host[address] = address + size
        if of_stream:
            self.order.lives(stream, address, call, "allocates")

    def freed(self, payload: Payload) -> None:
        """Answer FREED."""
        address, waited, stream, of_stream = (
            payload.u64(),
            payload.u32(),
            payload.u64(),
            payload.u32(),
        )
        if not waited:
            call = payload.text(), payload.frames()
            self.order.lives(stream if of_stream else HOST, address, call, "frees")
        self.order.of_host.pop(address, None)
        release_textures(self.memory, address)
        self.memory.release(address)

    def written(self, payload: Payload) -> None:
        """Answer WRITTEN: the host wrote rows of bytes."""
        self.memory.written(*payload.u64s(4))

    def texture(self, payload: Payload) -> None:
        """Answer TEXTURE: one of linear memory."""
        handle, address, size = payload.u64s(3)
        form, channels = payload.u32(), payload.u32()
        data = self.memory.whole[:0].view(DTYPES[form])
        made = Texture(Array(data, "texture"), channels, nbytes=size)
        made.address, made.read_normalized = address, bool(payload.u32())
        made.elements = size // made.element_bytes
        self.memory.textures[handle] = made

    def array_texture(self, payload: Payload) -> Reply:
        """Answer ARRAY_TEXTURE: a texture or surface of a CUDA array; the reply says why there can
        be none, or nothing.
        """
        try:
            add_texture(payload, self.memory)
        except PtxsimError as error:
            return Reply().text(str(error))
        return Reply().text("")

    def texture_gone(self, payload: Payload) -> None:
        """Answer TEXTURE_GONE."""
        self.memory.textures.pop(payload.u64(), None)

    def tensor_map(self, payload: Payload) -> None:
        """Answer TENSOR_MAP: one that `standins/driver.cpp` encoded in 128 bytes, of allocated
        memory.
        """
        raw = payload.take(128)
        assert raw[:16] == MAGIC
        number, address = (int.from_bytes(raw[at : at + 8], "little") for at in (16, 24))
        kind, rank, swizzle, _ = raw[32:36]
        box = [n + 1 for n in raw[36 : 36 + rank]]
        shape = [int(n) + 1 for n in np.frombuffer(raw, "u4", rank, 44)]
        strides = [int(n) for n in np.frombuffer(raw, "u8", rank - 1, 64)]
        held = self.memory.holder(address)
        try:
            if held is None:
                raise PtxsimError(
                    f"cuTensorMapEncodeTiled: the address 0x{address:x} is in no allocation"
                )
            view = Array(np.zeros(0, np.uint8), held.name)
            view._data = self.memory.whole[address - GLOBAL_BASE : held.end - GLOBAL_BASE]
            made = TensorMap(
                view, box[::-1], shape[::-1], strides[::-1], MAP_TYPES[kind], swizzle * 16
            )
        except PtxsimError as error:
            self.reporter.report("api_error", str(error))
            name = f"0x{address:x}" if held is None else held.name
            made = TensorMap(Array(np.zeros(16, np.uint8), name), (16,))
        made.address = address
        assert number == len(self.memory.tensor_maps)
        self.memory.tensor_maps.append(made)

    def note_leaks(self) -> None:
        """Note what was allocated and not freed, by the call and its place."""
        left: dict[str, list[int]] = {}
        for held in self.memory.live.values():
            if held.name in self.reporter.allocations:
                call = self.reporter.at_line(*self.reporter.allocations[held.name])
                left.setdefault(call, []).append(held.end - held.start)
        for call, sizes in left.items():
            self.reporter.once(
                f"not freed when the program ended: {sum(sizes):,} bytes of {call}, allocated {len(sizes)} times"
            )


# textures and surfaces: CUDA arrays that lie in device memory, without gaps between their elements


def add_texture(payload: Payload, memory: DeviceMemory) -> None:
    """Add the texture that an ARRAY_TEXTURE message describes.

    Raises `PtxsimError`, one line: there can be none.
    """
    handle, address, pitch, width, height, depth = (payload.u64() for _ in range(6))
    form, channels, flags = (payload.u32() for _ in range(3))
    modes = [ADDRESS_MODES[payload.u32() & 3] for _ in range(3)]
    linear, read_normalized, normalized = (bool(payload.u32()) for _ in range(3))
    if not normalized:
        # CUDA clamps such coordinates where they are to wrap.
        modes = ["clamp" if mode in ("wrap", "mirror") else mode for mode in modes]
    element = np.dtype(DTYPES[form])
    plane = pitch * max(1, height)
    sizes = [(depth, plane), (height, pitch), (width, element.itemsize * channels)]
    axes = [(size, stride) for size, stride in sizes if size] + [(channels, element.itemsize)] * (
        channels > 1
    )
    shape, strides = zip(*axes, strict=True)
    data: np.ndarray = np.ndarray(shape, element, memory.whole.data, address - GLOBAL_BASE, strides)
    held = memory.holder(address)
    made = TextureArray(
        data,
        components=channels,
        layered=bool(flags & LAYERED),
        cube=bool(flags & CUBE),
        address=modes,
        filter="linear" if linear else "point",
        normalized=normalized,
        read="normalized" if read_normalized else "element",
        name=f"0x{address:x}" if held is None else held.name,
        view=True,
    )
    made.memory = address, address + plane * max(1, depth)
    memory.textures[handle] = made


def _arrays(memory: DeviceMemory) -> list[tuple[TextureArray, tuple[int, int]]]:
    arrays = [t for t in memory.textures.values() if isinstance(t, TextureArray)]
    return [(t, t.memory) for t in arrays if t.memory is not None]


def prepare_textures(memory: DeviceMemory) -> None:
    """Begin a launch: nothing of it has used an array."""
    for array, (start, _) in _arrays(memory):
        array.fetched = array.stored = False
        array.unwritten = memory.blank(start)


def used_textures(memory: DeviceMemory) -> tuple[Spans, Spans]:
    """Return the arrays that a launch fetched from, and those that it stored to, which count as
    written; as addresses, from and to."""
    fetched = [spans for array, spans in _arrays(memory) if array.fetched]
    stored = [spans for array, spans in _arrays(memory) if array.stored]
    for start, end in stored:
        memory.written(start, end - start)
    return np.array(fetched, np.int64).reshape(-1, 2), np.array(stored, np.int64).reshape(-1, 2)


def release_textures(memory: DeviceMemory, start: int) -> None:
    """Release the textures and surfaces of an array whose memory is freed: they must not be used
    any more."""
    for array, (first, _) in _arrays(memory):
        array.freed = array.freed or first == start
