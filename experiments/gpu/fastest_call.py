"""A library that has several calls for a problem, of which the fastest on this card stands for it in measurements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from experiments.gpu.contest import fastest
from experiments.gpu.device import Gpu
from experiments.gpu.timing import Stopwatch, duration_us, warm_up
from kernels.catalogue import Problem

WARM_S, WARM_MOST_S = 0.1, 0.5  # before a contest: clocks are up
Call = Callable[[], None]
TimedBy = Callable[[Gpu, list[Call]], np.ndarray]  # microseconds of each call, in this order; NaN where spoilt


class FastestCall(ABC):
    """What `bind_fastest` chose is known by `chosen`."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self._chosen: dict[Problem, str] = {}

    @abstractmethod
    def bind(self, problem: Problem, a: int, b: int, c: int) -> Call:
        """The call that needs no contest."""

    @abstractmethod
    def calls(self, problem: Problem, a: int, b: int, c: int) -> dict[str, Call]:
        """All that the library has for this problem, by name; at least one, and each has run once."""

    def bind_fastest(self, problem: Problem, a: int, b: int, c: int, timed_by: TimedBy) -> Call:
        """The fastest of `calls`, by a contest on these matrices (`experiments.gpu.contest` tells how it goes), in
        which C is written many times. `chosen` says which it was; a problem bound again keeps it.
        """
        calls = self.calls(problem, a, b, c)
        if self._chosen.get(problem) not in calls:
            works = list(calls.values())
            warm_up(self.gpu, works[0], WARM_S, WARM_MOST_S, chunk_s=WARM_S / 2)
            place = fastest(len(works), lambda order: timed_by(self.gpu, [works[i] for i in order]))
            self._chosen[problem] = list(calls)[place]
        return calls[self._chosen[problem]]

    def chosen(self, problem: Problem) -> str | None:
        """The name of the call that `bind_fastest` chose for this problem; None where it was not asked."""
        return self._chosen.get(problem)


def by_stopwatch(gpu: Gpu, calls: list[Call]) -> np.ndarray:
    """As samples are taken: L2 flushed before each, the queue filled ahead."""
    samples = Stopwatch(gpu, len(calls)).run(calls)
    return np.where(samples.kept, samples.time_us, np.nan)


def by_events(gpu: Gpu, calls: list[Call]) -> np.ndarray:
    """With launch gaps and nothing flushed, but no kernel that holds the queue: under a profiler, which may wait for
    each kernel to end, that would wait for ever."""
    return np.array([duration_us(gpu, call) for call in calls])
