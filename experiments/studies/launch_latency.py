"""Takes one launch of a tile apart: marks of the cycle counter in its blocks, beside empty kernels.

    python -m experiments.studies launch_latency hgemm_tile_128x64_bfirst_c2x1_s8_bf16 --size 1024 \
        --build-dir results/build/sm_90a --out launch_latency.csv

A copy of the kernel notes `clock64()` at seven points of each block. Its time is told beside the
kernel's own, so that what the marks cost shows. The problem has to fit one round of tiles.
"""

from __future__ import annotations

import argparse
import csv
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np

from contracts import UserError, atomic_write, scratch
from experiments.command_line import add_build_dir, add_variant
from experiments.gpu import discovery
from experiments.gpu.session import session
from experiments.stages import build, toolchain
from kernels.catalogue import Problem, Variant

logger = logging.getLogger(__name__)

ARRAY = "latency_marks"
MARK = f"{ARRAY}[blockIdx.x][{{}}] = clock64();\n"
# What ends at each mark, the line of wgmma_tile.cu that it follows, and the condition under which
# a thread reads the counter: the first of the first consumer, or the producer in its first step.
CONSUMER, FIRST_STEP = "if (threadIdx.x == 0) ", "if (step == 0) "
MARKS = (
    ("", "    extern __shared__ uint8_t memory[];\n", CONSUMER),
    ("barriers made, cluster met", "    if constexpr (BLOCKS > 1) cluster::wait();\n", CONSUMER),
    ("first loads issued", "full(stage), column_mask);\n", FIRST_STEP),
    ("first bytes there", "mbarrier::wait(full(stage), state.phase);\n", FIRST_STEP + CONSUMER),
    ("multiplied", "        wgmma::wait<0>();\n", CONSUMER),
    (
        "C staged, stores issued",
        "B_FIRST ? col + part : col, m, n, alpha, beta, C, ldc);\n",
        CONSUMER,
    ),
    ("stores have read", "    epilogue.wait();\n", CONSUMER),
)
EMPTY = """
extern "C" __global__ void __launch_bounds__({threads}, 1) alone() {{}}
extern "C" __global__ void __cluster_dims__({blocks}) __launch_bounds__({threads}, 1) clustered() {{}}
"""
SAMPLES = 200
# On an H100, in microseconds, written on 2026-11-28 before the first measurement. Another tile or
# size has no prediction.
PREDICTED = "hgemm_tile_128x64_bfirst_c2x1_s8_bf16", 1024
PREDICTED_US = {
    "empty kernel": 2.6,
    "empty kernel in clusters": 2.8,
    "barriers made, cluster met": 0.4,
    "first loads issued": 0.1,
    "first bytes there": 1.2,
    "multiplied": 2.7,
    "C staged, stores issued": 0.3,
    "stores have read": 0.5,
    "outside of the blocks": 4.8,
    "kernel": 10.0,
    "kernel with marks": 10.1,
}


def marked(variant: Variant, folder: Path) -> Variant:
    """Return the kernel with marks, its source in `folder`.

    Raises `UserError` for a kernel of another source, or with slices.
    """
    text = variant.source.read_text()
    if variant.splits > 1 or any(text.count(line) != 1 for _, line, _ in MARKS):
        raise UserError(f"{variant.name} has no such marks; allowed: a tile of hgemm/wgmma_tile.cu")
    for number, (_, line, who) in enumerate(MARKS):
        text = text.replace(line, line + who + MARK.format(number))
    first = text.index("template <")
    array = f"__device__ long long {ARRAY}[1024][{len(MARKS)}];\n\n"
    source = folder / variant.source.name
    source.write_text(text[:first] + array + text[first:])
    return replace(variant, source=source)


def parts(marks: np.ndarray, mhz: float) -> dict[str, np.ndarray]:
    """Return what each part takes in each block, in microseconds.

    marks: (blocks, marks), in cycles of the block's SM, whose clock is `mhz`.
    """
    lengths = np.diff(marks, axis=1) / mhz
    return dict(zip([name for name, *_ in MARKS[1:]], lengths.T, strict=True))


def measure(variant: Variant, problem: Problem, build_dir: Path) -> dict[str, np.ndarray]:
    """Return the times of each part, in microseconds: of blocks, or of launches.

    Raises `UserError` where the problem has more tiles than run at a time, and where C is wrong.
    """
    from cuda.bindings import driver
    from cuda.core import LaunchConfig, launch

    from experiments.gpu.device import CatalogueKernel, Gpu, cuda, load_cubin
    from experiments.gpu.timing import Stopwatch, warm_up
    from experiments.stages.interleave import Matrices, check_output, interleave

    grid, arch = variant.grid(problem, 1 << 20), f"sm_{variant.arch}a"  # wgmma is of one alone
    with scratch() as folder:
        copy = marked(variant, folder)
        for made in (variant, copy):
            build.build_kernel(made, arch, folder)
        empty = folder / "empty.cu"
        blocks = variant.cluster_blocks
        empty.write_text(EMPTY.format(threads=variant.threads, blocks=blocks))
        build.compile_source(empty, empty.with_suffix(""), arch, toolchain.nvcc())
        gpu = Gpu(build_dir)
        kernel, with_marks = (CatalogueKernel(gpu, made, folder) for made in (variant, copy))
        if grid[0] > (most := kernel.filled_sms(variant)):
            raise UserError(f"{grid[0]} tiles, but {most} run at a time; take fewer")
        code = load_cubin(empty.with_suffix(".cubin"))
        array, nbytes = with_marks.variable(ARRAY)
    matrices = Matrices.fill(gpu, problem, variant.types, "uniform", ("c",))
    addresses = matrices.a.address, matrices.b.address, matrices.c["c"].address
    config = LaunchConfig(grid=grid, block=variant.threads)
    alone, clustered = code.get_kernel("alone"), code.get_kernel("clustered")
    works = {
        "empty kernel": lambda: launch(gpu.stream, config, alone),
        "empty kernel in clusters": lambda: launch(gpu.stream, config, clustered),
        "kernel": kernel.bind(problem, *addresses),
        "kernel with marks": with_marks.bind(problem, *addresses),
    }
    for name in ("kernel", "kernel with marks"):
        matrices.poison(gpu, "c")
        works[name]()
        if not (checked := check_output(gpu, matrices, "c", works[name])).passed:
            raise UserError(f"{name}: {variant.name} is wrong on {problem}: {checked.detail}")
    warm_up(gpu, works["kernel"], 0.1)
    count = 2 if discovery.rehearsing() else SAMPLES
    samples = interleave(Stopwatch(gpu, len(works) * count), works, count, matrices.seed)
    times = {name: samples.of(name).time_us for name in works}
    works["kernel with marks"]()
    gpu.sync()
    marks = np.empty((1024, len(MARKS)), np.int64)
    cuda(driver.cuMemcpyDtoH(marks.ctypes.data, array, nbytes))
    clock = float(np.nanmedian(samples.of("kernel with marks").sm_clock_mhz))
    of_blocks = parts(marks[: grid[0]], clock)
    inside = sum(of_blocks.values())
    outside = np.median(times["kernel with marks"]) - inside
    return times | of_blocks | {"outside of the blocks": outside}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the study."""
    add_variant(parser)
    parser.add_argument("--size", type=int, default=1024, help="m = n = k; 1024 when left out")
    add_build_dir(parser)
    parser.add_argument("--out", required=True, type=Path)


def run(options: argparse.Namespace) -> None:
    """Write the table, and print it."""
    variant = options.catalogue.find(options.variant)
    if not isinstance(variant, Variant):
        raise UserError(f"{variant.name} is no kernel; allowed: a tile of hgemm/wgmma_tile.cu")
    problem = Problem.square(options.size, variant.b_layout)
    with session():
        found = measure(variant, problem, options.build_dir)
    gpu = here.name if (here := discovery.gpu()) else ""
    predicted = PREDICTED_US if (variant.name, options.size) == PREDICTED else {}
    with atomic_write(options.out) as path, path.open("w") as file:
        table = csv.writer(file)
        table.writerow(
            ["gpu", "variant", "n", "part", "median_us", "least_us", "most_us", "predicted_us"]
        )
        for part in PREDICTED_US:
            values = found[part]
            row = [f"{value:.3f}" for value in (np.median(values), values.min(), values.max())]
            table.writerow([gpu, variant.name, options.size, part, *row, predicted.get(part)])
            print(f"| {part} | {predicted.get(part, '')} | {row[0]} ({row[1]} to {row[2]}) |")
