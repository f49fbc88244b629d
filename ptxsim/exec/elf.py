"""A reader of ELF files: which libraries a program is linked with, and which source line an address
belongs to.
"""

from __future__ import annotations

import functools
import shutil
import struct
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..ptx.sass import elf_sections, elf_text
from .protocol import Frame

# `MACHINES` holds the names that platform.machine() has, by e_machine.
MACHINES = {62: "x86_64", 183: "aarch64"}
# This e_type is of a program that is not relocated.
EXECUTABLE = 2
# These headers of CUDA have functions that are inlined.
HEADERS = ("cuda_runtime", "device_functions.h", "host_runtime.h")
# nvcc gives this prefix to the host's function for a kernel, which the kernel's line calls.
STUB = "tmpxft_"
# This type of segment is loaded.
LOAD = 1
# These tags are of entries of the dynamic section.
NEEDED, RPATH = 1, 15


@dataclass
class Binary:
    """A program or a shared library."""

    # The program needs these libraries.
    needed: list[str]
    sections: set[str]
    # An RPATH comes before LD_LIBRARY_PATH.
    rpath: bool
    # The program is loaded at this address, if it cannot be moved.
    base: int
    # The number is that of e_machine.
    machine: int


def read(path: Path) -> Binary | None:
    """Read a file; None where it is no 64-bit ELF file, or cannot be read."""
    try:
        data = path.read_bytes()
        if data[:6] != b"\x7fELF\x02\x01":
            return None
        (kind, machine), (start,) = (
            struct.unpack_from("<HH", data, 16),
            struct.unpack_from("<Q", data, 32),
        )
        segment_size, count = struct.unpack_from("<HH", data, 54)
        segments = [
            struct.unpack_from("<IIQQ", data, start + n * segment_size) for n in range(count)
        ]
        base = min((address for what, _, _, address in segments if what == LOAD), default=0)
        sections = elf_sections(data)
        (offset, size) = sections.get(".dynamic", (0, 0))
        (strings, _) = sections.get(".dynstr", (0, 0))
        entries = [struct.unpack_from("<QQ", data, offset + at) for at in range(0, size, 16)]
        needed = [elf_text(data, strings + value) for tag, value in entries if tag == NEEDED]
        rpath = any(tag == RPATH for tag, _ in entries)
        return Binary(needed, set(sections), rpath, base if kind == EXECUTABLE else 0, machine)
    except (OSError, struct.error, IndexError, ValueError):
        return None


def first_line(frames: Iterable[Frame]) -> str | None:
    """Return the innermost line that is in the program's own source, not in CUDA's headers."""
    lines = [
        line for frame in frames if frame.file for line in source_lines(frame.file, frame.offset)
    ]
    of_launch = [n for n, line in enumerate(lines) if line.startswith(STUB)]
    source = [line for line in lines if not line.startswith((*HEADERS, STUB))]
    later = [line for line in lines[of_launch[-1] + 2 :] if line in source] if of_launch else source
    return next(iter(later or source), None)


@functools.lru_cache(maxsize=4096)
def source_lines(file: str, offset: int) -> list[str]:
    """Return `name.cu:12` of an offset in a program's code, where it was compiled with -g, and of
    the calls of the functions that are inlined there."""
    binary = read(Path(file))
    tool = shutil.which("addr2line")
    if binary is None or tool is None:
        return []
    done = subprocess.run(
        [tool, "-i", "-e", file, hex(offset + binary.base)],
        capture_output=True,
        text=True,
        errors="replace",
    )
    lines = []
    for text in done.stdout.splitlines() if done.returncode == 0 else ():
        name, _, line = text.split(" (discriminator")[0].rpartition(":")
        if line.isdigit() and line != "0":
            lines.append(f"{Path(name).name}:{line}")
    return lines
