"""Special registers (PTX ISA 10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import PtxError
from ..machine.layout import RESERVED_SHARED, reserved
from ..machine.state import component
from .needs import Machine

WARP = 32
RESERVED_OFFSET = "%reserved_smem_offset_"
CLOCKS = ("%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")


def special_value(m: Machine, name: str) -> np.ndarray:
    """Return the values of a special register for a batch, one a thread."""
    stem, _, axis = name.partition(".")
    index, state, launch = "xyzw".index(axis or "x"), m.state, m.launch
    if index == 3:
        return state.uniform(np.uint32(0))

    def of_blocks(values: np.ndarray) -> np.ndarray:
        """Return a value for each block as one for each of its threads."""
        return np.repeat(values.astype(np.uint32), state.padded)

    def of_threads(values: np.ndarray) -> np.ndarray:
        """Return a value for each thread of a block as one for each thread."""
        return np.tile(values.astype(np.uint32), len(state.blocks))

    def in_cluster() -> np.ndarray:
        return of_blocks(
            component(np.asarray(state.blocks), state.grid, index) // state.cluster[index]
        )

    thread = np.arange(state.padded)
    bit = np.uint64(1) << (thread % WARP).astype(np.uint64)
    # Whole numbers are of all threads, and of 32 bits.
    values: dict[str, Callable[[], Any]] = {
        "%tid": lambda: of_threads(component(thread, state.block, index)),
        "%ntid": lambda: state.block[index],
        "%ctaid": lambda: of_blocks(component(np.asarray(state.blocks), state.grid, index)),
        "%nctaid": lambda: state.grid[index],
        "%clusterid": in_cluster,
        "%nclusterid": lambda: state.grid[index] // state.cluster[index],
        "%cluster_nctaid": lambda: state.cluster[index],
        "%cluster_nctarank": lambda: state.cluster_size,
        "%cluster_ctaid": lambda: state.index_in_cluster(index),
        "%cluster_ctarank": lambda: state.rank,
        "%is_explicit_cluster": lambda: np.bool_(state.cluster_size > 1),
        "%laneid": lambda: of_threads(thread % WARP),
        "%warpid": lambda: of_threads(thread // WARP),
        "%nwarpid": lambda: 64,
        "%smid": lambda: of_blocks(np.asarray(state.blocks) % launch.device.sms),
        "%nsmid": lambda: launch.device.sms,
        "%gridid": lambda: np.uint64(1),
        "%lanemask_eq": lambda: of_threads(bit),
        "%lanemask_lt": lambda: of_threads(bit - np.uint64(1)),
        "%lanemask_le": lambda: of_threads(2 * bit - np.uint64(1)),
        "%lanemask_gt": lambda: of_threads(~(2 * bit - np.uint64(1))),
        "%lanemask_ge": lambda: of_threads(~(bit - np.uint64(1))),
        # cooperative_groups::grid_group::sync takes these for its workspace's address.
        "%envreg1": lambda: launch.grid_workspace >> 32,
        "%envreg2": lambda: launch.grid_workspace & 0xFFFFFFFF,
        "%total_smem_size": lambda: launch.shared_bytes,
        "%aggr_smem_size": lambda: launch.shared_bytes + RESERVED_SHARED,
        "%dynamic_smem_size": lambda: launch.dynamic_shared_bytes,
    }
    if stem.startswith(RESERVED_OFFSET):
        target = m.program.module.target
        value: Any = reserved(target, launch.shared_bytes, stem.removeprefix(RESERVED_OFFSET))
    elif stem in values:
        value = values[stem]()
    else:
        raise PtxError(f"special register {name} is not supported")
    if isinstance(value, np.ndarray):
        return value.astype(np.uint32)
    return state.uniform(value if isinstance(value, np.generic) else np.uint32(value))


def clock_value(m: Machine, name: str, pc: int) -> np.ndarray:
    """Return the device's clock, made up (see `Device`), as read at a place: in cycles for %clock
    and %clock64, in ns for %globaltimer.
    """
    device = m.launch.device
    now = device.after(m.scheduler.clock(pc))
    value = now if name.startswith("%globaltimer") else device.cycles(now)
    if name.endswith("_hi"):
        return m.state.uniform(np.uint32(value >> 32))
    if name in ("%clock64", "%globaltimer"):
        return m.state.uniform(np.uint64(value))
    return m.state.uniform(np.uint32(value & 0xFFFFFFFF))
