"""cuBLAS by ctypes without a GPU: its header's layouts, and the fastest call."""

from __future__ import annotations

import ctypes
import importlib.metadata
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import refused

from contracts import UserError
from contracts.dtypes import Types, dtypes
from experiments.gpu import cublaslt, discovery, fastest_call, libraries
from experiments.gpu.cublaslt import (
    CUBLAS_OP_T,
    CublasLt,
    MatmulAlgo,
    MatmulHeuristicResult,
    Operand,
    operands,
    operation_of_b,
    reductions,
)
from experiments.gpu.fastest_call import Choice
from experiments.gpu.libraries import CublasGemm
from kernels import catalogue
from kernels.problem import Problem

P = Problem(3, 5, 7, lda=8, ldb=16, ldc=24, alpha=2.0, beta=0.5)
VALUES = [name for name in vars(cublaslt) if name.startswith(("CUBLAS", "CUDA_R"))]


def test_the_layouts_and_values_are_those_of_the_header(tmp_path: Path) -> None:
    from cuda.pathfinder import find_nvidia_header_directory

    folders = [find_nvidia_header_directory(name) for name in ("cublas", "cudart")]
    if None in folders or not Path(folders[0], "cublasLt.h").is_file():
        pytest.skip("no cublasLt.h here: it comes with nvidia-cublas, or a CUDA toolkit")
    structs = {
        "cublasLtMatmulAlgo_t": MatmulAlgo,
        "cublasLtMatmulHeuristicResult_t": MatmulHeuristicResult,
    }
    constants: dict[str, int] = {name: getattr(cublaslt, name) for name in VALUES}
    for name, struct in structs.items():
        constants[f"sizeof({name})"] = ctypes.sizeof(struct)
        for field, *_ in struct._fields_:
            constants[f"offsetof({name}, {field})"] = getattr(struct, field).offset
    for dtype in dtypes().values():
        fast = "_FAST_TF32" if dtype.name == "tf32" else ""
        constants[f"CUBLAS_COMPUTE_32F{fast}"] = dtype.cublas_compute
    source = tmp_path / "layouts.cpp"
    lines = "\n".join(f"static_assert({name} == {value});" for name, value in constants.items())
    source.write_text(f"#include <cstddef>\n#include <cublasLt.h>\n{lines}\n")
    includes = [f"-I{folder}" for folder in folders]
    subprocess.run(["g++", "-fsyntax-only", *includes, str(source)], check=True)


def matrix(buffer: np.ndarray, rows: int, columns: int, ld: int) -> np.ndarray:
    """A row-major matrix."""
    return buffer[: rows * ld].reshape(rows, ld)[:, :columns]


def column_major(buffer: np.ndarray, x: Operand) -> np.ndarray:
    return matrix(buffer, x.columns, x.rows, x.ld).T


@pytest.mark.parametrize("b_layout", ["row", "column"])
def test_a_row_major_product_is_the_column_major_one_of_the_transposes(b_layout: str) -> None:
    """By NumPy on one flat buffer a matrix, with rows that are further apart than they are long."""
    p, rng = replace(P, b_layout=b_layout), np.random.default_rng(3)
    flat_a, flat_b = rng.standard_normal((2, 200))
    a = matrix(flat_a, 3, 7, 8)
    b = matrix(flat_b, 7, 5, 16) if b_layout == "row" else matrix(flat_b, 5, 7, 16).T
    first, second, result = operands(p, 256, 264, 272)
    factor = column_major(flat_b, first)
    transposed = operation_of_b(p) == CUBLAS_OP_T
    assert transposed == (b_layout == "column")
    product = (factor.T if transposed else factor) @ column_major(flat_a, second)
    assert np.allclose(product.T, a @ b) and (result.rows, result.columns, result.ld) == (5, 3, 24)
    placed = [(x.address, x.alignment) for x in (first, second, result)]
    assert placed == [(264, 8), (256, 256), (272, 16)]


@pytest.mark.parametrize(
    ("names", "mask"),
    [
        (("fp32", "tf32", "bf16_fp32", "fp8_e4m3_fp32"), 7),
        (("bf16", "fp16", "fp8_e4m3_bf16"), 2),
    ],
)
def test_parts_of_a_split_k_are_never_added_in_16_bits(names: tuple[str, ...], mask: int) -> None:
    assert {reductions(Types.named(name)) for name in names} == {mask}


class Library:
    """Stands in for libcublasLt: writes down calls, and gives three algorithms, of which the second
    is no good.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.living: set[int] = set()
        self.refused: set[int] = set()
        self.status = 0

    def __getattr__(self, name: str) -> Callable[..., int]:
        def function(*arguments: Any) -> int:
            self.calls.append((name, arguments))
            if name.endswith("Create"):
                arguments[0]._obj.value = len(self.calls)
                self.living.add(len(self.calls))
            if name.endswith("Destroy"):
                self.living.remove(arguments[0].value)
            if name == "cublasLtMatmulAlgoGetHeuristic":
                for place in range(3):
                    arguments[8][place].algo.data[0] = place
                    arguments[8][place].state = place % 2
                arguments[9]._obj.value = 3
                return self.status
            if name == "cublasLtMatmul":
                return 7 if arguments[12]._obj.data[0] in self.refused else 0
            return 0

        return function

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [arguments for called, arguments in self.calls if called == name]


@pytest.fixture
def lt(monkeypatch: pytest.MonkeyPatch) -> CublasLt:
    class Memory:
        def __init__(self, nbytes: int) -> None:
            self.nbytes, self.address = nbytes, 4096

    monkeypatch.setattr(cublaslt, "Memory", Memory)
    gpu = type("Gpu", (), {"stream": type("Stream", (), {"handle": 99})})
    return CublasLt(gpu, Library())  # type: ignore[arg-type]  # a stand-in


def test_each_algorithm_that_the_heuristic_gives_is_a_call(lt: CublasLt) -> None:
    library = lt._library
    calls = lt.candidates(P, Types.named("bf16"), 1024, 2048, 4096)
    assert len(calls) == 2
    for call in calls:
        call()
    first, second = library.of("cublasLtMatmul")
    assert [arguments[12]._obj.data[0] for arguments in (first, second)] == [0, 2]
    assert [first[place].value for place in (3, 5, 8, 10)] == [2048, 1024, 4096, 4096]
    assert (first[2]._obj.value, first[7]._obj.value) == (2.0, 0.5)
    assert (first[13].value, first[14].value, first[15].value) == (4096, 32 * 2**20, 99)
    made = library.of("cublasLtMatrixLayoutCreate")
    layouts = [[part.value for part in parts] for _, *parts in made]
    assert layouts == [[14, 5, 7, 16], [14, 7, 3, 8], [14, 5, 3, 24]]
    made = library.of("cublasLtMatmulPreferenceSetAttribute")
    preferences = {key.value: value._obj.value for _, key, value, _ in made}
    assert preferences == {1: 32 * 2**20, 3: 2, 5: 256, 6: 256, 7: 256, 8: 256}
    assert len(library.living) == 6
    del calls, call
    assert len(library.living) == 1, "descriptors are left behind"  # the handle's own


def test_what_cublaslt_refuses_is_reported(lt: CublasLt) -> None:
    library = lt._library
    library.refused = {2}
    good, bad = lt.candidates(P, Types.named("fp32"), 1024, 2048, 4096)
    good()
    with refused("cublasLtMatmul failed with status 7"):
        bad()
    library.status = 15
    assert lt.candidates(P, Types.named("fp32"), 1024, 2048, 4096) == []
    library.status = 14
    with refused("cublasLtMatmulAlgoGetHeuristic failed with status 14"):
        lt.candidates(P, Types.named("fp32"), 1024, 2048, 4096)


class Stub(CublasGemm):
    """cuBLAS without a library: GemmEx, an algorithm that is refused, and two that run, the second
    the fastest.
    """

    def __init__(self) -> None:
        fastest_call.FastestCall.__init__(self, None)  # type: ignore[arg-type]  # a stand-in has none
        self.entry = catalogue.load()["cublas_bf16"]  # type: ignore[assignment]
        self.ran: list[str] = []
        self.lt = self  # type: ignore[assignment]

    def bind(self, problem: Problem, a: int, b: int, c: int) -> Callable[[], None]:
        return lambda: self.ran.append("GemmEx")

    def candidates(self, *_: Any) -> list[Callable[[], None]]:
        def fails() -> None:
            raise UserError("cublasLtMatmul failed with status 7")

        return [fails, lambda: self.ran.append("slow"), lambda: self.ran.append("fast")]


def test_the_fastest_call_is_bound_and_reported_and_a_plain_bind_searches_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fastest_call, "warm_up", lambda *_, **__: 0.0)
    gemm, searches = Stub(), []

    def timed_by(_: Any, calls: list[Callable[[], None]]) -> np.ndarray:
        searches.append(len(calls))
        times = []
        for call in calls:
            call()
            times.append({"GemmEx": 2.0, "slow": 3.0, "fast": 1.99}[gemm.ran[-1]])
        return np.array(times)

    p = Problem.square(64)
    libraries.bind_for_timing(gemm, p, 0, 0, 0, timed_by)
    assert libraries.how_called(gemm, p) == "cublasLtMatmul 3/3" and len(searches) == 2
    assert gemm.choice(p) == Choice("cublasLtMatmul 3/3", 3, 1.99, "cublasGemmEx", 2.0, True)
    gemm.ran.clear()
    libraries.bind_for_timing(gemm, p, 0, 0, 0, timed_by)()
    assert gemm.ran[-1] == "fast" and len(searches) == 2, "a problem bound again keeps its call"
    assert libraries.how_called(gemm, Problem.square(65)) is None
    gemm.bind(Problem.square(65), 0, 0, 0)()
    assert gemm.ran[-1] == "GemmEx" and len(searches) == 2


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("", "needs Triton, which is not installed; "),
        ("3.3.1", "needs Triton 3.4 or newer, but triton is 3.3.1; "),
        ("3.4.0", None),
        ("3.10.0+git1", None),
    ],
)
def test_a_baseline_without_its_library_is_refused_in_one_line(
    version: str, reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def installed(name: str) -> str:
        if not version:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", installed)
    assert bool(discovery.missing_libraries()) == bool(reason)
    if reason:
        entry: Any = catalogue.load()["triton_bf16"]
        with refused(f"^triton_bf16 {reason}.*$"):
            libraries.load_gemm(None, entry)  # type: ignore[arg-type]  # It gets no further.


def test_triton_refuses_what_tma_does_not_move() -> None:
    """A store by TMA would write beyond a row that is no whole 16 bytes."""
    entry, whole = catalogue.load()["triton_bf16"], Problem(257, 136, 65, lda=72, ldb=136, ldc=144)
    cannot = "triton_bf16 cannot take this problem: {}, but it must be a multiple of 8"
    assert entry.unsupported_reason(whole, dict.fromkeys("ABC", 4096)) is None
    assert entry.unsupported_reason(replace(whole, n=129)) == cannot.format("n = 129")
    odd = Problem(8, 8, 8, lda=8, ldb=12, ldc=8)
    assert entry.unsupported_reason(odd) == cannot.format("ldb = 12")
    assert catalogue.load()["triton_fp32"].unsupported_reason(odd) is None
    begins = entry.unsupported_reason(Problem.square(64), {"A": 4096, "B": 4098, "C": 4096})
    assert begins and begins.endswith("B begins 2 bytes past a multiple of 16, but it must not")
