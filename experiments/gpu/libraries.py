"""The libraries that kernels are compared with: cuBLAS and torch.matmul, bound like a catalogue kernel.

cuBLAS is called through its C interface: one function, from the library that torch (or a CUDA toolkit) installed, found
by cuda.pathfinder. Through torch it would cost every measuring process seconds of import.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from contracts import UserError
from contracts.dtypes import dtypes
from experiments.gpu.device import CatalogueKernel, Gpu, words_at
from kernels.catalogue import Baseline, Entry, Problem

CUBLAS_OP_N, CUBLAS_GEMM_DEFAULT = 0, -1  # cublas_api.h


class CublasGemm:
    """cublasGemmEx with its default heuristic; fp32 accumulation."""

    def __init__(self, gpu: Gpu, entry: Baseline) -> None:
        from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

        try:
            self._library = ctypes.CDLL(load_nvidia_dynamic_lib("cublas").abs_path)
        except DynamicLibNotFoundError as error:
            raise UserError("no libcublas: remedy: pip install torch (with CUDA), or a CUDA toolkit") from error
        self.entry = entry
        self._handle = ctypes.c_void_p()
        self._call("cublasCreate_v2", ctypes.byref(self._handle))
        self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(int(gpu.stream.handle)))

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise UserError(f"{name} failed with status {status}")

    @property
    def version(self) -> str:
        """For instance "13.1.0"."""
        number = ctypes.c_int()
        self._call("cublasGetVersion_v2", self._handle, ctypes.byref(number))
        value = number.value
        return f"{value // 10000}.{value // 100 % 100}.{value % 100}"

    def bind(self, problem: Problem, a: int, b: int, c: int) -> Callable[[], None]:
        """A call for this problem. Row-major through column-major cuBLAS: C^T = B^T A^T."""
        if reason := self.entry.refusal(problem):
            raise UserError(reason)
        dtype = dtypes()[self.entry.dtype]
        element, compute = dtype.cuda_type, dtype.cublas_compute
        p = problem
        alpha, beta = ctypes.c_float(p.alpha), ctypes.c_float(p.beta)
        i32, pointer = ctypes.c_int, ctypes.c_void_p
        arguments = (
            self._handle, i32(CUBLAS_OP_N), i32(CUBLAS_OP_N), i32(p.n), i32(p.m), i32(p.k), ctypes.byref(alpha),
            pointer(b), i32(element), i32(p.ldb), pointer(a), i32(element), i32(p.lda), ctypes.byref(beta),
            pointer(c), i32(element), i32(p.ldc), i32(compute), i32(CUBLAS_GEMM_DEFAULT),
        )  # fmt: skip
        gemm = self._library.cublasGemmEx

        def call(keep: tuple[Any, ...] = (alpha, beta)) -> None:
            if status := gemm(*arguments):
                raise UserError(f"cublasGemmEx failed with status {status}")

        return call


class TorchGemm:
    """torch.matmul(A, B, out=C) on the harness's stream and memory."""

    def __init__(self, gpu: Gpu, entry: Baseline) -> None:
        import torch

        if not torch.cuda.is_available():
            raise UserError(f"{entry.name} needs a torch that is built for CUDA; this one is {torch.__version__}")
        self.torch, self.entry = torch, entry
        torch.backends.cuda.matmul.allow_tf32 = entry.dtype == "tf32"
        stream: Any = torch.cuda.ExternalStream  # torch gives its constructor no types
        torch.cuda.set_stream(stream(int(gpu.stream.handle)))

    def _matrix(self, address: int, rows: int, cols: int, ld: int) -> Any:
        torch = self.torch
        dtype = dtypes()[self.entry.dtype]
        words = words_at(address, rows, cols, ld, dtype.bytes)
        return torch.as_tensor(words, device="cuda").view(getattr(torch, dtype.numpy))

    def bind(self, problem: Problem, a: int, b: int, c: int) -> Callable[[], None]:
        """A call for this problem; alpha = 1 and beta = 0 only."""
        p = problem
        if (p.alpha, p.beta) != (1.0, 0.0):
            raise UserError(f"{self.entry.name} takes alpha = 1, beta = 0 only, not {p.alpha}, {p.beta}")
        left, right = self._matrix(a, p.m, p.k, p.lda), self._matrix(b, p.k, p.n, p.ldb)
        out = self._matrix(c, p.m, p.n, p.ldc)
        matmul = self.torch.matmul

        def call() -> None:
            matmul(left, right, out=out)

        return call


Gemm = CatalogueKernel | CublasGemm | TorchGemm


def import_early(entry: Entry) -> None:
    """What takes seconds to import, and touches no GPU: for before a GPU is leased."""
    if isinstance(entry, Baseline) and entry.library == "torch":
        import torch  # noqa: F401


def load_gemm(gpu: Gpu, entry: Entry) -> Gemm:
    """Whatever runs a catalogue entry; all have `bind(problem, a, b, c)`."""
    if isinstance(entry, Baseline):
        return CublasGemm(gpu, entry) if entry.library == "cublas" else TorchGemm(gpu, entry)
    return CatalogueKernel(gpu, entry)
