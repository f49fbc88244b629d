"""Files that are either whole or not there."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from contracts.errors import UserError
from contracts.leftovers import owned_name

NO_ROOM = {errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC}


def read_bytes(path: str | Path, limit: int) -> bytes:
    """A file's content. Raises `UserError` where it cannot be read or has more than `limit` bytes."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(limit + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if len(content) > limit:
        raise UserError(f"cannot read {path}: more than {limit} bytes; allowed: at most {limit}")
    return content


def read_text(path: str | Path, limit: int) -> str:
    """The same as text in UTF-8."""
    return decoded(path, read_bytes(path, limit))


def decoded(path: str | Path, content: bytes) -> str:
    """A file's content as text in UTF-8. Raises `UserError` for what is none."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"cannot read {path}: not a text file (UTF-8)") from error


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Give a temporary path next to `path`; rename it to `path` if the block ends well, else remove it.

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
        try:
            yield temporary
            temporary.replace(path)
        except OSError as error:  # names no file, or only the temporary one
            if error.filename != str(temporary) and error.errno not in NO_ROOM:
                raise
            said = error.strerror or error
            raise UserError(f"cannot write {path}: {said}; make room, or choose another folder") from error
    finally:
        with contextlib.suppress(NotADirectoryError):
            temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str, *, only_if_changed: bool = False) -> None:
    """Write a text file whole. With `only_if_changed`, a file that holds `text` already keeps its date."""
    path = Path(path)
    if only_if_changed and path.is_file() and path.read_text() == text:
        return
    with atomic_write(path) as temporary:
        temporary.write_text(text)
