"""Textures and surfaces over CUDA arrays: in one to three dimensions, layered, and cube maps.

    ptxsim.TextureArray(np.zeros((64, 96), np.float32), filter="linear", address="wrap", normalized=True)

Fetched as the CUDA programming guide's chapter on texture fetching says: coordinates, addressing,
and linear filtering with weights of 8 bits of fraction. How a device rounds the filtered sum is not
documented; mipmaps have one level.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import PtxsimError

ADDRESS = ("clamp", "border", "wrap", "mirror")
FILTERS = ("point", "linear")
READS = ("element", "normalized")
FACES = 6
# Weights of linear filtering are multiples of 1 / FRACTION.
FRACTION = 256


def as_fractions(whole: np.ndarray) -> np.ndarray:
    """Return what a texture that is read normalized gives for whole numbers: from -1 or 0 to 1."""
    maximum = np.float32(np.iinfo(whole.dtype).max)
    return np.maximum(whole.astype(np.float32) / maximum, np.float32(-1))


class TextureArray:
    """A CUDA array with how it is fetched, for a `cudaTextureObject_t` or a `cudaSurfaceObject_t`.

    Args: data: [layers,] [depth,] [height,] width [, components], as many of the sizes as `dims`;
        copied unless `view`. dims: 1, 2 or 3; left out, as many as the data has besides layers and
        components. components: of an element, 1, 2 or 4: where more than 1, the last dimension of
        the data. layered: the first dimension counts layers. cube: a cube map: the first dimension
        counts faces, six for each (with `layered`, six a layer). address: what coordinates outside
        mean: "clamp", "border" (zeros), "wrap" or "mirror" (normalized ones only); a sequence gives
        one for each of x, y and z. filter: "point" or "linear" (of floats, or whole numbers that
        are read normalized). normalized: coordinates from 0 to 1. read: "element", or "normalized":
        whole numbers of 8 or 16 bits as floats from 0 or -1 to 1. view: the data are not copied:
        they lie in memory that others write. name: in messages. No surface has rows with gaps between.

    `fetched` and `stored` become true with the first fetch and the first store. Where `unwritten`
    is set, nobody has written the data, and a fetch is a fault; so is each use of an array that was
    `freed`.

    Raises `PtxsimError`, one line, for what cannot be.
    """

    def __init__(
        self,
        data: np.ndarray,
        dims: int | None = None,
        components: int = 1,
        layered: bool = False,
        cube: bool = False,
        address: str | Sequence[str] = "clamp",
        filter: str = "point",
        normalized: bool = False,
        read: str = "element",
        name: str = "texture",
        view: bool = False,
    ) -> None:
        self.name, self._data = name, data if view else np.array(data, order="C")
        self.fetched = self.stored = self.unwritten = self.freed = False
        # A view lies in device memory between two addresses.
        self.memory: tuple[int, int] | None = None
        self.addresses = (address,) * 3 if isinstance(address, str) else tuple(address)
        modes = [("address", each, ADDRESS) for each in self.addresses]
        for what, value, known in (*modes, ("filter", filter, FILTERS), ("read", read, READS)):
            if value not in known:
                raise self._refused(
                    f"{what} = {value!r} is not allowed; allowed: {', '.join(known)}"
                )
        data_dims = self._data.ndim - (components > 1) - (layered or cube)
        self.dims = 2 if cube else data_dims if dims is None else dims
        if components not in (1, 2, 4) or (
            components > 1 and self._data.shape[-1:] != (components,)
        ):
            raise self._refused(
                f"components = {components} with data of shape {self._data.shape}; allowed: 1, 2, 4"
            )
        if self.dims != data_dims or not 1 <= self.dims <= 3 or not self._data.size:
            raise self._refused(
                f"data of shape {self._data.shape} have {data_dims} dimensions, not {self.dims} (1 to 3)"
            )
        if len(self.addresses) < self.dims:
            raise self._refused(
                f"address = {address!r} has {len(self.addresses)} modes for {self.dims} dimensions"
            )
        if not {"wrap", "mirror"}.isdisjoint(self.addresses) and not (normalized or cube):
            raise self._refused(f"address = {address!r} goes with normalized coordinates only")
        kind, bits = self._data.dtype.kind, 8 * self._data.dtype.itemsize
        if read == "normalized" and (kind not in "iu" or bits > 16):
            raise self._refused(
                f"read = 'normalized' takes whole numbers of 8 or 16 bits, not {self._data.dtype}"
            )
        if filter == "linear" and read == "element" and kind != "f":
            raise self._refused(
                f"filter = 'linear' takes floats, or read = 'normalized', not {self._data.dtype}"
            )
        if cube and self._data.shape[0] % FACES:
            raise self._refused(
                f"a cube map has {FACES} faces for each layer, not {self._data.shape[0]} in all"
            )
        self.components, self.layered, self.cube = components, layered or cube, cube
        self.linear = filter == "linear"
        self.normalized, self.read = normalized or cube, read

    def _refused(self, what: str) -> PtxsimError:
        return PtxsimError(f"texture array {self.name}: {what}")

    def numpy(self) -> np.ndarray:
        """Return the array's contents, with what surfaces wrote in the last launch."""
        return self._data

    def __repr__(self) -> str:
        return f"TextureArray({self.name!r}, {self._data.dtype}, {self._data.shape})"

    @property
    def elements(self) -> np.ndarray:
        """[layers, depth, height, width, components]; what is changed in it changes the array."""
        shape = self._data.shape[: self._data.ndim - (self.components > 1)]
        layers, sizes = (shape[0], shape[1:]) if self.layered else (1, shape)
        return self._data.reshape(layers, *(1,) * (3 - self.dims), *sizes, self.components)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the elements along x, y and z, of as many as it has."""
        return self.elements.shape[3:0:-1][: self.dims]

    def has(self, dims: int, layers: int) -> bool:
        """Return whether it has these dimensions, and layers or none; that of a single row is one."""
        one_row = dims == 1 and self.sizes[1:] == (1,)
        return (dims == self.dims or one_row) and bool(layers) == self.layered

    # fetches

    def fetch(self, coordinates: list[np.ndarray], layer: np.ndarray | None) -> np.ndarray:
        """Return elements [fetches, components] at coordinates along x, y and z (of a cube map a
        direction) in some layers; as they are, or in float32 where they are filtered or read
        normalized. Whole coordinates are indices.
        """
        coordinates, layer = (
            list(coordinates),
            np.zeros(len(coordinates[0]), np.int64) if layer is None else layer,
        )
        if self.cube:
            face, coordinates = _face(*(c.astype(np.float64) for c in coordinates))
            layer = layer * FACES + face
        elif len(coordinates) < self.dims:
            coordinates.append(np.full_like(coordinates[0], 0.5))
        layer = np.clip(layer.astype(np.int64), 0, len(self.elements) - 1)
        if coordinates[0].dtype.kind in "iu":
            return self._at([c.astype(np.int64) for c in coordinates], layer)
        points = [
            c.astype(np.float64) * (size if self.normalized else 1)
            for c, size in zip(coordinates, self.sizes, strict=True)
        ]
        points = [np.nan_to_num(p, nan=0.0, posinf=2.0**40, neginf=-(2.0**40)) for p in points]
        if not self.linear:
            return self._at([np.floor(p).astype(np.int64) for p in points], layer)
        total = np.zeros((len(layer), self.components))
        firsts = [np.floor(p - 0.5).astype(np.int64) for p in points]
        weights = [
            np.round((p - 0.5 - f) * FRACTION) / FRACTION
            for p, f in zip(points, firsts, strict=True)
        ]
        for corner in np.ndindex(*(2,) * self.dims):
            weight = np.prod(
                [w if up else 1 - w for w, up in zip(weights, corner, strict=True)], axis=0
            )
            index = [f + up for f, up in zip(firsts, corner, strict=True)]
            total += weight[:, None] * self._at(index, layer).astype(np.float64)
        return total.astype(np.float32)

    def _at(self, index: list[np.ndarray], layer: np.ndarray) -> np.ndarray:
        inside = np.ones(len(layer), bool)
        positions = []
        for i, size, address in zip(index, self.sizes, self.addresses, strict=False):
            if address == "wrap":
                position = i % size
            elif address == "mirror":
                position = np.where(i // size % 2, size - 1 - i % size, i % size)
            else:
                position = np.clip(i, 0, size - 1)
                inside &= (i == position) | (address == "clamp")
            positions.append(position)
        zeros = [np.zeros_like(layer)] * (3 - self.dims)
        texels = self.elements[(layer, *zeros, *reversed(positions))]
        texels = np.where(inside[:, None], texels, np.zeros((), texels.dtype))
        return as_fractions(texels) if self.read == "normalized" else texels

    # surfaces

    def bytes_at(
        self, coordinates: list[np.ndarray], layer: np.ndarray | None, size: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return where an access of `size` bytes begins in the array's bytes, x being in bytes; and
        whether it lies inside.
        """
        layers, depth, height, width, _ = self.elements.shape
        row = width * self.components * self._data.dtype.itemsize
        along = [c.astype(np.int64) for c in coordinates]
        x, y, z = (*along, *[np.zeros_like(along[0])] * (3 - len(along)))
        which = np.zeros_like(x) if layer is None else layer.astype(np.int64)
        inside = (x >= 0) & (x + size <= row) & (y >= 0) & (y < height) & (z >= 0) & (z < depth)
        inside &= (which >= 0) & (which < layers)
        return ((which * depth + z) * height + y) * row + x, inside

    @property
    def raw(self) -> np.ndarray:
        """Return its bytes; what is changed in them changes the array."""
        return self._data.reshape(-1).view(np.uint8)


def _face(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the face of a cube that a direction meets, and where, from 0 to 1."""
    a, b, c = np.abs(x), np.abs(y), np.abs(z)
    on_x, on_y = (a >= b) & (a >= c), (b >= c)
    major = np.where(on_x, x, np.where(on_y, y, z))
    face = np.where(on_x, 0, np.where(on_y, 2, 4)) + (major < 0)
    sign = np.where(major < 0, -1.0, 1.0)
    s = np.where(on_x, -sign * z, np.where(on_y, x, sign * x))
    t = np.where(~on_x & on_y, sign * z, -y)
    scale = np.where(major == 0, 1.0, np.abs(major))
    return face, [(s / scale + 1) / 2, (t / scale + 1) / 2]
