"""Occupancy by our arithmetic, against NVIDIA's published examples and against what ncu said of the
same kernels.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from helpers import dict_rows

from contracts import read_rows
from contracts.rows import Counters, Resources
from ptxsim import gpus
from ptxsim.count.occupancy import occupancy


def test_every_kernel_of_the_archive_agrees_with_ncu(archive: Path) -> None:
    """Registers, each limit, and the occupancy that ncu calls theoretical."""
    ncu: dict[str, dict[str, float]] = defaultdict(dict)
    for row in dict_rows(archive / "counters.csv", Counters):
        ncu[row["variant"]][row["metric"]] = row["value"]
    kernels = [row for row in read_rows(archive / "resources.csv", Resources) if row.variant in ncu]
    assert len(kernels) >= 10
    for row in kernels:
        seen, limits = ncu[row.variant], gpus.limits_of(row.arch)
        held = occupancy(limits, row.threads, row.registers, row.shared_bytes)
        assert row.registers == seen["launch__registers_per_thread"], row.variant
        for unit, word in (("registers", "registers"), ("threads", "warps"), ("blocks", "blocks")):
            assert held.blocks_by[unit] == seen[f"launch__occupancy_limit_{word}"], row.variant
        theoretical = seen["sm__maximum_warps_per_active_cycle_pct"]
        assert 100 * held.fraction == pytest.approx(theoretical, abs=0.01), row.variant
        assert (row.blocks_per_sm, row.occupancy) == (held.blocks_per_sm, held.fraction)
