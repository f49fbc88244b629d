"""Names of functions as the source has them, by the C++ runtime's own demangler.

    demangle("_Z5tiledILi128ELi8EfEvPKT1_Pfi")  # tiled<128, 8, float>(float const*, float*, int)

What a template returns is left out, and the types of numbers among its arguments. Where there is no such runtime, a
name stays as it is, as does one that it does not know. (On Linux
there is one wherever highspy is, which this package needs.)
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable
from functools import cache

RUNTIMES = ("libstdc++.so.6", "libc++abi.dylib", "libc++abi.so.1")


@cache
def _runtime() -> ctypes.CDLL | None:
    for name in RUNTIMES:
        try:
            library = ctypes.CDLL(name)
            library.__cxa_demangle.restype = ctypes.c_void_p
            library.__cxa_demangle.argtypes = [ctypes.c_char_p, *[ctypes.c_void_p] * 3]
            library.free.argtypes = [ctypes.c_void_p]
        except (OSError, AttributeError):
            continue
        return library
    return None


def _demangled(name: str) -> str | None:
    """As the runtime has it."""
    library = _runtime() if name.startswith("_Z") else None
    at = library.__cxa_demangle(name.encode(), None, None, None) if library else None
    if library is None or not at:
        return None
    text = ctypes.string_at(at).decode(errors="replace")
    library.free(at)
    return text


def _last_at_depth_0(text: str, wanted: str) -> int:
    """Where a character last stands outside of all brackets; -1: nowhere, or they do not match."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] in ")>]}") - (text[at] in "(<[{")
        if text[at] == wanted and depth == 0:
            return at
    return -1


@cache
def split(name: str) -> tuple[str, str]:
    """The name with template arguments, and behind it the parameters in parentheses, if it has any."""
    text = _demangled(name)
    if text is None:
        return name, ""
    text = re.sub(r"(?<=\d)(u|l|ul|ll|ull)(?=[,>])", "", text)
    text = re.sub(r"\((un)?(signed )?(char|short)\)(?=-?\d)", "", text)
    text = re.sub(r"&\(([\w:]+)\([^()]*\)\)", r"&\1", text.replace(") [", ")["))
    end = text.rfind(")") + 1
    start = _last_at_depth_0(text[:end], "(") if end else -1
    own, rest = (text[:start], text[start:]) if start > 0 and not text[end:].startswith("::") else (text, "")
    return own[_last_at_depth_0(own, " ") + 1 :], rest


def demangle(name: str) -> str:
    """The name with template arguments and parameters."""
    return "".join(split(name))


def _plain(text: str) -> str:
    """Without blanks, casts before numbers and suffixes behind them: for comparing."""
    text = re.sub(r"\((unsigned |signed )?(int|long|long long|short|char)\)(?=-?\d)", "", text)
    text = re.sub(r"(?<=\d)[uUlL]+(?![\w])", "", text)
    return re.sub(r"\s+", "", text)


def matching(names: Iterable[str], wanted: str) -> list[str]:
    """The mangled names that a text means: exactly one of them, or else its name with template arguments, or without,
    or else all that have the text as a part, mangled or not."""
    names = list(names)
    if wanted in names:
        return [wanted]
    plain = _plain(wanted)
    shown = {name: tuple(map(_plain, split(name))) for name in names}
    tries = (
        [name for name, (own, rest) in shown.items() if plain in (own, own + rest)],
        [name for name, (own, _) in shown.items() if plain in (own.partition("<")[0], own.rpartition("::")[2])],
        [name for name, (own, rest) in shown.items() if wanted in name or plain in own + rest],
    )
    return next((found for found in tries if found), [])
