"""Reads the text of JSON and YAML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from contracts.errors import UserError, one_line, quoted
from contracts.files import read_text

LIMIT_YAML_BYTES = 4_000_000
_SAFE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's is ten times as fast


class _Loader(_SAFE):  # type: ignore[misc]  # of either kind
    """PyYAML's safe loader with text as keys, and each key once."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        known = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                said = f"the key {quoted(key)} is not text; put it in quotes"
                raise yaml.constructor.ConstructorError(None, None, said, key_node.start_mark)
            if key in known:
                said = f"the key {quoted(key)} stands twice"
                raise yaml.constructor.ConstructorError(None, None, said, key_node.start_mark)
            known.add(key)
        found: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return found


def load_yaml(path: str | Path) -> Any:
    """What a YAML file holds, under no model.

    A `UserError` names the file and the line of the first fault.
    """
    return _yaml(read_text(path, LIMIT_YAML_BYTES), str(path))


def parse_yaml_value(text: str, source: object) -> Any:
    """What one line of text means as YAML: `false`, `12`, `[a, b]`.

    A `UserError` names `source` and the text.
    """
    return _yaml(text, f"{source} = {quoted(text)}")


def _yaml(text: str, source: str) -> Any:
    try:
        for event in yaml.parse(text, Loader=_SAFE):
            if isinstance(event, yaml.AliasEvent):  # which would hide what a value is
                mark: Any = event.start_mark
                raise yaml.constructor.ConstructorError(None, None, "an alias is not allowed", mark)
        return yaml.load(text, Loader=_Loader)
    except RecursionError as error:
        raise UserError(f"{source}: nested too deeply") from error
    except (
        yaml.YAMLError,
        ValueError,
        AttributeError,
    ) as error:  # the last two: a text that does not suit its tag
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark and "\n" in text else ""
        said = " ".join(str(getattr(error, "problem", None) or error).split())
        raise UserError(f"{source}{line}: not YAML ({one_line(said)})") from error


def json_value(text: str, source: object) -> Any:
    """What a JSON text holds. A `UserError` names `source` and what is wrong."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise UserError(f"{source}: nested too deeply") from error
    except ValueError as error:
        raise UserError(
            f"{source}: not JSON, truncated or foreign ({one_line(str(error))})"
        ) from error
