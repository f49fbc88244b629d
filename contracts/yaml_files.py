"""YAML, and of it only what a person can see on the page: mappings, lists, text, numbers, true, false and null.

No aliases or anchors, no tags, no second document, no key that is not text or stands twice. A date is text, and a
number is decimal: 010, 0x10, 1_000 and 1:30 are text, which a schema refuses by its name. Size, depth and digits are
limited, so that no file keeps a reader busy.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, NoReturn

import yaml

from contracts.errors import UserError, quoted
from contracts.files import read_text

LIMIT_BYTES = 4_000_000
LIMIT_VALUE = 10_000  # characters of one value of --config
LIMIT_DEPTH = 32
LIMIT_DIGITS = 40
LIMIT_WORDS = 300_000  # characters up to which a file that is no YAML is read again for clearer words

_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's, ten times as fast, where PyYAML was built with it
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS = {
    **{spelled: value for word, value in (("true", True), ("yes", True), ("on", True), ("false", False), ("no", False),
                                          ("off", False), ("null", None))
       for spelled in (word, word.capitalize(), word.upper())},
    "~": None,
    "": None,
}  # fmt: skip
_NUMBER_STARTS = frozenset("-+.0123456789")


class _Fault(Exception):
    """What is wrong, and on which line (from 1)."""

    def __init__(self, line: int, said: str) -> None:
        super().__init__(line, said)
        self.line, self.said = line, said


def load_yaml(path: str | Path) -> Any:
    """What a YAML file holds, under no schema. A `UserError` names the file and the line of the first fault."""
    try:
        return _load(read_text(path, LIMIT_BYTES))
    except _Fault as fault:
        raise UserError(f"{path} line {fault.line}: {fault.said}") from fault


def parse_yaml_value(text: str, source: object) -> Any:
    """What one line of text means as YAML: `false`, `12`, `[a, b]`. A `UserError` names `source` and the text."""
    try:
        if len(text) > LIMIT_VALUE:
            raise _Fault(1, f"{len(text)} characters are not allowed; allowed: at most {LIMIT_VALUE}")
        return _load(text)
    except _Fault as fault:
        raise UserError(f"{source} = {quoted(text)}: {fault.said}") from fault


def _load(text: str) -> Any:
    if odd := _UNPRINTABLE.search(text):
        raise _Fault(text.count("\n", 0, odd.start()) + 1, _unprintable(odd[0]))
    try:
        return _build(text, _PARSER)
    except yaml.YAMLError as error:
        told = error
        if len(text) <= LIMIT_WORDS:  # for its words: libyaml's point at another line
            try:
                _build(text, yaml.SafeLoader)
            except yaml.YAMLError as clearer:
                told = clearer
            except (ValueError, OverflowError):  # PyYAML's own, of an escape or a version that is no number
                pass
        mark = getattr(told, "problem_mark", None)
        problem = " ".join(str(getattr(told, "problem", None) or told).split())
        raise _Fault(mark.line + 1 if mark else 1, f"not YAML ({problem})") from error


def _build(text: str, parser: Any) -> Any:
    """The value of a text. Raises `_Fault` for what is YAML but not allowed here, `yaml.YAMLError` for what is none.

    Goes through the parser's events in one loop, so that neither depth nor aliases can run away with it.
    """
    found: Any = None
    holders: list[tuple[Any, Any]] = []  # around what is being read: the holder of each, and its key there
    holder: Any = None
    key: str | None = None  # of the value to come, where the holder is a mapping
    documents = 0
    event: Any  # which attributes it has goes by its kind
    for event in yaml.parse(text, Loader=parser):
        kind = type(event)
        if kind is yaml.ScalarEvent:
            if event.anchor is not None or event.tag is not None:
                _refuse(event)
            value = event.value
            if not event.style:
                if value in _WORDS:
                    value = _WORDS[value]
                elif value[0] in _NUMBER_STARTS:
                    value = _number(value, event)
            elif event.style == '"' and (odd := _UNPRINTABLE.search(value)):  # an escape can bring one
                raise _Fault(
                    _line(event), f"the character {odd[0]!r} is not allowed; allowed: those that can be printed"
                )
            if type(holder) is dict and key is None:
                if type(value) is not str:
                    said = f"the key {quoted(event.value, bare=True)} is not text"
                    raise _Fault(_line(event), f"{said}; allowed: text, in quotes where it would be something else")
                if value in holder:
                    raise _Fault(_line(event), f"the key {quoted(value)} stands twice; allowed: once")
                key = value
                continue
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            if event.anchor is not None or event.tag is not None:
                _refuse(event)
            if type(holder) is dict and key is None:
                raise _Fault(_line(event), "a key that is a list or a mapping is not allowed; allowed: text")
            if len(holders) >= LIMIT_DEPTH:
                raise _Fault(_line(event), f"nested too deeply; allowed: {LIMIT_DEPTH} levels")
            value = {} if kind is yaml.MappingStartEvent else []
            holders.append((holder, key))
            inner: Any = value
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            holder, key = holders.pop()
            if type(holder) is dict:
                key = None
            continue
        else:
            if kind is yaml.AliasEvent:
                _refuse(event)
            if kind is yaml.DocumentStartEvent:
                documents += 1
                if documents > 1:
                    raise _Fault(_line(event), "a second document is not allowed; allowed: one")
                if event.tags:
                    raise _Fault(_line(event), "%TAG is not allowed; allowed: values without tags")
            continue
        if holder is None:
            found = value
        elif type(holder) is list:
            holder.append(value)
        else:
            holder[key] = value
        if kind is yaml.ScalarEvent:
            key = None
        else:
            holder, key = inner, None
    return found


def _unprintable(character: str) -> str:
    return f"the character {character!r} is not allowed; allowed: those that can be printed"


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _refuse(event: Any) -> NoReturn:
    """An alias, an anchor or a tag, whichever it is."""
    tag = getattr(event, "tag", None)
    if tag is not None:
        raise _Fault(_line(event), f"the tag {quoted(tag, bare=True)} is not allowed; allowed: values without tags")
    kind, sign = ("alias", "*") if type(event) is yaml.AliasEvent else ("anchor", "&")
    shown = quoted(f"{sign}{event.anchor}", bare=True)
    raise _Fault(_line(event), f"the {kind} {shown} is not allowed; allowed: the value itself, or text in quotes")


def _number(text: str, event: Any) -> int | float | str:
    """A plain scalar that may be a number."""
    whole = _WHOLE.fullmatch(text)
    if not whole and not _DECIMAL.fullmatch(text):
        if _NOT_FINITE.fullmatch(text):
            raise _Fault(_line(event), f"{text} is not allowed; allowed: finite numbers, or text in quotes")
        return text
    if len(text) > LIMIT_DIGITS:
        said = f"a number of {len(text)} characters is not allowed"
        raise _Fault(_line(event), f"{said}; allowed: at most {LIMIT_DIGITS}, or text in quotes")
    if whole:
        return int(text)
    value = float(text)
    if not math.isfinite(value):
        raise _Fault(_line(event), f"{text} is not allowed; allowed: finite numbers, or text in quotes")
    return value
