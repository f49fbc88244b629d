"""What is kept of a measurement: its window, its checks and its samples, and what an experiment
makes of them.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts import UserError
from contracts.samples import GAP, NO_CLOCK
from experiments.declarations import Item, Protocol
from experiments.gpu.clocks import Target
from experiments.gpu.power import Reading
from experiments.gpu.session import HELD
from experiments.gpu.timing import Samples
from experiments.gpu.worker import Failure
from experiments.stages import bench, verify
from experiments.stages import store as storing
from experiments.stages.interleave import ROLES, Interleaved
from experiments.stages.store import Store
from kernels import catalogue
from kernels.problem import ProblemSpec

ITEM = Item("sgemm_naive", ProblemSpec(64, 32, 16, beta=1.0), "uniform", "boost", Protocol())
RIGHT, WRONG = verify.CheckResult(0.5), verify.CheckResult(None, "expected 1")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> bench.Request:
    """Everything is built."""
    for module in (bench, storing):
        monkeypatch.setattr(module, "code_of", lambda entry, build_dir: f"code of {entry.name}")
    monkeypatch.setattr(storing, "versions", lambda build_dir: {"gpu": "H100", "harness": "a"})
    return bench.Request(catalogue.load(), Path())


def taken(
    asked: bench.Request, variant: verify.CheckResult = RIGHT, baseline: verify.CheckResult = RIGHT
) -> bench.Result:
    """Ten samples of each: of the baseline in half the time, at twice the clock; two have a gap,
    one has no clock.
    """
    roles = np.array(ROLES * 10)
    ours = roles == ROLES[0]
    clock, kept = np.where(ours, 1000.0, 2000.0), np.ones(20, bool)
    clock[4], kept[[0, 1]] = np.nan, False
    turns = Interleaved(Samples(np.where(ours, 200.0, 100.0), clock, kept), roles)
    problem = ITEM.problem.of("row")
    reading = Reading(700.0, 2.0, 61.0, 190.0, {"power_cap": 0.5})
    checked = dict(zip(ROLES, (variant, baseline), strict=True))
    kinds: dict[str, Any] = {
        "baseline_call": "cublasGemmEx",
        "baseline_run_us": 95.0,
        "ended": "precise",
    }
    return bench.Result(
        problem, "uniform", 7, turns, checked, reading, ci_half_width=0.001, **kinds
    )


def test_a_window_has_what_was_measured_and_each_sample_why_it_does_not_count(
    asked: bench.Request,
) -> None:
    made = bench.measurement(ITEM, taken(asked), None, asked, "0000000a")
    (window,) = made.rows.windows
    expected = {
        "variant": "sgemm_naive",
        "m": 64,
        "n": 32,
        "k": 16,
        "alpha": 1.0,
        "beta": 1.0,
        "process": 0,
    }
    expected |= {
        "baseline": "cublas_fp32",
        "baseline_call": "cublasGemmEx",
        "seed": 7,
        "passed": True,
    }
    expected |= {
        "power_w": 700.0,
        "power_error_w": 2.0,
        "power_run_us": 190.0,
        "baseline_run_us": 95.0,
    }
    expected |= {
        "throttle_reasons": "power_cap",
        "throttle_fractions": "power_cap=0.500",
        "temperature_c": 61.0,
    }
    expected |= {
        "left_out": None,
        "locked_sm_mhz": None,
        "code_hash": "code of sgemm_naive",
        "session": "0000000a",
    }
    expected |= {
        "ended": "precise",
        "ci_half_width": 0.001,
        "clock_policy": "boost",
        "dtype": "fp32",
    }
    assert expected.items() <= vars(window).items()
    assert made.samples is not None
    rows = made.samples.to_pylist()
    assert [row["reason"] for row in rows] == [GAP, GAP, None, None, NO_CLOCK, *[None] * 15]
    assert [row["kept"] for row in rows] == [row["reason"] is None for row in rows]
    assert [row["index"] for row in rows] == [*range(20)] and {row["window"] for row in rows} == {
        "interleaved"
    }
    assert {(row["role"], row["time_us"]) for row in rows} == {(ROLES[0], 200.0), (ROLES[1], 100.0)}


@pytest.mark.parametrize(
    ("process", "variant", "baseline", "checks"),
    [
        (
            0,
            RIGHT,
            RIGHT,
            [("sgemm_naive", "", True), ("cublas_fp32", " next to sgemm_naive", True)],
        ),
        (1, RIGHT, RIGHT, []),  # the first process said so
        (1, WRONG, RIGHT, [("sgemm_naive", " in process 1", False)]),
        (2, RIGHT, WRONG, [("cublas_fp32", " next to sgemm_naive in process 2", False)]),
    ],
)
def test_a_check_that_failed_is_kept_whichever_process_made_it(
    process: int,
    variant: verify.CheckResult,
    baseline: verify.CheckResult,
    checks: list[tuple[str, str, bool]],
    asked: bench.Request,
) -> None:
    item = replace(ITEM, process=process)
    made = bench.measurement(item, taken(asked, variant, baseline), None, asked, "0" * 8)
    assert [(row.variant, row.case, row.passed) for row in made.rows.checks] == [
        (name, f"{case}, beta=1", passed) for name, case, passed in checks
    ]
    assert bench.counts(made) == made.rows.windows[0].passed == (WRONG not in (variant, baseline))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda kept, clock: kept.__setitem__(slice(5, None), False),
            "launch gaps spoilt 17 of 20 samples, and the",
        ),
        (
            lambda kept, clock: clock.__setitem__(slice(5, None), np.nan),
            "and the clock of 16 is not known",
        ),
        # three of each are left
        (lambda kept, clock: kept.__setitem__(slice(9, None), False), None),
    ],
)
def test_too_few_samples_are_an_error_that_counts_them_unless_the_result_is_wrong(
    spoil: Any, said: str | None, asked: bench.Request
) -> None:
    one, wrong = taken(asked), taken(asked, WRONG)
    for each in (one, wrong):
        spoil(each.interleaved.samples.kept, each.interleaved.samples.sm_clock_mhz)
    assert not bench.counts(bench.measurement(ITEM, wrong, None, asked, "0" * 8))
    if said is None:
        assert bench.counts(bench.measurement(ITEM, one, None, asked, "0" * 8))
        return
    with pytest.raises(UserError, match=f"^sgemm_naive at .*{said}"):
        bench.measurement(ITEM, one, None, asked, "0" * 8)


def test_a_locked_window_off_its_clock_is_left_out_and_says_why(asked: bench.Request) -> None:
    item, target = replace(ITEM, clock_policy="locked"), Target(1000, 1593)
    made = bench.measurement(item, taken(asked), target, asked, "0" * 8)
    (window,) = made.rows.windows
    assert window.left_out.startswith("10 of 20 samples were more than 1% off the locked 1000 MHz")
    assert window.passed and window.locked_sm_mhz == 1000 and not bench.counts(made)
    assert (
        bench.outcome(item, made)
        == f"left out: sgemm_naive, {item.problem.shown}: {window.left_out}"
    )
    off = replace(taken(asked), memory="the memory clock moved")
    (window,) = bench.measurement(item, off, target, asked, "0" * 8).rows.windows
    assert window.left_out == "the memory clock moved"
    wrong = bench.measurement(
        item, replace(off, checked=dict.fromkeys(ROLES, WRONG)), target, asked, "0" * 8
    )
    assert wrong.rows.windows[0].left_out is None  # a wrong result is no matter of clocks


def test_what_is_said_of_a_measurement(asked: bench.Request) -> None:
    made = bench.measurement(ITEM, taken(asked), None, asked, "0" * 8)
    tflops = ITEM.problem.flop / 200 / 1e6
    assert bench.outcome(ITEM, made) == f"{tflops:.2f} TFLOP/s, 50.0% of cublas_fp32 (cublasGemmEx)"
    failed = bench.measurement(ITEM, taken(asked, WRONG), None, asked, "0" * 8)
    assert bench.outcome(ITEM, failed) == "FAILED its check after timing"
    lost = bench.lost(ITEM, "the kernel hangs", asked)
    assert bench.outcome(ITEM, lost) == "FAILED: the kernel hangs" and not bench.counts(lost)
    (row,) = lost.rows.checks
    assert (row.variant, row.passed, row.detail) == (
        "sgemm_naive",
        False,
        "the kernel hangs",
    )


@pytest.mark.parametrize(
    ("change", "case"),
    [
        ({}, ", beta=1"),
        ({"data": "zeros"}, ", zeros, beta=1"),
        ({"clock_policy": "locked"}, ", beta=1, locked"),
    ],
)
def test_a_check_names_what_its_problem_s_numbers_do_not(
    change: dict[str, Any], case: str, asked: bench.Request
) -> None:
    """A table holds all kinds of data and both clock policies of an experiment."""
    lost = bench.lost(replace(ITEM, **change), "the kernel hangs", asked)
    assert [row.case for row in lost.rows.checks] == [case]


def test_items_on_the_same_matrices_follow_each_other(asked: bench.Request) -> None:
    names, sizes = ("hgemm_naive_bf16", "sgemm_naive", "sgemm_coalesced"), (64, 128)
    items = [
        replace(ITEM, variant=name, problem=ProblemSpec.square(size))
        for size in sizes
        for name in names
    ]
    ordered = bench.in_order(items, asked)
    runs = [
        key for key, _ in itertools.groupby(ordered, lambda item: (item.variant[0], item.problem))
    ]
    assert len(runs) == len(set(runs)) == 4 and sorted(map(str, ordered)) == sorted(map(str, items))


def test_each_process_measures_its_own_items_and_none_whose_result_was_wrong_before(
    asked: bench.Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept is not measured again; a hang is kept as a failed check; what is the host's
    fault is an error.
    """
    worked: list[list[tuple[str, int]]] = []
    wrong, hangs, names = (
        "sgemm_coalesced",
        "sgemm_smem_tile",
        ("sgemm_naive", "sgemm_coalesced", "sgemm_smem_tile"),
    )

    def work_through(items: list[Item], opened: Any) -> Iterator[tuple[Item, Any]]:
        worked.append([(item.variant, item.process) for item in items])
        for item in items:
            made = bench.measurement(
                item, taken(asked, WRONG if item.variant == wrong else RIGHT), None, asked, "0" * 8
            )
            yield (
                item,
                Failure("the kernel hangs", of_kernel=True) if item.variant == hangs else made,
            )

    monkeypatch.setattr(bench, "work_through", work_through)
    monkeypatch.setenv(HELD, "1")  # there is no GPU to hold
    options = argparse.Namespace(
        catalogue=asked.entries, build_dir=asked.build_dir, sm_mhz=None, memory_mhz=None
    )
    items = [
        replace(ITEM, variant=name, process=process) for process in (0, 1, 2) for name in names
    ]
    found = bench.measured(items, options, Store(tmp_path))
    assert worked == [[(name, 0) for name in names], [("sgemm_naive", 1)], [("sgemm_naive", 2)]]
    assert {(item.variant, item.process) for item in found} == {
        pair for pairs in worked for pair in pairs
    }
    assert [bench.counts(found[item]) for item in items[:3]] == [True, False, False]
    worked.clear()
    assert bench.measured(items, options, Store(tmp_path)) == found and not any(worked)
    monkeypatch.setattr(
        bench, "work_through", lambda items, _: [(item, Failure("gaps", False)) for item in items]
    )
    anew = [replace(item, problem=ProblemSpec.square(128)) for item in items]
    with pytest.raises(UserError, match=r"^sgemm_naive, .*: gaps; .*; and 6 more$"):
        bench.measured(anew, options, Store(tmp_path))
