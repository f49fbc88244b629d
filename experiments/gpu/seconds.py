"""Where the seconds of a job on a GPU go, by part."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path


class Seconds:
    """A clock for each part of some work; a part may be gone through several times."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}

    @contextlib.contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Count the time until the block ends as this part's."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.parts[part] = self.parts.get(part, 0.0) + time.monotonic() - start

    def taken(self) -> dict[str, float]:
        """The seconds so far, which are counted from zero again."""
        parts, self.parts = self.parts, {}
        return parts


def since_start() -> float:
    """Seconds since this process began, as proc(5) has it; 0 where the system does not tell."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return float(Path("/proc/uptime").read_text().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return 0.0
