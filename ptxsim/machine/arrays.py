"""Buffers on the device, and textures over them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..ptx.sizes import require_memory


class Array:
    """A buffer on the device: copied there at a launch and back after it. `name`: in messages.
    `offset` bytes are before its data, for instance to try a pointer that is not aligned.
    `unwritten`: it counts as memory that nobody has written, whatever is in it, so that using
    an element that the launch has not written is a fault.

    >>> ptxsim.Array(np.zeros((2, 3), np.float32), "C")
    Array('C', float32, (2, 3))
    """

    def __init__(
        self, data: np.ndarray, name: str = "array", offset: int = 0, unwritten: bool = False
    ) -> None:
        self._data = np.array(data, order="C")
        self.name, self.offset, self.unwritten = name, offset, unwritten

    @property
    def shape(self) -> tuple[int, ...]:
        return self._data.shape

    @property
    def dtype(self) -> np.dtype:
        return self._data.dtype

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def blank(self) -> bool:
        """Return whether it holds zeros that no launch needs to copy."""
        return False

    def numpy(self) -> np.ndarray:
        """Return the array's contents, as the last launch left them."""
        return self._data

    def keep(self, raw: np.ndarray) -> None:
        """Take over the bytes that a launch left."""
        self._data = raw.view(self.dtype).reshape(self.shape)

    def __repr__(self) -> str:
        return f"Array({self.name!r}, {self.dtype}, {self.shape})"


class LazyArray(Array):
    """An array whose contents are made when they are asked for, as a launch that only counts may
    not do.

    `make` gives them, in `shape` and `dtype`; None: zeros, which take memory only where a kernel
    writes."""

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype,
        make: Callable[[], np.ndarray] | None,
        name: str,
        unwritten: bool = False,
    ) -> None:
        self._shape, self._dtype, self._make = shape, dtype, make
        self._made: np.ndarray | None = None
        self.name, self.offset, self.unwritten = name, 0, unwritten

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> np.dtype:
        return self._dtype

    @property
    def blank(self) -> bool:
        return self._make is None and self._made is None

    def numpy(self) -> np.ndarray:
        """See `Array.numpy`. Raises `PtxsimError` where there is no memory for the contents."""
        if self._made is None:
            if self._make is not None:
                # A wider type is made first, and placed in a launch later.
                sizes = "x".join(map(str, self.shape))
                require_memory(
                    f"an array of {self.dtype} {sizes}", math.prod(self.shape) * 8 + 3 * self.nbytes
                )
            self._made = np.zeros(self.shape, self.dtype) if self._make is None else self._make()
        return self._made

    def keep(self, raw: np.ndarray) -> None:
        self._made = raw.view(self.dtype).reshape(self.shape)


class Texture:
    """A texture object over linear memory: elements of one to four components, fetched by
    tex1Dfetch.

    CUDA wants such memory aligned to CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512 bytes on today's
    devices: with `align` it begins at the last multiple of so many bytes at or before the array, as
    a host would let it. It ends `nbytes` after the array's start; None: with the array."""

    def __init__(
        self, array: Array, components: int = 4, align: int = 1, nbytes: int | None = None
    ) -> None:
        self.array, self.components, self.align = array, components, align
        self.dtype, self.read_normalized = array.dtype, False
        self.element_bytes = array.dtype.itemsize * components
        self.nbytes = array.nbytes if nbytes is None else nbytes
        self.place(0)

    def __repr__(self) -> str:
        return f"Texture({self.array!r}, {self.components})"

    def place(self, address: int) -> None:
        """The array is at this address."""
        before = address % self.align
        self.address, self.elements = address - before, (before + self.nbytes) // self.element_bytes
