"""Expands the short forms of catalogue.yaml into complete entries.

An entry has the defaults of its family and its own keys. With `like`, it has the keys of that entry
in place of the defaults, except those in `OF_ONE_ENTRY`. Its own keys win, and template values are
merged one by one; `null` removes one. The family is the first word of the name or, where that has
no defaults, the folder of the source. With `dtypes`, an entry stands for one kernel of each:
{dtype} is its name and {type} its C++ type. With `tiles`, it stands for one of each, too: {tile} is
its name, and its values join the template. The name of another entry there stands for that one's
tiles.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from typing import Any

import simpleeval

from contracts import UserError, choose
from contracts.dtypes import dtypes

Entry = dict[str, Any]
OF_ONE_ENTRY = ("builds_on", "idea", "origin")


def expand(data: Mapping[str, Any], file: object) -> dict[str, Any]:
    """Return the file's content with complete entries: `variants`, `dispatchers` and `baselines`.

    Raises `UserError`, naming `file`, for two entries of one name, an unknown dtype, and a `like`
    that names no entry or leads back to its own.
    """
    entries = _by_tile(data["variants"], file)
    defaults = data.get("defaults", {})
    complete = {name: _complete(name, entries, defaults, file) for name in entries}
    variants = _by_dtype(complete, file)
    dispatchers = _by_dtype(data.get("dispatchers", {}), file)
    for entry in dispatchers.values():
        entry |= {"choices": _choices(entry.get("choices", []), variants)}
    return {"variants": variants, "dispatchers": dispatchers, "baselines": data["baselines"]}


def _choices(choices: list[Any], variants: Mapping[str, Entry]) -> list[Any]:
    """Return a dispatcher's choices, each with its variant's name."""
    expanded: list[Any] = []
    for choice in choices:
        names = fnmatch.filter(variants, choice) if isinstance(choice, str) else []
        expanded += [{"variant": name} for name in names] or [
            {"variant": choice} if isinstance(choice, str) else choice
        ]
    return expanded


def _by_tile(entries: Mapping[str, Entry], file: object) -> dict[str, Entry]:
    """Return the entries, one for each of their tiles."""
    expanded: dict[str, Entry] = {}
    for name, entry in entries.items():
        rest = {key: value for key, value in entry.items() if key != "tiles"}
        tiles = entry.get("tiles", {"": {}})
        if isinstance(tiles, str):
            listed = {
                other: candidate["tiles"]
                for other, candidate in entries.items()
                if isinstance(candidate.get("tiles"), dict)
            }
            tiles = choose(listed, tiles, "entry with tiles", f"{file}: {name}.tiles")
        for tile, values in tiles.items():
            words = {"{tile}": tile}
            template = rest.get("template", {}) | values
            expanded[_filled(name, words)] = _filled(rest, words) | (
                {"template": template} if template else {}
            )
    return expanded


def _complete(
    name: str,
    entries: Mapping[str, Entry],
    defaults: Mapping[str, Entry],
    file: object,
    chain: tuple[str, ...] = (),
) -> Entry:
    """Return an entry with its defaults, or with the keys of the entry that it is like.

    `chain` has the entries that led here, each like the next.
    """
    entry, chain = entries[name], (*chain, name)
    base: Entry = {"builds_on": None, "origin": None}
    if like := entry.get("like"):
        choose(entries, like, "variant", f"{file}: {name}.like")
        if like in chain:
            raise UserError(
                f"{file}: {name}.like = {like!r} is not allowed, for {' is like '.join((*chain, like))}; "
                "allowed: an entry that is not like this one"
            )
        model = _complete(like, entries, defaults, file, chain)
        own_source = ("entry",) if "source" in entry else ()
        base |= {k: v for k, v in model.items() if k not in OF_ONE_ENTRY + own_source}
        base["builds_on"] = like
    else:
        family = name.partition("_")[0]
        folder = entry.get("source", "").partition("/")[0]
        base |= defaults.get(family if family in defaults else folder, {})
    merged = base.get("template", {}) | entry.get("template", {})
    template = {key: value for key, value in merged.items() if value is not None}
    own = {key: value for key, value in entry.items() if key != "like"}
    return base | own | ({"template": template} if template else {})


def _by_dtype(entries: Mapping[str, Entry], file: object) -> dict[str, Entry]:
    """Return the entries, one for each of their dtypes."""
    expanded: dict[str, Entry] = {}
    for name, entry in entries.items():
        for full_name, variant in _each(name, entry, file):
            if full_name in expanded:
                several = len(entry.get("dtypes", [])) > 1 and "{dtype}" not in name
                remedy = "{dtype} in its name, or a single one in dtypes" if several else "once"
                raise UserError(f"{file}: {full_name!r} stands twice; allowed: {remedy}")
            expanded[full_name] = variant
    return expanded


def _each(name: str, entry: Entry, file: object) -> Iterator[tuple[str, Entry]]:
    rest = {key: value for key, value in entry.items() if key != "dtypes"}
    if "dtypes" not in entry:
        yield name, rest
        return
    for dtype in entry["dtypes"]:
        words = {
            "{dtype}": dtype,
            "{type}": choose(dtypes(), dtype, "dtype", f"{file}: {name}.dtypes").c_type,
        }
        own = {"dtype": dtype} if "source" in entry else {}
        yield _filled(name, words), _filled(rest, words) | own


def _filled(value: Any, words: Mapping[str, str]) -> Any:
    """Return a value with the texts of `words` in place of their placeholders."""
    if isinstance(value, str):
        for placeholder, text in words.items():
            value = value.replace(placeholder, text)
        return value
    if isinstance(value, list):
        return [_filled(item, words) for item in value]
    if isinstance(value, dict):
        return {key: _filled(item, words) for key, item in value.items()}
    return value


def number(value: int | str, template: Mapping[str, Any], where: str, minimum: int = 1) -> int:
    """Return a number of an entry: as it stands, or computed from template values.

    Raises `UserError` naming `where`.
    """
    allowed = f"a number of at least {minimum}, or arithmetic (+ - * //) on template values"
    result: Any = value
    if isinstance(value, str) and value.isidentifier():
        result = choose(template, value, "template parameter", where)
    elif isinstance(value, str):
        names = {name: item for name, item in template.items() if isinstance(item, int)}
        try:
            result = simpleeval.SimpleEval(names=names, functions={}).eval(value)
        # simpleeval raises its own errors, and lets through those of Python's operators.
        except Exception as error:
            raise UserError(
                f"{where} = {value!r} is not allowed ({error}); allowed: {allowed}"
            ) from error
    if isinstance(result, bool) or not isinstance(result, int) or result < minimum:
        raise UserError(f"{where} = {result!r} is not allowed; allowed: {allowed}")
    return result
