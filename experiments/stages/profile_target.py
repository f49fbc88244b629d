"""Runs one catalogue entry a few times and marks the last run for a profiler: what `experiments.stages.profile` starts.

python -m experiments.stages.profile_target sgemm_warptile --size 4096 --build-dir results/build/sm_90a
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from cuda.bindings import driver

from contracts import run_command
from experiments.command_line import add_build_dir, add_kernel, find_kernel
from experiments.gpu.device import Gpu, Memory, cuda
from experiments.gpu.fastest_call import by_events
from experiments.gpu.lease import lease
from experiments.gpu.libraries import bind_for_timing, import_early, load_gemm
from experiments.stages import verify
from kernels.catalogue import Problem


def main() -> None:
    parser = argparse.ArgumentParser(description="Run one catalogue entry under a profiler.")
    add_kernel(parser)
    parser.add_argument("--size", type=int, required=True, help="m = n = k")
    parser.add_argument("--beta", type=float, default=0.0, help="other than 0, C is read, too (default: 0)")
    add_build_dir(parser)
    options = parser.parse_args()
    entry, n = find_kernel(options), options.size
    import_early(entry)
    with lease():
        gpu = Gpu(options.build_dir)
        nbytes = n * n * verify.NUMPY_DTYPES[entry.dtype].itemsize
        a, b, c = (Memory(nbytes) for _ in range(3))
        gpu.fill(a, entry.dtype, n * n, 1, "uniform")
        gpu.fill(b, entry.dtype, n * n, 2, "uniform")
        problem = replace(Problem.square(n, entry.b_layout), beta=options.beta)
        if options.beta:
            gpu.fill(c, entry.dtype, n * n, 3, "uniform")
        work = bind_for_timing(load_gemm(gpu, entry), problem, a.address, b.address, c.address, by_events)
        work()
        gpu.sync()
        cuda(driver.cuProfilerStart())
        work()
        gpu.sync()
        cuda(driver.cuProfilerStop())


if __name__ == "__main__":
    run_command(main)
