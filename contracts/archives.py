"""Archived files and their checksums: what was edited, cut or lost a row since it was archived is
refused by name.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any

from contracts.documents import json_value
from contracts.errors import UserError
from contracts.files import decoded, read_bytes
from contracts.validation import LIMIT_BYTES, validate

# next to the files of an archive: for each, the run that it is from and its SHA-256
ORIGINS = "archived.json"


def folders(root: Path) -> list[Path]:
    """The folder of each archive in root/data, by name."""
    return [path.parent for path in sorted(root.glob("data/*/provenance.json"))]


def checksum(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def check(path: Path, content: bytes) -> None:
    """Compare a file's content with its checksum, if it lies in an archive; a `UserError` names the
    file.
    """
    origins = path.with_name(ORIGINS)
    if path == origins or not origins.is_file():
        return
    stat = origins.stat()
    recorded = _read(origins, stat.st_mtime_ns, stat.st_size).get(path.name)
    if recorded and recorded["sha256"] != checksum(content):
        raise UserError(
            f"{path}: not as it was archived (its SHA-256 is not the one in {ORIGINS}): edited, cut or of another run; "
            "restore it, or archive its run again"
        )


@functools.lru_cache(maxsize=64)
def _read(path: Path, *_: int) -> dict[str, Any]:
    value: dict[str, Any] = json_value(decoded(path, read_bytes(path, LIMIT_BYTES)), path)
    validate(value, "archived", path)
    return value
