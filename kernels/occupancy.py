"""Theoretical occupancy from registers, shared memory and block size, without a GPU.

Limits: CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability". Allocation units: NVIDIA's
occupancy calculator (Nsight Compute), which this repeats; the tests hold it against ncu's figures for our kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

from contracts import UserError

WARP = 32
REGISTERS_PER_SM = 65536
REGISTER_UNIT = 256  # registers are dealt to a warp in this unit
SCHEDULERS = 4  # each owns a quarter of the register file and of the warps
SHARED_UNIT = 128
SHARED_RESERVE = 1024  # bytes a block that the driver keeps
RESERVED_FROM = 80  # from this compute capability on


@dataclass(frozen=True)
class Limits:
    """What one multiprocessor holds."""

    warps: int
    blocks: int
    shared_bytes: int


LIMITS = {
    75: Limits(warps=32, blocks=16, shared_bytes=64 * 1024),
    80: Limits(warps=64, blocks=32, shared_bytes=164 * 1024),
    86: Limits(warps=48, blocks=16, shared_bytes=100 * 1024),
    89: Limits(warps=48, blocks=24, shared_bytes=100 * 1024),
    90: Limits(warps=64, blocks=32, shared_bytes=228 * 1024),
    100: Limits(warps=64, blocks=32, shared_bytes=228 * 1024),
    120: Limits(warps=48, blocks=24, shared_bytes=100 * 1024),
}


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps that one multiprocessor can hold, and what keeps it from more."""

    blocks_per_sm: int
    warps_per_sm: int
    fraction: float
    limiter: str
    blocks_by: dict[str, int]


def capability(arch: str) -> int:
    """90 for "sm_90a"."""
    digits = arch.removeprefix("sm_").rstrip("af")
    if not (arch.startswith("sm_") and digits.isdigit()):
        raise UserError(f"arch = {arch!r} is not allowed; allowed: sm_ and a number, for instance sm_90a")
    return int(digits)


def occupancy(arch: str, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Theoretical occupancy of a block of `threads` with `registers` a thread and `shared_bytes` a block.

    Raises `UserError` for an architecture whose limits are not listed here.
    """
    limits = LIMITS.get(capability(arch))
    if limits is None:
        raise UserError(f"arch = {arch!r}: limits unknown; known: {', '.join(f'sm_{c}' for c in LIMITS)}")
    warps = -(-threads // WARP)
    registers_per_warp = _round_up(registers * WARP, REGISTER_UNIT)
    warps_by_registers = SCHEDULERS * (REGISTERS_PER_SM // SCHEDULERS // registers_per_warp)
    reserve = SHARED_RESERVE if capability(arch) >= RESERVED_FROM else 0
    shared_per_block = max(_round_up(shared_bytes + reserve, SHARED_UNIT), SHARED_UNIT)
    by = {
        "registers": warps_by_registers // warps,
        "shared": limits.shared_bytes // shared_per_block,
        "threads": limits.warps // warps,
        "blocks": limits.blocks,
    }
    blocks = min(by.values())
    limiter = min(by, key=lambda name: by[name])
    return Occupancy(blocks, blocks * warps, blocks * warps / limits.warps, limiter, by)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
