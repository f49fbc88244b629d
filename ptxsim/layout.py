"""Where a block's shared memory lies in its window, by architecture."""

from __future__ import annotations

RESERVED_SHARED = 1024  # bytes of shared memory that the system keeps in each block, from sm_80 on


def shared_base(target: str) -> int:
    """Where a block's static shared memory begins in its window, by the module's target.

    From sm_90 on behind the system's part, which comes first: seen in cubins of CUDA 13.0 for sm_90, sm_100 and sm_120,
    whose code adds 1024 to the window's start, and measured on an H200. At 0 in cubins for sm_75, sm_80, sm_86 and
    sm_89, which address shared memory by constants; from sm_80 on the system's part lies there behind the block's own.
    The alignment that a variable asks for counts from this base.
    """
    return RESERVED_SHARED if architecture(target) >= 90 else 0


def architecture(target: str) -> int:
    """The number in `sm_90a`; 0 where there is none."""
    digits = target.removeprefix("sm_").rstrip("abcdefghijklmnopqrstuvwxyz")
    return int(digits) if digits.isdigit() else 0
