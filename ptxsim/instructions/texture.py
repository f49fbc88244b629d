"""Texture fetches and surfaces (PTX ISA 9.7.10, 9.7.11): of linear memory (tex1Dfetch), and of CUDA arrays.

A texture or surface object is a number that a `ptxsim.Texture` or `TextureArray` was given at launch. Of linear memory
an index outside gives zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import PtxError
from ..machine.texture_arrays import TextureArray
from ..ptx.syntax import Instruction, Vector
from ..ptx.types import TYPES
from .needs import Machine
from .registry import RESULT_VECTOR, RESULTS, TEXEL, VALUES, Modifiers, Step, effect, takes

S32, U32, U64, F32 = TYPES["s32"], TYPES["u32"], TYPES["u64"], TYPES["f32"]
GEOMETRIES = {"1d": (1, 0), "2d": (2, 0), "3d": (3, 0), "a1d": (1, 1), "a2d": (2, 1), "cube": (3, 0), "acube": (3, 1)}
MODES = ("trap", "clamp", "zero")

Coordinates = Callable[[np.ndarray], tuple[list[np.ndarray], np.ndarray | None]]  # of lanes: along x, y, z; layers


def _object(m: Machine, instruction: Instruction, address: Any) -> tuple[Callable[[], np.ndarray], tuple[Any, ...]]:
    """The numbers of the objects, and the coordinates."""
    index = address.index.items if isinstance(address.index, Vector) else (address.index,)
    return m.operands.reader(address.base, U64), tuple(index)


def _coordinates(
    m: Machine, instruction: Instruction, items: tuple[Any, ...], geometry: str, of_floats: bool
) -> Coordinates:
    dims, layered = GEOMETRIES[geometry]
    if len(items) < dims + layered:
        raise PtxError(f"{instruction.where}: {instruction.name} with {len(items)} coordinates")
    read_layer = m.operands.reader(items[0], U32) if layered else None
    readers = [m.operands.reader(item, F32 if of_floats else S32) for item in items[layered : layered + dims]]

    def read(lanes: np.ndarray) -> tuple[list[np.ndarray], np.ndarray | None]:
        layer = None if read_layer is None else np.broadcast_to(read_layer(), m.state.lanes)[lanes]
        return [np.broadcast_to(each(), m.state.lanes)[lanes] for each in readers], layer

    return read


def _of_each(
    m: Machine, instruction: Instruction, handles: np.ndarray, lanes: np.ndarray, geometry: str
) -> list[tuple[TextureArray, np.ndarray]]:
    """The arrays that threads mean, each with their places among these."""
    found = []
    for number in np.unique(handles).tolist():
        here = np.flatnonzero(handles == number)
        array = m.launch.textures.get(number)
        if array is None:
            raise m.diag.fault(instruction, f"0x{number:x} is not a texture or surface object", int(lanes[here[0]]))
        cube, kind = geometry.endswith("cube"), GEOMETRIES[geometry]
        if not isinstance(array, TextureArray) or array.cube != cube or (not cube and array.kind != kind):
            what = f"{instruction.name} of {array!r}, which is no texture of {geometry}"
            raise m.diag.fault(instruction, what, int(lanes[0]))
        found.append((array, here))
    return found


@effect("tex", takes(RESULT_VECTOR, TEXEL, optional=(VALUES, VALUES)))
def tex(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """tex: fetch four components (PTX ISA 9.7.10.3); of 1d with an index, out of linear memory or an array."""
    geometry = modifiers.one_of(GEOMETRIES)
    level = modifiers.one_of(("level", "grad"))
    if geometry is None or len(modifiers.types) != 2 or modifiers.types[1].name not in ("s32", "f32"):
        modifiers.reject("this geometry and types")
    modifiers.flag("v4")
    t, coordinate = modifiers.types
    destination, address = instruction.operands[:2]
    writers = [m.operands.writer(item, t) if item is not None else None for item in destination.items]
    handle, items = _object(m, instruction, address)
    read = _coordinates(m, instruction, items, geometry, coordinate.name == "f32")

    def step() -> None:
        lanes = m.state.acting_lanes()
        handles = np.broadcast_to(handle(), m.state.lanes)[lanes]
        results = [np.zeros(m.state.lanes, t.dtype) for _ in range(4)]
        linear = geometry == "1d" and coordinate.name == "s32" and not level
        of_memory = [n for n in np.unique(handles).tolist() if not isinstance(m.launch.textures.get(n), TextureArray)]
        if linear and of_memory:
            _of_memory(m, instruction, handles, lanes, read(lanes)[0][0].astype(np.int64), results, t.kind == "f")
        else:
            along, layer = read(lanes)
            for array, here in _of_each(m, instruction, handles, lanes, geometry):
                values = array.fetch([c[here] for c in along], None if layer is None else layer[here])
                if (values.dtype.kind == "f") != (t.kind == "f"):
                    what = f"{instruction.name} reads elements of {values.dtype} from {array!r}"
                    raise m.diag.fault(instruction, what, int(lanes[here[0]]))
                for channel in range(values.shape[1]):
                    results[channel][lanes[here]] = values[:, channel].astype(t.dtype)
                if values.shape[1] < 4 and t.kind == "f":
                    results[3][lanes[here]] = 1
        for write, value in zip(writers, results, strict=False):
            if write is not None:
                write(value)

    return step


def _of_memory(
    m: Machine,
    instruction: Instruction,
    handles: np.ndarray,
    lanes: np.ndarray,
    x: np.ndarray,
    results: list[np.ndarray],
    of_floats: bool,
) -> None:
    """Fetch elements of linear memory."""
    for number in np.unique(handles).tolist():
        texture = m.launch.textures.get(number)
        if texture is None or isinstance(texture, TextureArray):
            raise m.diag.fault(instruction, f"0x{number:x} is not a texture object of linear memory", int(lanes[0]))
        here = np.flatnonzero(handles == number)
        inside = here[(x[here] >= 0) & (x[here] < texture.elements)]
        raw = m.launch.arena.read(texture.address, texture.elements * texture.element_bytes)
        table = raw.view(texture.dtype).reshape(texture.elements, -1)
        for channel in range(table.shape[1]):
            results[channel][lanes[inside]] = table[x[inside], channel]
        if table.shape[1] < 4 and of_floats:
            results[3][lanes[here]] = 1
        m.events.fetched(instruction, texture, lanes, x)


def _surface(
    m: Machine, instruction: Instruction, modifiers: Modifiers, address: Any
) -> tuple[Callable[[], list[tuple[TextureArray, np.ndarray, np.ndarray, np.ndarray]]], int, int]:
    """A function: of each array its threads, where they begin in its bytes, and whether they lie inside; bytes of a
    component; components."""
    geometry, mode = modifiers.one_of(GEOMETRIES), modifiers.one_of(MODES, "trap")
    if not modifiers.flag("b") or geometry is None or geometry.endswith("cube"):
        modifiers.reject("this access of a surface")
    count = int(modifiers.one_of(("v2", "v4"), "v1")[1])
    size = modifiers.type.bytes
    modifiers.drop(("ca", "cg", "cs", "cv", "wb", "wt"))
    handle, items = _object(m, instruction, address)
    read = _coordinates(m, instruction, items, geometry, False)

    def at() -> list[tuple[TextureArray, np.ndarray, np.ndarray, np.ndarray]]:
        lanes = m.state.acting_lanes()
        along, layer = read(lanes)
        found = []
        for array, here in _of_each(m, instruction, np.broadcast_to(handle(), m.state.lanes)[lanes], lanes, geometry):
            own, which = [c[here] for c in along], None if layer is None else layer[here]
            places, inside = array.bytes_at(own, which, size * count)
            if mode == "trap" and not inside.all():
                bad = here[np.flatnonzero(~inside)[0]]
                where = ", ".join(str(int(c[bad])) for c in along)
                what = f"out-of-bounds surface access of {size * count} bytes at ({where}), x in bytes, of {array!r}"
                raise m.diag.fault(instruction, what, int(lanes[bad]))
            if mode == "clamp" and not inside.all():
                _, depth, height, width, components = array.elements.shape
                row = width * components * array.elements.itemsize
                ends = (row - size * count, height - 1, depth - 1)
                own = [np.clip(c.astype(np.int64), 0, end) for c, end in zip(own, ends, strict=False)]
                places, inside = array.bytes_at(own, which, size * count)
            found.append((array, lanes[here], places, inside))
        return found

    return at, size, count


@effect("suld", takes(RESULTS, TEXEL))
def suld(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """suld.b: load from a surface, x in bytes (PTX ISA 9.7.11.1); outside: a fault (.trap), the edge, or zeros."""
    destination, address = instruction.operands
    at, size, count = _surface(m, instruction, modifiers, address)
    items = destination.items if isinstance(destination, Vector) else (destination,)
    t = TYPES[f"b{8 * size}"]
    writers = [m.operands.writer(item, t) if item is not None else None for item in items]

    def step() -> None:
        results = [np.zeros(m.state.lanes, t.dtype) for _ in range(count)]
        for array, lanes, places, inside in at():
            for i, result in enumerate(results):
                raw = array.raw[(places[inside] + i * size)[:, None] + np.arange(size)]
                result[lanes[inside]] = np.ascontiguousarray(raw).view(t.dtype).reshape(-1)
        for write, result in zip(writers, results, strict=False):
            if write is not None:
                write(result)

    return step


@effect("sust", takes(TEXEL, VALUES))
def sust(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """sust.b: store to a surface, x in bytes (PTX ISA 9.7.11.2)."""
    address, source = instruction.operands
    at, size, count = _surface(m, instruction, modifiers, address)
    items = source.items if isinstance(source, Vector) else (source,)
    readers = [m.operands.reader(item, TYPES[f"b{8 * size}"]) for item in items]
    if len(readers) != count:
        raise PtxError(f"{instruction.where}: {instruction.name} takes {count} values")

    def step() -> None:
        values = [np.broadcast_to(read(), m.state.lanes) for read in readers]
        for array, lanes, places, inside in at():
            for i, value in enumerate(values):
                raw = np.ascontiguousarray(value[lanes[inside]]).view(np.uint8).reshape(-1, size)
                array.raw[(places[inside] + i * size)[:, None] + np.arange(size)] = raw

    return step
