"""The hash of what a measurement rests on: a kernel's machine code and its launch.

Nothing of the source takes part, so that a comment, a new name or a template leaves a measurement
valid.
"""

from __future__ import annotations

import functools
import hashlib
import re
import struct
from collections.abc import Callable
from pathlib import Path

from contracts import read_json
from contracts.files import digest
from contracts.rows import Resources
from kernels.catalogue import Baseline, Dispatcher, Entry, Variant

SECTIONS = re.compile(rb"\.text|\.nv\.constant\d|\.nv\.shared")
NO_BITS = 8  # type of an ELF section that takes no room in the file: static shared memory


def hash_of_cubin(cubin: bytes) -> str:
    """SHA-256 of the instructions, constants, registers and static shared memory of a cubin, a
    64-bit ELF file.

    Names of functions, line tables and the paths of sources are in other sections.
    """
    (table,) = struct.unpack_from("<Q", cubin, 40)
    size, count, of_names = struct.unpack_from("<HHH", cubin, 58)
    headers = [
        struct.unpack_from("<IIQQQQIIQQ", cubin, table + size * index) for index in range(count)
    ]
    sections = []
    for name, section_type, _, _, offset, length, _, info, *_ in headers:
        begin = headers[of_names][4] + name
        kind = SECTIONS.match(cubin, begin)
        if kind:  # without the name of the function, which contains the template's values
            registers = info >> 24 if kind[0] == b".text" else 0
            content = b"" if section_type == NO_BITS else cubin[offset : offset + length]
            sections.append(b"%s %d %d " % (kind[0], length, registers) + content)
    return hashlib.sha256(b"".join(sorted(sections))).hexdigest()


def code_hash(variant: Variant, cubin: Path) -> str:
    """16 hexadecimal digits that change with the machine code in `cubin` and with the launch of
    `variant`.
    """
    return digest(hash_of_cubin(cubin.read_bytes()), variant.launch)


def code_of(entry: Entry, build_dir: Path) -> str:
    """The code hash of an entry whose kernels `experiments.stages.build` built in `build_dir`.

    Raises `UserError` where a kernel has not been built.
    """

    def of_kernel(variant: Variant) -> str:
        path = build_dir / f"{variant.name}.json"
        return _recorded(path, path.stat().st_mtime_ns if path.is_file() else 0)

    found = code_by(entry, of_kernel)
    assert found is not None  # an unbuilt kernel raises
    return found


def code_by(entry: Entry, of_kernel: Callable[[Variant], str | None]) -> str | None:
    """The code hash of an entry, given those of its kernels; None where one of them is None.

    A dispatcher's follows from its choices and its kernels; a library's, from its entry.
    """
    if isinstance(entry, Baseline):
        return entry.source_hash
    found = [code for code in map(of_kernel, entry.variants) if code]
    if len(found) < len(entry.variants):
        return None
    return digest(entry.source_hash, *found) if isinstance(entry, Dispatcher) else found[0]


@functools.lru_cache(maxsize=1024)
def _recorded(path: Path, _: int) -> str:
    return read_json(path, Resources).code_hash
