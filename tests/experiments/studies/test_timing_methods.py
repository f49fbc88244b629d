"""Timing one kernel in several ways, each of which is a row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT

from contracts import read_rows, write_rows
from contracts.rows import TimingMethods
from experiments.gpu.session import session
from experiments.stages import build, toolchain
from experiments.studies import timing_methods
from kernels import catalogue
from kernels.catalogue import Variant


def test_sgemm_cu_averages_the_last_97_of_195_launches() -> None:
    """As its text has it for n = 4096."""
    assert timing_methods.worklog_replays(4096) == 195
    times = np.array([1.0] * 98 + [3.0] * 97)
    assert timing_methods.second_half_mean(times) == 3
    assert timing_methods.second_half_mean(np.array([1.0, 2.0, 4.0, 6.0])) == 5


@pytest.mark.gpu
def test_each_way_of_timing_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing_methods, "WARM_S", 0.01)
    monkeypatch.setattr(timing_methods, "LAUNCHES", (3, 4))
    monkeypatch.setattr(timing_methods, "worklog_replays", lambda n: 6)
    kernel = catalogue.load().find("sgemm_warptile")
    assert isinstance(kernel, Variant)
    build.build_kernel(kernel, "sm_90a", tmp_path)
    harness = ROOT / "experiments" / "gpu" / "harness.cu"
    build.compile_source(harness, tmp_path / "harness", "sm_90a", toolchain.nvcc())
    with session(wait_s=600):
        rows = timing_methods.measure(kernel, 128, tmp_path)
    write_rows(tmp_path / "timing_methods.csv", TimingMethods, rows)
    written = read_rows(tmp_path / "timing_methods.csv", TimingMethods)
    assert [row.protocol for row in written] == [*timing_methods.METHODS]
    ours, text, events = written
    assert text.replays == 6 and ours.replays == events.replays <= 4
    assert ours.sm_clock_mhz and text.sm_clock_mhz and events.sm_clock_mhz is None
