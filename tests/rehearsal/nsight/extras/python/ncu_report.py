"""The part of Nsight Compute's `ncu_report` that `experiments.gpu.read_report` uses, for the
stand-in's reports.
"""

from __future__ import annotations

import json
from pathlib import Path


class Metric:
    """A value; units are the field's, for durations ns."""

    def __init__(self, name: str, value: float) -> None:
        self._name, self._value = name, value

    def as_double(self) -> float:
        return float(self._value)

    def unit(self) -> str:
        return "ns" if self._name == "gpu__time_duration.sum" else ""


class Action:
    """A profiled launch."""

    def __init__(self, kernel: dict) -> None:
        self._kernel = kernel

    def name(self) -> str:
        return self._kernel["name"]

    def metric_by_name(self, name: str) -> Metric | None:
        value = self._kernel["metrics"].get(name)
        return None if value is None else Metric(name, value)


class Report:
    """A report, which is its only range too."""

    def __init__(self, kernels: list[dict]) -> None:
        self._kernels = kernels

    def range_by_idx(self, _: int) -> Report:
        return self

    def num_actions(self) -> int:
        return len(self._kernels)

    def action_by_idx(self, index: int) -> Action:
        return Action(self._kernels[index])


def load_report(path: str) -> Report:
    return Report(json.loads(Path(path).read_text()))
