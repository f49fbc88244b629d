"""What follows from numbers alone: occupancies and bank conflicts with known answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers import run_module

from contracts import UserError
from contracts.declared import AnalyticCase
from experiments.stages import analytic

IN_A_ROW = {"wavefronts": 4, "ideal_wavefronts": 4, "degree": 1, "banks": 32}


def of(case: dict[str, Any]) -> dict[str, Any]:
    """The quantities of one case."""
    rows = analytic.rows({"case": AnalyticCase.model_validate(case)}, "cases.yaml")
    return {row.quantity: row.value for row in rows}


def access(address: str, size: int = 4, kind: str = "load", **more: int) -> dict[str, Any]:
    return of({"access": {"kind": kind, "bytes": size, "address": address, **more}})


def test_occupancy_that_a_reader_can_work_out() -> None:
    """65536 registers over 256 threads of 64 are 4 blocks, 32 of an A6000's 48 warps."""
    found = of({"occupancy": {"arch": "sm_86", "threads": 256, "registers": 64, "shared_bytes": 0}})
    assert (found["blocks_per_sm"], found["warps_per_sm"], found["limiter"]) == (4, 32, "registers")
    assert found["occupancy"] == pytest.approx(32 / 48) and found["blocks_by_threads"] == 6


def test_wide_accesses_go_in_parts() -> None:
    """512 bytes in a row need four wavefronts, none of them for a conflict; a load of equal pairs
    half of that.
    """
    assert access("lane * 16", 16) == IN_A_ROW
    assert access("lane * 8", 8)["wavefronts"] == 2
    assert access("lane // 2 * 16", 16)["wavefronts"] == 2
    assert access("lane // 2 * 16", 16, "store")["wavefronts"] == 4
    far = access("lane * 128", 16)
    assert far["degree"] == 8 and far["wavefronts"] == 32
    assert access("lane * 128", lanes=5)["degree"] == 5


def test_ldmatrix_and_cp_async_go_by_rows_and_lines() -> None:
    """Eight rows of 16 bytes: in one wavefront if they are neighbours, in eight if 128 bytes lie
    between them.
    """
    near = {"kind": "ldmatrix", "bytes": 16, "address": "lane * 16"}
    assert of({"access": near}) == IN_A_ROW
    far = of({"access": near | {"address": "lane * 128"}})
    assert (far["wavefronts"], far["degree"], far["banks"]) == (32, 8, 4)
    copy = {"kind": "cp_async", "bytes": 4, "address": "lane * 4", "source": "lane * 4"}
    assert of({"access": copy})["wavefronts"] == 1
    # a line of its own for each
    assert of({"access": copy | {"source": "lane * 4096"}})["wavefronts"] == 32


@pytest.mark.parametrize(("arch", "begins", "misplaced"), [("sm_80", 0, 0), ("sm_90a", 1024, 1024)])
def test_a_switch_between_slots_misplaces_what_lies_beyond_the_first_bit(
    arch: str, begins: int, misplaced: int
) -> None:
    """From byte 1024 on, the second half of a slot of 2048 bytes has the bit that is switched."""
    found = of({"switch": {"arch": arch, "slot_bytes": 2048, "used_bytes": 2048}})
    assert found == {"begins_at": begins, "misplaced_bytes": misplaced}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"kind": "cp_async"}, "source"),
        ({"source": "lane * 4"}, "source"),
        ({"kind": "ldmatrix"}, "bytes = 4"),
        ({"address": "lane +"}, "'lane +'"),
        ({"address": "thread * 4"}, "'thread'"),
        ({"address": "max(lane, 2)"}, "max"),
        ({"address": "lane // 0"}, "lane // 0"),
        ({"address": "lane - 1"}, "is -1 for lane 0"),
        ({"address": "lane * 2"}, "is 2 for lane 1"),
        ({"address": "0.5"}, "is 0.5 for lane 0"),
        ({"address": "1 << 99999999999"}, "1 << 99999999999"),
        ({"address": "lane * 4 << 61"}, "4294967296"),
    ],
)
def test_a_bad_access_is_one_line(more: dict[str, str], said: str) -> None:
    with pytest.raises(UserError, match=r"^cases.yaml: case") as error:
        of({"access": {"kind": "load", "bytes": 4, "address": "lane * 4"} | more})
    assert said in str(error.value) and "\n" not in str(error.value)


def test_every_bad_case_is_reported_and_nothing_written(tmp_path: Path) -> None:
    cases = tmp_path / "cases.yaml"
    occupancy = "{occupancy: {arch: sm_61, threads: 32, registers: 1, shared_bytes: 0}}"
    cases.write_text(
        f"one: {{access: {{kind: load, bytes: 4, address: 'lane *'}}}}\ntwo: {occupancy}\n"
        "good: {access: {kind: load, bytes: 4, address: '0'}}\n"
    )
    out = tmp_path / "out.csv"
    done = run_module("experiments.stages.analytic", "--cases", cases, "--out", out)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 2 and len(lines) == 2
    assert all(line.startswith(f"error: {cases}: ") for line in lines)
    assert "/one: address" in lines[0] and "/two: arch = 'sm_61': limits unknown" in lines[1]
    assert not out.exists()
