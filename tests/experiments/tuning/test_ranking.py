"""Tiles ranked by the emulator alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from helpers import assert_one_line, run_module

from contracts import read_rows
from experiments.emulation import bounds, launching, scaling
from experiments.stages import toolchain
from experiments.tuning import ranking, space
from experiments.tuning.space import Configuration
from experiments.tuning.sweep import Builder
from kernels.problem import ProblemSpec
from ptxsim.count import machines

NAMES = ("sgemm_autotuned_128x128x8_8x8", "sgemm_autotuned_32x32x8_4x4")
H200 = machines.find("h200")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Configuration], dict[str, dict]]:
    """A good and a bad tile, built."""
    folder = tmp_path_factory.mktemp("ranked")
    configurations = [c for c in space.load().configurations() if c.name in NAMES]
    builder = Builder(folder, "sm_90a", toolchain.nvcc(None), 2)
    builds = {c.name: builder.submit(c.variant()) for c in configurations}
    found = {name: build.result() for name, build in builds.items()}
    builder.close()
    return folder, configurations, found


def test_the_tile_with_fewer_cycles_comes_first(built: tuple) -> None:
    folder, configurations, builds = built
    (first, row), (second, other) = ranking.rank(builds, configurations, 4096, folder, H200, 2)
    assert (first.name, second.name) == NAMES and "reason" not in row
    assert other["minimum_cycles"] > 1.2 * row["minimum_cycles"] > 0
    assert row["estimate"] == pytest.approx(row["minimum_cycles"] * (1 + ranking.WAITING / row["warps"]))
    assert row["warps"] == builds[NAMES[0]]["blocks_per_sm"] * 8 / 4  # 256 threads are 8 warps


def test_the_cycles_are_those_of_the_bounds(built: tuple) -> None:
    """The busiest of 132 multiprocessors has 8 of the 1024 blocks."""
    folder, configurations, _ = built
    variant = next(c for c in configurations if c.name == NAMES[1]).variant()
    least, resource = ranking.cycles(variant, 1024, folder, H200)
    kernel = launching.load(variant, folder)
    scaled = scaling.emulate(kernel, variant, ProblemSpec.square(1024), H200.sms)
    rows = bounds.rows(variant, ProblemSpec.square(1024), kernel, folder / f"{variant.name}.cubin", scaled, H200)
    (row,) = [row for row in rows if row["resource"] == resource]
    assert least == pytest.approx(row["minimum_cycles"] * 8 / (1024 / 132))
    assert row["minimum_cycles"] == max(r["minimum_cycles"] for r in rows if r["resource"] not in ("l2", "tail"))


def test_what_cannot_be_ranked_comes_last_with_the_reason(built: tuple) -> None:
    folder, configurations, builds = built
    small = [replace(c, values=dict(c.values)) for c in configurations]
    (first, row), (last, other) = ranking.rank(builds, small, 640, folder, H200, 2)  # 2.5 times two tiles of 128
    assert (first.name, last.name) == NAMES[::-1] and "estimate" in row
    assert "estimate" not in other and "is not made of whole tiles" in other["reason"]


def test_without_a_gpu_the_sweep_ranks_and_stops(tmp_path: Path) -> None:
    options = ["--rank", "--limit", "2", "--jobs", "2", "--arch", "sm_90a", "--kernel", "sgemm_autotuned"]
    done = run_module("experiments.tuning.sweep", *options, "--out-dir", tmp_path, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0, done.stderr
    rows = read_rows(tmp_path / "tuning_ranked.csv", "tuning_ranked")
    assert len(rows) == 2 and rows[0]["estimate"] <= rows[1]["estimate"]
    best = rows[0]
    name = f"sgemm_autotuned_{best['BM']}x{best['BN']}x{best['BK']}_{best['TM']}x{best['TN']}"
    assert done.stdout.splitlines()[0].split()[-1] == name and len(done.stdout.splitlines()) == 2
    assert not (tmp_path / "tuning.csv").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--static", "0"], "--static 0 is not allowed; allowed: at least 1"),
        (["--rank", "--rates", "h300", "--limit", "1"], "--rates: "),
        (["--static", "1", "--machine", "x", "--build-dir", "x"], "no GPU: this stage needs"),
    ],
)
def test_bad_options_are_one_clear_line(options: list[str], words: str, tmp_path: Path) -> None:
    given = [*options, "--arch", "sm_90a", "--out-dir", tmp_path]
    assert_one_line(run_module("experiments.tuning.sweep", *given, CUDA_VISIBLE_DEVICES=""), words)
