"""A window ends when the share is known well enough, and not before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers import ROOT

import ptxsim
from experiments.declarations import Protocol
from experiments.gpu.timing import Samples, Work
from experiments.stages import bench, interleave
from experiments.stages.interleave import half_width_of, interleave_until

LIMITS = Protocol(window_s=1.0, samples=1000, precision=0.003)


class Clock:
    """A stopwatch whose samples take what their work says, with some noise; every `gaps`th has a
    launch gap in it.
    """

    def __init__(self, noise: float, gaps: int = 0) -> None:
        self.noise, self.gaps, self.asked, self.rng = (
            noise,
            gaps,
            list[int](),
            np.random.default_rng(1),
        )

    def run(self, works: Sequence[Work]) -> Samples:
        self.asked.append(len(works))
        times = np.array([work() for work in works], np.float64)  # type: ignore[func-returns-value]
        gap = (
            np.arange(1, len(works) + 1) % self.gaps == 0
            if self.gaps
            else np.zeros(len(works), bool)
        )
        noise = self.noise * self.rng.standard_normal(len(works))
        return Samples(times * (1 + noise + gap * self.rng.uniform(1, 9, len(works))), times, ~gap)


def taken(
    noise: float, pair_us: float = 3000.0, gaps: int = 0, **limits: Any
) -> tuple[interleave.Interleaved, float, str, Clock]:
    clock, works = (
        Clock(noise, gaps),
        {"variant": lambda: 2 * pair_us / 3, "baseline": lambda: pair_us / 3},
    )
    made, half_width, ended = interleave_until(clock, works, pair_us, replace(LIMITS, **limits), 7)  # type: ignore[arg-type]
    return made, half_width, ended, clock


def test_a_quiet_kernel_s_window_ends_after_one_look() -> None:
    made, half_width, ended, clock = taken(noise=0.001)
    assert ended == "precise" and half_width <= LIMITS.precision and len(clock.asked) == 1
    # 0.04 s of pairs of 3 ms
    assert set(made.roles) == {"variant", "baseline"} and len(made.roles) == 2 * 13


def test_samples_with_a_launch_gap_do_not_decide_when_a_window_ends() -> None:
    assert taken(noise=0.001, gaps=2)[2] == "precise"  # of all samples it would not be
    made, half_width, ended, _ = taken(
        noise=0.0001, gaps=1, samples=30
    )  # none is left to evaluate by
    assert ended == "most samples" and half_width == np.inf and len(made.roles) == 2 * 30


def test_a_noisy_one_has_its_longest_time_or_most_samples() -> None:
    made, half_width, ended, _ = taken(noise=0.2)
    assert ended == "longest time" and len(made.roles) == 2 * 333 and half_width > LIMITS.precision
    assert taken(noise=0.2, samples=50)[2] == "most samples"
    slow = taken(noise=0.2, pair_us=3e6)
    assert slow[2] == "longest time" and len(slow[0].roles) == 2 * interleave.MIN_KEPT


def test_the_half_width_is_that_of_the_interval_of_the_share() -> None:
    """In a thousand repetitions, about 95% of the shares lie within it of the true one."""
    rng = np.random.default_rng(3)
    ours, theirs = (rng.normal(middle, 0.02 * middle, (200, 60)) for middle in (200.0, 100.0))
    inside = [
        abs(np.median(b) / np.median(a) / 0.5 - 1) <= half_width_of(a, b)
        for a, b in zip(ours, theirs, strict=True)
    ]
    assert 0.88 <= np.mean(inside) <= 1.0
    assert half_width_of(ours[0][:2], theirs[0]) == np.inf


@pytest.mark.parametrize("noise", [0.0005, 0.02])
def test_each_chunk_is_drawn_anew_and_samples_keep_their_order(noise: float) -> None:
    made, _, _, clock = taken(noise)
    times = made.samples.time_us
    assert (np.abs(times / np.where(made.roles == "variant", 2000.0, 1000.0) - 1) < 0.2).all()
    assert sum(clock.asked) == len(times)


@pytest.mark.parametrize("flip", [False, True])
def test_each_runs_alone_directly_after_the_other(
    flip: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time that counts is of the runs after the clock has settled; the second process begins
    with the baseline.
    """
    first_us, calls = {"variant": 1000.0, "baseline": 500.0}, list[tuple[str, int]]()

    def duration_us(gpu: object, work: object, count: int = 1) -> float:
        calls.append((str(work), count))
        return first_us[str(work)] * (
            1.0 if count == round(bench.SETTLE_S * 1e6 / first_us[str(work)]) else 1.5
        )

    monkeypatch.setattr(bench, "duration_us", duration_us)
    works: Any = {role: role for role in first_us}
    assert bench.each_alone(None, works, first_us, flip) == {"variant": 1500.0, "baseline": 750.0}  # type: ignore[arg-type]
    order = [work for work, _ in calls]
    assert order == (
        ["baseline"] * 2 + ["variant"] * 2 if flip else ["variant"] * 2 + ["baseline"] * 2
    )
    assert [count for work, count in calls if work == "variant"] == [50, 40]
    short: dict[str, float] = {"variant": bench.SHORT_US, "baseline": bench.SHORT_US - 1}
    assert bench.each_alone(None, works, short, flip) == {}  # type: ignore[arg-type]
    first_us["baseline"] = bench.SHORT_US
    assert bench.each_alone(None, works, first_us, flip)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kernel", "dtype"), [("transpose_bf16", np.uint16), ("transpose_fp8_e4m3", np.uint8)]
)
def test_a_column_major_matrix_is_transposed_on_the_device_bit_by_bit(
    kernel: str, dtype: Any
) -> None:
    rows, columns = 37, 70  # more than a tile, and no multiple of one
    stored = np.random.default_rng(4).integers(0, 120, (rows, columns)).astype(dtype)
    given, out = ptxsim.Array(stored), ptxsim.Array(np.zeros((columns, rows), dtype), "out")
    harness = ptxsim.load(ROOT / "experiments" / "gpu" / "harness.cu", kernel)
    harness.launch((-(-columns // 32), -(-rows // 32)), 256, [given, rows, columns, out])
    assert (out.numpy() == stored.T).all()
