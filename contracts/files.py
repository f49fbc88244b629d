"""Files that are either whole or not there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from contracts.errors import UserError
from contracts.leftovers import owned_name


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it to `path` if the block ends well, else remove it.

    Raises `UserError` where the folder cannot be written.
    """
    path = Path(path)
    temporary = path.with_name(owned_name(path.stem, path.suffix))
    try:  # from before the file is there, so that Ctrl-C at any moment removes it
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.touch(exist_ok=False)
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror}; choose a folder that can be written") from error
        yield temporary
        temporary.replace(path)
    finally:
        with contextlib.suppress(NotADirectoryError):
            temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str, *, only_if_changed: bool = False) -> None:
    """Write a text file whole. With `only_if_changed`, a file that holds `text` already keeps its date."""
    path = Path(path)
    if only_if_changed and path.is_file() and path.read_text() == text:
        return
    with replacing(path) as temporary:
        temporary.write_text(text)
