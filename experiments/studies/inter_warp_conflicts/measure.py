"""Which pieces of a tile loop make the hardware count more shared-memory wavefronts than each warp's addresses need.

    python -m experiments.studies.inter_warp_conflicts.measure --build-dir results/build/sm_90a \
        --out inter_warp_conflicts.csv

One launch of inter_warp_conflicts.cu a row, read by ncu: pieces of the loop, and catalogue kernels in tiles of one to
eight warps, with one or two blocks on each SM. What the addresses within a warp need, ptxsim counts from the PTX.
"""

from __future__ import annotations

import argparse
import functools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import ptxsim
from contracts import UserError, run_command, write_rows
from experiments.command_line import add_build_dir
from experiments.gpu.session import session
from experiments.stages.profile import under_ncu

STEPS, FEW = 128, (4, 8)  # of the loop: as launched, and as counted by ptxsim
PIECES = {  # kernel -> whether its global loads can be aimed at L1 or past it, least warps
    "store": (False, 1),
    "store_load": (False, 1),
    "copy": (True, 1),
    "copy_load": (True, 1),
    "unfed_store_load": (True, 1),
    "global_and_load": (True, 1),
    "store_beside_load": (False, 2),
    "global_beside_store": (True, 2),
    "global_beside_load": (True, 2),
    "copy_beside_load": (True, 2),
}
ROWS_FIRST = "Order::rows"
WITHOUT_B = "sgemm_at_swizzle_without_b"  # sgemm_at_swizzle that stores no tile of B but the first: C is wrong
# warps -> template arguments, of which the first three are m, n and k of the tile
GEMMS: dict[str, dict[int, tuple[int | bool | str, ...]]] = {
    "sgemm_blocktile_2d": {
        1: (64, 32, 8, 8, 8, 0, False),
        2: (64, 64, 8, 8, 8, 0, False),
        4: (128, 64, 8, 8, 8, 0, False),
        8: (128, 128, 8, 8, 8, 0, False),
    },
    "sgemm_vectorized": {
        1: (64, 32, 8, 8, 8, 0, False),
        2: (64, 64, 8, 8, 8, 0, False),
        4: (128, 64, 8, 8, 8, 0, False),
        8: (128, 128, 8, 8, 8, 0, False),
    },
    "sgemm_warptile": {
        1: (64, 64, 16, 64, 64, 4, 8, 4, 32),
        2: (64, 128, 16, 64, 64, 4, 8, 4, 64),
        4: (128, 128, 16, 64, 64, 4, 8, 4, 128),
    },
    "sgemm_at_swizzle": {
        1: (64, 32, 16, ROWS_FIRST, True),
        2: (64, 64, 16, ROWS_FIRST, True),
        4: (128, 64, 16, ROWS_FIRST, True),
        8: (128, 128, 16, ROWS_FIRST, True),
    },
    WITHOUT_B: {8: (128, 128, 16, ROWS_FIRST, False)},
    "sgemm_smem_tile": {32: (32,)},
    "sgemm_blocktile_1d": {16: (64, 64, 8, 8)},
    "sgemm_at_swizzle_dbf_rw": {8: (128, 128, 16, ROWS_FIRST, 2)},
}
# Which matrices are read from memory, row by row; of the other one the leading dimension is 0: one row, soon in L1
READ = {"A and B": (True, True), "A": (True, False), "B": (False, True), "neither": (False, False)}
SECTOR = 32  # bytes
ROW_BYTES = {32: 128, 128: 512}  # of a warp
ROWS = 4
SHARED_BYTES = 16 * ROWS * 512  # the largest tile of the pieces
SOURCE_BYTES = 2**25  # what pieces read: more than L1, less than L2
FEW_BYTES = 2**16  # the same on ptxsim, where nothing depends on it
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
    """One launch."""

    kernel: str
    bits: int | None
    source: str | None  # L1 or L2, also scattered; of a catalogue kernel a key of `READ`
    warps: int
    blocks_per_sm: int
    steps: int = STEPS

    @property
    def function(self) -> str:
        """The name of its function, without template arguments."""
        return "sgemm_at_swizzle" if self.kernel == WITHOUT_B else self.kernel

    @property
    def template(self) -> tuple[int | bool | str, ...]:
        """Template arguments of a catalogue kernel; of a piece none."""
        return GEMMS[self.kernel][self.warps] if self.kernel in GEMMS else ()

    @property
    def tile(self) -> tuple[int, ...]:
        """m, n and k of a catalogue kernel's tile; of a piece none."""
        sides = 3 * self.template if self.kernel == "sgemm_smem_tile" else self.template
        return tuple(int(side) for side in sides[:3])

    @property
    def entry(self) -> str:
        """What the entry's name contains."""
        if not self.tile:
            return f"{self.kernel}_{self.bits}"
        return f"{self.function}I" + "".join(map(mangled, self.template)) + "E"

    def grid(self, blocks: int) -> tuple[int, int]:
        """So many blocks; of a catalogue kernel in a rectangle near a square."""
        if not self.tile:
            return blocks, 1
        rows = max(i for i in range(1, math.isqrt(blocks) + 1) if blocks % i == 0)
        return blocks // rows, rows

    def problem(self, blocks: int) -> tuple[int, int, int]:
        """m, n, k of a catalogue kernel that so many blocks compute."""
        columns, rows = self.grid(blocks)
        if self.kernel == "sgemm_smem_tile":
            columns, rows = rows, columns
        m, n, k = self.tile
        return m * rows, n * columns, k * self.steps

    def nbytes(self, blocks: int) -> int:
        """What a catalogue kernel's buffer must hold: the one that it reads and the one that it writes."""
        m, n, k = self.problem(blocks)
        return 4 * max(m * k, k * n, m * n)

    def arguments(self, blocks: int, buffer: Any, c: Any, nbytes: int = SOURCE_BYTES) -> list[Any]:
        """Arguments of a launch of so many blocks; `buffer` and `c` are what is read, and what is written."""
        if self.bits is not None:  # a piece
            row = ROW_BYTES[self.bits]
            scattered, from_l2 = "scattered" in (self.source or ""), "L2" in (self.source or "")
            stride = (SECTOR if scattered else row * ROWS * self.warps * blocks) if from_l2 else 0
            lanes = SECTOR * 32 // row if scattered else 32
            return [buffer, np.uint32(nbytes), np.uint32(stride), np.uint32(lanes), np.int32(self.steps), c]
        m, n, k = map(np.int32, self.problem(blocks))
        assert self.source is not None  # of a catalogue kernel
        a_is_read, b_is_read = READ[self.source]
        lda, ldb = (k if a_is_read else np.int32(0)), (n if b_is_read else np.int32(0))
        return [m, n, k, np.float32(1), buffer, lda, buffer, ldb, np.float32(0), c, n]


def mangled(value: int | bool | str) -> str:
    """A template argument as it stands in a symbol: a number, a truth, or Order's first value."""
    if value == ROWS_FIRST:
        return "L5Order0E"
    return f"Lb{value:d}E" if isinstance(value, bool) else f"Li{value}E"


def cases() -> Iterator[Case]:
    """Every launch in order."""
    for kernel, by_warps in GEMMS.items():
        for blocks in (1, 2):
            yield from (Case(kernel, None, "A and B", warps, blocks) for warps in by_warps)
            most = max(by_warps)
            yield from (Case(kernel, None, source, most, blocks) for source in READ if source != "A and B")
    for kernel, (aimed, least) in PIECES.items():
        for source in ("L1", "L2", "L1 scattered", "L2 scattered") if aimed else (None,):
            yield from (Case(kernel, 32, source, warps, 1) for warps in (1, 2, 8, 16) if warps >= least)
            yield from (Case(kernel, bits, source, 8, 2) for bits in (32, 128))


def needed(kernel: ptxsim.Kernel, case: Case) -> dict[str, int]:
    """What one block executes, and needs by the rules within a warp; every step costs the same."""
    counted = []
    for steps in FEW:
        small = replace(case, steps=steps)
        counters = ptxsim.Counters()
        nbytes = small.nbytes(1) if small.tile else FEW_BYTES
        buffer, c = (ptxsim.Array(np.zeros(nbytes, np.uint8)) for _ in range(2))
        arguments = small.arguments(1, buffer, c, nbytes)
        kernel.launch(1, 32 * case.warps, arguments, SHARED_BYTES if case.bits else 0, [counters], checks=False)
        counted.append(counters.totals())
    few, more = counted
    slope = {name: (more[metric] - few[metric]) / (FEW[1] - FEW[0]) for name, metric in NEEDED.items()}
    return {name: round(few[NEEDED[name]] + slope[name] * (case.steps - FEW[0])) for name in NEEDED}


def launch_all(build_dir: Path) -> None:
    """Launch every case once, between the profiler's marks."""
    from cuda.bindings import driver
    from cuda.core import LaunchConfig, launch

    from experiments.gpu.device import Gpu, Memory, cuda, load_cubin

    gpu = Gpu(build_dir)
    module = load_cubin(build_dir / "inter_warp_conflicts.cubin")
    names = entries(build_dir)
    todo = list(cases())
    nbytes = max(case.nbytes(case.blocks_per_sm * gpu.sm_count) for case in todo if case.tile)
    buffer, c = (Memory(max(nbytes, SOURCE_BYTES)) for _ in range(2))
    gpu.sync()
    cuda(driver.cuProfilerStart())
    for case in todo:
        blocks = case.blocks_per_sm * gpu.sm_count
        shared = SHARED_BYTES if case.bits else 0
        config = LaunchConfig(grid=case.grid(blocks), block=32 * case.warps, shmem_size=shared)
        arguments = case.arguments(blocks, buffer.address, c.address)
        launch(gpu.stream, config, module.get_kernel(find(names, case)), *arguments)
    gpu.sync()
    cuda(driver.cuProfilerStop())


def entries(build_dir: Path) -> list[str]:
    """Names of all entries of the PTX."""
    path = build_dir / "inter_warp_conflicts.ptx"
    if not path.is_file():
        source = "experiments/studies/inter_warp_conflicts/inter_warp_conflicts.cu"
        raise UserError(f"{path}: not built; python -m experiments.stages.build --source {source}")
    return re.findall(r"^\.visible \.entry (\w+)\(", path.read_text(), re.M)


def find(names: list[str], case: Case) -> str:
    """The entry of a case."""
    return next(name for name in names if name == case.entry or (case.tile and case.entry in name))


def read(launches: list[dict[str, Any]], build_dir: Path) -> list[dict[str, Any]]:
    """Rows of inter_warp_conflicts.csv: the launches of a report, in the order of `cases`."""
    names = entries(build_dir)
    module = ptxsim.load(build_dir / "inter_warp_conflicts.ptx", names[0]).module
    kernel = functools.cache(lambda name: ptxsim.Kernel(module, name))
    of_block = functools.cache(lambda alone: needed(kernel(find(names, alone)), alone))

    rows = []
    for i, (case, launch) in enumerate(zip(cases(), launches, strict=True)):
        if launch["name"] not in (case.entry, case.function):
            raise UserError(f"launch {i} of the report is {launch['name']}, expected {case.entry}")
        metrics = {name: value for name, (value, _) in launch["metrics"].items()}
        blocks = int(metrics[GRID])
        rows.append(
            {
                "kernel": case.kernel,
                "bits": case.bits,
                "source": case.source,
                "warps": case.warps,
                "blocks_per_sm": case.blocks_per_sm,
                "steps": case.steps,
                **{name: blocks * count for name, count in of_block(replace(case, blocks_per_sm=1)).items()},
                **{name: metrics[metric] for name, metric in METRICS.items()},
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Count shared-memory wavefronts beyond those within a warp.")
    add_build_dir(parser)
    parser.add_argument("--out", type=Path, help="written: inter_warp_conflicts.csv")
    parser.add_argument("--launch", action="store_true", help="only launch them: what ncu runs")
    options = parser.parse_args()
    with session():
        if options.launch:
            launch_all(options.build_dir)
            return
        command = [
            "-m",
            "experiments.studies.inter_warp_conflicts.measure",
            "--launch",
            "--build-dir",
            str(options.build_dir),
        ]
        launches = under_ncu(command, [GRID, *METRICS.values()])
        write_rows(options.out, "inter_warp_conflicts", read(launches, options.build_dir))


if __name__ == "__main__":
    run_command(main)
