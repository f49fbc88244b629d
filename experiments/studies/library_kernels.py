"""Records which kernels a library runs on square problems, by the names that CUPTI gives them.

    python -m experiments.studies library_kernels cublas_fp32 --size 64 --size 4096 \
        --build-dir results/build/sm_90a --out library_kernels.csv

The call is the one that a program makes, with the library's own choice: of cuBLAS, cublasGemmEx.
Where k is divided among blocks, the grid has a third side, or a second kernel adds up the parts.
torch.profiler records, which needs no permission.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from contracts import UserError, write_rows
from contracts.rows import LibraryKernels
from experiments.gpu.session import session
from experiments.stages.machine_code import code_of
from experiments.studies import squares
from experiments.studies.api_calls import events_of, profiled, require_profiler
from kernels.catalogue import Baseline, Problem

logger = logging.getLogger(__name__)

CALLS = 5  # of each size; the first one may load a kernel


def kernels_of(events: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the columns about each kernel that `CALLS` calls of one problem ran, the longest first.

    Raises `UserError` where calls ran different kernels, or none was recorded.

    :param events: of a Chrome trace; times are in microseconds.
    """
    launches = [event for event in events if event.get("cat") == "kernel"]
    if not launches or len(launches) % CALLS:
        raise UserError(f"{CALLS} calls ran {len(launches)} kernels as recorded; run it again")
    launches.sort(key=lambda event: float(event["ts"]))
    count = len(launches) // CALLS
    names = [event["name"] for event in launches]
    if names != names[:count] * CALLS:
        raise UserError(f"calls of one problem ran different kernels: {', '.join({*names})}")
    of_call = [launches[place::count] for place in range(count)]
    times = [min(float(event["dur"]) for event in members) for members in of_call]
    longest_first = sorted(range(count), key=lambda place: -times[place])
    for rank, place in enumerate(longest_first, start=1):
        arguments = of_call[place][0]["args"]
        grid, block = ([int(side) for side in arguments[key]] for key in ("grid", "block"))
        yield {
            "rank": rank,
            "kernels": count,
            "kernel": names[place],
            **dict(zip(("grid_x", "grid_y", "grid_z"), grid, strict=True)),
            "threads": block[0] * block[1] * block[2],
            "time_us": times[place],
        }


def measure(entry: Baseline, sizes: Sequence[int], build_dir: Path) -> Iterator[dict[str, Any]]:
    """Yield rows of library_kernels.csv."""
    from experiments.gpu.device import Gpu
    from experiments.gpu.libraries import load_gemm

    gpu, types = Gpu(build_dir), entry.types
    gemm = load_gemm(gpu, entry)
    for n in sizes:
        matrices = [gpu.filled(types.of(x), n * n, seed, "uniform") for seed, x in enumerate("ABC")]
        a, b, c = (matrix.address for matrix in matrices)
        call = gemm.bind(Problem.square(n, entry.b_layout), a, b, c)
        call()
        gpu.sync()
        with profiled() as recorded:
            for _ in range(CALLS):
                call()
            gpu.sync()
        for row in kernels_of(events_of(recorded)):
            logger.info(f"{entry.name}, n = {n}: {row['kernel']}, {row['time_us']:.1f} us")
            common = {"variant": entry.name, "m": n, "n": n, "k": n}
            yield common | row | {"code_hash": code_of(entry, build_dir)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the study."""
    squares.add_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Write the table."""
    entry = options.catalogue.find(options.variant)
    if not isinstance(entry, Baseline) or entry.library != "cublas":
        raise UserError(f"{entry.name} is not cuBLAS's; library_kernels records its kernels alone")
    squares.require_taken(entry, options.size)
    require_profiler("library_kernels")
    with session():
        rows = list(measure(entry, options.size, options.build_dir))
    write_rows(options.out, LibraryKernels, rows)
