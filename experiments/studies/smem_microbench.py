"""Microbenchmarks of shared memory's banks: how many wavefronts the hardware needs for a pattern of
addresses.

    python -m experiments.studies smem_microbench --build-dir results/build/sm_90a --out smem_microbench.csv

One launch of smem_microbench.cu a row, read by ncu. From these rows come the emulator's rules for
64-bit accesses, ldmatrix and cp.async, and its tests (docs/hardware.md says what they showed).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from contracts import UserError, write_rows
from contracts.rows import SmemMicrobench
from experiments.studies.counting import add_counted, counted, profiled

REPEATS = 64
SHARED_BYTES = 32768
LANES = np.arange(32)
# Each access has its bytes per lane.
ACCESSES = {f"{op}_{bits}": bits // 8 for op in ("ld", "st") for bits in (32, 64, 128)}
ACCESSES |= {f"ldmatrix_{matrices}": 16 for matrices in ("x1", "x2", "x4", "x4_trans")}
ACCESSES |= {"cp_async_ca_4": 4, "cp_async_ca_8": 8, "cp_async_ca_16": 16, "cp_async_cg_16": 16}
# They count all operations; a launch makes only one kind.
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
CONFLICTS = [f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum" for op in ("ld", "st")]
METRICS = [WAVEFRONTS, *CONFLICTS]


def patterns(width: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and byte offsets of lanes `width` bytes wide.

    Some are what kernels do, and random ones try the rules.
    """
    unit = SHARED_BYTES // width
    yield "all lanes one address", LANES * 0
    # Strides, and lanes that share addresses, rows or banks.
    for stride in (1, 2, 3, 4, 5, 8, 16, 17, 32, 33):
        yield f"stride {stride}", LANES * stride % unit * width
    for group in (2, 4, 8, 16):
        in_row = LANES % group * width
        yield f"groups of {group} share", LANES // group * width
        yield f"{32 // group} addresses in turn", in_row
        yield f"groups of {group} share, a row apart", LANES // group * 128 % SHARED_BYTES
        yield f"lanes {group} apart in one row", in_row + LANES // group * 512 % SHARED_BYTES
        yield f"pairs of {group} swapped by XOR", (LANES ^ group) * width
    # Rows of matrices, as ldmatrix reads them.
    for row in (64, 128, 256):
        rows_of_8 = LANES % 8 * row + LANES // 8 * 16
        swizzled = LANES % 8 * row + (LANES // 8 ^ (LANES % 8)) * 16
        rows_of_16 = LANES % 16 * row + LANES // 16 * 16
        for name, offsets in (
            (f"8 rows of {row} bytes", rows_of_8),
            (f"8 rows of {row} bytes, XOR swizzle", swizzled),
            (f"16 rows of {row} bytes", rows_of_16),
        ):
            yield name, offsets % SHARED_BYTES // width * width
    # Random addresses try the rules.
    rng = np.random.default_rng(7)
    for count in (4, 8, 16, 32, 64, unit):
        for i in range(3):
            yield f"random over {count} places, {i}", rng.integers(0, count, 32) * width
    for i in range(3):
        yield f"random pairs, {i}", np.repeat(rng.integers(0, 64, 16), 2) * width
        two_apart = np.repeat(rng.integers(0, 64, (8, 2)), 2, axis=0).ravel()
        yield f"random pairs two apart, {i}", two_apart * width
        yield f"random permutation, {i}", rng.permutation(32) * width


@dataclass(frozen=True)
class Case:
    """One launch: an access, and byte offsets of each thread in shared and in global memory."""

    access: str
    pattern: str
    offsets: np.ndarray
    source: np.ndarray
    repeats: int = REPEATS


def sources(width: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield where the lanes of a copy read from: rows of some bytes, 4 KiB apart."""
    for row in (32, 64, 128, 256, 512):
        lanes = max(row // width, 1)
        yield f"rows of {row} bytes", LANES // lanes * 4096 + LANES % lanes * width
    yield "one place", LANES * 0


def cases() -> Iterator[Case]:
    """Yield every launch in order.

    The first of each access and block size makes no access, and shows what a launch costs.
    """
    for access, width in ACCESSES.items():
        packed = LANES * width
        yield Case(access, "none", packed, packed, repeats=0)
        for name, offsets in patterns(width):
            yield Case(access, name, offsets, packed)
        for name, source in sources(width) if access.startswith("cp_async") else ():
            yield Case(access, f"stride 1 from {name}", packed, source)
            swizzled = (packed ^ packed // 128 % 8 * 16) // width * width
            yield Case(access, f"XOR swizzle from {name}", swizzled, source)
    for access in ("ld_32", "ld_128", "st_32", "st_128"):
        width = ACCESSES[access]
        for warps in (2, 4, 8, 16, 32):  # No lane conflicts with another of its warp.
            rows = np.arange(32 * warps) * width % SHARED_BYTES
            yield Case(access, "none", rows, rows, repeats=0)
            yield Case(access, f"{warps} warps, each a row of its own", rows, rows)
            yield Case(access, f"{warps} warps, all one row", np.tile(LANES, warps) * width, rows)


def launch_all(build_dir: Path) -> None:
    """Launch every case once, between the profiler's marks."""
    from cuda.core import LaunchConfig, launch

    from experiments.gpu.device import Gpu, Memory, load_cubin

    gpu, module = Gpu(build_dir), load_cubin(build_dir / "smem_microbench.cubin")
    source, out = Memory(2**20), Memory(4096)
    todo = [(case, np.concatenate([case.offsets, case.source])) for case in cases()]
    tables = [gpu.upload(offsets.astype(np.int32)) for _, offsets in todo]
    with profiled(gpu):
        for (case, _), table in zip(todo, tables, strict=True):
            config = LaunchConfig(grid=1, block=len(case.offsets), shmem_size=SHARED_BYTES)
            arguments = (table.address, np.int32(case.repeats), source.address, out.address)
            launch(gpu.stream, config, module.get_kernel(case.access), *arguments)


def read(launches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of smem_microbench.csv: the launches of a report, in the order of `cases`."""
    rows, empty = [], {}
    for i, (case, launch) in enumerate(zip(cases(), launches, strict=True)):
        if launch["name"] != case.access:
            raise UserError(f"launch {i} of the report is {launch['name']}, expected {case.access}")
        counts = np.array([launch["metrics"][name][0] for name in METRICS])
        threads = len(case.offsets)
        if not case.repeats:
            empty[case.access, threads] = counts
            continue
        wavefronts, *conflicts = (counts - empty[case.access, threads]) / (REPEATS * threads / 32)
        copies = case.access.startswith("cp_async")
        row = {"access": case.access, "pattern": case.pattern, "threads": threads}
        row |= {"offsets": " ".join(map(str, case.offsets))}
        row |= {"source": " ".join(map(str, case.source)) if copies else ""}
        rows.append(row | {"wavefronts": float(wavefronts), "conflicts": float(sum(conflicts))})
    return rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the study."""
    add_counted(parser)


def run(options: argparse.Namespace) -> None:
    """Write the table, or launch what it counts."""
    launches = counted(options, "smem_microbench", METRICS, launch_all)
    if launches is not None:
        write_rows(options.out, SmemMicrobench, read(launches))
