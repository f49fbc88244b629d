"""Matrix products of cuBLAS, computed by NumPy on device memory."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ..engine.device_memory import DeviceMemory
from ..errors import PtxsimError
from ..machine import tensor_cores
from ..machine.memory import GLOBAL_BASE
from .options import Options
from .protocol import Error, Payload, Reply
from .reporter import Reporter

# These are bits of cublasLtEpilogue_t.
RELU, BIAS, GELU = 2, 4, 32
# A tensor core sums this many elements of k at a time.
STEP = 16
# Up to this many products, which take some 20 seconds, are rounded as tensor cores do.
MAX_ROUNDED = 1 << 31
# `TYPES` holds NumPy's types by cudaDataType_t.
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
    # Matrices of a batch are this many elements apart.
    stride: int


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
    # The epilogue is a cublasLtEpilogue_t.
    epilogue: int = 1
    # The bias is a column that is added to each column of D.
    bias: Matrix | None = None

    @property
    def instructions(self) -> int:
        """Return what the device's clock goes on by: those of a tiled kernel, which emulation runs
        2^20 elements at a time.
        """
        return self.batch * 80 * self.k * -(-self.m * self.n // (1 << 20))

    @staticmethod
    def read(payload: Payload) -> Gemm:
        call, m, n, k = payload.text(), payload.u64(), payload.u64(), payload.u64()
        ta, tb, batch = bool(payload.u32()), bool(payload.u32()), payload.u32()
        alpha, beta = payload.f64(), payload.f64()
        shapes = ((k, m) if ta else (m, k), (n, k) if tb else (k, n), (m, n), (m, n))

        def matrix(rows: int, columns: int) -> Matrix:
            address = payload.u64()
            kind = payload.u32()
            leading = payload.u64()
            stride = payload.u64()
            return Matrix(address, kind, rows, columns, leading, stride)

        a, b, c, d = (matrix(*shape) for shape in shapes)
        epilogue, address, kind = payload.u32(), payload.u64(), payload.u32()
        bias = Matrix(address, kind, m, 1, m, 0) if epilogue & BIAS else None
        return Gemm(call, m, n, k, (ta, tb), alpha, beta, a, b, c, d, batch, epilogue, bias)


def view(matrix: Matrix, number: int, memory: DeviceMemory, name: str) -> np.ndarray:
    """Return one matrix of a batch, rows by columns.

    Raises `PtxsimError` where it does not lie within an allocation.
    """
    if matrix.kind not in TYPES:
        raise PtxsimError(
            f"{name} has elements of type {matrix.kind} of cudaDataType_t, which is not supported"
        )
    dtype = np.dtype(TYPES[matrix.kind])
    if matrix.leading < matrix.rows:
        raise PtxsimError(
            f"the leading dimension of {name} is {matrix.leading}, less than its {matrix.rows} rows"
        )
    start = matrix.address + number * matrix.stride * dtype.itemsize
    count = (matrix.columns - 1) * matrix.leading + matrix.rows
    held = memory.holder(start)
    if held is None or start + count * dtype.itemsize > held.end:
        what = (
            "is in no allocation"
            if held is None
            else f"ends {start + count * dtype.itemsize - held.end} bytes past the end of {held.name}"
        )
        raise PtxsimError(
            f"out of bounds: {name} at 0x{start:x}, {matrix.rows} x {matrix.columns}, {what}"
        )
    at = start - GLOBAL_BASE
    flat = memory.whole[at : at + count * dtype.itemsize].view(dtype)
    return np.lib.stride_tricks.as_strided(
        flat, (matrix.rows, matrix.columns), (dtype.itemsize, matrix.leading * dtype.itemsize)
    )


def product(a: np.ndarray, b: np.ndarray, wide: Any) -> np.ndarray:
    """Return a B, summed in `wide`; of fp16 and bf16, which cuBLAS leaves to tensor cores, with
    their rounding of each step of k = 16, where that does not take too long."""
    name = {np.dtype(np.float16): "f16", np.dtype(ml_dtypes.bfloat16): "bf16"}.get(a.dtype)
    if name is None or a.dtype != b.dtype or a.size * b.shape[1] > MAX_ROUNDED:
        return a.astype(wide) @ b.astype(wide)
    left, right = a.astype(np.float64), np.ascontiguousarray(b.T.astype(np.float64))
    total = np.zeros((a.shape[0], b.shape[1]))
    for k in range(0, a.shape[1], STEP):
        total = tensor_cores.mma(
            left[:, k : k + STEP], right[:, k : k + STEP], total, (name, name), "f32"
        )
    return total.astype(wide)


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
            left, right = (a.T if work.transpose[0] else a), (b.T if work.transpose[1] else b)
            total = wide(work.alpha) * product(left, right, wide)
        if work.beta:
            total = total + wide(work.beta) * view(work.c, number, memory, "C").astype(wide)
        if work.bias is not None:
            total = total + view(work.bias, 0, memory, "the bias").astype(wide)
        if work.epilogue & RELU:
            total = np.maximum(total, 0)
        if work.epilogue & GELU:
            # cublasLt computes GELU by tanh.
            total = 0.5 * total * (1 + np.tanh(np.sqrt(2 / np.pi) * (total + 0.044715 * total**3)))
        d[...] = total.astype(d.dtype)
        for column in range(d.shape[1]) if work.d.leading > work.d.rows else (0,):
            width = d.shape[0] if work.d.leading > work.d.rows else d.size
            at = (
                work.d.address
                + (number * work.d.stride + column * work.d.leading) * d.dtype.itemsize
            )
            memory.written(at, width * d.dtype.itemsize)


class Library:
    """Answers calls of cuBLAS."""

    def __init__(self, memory: DeviceMemory, options: Options, reporter: Reporter) -> None:
        self.memory, self.options, self.reporter = memory, options, reporter

    def gemm(self, payload: Payload) -> Reply:
        """Answer GEMM; the reply says whether it failed."""
        began = time.perf_counter()
        work = Gemm.read(payload)
        try:
            self.memory.finish()
            compute(work, self.memory)
            self.memory.device.launched()
            self.memory.device.executed(work.instructions)
        except PtxsimError as error:
            self.reporter.report("api_error", f"{work.call}: {error}")
            return Reply().u32(Error.NONE).u32(1)
        if not self.options.quiet:
            seconds = time.perf_counter() - began
            self.reporter.say(
                f"{work.call}: {work.m} x {work.n} x {work.k}: {seconds:.2f} s, by NumPy, not emulated"
            )
        sizes = {"m": work.m, "n": work.n, "k": work.k, "batch": work.batch}
        self.reporter.record("library", {"call": work.call, **sizes})
        return Reply().u32(Error.NONE).u32(0)
