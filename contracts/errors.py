"""Errors that a user can act on, each reported in one line, and the log of a command.

Every module has `logger = logging.getLogger(__name__)`. Progress is `info`; what was left out or
failed is a `warning`. The lines go to stderr as they are.
"""

from __future__ import annotations

import contextlib
import difflib
import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")
LONGEST = 60  # characters of a value that an error shows


class UserError(Exception):
    """What was wrong, the value, and what is accepted: one line, shown without a traceback."""


def choose(table: Mapping[str, T], name: str, kind: str, source: object) -> T:
    """`table[name]`, or a `UserError` that names the nearest valid names and the file they stand
    in.
    """
    if isinstance(name, str) and name in table:
        return table[name]
    raise UserError(f"unknown {kind} {quoted(name)} in {source}; {suggest(name, table)}")


def suggest(name: str, valid: Iterable[str]) -> str:
    """The valid names nearest to `name`, as the end of an error message."""
    valid = sorted(valid)
    near = difflib.get_close_matches(str(name)[:LONGEST], valid, n=3, cutoff=0.4)
    return f"nearest: {', '.join(near)}" if near else f"valid: {', '.join(valid)}"


def quoted(value: object, *, bare: bool = False) -> str:
    """A value as an error shows it: on one line, in quotes if it is text (not if `bare`), cut where
    it is long.
    """
    if isinstance(value, (list, dict, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    text = repr(value[: LONGEST + 1] if isinstance(value, str) else value)
    text = text[1:-1] if bare and isinstance(value, str) else text
    return text if len(text) <= LONGEST + 2 else text[: LONGEST - 3] + "..."


def one_line(text: str) -> str:
    """The text with its line ends and other control characters written out."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


# whose progress is reported; other packages only report warnings
OURS = ("__main__", "experiments")


class Terminal(logging.Handler):
    """Each message to stderr at once, if that is still there."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):
            print(self.format(record), file=sys.stderr, flush=True)


def tell_progress() -> None:
    """From now on this process's log goes to the terminal. A second call changes nothing."""
    root = logging.getLogger()
    if not any(isinstance(handler, Terminal) for handler in root.handlers):
        root.addHandler(Terminal())
    for name in OURS:
        logging.getLogger(name).setLevel(logging.INFO)


def run_command(main: Callable[[], int | None]) -> None:
    """Run a command's `main` and exit: 0, 2 after a `UserError`, 130 after Ctrl-C."""
    tell_progress()
    try:
        sys.exit(main() or 0)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print(
            f"error: {error.strerror or error}: {error.filename or ''}".rstrip(": "),
            file=sys.stderr,
        )
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        sys.exit(130)
