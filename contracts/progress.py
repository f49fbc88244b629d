"""How a command reports what it does: modules log, and the lines go to stderr as they are.

Every module has `logger = logging.getLogger(__name__)`; progress is `info`, what was left out or
failed a `warning`.
"""

from __future__ import annotations

import contextlib
import logging
import sys

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
