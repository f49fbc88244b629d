"""Errors that a user can act on, each told in one line."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


class UserError(Exception):
    """What was wrong, the value, and what is accepted: one line, shown without a traceback."""


def choose(table: Mapping[str, T], name: str, kind: str, source: object) -> T:
    """`table[name]`, or a `UserError` that names the nearest valid names and the file they stand in."""
    if name in table:
        return table[name]
    raise UserError(f"unknown {kind} {name!r} in {source}; {suggest(name, table)}")


def suggest(name: str, valid: Iterable[str]) -> str:
    """The valid names nearest to `name`, as the end of an error message."""
    valid = sorted(valid)
    near = difflib.get_close_matches(str(name), valid, n=3, cutoff=0.4)
    return f"nearest: {', '.join(near)}" if near else f"valid: {', '.join(valid)}"


def run_command(main: Callable[[], int | None]) -> None:
    """Run a command's `main` and exit: 0, 2 after a `UserError`, 130 after Ctrl-C."""
    try:
        sys.exit(main() or 0)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print(f"error: {error.strerror or error}: {error.filename or ''}".rstrip(": "), file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        sys.exit(130)
