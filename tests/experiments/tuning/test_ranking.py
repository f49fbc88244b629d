"""Tiles ranked by the emulator alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import dict_rows, run_module

from contracts.rows import TuningRanked
from experiments.emulation import bounds, launching, predictions
from experiments.stages import toolchain
from experiments.tuning import ranking, space
from experiments.tuning.space import Configuration
from experiments.tuning.sweep import Builder
from kernels.problem import ProblemSpec
from ptxsim.count import machines

NAMES = ("sgemm_autotuned_128x128x8_8x8", "sgemm_autotuned_32x32x8_4x4")
H200 = machines.find("h200")
Built = tuple[Path, list[Configuration], dict[str, dict]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A good and a bad tile, built."""
    folder = tmp_path_factory.mktemp("ranked")
    configurations = [c for c in space.load().configurations() if c.name in NAMES]
    builder = Builder(folder, "sm_90a", toolchain.nvcc(None), 2)
    rows = {c.name: builder.build(c.variant()) for c in configurations}
    builder.close()
    return folder, configurations, rows


def test_the_tile_with_fewer_cycles_comes_first_and_what_cannot_be_ranked_last(
    built: Built,
) -> None:
    folder, configurations, builds = built
    (first, row), (second, other) = ranking.rank(builds, configurations, 4096, folder, H200, 1)
    assert (first.name, second.name) == NAMES and "reason" not in row
    assert other["minimum_cycles"] > 1.2 * row["minimum_cycles"] > 0
    assert row["estimate"] == pytest.approx(
        row["minimum_cycles"] * (1 + ranking.WAITING / row["warps"])
    )
    assert row["warps"] == builds[NAMES[0]]["blocks_per_sm"] * 8 / 4  # 256 threads are 8 warps
    # 5.25 tiles of 128
    (first, row), (last, other) = ranking.rank(builds, configurations, 672, folder, H200, 1)
    assert (first.name, last.name) == NAMES[::-1] and "estimate" in row
    assert "estimate" not in other and "must be a multiple of" in other["reason"]


def test_the_cycles_are_those_of_the_bounds(built: Built) -> None:
    """The busiest of 132 multiprocessors has 8 of the 1024 blocks."""
    folder, configurations, _ = built
    variant = next(c for c in configurations if c.name == NAMES[1]).variant()
    least, resource = ranking.cycles(variant, 1024, folder, H200)
    kernel, problem = launching.load(variant, folder), ProblemSpec.square(1024)
    predicted = predictions.predict(kernel, variant, problem, H200.sms)
    rows = bounds.rows(variant, problem, kernel, folder / f"{variant.name}.cubin", predicted, H200)
    most = {
        row["resource"]: row["minimum_cycles"]
        for row in rows
        if row["resource"] not in ("l2", "tail")
    }
    assert most[resource] == max(most.values()) and least == pytest.approx(
        most[resource] * 8 / (1024 / 132)
    )


def test_without_a_gpu_the_sweep_ranks_and_stops(tmp_path: Path) -> None:
    options = [
        "--rank",
        "--limit",
        "2",
        "--jobs",
        "1",
        "--arch",
        "sm_90a",
        "--kernel",
        "sgemm_autotuned",
    ]
    done = run_module("experiments.tuning.sweep", *options, "--out-dir", tmp_path)
    assert done.returncode == 0, done.stderr
    best, second = dict_rows(tmp_path / "tuning_ranked.csv", TuningRanked)
    assert best["estimate"] <= second["estimate"] and not (tmp_path / "tuning.csv").exists()
    name = f"sgemm_autotuned_{best['BM']}x{best['BN']}x{best['BK']}_{best['TM']}x{best['TN']}"
    assert done.stdout.splitlines()[0].split()[-1] == name
