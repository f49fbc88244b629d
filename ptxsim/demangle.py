"""Names of functions as the source has them: the Itanium C++ mangling as nvcc writes it.

    demangle("_Z5tiledILi128ELi8EfEvPKT1_Pfi")  # tiled<128, 8, float>(float const*, float*, int)

Covers what kernels and device functions have: namespaces, template arguments (types, numbers, packs), pointers,
references, arrays, functions and lambdas. A name with anything else (expressions in a signature, operators) stays as it
is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

BUILTIN = {
    "v": "void",
    "w": "wchar_t",
    "b": "bool",
    "c": "char",
    "a": "signed char",
    "h": "unsigned char",
    "s": "short",
    "t": "unsigned short",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "x": "long long",
    "y": "unsigned long long",
    "n": "__int128",
    "o": "unsigned __int128",
    "f": "float",
    "d": "double",
    "e": "long double",
    "g": "__float128",
    "z": "...",
    "Dn": "std::nullptr_t",
    "Di": "char32_t",
    "Ds": "char16_t",
    "Du": "char8_t",
    "Da": "auto",
    "Dh": "_Float16",
}
STANDARD = {
    "St": "std",
    "Sa": "std::allocator",
    "Sb": "std::basic_string",
    "Ss": "std::string",
    "Si": "std::istream",
    "So": "std::ostream",
    "Sd": "std::iostream",
}
WHOLE = set("abchstijlmxy")  # literals of these types are shown as a bare number
INTERNAL = re.compile(r"_INTERNAL_[0-9a-f]{8}_\d+_")  # nvcc's own namespace around what has internal linkage


class _Unknown(Exception):
    """A construct that is not covered."""


class _Reader:
    """Recursive descent over one mangled name."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.seen: list[str] = []  # what S_, S0_ ... stand for
        self.arguments: list[str] = []  # what T_, T0_ ... stand for
        self.depth = 0

    def accept(self, *words: str) -> str | None:
        for word in words:
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return word
        return None

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise _Unknown

    def match(self, pattern: str) -> re.Match[str]:
        found = re.compile(pattern).match(self.text, self.at)
        if not found:
            raise _Unknown
        self.at = found.end()
        return found

    def done(self) -> bool:
        return self.at >= len(self.text)

    # names

    def encoding(self) -> tuple[str, str]:
        """A function's name and its parameters in brackets; of a variable no brackets."""
        name, is_template = self.name()
        if self.done() or self.text[self.at] in "E.":
            return name, ""
        if is_template:
            self.type()  # what it returns
        parameters = []
        while not self.done() and self.text[self.at] not in "E.":
            parameters.append(self.type())
        return name, f"({', '.join(p for p in parameters if p != 'void')})"

    def name(self) -> tuple[str, bool]:
        """A name, and whether it ends in template arguments."""
        if self.accept("N"):
            return self.nested()
        if self.accept("Z"):
            inner, parameters = self.encoding()
            self.expect("E")
            if self.accept("s"):
                return f"{inner}{parameters}::string literal", False
            own, is_template = self.name()
            self.discriminator()
            return f"{inner}{parameters}::{own}", is_template
        if self.accept("St"):
            own = f"std::{self.unqualified()}"
        elif self.text.startswith("S", self.at):
            own = self.substitution()
            if self.text.startswith("I", self.at):
                return own + self.template_arguments(), True
            return own, False
        else:
            own = self.unqualified()
        if self.text.startswith("I", self.at):
            self.seen.append(own)
            return own + self.template_arguments(), True
        return own, False

    def nested(self) -> tuple[str, bool]:
        self.match("[rVK]*[RO]?")  # of member functions
        parts, is_template = "", False
        while not self.accept("E"):
            if self.text.startswith("I", self.at):
                parts += self.template_arguments()
                is_template = True
            else:
                is_template = False
                if self.text.startswith("S", self.at) and not parts:
                    parts = "std" if self.accept("St") else self.substitution()
                    continue
                if self.text.startswith("T", self.at) and not parts:
                    parts = self.parameter()
                else:
                    own = self.unqualified(parts)
                    parts = f"{parts}::{own}" if parts and own else parts or own
            if not self.text.startswith("E", self.at):
                self.seen.append(parts)
        return parts, is_template

    def unqualified(self, within: str = "") -> str:
        if self.accept("Ul"):  # a lambda
            parameters = []
            while not self.accept("E"):
                parameters.append(self.type())
            return f"{{lambda({', '.join(p for p in parameters if p != 'void')})#{self.number()}}}"
        if self.accept("Ut"):
            return f"{{unnamed type#{self.number()}}}"
        last = within.rpartition("::")[2].partition("<")[0]
        if re.compile(r"C[123]|D[012]").match(self.text, self.at) and last:
            tilde = "~" if self.text[self.at] == "D" else ""
            self._skip(2)
            return tilde + last
        self.accept("L")  # internal linkage
        length = int(self.match(r"(\d+)")[1])
        own = self.text[self.at : self.at + length]
        if len(own) != length:
            raise _Unknown
        self.at += length
        while self.accept("B"):  # ABI tags
            self._skip(int(self.match(r"(\d+)")[1]))
        if own.startswith("_GLOBAL__N_"):
            return "(anonymous namespace)"
        return "" if INTERNAL.match(own) else own

    def number(self) -> int:
        """Of an unnamed type, from 1 on."""
        return int(self.match(r"(\d*)_")[1] or -1) + 2

    def _skip(self, count: int) -> None:
        self.at += count

    def discriminator(self) -> None:
        if self.accept("__"):
            self.match(r"\d+_")
        elif self.accept("_"):
            self.match(r"\d")

    def substitution(self) -> str:
        for short, name in STANDARD.items():
            if short != "St" and self.accept(short):
                return name
        found = self.match(r"S([0-9A-Z]*)_")
        place = int(found[1], 36) + 1 if found[1] else 0
        if place >= len(self.seen):
            raise _Unknown
        return self.seen[place]

    def parameter(self) -> str:
        found = self.match(r"T(\d*)_")
        place = int(found[1]) + 1 if found[1] else 0
        if place >= len(self.arguments):
            raise _Unknown
        return self.arguments[place]

    # template arguments

    def template_arguments(self) -> str:
        self.expect("I")
        found: list[str] = []
        outer = self.arguments
        while not self.accept("E"):
            found.append(self.argument())
        self.arguments = found if found or not outer else outer
        return f"<{', '.join(a for a in found if a)}>"

    def argument(self) -> str:
        if self.accept("J"):
            pack = []
            while not self.accept("E"):
                pack.append(self.argument())
            return ", ".join(pack)
        if self.accept("L"):
            return self.literal()
        if self.accept("XadL_Z"):  # the address of a function or variable
            name, _ = self.encoding()
            self.expect("EE")
            return f"&{name}"
        return self.type()

    def literal(self) -> str:
        if self.accept("_Z"):
            name, _ = self.encoding()
            self.expect("E")
            return f"&{name}"
        kind = self.text[self.at]
        type_ = self.type()
        value = self.match(r"([n0-9a-f.]*)E")[1]
        if kind == "b":
            return "true" if value == "1" else "false"
        if type_ == "std::nullptr_t":
            return "nullptr"
        value = value.replace("n", "-", 1)
        return value if kind in WHOLE else f"({type_}){value}"

    # types

    def type(self) -> str:
        self.depth += 1
        if self.depth > 200:
            raise _Unknown
        try:
            return self._type()
        finally:
            self.depth -= 1

    def _type(self) -> str:
        for code in ("Dn", "Di", "Ds", "Du", "Da", "Dh"):
            if self.accept(code):
                return BUILTIN[code]
        if self.done():
            raise _Unknown
        letter = self.text[self.at]
        if letter in BUILTIN:
            self.at += 1
            return BUILTIN[letter]
        if found := self.accept("P", "R", "O"):
            made = _pointer(self.type(), {"P": "*", "R": "&", "O": "&&"}[found])
        elif letter in "rVK":
            words = self.match("r?V?K?")[0]
            inner = self.type()
            shown = [
                name for short, name in (("K", "const"), ("V", "volatile"), ("r", "__restrict__")) if short in words
            ]
            made = f"{inner} {' '.join(shown)}"
        elif self.accept("A"):
            count = self.match(r"(\d*)_")[1]
            inner = self.type()
            made = f"{inner} [{count}]" if "[" not in inner else inner.replace("[", f"[{count}][", 1)
        elif self.accept("F"):
            self.accept("Y")
            returned, parameters = self.type(), []
            while not self.accept("E"):
                parameters.append(self.type())
            made = f"{returned} ({', '.join(p for p in parameters if p != 'void')})"
        elif self.accept("Dp"):
            return self.type()
        elif letter == "T":
            made = self.parameter()
            if self.text.startswith("I", self.at):
                self.seen.append(made)
                made += self.inner_arguments()
        elif letter == "u":
            self.at += 1
            made = self.unqualified()
        elif letter == "S" and not self.text.startswith("St", self.at):
            own = self.substitution()
            if not self.text.startswith("I", self.at):
                return own
            made = own + self.inner_arguments()
        elif letter == "D":
            raise _Unknown
        else:
            saved = self.arguments
            made, _ = self.name()
            self.arguments = saved
        self.seen.append(made)
        return made

    def inner_arguments(self) -> str:
        """Template arguments of a type: the function's own parameters stay what they are."""
        saved = self.arguments
        made = self.template_arguments()
        self.arguments = saved
        return made


def _pointer(inner: str, sign: str) -> str:
    for opening in (" (", " ["):  # to functions and arrays
        at = inner.find(opening)
        if at > 0 and "<" not in inner[:at] and not inner.startswith("("):
            rest = inner[at + 1 :]
            return f"{inner[:at]} ({sign}){rest}" if not rest.startswith("(*") else f"{inner[:at]} ({sign}{rest[1:]}"
    if sign in ("&", "&&") and inner.endswith("&"):
        return inner if sign == "&&" or not inner.endswith("&&") else inner[:-1]
    return inner + sign


@cache
def split(name: str) -> tuple[str, str]:
    """A function's name with its template arguments, and its parameters in brackets; a name that is not mangled, or not
    understood, as it is."""
    if not name.startswith("_Z"):
        return name, ""
    reader = _Reader(name)
    reader.at = 2
    try:
        found, parameters = reader.encoding()
    except (_Unknown, ValueError, IndexError, RecursionError):
        return name, ""
    return (found, parameters) if reader.done() or reader.text[reader.at] == "." else (name, "")


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
