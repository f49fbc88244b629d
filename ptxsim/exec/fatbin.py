"""The containers of a program's kernels: fat binaries, cubins and PTX.

A fat binary is a header of 16 bytes (u32 magic, u16 version, u16 bytes of the header, u64 bytes
that follow), then entries, each with a header of its own: u16 kind (1: PTX, 2: cubin), u16, u32
bytes of the header, u64 bytes of the payload, u32 bytes of the compressed payload (0: it is not),
... u32 architecture at byte 28, ... u64 flags at byte 40, ... . PTX and cubins that are compressed
are taken out by cuobjdump.
"""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..errors import PtxError, PtxsimError
from ..gpus import GPUS
from ..ptx.compiler import tool

MAGIC = 0xBA55ED50
PTX, ELF = 1, 2
# These flags mean compression by LZ4 or Zstandard.
COMPRESSED = 0x1000 | 0x2000 | 0x8000


class NoBinaryError(PtxsimError):
    """A module has no code that can be run on the device."""


@dataclass(frozen=True)
class Image:
    """The code of one architecture."""

    # The kind is PTX or ELF.
    kind: int
    # The architecture is 90 for sm_90 and sm_90a.
    architecture: int
    # The content is None where it is compressed.
    content: bytes | None

    @property
    def specific(self) -> bool:
        """Return whether it is for one architecture alone, as sm_90a."""
        head = (self.content or b"")[:2000]
        return self.kind == PTX and re.search(rb"\.target\s+sm_\d+a", head) is not None


def images(content: bytes) -> list[Image]:
    """Return the contents of a fat binary, a cubin or PTX text.

    Raises `PtxError` for anything else.
    """
    if content[:4] == b"\x7fELF":
        return [Image(ELF, 0, content)]
    if int.from_bytes(content[:4], "little") != MAGIC:
        if b".version" in content[:100000] and b".target" in content[:100000]:
            return [Image(PTX, 0, content.rstrip(b"\0"))]
        raise PtxError("a module that is neither PTX, a cubin nor a fat binary")
    contents, at = [], int.from_bytes(content[6:8], "little")
    end = min(len(content), at + int.from_bytes(content[8:16], "little"))
    while at + 64 <= end:
        kind, _, header, size = struct.unpack_from("<HHIQ", content, at)
        compressed = struct.unpack_from("<I", content, at + 16)[0]
        architecture = struct.unpack_from("<I", content, at + 28)[0]
        flags = struct.unpack_from("<Q", content, at + 40)[0]
        body = content[at + header : at + header + size]
        packed = bool(flags & COMPRESSED) and compressed > 0
        if kind in (PTX, ELF):
            contents.append(
                Image(
                    kind,
                    architecture,
                    None if packed else body.rstrip(b"\0") if kind == PTX else body,
                )
            )
        at += header + size
    return contents


def unpacked(content: bytes, folder: Path) -> list[Image]:
    """Return the contents decompressed, by cuobjdump in a folder of the caller's.

    Raises `PtxError`.
    """
    contents = images(content)
    if all(image.content is not None for image in contents):
        return contents
    try:
        cuobjdump = tool("cuobjdump")
    except PtxError:
        raise PtxError(
            "the program's kernels are compressed, and there is no cuobjdump to take them out; remedy: pip install "
            "nvidia-cuda-cuobjdump, or compile with nvcc --no-compress"
        ) from None
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        file = Path(scratch) / "module.fatbin"
        file.write_bytes(content)
        for what in ("-xptx", "-xelf"):
            done = subprocess.run(
                [cuobjdump, what, "all", file.name], cwd=scratch, capture_output=True, text=True
            )
            if done.returncode and "does not contain" not in done.stderr + done.stdout:
                raise PtxError(f"cuobjdump: {(done.stderr or done.stdout).strip().splitlines()[0]}")
        taken = []
        for kind, pattern in ((PTX, "*.ptx"), (ELF, "*.cubin")):
            for path in sorted(Path(scratch).glob(pattern)):
                number = re.search(r"sm_(\d+)", path.name)
                taken.append(
                    Image(
                        kind,
                        int(number[1]) if number else 0,
                        path.read_bytes().rstrip(b"\0") if kind == PTX else path.read_bytes(),
                    )
                )
        return taken


def choose_all(
    parts: list[list[Image]], architecture: int
) -> list[tuple[Image | None, Image | None]]:
    """`choose` from each of the parts that a program is linked of. A part for newer devices is left
    out, as a library may have several for one purpose (libcudadevrt has). Raises `NoBinaryError`
    where all are for newer devices."""
    chosen = []
    for part in parts:
        try:
            chosen.append(choose(part, architecture))
        except NoBinaryError as error:
            newer = error
    if not chosen:
        raise newer
    return chosen


def choose(available: list[Image], architecture: int) -> tuple[Image | None, Image | None]:
    """Return the PTX for a device, and the cubin that belongs to it: the highest architecture that
    the device runs, and of two the one for it alone. Raises `NoBinaryError` where all PTX is for newer
    devices."""
    texts = [image for image in available if image.kind == PTX]
    fitting = [image for image in texts if image.architecture <= architecture]
    if texts and not fitting:
        lowest = min(image.architecture for image in texts)
        raise NoBinaryError(
            f"the program's PTX is for compute capability {lowest / 10} and newer; --gpu is of {architecture / 10}; "
            f"of these are: {', '.join(n for n, gpu in GPUS.items() if gpu.architecture >= lowest) or 'none'}"
        )
    cubins = [image for image in available if image.kind == ELF]
    text = max(fitting, key=lambda image: (image.architecture, image.specific), default=None)
    same = [
        image for image in cubins if text is None or image.architecture in (text.architecture, 0)
    ]
    return text, same[0] if same else None
