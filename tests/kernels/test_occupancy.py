"""Occupancy by our arithmetic, against NVIDIA's published examples and against what ncu said of the
same kernels.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from helpers import dict_rows

from contracts.rows import Counters, Resources
from ptxsim import gpus
from ptxsim.count.occupancy import occupancy


def test_every_kernel_of_the_archive_agrees_with_ncu(archive: Path) -> None:
    """Registers, each limit, and the occupancy that ncu calls theoretical."""
    ncu: dict[str, dict[str, float]] = defaultdict(dict)
    for row in dict_rows(archive / "counters.csv", Counters):
        ncu[row["variant"]][row["metric"]] = row["value"]
    kernels = [
        row for row in dict_rows(archive / "resources.csv", Resources) if row["variant"] in ncu
    ]
    assert len(kernels) >= 10
    for row in kernels:
        seen, name = ncu[row["variant"]], row["variant"]
        held = occupancy(
            gpus.limits_of(row["arch"]), row["threads"], row["registers"], row["shared_bytes"]
        )
        assert row["registers"] == seen["launch__registers_per_thread"], name
        assert held.blocks_by["registers"] == seen["launch__occupancy_limit_registers"], name
        assert held.blocks_by["threads"] == seen["launch__occupancy_limit_warps"], name
        assert held.blocks_by["blocks"] == seen["launch__occupancy_limit_blocks"], name
        assert 100 * held.fraction == pytest.approx(
            seen["sm__maximum_warps_per_active_cycle_pct"], abs=0.01
        ), name
        assert (row["blocks_per_sm"], row["occupancy"]) == (held.blocks_per_sm, held.fraction), name
