"""The Python interface: load a program, make arrays, launch.

import numpy as np, ptxsim
program = ptxsim.load("kernel.ptx")
c = ptxsim.Array(np.zeros((128, 128), np.float32), "C")
program.launch(grid=(1, 1), block=256, args=[128, c])
c.numpy()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from .count import bounds, machines
from .count.annotate import listing
from .count.bounds import Bounds
from .count.counters import Counters
from .engine import kernel
from .engine.kernel import Argument, Constant
from .errors import NoEntryError, PtxError, PtxsimError
from .machine.launch import Limits
from .ptx import sass, sizes, templates
from .ptx.compiler import SOURCES, compile_ptx
from .ptx.parser import parse
from .ptx.sass import assemble, held_ptx


class Kernel(kernel.Kernel):
    """One entry of a module, which can be launched and counted; `load` makes it.

    :param module: The parsed PTX.
    :param entry: The entry's name; None for the only one.
    :param cubin: What ptxas made of the PTX, whose merged accesses counters then follow.
    :param memory: Device memory that launches work on, with the module's variables in it; None:
        each launch has its own, with copies of the arrays that it is given.
    """

    def count(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Argument],
        shared_bytes: int = 0,
        *,
        limits: Limits | None = None,
        constants: Mapping[str, Constant] | None = None,
        blocks: Sequence[int] | None = None,
        cluster: int | Sequence[int] | None = None,
    ) -> Counters:
        """Return the counters of a launch; the arguments (`grid`, `block`, `args`, `shared_bytes`,
        `limits`, `constants`, `blocks`, `cluster`) are those of `launch`.

        Nothing but addresses and the flow of control is computed, so it is several times faster
        than `launch`. Arrays stay as they were, and only bounds and alignment are checked.

        >>> kernel = ptxsim.load("scale.ptx")
        >>> x, y = (ptxsim.Array(np.zeros(64, np.float32), name) for name in "xy")
        >>> counters = kernel.count(grid=2, block=32, args=[y, x, 2.0, 64])
        >>> counters.totals()["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
        8
        """
        counters = Counters()
        self.launch(
            grid,
            block,
            args,
            shared_bytes,
            observers=[counters],
            checks=False,
            limits=limits,
            values=False,
            constants=constants,
            blocks=blocks,
            cluster=cluster,
        )
        return counters

    def bounds(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Argument],
        shared_bytes: int = 0,
        *,
        constants: Mapping[str, Constant] | None = None,
        gpu: str = "h100",
        cluster: int | Sequence[int] | None = None,
    ) -> Bounds:
        """Return the minimum cycles that each resource of a GPU needs for a launch. `gpu`: its name
        or a .toml file; `grid`, `block`, `args`, `shared_bytes`, `constants` and `cluster` are
        those of `launch`.

        Raises `PtxsimError` for a kernel that was loaded without a cubin.
        """
        if self.cubin is None:
            raise PtxsimError(
                f"{self.title}: bounds are of machine code: load it with cubin=..., or from a .cubin"
            )
        counters, traffic = Counters(), bounds.Traffic()
        self.launch(
            grid,
            block,
            args,
            shared_bytes,
            observers=[counters, traffic],
            checks=False,
            values=False,
            constants=constants,
            cluster=cluster,
        )
        work = bounds.Work.observed(counters, traffic)
        function = sass.read(self.cubin, self.name)
        return bounds.compute(function, self.program, work, machines.find(gpu), shared_bytes)

    def annotate(
        self, counters: Counters, source: str | Path | None = None, near: Sequence[Path] = ()
    ) -> str:
        """Return the CUDA source with, next to each line, what its memory accesses cost by these
        counters. `source`: the file, if it is not where the PTX says; `near`: folders to look in
        for it.

        >>> kernel = ptxsim.load("scale.ptx")
        >>> x, y = (ptxsim.Array(np.zeros(64, np.float32), name) for name in "xy")
        >>> counters = kernel.count(grid=2, block=32, args=[y, x, 2.0, 64])
        >>> print(kernel.annotate(counters))
        scale: grid (2, 1, 1), block (32, 1, 1)
        global memory: 16 sectors, 16 would do (0.0% excess), 32 of 32 bytes used of each
        ...
        """
        return "\n".join(listing(self, counters, Path(source) if source else None, near)) + "\n"


def load(
    source: str | Path,
    entry: str | None = None,
    cubin: str | Path | None = None,
    ptx: str | Path | None = None,
    arch: str = "sm_90a",
    flags: Sequence[str] = (),
    folder: Path | None = None,
) -> Kernel:
    """Return a kernel out of PTX: the text itself, or the path of a .ptx, .cubin, .cu or .cuh file.

    Args: source: text or path. CUDA goes through nvcc, with `arch` and `flags` ("-Iinclude",
        "-DTILE=8"). entry: the kernel's name, mangled or as in the source (`tiled<128, 8>`), or a
        part that only it has. cubin: what ptxas made of that PTX with line information. Where
        neighbouring accesses of shared memory were merged, counters then follow the cubin instead
        of a rule; what the kernel computes comes from the PTX all the same. ptx: of a .cubin, what
        it was made from, if not the PTX that it holds. folder: where to make a cubin if there is
        none; None: none is made.

    Raises `PtxError`, one line.

    >>> ptxsim.load("scale.ptx").title
    'scale'
    """
    cubin, ptx = (Path(p) if p else None for p in (cubin, ptx))
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith(".version")):
        return Kernel(parse(source), entry, cubin)
    path = Path(source)
    text, cubin = prepare(path, ptx, cubin, arch, flags, folder)
    try:
        return Kernel(parse(text), entry, cubin)
    except NoEntryError as error:
        raise why_not(path, entry, flags, error) from None


# files

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
