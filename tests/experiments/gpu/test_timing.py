"""Warming up ends when the work runs steadily, and not at a step of a clock that still falls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from experiments.gpu import timing


class Card:
    """A device on which one run takes the next of `times` in microseconds, then the last; and the time that passes."""

    def __init__(self, times: Iterable[float], monkeypatch: pytest.MonkeyPatch) -> None:
        self.times, self.now, self.chunks = self._endless(times), 0.0, 0
        monkeypatch.setattr(timing, "duration_us", self.duration_us)
        monkeypatch.setattr(timing.time, "monotonic", lambda: self.now)

    def _endless(self, times: Iterable[float]) -> Iterator[float]:
        last = 0.0
        for last in times:
            yield last
        while True:
            yield last

    def duration_us(self, gpu: Any, work: Any, count: int = 1) -> float:
        self.chunks += 1
        time_us = next(self.times)
        self.now += count * time_us / 1e6
        return time_us


def warm_up(card: Card, seconds: float, most: float = 3.0) -> float:
    return timing.warm_up(None, lambda: None, seconds, most, chunk_s=0.1)  # type: ignore[arg-type]


def test_steady_work_takes_the_least_time(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card([1000.0], monkeypatch)
    assert warm_up(card, 0.5) == 1000.0
    assert 0.5 <= card.now <= 0.65


def test_a_clock_that_falls_in_steps_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two chunks are alike at each step: that is not steady."""
    falling = [1000.0, 1000.0, 1100.0, 1100.0, 1200.0, 1200.0, 1300.0, 1301.0, 1300.0]
    card = Card(falling, monkeypatch)
    assert warm_up(card, 0.1) == 1300.0
    assert card.chunks == len(falling)


def test_what_never_runs_steadily_has_the_longest_time(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card([1000.0, 1100.0] * 1000, monkeypatch)
    warm_up(card, 0.3, most=1.5)
    assert 1.5 <= card.now <= 1.75
