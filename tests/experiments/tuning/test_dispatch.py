"""The problems of the sweep behind dispatchers, and which kernel it marks; what is measured needs a GPU."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import assert_one_line, run_module

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


def test_picks_on_held_out_problems_follow_the_fit_to_the_new_rows_alone() -> None:
    """Whichever kernel is fast in the rows to fit is picked, although held-out times say the opposite."""
    dispatcher = catalogue.load()["sgemm_best"]
    assert isinstance(dispatcher, Dispatcher)
    head = {"dispatcher": dispatcher.name, "shape": "random", "call": None, "resident": None}
    rows: list[dict[str, Any]] = []
    sizes = dispatch.problems(8, 0.2)
    for fast in dispatcher.variants[:2]:
        rows = []
        for one in sizes:
            at = head | {"m": one.m, "n": one.n, "k": one.k, "held_out": one.held_out}
            for variant in dispatcher.variants:
                slow = 1 if (variant is fast) != one.held_out else 50
                time_us = slow * (5 + one.m * one.n * one.k / 1e7)
                of_kernel = {"variant": variant.name, "source_hash": variant.source_hash}
                rows.append(at | of_kernel | {"time_us": time_us, "fraction": 1 / slow})
        dispatch.mark_picked(dispatcher, rows)
        picked = [row for row in rows if row.get("picked")]
        assert {row["variant"] for row in picked} == {fast.name} and all(row["held_out"] for row in picked)
        assert len(picked) == sum(one.held_out for one in sizes)


def test_fractions_of_short_problems_are_reported_apart() -> None:
    rows: list[dict[str, Any]] = []
    for m, library_us, fraction in ((64, 5.0, 0.5), (65, 20.0, 1.0), (66, 20.0, 0.25)):
        at = {"m": m, "n": 64, "k": 64, "shape": "random"}
        rows += [at | {"call": "c", "time_us": library_us}, at | {"time_us": 1.0, "fraction": fraction, "picked": True}]
    rows.append(rows[-1] | {"picked": False, "fraction": 0.01})
    long, short = dispatch.fractions_by_shape(rows)
    assert "below 10 us" in short and "1 problems: geometric mean 0.500, least 0.500, 1 below 0.8" in short
    assert "from 10 us" in long and "2 problems: geometric mean 0.500, least 0.250, 1 below 0.8" in long


def test_what_is_no_dispatcher_is_refused_in_one_line() -> None:
    done = run_module("experiments.tuning.dispatch", "sgemm_naive", "--build-dir", ".", "--out", "x.csv")
    assert_one_line(done, "sgemm_naive is no dispatcher; kernels/catalogue.yaml lists them")
