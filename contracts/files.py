"""Files that are either whole or not there."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from contracts.errors import UserError


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it to `path` if the block ends well, else remove it.

    Raises `UserError` where the folder cannot be written.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; choose a folder that can be written") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str, *, only_if_changed: bool = False) -> None:
    """Write a text file whole. With `only_if_changed`, a file that holds `text` already keeps its date."""
    path = Path(path)
    if only_if_changed and path.is_file() and path.read_text() == text:
        return
    with replacing(path) as temporary:
        temporary.write_text(text)
