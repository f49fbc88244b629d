"""The problems of the sweep behind dispatchers; what is measured needs a GPU."""

from __future__ import annotations

import subprocess
import sys

import pytest

from experiments.tuning import dispatch
from kernels import catalogue
from kernels.catalogue import Dispatcher, Problem


def test_the_problems_are_many_shapes_and_always_the_same() -> None:
    sizes = dispatch.problems()
    assert sizes == dispatch.problems()
    assert len({(one.m, one.n, one.k) for one in sizes}) == len(sizes)
    for held_out in (False, True):
        own = [one for one in sizes if one.held_out == held_out]
        assert {"random", "tall", "wide", "deep"} <= {one.shape for one in own}
        drawn = [one for one in own if one.shape == "random"]
        assert 0.3 < sum(one.m % 8 + one.n % 8 + one.k % 8 > 0 for one in drawn) / len(drawn) < 0.7
    assert all(one.m % 8 + one.n % 8 + one.k % 8 == 0 for one in dispatch.problems(8))


@pytest.mark.parametrize("name", ["sgemm_best", "hgemm_best_bf16", "hgemm_best_fp16"])
def test_a_kernel_of_the_swept_dispatcher_takes_each_problem(name: str) -> None:
    entry = catalogue.load()[name]
    assert isinstance(entry, Dispatcher)
    for one in dispatch.problems(1 if entry.dtype == "fp32" else 8):
        entry.pick(Problem.packed(one.m, one.n, one.k))


def test_what_is_no_dispatcher_is_refused_in_one_line() -> None:
    command = [sys.executable, "-m", "experiments.tuning.dispatch", "sgemm_naive", "--build-dir", ".", "--out", "x.csv"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stderr.strip() == "error: sgemm_naive is no dispatcher; kernels/catalogue.yaml lists them"
