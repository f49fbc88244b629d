"""A reader of ELF files: which libraries a program is linked with, and which source line an address belongs to."""

from __future__ import annotations

import functools
import shutil
import struct
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from .protocol import Place

EXECUTABLE = 2  # e_type of a program that is not relocated
HEADERS = ("cuda_runtime", "device_functions.h", "host_runtime.h")  # of CUDA, with functions that are inlined
STUB = "tmpxft_"  # what nvcc makes of a kernel for the host, which the kernel's own line calls
LOAD, DYNAMIC = 1, 2  # segments
STRTAB, NEEDED, RPATH = 5, 1, 15  # entries of the dynamic section


@dataclass
class Binary:
    """A program or a shared library."""

    needed: list[str] = field(default_factory=list)  # libraries
    sections: set[str] = field(default_factory=set)
    rpath: bool = False  # an RPATH comes before LD_LIBRARY_PATH
    base: int = 0  # where it is loaded, if it cannot be moved
    dynamic: bool = False


def read(path: Path) -> Binary | None:
    """Read a file; None where it is no 64-bit ELF file, or cannot be read."""
    try:
        data = path.read_bytes()
        if data[:6] != b"\x7fELF\x02\x01":
            return None
        (kind,) = struct.unpack_from("<H", data, 16)
        segments, sections = struct.unpack_from("<QQ", data, 32)
        segment_size, segment_count, section_size, section_count, names = struct.unpack_from("<HHHHH", data, 54)
        found = Binary()
        loads = []
        entries: list[tuple[int, int]] = []
        for n in range(segment_count):
            what, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", data, segments + n * segment_size)
            if what == LOAD:
                loads.append((address, offset, size))
            if what == DYNAMIC:
                found.dynamic = True
                entries = [struct.unpack_from("<QQ", data, offset + at) for at in range(0, size, 16)]
        found.base = min((address for address, _, _ in loads), default=0) if kind == EXECUTABLE else 0
        table = next((value for tag, value in entries if tag == STRTAB), None)
        if table is not None:
            at = next(offset + table - address for address, offset, size in loads if address <= table < address + size)
            found.needed = [_text(data, at + value) for tag, value in entries if tag == NEEDED]
            found.rpath = any(tag == RPATH for tag, _ in entries)
        headers = [struct.unpack_from("<IIQQQQ", data, sections + n * section_size) for n in range(section_count)]
        if headers:
            found.sections = {_text(data, headers[names][4] + header[0]) for header in headers}
        return found
    except (OSError, struct.error, IndexError, ValueError, StopIteration):
        return None


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode(errors="replace")


def first_line(places: Iterable[Place]) -> str | None:
    """The innermost of these that is in the program's own source, not in CUDA's headers."""
    lines = [line for place in places if place.file for line in source_lines(place.file, place.offset)]
    of_launch = [n for n, line in enumerate(lines) if line.startswith(STUB)]
    own = [line for line in lines if not line.startswith((*HEADERS, STUB))]
    later = [line for line in lines[of_launch[-1] + 2 :] if line in own] if of_launch else own
    return next(iter(later or own), None)


@functools.lru_cache(maxsize=4096)
def source_lines(file: str, offset: int) -> list[str]:
    """`name.cu:12` of a place in a program's code, where it was compiled with -g, and of the calls of the functions
    that are inlined there."""
    binary = read(Path(file))
    tool = shutil.which("addr2line")
    if binary is None or tool is None:
        return []
    done = subprocess.run(
        [tool, "-i", "-e", file, hex(offset + binary.base)], capture_output=True, text=True, errors="replace"
    )
    found = []
    for place in done.stdout.splitlines() if done.returncode == 0 else ():
        name, _, line = place.split(" (discriminator")[0].rpartition(":")
        if line.isdigit() and line != "0":
            found.append(f"{Path(name).name}:{line}")
    return found
