"""The options of a study that runs one catalogue entry on squares."""

from __future__ import annotations

import argparse
from pathlib import Path

from contracts import UserError
from experiments.command_line import add_build_dir, add_variant
from kernels.catalogue import Entry, Problem


def add_arguments(parser: argparse.ArgumentParser, order: str = "") -> None:
    """Add the entry, its sizes, --build-dir and --out; `order`: what that of the sizes means."""
    add_variant(parser)
    size = f"m = n = k; may be given again{order}"
    parser.add_argument("--size", type=int, action="append", required=True, help=size)
    add_build_dir(parser)
    parser.add_argument("--out", required=True, type=Path)


def require_taken(entry: Entry, sizes: list[int]) -> None:
    """Raise `UserError` for a size that the entry does not take."""
    for size in sizes:
        if reason := entry.unsupported_reason(Problem.square(size, entry.b_layout)):
            raise UserError(reason)
