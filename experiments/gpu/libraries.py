"""Binds cuBLAS, torch.matmul and Triton like a catalogue kernel, for comparison.

cuBLAS is called through its C interface, from the library that torch (or a CUDA toolkit) installed
and cuda.pathfinder finds. Through torch it would cost every measuring process seconds of import.
Where it is timed (`bind_for_timing`) it is the best that the library has: cublasGemmEx or one of
cublasLtMatmul's algorithms.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from typing import Any

from contracts import UserError
from experiments.gpu.cublaslt import CUBLAS_OP_N, CublasLt, operation_of_b
from experiments.gpu.device import CatalogueKernel, Gpu
from experiments.gpu.discovery import missing_libraries
from experiments.gpu.dispatched import DispatchedGemm
from experiments.gpu.fastest_call import Call, FastestCall, TimedBy, by_stopwatch
from experiments.gpu.torch_gemm import TorchGemm
from kernels.catalogue import Baseline, Dispatcher, Entry, Problem

GEMM_EX = "cublasGemmEx"
CUBLAS_GEMM_DEFAULT = -1  # cublas_api.h


class CublasGemm(FastestCall):
    """cublasGemmEx with its default heuristic, or the best of that and cublasLtMatmul.

    Sums are in fp32.
    """

    def __init__(self, gpu: Gpu, entry: Baseline) -> None:
        super().__init__(gpu)
        self._library, self.entry = _loaded("cublas"), entry
        self.lt = CublasLt(gpu, _loaded("cublasLt"))
        self._handle = ctypes.c_void_p()
        self._call("cublasCreate_v2", ctypes.byref(self._handle))
        self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(int(gpu.stream.handle)))

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise UserError(f"{name} failed with status {status}")

    @property
    def version(self) -> str:
        """Return the version, for instance "13.1.0"."""
        number = ctypes.c_int()
        self._call("cublasGetVersion_v2", self._handle, ctypes.byref(number))
        value = number.value
        return f"{value // 10000}.{value // 100 % 100}.{value % 100}"

    def bind(self, problem: Problem, a: int, b: int, c: int) -> Call:
        """Return a call of cublasGemmEx for this problem.

        Column-major cuBLAS computes C^T = B^T A^T. A row-major B is that B^T as it lies, and a
        column-major one is transposed.
        """
        if reason := self.entry.unsupported_reason(problem):
            raise UserError(reason)
        dtype, p = self.entry.types.ab, problem  # C is of A's type.
        alpha, beta = ctypes.c_float(p.alpha), ctypes.c_float(p.beta)
        first, second, output = (
            (ctypes.c_void_p(address), dtype.cuda_type, ld)
            for address, ld in ((b, p.ldb), (a, p.lda), (c, p.ldc))
        )
        shape = (operation_of_b(p), CUBLAS_OP_N, p.n, p.m, p.k)
        factors = (ctypes.byref(alpha), *first, *second, ctypes.byref(beta), *output)
        arguments = (self._handle, *shape, *factors, dtype.cublas_compute, CUBLAS_GEMM_DEFAULT)
        gemm = self._library.cublasGemmEx

        def call(keep: tuple[Any, ...] = (alpha, beta)) -> None:
            if status := gemm(*arguments):
                raise UserError(f"cublasGemmEx failed with status {status}")

        return call

    def calls(self, problem: Problem, a: int, b: int, c: int) -> dict[str, Call]:
        """Return all that the library has for this problem, each run once.

        Names are "cublasGemmEx" (always) and "cublasLtMatmul 1/8", with the number in the
        heuristic's list. What cuBLAS refuses to run is not among them.
        """
        return {GEMM_EX: self.bind(problem, a, b, c)} | _that_run(self._lt_calls(problem, a, b, c))

    def named(self, name: str, problem: Problem, a: int, b: int, c: int) -> Call | None:
        """See `FastestCall.named`; the others are not run."""
        if name == GEMM_EX:
            return self.bind(problem, a, b, c)
        return self._lt_calls(problem, a, b, c).get(name)

    def _lt_calls(self, problem: Problem, a: int, b: int, c: int) -> dict[str, Call]:
        candidates = self.lt.candidates(problem, self.entry.types, a, b, c)
        return {
            f"cublasLtMatmul {number}/{len(candidates)}": call
            for number, call in enumerate(candidates, start=1)
        }


class CublasLtGemm(CublasGemm):
    """cublasLtMatmul alone, for cublasGemmEx takes no 8-bit floats.

    Scale factors are 1, and sums are in fp32: CUBLASLT_MATMUL_DESC_FAST_ACCUM stays off.
    """

    def bind(self, problem: Problem, a: int, b: int, c: int) -> Call:
        """Return the first of its algorithms. Raises `UserError` where there is none."""
        return next(iter(self._lt_calls(problem, a, b, c).values()))

    def calls(self, problem: Problem, a: int, b: int, c: int) -> dict[str, Call]:
        """See `FastestCall.calls`."""
        if not (calls := _that_run(self._lt_calls(problem, a, b, c))):
            raise UserError(f"{self.entry.name}: cublasLtMatmul refuses to run this problem")
        return calls

    def _lt_calls(self, problem: Problem, a: int, b: int, c: int) -> dict[str, Call]:
        if reason := self.entry.unsupported_reason(problem, {"A": a, "B": b, "C": c}):
            raise UserError(reason)
        if not (calls := super()._lt_calls(problem, a, b, c)):
            raise UserError(
                f"{self.entry.name}: this GPU's cublasLtMatmul has no algorithm for {self.entry.dtype}"
            )
        return calls


def _that_run(calls: dict[str, Call]) -> dict[str, Call]:
    """Run each call once; return those that the library does not refuse."""
    accepted: dict[str, Call] = {}
    for name, call in calls.items():
        with contextlib.suppress(UserError):
            call()
            accepted[name] = call
    return accepted


def _loaded(name: str) -> ctypes.CDLL:
    """Load a library of NVIDIA's by cuda.pathfinder's name for it."""
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    try:
        return ctypes.CDLL(load_nvidia_dynamic_lib(name).abs_path)
    except DynamicLibNotFoundError as error:
        raise UserError(
            f"no lib{name}: remedy: pip install torch (with CUDA), or a CUDA toolkit"
        ) from error


Gemm = CatalogueKernel | DispatchedGemm | CublasGemm | TorchGemm


def import_early(entry: Entry) -> None:
    """Import what takes seconds and touches no GPU, before a GPU is held."""
    if isinstance(entry, Baseline) and entry.library in ("torch", "triton"):
        import torch  # noqa: F401


def load_gemm(gpu: Gpu, entry: Entry) -> Gemm:
    """Load what runs a catalogue entry by its `bind(problem, a, b, c)`.

    Raises `UserError` without its library.
    """
    if isinstance(entry, Dispatcher) and entry.predicted:
        return DispatchedGemm(gpu, entry)
    if not isinstance(entry, Baseline):
        return CatalogueKernel(gpu, entry)
    if reason := missing_libraries().get(entry.library):
        raise UserError(f"{entry.name} {reason}")
    if entry.library == "triton":
        # This module imports Triton.
        from experiments.gpu.triton_gemm import TritonGemm

        return TritonGemm(gpu, entry)
    known: dict[str, Callable[[Gpu, Baseline], Gemm]] = {
        "cublas": CublasGemm,
        "cublaslt": CublasLtGemm,
        "torch": TorchGemm,
    }
    return known[entry.library](gpu, entry)


def bind_for_timing(
    gemm: Gemm, problem: Problem, a: int, b: int, c: int, timed_by: TimedBy = by_stopwatch
) -> Call:
    """Return the call that stands for `gemm` in measurements: a library's fastest, else `bind`'s."""
    if isinstance(gemm, FastestCall):
        return gemm.bind_fastest(problem, a, b, c, timed_by)
    return gemm.bind(problem, a, b, c)


def how_called(gemm: Gemm, problem: Problem) -> str | None:
    """Return the name of the call that stands for a library; None where there is no choice."""
    choice = gemm.choice(problem) if isinstance(gemm, FastestCall) else None
    return choice.call if choice else None
