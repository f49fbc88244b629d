"""The names of the source's variables, from the DWARF 2 that `nvcc -G` writes into PTX.

A variable lies in a register (DW_OP_regx, whose number spells the register's name) or in the stack
frame of its function (DW_OP_addr of the frame, DW_OP_plus_uconst).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

# These tags and attributes are read.
SUBPROGRAM = 0x2E
LOCATION, NAME, ORIGIN, LINKAGE_NAME = 0x02, 0x03, 0x31, 0x2007
# Forms of a fixed size, and those that begin with a length of so many bytes
FIXED = {0x01: 8, 0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, 0x0C: 1, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8}
BLOCKS = {0x03: 2, 0x04: 4, 0x0A: 1}
OFFSET, STRING, SIGNED, UNSIGNED = 0x06, 0x08, 0x0D, 0x0F
ADDRESS, PLUS, REGISTER = 0x03, 0x23, 0x90


class Section:
    """The bytes of a section, read in order, and the labels that stand in it, by offset."""

    def __init__(self, tokens: Sequence[str]) -> None:
        """`tokens`: those of `.b8 1,2 .b32 label+4 …`."""
        self.data, self.at = bytearray(), 0
        self.labels: dict[int, tuple[str, int]] = {}
        width = plus = 0
        for token in tokens:
            if token in (".b8", ".b16", ".b32", ".b64"):
                width = int(token[2:]) // 8
            elif token == "+":
                plus = 1
            elif plus:
                start = len(self.data) - width
                self.labels[start], plus = (self.labels[start][0], int(token, 0)), 0
            elif token[0].isdigit():
                self.data += int(token.rstrip("U"), 0).to_bytes(width, "little")
            elif token not in (",", ":", "-"):
                self.labels[len(self.data)] = token, 0
                self.data += bytes(width)

    def number(self, size: int) -> int:
        """Return the next number of so many bytes."""
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "little")

    def uleb(self) -> int:
        """Return the next number in LEB128."""
        value = shift = 0
        while (byte := self.number(1)) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def text(self) -> str:
        """Return the next text, which ends with a zero."""
        start, self.at = self.at, self.data.index(0, self.at) + 1
        return self.data[start : self.at - 1].decode(errors="replace")

    def label(self, size: int) -> tuple[str, int] | None:
        """Return the label, and what is added to it, in the next bytes, if there is one."""
        self.at += size
        return self.labels.get(self.at - size)

    def form(self, form: int) -> int | str | tuple[int, int]:
        """Return the next value of a form; of a block, where it begins and ends."""
        if form in FIXED:
            return self.number(FIXED[form])
        if form == STRING:
            return self.text()
        if form in (SIGNED, UNSIGNED):
            return self.uleb()
        size = self.number(BLOCKS[form]) if form in BLOCKS else self.uleb()
        self.at += size
        return self.at - size, self.at


class DebugInfo:
    """The variables of a module's functions. `sections`: the tokens of its sections, by name."""

    def __init__(self, sections: Mapping[str, Sequence[str]]) -> None:
        self.sections = sections

    def name(self, function: str, location: str | tuple[str, int]) -> str | None:
        """Return the variable of a function in a register, or at an offset in a frame; None where
        that is not known.
        """
        return self._names.get(function, {}).get(location)

    def in_frame(self, function: str, frame: str, offset: int) -> tuple[str, int] | None:
        """Return the last variable of a frame that begins at or before an offset, and where."""
        begins = [
            key[1]
            for key in self._names.get(function, {})
            if isinstance(key, tuple) and key[0] == frame and key[1] <= offset
        ]
        return (self._names[function][frame, max(begins)], max(begins)) if begins else None

    @cached_property
    def _names(self) -> dict[str, dict[str | tuple[str, int], str]]:
        """Return each function's variables by register, or by frame and offset in it."""
        names: dict[str, dict[str | tuple[str, int], str]] = defaultdict(dict)
        # Of another compiler's DWARF, the names that were read so far stay.
        with suppress(KeyError, IndexError, ValueError):
            self._read(names)
        return names

    def _read(self, names: dict[str, dict[str | tuple[str, int], str]]) -> None:
        shapes, info = self._shapes(), Section(self.sections[".debug_info"])
        # The header is a length, a version, the abbreviations and the bytes of an address.
        info.at, function = 11, ""
        named: dict[int, str] = {}
        located: list[tuple[str, int | tuple[int, int], int]] = []
        while info.at < len(info.data):
            at, code = info.at, info.uleb()
            if not code:
                continue
            tag, forms = shapes[code]
            values: dict[int, Any] = {}
            for attribute, form in forms:
                label = info.labels.get(info.at)
                value = info.form(form)
                # A list of locations is given by its label.
                values[attribute] = label[1] if label and form == OFFSET else value
            if NAME in values:
                named[at] = values[NAME]
            if tag == SUBPROGRAM:
                function = values.get(LINKAGE_NAME, values.get(NAME, ""))
            if LOCATION in values:
                # A variable of an inlined function has its name elsewhere.
                located.append((function, values[LOCATION], values.get(ORIGIN, at)))
        lists = Section(self.sections.get(".debug_loc", ()))
        for function, location, origin in located:
            spans = [(info, location)] if isinstance(location, tuple) else _spans(lists, location)
            for section, span in spans:
                if (key := _location(section, *span)) is not None and origin in named:
                    names[function].setdefault(key, named[origin])

    def _shapes(self) -> dict[int, tuple[int, list[tuple[int, int]]]]:
        """Return the tag, and the attributes with their forms, by number of abbreviation."""
        section = Section(self.sections[".debug_abbrev"])
        shapes = {}
        while section.at < len(section.data) and (code := section.uleb()):
            tag, _ = section.uleb(), section.number(1)
            forms = []
            while (pair := (section.uleb(), section.uleb())) != (0, 0):
                forms.append(pair)
            shapes[code] = tag, forms
        return shapes


def _spans(lists: Section, start: int) -> list[tuple[Section, tuple[int, int]]]:
    """Return where the expressions of a location list stand."""
    spans, lists.at = [], start
    while lists.label(8) is not None:
        lists.at += 8
        size = lists.number(2)
        spans.append((lists, (lists.at, lists.at + size)))
        lists.at += size
    return spans


def _location(section: Section, start: int, end: int) -> str | tuple[str, int] | None:
    """Return the register, or the frame and offset, that an expression gives."""
    section.at = start
    match section.number(1):
        case op if op == REGISTER:
            number = section.uleb()
            return number.to_bytes((number.bit_length() + 7) // 8, "big").decode(errors="replace")
        case op if op == ADDRESS and (label := section.label(8)) is not None:
            plus = section.at < end and section.number(1) == PLUS
            return label[0], label[1] + (section.uleb() if plus else 0)
    return None
