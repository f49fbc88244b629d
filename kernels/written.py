"""catalogue.yaml as it is written, and what its short forms stand for.

An entry has the defaults of its family, then those of its source, then its own keys; template
values are merged one by one. Its family is the first word of its name or, where that has no
defaults, the folder of its source. With `dtypes`, an entry stands for one of each: {dtype} is its
name and {type} its C++ type. With `tiles`, it stands for one of each, too: {tile} is its name, and
its values join the template. The name of another entry stands for that one's tiles.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from typing import Any

import simpleeval

from contracts import UserError, choose
from contracts.dtypes import dtypes

Entry = dict[str, Any]


def expanded(data: Mapping[str, Any], source: object) -> dict[str, Any]:
    """The file's content with every entry whole: `variants`, `dispatchers` and `baselines` by name.

    Raises `UserError`, naming `source`, for two entries of one name and for a dtype that is none.
    """
    defaults = data.get("defaults", {})
    tiles = _by_tile(data["variants"], source)
    variants = {name: _with_defaults(name, entry, defaults) for name, entry in tiles.items()}
    found: dict[str, Any] = {"variants": _by_dtype(variants, source)}
    found["dispatchers"] = _by_dtype(data.get("dispatchers", {}), source)
    for entry in found["dispatchers"].values():
        entry |= {"choices": _choices(entry.get("choices", []), found["variants"])}
    return found | {"baselines": data["baselines"]}


def _choices(written: list[Any], variants: Mapping[str, Entry]) -> list[Any]:
    """A dispatcher's choices, each with its variant's name."""
    found: list[Any] = []
    for one in written:
        named = fnmatch.filter(variants, one) if isinstance(one, str) else []
        found += [{"variant": name} for name in named] or [
            {"variant": one} if isinstance(one, str) else one
        ]
    return found


def _by_tile(entries: Mapping[str, Entry], source: object) -> dict[str, Entry]:
    """The entries, one for each of their tiles."""
    found: dict[str, Entry] = {}
    for name, entry in entries.items():
        rest = {key: value for key, value in entry.items() if key != "tiles"}
        tiles = entry.get("tiles", {"": {}})
        if isinstance(tiles, str):  # those of another entry
            listed = {
                other: one["tiles"]
                for other, one in entries.items()
                if isinstance(one.get("tiles"), dict)
            }
            tiles = choose(listed, tiles, "entry with tiles", f"{source}: {name}.tiles")
        for tile, values in tiles.items():
            words = {"{tile}": tile}
            template = rest.get("template", {}) | values
            found[_filled(name, words)] = _filled(rest, words) | (
                {"template": template} if template else {}
            )
    return found


def _with_defaults(name: str, entry: Entry, defaults: Mapping[str, Entry]) -> Entry:
    source = entry.get("source", "")
    found: Entry = {"builds_on": None, "origin": None}
    family = name.partition("_")[0]
    of_family = defaults.get(family if family in defaults else source.partition("/")[0], {})
    for part in (of_family, defaults.get(source, {}), entry):
        template = found.get("template", {}) | part.get("template", {})
        found |= part | ({"template": template} if template else {})
    return found


def _by_dtype(entries: Mapping[str, Entry], source: object) -> dict[str, Entry]:
    """The entries, one for each of their dtypes."""
    found: dict[str, Entry] = {}
    for name, entry in entries.items():
        for called, one in _each(name, entry, source):
            if called in found:
                raise UserError(f"{source}: {called!r} stands twice; allowed: once")
            found[called] = one
    return found


def _each(name: str, entry: Entry, source: object) -> Iterator[tuple[str, Entry]]:
    rest = {key: value for key, value in entry.items() if key != "dtypes"}
    if "dtypes" not in entry:
        yield name, rest
        return
    for dtype in entry["dtypes"]:
        words = {
            "{dtype}": dtype,
            "{type}": choose(dtypes(), dtype, "dtype", f"{source}: {name}.dtypes").c_type,
        }
        own = {"dtype": dtype} if "source" in entry else {}
        yield _filled(name, words), _filled(rest, words) | own


def _filled(value: Any, words: Mapping[str, str]) -> Any:
    """A value with the words of a dtype in place of their names."""
    if isinstance(value, str):
        for word, text in words.items():
            value = value.replace(word, text)
        return value
    if isinstance(value, list):
        return [_filled(one, words) for one in value]
    if isinstance(value, dict):
        return {key: _filled(one, words) for key, one in value.items()}
    return value


def number(value: int | str, template: Mapping[str, Any], where: str, least: int = 1) -> int:
    """A number of an entry: as it stands, or arithmetic on template values.

    Raises `UserError` naming `where`.
    """
    allowed = f"a number of at least {least}, or arithmetic (+ - * //) on template values"
    found: Any = value
    if isinstance(value, str) and value.isidentifier():
        found = choose(template, value, "template parameter", where)
    elif isinstance(value, str):
        names = {name: one for name, one in template.items() if isinstance(one, int)}
        try:
            found = simpleeval.SimpleEval(names=names, functions={}).eval(value)
        except Exception as error:  # simpleeval's own errors, and those of Python's operators
            raise UserError(
                f"{where} = {value!r} is not allowed ({error}); allowed: {allowed}"
            ) from error
    if isinstance(found, bool) or not isinstance(found, int) or found < least:
        raise UserError(f"{where} = {found!r} is not allowed; allowed: {allowed}")
    return found
