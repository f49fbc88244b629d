"""Calls cublasLtMatmul through ctypes: a call for each algorithm that its heuristic proposes.

Types and values are those of cublasLt.h; a test compiles that header, where it is, and compares.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from contracts import UserError
from contracts.dtypes import Types
from experiments.gpu.device import Gpu, Memory
from kernels.problem import Problem

WORKSPACE_BYTES = 32 * 2**20
MAX_CANDIDATES = 256  # The heuristic has never given so many.
MAX_ALIGNMENT = 256  # The heuristic makes no use of more.

CUDA_R_32F = 0  # library_types.h
CUBLAS_OP_N, CUBLAS_OP_T = 0, 1  # cublas_api.h
CUBLASLT_MATMUL_DESC_TRANSA = 3
CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1
CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3
CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5
CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6
CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7
CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2
CUBLASLT_REDUCTION_SCHEME_MASK = 7
CUBLAS_STATUS_NOT_SUPPORTED = 15


class MatmulAlgo(ctypes.Structure):
    """The struct cublasLtMatmulAlgo_t."""

    _fields_ = (("data", ctypes.c_uint64 * 8),)


class MatmulHeuristicResult(ctypes.Structure):
    """The struct cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algo", MatmulAlgo),
        ("workspaceSize", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("wavesCount", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


def reductions(types: Types) -> int:
    """Return the mask of how parts of a split k may be added: in fp32, as every kernel here adds.

    For a C of 16 bits the heuristic also has algorithms that add parts as they are stored.
    """
    whole, in_fp32 = CUBLASLT_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
    return whole if types.c.bytes == 4 else in_fp32


@dataclass(frozen=True)
class Operand:
    """A column-major matrix: what a row-major one is when it is read as its transpose."""

    address: int
    rows: int
    columns: int
    ld: int

    @property
    def alignment(self) -> int:
        """Return the alignment in bytes, as far as it matters."""
        return min(MAX_ALIGNMENT, self.address & -self.address) if self.address else MAX_ALIGNMENT


def operands(p: Problem, a: int, b: int, c: int) -> tuple[Operand, Operand, Operand]:
    """Return the factors and the result of C^T = B^T A^T, the first before `operation_of_b`."""
    addresses = {"B": b, "A": a, "C": c}
    first, second, result = (
        Operand(addresses[x], p.stored[x][1], p.stored[x][0], p.stored[x][2]) for x in addresses
    )
    return first, second, result


def operation_of_b(p: Problem) -> int:
    """Return what makes B^T of B as it lies; a row-major B reads as its transpose."""
    return CUBLAS_OP_N if p.b_layout == "row" else CUBLAS_OP_T


class CublasLt:
    """A handle of libcublasLt; all its calls run on one stream and share a workspace."""

    def __init__(self, gpu: Gpu, library: Any) -> None:
        """`library`: libcublasLt, loaded."""
        self._library = library
        self._stream = ctypes.c_void_p(int(gpu.stream.handle))
        self._handle = ctypes.c_void_p()
        self._call("cublasLtCreate", ctypes.byref(self._handle))
        self._workspace = Memory(WORKSPACE_BYTES)

    def _call(self, name: str, *arguments: Any) -> None:
        if status := getattr(self._library, name)(*arguments):
            raise UserError(f"{name} failed with status {status}")

    def candidates(
        self, p: Problem, types: Types, a: int, b: int, c: int
    ) -> list[Callable[[], None]]:
        """Return a call for each algorithm that the heuristic gives, in its order.

        A call raises `UserError` where cublasLtMatmul does not take it.
        """
        described = _Described(self._library, self._call, p, types, operands(p, a, b, c))
        return [self._bound(described, p, result) for result in self._heuristic(described)]

    def _heuristic(self, described: _Described) -> Sequence[MatmulHeuristicResult]:
        results, count = (MatmulHeuristicResult * MAX_CANDIDATES)(), ctypes.c_int()
        first, second, output = described.layouts
        layouts = (described.operation, first, second, output, output, described.preference)
        limits = (ctypes.c_int(MAX_CANDIDATES), results, ctypes.byref(count))
        status = self._library.cublasLtMatmulAlgoGetHeuristic(self._handle, *layouts, *limits)
        if status == CUBLAS_STATUS_NOT_SUPPORTED:
            return []
        if status:
            raise UserError(f"cublasLtMatmulAlgoGetHeuristic failed with status {status}")
        return [result for result in results[: count.value] if result.state == 0]

    def _bound(
        self, described: _Described, p: Problem, result: MatmulHeuristicResult
    ) -> Callable[[], None]:
        matmul, algorithm = self._library.cublasLtMatmul, MatmulAlgo.from_buffer_copy(result.algo)
        alpha, beta = ctypes.c_float(p.alpha), ctypes.c_float(p.beta)
        first, second, output = (
            (ctypes.c_void_p(operand.address), layout)
            for operand, layout in zip(described.operands, described.layouts, strict=True)
        )
        factors = (ctypes.byref(alpha), *first, *second, ctypes.byref(beta), *output, *output)
        workspace = ctypes.c_void_p(self._workspace.address), ctypes.c_size_t(WORKSPACE_BYTES)
        problem = (self._handle, described.operation, *factors)
        arguments = (*problem, ctypes.byref(algorithm), *workspace, self._stream)

        # What the arguments point to lives as long as the call.
        def call(keep: Any = (self, described)) -> None:
            if status := matmul(*arguments):
                raise UserError(f"cublasLtMatmul failed with status {status}")

        return call


class _Described:
    """A problem in cublasLt's descriptors, destroyed with this."""

    def __init__(
        self,
        library: Any,
        call: Callable[..., None],
        p: Problem,
        types: Types,
        matrices: Sequence[Operand],
    ) -> None:
        self.operands = matrices
        self._library, self._made = library, list[tuple[str, ctypes.c_void_p]]()

        def make(kind: str, *arguments: Any) -> ctypes.c_void_p:
            handle = ctypes.c_void_p()
            call(f"cublasLt{kind}Create", ctypes.byref(handle), *arguments)
            self._made.append((f"cublasLt{kind}Destroy", handle))
            return handle

        c_int, u32, u64 = ctypes.c_int, ctypes.c_uint32, ctypes.c_uint64
        self.operation = make("MatmulDesc", c_int(types.ab.cublas_compute), c_int(CUDA_R_32F))
        self.preference = make("MatmulPreference")

        def set_attribute(kind: str, handle: ctypes.c_void_p, attribute: int, value: Any) -> None:
            size = ctypes.c_size_t(ctypes.sizeof(value))
            arguments = (handle, c_int(attribute), ctypes.byref(value), size)
            call(f"cublasLt{kind}SetAttribute", *arguments)

        # The first factor is transposed where B is column-major.
        if (of_b := operation_of_b(p)) != CUBLAS_OP_N:
            first = (self.operation, CUBLASLT_MATMUL_DESC_TRANSA)
            set_attribute("MatmulDesc", *first, ctypes.c_int32(of_b))
        # Each matrix has its layout.
        self.layouts = []
        for x, dtype in zip(matrices, (types.ab, types.ab, types.c), strict=True):
            shape = u64(x.rows), u64(x.columns), ctypes.c_int64(x.ld)
            self.layouts.append(make("MatrixLayout", c_int(dtype.cuda_type), *shape))
        # The heuristic may use this workspace, these reductions and these alignments.
        first_bytes, second_bytes, output_bytes = (u32(x.alignment) for x in matrices)
        for attribute, value in (
            (CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, u64(WORKSPACE_BYTES)),
            (CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, u32(reductions(types))),
            (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, first_bytes),
            (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, second_bytes),
            (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, output_bytes),
            (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, output_bytes),
        ):
            set_attribute("MatmulPreference", self.preference, attribute, value)

    def __del__(self) -> None:
        for destroy, handle in getattr(self, "_made", []):
            getattr(self._library, destroy)(handle)
