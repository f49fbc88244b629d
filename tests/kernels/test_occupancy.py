"""Occupancy by our arithmetic, against NVIDIA's published examples and against what ncu said of the same kernels."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from contracts import read_rows
from ptxsim import gpus
from ptxsim.count.occupancy import Occupancy
from ptxsim.count.occupancy import occupancy as of_limits


def occupancy(arch: str, *block: int) -> Occupancy:
    return of_limits(gpus.limits_of(arch), *block)


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "blocks", "warps", "limiter"),
    [
        # 65536 registers, 64 warps, 2048 threads: 32 registers a thread is the most at full occupancy
        ("sm_90", 256, 32, 0, 8, 64, "registers"),
        ("sm_80", 1024, 16, 0, 2, 64, "threads"),
        ("sm_86", 1024, 16, 0, 1, 32, "threads"),  # 48 warps: the second block of 32 does not fit
        ("sm_90", 32, 16, 0, 32, 32, "blocks"),
        ("sm_89", 32, 16, 0, 24, 24, "blocks"),
        ("sm_90", 128, 16, 227 * 1024, 1, 4, "shared"),  # the most a block may have, with the driver's 1 KB
        ("sm_90", 128, 16, 113 * 1024 + 1, 1, 4, "shared"),
        ("sm_86", 128, 16, 99 * 1024, 1, 4, "shared"),
        ("sm_120", 128, 16, 49 * 1024, 2, 8, "shared"),
        ("sm_90", 288, 168, 0, 1, 9, "registers"),
        ("sm_90", 1024, 65, 0, 0, 0, "registers"),  # cannot be launched
        ("sm_90", 33, 16, 0, 32, 64, "threads"),  # a part of a warp takes a whole one
    ],
)
def test_limits_by_hand(
    arch: str, threads: int, registers: int, shared: int, blocks: int, warps: int, limiter: str
) -> None:
    held = occupancy(arch, threads, registers, shared)
    assert (held.blocks_per_sm, held.warps_per_sm, held.limiter) == (blocks, warps, limiter)


def test_every_kernel_of_the_archive_agrees_with_ncu(archive: Path) -> None:
    """Registers, each limit, and the occupancy that ncu calls theoretical."""
    ncu: dict[str, dict[str, float]] = defaultdict(dict)
    for row in read_rows(archive / "counters.csv", "counters"):
        ncu[row["variant"]][row["metric"]] = row["value"]
    kernels = [row for row in read_rows(archive / "resources.csv", "resources") if row["variant"] in ncu]
    assert len(kernels) >= 10
    for row in kernels:
        seen, name = ncu[row["variant"]], row["variant"]
        held = occupancy(row["arch"], row["threads"], row["registers"], row["shared_bytes"])
        assert row["registers"] == seen["launch__registers_per_thread"], name
        assert held.blocks_by["registers"] == seen["launch__occupancy_limit_registers"], name
        assert held.blocks_by["threads"] == seen["launch__occupancy_limit_warps"], name
        assert held.blocks_by["blocks"] == seen["launch__occupancy_limit_blocks"], name
        assert 100 * held.fraction == pytest.approx(seen["sm__maximum_warps_per_active_cycle_pct"], abs=0.01), name
        assert (row["blocks_per_sm"], row["occupancy"]) == (held.blocks_per_sm, held.fraction), name
