"""Matrix products of cuBLAS, computed by NumPy on device memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ..engine.device_memory import DeviceMemory
from ..errors import PtxsimError
from ..machine.memory import GLOBAL_BASE
from .protocol import Payload

# cudaDataType_t
TYPES: dict[int, Any] = {
    0: np.float32,
    1: np.float64,
    2: np.float16,
    3: np.int8,
    10: np.int32,
    14: ml_dtypes.bfloat16,
    28: ml_dtypes.float8_e4m3fn,
    29: ml_dtypes.float8_e5m2,
}


@dataclass
class Matrix:
    """Column-major, as cuBLAS has them: column j begins `leading` elements after column j - 1."""

    address: int
    kind: int
    rows: int
    columns: int
    leading: int
    stride: int  # elements from one of a batch to the next


@dataclass
class Gemm:
    """D = alpha op(A) op(B) + beta C for each of a batch."""

    call: str
    m: int
    n: int
    k: int
    transpose: tuple[bool, bool]
    alpha: float
    beta: float
    a: Matrix
    b: Matrix
    c: Matrix
    d: Matrix
    batch: int

    @staticmethod
    def read(payload: Payload) -> Gemm:
        call, m, n, k = payload.text(), payload.u64(), payload.u64(), payload.u64()
        ta, tb, batch = bool(payload.u32()), bool(payload.u32()), payload.u32()
        alpha, beta = payload.f64(), payload.f64()
        shapes = ((k, m) if ta else (m, k), (n, k) if tb else (k, n), (m, n), (m, n))

        def matrix(rows: int, columns: int) -> Matrix:
            address, kind, leading, stride = payload.u64(), payload.u32(), payload.u64(), payload.u64()
            return Matrix(address, kind, rows, columns, leading, stride)

        a, b, c, d = (matrix(*shape) for shape in shapes)
        return Gemm(call, m, n, k, (ta, tb), alpha, beta, a, b, c, d, batch)


def view(matrix: Matrix, number: int, memory: DeviceMemory, name: str) -> np.ndarray:
    """One matrix of a batch, rows by columns. Raises `PtxsimError` where it does not lie within an allocation."""
    if matrix.kind not in TYPES:
        raise PtxsimError(f"{name} has elements of type {matrix.kind} of cudaDataType_t, which is not supported")
    dtype = np.dtype(TYPES[matrix.kind])
    if matrix.leading < matrix.rows:
        raise PtxsimError(f"the leading dimension of {name} is {matrix.leading}, less than its {matrix.rows} rows")
    start = matrix.address + number * matrix.stride * dtype.itemsize
    count = (matrix.columns - 1) * matrix.leading + matrix.rows
    held = memory.holder(start)
    if held is None or start + count * dtype.itemsize > held.end:
        what = (
            "is in no allocation"
            if held is None
            else f"ends {start + count * dtype.itemsize - held.end} bytes past the end of {held.name}"
        )
        raise PtxsimError(f"out of bounds: {name} at 0x{start:x}, {matrix.rows} x {matrix.columns}, {what}")
    at = start - GLOBAL_BASE
    flat = memory.whole[at : at + count * dtype.itemsize].view(dtype)
    return np.lib.stride_tricks.as_strided(
        flat, (matrix.rows, matrix.columns), (dtype.itemsize, matrix.leading * dtype.itemsize)
    )


def compute(work: Gemm, memory: DeviceMemory) -> None:
    """Write D. Sums are in float64 for doubles, in int32 for int8, else in float32."""
    if not (work.m and work.n):
        return
    for number in range(work.batch):
        d = view(work.d, number, memory, "D" if work.d.address != work.c.address else "C")
        exact = d.dtype == np.float64
        wide: Any = np.float64 if exact or d.dtype == np.int32 else np.float32
        total = np.zeros(d.shape, wide)
        if work.alpha and work.k:
            a, b = view(work.a, number, memory, "A"), view(work.b, number, memory, "B")
            left = (a.T if work.transpose[0] else a).astype(wide)
            right = (b.T if work.transpose[1] else b).astype(wide)
            total = wide(work.alpha) * (left @ right)
        if work.beta:
            total = total + wide(work.beta) * view(work.c, number, memory, "C").astype(wide)
        d[...] = total.astype(d.dtype)
        for column in range(d.shape[1]) if work.d.leading > work.d.rows else (0,):
            width = d.shape[0] if work.d.leading > work.d.rows else d.size
            at = work.d.address + (number * work.d.stride + column * work.d.leading) * d.dtype.itemsize
            memory.written(at, width * d.dtype.itemsize)
