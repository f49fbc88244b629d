"""YAML, and of it only what a person can see on the page: mappings, lists, text, numbers, true, false and null.

No aliases or anchors, no tags, no second document, no key that is not text or stands twice. A date is text, and a
number is decimal: 010, 0x10, 1_000 and 1:30 are text, which a schema refuses by its name. Size, depth and digits are
limited, so that no file keeps a reader busy.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, ClassVar

import yaml

from contracts.errors import UserError, quoted
from contracts.files import read_text

LIMIT_BYTES = 4_000_000
LIMIT_VALUE = 10_000  # characters of one value of --config
LIMIT_DEPTH = 32
LIMIT_DIGITS = 40

_SAFE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's, ten times as fast, where PyYAML has it
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PLAIN = {  # what a plain scalar may mean other than text
    "null": r"(?:~|null|Null|NULL|)\Z",
    "bool": r"(?:true|True|TRUE|yes|Yes|YES|on|On|ON|false|False|FALSE|no|No|NO|off|Off|OFF)\Z",
    "int": r"[-+]?(?:0|[1-9][0-9]*)\Z",
    "float": (
        r"(?:[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
    ),
}


class _Fault(Exception):
    """What is wrong, and the node, event or line (from 1) at which it is."""

    def __init__(self, where: Any, said: str) -> None:
        super().__init__(said)
        self.line = where if isinstance(where, int) else where.start_mark.line + 1
        self.said = said


class _Loader(_SAFE):  # type: ignore[misc]  # of either kind
    """PyYAML's safe loader, which reads plain scalars by `_PLAIN` alone."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def text(self, node: Any) -> str:
        if odd := _UNPRINTABLE.search(node.value):  # an escape can bring one
            raise _Fault(node, _unprintable(odd[0]))
        return str(node.value)

    def number(self, node: Any) -> int | float:
        if len(node.value) > LIMIT_DIGITS:
            said = f"a number of {len(node.value)} characters is not allowed"
            raise _Fault(node, f"{said}; allowed: at most {LIMIT_DIGITS}, or text in quotes")
        if node.tag.endswith("int"):
            return int(node.value)
        value = float(node.value) if node.value[-1] in "0123456789." else math.inf  # .inf and .nan
        if not math.isfinite(value):
            raise _Fault(node, f"{node.value} is not allowed; allowed: finite numbers, or text in quotes")
        return value

    def mapping(self, node: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise _Fault(key_node, "a key that is a list or a mapping is not allowed; allowed: text")
            key = self.construct_object(key_node)
            if not isinstance(key, str):
                said = f"the key {quoted(key_node.value, bare=True)} is not text"
                raise _Fault(key_node, f"{said}; allowed: text, in quotes where it would be something else")
            if key in found:
                raise _Fault(key_node, f"the key {quoted(key)} stands twice; allowed: once")
            found[key] = self.construct_object(value_node, deep=True)
        return found


for _name, _pattern in _PLAIN.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(_pattern), None)
for _name, _make in (
    ("str", _Loader.text),
    ("int", _Loader.number),
    ("float", _Loader.number),
    ("map", _Loader.mapping),
):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_name}", _make)


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
        _check(text)
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        line = min(mark.line, text.count("\n")) + 1 if mark else 1  # libyaml's may lie behind the end
        raise _Fault(line, f"not YAML ({problem})") from error


def _check(text: str) -> None:
    """Refuse what a value no longer shows: anchors, aliases, tags, a second document; and depth, before it is built."""
    depth = documents = 0
    event: Any
    for event in yaml.parse(text, Loader=_SAFE):
        if getattr(event, "tag", None) is not None:
            shown = quoted(event.tag, bare=True)
            raise _Fault(event, f"the tag {shown} is not allowed; allowed: values without tags")
        if getattr(event, "anchor", None) is not None:
            kind, sign = ("alias", "*") if isinstance(event, yaml.AliasEvent) else ("anchor", "&")
            shown = quoted(f"{sign}{event.anchor}", bare=True)
            raise _Fault(event, f"the {kind} {shown} is not allowed; allowed: the value itself, or text in quotes")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > LIMIT_DEPTH:
                raise _Fault(event, f"nested too deeply; allowed: {LIMIT_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1 or event.tags:
                what = "%TAG" if event.tags else "a second document"
                raise _Fault(event, f"{what} is not allowed; allowed: one document without tags")


def _unprintable(character: str) -> str:
    return f"the character {character!r} is not allowed; allowed: those that can be printed"
