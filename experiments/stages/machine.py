"""Describes the GPU and measures its ceilings: machine.json.

    python -m experiments.stages.machine --machine h200 --build-dir results/build/sm_90a --store measured \
        --out manifest.json

A ceiling is the best of several runs of a loop that does nothing else
(experiments/gpu/ceilings.cu), with the clock during that run from the device's stamps, so that it
is known per second and per clock.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pynvml
from cuda.core import LaunchConfig, launch

from contracts import run_command
from contracts.dtypes import dtypes
from contracts.rows import Ceilings, Machine, MeasuredRows
from experiments.command_line import add_build_dir, add_manifest
from experiments.gpu import discovery
from experiments.gpu.device import Gpu, Memory, allow_shared, load_cubin
from experiments.gpu.session import Session, require_gpu
from experiments.gpu.timing import Stopwatch, Work, warm_up
from experiments.stages import store
from experiments.stages.machine_code import hash_of_cubin
from experiments.stages.store import Key, Measurement


@dataclass(frozen=True)
class Effort:
    """How long a ceiling takes: runs of its loop, steps of a run, blocks (None: one an SM), and
    bytes copied.
    """

    runs: int = 20
    steps: int = 8192
    blocks: int | None = None
    copy_bytes: int = 2**30


REHEARSED = Effort(runs=3, steps=4, blocks=4, copy_bytes=2**18)


class CeilingLoops:
    """The kernels of ceilings.cu, timed."""

    def __init__(self, gpu: Gpu, effort: Effort) -> None:
        self.gpu, self.effort = gpu, effort
        self.module = load_cubin(gpu.build_dir / "ceilings.cubin")
        self.stopwatch = Stopwatch(gpu, effort.runs)
        self.out = Memory(4096)

    def work(self, name: str, grid: int, block: int, *arguments: Any, shared: int = 0) -> Work:
        """A launch of one of the kernels."""
        kernel, stream = self.module.get_kernel(name), self.gpu.stream
        allow_shared(self.gpu, kernel, shared)
        config = LaunchConfig(grid=grid, block=block, shmem_size=shared)
        return lambda: launch(stream, config, kernel, *arguments)

    def rate(self, work: Work, amount: float) -> tuple[float, float]:
        """The best `amount` per microsecond, and per SM clock and SM in the same run."""
        warm_up(self.gpu, work, 0.2, max_s=0.5)
        samples = self.stopwatch.run([work] * self.effort.runs)
        best = int(np.argmin(np.where(samples.kept, samples.time_us, np.inf)))
        per_us = amount / samples.time_us[best]
        return per_us, per_us / samples.sm_clock_mhz[best] / self.gpu.sm_count

    def measure(self) -> Ceilings:
        """Return all of them."""
        blocks, steps, out, i32 = (
            self.effort.blocks or self.gpu.sm_count,
            self.effort.steps,
            self.out.address,
            np.int32,
        )
        ceilings: dict[str, float] = {}
        fma = self.work("ceiling_ffma", blocks, 1024, i32(steps), np.float32(0.5), out)
        per_us, per_clock = self.rate(fma, 2.0 * 16 * steps * 1024 * blocks)
        ceilings |= {"fp32_fma_tflops": per_us / 1e6, "fp32_fma_flop_per_clock_sm": per_clock}
        mma = self.work("ceiling_mma_bf16", blocks, 512, i32(steps), np.uint32(0x10101), out)
        per_us, per_clock = self.rate(mma, 2.0 * 16 * 8 * 16 * 8 * steps * 16 * blocks)
        ceilings |= {"bf16_mma_tflops": per_us / 1e6, "bf16_mma_flop_per_clock_sm": per_clock}
        if self.gpu.device.compute_capability == (9, 0):
            shared = 2 * 64 * 64 * 2 + 64 * 256 * 2
            wgmma = self.work("ceiling_wgmma_bf16", blocks, 256, i32(steps), out, shared=shared)
            per_us, per_clock = self.rate(wgmma, 2.0 * 64 * 256 * 64 * steps * 2 * blocks)
            ceilings |= {
                "bf16_wgmma_tflops": per_us / 1e6,
                "bf16_wgmma_flop_per_clock_sm": per_clock,
            }
        nbytes = self.effort.copy_bytes
        source, target = Memory(nbytes), Memory(nbytes)
        self.gpu.fill(source, dtypes()["fp32"], nbytes // 4, 1, "uniform")
        copy = self.work(
            "ceiling_copy",
            16 * blocks,
            512,
            source.address,
            target.address,
            np.uint64(nbytes // 16),
        )
        ceilings["dram_copy_gb_per_s"] = self.rate(copy, 2.0 * nbytes)[0] / 1e3
        return Ceilings(**ceilings)


def describe(machine: str, build_dir: Path) -> Machine:
    """The content of machine.json."""
    known = discovery.gpu()
    assert known is not None  # a session was had
    with discovery.nvml() as handle:
        default = limit = None
        with contextlib.suppress(pynvml.NVMLError):
            default = pynvml.nvmlDeviceGetDefaultApplicationsClock(handle, pynvml.NVML_CLOCK_SM)
        with contextlib.suppress(pynvml.NVMLError):
            limit = pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3
        version = pynvml.nvmlSystemGetCudaDriverVersion()
        clocks = {
            "sm_clock_max_mhz": pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM),
            "sm_clock_default_mhz": default,
            "memory_clock_max_mhz": pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_MEM),
            "power_limit_w": limit,
            "memory_bytes": pynvml.nvmlDeviceGetMemoryInfo(handle).total,
        }
    gpu = Gpu(build_dir)
    return Machine(
        machine=machine,
        gpu=known.name,
        arch=known.arch,
        sm_count=gpu.sm_count,
        **clocks,
        l2_bytes=gpu.l2_bytes,
        texture_alignment_bytes=gpu.device.properties.texture_alignment,
        driver=known.driver,
        cuda_driver=f"{version // 1000}.{version % 1000 // 10}",
        ceilings=CeilingLoops(gpu, REHEARSED if discovery.rehearsing() else Effort()).measure(),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Describe the GPU and measure its ceilings.")
    parser.add_argument("--machine", required=True, help="folder name, for instance h200")
    add_build_dir(parser)
    add_manifest(parser)
    options = parser.parse_args()
    require_gpu()
    loops = hash_of_cubin((options.build_dir / "ceilings.cubin").read_bytes())[:16]
    fingerprint = store.versions(options.build_dir) | {"ceilings": loops}

    def measure(todo: list[Key], _: dict[Key, Measurement]) -> Iterator[tuple[Key, Measurement]]:
        for key in todo:
            session = Session()
            with session.held():
                rows = MeasuredRows(machine=describe(options.machine, options.build_dir))
            yield key, Measurement(fingerprint, session.name, rows)

    results = store.run_kept(
        store.Store(options.store),
        [Key("machine", "ceilings", options.machine)],
        lambda key: key,
        lambda _: fingerprint.__eq__,
        measure,
    )
    store.write_manifest(options.out, [stored for _, stored in results])


if __name__ == "__main__":
    run_command(main)
