"""A library's kernels: the longest of a call first, with the grid that tells whether k is divided."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import refused

from contracts import read_rows, write_rows
from contracts.rows import LibraryKernels
from experiments.studies import library_kernels


def recorded(*names: str, calls: int = library_kernels.CALLS) -> Iterator[dict[str, Any]]:
    """The events of so many calls, each of which runs these kernels; times in microseconds."""
    for call in range(calls):
        for place, name in enumerate(names):
            at = {"ph": "X", "cat": "kernel", "name": name, "ts": 100 * call + place}
            shape = {"grid": [4, 2, 8 if "gemm" in name else 1], "block": [32, 4, 1]}
            yield at | {"dur": (9.0 if "gemm" in name else 2.0) + call, "args": shape}
    yield {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 0, "dur": 1}


def test_the_longest_kernel_of_a_call_comes_first(tmp_path: Path) -> None:
    rows = library_kernels.kernels_of(recorded("prepare", "gemm", "splitKreduce"))
    common = {"variant": "cublas_fp32", "m": 64, "n": 64, "k": 64, "code_hash": "0123456789abcdef"}
    write_rows(tmp_path / "x.csv", LibraryKernels, [common | row for row in rows])
    first, *others = read_rows(tmp_path / "x.csv", LibraryKernels)
    assert (first.kernel, first.rank, first.kernels, first.time_us) == ("gemm", 1, 3, 9)
    assert (first.grid_x, first.grid_y, first.grid_z, first.threads) == (4, 2, 8, 128)
    assert [(row.rank, row.kernel, row.grid_z) for row in others] == [
        (2, "prepare", 1),
        (3, "splitKreduce", 1),
    ]


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([], "5 calls ran 0 kernels as recorded; run it again"),
        ([*recorded("gemm", calls=4)], "5 calls ran 4 kernels as recorded"),
        ([*recorded("gemm", calls=4), *recorded("other_gemm", calls=1)], "ran different kernels"),
    ],
)
def test_a_recording_that_does_not_tell_is_refused(events: list[dict[str, Any]], said: str) -> None:
    with refused(said):
        list(library_kernels.kernels_of(events))
