"""Tensor maps: what cp.async.bulk.tensor takes, in place of cuTensorMapEncodeTiled's CUtensorMap.

    a = ptxsim.Array(np.zeros((512, 256), np.float16), "A")
    kernel.launch(..., args=[ptxsim.TensorMap(a, box=(64, 64), swizzle=128), ...])

A parameter of 128 bytes takes one, and so does a pointer, which then points at the map in global
memory. Its bytes are the emulator's own: they name the map, wherever the kernel copies them. Those
of a map that the device makes or changes (tensormap.replace) hold its fields.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from ..errors import PtxsimError
from .arrays import Array

# A CUtensorMap has 128 bytes.
BYTES = 128
MAGIC = b"ptxsim tensormap"
SWIZZLES = {"none": 0, "0": 0, "32": 32, "64": 64, "128": 128}
FILLS = ("zeros",)
L2_PROMOTIONS = ("none", "64", "128", "256")
MAX_BOX, MAX_DIM, MAX_STRIDE = 256, 1 << 32, 1 << 40
TYPES = [np.dtype(t) for t in ["u1", "u2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"]] + [
    np.dtype(ml_dtypes.bfloat16)
]


class TensorMap:
    """A tensor in global memory, cut into boxes. Dimensions are listed as NumPy's shapes are, the
    innermost last (the lists of cuTensorMapEncodeTiled and the coordinates in PTX are the other way
    around).

    Args: array: holds the tensor; its address is the base, `offset` bytes further on. box: elements
        of a box along each dimension, 1 to 256. shape: elements of the tensor (default: of the
        array). strides: bytes from one element to the next along each dimension but the innermost
        (default: the array's, or densely packed where `shape` is given). dtype: of an element
        (default: the array's). 8-bit floats are copied as uint8. swizzle: "none", 32, 64 or 128
        bytes. interleave: "none" only. l2_promotion: "none", 64, 128 or 256 bytes: without an
        effect here. fill: what is read outside the tensor: "zeros" only. element_strides: 1 along
        each dimension only.

    Raises `PtxsimError`, one line, for what the driver refuses, or what is not emulated.

    >>> a = ptxsim.Array(np.zeros((512, 256), np.float16), "A")
    >>> ptxsim.TensorMap(a, box=(64, 64), swizzle=128)
    TensorMap('A', float16, (512, 256), box=(64, 64), swizzle=128)
    """

    def __init__(
        self,
        array: Array,
        box: Sequence[int],
        shape: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        dtype: np.typing.DTypeLike | None = None,
        swizzle: str | int = "none",
        interleave: str = "none",
        l2_promotion: str | int = "none",
        fill: str = "zeros",
        element_strides: Sequence[int] | None = None,
        offset: int = 0,
    ) -> None:
        self.array, self.name, self.offset = array, array.name, offset
        self.dtype = array.dtype if dtype is None else np.dtype(dtype)
        if self.dtype.itemsize == 1 and self.dtype.kind in "fV":
            # These are 8-bit floats.
            self.dtype = np.dtype(np.uint8)
        if self.dtype not in TYPES:
            known = ", ".join(str(t) for t in TYPES)
            raise self._refused(f"elements of {self.dtype}; a tensor map takes {known}")
        self.item = self.dtype.itemsize
        self.shape = tuple(int(n) for n in (array.shape if shape is None else shape))
        self.box = tuple(int(n) for n in box)
        self.rank = len(self.shape)
        if strides is None:
            item = array.dtype.itemsize if shape is None else self.item
            strides = [math.prod(self.shape[i + 1 :]) * item for i in range(self.rank - 1)]
        self.strides = tuple(int(n) for n in strides)
        self.swizzle = SWIZZLES.get(str(swizzle), -1)
        for name, value, allowed in (
            ("swizzle", swizzle, SWIZZLES),
            ("interleave", interleave, ("none",)),
            ("l2_promotion", l2_promotion, L2_PROMOTIONS),
            ("fill", fill, FILLS),
        ):
            if str(value) not in allowed:
                known = ", ".join(allowed)
                raise self._refused(f"{name} = {value!r} is not allowed; allowed: {known}")
        if any(int(n) != 1 for n in element_strides or ()):
            apart = tuple(element_strides or ())
            raise self._refused(f"element strides {apart} are not supported, only 1")
        self._require_encodable()
        self.inner_bytes = self.box[-1] * self.item
        # `bytes` and `span` are those of a box, the latter in shared memory.
        self.bytes = math.prod(self.box) * self.item
        # `pitch` leads from one row of a box to the next in shared memory.
        self.pitch = max(self.inner_bytes, self.swizzle)
        self.span = math.prod(self.box[:-1]) * self.pitch
        self.address = 0
        # `by_device` is true where the device made the map, so that nobody knows yet that it lies
        # in memory.
        self.by_device = False

    def _refused(self, what: str) -> PtxsimError:
        return PtxsimError(f"tensor map of {self.name}: {what}")

    def _require_encodable(self) -> None:
        """Check the requirements of cuTensorMapEncodeTiled."""
        if not 1 <= self.rank <= 5:
            raise self._refused(f"{self.rank} dimensions; allowed: 1 to 5")
        if len(self.box) != self.rank:
            raise self._refused(f"a box of {len(self.box)} dimensions for a tensor of {self.rank}")
        if len(self.strides) != self.rank - 1:
            needed = f"a tensor of {self.rank} dimensions has {self.rank - 1}"
            raise self._refused(f"{len(self.strides)} strides; {needed}")
        for sizes, what, maximum, label in (
            (self.shape, "a dimension of {} elements", MAX_DIM, "2^32"),
            (self.box, "a box of {} elements along a dimension", MAX_BOX, str(MAX_BOX)),
        ):
            for size in sizes:
                if not 1 <= size <= maximum:
                    raise self._refused(f"{what.format(size)}; allowed: 1 to {label}")
        inner = self.box[-1] * self.item
        row = f"a box of {inner} bytes along the innermost dimension"
        if inner % 16:
            raise self._refused(f"{row}; allowed: multiples of 16")
        if self.swizzle and inner > self.swizzle:
            raise self._refused(f"{row} is more than its swizzle of {self.swizzle}")
        for stride in self.strides:
            if stride % 16 or not 0 <= stride < MAX_STRIDE:
                allowed = "multiples of 16 from 0 to 2^40"
                raise self._refused(f"a stride of {stride} bytes; allowed: {allowed}")
        last = sum((n - 1) * s for n, s in zip(self.shape, (*self.strides, self.item), strict=True))
        end, size = self.offset + last + self.item, self.array.nbytes
        if self.offset < 0 or end > size:
            what = f"its last element ends {end} bytes behind its start"
            raise self._refused(f"{what}; the array has {size}")

    def place(self, address: int) -> None:
        """The array is at this address."""
        self.address = address + self.offset
        if self.address % 16:
            raise self._refused(f"its address 0x{self.address:x} is not aligned to 16 bytes")

    def rows(self, at: Sequence[int]) -> tuple[np.ndarray, np.ndarray, int, int]:
        """Return the rows of the box whose first element has these coordinates (the innermost
        last): for each its address in global memory, whether it is inside; and of all, the elements
        from and to which a row is inside.
        """
        starts = np.zeros(1, np.int64)
        inside = np.ones(1, bool)
        for first, length, size, stride in zip(
            at, self.box, self.shape, self.strides, strict=False
        ):
            index = first + np.arange(length, dtype=np.int64)
            starts = (starts[:, None] + index * stride).reshape(-1)
            inside = (inside[:, None] & (index >= 0) & (index < size)).reshape(-1)
        return self.address + starts + at[-1] * self.item, inside, *self._columns(at[-1])

    def _columns(self, first: int) -> tuple[int, int]:
        """Return the elements from and to which a row is inside that begins at this one of its
        dimension.
        """
        begin = min(max(0, -first), self.box[-1])
        return begin, max(min(self.box[-1], self.shape[-1] - first), begin)

    def bytes_inside(self, at: Sequence[int]) -> int:
        """Return where the tensor ends in a row of the box whose first element has these
        coordinates, in bytes of the row.
        """
        return self._columns(at[-1])[1] * self.item

    def shared_offsets(self, base: int) -> np.ndarray:
        """Return where the 16-byte pieces of a box lie, [rows, pieces], if it is at this address of
        shared memory.
        """
        rows = math.prod(self.box[:-1])
        at = base + np.arange(rows, dtype=np.int64)[:, None] * self.pitch
        return swizzled(at + np.arange(self.inner_bytes // 16, dtype=np.int64) * 16, self.swizzle)

    def numpy(self) -> np.ndarray:
        """Return the contents of the map's array, as the last launch left them."""
        return self.array.numpy()

    def __repr__(self) -> str:
        return f"TensorMap({self.name!r}, {self.dtype}, {self.shape}, box={self.box}, swizzle={self.swizzle})"


def swizzled(addresses: np.ndarray, swizzle: int) -> np.ndarray:
    """Return addresses in shared memory with a swizzle of 0, 32, 64 or 128 bytes: of a row of 128
    bytes, which 16-byte piece goes where depends on the row's place among 8.
    """
    pieces = swizzle // 16
    return addresses ^ ((addresses >> 7 & (pieces - 1)) << 4) if swizzle else addresses


def encoded(number: int) -> bytes:
    """Return the 128 bytes that stand for the map with this number in a launch."""
    return (MAGIC + number.to_bytes(8, "little")).ljust(BYTES, b"\0")


def decoded(raw: bytes) -> int | None:
    """Return the number of the map that bytes stand for; None: they are none."""
    return int.from_bytes(raw[16:24], "little") if raw[:16] == MAGIC else None


# In maps that the device makes, each field lies at an offset in the 128 bytes and has a size. The
# last four have one a dimension.

MADE = b"ptxsim made here"
FIELDS = {
    "global_address": (16, 8),
    # The field holds the rank less one.
    "rank": (24, 1),
    "elemtype": (25, 1),
    "interleave_layout": (26, 1),
    "swizzle_mode": (27, 1),
    "fill_mode": (28, 1),
    "box_dim": (32, 2),
    "element_stride": (42, 1),
    "global_dim": (48, 4),
    "global_stride": (72, 8),
}
# Ordinal 0 is the innermost dimension; strides begin with the next.
ORDINALS = ("box_dim", "element_stride", "global_dim", "global_stride")
MAX_RANK = 5
# PTX numbers types in this order (ISA 9.7.9.27.1.2).
ELEMENT_TYPES = [np.dtype(t) for t in ["u1", "u2", "u4", "i4", "u8", "i8", "f2", "f4", "f4", "f8"]]
ELEMENT_TYPES += [np.dtype(ml_dtypes.bfloat16), np.dtype("f4"), np.dtype("f4")]
SWIZZLE_MODES = (0, 32, 64, 128)


class _Memory:
    """Global memory, in place of the array that a map of the host is over."""

    name, nbytes = "memory", 1 << 62

    def numpy(self) -> np.ndarray:
        return np.zeros(0, np.uint8)


def field_at(name: str, ordinal: int) -> tuple[int, int]:
    """Return where a field lies in a map's bytes, and how many it has."""
    at, size = FIELDS[name]
    return at + ordinal * size, size


def fields_of(tensor_map: TensorMap) -> bytes:
    """Return a map of the host as the device may change it."""
    raw = bytearray(MADE.ljust(BYTES, b"\0"))

    def put(name: str, value: int, ordinal: int = 0) -> None:
        at, size = field_at(name, ordinal)
        raw[at : at + size] = value.to_bytes(size, "little")

    put("global_address", tensor_map.address)
    put("rank", tensor_map.rank - 1)
    put("elemtype", ELEMENT_TYPES.index(tensor_map.dtype))
    put("swizzle_mode", SWIZZLE_MODES.index(tensor_map.swizzle))
    for i in range(tensor_map.rank):
        put("box_dim", tensor_map.box[-1 - i], i)
        put("element_stride", 1, i)
        put("global_dim", tensor_map.shape[-1 - i] & 0xFFFFFFFF, i)
    for i in range(tensor_map.rank - 1):
        put("global_stride", tensor_map.strides[-1 - i], i)
    return bytes(raw)


def made_by_device(raw: bytes) -> TensorMap:
    """Return the map whose fields the device set.

    Raises `PtxsimError` for what cuTensorMapEncodeTiled would refuse.
    """

    def get(name: str, ordinal: int = 0) -> int:
        at, size = field_at(name, ordinal)
        return int.from_bytes(raw[at : at + size], "little")

    rank, kind, mode = get("rank") + 1, get("elemtype"), get("swizzle_mode")
    for name, value, known in (
        ("rank", rank, range(1, MAX_RANK + 1)),
        ("elemtype", kind, range(len(ELEMENT_TYPES))),
        ("swizzle_mode", mode, range(len(SWIZZLE_MODES))),
        ("interleave_layout", get("interleave_layout"), (0,)),
        ("fill_mode", get("fill_mode"), (0,)),
    ):
        if value not in known:
            raise PtxsimError(f"tensor map made by the device: {name} = {value} is not supported")
    axes = range(rank - 1, -1, -1)
    tensor_map = TensorMap(
        _Memory(),  # type: ignore[arg-type]  # nothing else of an array is asked for
        [get("box_dim", i) for i in axes],
        [get("global_dim", i) for i in axes],
        [get("global_stride", i) for i in axes if i < rank - 1],
        ELEMENT_TYPES[kind],
        swizzle=SWIZZLE_MODES[mode] or "none",
        element_strides=[get("element_stride", i) for i in axes],
    )
    tensor_map.place(get("global_address"))
    tensor_map.by_device = True
    return tensor_map
