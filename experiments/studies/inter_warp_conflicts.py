"""Counts shared-memory wavefronts where several warps store, next to those that each warp needs.

    python -m experiments.studies inter_warp_conflicts --build-dir results/build/sm_90a \
        --out inter_warp_conflicts.csv

One launch of inter_warp_conflicts.cu a row, read by ncu, with one block on each SM. What the
addresses within a warp need, ptxsim counts from the PTX.
"""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import ptxsim
from contracts import UserError, write_rows
from contracts.rows import InterWarpConflicts
from experiments.studies.counting import add_counted, built, counted, profiled

STEPS = 128  # of the tile loop of a launch
COUNTED_STEPS = 4, 8  # ptxsim counts launches of so few.
METRICS = {
    "load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "cycles": "sm__cycles_active.max",
}
GRID = "launch__grid_size"
NEEDED = {  # ptxsim counts these.
    "loads": "smsp__inst_executed_op_shared_ld.sum",
    "stores": "smsp__inst_executed_op_shared_st.sum",
    "loads_need": METRICS["load_wavefronts"],
    "stores_need": METRICS["store_wavefronts"],
}


@dataclass(frozen=True)
class Case:
    """One launch.

    kernel: its name in the table. entry: what its entry's name in the PTX contains. tile: m, n and
    k of a block. from_memory: it reads A and B row by row; otherwise both leading dimensions are 0,
    and it reads one row of each.
    """

    kernel: str
    entry: str
    tile: tuple[int, int, int]
    warps: int
    from_memory: bool = True
    steps: int = STEPS

    def arguments(self, grid: tuple[int, int], buffer: Any, c: Any) -> list[Any]:
        """Return a launch's arguments, with which a grid of blocks reads `buffer` and writes `c`."""
        m, n, k = map(np.int32, self.problem(grid))
        lda, ldb = (k, n) if self.from_memory else (np.int32(0), np.int32(0))
        return [m, n, k, np.float32(1), buffer, lda, buffer, ldb, np.float32(0), c, n]

    def problem(self, grid: tuple[int, int]) -> tuple[int, int, int]:
        """Return m, n and k that a grid of blocks computes."""
        m, n, k = self.tile
        return m * grid[1], n * grid[0], k * self.steps

    def nbytes(self, grid: tuple[int, int]) -> int:
        """Return what each of both buffers must hold, in bytes."""
        m, n, k = self.problem(grid)
        return 4 * max(m * k, k * n, m * n)


OF_2D, OF_SWIZZLE = (
    "sgemm_blocktile_2dILi{}ELi{}E",
    "sgemm_at_swizzleILi128ELi128ELi16EL5Order0ELb{}E",
)
CASES = (
    Case("sgemm_blocktile_2d", OF_2D.format(64, 32), (64, 32, 8), 1),
    Case("sgemm_blocktile_2d", OF_2D.format(128, 128), (128, 128, 8), 8),
    Case("sgemm_blocktile_2d", OF_2D.format(128, 128), (128, 128, 8), 8, from_memory=False),
    Case("sgemm_at_swizzle", OF_SWIZZLE.format(1), (128, 128, 16), 8),
    Case("sgemm_at_swizzle_without_b", OF_SWIZZLE.format(0), (128, 128, 16), 8),
)


def grid_of(blocks: int) -> tuple[int, int]:
    """Return a grid of so many blocks, as near to a square as there is."""
    rows = max(i for i in range(1, math.isqrt(blocks) + 1) if blocks % i == 0)
    return blocks // rows, rows


def needed(kernel: ptxsim.Kernel, case: Case) -> dict[str, int]:
    """Return what a block of a case executes and needs.

    Every step of the loop costs the same, so a few steps tell the rest.
    """
    counted = []
    for steps in COUNTED_STEPS:
        small, counters = replace(case, steps=steps), ptxsim.Counters()
        buffer, c = (ptxsim.Array(np.zeros(small.nbytes((1, 1)), np.uint8)) for _ in range(2))
        arguments = small.arguments((1, 1), buffer, c)
        kernel.launch(1, 32 * case.warps, arguments, 0, observers=[counters], checks=False)
        totals = counters.totals()
        counted.append(np.array([totals[metric] for metric in NEEDED.values()]))
    slope = (counted[1] - counted[0]) / (COUNTED_STEPS[1] - COUNTED_STEPS[0])
    values = counted[0] + slope * (case.steps - COUNTED_STEPS[0])
    return {name: round(float(value)) for name, value in zip(NEEDED, values, strict=True)}


def launch_all(build_dir: Path) -> None:
    """Launch every case once, between the profiler's marks."""
    from cuda.core import LaunchConfig, launch

    from experiments.gpu.device import Gpu, Memory, load_cubin

    gpu, names = Gpu(build_dir), entries(build_dir)
    module = load_cubin(build_dir / "inter_warp_conflicts.cubin")
    grid = grid_of(gpu.sm_count)
    buffer, c = (Memory(max(case.nbytes(grid) for case in CASES)) for _ in range(2))
    with profiled(gpu):
        for case in CASES:
            config = LaunchConfig(grid=grid, block=32 * case.warps)
            arguments = case.arguments(grid, buffer.address, c.address)
            launch(gpu.stream, config, module.get_kernel(find(names, case)), *arguments)


def entries(build_dir: Path) -> list[str]:
    """Return the names of all entries of the PTX."""
    text = built(build_dir, "inter_warp_conflicts.ptx").read_text()
    return re.findall(r"^\.visible \.entry (\w+)\(", text, re.M)


def find(names: list[str], case: Case) -> str:
    """Return the entry of a case."""
    return next(name for name in names if case.entry in name)


def read(launches: list[dict[str, Any]], build_dir: Path) -> list[dict[str, Any]]:
    """Return rows of inter_warp_conflicts.csv: the launches of a report, in the order of `CASES`."""
    names = entries(build_dir)
    module = ptxsim.load(build_dir / "inter_warp_conflicts.ptx", names[0]).module
    rows = []
    for case, launch in zip(CASES, launches, strict=True):
        if launch["name"] != case.entry.partition("IL")[0]:
            raise UserError(f"the report has a launch of {launch['name']}, expected {case.entry}")
        metrics = {name: value for name, (value, _) in launch["metrics"].items()}
        of_block = needed(ptxsim.Kernel(module, find(names, case)), case)
        source = "A and B" if case.from_memory else "neither"
        row = {"kernel": case.kernel, "bits": None, "source": source, "warps": case.warps}
        row |= {"blocks_per_sm": 1, "steps": case.steps}
        row |= {name: int(metrics[GRID]) * count for name, count in of_block.items()}
        rows.append(row | {name: metrics[metric] for name, metric in METRICS.items()})
    return rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the study."""
    add_counted(parser)


def run(options: argparse.Namespace) -> None:
    """Write the table, or launch what it counts."""
    metrics = [GRID, *METRICS.values()]
    launches = counted(options, "inter_warp_conflicts", metrics, launch_all)
    if launches is not None:
        write_rows(options.out, InterWarpConflicts, read(launches, options.build_dir))
