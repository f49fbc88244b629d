"""Theoretical occupancy from registers, shared memory and block size, without a GPU.

Allocation units: NVIDIA's occupancy calculator (Nsight Compute), which this repeats.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..gpus import Limits

WARP = 32
# Registers are allocated to a warp in this unit.
REGISTER_UNIT = 256
# Each scheduler owns a quarter of the register file and of the warps.
SCHEDULERS = 4
SHARED_UNIT = 128


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps that one multiprocessor can hold, and what keeps it from more."""

    blocks_per_sm: int
    warps_per_sm: int
    fraction: float
    limiter: str
    blocks_by: dict[str, int]


def occupancy(limits: Limits, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Return the theoretical occupancy of a block of `threads` with `registers` a thread and
    `shared_bytes` a block."""
    warps = -(-threads // WARP)
    registers_per_warp = max(_round_up(registers * WARP, REGISTER_UNIT), REGISTER_UNIT)
    warps_by_registers = SCHEDULERS * (limits.registers // SCHEDULERS // registers_per_warp)
    shared_per_block = max(
        _round_up(shared_bytes + limits.shared_bytes_reserved, SHARED_UNIT), SHARED_UNIT
    )
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
