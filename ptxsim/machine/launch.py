"""The parts of a launch that all its batches share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import Kind
from ..ptx.program import align_up
from ..ptx.sizes import Dim3
from ..ptx.syntax import Variable
from .arrays import Texture
from .device import Device
from .faults import Faults
from .memory import Arena
from .observer import Observer
from .state import WARP
from .tensor_maps import TensorMap
from .texture_arrays import TextureArray


@dataclass(frozen=True)
class Limits:
    """The limits of a launch.

    Attributes: steps: instructions that a batch of blocks may execute, where an endless loop ends.
        lanes: threads that run together. thread_instructions: what a grid may cost, as its first
        blocks tell; the default takes minutes. depth: of recursive calls.
    """

    steps: float = 20_000_000
    lanes: int = 16_384
    thread_instructions: float = 1e10
    depth: int = 32


@dataclass(frozen=True)
class Checks:
    """The checks of a launch. Bounds and alignment are always checked.

    Attributes: races: in shared memory. global_races: in global memory. unwritten: values of
        registers and memory that nobody wrote, where they matter. wraps: 32-bit indices that wrap
        on their way to an address. barriers: whether whole warps come to aligned barriers; a note
        where threads have exited.
    """

    races: bool = True
    global_races: bool = True
    unwritten: bool = True
    wraps: bool = True
    barriers: bool = True

    def without(self, kind: Kind) -> Checks:
        """Return the checks without those that find faults of a kind; none where no check does."""
        names = [name for name in FINDS.get(kind, ()) if getattr(self, name)]
        return replace(self, **dict.fromkeys(names, False)) if names else NO_CHECKS


# These checks find faults of a kind.
FINDS = {
    Kind.RACE: ("races", "global_races"),
    Kind.UNWRITTEN: ("unwritten",),
    Kind.WRAP: ("wraps",),
    Kind.BARRIER: ("barriers",),
}
NO_CHECKS = Checks(False, False, False, False, False)


@dataclass
class Request:
    """The arguments of a launch, checked, as `Kernel.launch` describes them."""

    grid: Dim3
    block: Dim3
    cluster: Dim3
    args: Sequence[Any]
    dynamic_shared_bytes: int
    observers: Sequence[Observer]
    checks: Checks
    limits: Limits
    # Without values, only what bears on the launch's counts is computed.
    values: bool
    constants: Mapping[str, Any]
    blocks: Sequence[int] | None
    cooperative: bool
    # Backwards, threads of a block meet at atomics in the opposite order.
    backwards: bool
    faults: Faults

    @property
    def padded_block(self) -> int:
        """Return the threads of a block, in whole warps."""
        return align_up(math.prod(self.block), WARP)


@dataclass
class LaunchConfig(Request):
    """A launch with its memory."""

    arena: Arena
    # Variables of global and constant memory have addresses, and so have the buffers of parameters.
    symbols: Mapping[str, int]
    params: bytes
    buffers: Mapping[Variable, int]
    # `homes` has the buffers that stand for several in a struct.
    homes: Mapping[int, int]
    # Nobody has written the buffers between these addresses.
    unwritten: Sequence[tuple[int, int]]
    textures: Mapping[int, Texture | TextureArray]
    tensor_maps: Sequence[TensorMap]
    # A thread starts with `registers`, where that is known; with 0, setmaxnreg does nothing.
    registers: int | None
    # A grid's barrier needs memory at this address.
    grid_workspace: int
    device: Device
    # `shared_bytes` counts the static and dynamic bytes of a block.
    shared_bytes: int = 0
    # `constants_read` has what the launch has read so far.
    constants_read: set[Variable | None] = field(default_factory=set)
