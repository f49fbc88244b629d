"""Reads kernels from .ptx, .cubin, .cu and .cuh files, as PTX and, where there is one, a cubin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import NoEntryError, PtxError
from . import sizes, templates
from .compiler import SOURCES, compile_ptx
from .sass import assemble, held_ptx

MAX_BYTES = 1 << 28


def read_text(path: Path) -> str:
    """Read a text file of at most MAX_BYTES bytes."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise PtxError(f"{path}: more than {sizes.shown_bytes(MAX_BYTES)}: not PTX")
        return content.decode()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise PtxError(f"{path}: {reason}") from None


def prepare(
    kernel: Path,
    ptx: Path | None = None,
    cubin: Path | None = None,
    arch: str = "sm_90a",
    flags: Sequence[str] = (),
    folder: Path | None = None,
) -> tuple[str, Path | None]:
    """Return the PTX of a file, and the cubin that belongs to it.

    `ptx`: what a .cubin was made from (None: the PTX that it holds). `cubin`: what was made of a
    .ptx, .cu or .cuh file. `arch` and `flags` (of nvcc) are what CUDA is compiled with. `folder`:
    where to make a cubin if there is none.

    Raises `PtxError`, one line.
    """
    if kernel.suffix == ".cubin":
        if cubin is not None:
            raise PtxError(f"--cubin {cubin}: {kernel.name} is a cubin already")
        return held_ptx(kernel) if ptx is None else read_text(ptx), kernel
    if ptx is not None:
        raise PtxError(f"--ptx {ptx}: only goes with a .cubin, not with {kernel.name}")
    if cubin is not None and not cubin.is_file():
        raise PtxError(f"{cubin}: no such file")
    if flags and kernel.suffix not in SOURCES:
        raise PtxError(f"{flags[0]}: only goes with a .cu or .cuh file, not with {kernel.name}")
    text = compile_ptx(kernel, arch, flags) if kernel.suffix in SOURCES else read_text(kernel)
    if cubin is None and folder is not None:
        source, cubin = folder / "kernel.ptx", folder / "kernel.cubin"
        source.write_text(text)
        assemble(source, cubin, arch)
    return text, cubin


def why_not(kernel: Path, entry: str | None, flags: Sequence[str], error: NoEntryError) -> PtxError:
    """Why an entry is not there: a template that nothing instantiates, or else the error itself."""
    if kernel.suffix not in SOURCES:
        return error
    folders = [Path(flag[2:]) for flag in flags if flag.startswith("-I")]
    return templates.explain(kernel, entry, folders) or error
