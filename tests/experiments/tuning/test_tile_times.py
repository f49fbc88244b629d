"""Fitting the constants of tiles to measured times."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_one_line, refused, run_module

from experiments.tuning import tile_times
from experiments.tuning.tile_times import Row
from kernels import tile_choice
from kernels.catalogue import Problem

TIMES = tile_choice.times_of()


def rows(times: object, problems: int) -> list[Row]:
    """As a GPU with these constants would measure, each off by up to 2%."""
    rng, taken = np.random.default_rng(4), []
    for problem, listed in tile_times.with_tiles(tile_times.drawn(problems, 1), 4, 4, 1):
        for tile in listed:
            time_us = tile_choice.time_us(tile, problem, times, sms=100)  # type: ignore[arg-type]
            taken.append(Row(problem, tile, time_us * rng.uniform(0.98, 1.02)))
    return taken


def test_a_fit_finds_the_constants_of_a_gpu_with_other_ones() -> None:
    other = {"start_us": 7.0, "store_us": 1.0, "multiply_adds": 2.0e6, "dram_bytes": 1.5e6}
    there = TIMES.model_copy(update=other)
    times, error = tile_times.fit(rows(there, problems=24), 100, TIMES)
    assert error < 0.03
    for key, value in other.items():
        assert getattr(times, key) == pytest.approx(value, rel=0.15), key


def test_too_few_times_are_not_fitted() -> None:
    with refused("^8 times, but a fit needs 27 or more$"):
        tile_times.fit(rows(TIMES, problems=1), 100, TIMES)


def test_without_a_gpu_nothing_is_fitted(tmp_path) -> None:
    options = ("--build-dir", tmp_path, "--out", tmp_path / "times.csv", "--problems", 1)
    assert_one_line(run_module("experiments.tuning.tile_times", *options), "no GPU is visible here")
    assert not list(tmp_path.iterdir())


def test_named_problems_are_read_as_they_were_written(tmp_path) -> None:
    problems = [Problem.packed(512, 2112, 7168, layout) for layout in ("row", "column")]
    asked = list(tile_times.with_tiles(problems, likeliest=5, others=2, seed=1))
    assert [problem for problem, _ in asked] == problems
    assert [tile for tile in asked[1][1][:5]] == tile_choice.ranked(problems[1])[:5]
    taken = [Row(problem, tile, 10.0) for problem, listed in asked for tile in listed]
    tile_times.write_times(tmp_path / "times.csv", taken, "NVIDIA H100", 132)
    assert tile_times.read_times([tmp_path / "times.csv"]) == (taken, "NVIDIA H100", 132)
