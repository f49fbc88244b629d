"""Arrays of register values: their bits in another type, and new values merged with old ones."""

from __future__ import annotations

import numpy as np

from ..ptx.types import STORAGE, UNSIGNED
from . import floats

BOOL = np.dtype(bool)


def viewed(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the bits of `x` in another type: the lower ones, if it is narrower."""
    if x.dtype == dtype:
        return x
    if x.dtype.kind == "f":
        x = floats.canonical_bits(x)
    size = dtype.itemsize
    if x.dtype == BOOL or dtype == BOOL:
        return x.astype(dtype)
    if x.itemsize == size:
        return x.view(dtype)
    if x.itemsize > size:
        return x.astype(UNSIGNED[size]).view(dtype)
    return x.view(UNSIGNED[x.itemsize]).astype(UNSIGNED[size]).view(dtype)


def merged(mask: np.ndarray, value: np.ndarray, old: np.ndarray) -> np.ndarray:
    """New values where the mask holds, old ones elsewhere; with the bits kept where one side is not
    a float.
    """
    if old.dtype is not value.dtype:
        # The value is zero in any type, as at the start.
        if not old.strides[0] and old.dtype.kind == "u" and not old[0]:
            return np.where(mask, value, value.dtype.type(0))
        unsigned = STORAGE[8 * value.itemsize] if value.dtype != BOOL else BOOL
        value, old = viewed(value, unsigned), viewed(old, unsigned)
    return np.where(mask, value, old)


def distinct(x: np.ndarray) -> np.ndarray:
    """Return the different elements of `x`, in order: np.unique, which hashes integers, takes up to
    thirty times as long.
    """
    ordered = np.sort(x, axis=None)
    new = np.empty(ordered.size, bool)
    new[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def runs(marks: np.ndarray) -> np.ndarray:
    """Return where each stretch of marks that are set begins and ends, [stretches, 2]."""
    flips = np.flatnonzero(marks[1:] != marks[:-1]) + 1
    edges = np.concatenate([[0] if marks[0] else [], flips, [len(marks)] if marks[-1] else []])
    return edges.astype(np.int64).reshape(-1, 2)
