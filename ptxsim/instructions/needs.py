"""What instructions need of the machine that executes them."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..machine.async_copies import Copies
from ..machine.barriers import Barriers
from ..machine.batch import Batch
from ..machine.bulk_groups import BulkGroups
from ..machine.clusters import Clusters
from ..machine.mbarriers import Phases
from ..machine.operands import Operands
from ..machine.state import Calls
from ..machine.warpgroups import Warpgroups, Watch
from ..ptx.reaching_definitions import Origins


class Schedules(Protocol):
    """A scheduler that ends threads and counts the instructions they execute."""

    def leave(self, threads: np.ndarray) -> None: ...
    def clock(self, pc: int) -> int: ...


class Machine(Batch, Protocol):
    """A batch of blocks with all that their instructions act on."""

    operands: Operands
    origins: dict[int, Origins]
    calls: Calls
    copies: Copies
    bulk_groups: BulkGroups
    phases: Phases
    watch: Watch
    warpgroups: Warpgroups
    barriers: Barriers
    clusters: Clusters

    @property
    def scheduler(self) -> Schedules: ...
