"""Which compilers, driver and GPU there are.

    python -m experiments.stages.toolchain --out results/toolchain.json

nvcc: the one named by config, else the pinned wheel, else the one on PATH; cuobjdump likewise. A host g++ is needed.

Where Snakemake runs on a node without the GPU that its jobs get, the file is made on one that has it: the config key
gpu_node names it, and `--node` takes it over.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contracts import UserError, read_json, run_command, write_json

KNOWN = "GEMM_LADDER_TOOLCHAIN"  # set by Snakemake for its jobs: what toolchain.json holds, as JSON


@dataclass(frozen=True)
class Gpu:
    """A GPU as NVML shows it, before any CUDA context: name, architecture, driver."""

    name: str
    arch: str
    driver: str

    @property
    def machine(self) -> str:
        """Folder name for its results: "h200" for "NVIDIA H200"."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower().replace("nvidia", "")).strip("-")


@functools.cache
def gpu() -> Gpu | None:
    """The first GPU that CUDA_VISIBLE_DEVICES leaves visible; None where there is no driver or no GPU."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        handles = visible_handles()
        if not handles:
            return None
        name = pynvml.nvmlDeviceGetName(handles[0])
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(physical(handles[0]))
        arch = f"sm_{major}{minor}" + ("a" if major == 9 else "")
        return Gpu(name, arch, pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()


def gpu_of(known: dict[str, Any]) -> Gpu | None:
    """The GPU that a toolchain.json tells of."""
    return Gpu(known["gpu"], known["arch"], known["driver"]) if known["gpu"] else None


def visible_handles() -> list:
    """NVML handles of the devices that CUDA_VISIBLE_DEVICES names, in its order, each once; NVML must be initialised.

    A device is a GPU or, of a GPU in MIG mode, an instance. Numbers count GPUs in the order of the PCI bus, and one in
    MIG mode stands for its first instance; names are UUIDs, whole or cut short where that is unambiguous. A GPU that
    was given to somebody else (a cgroup then denies it) is not there and has no number.
    """
    import pynvml

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
            found = gpus[int(item)][:1] if int(item) < len(gpus) else []
        else:
            found = _named(item, gpus)
        if len(found) != 1:
            break  # as CUDA does: what follows an unknown device is not visible
        chosen.setdefault(pynvml.nvmlDeviceGetUUID(found[0]), found[0])
    return list(chosen.values())


def _devices(gpu: Any) -> list:
    """What CUDA can use of a GPU: the GPU itself, in MIG mode its instances."""
    import pynvml

    try:
        if pynvml.nvmlDeviceGetMigMode(gpu)[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
            return [gpu]
        instances = []
        for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
            with contextlib.suppress(pynvml.NVMLError_NotFound):
                instances.append(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index))
        return instances
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return [gpu]  # it knows no MIG


def _named(item: str, gpus: list[list]) -> list:
    """The devices whose UUID is or begins with `item`; of a GPU in MIG mode that is named, the first instance."""
    import pynvml

    if not item.startswith(("GPU-", "MIG-")):
        return []
    found = []
    for devices in gpus:
        if devices and pynvml.nvmlDeviceGetUUID(physical(devices[0])).startswith(item):
            found.append(devices[0])
        else:
            found += [device for device in devices if pynvml.nvmlDeviceGetUUID(device).startswith(item)]
    return found


def physical(device: Any) -> Any:
    """NVML's handle of the GPU that a MIG instance is part of; a GPU is its own."""
    import pynvml

    try:
        return pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device)
    except pynvml.NVMLError:
        return device


def _wheel_bin() -> Path | None:
    spec = importlib.util.find_spec("nvidia.cu13") if importlib.util.find_spec("nvidia") else None
    places = list(spec.submodule_search_locations or []) if spec else []
    return Path(places[0]) / "bin" if places else None


def tool(name: str) -> Path:
    """Path of a CUDA tool: from the wheel, else from PATH. Raises `UserError` naming the remedy."""
    wheel = _wheel_bin()
    if wheel and (wheel / name).is_file():
        return wheel / name
    if found := shutil.which(name):
        return Path(found)
    raise UserError(
        f"no {name}: not in the installed wheels and not on PATH; remedy: pip install -e . (or a CUDA toolkit)"
    )


def nvcc(configured: str | None = None) -> Path:
    """Path of nvcc. Raises `UserError` where it, or the g++ that it needs, is missing."""
    if configured is not None and not (Path(configured).is_file() and os.access(configured, os.X_OK)):
        raise UserError(f"config key nvcc = {configured!r}: not an executable file; use null for the pinned wheel")
    path = Path(configured) if configured else tool("nvcc")
    if not shutil.which("g++"):
        raise UserError(
            "no g++ on PATH: nvcc needs a host compiler; remedy: install g++ (package g++ or build-essential)"
        )
    return path


def ptxas(compiler: Path) -> Path:
    """The assembler that belongs to an nvcc."""
    beside = compiler.resolve().parent / "ptxas"
    return beside if beside.is_file() else tool("ptxas")


@functools.cache
def version(path: str) -> str:
    """A tool's version line, for instance "13.0.88"."""
    try:
        text = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(f"{path} --version failed: {error}; is it the right program?") from error
    found = re.search(r"V(\d+\.\d+\.\d+)", text) or re.search(r"(\d+\.\d+\.\d+)", text)
    return found[1] if found else text.strip().splitlines()[0]


def identity(configured_nvcc: str | None = None, arch: str = "sm_90a") -> dict[str, str | None]:
    """What is in toolchain.json. Free of paths and of anything that changes from run to run."""
    compiler = nvcc(configured_nvcc)
    device = gpu()
    return {
        "nvcc": version(str(compiler)),
        "ptxas": version(str(ptxas(compiler))),
        "host_compiler": f"g++ {version(shutil.which('g++') or 'g++')}",
        "cuobjdump": version(str(tool("cuobjdump"))),
        "driver": device.driver if device else None,
        "gpu": device.name if device else None,
        "arch": device.arch if device else arch,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the toolchain's fingerprint.")
    parser.add_argument("--nvcc", help="path of the compiler")
    parser.add_argument("--arch", default="sm_90a", help="architecture where there is no GPU")
    parser.add_argument("--node", type=Path, help="toolchain.json of another node: taken over")
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    known = read_json(options.node, "toolchain") if options.node else identity(options.nvcc, options.arch)
    write_json(options.out, "toolchain", known, only_if_changed=True)


if __name__ == "__main__":
    run_command(main)
