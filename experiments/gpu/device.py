"""The GPU: memory, events, kernels from cubins. Light to start: torch takes seconds to import.

Kernels are loaded and launched by cuda.core; memory and events go through the driver's own
bindings.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes  # It teaches NumPy bfloat16.  # noqa: F401
import numpy as np
from cuda.bindings import driver
from cuda.core import Device, Kernel, LaunchConfig, ObjectCode, Stream, TensorMapDescriptor, launch

# cuda.core 1.2 has no public names for these.
from cuda.core._tensor_map import TensorMapL2Promotion, TensorMapSwizzle
from cuda.core.utils import StridedMemoryView

from contracts import UserError
from contracts.dtypes import Dtype, Types
from experiments.gpu.worker import DeviceFault
from kernels import arguments
from kernels.arguments import TensorMap, Workspace
from kernels.catalogue import TEXTURE_ALIGNMENT, Problem, Runnable, Variant

FILLS = {"uniform": 0, "normal": 1, "zeros": 2, "nans": 3}


def entry_name(ptx: Path) -> str:
    """Return the mangled name of the only entry in a PTX file."""
    names: list[str] = re.findall(r"^\.visible \.entry (\w+)\(", ptx.read_text(), re.M)
    if len(names) != 1:
        raise UserError(f"{ptx}: {len(names)} kernel entries, expected 1; build it again")
    return names[0]


# These errors concern one call alone. After any other the context is of no use.
HARMLESS = ("OUT_OF_MEMORY", "INVALID_VALUE", "NOT_READY", "NOT_FOUND")


def cuda(result: tuple[Any, ...]) -> Any:
    """Return the value of a driver call.

    Raises `UserError` or `DeviceFault` with the driver's message where it failed.
    """
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        text = driver.cuGetErrorString(status)[1]
        kind = UserError if status.name.removeprefix("CUDA_ERROR_") in HARMLESS else DeviceFault
        raise kind(f"CUDA: {text.decode() if text else status.name} ({status.name})")
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
    """The held GPU, its stream, and the harness's kernels. Use inside `session()`."""

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
        self.harness_launcher(name, grid, block)(*arguments)

    def harness_launcher(self, name: str, grid: Any, block: int) -> Callable[..., None]:
        """Return what launches a kernel of harness.cu, prepared for many launches."""
        config, kernel = LaunchConfig(grid=grid, block=block), self._harness.get_kernel(name)
        return lambda *arguments: launch(self.stream, config, kernel, *arguments)

    def sync(self) -> None:
        """Wait for the stream; a kernel's fault shows here."""
        cuda(driver.cuStreamSynchronize(self.stream.handle))

    def upload(self, array: np.ndarray) -> Memory:
        """Return a device copy of a host array, complete when this returns.

        The copy is on our stream, and waited for. A plain cuMemcpyHtoD may return before its last
        part is there, and a kernel on a stream that does not wait for the default one could
        overtake that.
        """
        array = np.ascontiguousarray(array)
        memory = Memory(max(array.nbytes, 16))
        copy = (memory.address, array.ctypes.data, array.nbytes, self.stream.handle)
        cuda(driver.cuMemcpyHtoDAsync(*copy))
        self.sync()
        return memory

    def download(self, memory: Memory, dtype: Any, count: int) -> np.ndarray:
        """Return a host copy of the first `count` elements, after all work of the stream."""
        self.sync()
        array = np.empty(count, dtype)
        cuda(driver.cuMemcpyDtoH(array.ctypes.data, memory.address, array.nbytes))
        return array

    def fill(self, memory: Memory, dtype: Dtype, count: int, seed: int, data: str) -> None:
        """Fill with random elements (see FILLS) of `dtype`, rounded to it."""
        launch_fill = self.harness_launcher(f"fill_{dtype.name}", 8 * self.sm_count, 256)
        launch_fill(memory.address, np.uint64(count), np.uint64(seed), np.int32(FILLS[data]))

    def filled(self, dtype: Dtype, count: int, seed: int, data: str) -> Memory:
        """Return memory of so many elements, filled."""
        memory = Memory(count * dtype.bytes)
        self.fill(memory, dtype, count, seed, data)
        return memory


def load_cubin(path: Path) -> ObjectCode:
    """Load a cubin as a module.

    The driver may load it only at its first launch, which would deadlock behind a kernel that holds
    the queue. So `Stopwatch.run` runs everything once before it launches that kernel.
    """
    if not path.is_file():
        raise UserError(f"{path}: not built; run the build first (snakemake --cores 1 build)")
    return ObjectCode.from_cubin(path.read_bytes(), name=path.stem)


def allow_shared(gpu: Gpu, kernel: Kernel, nbytes: int) -> None:
    """Let `kernel` be launched with so much dynamic shared memory; CUDA asks above 48 KiB."""
    if nbytes > 48 * 1024:
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        device, handle = driver.CUdevice(gpu.device.device_id), driver.CUkernel(int(kernel.handle))
        cuda(driver.cuKernelSetAttribute(attribute, nbytes, handle, device))


class Texture:
    """A texture object over memory that others own: 1-D, linear, elements of four floats.

    It begins where CUDA lets it, at the last multiple of TEXTURE_ALIGNMENT bytes at or before
    `address`.
    """

    def __init__(self, address: int, nbytes: int) -> None:
        before = address % TEXTURE_ALIGNMENT
        memory = driver.CUDA_RESOURCE_DESC()
        memory.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
        memory.res.linear.devPtr = driver.CUdeviceptr(address - before)
        memory.res.linear.format = driver.CUarray_format.CU_AD_FORMAT_FLOAT
        memory.res.linear.numChannels = 4
        memory.res.linear.sizeInBytes = before + nbytes
        self.handle = 0
        self.handle = int(cuda(driver.cuTexObjectCreate(memory, driver.CUDA_TEXTURE_DESC(), None)))

    def __del__(self) -> None:
        if self.handle:
            driver.cuCtxSynchronize()  # A launch may still read through it.
            driver.cuTexObjectDestroy(driver.CUtexObject(self.handle))


def words_at(address: int, rows: int, columns: int, ld: int, nbytes: int) -> object:
    """Return a row-major device matrix as other libraries take it: __cuda_array_interface__.

    Elements are integers of `nbytes` bytes, for that interface has no bfloat16; `ld` is in
    elements.
    """
    interface = {
        "shape": (rows, columns),
        "strides": (ld * nbytes, nbytes),
        "typestr": np.dtype(f"i{nbytes}").str,
        "data": (address, False),
        "version": 3,
    }
    words: object = type("Matrix", (), {"__cuda_array_interface__": interface})()
    return words


class Arguments:
    """Makes the arguments of a launch that are no numbers, and owns what they point to.

    See `kernels.arguments.Makers`.
    """

    def __init__(self, gpu: Gpu, types: Types) -> None:
        self.gpu, self.types = gpu, types
        self._textures: list[Texture] = []
        self._memory: list[Memory] = []
        self._before_each: list[Memory] = []

    def texture(self, matrix: int, nbytes: int) -> np.uint64:
        """Return a texture object's handle."""
        self._textures.append(Texture(matrix, nbytes))
        return np.uint64(self._textures[-1].handle)

    def tensor_map(
        self, matrix: int, rows: int, columns: int, ld: int, spec: TensorMap
    ) -> TensorMapDescriptor:
        """Return a tensor map, which the launch copies."""
        dtype = self.types.of(spec.matrix)
        words = words_at(matrix, rows, columns, ld, dtype.bytes)
        view = StridedMemoryView.from_cuda_array_interface(words, stream_ptr=-1)
        promotion = f"L2_{spec.l2_promotion}B" if spec.l2_promotion else "NONE"
        return view.as_tensor_map(
            spec.box,
            data_type=np.dtype(dtype.numpy if dtype.bytes > 1 else np.uint8),  # no 8-bit floats
            swizzle=TensorMapSwizzle[f"SWIZZLE_{spec.swizzle}B" if spec.swizzle else "NONE"],
            l2_promotion=TensorMapL2Promotion[promotion],
        )

    def workspace(self, nbytes: int, spec: Workspace) -> int:
        """Return the address of memory that is zero where the kernel asks for it."""
        memory = Memory(nbytes)
        self._memory.append(memory)
        if spec.zeroed == "once":
            self._zero(memory)
        if spec.zeroed == "always":
            self._before_each.append(memory)
        return memory.address

    def prepare(self) -> None:
        """Do on the stream what comes before each launch."""
        for memory in self._before_each:
            self._zero(memory)

    def _zero(self, memory: Memory) -> None:
        cuda(driver.cuMemsetD8Async(memory.address, 0, memory.nbytes, self.gpu.stream.handle))


class CatalogueKernel:
    """A catalogue variant, loaded; of a dispatcher, all of its kernels.

    folder: of the cubins; None: the GPU's.
    """

    def __init__(self, gpu: Gpu, entry: Runnable, folder: Path | None = None) -> None:
        self.gpu, self.entry, self._folder = gpu, entry, folder or gpu.build_dir
        self._modules: list[ObjectCode] = []
        self._kernels = {variant.name: self._load(variant) for variant in entry.variants}
        self._filled: dict[str, int] = {}

    def _load(self, variant: Variant) -> Kernel:
        stem = self._folder / variant.name
        self._modules.append(load_cubin(stem.with_suffix(".cubin")))
        kernel = self._modules[-1].get_kernel(entry_name(stem.with_suffix(".ptx")))
        allow_shared(self.gpu, kernel, variant.shared_bytes)
        return kernel

    def bind(
        self,
        problem: Problem,
        a: int,
        b: int,
        c: int,
        sms: int | None = None,
        variant: Variant | None = None,
    ) -> Callable[[], None]:
        """Return a launch of this problem on matrices at these addresses.

        Textures and workspaces that it needs live as long as it. Raises `UserError` where the
        problem is refused.

        :param sms: a persistent kernel is launched as on a GPU with so many SMs; None: this one.
        :param variant: a dispatcher's kernel that takes the problem; None: the one that it picks.
        """
        matrices = {"A": a, "B": b, "C": c}
        if reason := problem.overlap(self.entry.types, matrices):
            raise UserError(f"{self.entry.name} cannot take this problem: {reason}")
        variant = variant or self.entry.pick(problem, matrices)
        grid = variant.grid(problem, sms or self.filled_sms(variant))
        config = LaunchConfig(  # Clusters are the source's, by __cluster_dims__.
            grid=grid,
            block=variant.threads,
            shmem_size=variant.shared_bytes,
            is_cooperative=variant.cooperative,
        )
        made = Arguments(self.gpu, variant.types)
        packed = arguments.pack(variant.arguments, problem, matrices, math.prod(grid), made)
        kernel, stream = self._kernels[variant.name], self.gpu.stream

        def work() -> None:
            made.prepare()
            launch(stream, config, kernel, *packed)

        return work

    def variable(self, name: str) -> tuple[int, int]:
        """Return the address and the bytes of a `__device__` variable of the kernel that was loaded
        last.
        """
        library = driver.CUlibrary(int(self._modules[-1].handle))
        address, nbytes = cuda(driver.cuLibraryGetGlobal(library, name.encode()))
        return int(address), int(nbytes)

    def filled_sms(self, variant: Variant) -> int:
        """Return how many SMs the blocks of a persistent kernel fill at a time.

        They are fewer than the GPU has where its clusters are large: a cluster lies within one GPC,
        and GPCs differ in size. One cluster more would begin when all others have ended.
        """
        if not variant.blocks_per_sm or variant.cluster_blocks == 1 or variant.splits > 1:
            return self.gpu.sm_count
        if variant.name not in self._filled:
            cluster = variant.cluster_blocks
            config = LaunchConfig(
                grid=cluster, block=variant.threads, shmem_size=variant.shared_bytes
            )
            occupancy = self._kernels[variant.name].occupancy
            clusters = occupancy.max_active_clusters(config, stream=self.gpu.stream)
            filled = clusters * cluster // variant.blocks_per_sm
            self._filled[variant.name] = max(min(filled, self.gpu.sm_count), 1)
        return self._filled[variant.name]


class PinnedFlag:
    """A word of host memory that the device reads; `set()` releases the kernel that waits for it."""

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
