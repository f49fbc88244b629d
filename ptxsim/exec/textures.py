"""Textures and surfaces of a program: CUDA arrays that lie in device memory, without gaps between
their elements.
"""

from __future__ import annotations

import numpy as np

from ..engine.device_memory import DeviceMemory
from ..machine.memory import GLOBAL_BASE
from ..machine.texture_arrays import TextureArray
from .protocol import Payload
from .timeline import Spans

# `DTYPES` holds NumPy's types by CUarray_format.
DTYPES = {1: "u1", 2: "u2", 3: "u4", 8: "i1", 9: "i2", 10: "i4", 16: "f2", 32: "f4"}
# The index is the number of CUaddress_mode.
ADDRESS_MODES = ("wrap", "clamp", "mirror", "border")
# These are bits of an array's flags, with which its depth counts layers.
LAYERED, CUBE = 1, 4


def add(payload: Payload, memory: DeviceMemory) -> None:
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


def prepare(memory: DeviceMemory) -> None:
    """Begin a launch: nothing of it has used an array."""
    for array, (start, _) in _arrays(memory):
        array.fetched = array.stored = False
        array.unwritten = memory.blank(start)


def used(memory: DeviceMemory) -> tuple[Spans, Spans]:
    """Return the arrays that a launch fetched from, and those that it stored to, which count as
    written; as addresses, from and to."""
    fetched = [spans for array, spans in _arrays(memory) if array.fetched]
    stored = [spans for array, spans in _arrays(memory) if array.stored]
    for start, end in stored:
        memory.written(start, end - start)
    return np.array(fetched, np.int64).reshape(-1, 2), np.array(stored, np.int64).reshape(-1, 2)


def release(memory: DeviceMemory, start: int) -> None:
    """Release the textures and surfaces of an array whose memory is freed: they must not be used
    any more."""
    for array, (first, _) in _arrays(memory):
        array.freed = array.freed or first == start
