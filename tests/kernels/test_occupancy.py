"""Occupancy by our arithmetic, against NVIDIA's published examples and against what ncu said of the same kernels."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from contracts import read_rows
from ptxsim import gpus
from ptxsim.count.occupancy import Occupancy
from ptxsim.count.occupancy import occupancy as of_limits

# Shared-memory capacities that an SM of capability 9.0 can be set to, in KB (CUDA C++ Programming Guide, "Compute
# Capability 9.x, Shared Memory"). The driver takes a small one where that is enough, and ncu's limit is of that one.
CARVEOUTS_90 = (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)


def occupancy(arch: str, *block: int) -> Occupancy:
    return of_limits(gpus.limits_of(arch), *block)


@pytest.mark.parametrize(("threads", "blocks", "percent"), [(128, 12, 75), (320, 4, 62.5)])
def test_the_best_practices_guide_s_example(threads: int, blocks: int, percent: float) -> None:
    """CUDA C++ Best Practices Guide, "Calculating Occupancy": 37 registers; 12 blocks of 128 (75%), 4 of 320 (63%)."""
    held = occupancy("sm_90a", threads, 37, 0)
    assert (held.blocks_per_sm, 100 * held.fraction, held.limiter) == (blocks, percent, "registers")


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "blocks", "warps", "limiter"),
    [
        # 65536 registers, 64 warps, 2048 threads: 32 registers a thread is the most at full occupancy
        ("sm_90", 256, 32, 0, 8, 64, "registers"),
        ("sm_90", 256, 33, 0, 6, 48, "registers"),  # 40 by the unit of 256 a warp: 12 warps a scheduler
        ("sm_80", 1024, 16, 0, 2, 64, "threads"),
        ("sm_86", 1024, 16, 0, 1, 32, "threads"),  # 48 warps: the second block of 32 does not fit
        ("sm_90", 32, 16, 0, 32, 32, "blocks"),
        ("sm_86", 32, 16, 0, 16, 16, "blocks"),
        ("sm_89", 32, 16, 0, 24, 24, "blocks"),
        ("sm_120", 32, 16, 0, 24, 24, "blocks"),
        ("sm_90", 128, 16, 227 * 1024, 1, 4, "shared"),  # the most a block may have, with the driver's 1 KB
        ("sm_90", 128, 16, 113 * 1024, 2, 8, "shared"),
        ("sm_90", 128, 16, 113 * 1024 + 1, 1, 4, "shared"),
        ("sm_80", 128, 16, 163 * 1024, 1, 4, "shared"),
        ("sm_86", 128, 16, 99 * 1024, 1, 4, "shared"),
        ("sm_120", 128, 16, 49 * 1024, 2, 8, "shared"),
        ("sm_90", 256, 255, 0, 1, 8, "registers"),
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


def test_shared_memory_of_a_block_agrees_with_ncu(archive: Path) -> None:
    """ncu's limit is one of the SM's carveouts over our bytes of a block, the driver's reserve included."""
    limits = {
        row["variant"]: row["value"]
        for row in read_rows(archive / "counters.csv", "counters")
        if row["metric"] == "launch__occupancy_limit_shared_mem"
    }
    counted = [row for row in read_rows(archive / "resources.csv", "resources") if row["variant"] in limits]
    assert len(counted) > 60
    for row in counted:
        held = occupancy(row["arch"], row["threads"], row["registers"], row["shared_bytes"])
        possible = {
            size * 1024 // (row["shared_bytes"] + gpus.LIMITS[90].shared_bytes_reserved) for size in CARVEOUTS_90
        }
        assert limits[row["variant"]] in possible, row["variant"]
        assert held.blocks_per_sm <= limits[row["variant"]] <= held.blocks_by["shared"], row["variant"]
