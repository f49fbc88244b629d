"""Steps of the ladders: which counter moved, what warps waited for, and how time followed."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from helpers import ROOT
from machine_folder import Folder

from analysis.quantities.machine import Machine
from analysis.tables import bounds, steps
from contracts import UserError, read_rows, worklogs
from kernels import catalogue


@pytest.fixture
def folder(tmp_path: Path, archive: Path) -> Folder:
    return Folder(tmp_path, archive)


def made(folder: Folder, out: Path) -> list[dict[str, str]]:
    """The table, made by the command."""
    done = folder.made(out.parent, "steps")
    assert done.returncode == 0, done.stderr
    return list(csv.DictReader(out.open()))


def bench(folder: Folder, variant: str) -> dict[str, float]:
    """The row of a variant's time at n = 4096 that stands on the most samples."""
    rows = [
        row
        for row in folder.rows("bench")
        if (row["variant"], row["n"], row["data"], row["regime"]) == (variant, 4096, "uniform", "unlocked")
    ]
    return max(rows, key=lambda row: row["samples"])


def test_every_step_is_of_rungs_of_the_catalogue_and_none_is_reported_twice() -> None:
    plan = worklogs.steps(ROOT / worklogs.FOLDER)
    names = set(catalogue.load().runnable)
    assert {step["variant"] for step in plan} | {step["over"] for step in plan} <= names
    assert len({(step["variant"], step["over"]) for step in plan}) == len(plan) > 20


def test_a_row_holds_what_was_measured_before_and_after(folder: Folder, tmp_path: Path) -> None:
    rows = made(folder, tmp_path / "steps.csv")
    row = next(r for r in rows if r["variant"] == "sgemm_coalesced" and r["counter"] == "global_load_sectors")
    metric = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
    counted = {r["variant"]: r["value"] for r in folder.rows("counters") if r["metric"] == metric and r["n"] == 4096}
    assert float(row["before"]) == pytest.approx(counted["sgemm_naive"], rel=1e-5)
    assert float(row["after"]) == pytest.approx(counted["sgemm_coalesced"], rel=1e-5)
    assert row["moved"] == "as meant" and row["meant"] == "fall" and row["stale"] == "false"
    old, new = (bench(folder, name) for name in ("sgemm_naive", "sgemm_coalesced"))
    speedup = old["time_us_median"] / new["time_us_median"]
    assert float(row["speedup"]) == pytest.approx(speedup, rel=1e-5)
    assert float(row["speedup_ci_low"]) <= speedup <= float(row["speedup_ci_high"])
    assert (row["stall_before"], row["bound_before"]) == ("LG throttle", "L1 lookups")


def test_the_bound_is_the_largest_of_its_kernel(folder: Folder, tmp_path: Path) -> None:
    least = read_rows(folder.measured / "bounds.csv", "bounds")
    counted = {row["variant"] for row in read_rows(folder.measured / "counters.csv", "counters")}
    for row in made(folder, tmp_path / "steps.csv"):
        of = {r["resource"]: r["cycles_per_sm"] for r in least if (r["variant"], r["n"]) == (row["variant"], 4096)}
        of = {name: cycles for name, cycles in of.items() if name in steps.bounds.RESOURCES}
        if of and row["variant"] in counted:
            assert row["bound_after"] == steps.bounds.RESOURCES[max(of, key=lambda name: of[name])], row["variant"]


@pytest.mark.parametrize(
    ("before", "after", "meant", "expected"),
    [
        (100.0, 50.0, "fall", "as meant"),
        (100.0, 50.0, "rise", "the other way"),
        (100.0, 99.0, "fall", "hardly"),
        (100.0, 101.9, "rise", "hardly"),
        (0.0, 0.0, "fall", "hardly"),
        (0.0, 1.0, "rise", "as meant"),
        (None, 1.0, "rise", ""),
        (1.0, None, "rise", ""),
    ],
)
def test_a_counter_moves_as_meant_the_other_way_or_hardly(
    before: float | None, after: float | None, meant: str, expected: str
) -> None:
    assert steps.movement(before, after, meant) == expected


def test_what_was_not_measured_is_empty_and_what_failed_has_no_time(folder: Folder, tmp_path: Path) -> None:
    folder.edit("counters", lambda row: None, keep=lambda row: row["variant"] != "sgemm_at_swizzle")
    folder.edit("checks", lambda row: {"passed": False} if row["variant"] == "sgemm_warptile" else None)
    rows = made(folder, tmp_path / "steps.csv")
    (row,) = [r for r in rows if r["variant"] == "sgemm_at_swizzle"]
    assert (row["after"], row["moved"], row["stall_after"]) == ("", "", "") and float(row["speedup"]) > 1
    assert all(r["speedup"] == "" and r["after"] == "" for r in rows if r["variant"] == "sgemm_warptile")


def test_a_step_of_an_edited_kernel_is_stale(folder: Folder, tmp_path: Path) -> None:
    folder.edit("variants", lambda row: {"source_hash": "0" * 16} if row["variant"] == "sgemm_naive" else None)
    stale = {row["variant"] for row in made(folder, tmp_path / "steps.csv") if row["stale"] == "true"}
    assert stale == {"sgemm_coalesced"}


def test_an_unknown_counter_is_one_line(folder: Folder) -> None:
    step = {"part": "A", "variant": "sgemm_coalesced", "over": "sgemm_naive", "changed": "its order"}
    plan = [step | {"counters": [{"key": "global_load_sector", "meant": "fall"}]}]
    inputs = folder.inputs()
    least = bounds.bottlenecks(bounds.shares(inputs.measured().counters, inputs.rows("bounds")))
    with pytest.raises(UserError, match=r"global_load_sector.*sgemm_coalesced.*nearest: global_load_sectors"):
        steps.steps(Machine(inputs), least, plan)
