"""What instructions take from the machine that runs them: as little as each kind of them needs."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..barriers import Barriers
from ..batch import Batch
from ..bulk_groups import BulkGroups
from ..calls import Calls
from ..clusters import Clusters
from ..copies import Copies
from ..diagnostics import Diagnostics
from ..launch import LaunchConfig
from ..operands import Operands
from ..origins import Origins
from ..phases import Phases
from ..program import Program
from ..state import State
from ..warpgroups import Warpgroups, Watch


class Threads(Protocol):
    """Registers of threads, and words for what goes wrong."""

    @property
    def program(self) -> Program: ...
    @property
    def state(self) -> State: ...
    @property
    def operands(self) -> Operands: ...
    @property
    def diag(self) -> Diagnostics: ...
    @property
    def launch(self) -> LaunchConfig: ...


class Memory(Threads, Batch, Protocol):
    """And memory."""

    @property
    def origins(self) -> dict[int, Origins]: ...
    @property
    def calls(self) -> Calls: ...


class AsyncCopies(Memory, Protocol):
    """And copies that mbarriers and groups wait for."""

    @property
    def copies(self) -> Copies: ...
    @property
    def bulk_groups(self) -> BulkGroups: ...
    @property
    def phases(self) -> Phases: ...


class Tensors(Memory, Protocol):
    """And what a warpgroup's wgmma has under way."""

    @property
    def watch(self) -> Watch: ...
    @property
    def warpgroups(self) -> Warpgroups: ...


class Waits(Threads, Protocol):
    """Where threads wait for each other."""

    @property
    def barriers(self) -> Barriers: ...
    @property
    def clusters(self) -> Clusters: ...


class Schedules(Protocol):
    """What ends threads, and counts what they execute."""

    def leave(self, threads: np.ndarray) -> None: ...
    def clock(self) -> int: ...


class Clocks(Threads, Protocol):
    """And the clock."""

    @property
    def scheduler(self) -> Schedules: ...


class Flow(Waits, Memory, Clocks, Protocol):
    """What decides where threads go on: barriers, calls, the end."""


class Everything(Flow, AsyncCopies, Tensors, Protocol):
    """All of this: a machine."""
