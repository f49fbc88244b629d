"""The options of `ptxsim exec`."""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ..gpus import GPUS, Gpu
from ..machine.faults import Accepted

N = TypeVar("N", int, float)
MANY: dict[str | None, dict[str, Any]] = {
    "...": {"action": "append", "default": []},
    "+": {"nargs": "+"},
    "!": {"required": True},
}
OPPOSITE = "with blocks and threads in the opposite order"
WHY = "a sum of floats whose order is not fixed, or a result that depends on who comes first"
ORDERS = """
--orders ORDERS         2: run a launch without faults once more, with its blocks, and the threads of a block that meet
                        at an atomic, in the opposite order; a race on a lock shows in one of the two
"""


@dataclass(frozen=True)
class Options:
    """The options of a run; the command line's help says what each means."""

    gpu: Gpu = GPUS["h100"]
    only: Sequence[str] = ()
    skip_launches: int = 0
    sample: int | None = None
    # `once` is true where only the first launch of each kernel and shape is checked and counted.
    once: bool = False
    # A launch without faults is run this often, in opposite orders.
    orders: int = 1
    # Memory that is not freed is noted.
    leak_check: bool = False
    checks: bool = True
    # `stop_at_first` is true where a launch ends with its first fault.
    stop_at_first: bool = False
    accept: Sequence[Accepted] = ()
    # A launch may take this many seconds.
    limit: float | None = None
    # The pattern names a kernel.
    annotate: str | None = None
    bounds: str | None = None
    # A fault that ends a kernel destroys this: the context or the kernel.
    destroy_on_device_error: str = "context"
    quiet: bool = False

    def chosen(self, name: str, title: str) -> bool:
        """Return whether a kernel, by its mangled name and its name in the source, is among those
        to check and count.
        """
        return not self.only or any(matches(pattern, name, title) for pattern in self.only)


def add_options(
    parser: argparse.ArgumentParser, table: str, types: Mapping[str, Any], **defaults: Any
) -> None:
    """Add the options of a table to a parser. An entry has an option's names, the word for its
    value, if it takes one, and after two blanks its help, which deeper lines continue. After the
    word, `...` stands for an option that may be repeated, `+` for several values, `!` for one that
    is required. `types`: by its word, what parses a value.
    """
    for entry in re.split(r"\n(?=-)", table.strip()):
        head, text = re.split(r"\s{2,}", entry, maxsplit=1)
        names = [word for word in head.split() if word.startswith("-")]
        more: dict[str, Any] = {"help": " ".join(text.split())}
        if word := head.split()[len(names) :]:
            metavar, sign = re.fullmatch(r"(.*?)(\.\.\.|\+|!)?", word[0]).groups()  # type: ignore[union-attr]
            more |= {"metavar": metavar, "type": types.get(metavar, str), **MANY.get(sign, {})}
        elif names[-1].startswith("--no-"):
            more |= {"action": "store_false", "dest": names[-1].removeprefix("--no-")}
        else:
            more["action"] = "store_true"
        parser.add_argument(*names, **more)
    parser.set_defaults(**defaults)


# compute-sanitizer has these prefixes.
PREFIXES = {"kernel_name=": "{}", "kne=": "{}", "kernel_substring=": "*{}*", "kns=": "*{}*"}


def matches(pattern: str, *names: str) -> bool:
    """Return whether a pattern (`sgemm*`, `kernel_substring=sgemm`) fits one of a kernel's names,
    or what stands before its template arguments and parameters."""
    for prefix, form in PREFIXES.items():
        if pattern.startswith(prefix):
            pattern = form.format(pattern.removeprefix(prefix))
    tried: Sequence[str] = [
        part for name in names for part in (name, name.partition("<")[0], name.partition("(")[0])
    ]
    return any(fnmatch.fnmatchcase(name, pattern) for name in tried)


def whole(min_: int, max_: int = (1 << 63) - 1) -> Callable[[str], int]:
    """Return the parser of an option that is a whole number from `min_` to `max_`."""
    return _between(int, "whole number", min_, max_)


def number(min_: float, max_: float = math.inf) -> Callable[[str], float]:
    """Return the parser of an option that is a number from `min_` to `max_`."""
    return _between(float, "number", min_, max_)


def _between(convert: Callable[[str], N], what: str, min_: N, max_: N) -> Callable[[str], N]:
    def parse(text: str) -> N:
        with contextlib.suppress(ValueError):
            value = convert(text)
            if min_ <= value <= max_:
                return value
        to = f" to {max_:g}" if max_ < 1 << 62 else " on"
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no {what} from {min_:g}{to}")

    return parse


# What parses a value, by the word that a table of options has for it.
TYPES = {"FILE": Path, "N": whole(0), "COUNT": whole(1), "ORDERS": whole(1, 2)}
