"""Wavefronts between warps: which kernels are launched, and what the study counts itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from helpers import dict_rows, refused

from contracts.rows import InterWarpConflicts
from experiments.stages.build import compile_source
from experiments.stages.toolchain import nvcc
from experiments.studies import inter_warp_conflicts
from experiments.studies.inter_warp_conflicts import CASES, GRID, METRICS, entries, read

COUNTED = ("loads", "stores", "loads_need", "stores_need")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("g++"):
        pytest.skip("nvcc needs g++")
    folder = tmp_path_factory.mktemp("inter_warp_conflicts")
    source = Path(inter_warp_conflicts.__file__).with_name("inter_warp_conflicts.cu")
    compile_source(source, folder / "inter_warp_conflicts", "sm_90a", nvcc(None))
    return folder


def test_the_rows_are_those_of_the_archive(built: Path) -> None:
    """Of a report with no more wavefronts than are needed, on the archive's 132 SMs."""
    names = entries(built)
    assert len({inter_warp_conflicts.find(names, case) for case in CASES}) == len(names) == 4
    metrics = {name: (1.0, "") for name in METRICS.values()} | {GRID: (132.0, "")}
    report = [{"name": case.entry.partition("IL")[0], "metrics": metrics} for case in CASES]
    archived = dict_rows(Path("data/h100/inter_warp_conflicts.csv"), InterWarpConflicts)
    keys = ("kernel", "bits", "source", "warps", "blocks_per_sm", "steps", *COUNTED)
    known = {tuple(row[key] for key in keys) for row in archived}
    assert {tuple(row[key] for key in keys) for row in read(report, built)} <= known


def test_a_report_of_other_launches_is_refused(built: Path) -> None:
    with refused("a launch of other, expected sgemm_blocktile_2d"):
        read([{"name": "other", "metrics": {}}] * len(CASES), built)
