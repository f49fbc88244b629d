"""The problems of the sweep behind dispatchers; what is measured needs a GPU."""

from __future__ import annotations

import subprocess
import sys

from experiments.tuning import dispatch
from kernels import catalogue
from kernels.catalogue import Dispatcher, Problem


def test_the_problems_are_many_shapes_and_always_the_same() -> None:
    sizes = dispatch.problems()
    assert sizes == dispatch.problems()
    assert len(set(sizes)) == len(sizes)
    squares = {m for m, n, k in sizes if m == n == k}
    assert {1024, 4096, 8192, 12800} <= squares
    shapes = [
        sum(m >= 4 * n and m > k for m, n, k in sizes),
        sum(n >= 4 * m and n > k for m, n, k in sizes),
        sum(k >= 8 * max(m, n) for m, n, k in sizes),
        sum(m % 2 + n % 2 + k % 2 > 0 for m, n, k in sizes),
    ]
    assert min(shapes) >= 5


def test_a_kernel_of_the_swept_dispatcher_takes_each_problem() -> None:
    for entry in catalogue.load().values():
        if isinstance(entry, Dispatcher) and entry.name == "sgemm_best":
            for m, n, k in dispatch.problems():
                entry.pick(Problem.packed(m, n, k))
            break
    else:
        raise AssertionError("sgemm_best is gone")


def test_what_is_no_dispatcher_is_refused_in_one_line() -> None:
    command = [sys.executable, "-m", "experiments.tuning.dispatch", "sgemm_naive", "--build-dir", ".", "--out", "x.csv"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stderr.strip() == "error: sgemm_naive is no dispatcher; kernels/catalogue.yaml lists them"
