"""Taking a launch apart by marks in a copy of its kernel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT, refused

from experiments.gpu.session import session
from experiments.stages import build, toolchain
from experiments.studies import launch_latency
from kernels import catalogue
from kernels.catalogue import Problem, Variant

CATALOGUE = catalogue.load()


def kernel(name: str) -> Variant:
    found = CATALOGUE.find(name)
    assert isinstance(found, Variant)
    return found


@pytest.mark.gpu
def test_the_parts_of_a_launch_follow_each_other_and_make_it_up(tmp_path: Path) -> None:
    tile = kernel("hgemm_tile_64x64_bfirst_c2x1_s3_bf16")
    harness = ROOT / "experiments" / "gpu" / "harness.cu"
    build.compile_source(harness, tmp_path / "harness", "sm_90a", toolchain.nvcc())
    with session(wait_s=600):
        times = launch_latency.measure(tile, Problem.packed(256, 128, 256), tmp_path)
        with refused("256 tiles, but 1?[0-9]{2} run at a time; take fewer"):
            launch_latency.measure(tile, Problem.square(1024), tmp_path)
    assert times.keys() == launch_latency.PREDICTED_US.keys()
    assert all((part > 0).all() for part in times.values())
    inside = [times[name] for name, *_ in launch_latency.MARKS[1:]]
    assert {part.shape for part in inside} == {(8,)}  # blocks
    assert np.sum(inside, axis=0).max() < np.median(times["kernel with marks"])


@pytest.mark.parametrize("name", ["sgemm_naive", "hgemm_tile_64x64_bfirst_c1x1_k2_s3_bf16"])
def test_a_kernel_without_these_marks_is_refused(name: str, tmp_path: Path) -> None:
    with refused(f"^{name} has no such marks; allowed: a tile of hgemm/wgmma_tile.cu$"):
        launch_latency.marked(kernel(name), tmp_path)
    assert not list(tmp_path.iterdir())
