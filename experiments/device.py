"""The GPU: memory, events, kernels from cubins. Thin, and light to start (no torch: its import takes seconds).

Kernels are loaded and launched by cuda.core; memory and events go through the driver's own bindings.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, ObjectCode, Stream, launch

from contracts import UserError
from experiments.build import entry_name
from kernels.catalogue import Problem, Variant

FILLS = {"uniform": 0, "normal": 1, "zeros": 2, "nans": 3}


def cuda(result: tuple) -> Any:
    """The value of a driver call; raises `UserError` with the driver's own words where it failed."""
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        text = driver.cuGetErrorString(status)[1]
        raise UserError(f"CUDA: {text.decode() if text else status.name} ({status.name})")
    return values[0] if len(values) == 1 else values or None


class Memory:
    """Device memory, freed with the object. `address` is in bytes."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.address = 0
        status, pointer = driver.cuMemAlloc(nbytes)
        if status == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            free, total = cuda(driver.cuMemGetInfo())
            raise UserError(
                f"GPU out of memory: {nbytes / 2**30:.2f} GiB asked for, {free / 2**30:.2f} of {total / 2**30:.2f} GiB "
                "free; take a smaller size"
            )
        self.address = int(cuda((status, pointer)))

    def __del__(self) -> None:
        if self.address:
            driver.cuMemFree(self.address)


class Gpu:
    """The leased GPU, its stream, and the harness's kernels. Use inside `lease()`."""

    def __init__(self, build_dir: Path) -> None:
        cuda(driver.cuInit(0))
        self.device = Device(0)
        self.device.set_current()
        self.stream: Stream = self.device.create_stream()
        self.sm_count: int = self.device.properties.multiprocessor_count
        self.l2_bytes: int = self.device.properties.l2_cache_size
        self.build_dir = build_dir
        self._harness = load_cubin(build_dir / "harness.cubin")

    def harness(self, name: str, grid: Any, block: int, *arguments: Any) -> None:
        """Launch a kernel of harness.cu."""
        launch(self.stream, LaunchConfig(grid=grid, block=block), self._harness.get_kernel(name), *arguments)

    def harness_launcher(self, name: str, grid: int, block: int) -> Callable[..., None]:
        """The same, prepared for many launches."""
        config, kernel, stream = LaunchConfig(grid=grid, block=block), self._harness.get_kernel(name), self.stream
        return lambda *arguments: launch(stream, config, kernel, *arguments)

    def sync(self) -> None:
        """Wait for the stream; a kernel's fault shows here."""
        cuda(driver.cuStreamSynchronize(self.stream.handle))

    def upload(self, array: np.ndarray) -> Memory:
        """A device copy of a host array."""
        array = np.ascontiguousarray(array)
        memory = Memory(max(array.nbytes, 16))
        cuda(driver.cuMemcpyHtoD(memory.address, array.ctypes.data, array.nbytes))
        return memory

    def download(self, memory: Memory, dtype: Any, count: int) -> np.ndarray:
        """A host copy of the first `count` elements, after all work of the stream."""
        self.sync()
        array = np.empty(count, dtype)
        cuda(driver.cuMemcpyDtoH(array.ctypes.data, memory.address, array.nbytes))
        return array

    def fill(self, memory: Memory, dtype: str, count: int, seed: int, data: str) -> None:
        """Fill with random elements (see FILLS) of `dtype`, rounded to it."""
        launch_fill = self.harness_launcher(f"fill_{dtype}", 8 * self.sm_count, 256)
        launch_fill(memory.address, np.uint64(count), np.uint64(seed), np.int32(FILLS[data]))


def load_cubin(path: Path) -> ObjectCode:
    """A cubin as a module.

    The driver may load it only at its first launch, which would deadlock behind a kernel that holds the queue; that is
    why `Stopwatch.run` runs everything once before it lets one hold.
    """
    if not path.is_file():
        raise UserError(f"{path}: not built; run the build first (snakemake --cores 1 build)")
    return ObjectCode.from_cubin(path.read_bytes(), name=path.stem)


class CatalogueKernel:
    """A catalogue variant, loaded."""

    def __init__(self, gpu: Gpu, variant: Variant) -> None:
        self.gpu, self.variant = gpu, variant
        stem = gpu.build_dir / variant.name
        self._module = load_cubin(stem.with_suffix(".cubin"))
        self.kernel = self._module.get_kernel(entry_name(stem.with_suffix(".ptx")))
        if variant.shared_bytes > 48 * 1024:
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            device = driver.CUdevice(gpu.device.device_id)
            handle = driver.CUkernel(int(self.kernel.handle))
            cuda(driver.cuKernelSetAttribute(attribute, variant.shared_bytes, handle, device))

    def bind(self, problem: Problem, a: int, b: int, c: int) -> Callable[[], None]:
        """A launch of this problem on matrices at these addresses; raises `UserError` where it is refused."""
        variant = self.variant
        if reason := variant.refusal(problem, {"A": a, "B": b, "C": c}):
            raise UserError(reason)
        config = LaunchConfig(grid=variant.grid(problem), block=variant.threads, shmem_size=variant.shared_bytes)
        i32, f32, p = np.int32, np.float32, problem
        arguments = (
            i32(p.m),
            i32(p.n),
            i32(p.k),
            f32(p.alpha),
            a,
            i32(p.lda),
            b,
            i32(p.ldb),
            f32(p.beta),
            c,
            i32(p.ldc),
        )
        kernel, stream = self.kernel, self.gpu.stream
        return lambda: launch(stream, config, kernel, *arguments)


class PinnedFlag:
    """A word of host memory that the device can read; `set()` releases the kernel that waits for it."""

    def __init__(self) -> None:
        self._host = cuda(driver.cuMemHostAlloc(64, driver.CU_MEMHOSTALLOC_DEVICEMAP))
        self.address = int(cuda(driver.cuMemHostGetDevicePointer(self._host, 0)))
        self._word = ctypes.c_uint32.from_address(int(self._host))
        self.clear()

    def clear(self) -> None:
        """Let the next waiting kernel wait."""
        self._word.value = 0

    def set(self) -> None:
        """Let it go on."""
        self._word.value = 1

    def __del__(self) -> None:
        driver.cuMemFreeHost(self._host)
