"""The devices that programs can see, with the properties that CUDA reports of them."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import PtxsimError

GIB = 1 << 30


@dataclass(frozen=True)
class Gpu:
    """Properties of a device, in CUDA's units."""

    name: str
    capability: tuple[int, int]
    sms: int
    clock_khz: int
    memory_clock_khz: int
    bus_bits: int
    l2_bytes: int
    shared_per_sm: int
    shared_optin: int  # bytes that a block may ask for
    threads_per_sm: int
    blocks_per_sm: int
    memory: int  # bytes
    registers_per_sm: int = 65536
    machine: str = ""  # the preset of `machines.py` with its rates; "": there is none

    @property
    def architecture(self) -> int:
        return self.capability[0] * 10 + self.capability[1]


_SM90 = {"shared_per_sm": 233472, "shared_optin": 232448, "threads_per_sm": 2048, "blocks_per_sm": 32}
GPUS = {
    "h100": Gpu(
        "NVIDIA H100 80GB HBM3",
        (9, 0),
        132,
        1980000,
        2619000,
        5120,
        50 << 20,
        memory=80 * GIB,
        machine="h100-sxm",
        **_SM90,
    ),
    "h200": Gpu(
        "NVIDIA H200", (9, 0), 132, 1980000, 3201000, 6144, 60 << 20, memory=140 * GIB, machine="h200", **_SM90
    ),
    "h100-pcie": Gpu(
        "NVIDIA H100 PCIe", (9, 0), 114, 1755000, 1593000, 5120, 50 << 20, memory=80 * GIB, machine="h100-pcie", **_SM90
    ),
    "a100": Gpu(
        "NVIDIA A100-SXM4-80GB",
        (8, 0),
        108,
        1410000,
        1593000,
        5120,
        40 << 20,
        shared_per_sm=167936,
        shared_optin=166912,
        threads_per_sm=2048,
        blocks_per_sm=32,
        memory=80 * GIB,
    ),
}


def find(name: str) -> Gpu:
    """A device by its name. Raises `PtxsimError` for one that is not known."""
    if name not in GPUS:
        raise PtxsimError(f"--gpu {name!r} is not known; known: {', '.join(GPUS)}")
    return GPUS[name]
