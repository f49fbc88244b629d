"""Lets the fastest of several calls stand for a library or dispatcher in measurements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.gpu.algorithm_search import search
from experiments.gpu.device import Gpu
from experiments.gpu.timing import Stopwatch, duration_us, warm_up
from kernels.catalogue import Problem

# Before a search. Its calls are interleaved, so that a falling clock meets each of them.
WARM_S, MAX_WARM_S = 0.03, 0.2
Call = Callable[[], None]
# Returns microseconds of each call, in this order; NaN of an invalid sample.
TimedBy = Callable[[Gpu, list[Call]], np.ndarray]


@dataclass(frozen=True)
class Choice:
    """Which call an algorithm search found fastest, by how much, and among how many."""

    call: str
    calls: int
    time_us: float | None = None
    next_call: str | None = None
    next_time_us: float | None = None
    decided: bool | None = None


class FastestCall(ABC):
    """Something with several calls; `choice` says which one `bind_fastest` chose."""

    entry: Any  # A subclass narrows this `Entry`.

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self._choices: dict[Problem, Choice] = {}

    @abstractmethod
    def bind(self, problem: Problem, a: int, b: int, c: int) -> Call:
        """Return the call that needs no search."""

    @abstractmethod
    def calls(self, problem: Problem, a: int, b: int, c: int) -> dict[str, Call]:
        """Return all that may be fastest for this problem, by name: at least one, each run once."""

    def named(self, name: str, problem: Problem, a: int, b: int, c: int) -> Call | None:
        """Return the call of this name among `calls`; None where there is none."""
        return self.calls(problem, a, b, c).get(name)

    def choose(self, problem: Problem, choice: Choice) -> None:
        """Bind the call of an earlier search from now on."""
        self._choices[problem] = choice

    def bind_fastest(self, problem: Problem, a: int, b: int, c: int, timed_by: TimedBy) -> Call:
        """Return the fastest of `calls`, by a search on these matrices that writes C many times.

        `experiments.gpu.algorithm_search` describes it. A problem that is bound again, or that was
        chosen for, keeps its call.
        """
        known = self._choices.get(problem)
        if known and (call := self.named(known.call, problem, a, b, c)):
            return call
        calls = self.calls(problem, a, b, c)
        works, names = list(calls.values()), list(calls)
        if len(works) == 1:
            self._choices[problem] = Choice(names[0], 1)
            return works[0]
        warm_up(self.gpu, works[0], WARM_S, MAX_WARM_S, chunk_s=WARM_S / 2)
        ended = search(len(works), lambda order: timed_by(self.gpu, [works[i] for i in order]))
        after = None if ended.next is None else names[ended.next]
        times = ended.time_us, after, ended.next_time_us, ended.decided
        self._choices[problem] = Choice(names[ended.winner], len(works), *times)
        return works[ended.winner]

    def choice(self, problem: Problem) -> Choice | None:
        """Return what `bind_fastest` chose for this problem; None where it was not asked."""
        return self._choices.get(problem)


def by_stopwatch(gpu: Gpu, calls: list[Call]) -> np.ndarray:
    """Time calls as samples are taken: L2 flushed before each, the queue filled ahead."""
    samples = Stopwatch(gpu, len(calls)).run(calls)
    return np.where(samples.kept, samples.time_us, np.nan)


def by_events(gpu: Gpu, calls: list[Call]) -> np.ndarray:
    """Time calls with launch gaps and nothing flushed, but without a kernel that holds the queue.

    A profiler may wait for each kernel to end, and would wait for that one for ever.
    """
    return np.array([duration_us(gpu, call) for call in calls])
