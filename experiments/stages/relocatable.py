"""PTX that does not tell where, when and from which checkout it was compiled; so its cubin does not
tell either.

nvcc names sources by absolute paths in the line table, and puts a hash of the source's path into
names of functions with internal linkage, both in symbols and in the debugger's strings, which are
lists of bytes.
"""

from __future__ import annotations

import re
from pathlib import Path

FILE = re.compile(r'^(\s*\.file\s+\d+\s+)"([^"]+)"', re.M)
# nvcc names its own headers from where it lies
TOOLKIT = re.compile(r".*/bin/\.\./+(?:targets/[^/]+/)?(.+)")
SEED = "-frandom-seed=1"  # nvcc's flag: without it a process id follows the hash
MARKS = ("_INTERNAL_", "_GLOBAL__N__")  # what the hash follows
COMMA = r"(?:,|\n\.b8 )"
HASH = re.compile(rf"({'|'.join(MARKS)})[0-9a-f]{{8}}(?=_)")
MARKS_AS_BYTES = "|".join(COMMA.join(str(byte) for byte in mark.encode()) for mark in MARKS)
HASH_AS_BYTES = re.compile(rf"(?<!\d)((?:{MARKS_AS_BYTES}){COMMA})(\d+(?:{COMMA}\d+){{7}})(?!\d)")


def relocatable(ptx: str, source: Path, root: Path, out_dir: Path) -> str:
    """The PTX of `source`, as it is from any checkout, on any machine and for any `out_dir`.

    Its line table names files from `root`, the repository's (`kernels/sgemm/naive.cu`), else from
    that of `source`; headers of the toolkit as `cuda/include/...`; a `source` that was made in
    `out_dir` by its bare name.
    """
    source, root = source.resolve(), root.resolve()

    def name(path: str) -> str:
        if header := TOOLKIT.fullmatch(path):
            return f"cuda/{header[1]}"
        file = Path(path).resolve()
        if file == source and file.parent == out_dir.resolve():
            return file.name
        folder = next((base for base in (root, source.parent) if file.is_relative_to(base)), None)
        return file.relative_to(folder).as_posix() if folder else path

    ptx = FILE.sub(lambda found: f'{found[1]}"{name(found[2])}"', ptx)
    ptx = HASH.sub(r"\g<1>00000000", ptx)
    return HASH_AS_BYTES.sub(
        lambda found: found[1] + re.sub(r"(?<!b)\d+", str(ord("0")), found[2]), ptx
    )
