"""Names of functions as the source has them, by the C++ runtime's own demangler.

    demangle("_Z5tiledILi128ELi8EfEvPKT1_Pfi")  # tiled<128, 8, float>(float const*, float*, int)

The return type of a template is left out, as are the types of numbers among its arguments. GCC's
runtime refuses names over 1,024 characters, which CuTe's kernels have; those go to binutils'
c++filt. Without a demangler, or where it does not know a name, the name stays as it is.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Iterable
from functools import cache

# GCC's runtime does not demangle longer names.
MAX_CHARACTERS = 1024
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
    """Return the name as the runtime prints it; None where it cannot."""
    if not name.startswith("_Z"):
        return None
    library = _runtime()
    at = library.__cxa_demangle(name.encode(), None, None, None) if library else None
    if library is None or not at:
        return _filtered(name) if len(name) > MAX_CHARACTERS else None
    text = ctypes.string_at(at).decode(errors="replace")
    library.free(at)
    return text


def _filtered(name: str) -> str | None:
    """Return the name as c++filt prints it; None where there is no c++filt or it does not know the
    name.
    """
    try:
        done = subprocess.run(
            ["c++filt", "--no-recurse-limit"], input=name, capture_output=True, text=True
        )
    except OSError:
        return None
    text = done.stdout.strip()
    return text if done.returncode == 0 and text != name else None


def _last_at_depth_0(text: str, wanted: str) -> int:
    """Return where a character last stands outside of all brackets; -1: nowhere, or they do not
    match.
    """
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] in ")>]}") - (text[at] in "(<[{")
        if text[at] == wanted and depth == 0:
            return at
    return -1


@cache
def split(name: str) -> tuple[str, str]:
    """Return the name with template arguments, and behind it the parameters in parentheses, if it
    has any.
    """
    text = _demangled(name)
    if text is None:
        return name, ""
    text = re.sub(r"(?<=\d)(u|l|ul|ll|ull)(?=[,>])", "", text)
    text = re.sub(r"\((un)?(signed )?(char|short)\)(?=-?\d)", "", text)
    text = re.sub(r"&\(([\w:]+)\([^()]*\)\)", r"&\1", text.replace(") [", ")["))
    end = text.rfind(")") + 1
    start = _last_at_depth_0(text[:end], "(") if end else -1
    head, rest = (
        (text[:start], text[start:])
        if start > 0 and not text[end:].startswith("::")
        else (text, "")
    )
    return head[_last_at_depth_0(head, " ") + 1 :], rest


def demangle(name: str) -> str:
    """Return the name with its template arguments and parameters."""
    return "".join(split(name))


def _plain(text: str) -> str:
    """Remove blanks, casts before numbers and suffixes after them, so that names can be
    compared.
    """
    text = re.sub(r"\((unsigned |signed )?(int|long|long long|short|char)\)(?=-?\d)", "", text)
    text = re.sub(r"(?<=\d)[uUlL]+(?![\w])", "", text)
    return re.sub(r"\s+", "", text)


def matching(names: Iterable[str], wanted: str) -> list[str]:
    """Return the mangled names that a text means: exactly one of them, or else its name with
    template arguments, or without, or else all that have the text as a part, mangled or not.
    """
    names = list(names)
    if wanted in names:
        return [wanted]
    plain = _plain(wanted)
    parts = {name: tuple(map(_plain, split(name))) for name in names}
    tries = (
        [name for name, (head, rest) in parts.items() if plain in (head, head + rest)],
        [
            name
            for name, (head, _) in parts.items()
            if plain in (head.partition("<")[0], head.rpartition("::")[2])
        ],
        [name for name, (head, rest) in parts.items() if wanted in name or plain in head + rest],
    )
    return next((matches for matches in tries if matches), [])
