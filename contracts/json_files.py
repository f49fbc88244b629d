"""JSON, strictly: finite numbers, each key once, and no deeper than a file of ours can be."""

from __future__ import annotations

import json
import math
from typing import Any

from contracts.errors import UserError, one_line, quoted

LIMIT_DEPTH = 32


def json_value(text: str, source: object) -> Any:
    """What a JSON text holds. A `UserError` names `source` and what is wrong."""
    try:
        value = json.loads(text, parse_constant=_constant, parse_float=_finite, object_pairs_hook=_each_key_once)
    except RecursionError as error:
        raise UserError(f"{source}: nested too deeply; allowed: {LIMIT_DEPTH} levels") from error
    except ValueError as error:
        raise UserError(f"{source}: not JSON, truncated or foreign ({one_line(str(error))})") from error
    level, depth = [value], 0
    while level := [inner for outer in level if isinstance(outer, (dict, list)) for inner in _inside(outer)]:
        depth += 1
        if depth > LIMIT_DEPTH:
            raise UserError(f"{source}: nested too deeply; allowed: {LIMIT_DEPTH} levels")
    return value


def _inside(outer: dict[str, Any] | list[Any]) -> list[Any]:
    return list(outer.values()) if isinstance(outer, dict) else outer


def _constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{quoted(text, bare=True)} is too large; allowed: finite numbers")
    return value


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {quoted(key)} stands twice")
        found[key] = value
    return found
