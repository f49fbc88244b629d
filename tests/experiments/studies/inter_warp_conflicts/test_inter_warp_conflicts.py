"""The microbenchmark of wavefronts between warps: its launches and what it counts itself."""

from __future__ import annotations

import shutil

import pytest

import ptxsim
from experiments.stages.build import compile_source
from experiments.stages.toolchain import nvcc
from experiments.studies.inter_warp_conflicts import measure as inter_warp_conflicts
from experiments.studies.inter_warp_conflicts.measure import Case, cases, entries, find, needed


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    if not shutil.which("g++"):
        pytest.skip("nvcc needs g++")
    folder = tmp_path_factory.mktemp("inter_warp_conflicts")
    source = inter_warp_conflicts.Path(inter_warp_conflicts.__file__).with_name("inter_warp_conflicts.cu")
    compile_source(source, folder / "inter_warp_conflicts", "sm_90a", nvcc(None))
    return folder


def test_every_launch_has_its_kernel(built):
    names = entries(built)
    assert {find(names, case) for case in cases()} == set(names)


@pytest.mark.parametrize(
    ("case", "loads", "stores"),
    [
        (Case("store", 32, None, 2, 1), 0, 2 * 128 * 4),
        (Case("store_load", 128, None, 1, 1), 128 * 16, 128 * 4),
        (Case("copy_beside_load", 32, "L2 scattered", 8, 1), 4 * 8 * 128 * 16, 4 * 128 * 4),
        (Case("sgemm_smem_tile", None, "A and B", 32, 1), None, 32 * 2 * 128),
        (Case("sgemm_blocktile_2d", None, "A", 1, 1), None, 128 * (64 * 8 + 8 * 32) // 32),
    ],
)
def test_what_a_block_executes_and_needs(built, case, loads, stores):
    counted = needed(ptxsim.load(built / "inter_warp_conflicts.ptx", find(entries(built), case)), case)
    assert counted["stores"] == stores
    width = 4 if case.bits == 128 else 1  # wavefronts of each: there are no conflicts within a warp
    assert counted["stores_need"] == width * stores
    if loads is not None:
        assert counted["loads"] == loads and counted["loads_need"] == width * loads
