"""The part of the machine that checks, barriers and copies in flight need of a running batch."""

from __future__ import annotations

from typing import Protocol

from ..ptx.program import Program
from .accesses import Accesses
from .diagnostics import Diagnostics
from .events import Events
from .launch import LaunchConfig
from .state import State


class Batch(Protocol):
    """A batch of blocks that run together."""

    program: Program
    state: State
    diag: Diagnostics
    events: Events
    memory: Accesses
    launch: LaunchConfig
