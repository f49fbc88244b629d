"""Where a block's shared memory lies in its window, by architecture."""

from __future__ import annotations

from ..gpus import number

# The system keeps this many bytes of shared memory in each block, from sm_80 on.
RESERVED_SHARED = 1024
# Blocks get shared memory in multiples of this many bytes.
GRANULE = 128
# Cooperative groups use 288 bytes from %reserved_smem_offset_1 on (details/memory.h).
SCRATCH = 288


def shared_base(target: str) -> int:
    """Return where a block's static shared memory begins in its window, by the module's target.

    From sm_90 on behind the system's part, which comes first: seen in cubins of CUDA 13.0 for
    sm_90, sm_100 and sm_120, whose code adds 1024 to the window's start, and measured on an H200.
    At 0 in cubins for sm_75, sm_80, sm_86 and sm_89, which address shared memory by constants; from
    sm_80 on the system's part lies there behind the block's own. The alignment that a variable asks
    for counts from this base.
    """
    return RESERVED_SHARED if number(target) >= 90 else 0


def reserved(target: str, shared_bytes: int, what: str) -> int:
    """Return %reserved_smem_offset_`what` (PTX ISA 10.29) of a block with `shared_bytes` of its
    own: begin, end, cap, 0 or 1.

    Cubins have the begin, the cap and offset 0 as constants; the driver fills in the end and offset
    1, where cooperative groups keep the barriers of tiles of several warps. Offset 1 is taken to
    lie next to the block's own memory, before it or behind it as the system's part does, so that
    accesses beyond either are still found.
    """
    before = number(target) >= 90
    begin = 0 if before else -(-shared_bytes // GRANULE) * GRANULE
    offsets = {
        "begin": begin,
        "end": begin + RESERVED_SHARED,
        "cap": begin + RESERVED_SHARED,
        "0": begin + (64 if number(target) >= 100 else 0),
        "1": RESERVED_SHARED - SCRATCH if before else begin,
    }
    return offsets[what]
