"""Temporary files and folders that carry their owner's name, so that what a killed process left behind can be swept.

A name ends in `-PLACE-PID-START-TOKEN`: PLACE identifies the host's boot and the container (one numbering of
processes), START is when the process began, in the kernel's ticks. Whether a process of another place lives cannot be
known: from there, what is a day old is swept.

A process number alone would not do. On a cluster, results/ lies on a file system that several hosts write to, and a
number that is free here may be in use there; after a reboot, a number is another process's. The age alone would not do
either: a run that lasts for days would lose its files, and what a killed run left would fill the disk for a day.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

OWNED = re.compile(r"\..*-([0-9a-f]{8})-(\d+)-(\d+)-[0-9a-f]{8}(\.[^/]*)?")
NOWHERE = "0" * 8  # the place, where the system does not report it
OLD_S = 24 * 3600.0


def owned_name(stem: str, suffix: str = "") -> str:
    """A new hidden name that says which process it belongs to."""
    pid = os.getpid()
    return f".{stem}-{_place()}-{pid}-{_start(pid) or 0}-{secrets.token_hex(4)}{suffix}"


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder in the system's temporary folder; removed with all that is in it when the block ends."""
    folder = Path(tempfile.gettempdir(), owned_name("gemm-ladder")).absolute()
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(*folders: str | Path) -> list[Path]:
    """Remove what dead processes left in `folders`, at any depth, and in the system's temporary folder; return what."""
    found = [path for path in Path(tempfile.gettempdir()).iterdir() if OWNED.fullmatch(path.name)]
    for folder in folders:
        for top, _, names in os.walk(folder):
            found += [Path(top, name) for name in names if OWNED.fullmatch(name)]
    removed = []
    for path in found:
        with contextlib.suppress(OSError):  # gone by itself, or another user's
            if _abandoned(path):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
                removed.append(path)
    return removed


def _abandoned(path: Path) -> bool:
    """Whether the process that a name speaks of is no more."""
    place, pid, start = OWNED.fullmatch(path.name).groups()[:3]  # type: ignore[union-attr]
    if place == _place() != NOWHERE:
        return _start(int(pid)) != int(start)
    return time.time() - path.lstat().st_mtime > OLD_S


@functools.cache
def _place() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        return hashlib.sha256(f"{boot}{os.stat('/proc/self/ns/pid').st_ino}".encode()).hexdigest()[:8]
    except OSError:
        return NOWHERE


def _start(pid: int) -> int | None:
    """When a living process began, in ticks since boot; None for one that has ended, be it still to be waited for."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else int(fields[18])  # field 22 of proc(5); `state` is field 3
