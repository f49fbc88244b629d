"""GPUs and their architectures: the one table of what they hold and how fast they are.

Limits of a multiprocessor (SM): CUDA C++ Programming Guide 13.0, "Technical Specifications per
Compute Capability". GPUs: NVIDIA's data sheets, and what CUDA reports of those that were at hand.
docs/hardware.md has a source for each rate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import PtxsimError

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class Limits:
    """What one SM of an architecture holds."""

    warps: int
    blocks: int
    shared_bytes: int
    shared_bytes_of_block: int  # the most that one block may ask for
    shared_bytes_reserved: int = KIB  # of each block, by the system
    registers: int = 65536


_SM80 = Limits(warps=64, blocks=32, shared_bytes=164 * KIB, shared_bytes_of_block=163 * KIB)
_SM86 = Limits(warps=48, blocks=16, shared_bytes=100 * KIB, shared_bytes_of_block=99 * KIB)
_SM89 = Limits(warps=48, blocks=24, shared_bytes=100 * KIB, shared_bytes_of_block=99 * KIB)
_SM90 = Limits(warps=64, blocks=32, shared_bytes=228 * KIB, shared_bytes_of_block=227 * KIB)
LIMITS = {
    75: Limits(
        32, 16, shared_bytes=64 * KIB, shared_bytes_of_block=64 * KIB, shared_bytes_reserved=0
    ),
    80: _SM80,
    86: _SM86,
    89: _SM89,
    90: _SM90,
    100: _SM90,
    103: _SM90,
    120: _SM89,
    121: _SM89,
}


@dataclass(frozen=True)
class Rates:
    """What one SM does in one of its clocks."""

    issue_per_clock: float  # instructions of a warp
    fma_per_clock: float  # instructions of a warp that the FMA pipe takes
    fp64_per_clock: float  # the same of the fp64 pipe
    mma_flop_per_clock: float  # of mma.sync with 16-bit inputs
    mma_tf32_flop_per_clock: float
    wgmma_flop_per_clock: float  # of wgmma with 16-bit inputs
    wgmma_tf32_flop_per_clock: float
    wgmma_fp8_flop_per_clock: float
    register_reads_per_clock: float  # operands of a warp, from each of the two banks
    shared_wavefronts_per_clock: float
    l1_lines_per_clock: float  # 128-byte lines that the L1's tags look up
    l2_bytes_per_clock: float  # between L2 and one SM


# The L1's, and the tensor cores' 6 clocks of one scheduler for a mma.sync of 4096 FLOP, are from
# counters of an H200; tf32 is taken as half of 16 bits. Of wgmma the data sheet's; with 16 bits,
# 4090 were measured there.
RATES = {
    90: Rates(
        issue_per_clock=4,
        fma_per_clock=4,
        fp64_per_clock=2,
        mma_flop_per_clock=4 * 4096 / 6,
        mma_tf32_flop_per_clock=4 * 2048 / 6,
        wgmma_flop_per_clock=4096,
        wgmma_tf32_flop_per_clock=2048,
        wgmma_fp8_flop_per_clock=8192,
        register_reads_per_clock=4,
        shared_wavefronts_per_clock=1,
        l1_lines_per_clock=1,
        l2_bytes_per_clock=64,
    )
}


@dataclass(frozen=True)
class Gpu:
    """A GPU model. `clock_mhz`: the highest of its SMs; `memory_clock_mhz`: half the rate at which
    a pin moves bits.
    """

    name: str  # as CUDA reports it
    architecture: int  # 90: compute capability 9.0
    sms: int
    clock_mhz: float
    memory_clock_mhz: float
    bus_bits: int
    dram_gb_per_s: float  # 10^9 bytes, of the data sheet
    l2_bytes: int
    memory_bytes: int

    @property
    def limits(self) -> Limits:
        return LIMITS[self.architecture]

    @property
    def persisting_l2_bytes(self) -> int:
        """The largest part of L2 that may be set aside: of an A100 3/4, an RTX 3090 and 4090 11/16, an
        H100 and H200 5/8, as CUDA reports it; of later ones taken as the H100's.
        """
        sixteenths = {75: 0, 80: 12, 86: 11, 89: 11}.get(self.architecture, 10)
        return self.l2_bytes * sixteenths // 16

    @property
    def access_window_bytes(self) -> int:
        """The largest access policy window, as CUDA reports it."""
        window = 128 * MIB if self.architecture >= 90 else 128 * MIB - 4 * KIB
        return window if self.persisting_l2_bytes else 0

    @property
    def rates(self) -> Rates | None:
        """None where the rates of its architecture are not known."""
        return RATES.get(self.architecture)


GPUS = {
    "t4": Gpu("Tesla T4", 75, 40, 1590, 5001, 256, 320, 4 * MIB, 16 * GIB),
    "rtx2080ti": Gpu(
        "NVIDIA GeForce RTX 2080 Ti", 75, 68, 1545, 7000, 352, 616, 5632 * KIB, 11 * GIB
    ),
    "a100": Gpu("NVIDIA A100-SXM4-80GB", 80, 108, 1410, 1593, 5120, 2039, 40 * MIB, 80 * GIB),
    "a10": Gpu("NVIDIA A10", 86, 72, 1695, 6251, 384, 600, 6 * MIB, 24 * GIB),
    "a6000": Gpu("NVIDIA RTX A6000", 86, 84, 1800, 8001, 384, 768, 6 * MIB, 48 * GIB),
    "rtx3090": Gpu("NVIDIA GeForce RTX 3090", 86, 82, 1695, 9751, 384, 936, 6 * MIB, 24 * GIB),
    "l4": Gpu("NVIDIA L4", 89, 58, 2040, 6251, 192, 300, 48 * MIB, 24 * GIB),
    "l40s": Gpu("NVIDIA L40S", 89, 142, 2520, 9001, 384, 864, 96 * MIB, 48 * GIB),
    "rtx4090": Gpu("NVIDIA GeForce RTX 4090", 89, 128, 2520, 10501, 384, 1008, 72 * MIB, 24 * GIB),
    "h100": Gpu("NVIDIA H100 80GB HBM3", 90, 132, 1980, 2619, 5120, 3350, 50 * MIB, 80 * GIB),
    "h100-pcie": Gpu("NVIDIA H100 PCIe", 90, 114, 1755, 1593, 5120, 2000, 50 * MIB, 80 * GIB),
    "h200": Gpu("NVIDIA H200", 90, 132, 1980, 3201, 6144, 4800, 60 * MIB, 140 * GIB),
    "b200": Gpu("NVIDIA B200", 100, 148, 1965, 3996, 8192, 8000, 126 * MIB, 180 * GIB),
    "rtx5090": Gpu("NVIDIA GeForce RTX 5090", 120, 170, 2407, 14001, 512, 1792, 96 * MIB, 32 * GIB),
}
ALSO = {"h100-sxm": "h100"}  # other names


def find(name: str, option: str = "--gpu") -> Gpu:
    """A GPU by its name. Raises `PtxsimError`, naming the option, for one that is not known."""
    name = ALSO.get(name, name)
    if name not in GPUS:
        raise PtxsimError(f"{option} {name!r} is not known; known: {', '.join(GPUS)}")
    return GPUS[name]


def number(target: str) -> int:
    """90 for "sm_90" and "sm_90a", 100 for "sm_100f"; 0 for what names no architecture."""
    found = re.fullmatch(r"sm_(\d+)[af]?", target)
    return int(found[1]) if found else 0


def architecture(target: str) -> int:
    """The number of an architecture, 90 for "sm_90a". Raises `PtxsimError` for what names none."""
    if not number(target):
        raise PtxsimError(
            f"arch = {target!r} is not allowed; allowed: sm_ and a number, for instance sm_90a"
        )
    return number(target)


def limits_of(target: str) -> Limits:
    """The limits of an SM of an architecture, "sm_90a".

    Raises `PtxsimError` where they are not known.
    """
    limits = LIMITS.get(architecture(target))
    if limits is None:
        raise PtxsimError(
            f"arch = {target!r}: limits unknown; known: {', '.join(f'sm_{number}' for number in LIMITS)}"
        )
    return limits
