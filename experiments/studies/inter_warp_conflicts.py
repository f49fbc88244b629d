"""Shared-memory wavefronts that the hardware counts where several warps store, next to those that
each warp needs.

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
from experiments.command_line import add_build_dir
from experiments.gpu.session import session
from experiments.stages.profile import under_ncu

STEPS, FEW = 128, (4, 8)  # of the tile loop: as launched, and as counted by ptxsim
METRICS = {
    "load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "cycles": "sm__cycles_active.max",
}
GRID = "launch__grid_size"
NEEDED = {  # what ptxsim counts
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
        """Arguments of a launch of a grid of blocks, which reads `buffer` and writes `c`."""
        m, n, k = map(np.int32, self.problem(grid))
        lda, ldb = (k, n) if self.from_memory else (np.int32(0), np.int32(0))
        return [m, n, k, np.float32(1), buffer, lda, buffer, ldb, np.float32(0), c, n]

    def problem(self, grid: tuple[int, int]) -> tuple[int, int, int]:
        """m, n and k that a grid of blocks computes."""
        m, n, k = self.tile
        return m * grid[1], n * grid[0], k * self.steps

    def nbytes(self, grid: tuple[int, int]) -> int:
        """What each of both buffers must hold."""
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
    """So many blocks, in a rectangle near a square."""
    rows = max(i for i in range(1, math.isqrt(blocks) + 1) if blocks % i == 0)
    return blocks // rows, rows


def needed(kernel: ptxsim.Kernel, case: Case) -> dict[str, int]:
    """What a block of a case executes and needs, from a few steps of its loop; every step costs the
    same.
    """
    counted = []
    for steps in FEW:
        small, counters = replace(case, steps=steps), ptxsim.Counters()
        buffer, c = (ptxsim.Array(np.zeros(small.nbytes((1, 1)), np.uint8)) for _ in range(2))
        kernel.launch(
            1,
            32 * case.warps,
            small.arguments((1, 1), buffer, c),
            0,
            observers=[counters],
            checks=False,
        )
        counted.append(counters.totals())
    few, more = counted
    slope = {
        name: (more[metric] - few[metric]) / (FEW[1] - FEW[0]) for name, metric in NEEDED.items()
    }
    return {name: round(few[NEEDED[name]] + slope[name] * (case.steps - FEW[0])) for name in NEEDED}


def launch_all(build_dir: Path) -> None:
    """Launch every case once, between the profiler's marks."""
    from cuda.bindings import driver
    from cuda.core import LaunchConfig, launch

    from experiments.gpu.device import Gpu, Memory, cuda, load_cubin

    gpu = Gpu(build_dir)
    module, names = load_cubin(build_dir / "inter_warp_conflicts.cubin"), entries(build_dir)
    grid = grid_of(gpu.sm_count)
    buffer, c = (Memory(max(case.nbytes(grid) for case in CASES)) for _ in range(2))
    gpu.sync()
    cuda(driver.cuProfilerStart())
    for case in CASES:
        config = LaunchConfig(grid=grid, block=32 * case.warps)
        arguments = case.arguments(grid, buffer.address, c.address)
        launch(gpu.stream, config, module.get_kernel(find(names, case)), *arguments)
    gpu.sync()
    cuda(driver.cuProfilerStop())


def entries(build_dir: Path) -> list[str]:
    """Names of all entries of the PTX."""
    path = build_dir / "inter_warp_conflicts.ptx"
    if not path.is_file():
        source = "experiments/studies/inter_warp_conflicts.cu"
        raise UserError(f"{path}: not built; python -m experiments.stages.build --source {source}")
    return re.findall(r"^\.visible \.entry (\w+)\(", path.read_text(), re.M)


def find(names: list[str], case: Case) -> str:
    """The entry of a case."""
    return next(name for name in names if case.entry in name)


def read(launches: list[dict[str, Any]], build_dir: Path) -> list[dict[str, Any]]:
    """Rows of inter_warp_conflicts.csv: the launches of a report, in the order of `CASES`."""
    names = entries(build_dir)
    module = ptxsim.load(build_dir / "inter_warp_conflicts.ptx", names[0]).module
    rows = []
    for case, launch in zip(CASES, launches, strict=True):
        if launch["name"] != case.entry.partition("IL")[0]:
            raise UserError(f"the report has a launch of {launch['name']}, expected {case.entry}")
        metrics = {name: value for name, (value, _) in launch["metrics"].items()}
        of_block = needed(ptxsim.Kernel(module, find(names, case)), case)
        source = "A and B" if case.from_memory else "neither"
        row = {
            "kernel": case.kernel,
            "bits": None,
            "source": source,
            "warps": case.warps,
            "blocks_per_sm": 1,
        }
        row |= {"steps": case.steps} | {
            name: int(metrics[GRID]) * count for name, count in of_block.items()
        }
        rows.append(row | {name: metrics[metric] for name, metric in METRICS.items()})
    return rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the study."""
    add_build_dir(parser)
    parser.add_argument("--out", type=Path, help="written: inter_warp_conflicts.csv")
    parser.add_argument("--launch", action="store_true", help="only launch them: what ncu runs")


def run(options: argparse.Namespace) -> None:
    """Writes the table."""
    with session():
        if options.launch:
            launch_all(options.build_dir)
            return
        study = ["experiments.studies", "inter_warp_conflicts"]
        command = ["-m", *study, "--launch", "--build-dir", str(options.build_dir)]
        launches = under_ncu(command, [GRID, *METRICS.values()])
        write_rows(options.out, InterWarpConflicts, read(launches, options.build_dir))
