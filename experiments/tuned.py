"""Which machine's tuned.json stands behind the catalogue's tuned entries."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from contracts import read_json, write_text
from kernels import catalogue

NAME = "tuned.json"


def choose(folders: Iterable[str | Path], chosen: Path = catalogue.TUNED) -> Path | None:
    """Copy the record of the first of `folders` that has one to `chosen`, where the catalogue looks for it.

    Returns that folder. Where none has one, `chosen` is removed, and None returned. Must come before the catalogue is
    loaded. Raises `UserError` for a record that is no record.
    """
    for folder in map(Path, folders):
        record = folder / NAME
        if record.is_file():
            read_json(record, "tuned")
            write_text(chosen, record.read_text(), only_if_changed=True)
            return folder
    chosen.unlink(missing_ok=True)
    return None
