"""Protocols of the machine: what each kind of instruction needs of it, and no more."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..machine.async_copies import Copies
from ..machine.barriers import Barriers
from ..machine.batch import Batch
from ..machine.bulk_groups import BulkGroups
from ..machine.calls import Calls
from ..machine.clusters import Clusters
from ..machine.diagnostics import Diagnostics
from ..machine.launch import LaunchConfig
from ..machine.mbarriers import Phases
from ..machine.operands import Operands
from ..machine.state import State
from ..machine.warpgroups import Warpgroups, Watch
from ..ptx.program import Program
from ..ptx.reaching_definitions import Origins


class Threads(Protocol):
    """A machine with registers of threads, and messages for what goes wrong."""

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
    """A machine that also has memory."""

    @property
    def origins(self) -> dict[int, Origins]: ...
    @property
    def calls(self) -> Calls: ...


class AsyncCopies(Memory, Protocol):
    """A machine that also has copies that mbarriers and groups wait for."""

    @property
    def copies(self) -> Copies: ...
    @property
    def bulk_groups(self) -> BulkGroups: ...
    @property
    def phases(self) -> Phases: ...


class Tensors(Memory, Protocol):
    """A machine that also keeps the wgmma that each warpgroup has in flight."""

    @property
    def watch(self) -> Watch: ...
    @property
    def warpgroups(self) -> Warpgroups: ...


class Waits(Threads, Protocol):
    """A machine in which threads wait for each other."""

    @property
    def barriers(self) -> Barriers: ...
    @property
    def clusters(self) -> Clusters: ...


class Schedules(Protocol):
    """A scheduler that ends threads and counts the instructions they execute."""

    def leave(self, threads: np.ndarray) -> None: ...
    def clock(self) -> int: ...


class Clocks(Threads, Protocol):
    """A machine that also has a clock."""

    @property
    def scheduler(self) -> Schedules: ...


class Flow(Waits, Memory, Clocks, Protocol):
    """A machine with everything that decides where threads continue: barriers, calls, exits."""


class Everything(Flow, AsyncCopies, Tensors, Protocol):
    """A whole machine."""
