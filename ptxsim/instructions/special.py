"""Special registers (PTX ISA 10)."""

from __future__ import annotations

import time

import numpy as np

from ..errors import PtxError
from ..machine.layout import RESERVED_SHARED, reserved
from .needs import Machine

WARP = 32
CLOCKS = ("%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")


def special_value(m: Machine, name: str) -> np.ndarray:
    """The values of a special register for a batch, one a thread."""
    stem, _, axis = name.partition(".")
    place = "xyzw".index(axis) if axis else 0
    u32 = np.uint32
    if place == 3:
        return m.state.uniform(u32(0))
    thread = m.state.thread_of
    lane = np.arange(m.state.lanes) % WARP
    match stem:
        case "%tid":
            x, y, _ = m.state.block
            return (thread % x, thread // x % y, thread // (x * y))[place].astype(u32)
        case "%ntid":
            return m.state.uniform(u32(m.state.block[place]))
        case "%ctaid":
            gx, gy, _ = m.state.grid
            number = m.state.blocks[m.state.block_of]
            return (number % gx, number // gx % gy, number // (gx * gy))[place].astype(u32)
        case "%nctaid":
            return m.state.uniform(u32(m.state.grid[place]))
        case "%nclusterid":
            return m.state.uniform(u32(m.state.grid[place] // m.state.cluster[place]))
        case "%clusterid":
            return special_value(m, "%ctaid." + (axis or "x")) // u32(m.state.cluster[place])
        case "%cluster_nctaid":
            return m.state.uniform(u32(m.state.cluster[place]))
        case "%cluster_nctarank":
            return m.state.uniform(u32(m.state.cluster_size))
        case "%cluster_ctaid":
            return m.state.place_in_cluster(place).astype(u32)
        case "%cluster_ctarank":
            return m.state.rank.astype(u32)
        case "%is_explicit_cluster":
            return m.state.uniform(np.bool_(m.state.cluster_size > 1))
        case "%laneid":
            return lane.astype(u32)
        case "%warpid":
            return (thread // WARP).astype(u32)
        case "%nwarpid":
            return m.state.uniform(u32(64))
        case "%smid":
            return (m.state.blocks[m.state.block_of] % 132).astype(u32)
        case "%nsmid":
            return m.state.uniform(u32(132))
        case "%gridid":
            return m.state.uniform(np.uint64(1))
        case "%lanemask_eq":
            return (np.uint64(1) << lane.astype(np.uint64)).astype(u32)
        case "%lanemask_lt":
            return ((np.uint64(1) << lane.astype(np.uint64)) - np.uint64(1)).astype(u32)
        case "%lanemask_le":
            return ((np.uint64(2) << lane.astype(np.uint64)) - np.uint64(1)).astype(u32)
        case "%lanemask_gt":
            return ~special_value(m, "%lanemask_le")
        case "%lanemask_ge":
            return ~special_value(m, "%lanemask_lt")
        case "%envreg1" | "%envreg2":  # what cooperative_groups::grid_group::sync takes for its workspace's address
            return m.state.uniform(u32(m.launch.grid_workspace >> (32 if stem == "%envreg1" else 0) & 0xFFFFFFFF))
        case "%total_smem_size":
            return m.state.uniform(u32(m.launch.shared_bytes))
        case "%aggr_smem_size":
            return m.state.uniform(u32(m.launch.shared_bytes + RESERVED_SHARED))
        case "%dynamic_smem_size":
            return m.state.uniform(u32(m.launch.dynamic_shared_bytes))
    if stem.startswith("%reserved_smem_offset_"):
        target, what = m.program.module.target, stem.removeprefix("%reserved_smem_offset_")
        return m.state.uniform(u32(reserved(target, m.launch.shared_bytes, what)))
    raise PtxError(f"special register {name} is not supported")


def clock_value(m: Machine, name: str) -> np.ndarray:
    """%clock and %clock64 count the instructions executed so far; %globaltimer is the host's clock in ns."""
    value = time.time_ns() if name.startswith("%globaltimer") else m.scheduler.clock()
    if name.endswith("_hi"):
        return m.state.uniform(np.uint32(value >> 32))
    if name in ("%clock64", "%globaltimer"):
        return m.state.uniform(np.uint64(value))
    return m.state.uniform(np.uint32(value & 0xFFFFFFFF))
