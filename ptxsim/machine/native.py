"""Loops in C for what NumPy takes long over: `native.c`, which setuptools builds where there is a C
compiler.

Without it, or with PTXSIM_NATIVE=0 in the environment, NumPy does the same, bit for bit, several
times slower."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

import numpy as np

POINTER, I64, I32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32


class Library:
    """The functions of native.c."""

    def __init__(self, path: Path) -> None:
        """Raises `OSError` or `AttributeError` where the file is another platform's, or another
        version's.
        """
        library = ctypes.CDLL(str(path))
        wide = "_wide" if library.ptxsim_wide() else ""
        self.multiply = getattr(library, f"ptxsim_multiply{wide}")
        self.multiply.argtypes = [*[POINTER] * 4, *[I64] * 4, POINTER, I32]
        self.fma_rows = getattr(library, f"ptxsim_fma_rows{wide}")
        self.fma_rows.argtypes, self.fma_rows.restype = [*[POINTER] * 5, I64, I64], None


def _load() -> Library | None:
    """Load the library next to this file; None where it is missing."""
    if os.environ.get("PTXSIM_NATIVE") != "0":
        for path in Path(__file__).parent.parent.glob("_native*"):
            with contextlib.suppress(OSError, AttributeError):
                return Library(path)
    return None


library = _load()


def _at(x: np.ndarray) -> int:
    return int(x.__array_interface__["data"][0])


def multiply(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, min_exponents: tuple[int, int, int], fraction: int
) -> np.ndarray | None:
    """Return the unrounded sums of `tensor_cores.multiply`, for float64 a [., m, k], b [., n, k]
    and c [., m, n]; `min_exponents`: of the normal numbers of their formats. None without the
    library.
    """
    if library is None:
        return None
    a, b, c = (np.ascontiguousarray(x, np.float64) for x in (a, b, c))
    out, bounds = np.empty_like(c), np.array(min_exponents, np.int32)
    count, m, k = a.shape
    failed = library.multiply(
        _at(a), _at(b), _at(c), _at(out), count, m, c.shape[2], k, _at(bounds), fraction
    )
    return None if failed else out


def fma_rows(factors: np.ndarray, left: np.ndarray, right: np.ndarray, c: np.ndarray) -> np.ndarray:
    """float32 products and sums, rounded once: row i of the result [rows, lanes] is
    factors[left[i]] * factors[right[i]] + c[i]. All arrays are contiguous: float32 and, of the
    indices, int32. Only with the library."""
    assert library is not None
    out = np.empty_like(c)
    library.fma_rows(_at(factors), _at(left), _at(right), _at(c), _at(out), *c.shape)
    return out
