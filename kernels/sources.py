"""CUDA sources as the catalogue reads them: what they include, and what of them the compiler
sees.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent


def included(source: Path) -> list[Path]:
    """Return the files below `kernels/`, or next to what includes them, that a CUDA source
    includes, directly or not.
    """
    files: list[Path] = []
    queue = [source]
    while queue:
        includer = queue.pop(0)
        changed = includer.stat()
        for name in _includes(includer, changed.st_mtime_ns, changed.st_size):
            path = next(
                (path for path in (includer.parent / name, ROOT / name) if path.is_file()), None
            )
            if path is not None and (path := path.resolve()) not in files:
                files.append(path)
                queue.append(path)
    return files


@functools.cache
def _includes(source: Path, changed: int, size: int) -> list[str]:
    """Return what a file includes in quotes; a file that has `changed` is read again."""
    return re.findall(r'^\s*#\s*include\s*"([^"]+)"', source.read_text(), re.M)


@functools.cache
def without_comments(text: str) -> str:
    """Return a source without its comments, and with white space only where it matters."""
    text = re.sub(
        r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', lambda m: m[0] if m[0][0] == '"' else " ", text, flags=re.S
    )
    lines = (re.sub(r"\s+", " ", line).strip() for line in text.splitlines())
    # A preprocessor line keeps its end; elsewhere the end of a line is a blank.
    return "".join(
        f"\n{line}\n" if line.startswith("#") or line.endswith("\\") else f"{line} "
        for line in lines
        if line
    )
