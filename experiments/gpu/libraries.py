"""The libraries that kernels are compared with: cuBLAS, torch.matmul and Triton, bound like a
catalogue kernel.

cuBLAS is called through its C interface, from the library that torch (or a CUDA toolkit) installed,
found by cuda.pathfinder. Through torch it would cost every measuring process seconds of import.
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
    """cublasGemmEx with its default heuristic, or the best of that and cublasLtMatmul; fp32
    accumulation.
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
        """For instance "13.1.0"."""
        number = ctypes.c_int()
        self._call("cublasGetVersion_v2", self._handle, ctypes.byref(number))
        value = number.value
        return f"{value // 10000}.{value // 100 % 100}.{value % 100}"

    def bind(self, problem: Problem, a: int, b: int, c: int) -> Call:
        """A call of cublasGemmEx for this problem. Row-major through column-major cuBLAS: C^T = B^T
        A^T, in which it finds B^T as it lies if B is row-major, and else transposes B."""
        if reason := self.entry.refusal(problem):
            raise UserError(reason)
        dtype = self.entry.types.ab  # and of C
        element, compute = dtype.cuda_type, dtype.cublas_compute
        p = problem
        alpha, beta = ctypes.c_float(p.alpha), ctypes.c_float(p.beta)
        i32, pointer = ctypes.c_int, ctypes.c_void_p
        arguments = (
            self._handle,
            i32(operation_of_b(p)),
            i32(CUBLAS_OP_N),
            i32(p.n),
            i32(p.m),
            i32(p.k),
            ctypes.byref(alpha),
            pointer(b),
            i32(element),
            i32(p.ldb),
            pointer(a),
            i32(element),
            i32(p.lda),
            ctypes.byref(beta),
            pointer(c),
            i32(element),
            i32(p.ldc),
            i32(compute),
            i32(CUBLAS_GEMM_DEFAULT),
        )
        gemm = self._library.cublasGemmEx

        def call(keep: tuple[Any, ...] = (alpha, beta)) -> None:
            if status := gemm(*arguments):
                raise UserError(f"cublasGemmEx failed with status {status}")

        return call

    def calls(self, problem: Problem, a: int, b: int, c: int) -> dict[str, Call]:
        """All that the library has for this problem, by name: "cublasGemmEx" (always),
        "cublasLtMatmul 1/8" and so on.

        The numbers are the places in the heuristic's list. What cuBLAS refuses to run is not among
        them, so all run once here.
        """
        return {GEMM_EX: self.bind(problem, a, b, c)} | _that_run(self._lt_calls(problem, a, b, c))

    def named(self, name: str, problem: Problem, a: int, b: int, c: int) -> Call | None:
        """See `FastestCall.named`; the others are not run."""
        return (
            self.bind(problem, a, b, c)
            if name == GEMM_EX
            else self._lt_calls(problem, a, b, c).get(name)
        )

    def _lt_calls(self, problem: Problem, a: int, b: int, c: int) -> dict[str, Call]:
        candidates = self.lt.candidates(problem, self.entry.types, a, b, c)
        return {
            f"cublasLtMatmul {place}/{len(candidates)}": call
            for place, call in enumerate(candidates, start=1)
        }


class CublasLtGemm(CublasGemm):
    """cublasLtMatmul alone, for cublasGemmEx takes no 8-bit floats. Their scale factors are 1, and
    sums are in fp32: CUBLASLT_MATMUL_DESC_FAST_ACCUM stays off, as it is by default."""

    def bind(self, problem: Problem, a: int, b: int, c: int) -> Call:
        """The first of its algorithms. Raises `UserError` where there is none."""
        return next(iter(self._lt_calls(problem, a, b, c).values()))

    def calls(self, problem: Problem, a: int, b: int, c: int) -> dict[str, Call]:
        """See `FastestCall.calls`."""
        if not (found := _that_run(self._lt_calls(problem, a, b, c))):
            raise UserError(f"{self.entry.name}: cublasLtMatmul refuses to run this problem")
        return found

    def _lt_calls(self, problem: Problem, a: int, b: int, c: int) -> dict[str, Call]:
        if reason := self.entry.refusal(problem, {"A": a, "B": b, "C": c}):
            raise UserError(reason)
        if not (found := super()._lt_calls(problem, a, b, c)):
            raise UserError(
                f"{self.entry.name}: this GPU's cublasLtMatmul has no algorithm for {self.entry.dtype}"
            )
        return found


def _that_run(calls: dict[str, Call]) -> dict[str, Call]:
    """The calls that the library does not refuse; each is run once."""
    found: dict[str, Call] = {}
    for name, call in calls.items():
        with contextlib.suppress(UserError):
            call()
            found[name] = call
    return found


def _loaded(name: str) -> ctypes.CDLL:
    """A library of NVIDIA's, by cuda.pathfinder's name for it."""
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    try:
        return ctypes.CDLL(load_nvidia_dynamic_lib(name).abs_path)
    except DynamicLibNotFoundError as error:
        raise UserError(
            f"no lib{name}: remedy: pip install torch (with CUDA), or a CUDA toolkit"
        ) from error


Gemm = CatalogueKernel | DispatchedGemm | CublasGemm | TorchGemm


def import_early(entry: Entry) -> None:
    """What takes seconds to import, and touches no GPU: for before a GPU is held."""
    if isinstance(entry, Baseline) and entry.library in ("torch", "triton"):
        import torch  # noqa: F401


def load_gemm(gpu: Gpu, entry: Entry) -> Gemm:
    """Whatever runs a catalogue entry; all have `bind(problem, a, b, c)`.

    Raises `UserError` without its library.
    """
    if isinstance(entry, Dispatcher) and entry.predicted:
        return DispatchedGemm(gpu, entry)
    if not isinstance(entry, Baseline):
        return CatalogueKernel(gpu, entry)
    if reason := missing_libraries().get(entry.library):
        raise UserError(f"{entry.name} {reason}")
    if entry.library == "triton":
        # a kernel of Triton's needs Triton to be imported
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
    """The call that stands for `gemm` in measurements: the fastest that a library has, else
    `bind`'s.
    """
    if isinstance(gemm, FastestCall):
        return gemm.bind_fastest(problem, a, b, c, timed_by)
    return gemm.bind(problem, a, b, c)


def how_called(gemm: Gemm, problem: Problem) -> str | None:
    """Which of its calls stands for a library in measurements of this problem; None where there is
    no choice.
    """
    choice = gemm.choice(problem) if isinstance(gemm, FastestCall) else None
    return choice.call if choice else None
