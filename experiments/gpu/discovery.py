"""Finds the GPUs that NVML shows before any CUDA context: the visible ones, and the first one."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pynvml

from contracts import UserError, is_rehearsal

MIN_TRITON = 3, 4  # It is the first with tensor descriptors that the host makes.
KNOWN = "GEMM_LADDER_TOOLCHAIN"  # Snakemake sets it to the content of toolchain.json for its jobs.


@dataclass(frozen=True)
class Gpu:
    """A GPU as NVML shows it, before any CUDA context: name, architecture, driver."""

    name: str
    arch: str
    driver: str


@functools.cache
def gpu() -> Gpu | None:
    """Return the first visible GPU; None where there is no driver or no GPU.

    Raises `UserError` where there is a driver that does not answer: its library is of another
    version, for instance.
    """
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        return None
    except pynvml.NVMLError as error:
        raise UserError(_silent(error)) from error
    try:
        handles = visible_handles()
        if not handles:
            return None
        name = pynvml.nvmlDeviceGetName(handles[0])
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(physical(handles[0]))
        arch = f"sm_{major}{minor}" + ("a" if major == 9 else "")
        return Gpu(name, arch, pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError as error:
        raise UserError(_silent(error)) from error
    finally:
        pynvml.nvmlShutdown()


def rehearsing() -> bool:
    """Return whether the GPU is emulated, so that loops and problems are cut short."""
    here = gpu()
    return here is not None and is_rehearsal(here.name)


def _silent(error: Exception) -> str:
    return f"the NVIDIA driver does not answer: NVML says {error}; mend the driver, or hide it: CUDA_VISIBLE_DEVICES="


def visible_handles() -> list[Any]:
    """Return NVML handles of the devices that CUDA_VISIBLE_DEVICES names, in its order, each once.

    A device is a GPU or, of a GPU in MIG mode, an instance. Numbers count GPUs in the order of the
    PCI bus, and one in MIG mode stands for its first instance. Names are UUIDs, complete or cut
    short where that is unambiguous. A GPU that was given to somebody else (a cgroup then denies it)
    has no number. NVML must be initialised.
    """
    gpus = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        with contextlib.suppress(pynvml.NVMLError_NoPermission):
            gpus.append(_devices(pynvml.nvmlDeviceGetHandleByIndex(index)))
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return [devices[0] for devices in gpus if devices]
    chosen: dict[str, Any] = {}
    for item in map(str.strip, wanted.split(",")):
        if re.fullmatch("[0-9]+", item):
            matches = gpus[int(item)][:1] if int(item) < len(gpus) else []
        elif item.startswith(("GPU-", "MIG-")):
            matches = [device for devices in gpus if devices for device in _named(item, devices)]
        else:
            matches = []
        if len(matches) != 1:
            break  # As CUDA has it, what follows an unknown device is not visible.
        chosen.setdefault(pynvml.nvmlDeviceGetUUID(matches[0]), matches[0])
    return list(chosen.values())


@contextlib.contextmanager
def nvml() -> Iterator[object]:
    """Yield NVML's handle of the GPU that is held; of a MIG instance, that of its GPU.

    What NVML refuses is a `UserError`.
    """
    pynvml.nvmlInit()
    try:
        yield physical(visible_handles()[0])
    except pynvml.NVMLError as error:
        raise UserError(f"NVML: {error}") from error
    finally:
        pynvml.nvmlShutdown()


def cores() -> int | None:
    """Return the FP32 lanes of the first visible GPU, which NVML calls cores; None where it does
    not tell, as some drivers do not.
    """
    try:
        with nvml() as handle:
            return int(pynvml.nvmlDeviceGetNumGpuCores(handle))
    except UserError:
        return None


def _devices(gpu: Any) -> list[Any]:
    """Return what CUDA can use of a GPU: the GPU itself, in MIG mode its instances."""
    try:
        if pynvml.nvmlDeviceGetMigMode(gpu)[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
            return [gpu]
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return [gpu]  # It knows no MIG.
    instances = []
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        with contextlib.suppress(pynvml.NVMLError_NotFound):
            instances.append(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index))
    return instances


def _named(item: str, devices: list[Any]) -> list[Any]:
    """Return the devices of a GPU whose UUID begins with `item`, the first where the GPU's does."""
    if pynvml.nvmlDeviceGetUUID(physical(devices[0])).startswith(item):
        return devices[:1]
    return [device for device in devices if pynvml.nvmlDeviceGetUUID(device).startswith(item)]


def physical(device: Any) -> Any:
    """Return NVML's handle of the GPU that a MIG instance is part of; of a GPU, the same."""
    try:
        return pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device)
    except pynvml.NVMLError:
        return device


def missing_libraries() -> dict[str, str]:
    """Return the catalogue's libraries that this Python lacks, each with the reason.

    A reason is read after a baseline's name.
    """
    remedy = "torch for CUDA on Linux brings it: pip install torch"
    try:
        version = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return {"triton": f"needs Triton, which is not installed; {remedy}"}
    if tuple(int(part) for part in re.findall("[0-9]+", version)[:2]) < MIN_TRITON:
        return {
            "triton": f"needs Triton {'.'.join(map(str, MIN_TRITON))} or newer, but triton is {version}; {remedy}"
        }
    return {}
