"""The CUDA source behind a kernel: the files that its `.loc` lines name, where they lie, and what
they say.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from typing import Protocol

from ..errors import PtxsimError
from .program import Program
from .syntax import Location


class Titled(Protocol):
    """A kernel, by its program and name."""

    @property
    def program(self) -> Program: ...
    @property
    def title(self) -> str: ...


# These are headers of CUDA, CCCL and CUTLASS.
LIBRARY = re.compile(
    r"/(targets/[\w-]+|cuda-[\d.]+|local/cuda|nvidia/cu\w+)/include/"
    r"|/(cccl|crt|cub|thrust|cooperative_groups|cute|cutlass)/"
)


def in_words(chain: Sequence[Location]) -> str:
    """Describe a line, its callers after it: the innermost line of the user's own comes first, then
    that of the library's function which it calls.
    """
    user_lines = (n for n, at in enumerate(chain) if not LIBRARY.search(os.path.normpath(at.file)))
    first = next(user_lines, 0)
    text = str(chain[first])
    if first:
        text += f", in {chain[first - 1]}"
    callers = list(map(str, chain[first + 1 :]))
    return f"{text}, called from {', from '.join(callers)}" if callers else text


def locations(program: Program) -> dict[int, tuple[Location, ...]]:
    """Return, by pc, the source line of an instruction, then the line that calls its function where
    that is inlined, and so on.

    nvcc leaves out the call here and there; where all that is known of a line has it called from
    one place, that is it.
    """
    callers: dict[tuple[str, int], set[tuple[str, int]]] = defaultdict(set)
    for instruction in program.code:
        at = instruction.location
        if at is not None and at.inlined_at is not None:
            callers[at.file, at.line].add((at.inlined_at.file, at.inlined_at.line))

    def chain(location: Location) -> tuple[Location, ...]:
        made = [location]
        while True:
            last = made[-1]
            known = callers.get((last.file, last.line), set())
            after = last.inlined_at or (Location(*next(iter(known))) if len(known) == 1 else None)
            if after is None or any((after.file, after.line) == (p.file, p.line) for p in made):
                return tuple(made)
            made.append(after)

    chains = {
        location: chain(location)
        for location in {i.location for i in program.code}
        if location is not None
    }
    return {i.pc: chains[i.location] for i in program.code if i.location is not None}


def own_file(kernel: Titled) -> str:
    """Return the file of the kernel itself, as `.file` names it: the one that most of its entry's
    code goes back to.

    Raises `PtxsimError` for PTX without line information.
    """
    known = locations(kernel.program)
    code = kernel.program.entry.code or []
    files = Counter(known[i.pc][-1].file for i in code if i.pc in known)
    if not files:
        raise PtxsimError(
            f"{kernel.title}: the PTX has no line information; compile with nvcc -lineinfo (that "
            "in a .cubin has none: name what it was made from with --ptx)"
        )
    return files.most_common(1)[0][0]


def choose_file(kernel: Titled, wanted: str | Path | None) -> str:
    """Return the file that `wanted` means: its name or the end of its path.

    None: the kernel's own file.
    """
    if wanted is None:
        return own_file(kernel)
    files = sorted({at.file for chain in locations(kernel.program).values() for at in chain})
    parts = PurePath(wanted).parts
    matches = [
        name
        for name in files
        if name == str(wanted) or PurePath(name).parts[-len(parts) :] == parts
    ]
    # The PTX may name it from a folder above.
    if not matches and Path(wanted).is_file():
        whole = Path(wanted).resolve()
        matches = [
            name
            for name in files
            if whole.parts[-len(PurePath(name).parts) :] == PurePath(name).parts
        ]
        matches = matches or [
            name for name in files if Path(name).is_file() and whole.samefile(name)
        ]
    if len(matches) != 1:
        what = "is no file" if not matches else "could be several files"
        raise PtxsimError(
            f"{wanted} {what} of {kernel.title}; its line information names: {', '.join(files)}"
        )
    return matches[0]


def find_source(name: str, near: Iterable[Path] = ()) -> Path | None:
    """Return a source file that `.file` names: as it is, from a folder of `near` or one above, or
    by its bare name in one.
    """
    candidates = [Path(name)]
    for folder in map(Path.absolute, near):
        candidates += [
            folder / name,
            folder / PurePath(name).name,
            *(above / name for above in folder.parents),
        ]
    return next((path for path in candidates if path.is_file()), None)


def read_source(name: str, given: Path | None = None, near: Iterable[Path] = ()) -> list[str]:
    """Return its lines. Raises `PtxsimError` where it cannot be found or read."""
    path = given or find_source(name, near)
    if path is None:
        raise PtxsimError(
            f"source {name} (named by the PTX) is not there; say where it is with --source FILE"
        )
    try:
        return path.read_text(errors="replace").splitlines()
    except (OSError, ValueError) as error:
        raise PtxsimError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def require_writable(paths: Iterable[Path]) -> None:
    """Raise `PtxsimError` where one of these files could not be written, or two are the same:
    before anything runs.
    """
    seen = set()
    for path in paths:
        try:
            real = Path(os.path.realpath(path))
            above = next(parent for parent in real.parents if parent.exists())
            reason = (
                "it is a folder"
                if real.is_dir()
                else f"{above} is no folder"
                if not above.is_dir()
                else None
                if os.access(real if real.exists() else above, os.W_OK)
                else "Permission denied"
            )
        except (OSError, ValueError) as error:
            # The name is too long, or has a zero byte in it.
            reason = getattr(error, "strerror", None) or str(error)
        if reason or real in seen:
            raise PtxsimError(f"cannot write {path}: {reason or 'it is named twice'}")
        seen.add(real)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all. Raises `PtxsimError` where that cannot be."""
    content = content.encode() if isinstance(content, str) else content
    real = Path(os.path.realpath(path))
    # A device, such as /dev/stdout, cannot be replaced by a file.
    device = real.exists() and not real.is_file()
    temporary = real if device else real.with_name(f".{os.getpid()}-{real.name[-100:]}")
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        if not device:
            temporary.replace(real)
    except OSError as error:
        raise PtxsimError(f"cannot write {path}: {error.strerror}") from None
    finally:
        if not device:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
