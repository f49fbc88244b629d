"""Buffers on the device, and textures over them."""

from __future__ import annotations

import numpy as np


class Array:
    """A buffer on the device: copied there at a launch and back after it. `offset` bytes are before its data, for
    instance to try a pointer that is not aligned. `unwritten`: it counts as memory that nobody has written, whatever is
    in it, so that the first read of an element that the launch has not written is a fault."""

    def __init__(self, data: np.ndarray, name: str = "array", offset: int = 0, unwritten: bool = False) -> None:
        self._data = np.array(data, order="C")
        self.name, self.offset, self.unwritten = name, offset, unwritten

    @property
    def nbytes(self) -> int:
        return self._data.nbytes

    def numpy(self) -> np.ndarray:
        """Return the array's contents, as the last launch left them."""
        return self._data

    def __repr__(self) -> str:
        return f"Array({self.name!r}, {self._data.dtype}, {self._data.shape})"


class Texture:
    """A texture object over linear memory: elements of one to four components, fetched by tex1Dfetch.

    CUDA wants such memory aligned to CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512 bytes on today's devices: with `align`
    it begins at the last multiple of so many bytes at or before the array, as a host would let it. It ends `nbytes`
    after the array's start; None: with the array."""

    def __init__(self, array: Array, components: int = 4, align: int = 1, nbytes: int | None = None) -> None:
        self.array, self.components, self.align = array, components, align
        data = array.numpy()
        self.dtype = data.dtype
        self.element_bytes = data.dtype.itemsize * components
        self.nbytes = data.nbytes if nbytes is None else nbytes
        self.place(0)

    def __repr__(self) -> str:
        return f"Texture({self.array!r}, {self.components})"

    def place(self, address: int) -> None:
        """The array is at this address."""
        before = address % self.align
        self.address, self.elements = address - before, (before + self.nbytes) // self.element_bytes
