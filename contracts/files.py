"""Files that are either whole or not there, and folders that go with the block that uses them."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from contracts.errors import UserError

NO_ROOM = {errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC}
_UMASK = os.umask(0o022)  # only to be asked, and set back
os.umask(_UMASK)


def read_bytes(path: str | Path, limit: int) -> bytes:
    """A file's content. Raises `UserError` where it cannot be read or has more than `limit`
    bytes.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(limit + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise UserError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        ) from error
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
def scratch() -> Iterator[Path]:
    """An empty folder in the system's temporary folder; removed with all that is in it when the
    block ends.
    """
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Give a temporary path next to `path`; rename it to `path` if the block ends well, else remove
    it.

    A killed process leaves only the temporary file, whose name begins with a dot. Raises
    `UserError` where the folder cannot be written.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(path.suffix, f".{path.stem}-", path.parent)
        os.close(handle)
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror}; choose a folder that can be written"
        ) from error
    try:
        os.chmod(name, 0o666 & ~_UMASK)  # mkstemp's file is its owner's alone
        yield Path(name)
        os.replace(name, path)
    except OSError as error:  # names no file, or only the temporary one
        if error.filename != name and error.errno not in NO_ROOM:
            raise
        said = error.strerror or error
        raise UserError(
            f"cannot write {path}: {said}; make room, or choose another folder"
        ) from error
    finally:
        Path(name).unlink(missing_ok=True)


def write_text(path: str | Path, text: str, *, only_if_changed: bool = False) -> None:
    """Write a text file whole.

    With `only_if_changed`, a file that holds `text` already keeps its date.
    """
    path = Path(path)
    if only_if_changed and path.is_file() and path.read_text() == text:
        return
    with atomic_write(path) as temporary:
        temporary.write_text(text)
