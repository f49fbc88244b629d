"""Texture fetches and surfaces (PTX ISA 9.7.10, 9.7.11): of linear memory (tex1Dfetch), and of CUDA
arrays.

A texture or surface object is a number that a `ptxsim.Texture` or `TextureArray` was given at
launch. Of linear memory an index outside gives zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import Kind
from ..machine.texture_arrays import TextureArray, as_fractions
from ..ptx.syntax import Instruction, items_of
from ..ptx.types import TYPES
from .needs import Machine
from .registry import RESULT_VECTOR, RESULTS, TEXEL, VALUES, Modifiers, Step, effect, takes

S32, U32, U64, F32 = TYPES["s32"], TYPES["u32"], TYPES["u64"], TYPES["f32"]
GEOMETRIES = {
    "1d": (1, 0),
    "2d": (2, 0),
    "3d": (3, 0),
    "a1d": (1, 1),
    "a2d": (2, 1),
    "cube": (3, 0),
    "acube": (3, 1),
}
MODES = ("trap", "clamp", "zero")


class Objects:
    """The texture or surface objects that the threads of an instruction access, and where."""

    def __init__(
        self, m: Machine, instruction: Instruction, address: Any, geometry: str, of_floats: bool
    ) -> None:
        self.m, self.instruction, self.geometry = m, instruction, geometry
        self.handle = m.operands.reader(address.base, U64)
        items = items_of(address.index)
        dims, layered = GEOMETRIES[geometry]
        if len(items) < dims + layered:
            raise instruction.error(f"with {len(items)} coordinates")
        self.read_layer = m.operands.reader(items[0], U32) if layered else None
        self.readers = [
            m.operands.reader(item, F32 if of_floats else S32)
            for item in items[layered : layered + dims]
        ]

    def handles(self, lanes: np.ndarray) -> np.ndarray:
        return np.broadcast_to(self.handle(), self.m.state.lanes)[lanes]

    def coordinates(self, lanes: np.ndarray) -> tuple[list[np.ndarray], np.ndarray | None]:
        """Return the coordinates along x, y and z, and layers, of some lanes."""
        total = self.m.state.lanes
        layer = (
            None if self.read_layer is None else np.broadcast_to(self.read_layer(), total)[lanes]
        )
        return [np.broadcast_to(each(), total)[lanes] for each in self.readers], layer

    def arrays(self, lanes: np.ndarray) -> Iterator[tuple[TextureArray, np.ndarray]]:
        """Return the arrays that these lanes mean, each with its indices among these."""
        cube, kind = self.geometry.endswith("cube"), GEOMETRIES[self.geometry]
        handles = self.handles(lanes)
        for number in np.unique(handles).tolist():
            here = np.flatnonzero(handles == number)
            array, lane = self.m.launch.textures.get(number), int(lanes[here[0]])
            if array is None:
                what = f"0x{number:x} is not a texture or surface object"
                raise self.m.diag.fault(Kind.OTHER, self.instruction, what, lane)
            if isinstance(array, TextureArray) and array.freed:
                raise self.m.diag.fault(Kind.OTHER, self.instruction, f"{array!r} was freed", lane)
            if (
                not isinstance(array, TextureArray)
                or array.cube != cube
                or (not cube and not array.has(*kind))
            ):
                what = (
                    f"{self.instruction.name} of {array!r}, which is no texture of {self.geometry}"
                )
                raise self.m.diag.fault(Kind.OTHER, self.instruction, what, int(lanes[0]))
            yield array, here

    def fetch_memory(self, lanes: np.ndarray, results: list[np.ndarray]) -> None:
        """Fetch elements of linear memory by their index."""
        m, handles, x = self.m, self.handles(lanes), self.coordinates(lanes)[0][0].astype(np.int64)
        for number in np.unique(handles).tolist():
            texture = m.launch.textures.get(number)
            if texture is None or isinstance(texture, TextureArray):
                what = f"0x{number:x} is not a texture object of linear memory"
                raise m.diag.fault(Kind.OTHER, self.instruction, what, int(lanes[0]))
            here = np.flatnonzero(handles == number)
            inside = here[(x[here] >= 0) & (x[here] < texture.elements)]
            raw = m.launch.arena.read(texture.address, texture.elements * texture.element_bytes)
            table = raw.view(texture.dtype).reshape(texture.elements, -1)
            # Outside the texture, elements are zeros.
            rows = np.zeros((len(x), table.shape[1]), table.dtype)
            rows[inside] = table[x[inside]]
            read = as_fractions(rows) if texture.read_normalized else rows
            _put(results, lanes[here], read[here])
            m.events.fetched(self.instruction, texture, lanes, x)


@effect("tex", takes(RESULT_VECTOR, TEXEL, optional=(VALUES, VALUES)))
def tex(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """tex: fetch four components (PTX ISA 9.7.10.3); of 1d with an index, out of linear memory or
    an array.
    """
    geometry = modifiers.one_of(GEOMETRIES)
    level = modifiers.one_of(("level", "grad"))
    if (
        geometry is None
        or len(modifiers.types) != 2
        or modifiers.types[1].name not in ("s32", "f32")
    ):
        modifiers.reject("this geometry and types")
    modifiers.flag("v4")
    t, coordinate = modifiers.types
    destination, address = instruction.operands[:2]
    writers = [m.operands.writer(item, t) for item in destination.items]
    objects = Objects(m, instruction, address, geometry, coordinate.name == "f32")
    linear = geometry == "1d" and coordinate.name == "s32" and not level

    def step() -> None:
        lanes = m.state.acting_lanes()
        results = [np.zeros(m.state.lanes, t.dtype) for _ in range(4)]
        of_memory = [
            n
            for n in np.unique(objects.handles(lanes)).tolist()
            if not isinstance(m.launch.textures.get(n), TextureArray)
        ]
        if linear and of_memory:
            objects.fetch_memory(lanes, results)
        else:
            along, layer = objects.coordinates(lanes)
            for array, here in objects.arrays(lanes):
                _note_read(m, instruction, array, lanes[here])
                values = array.fetch(
                    [c[here] for c in along], None if layer is None else layer[here]
                )
                if (values.dtype.kind == "f") != (t.kind == "f"):
                    what = f"{instruction.name} reads elements of {values.dtype} from {array!r}"
                    raise m.diag.fault(Kind.OTHER, instruction, what, int(lanes[here[0]]))
                _put(results, lanes[here], values.astype(t.dtype))
        for write, value in zip(writers, results, strict=False):
            write(value)

    return step


def _note_read(
    m: Machine, instruction: Instruction, array: TextureArray, lanes: np.ndarray
) -> None:
    """Note that an array is read; report it where nobody wrote it."""
    array.fetched = True
    if array.unwritten and not array.stored and m.launch.checks.unwritten:
        what = f"read of global memory that nobody wrote ({array!r})"
        m.diag.report(Kind.UNWRITTEN, instruction, what, int(lanes[0]), len(lanes))


def _put(results: list[np.ndarray], lanes: np.ndarray, values: np.ndarray) -> None:
    """The components that some lanes fetch, of floats with 1 for the fourth where there are
    fewer.
    """
    for result, column in zip(results, values.T, strict=False):
        result[lanes] = column
    if values.shape[1] < 4 and results[3].dtype.kind == "f":
        results[3][lanes] = 1


def _surface(
    m: Machine, instruction: Instruction, modifiers: Modifiers, address: Any
) -> tuple[Callable[[], list[tuple[TextureArray, np.ndarray, np.ndarray, np.ndarray]]], int, int]:
    """Return a function that gives for each array its threads, where they begin in its bytes, and
    whether they lie inside; bytes of a component; components.
    """
    geometry, mode = modifiers.one_of(GEOMETRIES), modifiers.one_of(MODES, "trap")
    if not modifiers.flag("b") or geometry is None or geometry.endswith("cube"):
        modifiers.reject("this access of a surface")
    count = int(modifiers.one_of(("v2", "v4"), "v1")[1])
    size = modifiers.type.bytes
    modifiers.drop(("ca", "cg", "cs", "cv", "wb", "wt"))
    objects = Objects(m, instruction, address, geometry, of_floats=False)

    def at() -> list[tuple[TextureArray, np.ndarray, np.ndarray, np.ndarray]]:
        lanes = m.state.acting_lanes()
        along, layer = objects.coordinates(lanes)
        accesses = []
        for array, here in objects.arrays(lanes):
            xyz, which = [c[here] for c in along], None if layer is None else layer[here]
            offsets, inside = array.bytes_at(xyz, which, size * count)
            if mode == "trap" and not inside.all():
                bad = here[np.flatnonzero(~inside)[0]]
                where = ", ".join(str(int(c[bad])) for c in along)
                what = f"out-of-bounds surface access of {size * count} bytes at ({where}), x in bytes, of {array!r}"
                raise m.diag.fault(Kind.BOUNDS, instruction, what, int(lanes[bad]))
            if mode == "clamp" and not inside.all():
                _, depth, height, width, components = array.elements.shape
                row = width * components * array.elements.itemsize
                ends = (row - size * count, height - 1, depth - 1)
                xyz = [
                    np.clip(c.astype(np.int64), 0, end) for c, end in zip(xyz, ends, strict=False)
                ]
                offsets, inside = array.bytes_at(xyz, which, size * count)
            accesses.append((array, lanes[here], offsets, inside))
        return accesses

    return at, size, count


@effect("suld", takes(RESULTS, TEXEL))
def suld(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """suld.b: load from a surface, x in bytes (PTX ISA 9.7.11.1); outside: a fault (.trap), the
    edge, or zeros.
    """
    destination, address = instruction.operands
    at, size, count = _surface(m, instruction, modifiers, address)
    t = TYPES[f"b{8 * size}"]
    writers = [m.operands.writer(item, t) for item in items_of(destination)]

    def step() -> None:
        results = [np.zeros(m.state.lanes, t.dtype) for _ in range(count)]
        for array, lanes, offsets, inside in at():
            _note_read(m, instruction, array, lanes)
            for i, result in enumerate(results):
                raw = array.raw[(offsets[inside] + i * size)[:, None] + np.arange(size)]
                result[lanes[inside]] = np.ascontiguousarray(raw).view(t.dtype).reshape(-1)
        for write, result in zip(writers, results, strict=False):
            write(result)

    return step


@effect("sust", takes(TEXEL, VALUES))
def sust(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """sust.b: store to a surface, x in bytes (PTX ISA 9.7.11.2)."""
    address, source = instruction.operands
    at, size, count = _surface(m, instruction, modifiers, address)
    readers = [m.operands.reader(item, TYPES[f"b{8 * size}"]) for item in items_of(source)]
    if len(readers) != count:
        raise instruction.error(f"takes {count} values")

    def step() -> None:
        values = [np.broadcast_to(read(), m.state.lanes) for read in readers]
        for array, lanes, offsets, inside in at():
            array.stored = True
            for i, value in enumerate(values):
                raw = np.ascontiguousarray(value[lanes[inside]]).view(np.uint8).reshape(-1, size)
                array.raw[(offsets[inside] + i * size)[:, None] + np.arange(size)] = raw

    return step
