"""Hashes of machine code, which measurements rest on.

A measurement belongs to the instructions that ran and to their launch, so that a comment, a new
name or a template leaves it valid. A build records the hash of each kernel beside the hash of its
source (resources.csv). Where sources are all there is, that table says which machine code they
stand for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from contracts.archives import checksum
from contracts.tables import read_rows

Codes = Mapping[tuple[str, str], str]  # code_hash by variant and source_hash


def digest(*parts: str) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of these texts."""
    return checksum("\0".join(parts).encode())[:16]


def recorded(table: Path, arch: str | None = None) -> Codes:
    """What builds found, as `table` (a resources.csv) has it, for one architecture or for all.

    Empty where there is no such table.
    """
    rows = read_rows(table, "resources") if table.is_file() else []
    return {
        (row["variant"], row["source_hash"]): row["code_hash"]
        for row in rows
        if arch in (None, row["arch"])
    }


def of_dispatcher(selection: str, kernels: Iterable[str]) -> str:
    """The hash of a dispatcher: `selection` of how it picks, and the hashes of its kernels in their
    order.
    """
    return digest(selection, *kernels)
