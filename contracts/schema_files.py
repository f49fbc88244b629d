"""Schemas of tables and documents, and what checks a value against one.

A schema is a JSON Schema in `contracts/schemas/NAME.schema.yaml`, or in the folder of the study whose table it is. For
a CSV file it describes one row, and the order of its properties is the order of the columns; an empty cell is null.
Three keywords of ours say more of a table: `key` lists the columns by which a row is known, which no two rows share;
`ascending` lists groups of columns whose numbers do not fall from one to the next where they are given, such as an
interval around its median; `added` lists columns that tables written before them lack, which read as their default.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, ValidationError, validators

from contracts.errors import LONGEST, UserError, one_line, quoted, suggest
from contracts.yaml_files import load_yaml

SCHEMAS = Path(__file__).resolve().parent / "schemas"
DTYPES = SCHEMAS.parent / "dtypes.yaml"
STUDIES = SCHEMAS.parent.parent / "experiments" / "studies"
# Keywords that say no more of a row than its columns do, where it has all that are required and no others
_BY_COLUMN = {
    *("$schema", "$defs", "title", "description", "type", "properties", "required", "additionalProperties"),
    *("key", "ascending", "added"),
}
LIMIT_BYTES = 100_000_000  # of a table or document


def schema_path(name: str) -> Path:
    """The file of the schema called `name`; it need not be there."""
    own = SCHEMAS / f"{name}.schema.yaml"
    return own if own.is_file() else next(STUDIES.glob(f"*/{name}.schema.yaml"), own)


@functools.cache
def schema(name: str) -> dict[str, Any]:
    """The schema called `name`, as "bench"; `format: dtype` stands for the names in contracts/dtypes.yaml, and
    `format: types` for those that are made of them (`contracts.dtypes.Types.name`)."""
    value: dict[str, Any] = _with_dtypes(load_yaml(schema_path(name)))
    return value


@functools.cache
def types_pattern() -> str:
    """A regular expression of the names of a GEMM's types: a dtype for A and B, then one for C, then one for sums."""
    one = f"({'|'.join(load_yaml(DTYPES))})"
    return f"{one}(?:_{one}(?:_{one})?)?"


def _with_dtypes(node: Any) -> Any:
    if isinstance(node, list):
        return [_with_dtypes(part) for part in node]
    if not isinstance(node, dict):
        return node
    rest = {key: value for key, value in node.items() if key != "format"}
    if node.get("format") == "dtype":
        node = rest | {"enum": list(load_yaml(DTYPES))}
    if node.get("format") == "types":
        node = rest | {"pattern": f"^{types_pattern()}$"}
    return {key: _with_dtypes(value) for key, value in node.items()}


def _pattern(_: Any, pattern: str, instance: Any, __: Any) -> Iterator[ValidationError]:
    """As in JSON Schema, where $ is the end of the text: to Python's `re` it is also a line end before that."""
    if isinstance(instance, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


# An integer is one: 1024.0 is not, though JSON Schema takes it
_Validator: type[Draft202012Validator] = validators.extend(  # type: ignore[no-untyped-call]  # types-jsonschema has no types here
    Draft202012Validator,
    {"pattern": _pattern},
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)


@functools.cache
def _validator(name: str) -> Any:
    return _Validator(schema(name))


@functools.cache
def column_validators(name: str) -> dict[str, Any]:
    """What checks each column by itself; empty where the schema says more of a row than that."""
    if not schema(name).keys() <= _BY_COLUMN:
        return {}
    return {column: _validator(name).evolve(schema=one) for column, one in schema(name)["properties"].items()}


@functools.cache
def column_ranges(name: str) -> dict[str, tuple[frozenset[str], float, float]]:
    """Types, least and greatest value of each column of which the schema says no more: most of the numbers."""
    found = {}
    for column, one in schema(name)["properties"].items() if column_validators(name) else ():
        if one.keys() <= {"type", "minimum", "maximum", "description", "default"} and "type" in one:
            types = frozenset([one["type"]] if isinstance(one["type"], str) else one["type"])
            found[column] = (types, one.get("minimum", -math.inf), one.get("maximum", math.inf))
    return found


@functools.cache
def required_columns(name: str) -> frozenset[str]:
    return frozenset(schema(name).get("required", ()))


def added_columns(name: str) -> dict[str, Any]:
    """The columns that older tables lack, with what each reads as there: its default, or null where it has none."""
    return {column: schema(name)["properties"][column].get("default") for column in schema(name).get("added", ())}


def interval_columns(name: str, column: str) -> tuple[str, str, str]:
    """A column of estimates with those of its interval: value, low and high, by `ascending` of the schema."""
    low, _, high = next(group for group in schema(name)["ascending"] if group[1] == column)
    return column, low, high


@functools.lru_cache(maxsize=1 << 16, typed=True)
def column_allows(name: str, column: str, value: Any) -> bool:
    return bool(column_validators(name)[column].is_valid(value))


def validate(value: Any, name: str, source: object) -> None:
    """Check `value` against schema `name`; a `UserError` names the file, the key, the value and what is allowed."""
    errors = sorted(_validator(name).iter_errors(value), key=lambda e: list(map(str, e.absolute_path)))
    if errors:
        raise UserError(f"{source}: {one_line(_explain(errors[0]))}")


def _explain(error: Any) -> str:
    while error.context:  # of several alternatives, speak of the one of the right type that got furthest
        error = max(error.context, key=lambda e: (e.validator != "type", len(e.absolute_path)))
    key = ".".join(str(part) for part in error.absolute_path) or "the file"
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        known = error.schema.get("properties", {})
        unknown = next(name for name in error.instance if name not in known)
        return f"unknown key {quoted(unknown)} in {key}; {suggest(unknown, known)}"
    if error.validator == "required":
        return f"{key}: {error.message}"
    if "propertyNames" in error.absolute_schema_path:
        key = f"{key}: a key"
    shown = json.dumps(error.instance, default=str)
    shown = shown if len(shown) <= LONGEST else shown[: LONGEST - 3] + "..."
    phrases: dict[str, Callable[[Any], str]] = {
        "enum": lambda v: "one of " + ", ".join(map(str, v)),
        "minimum": lambda v: f"at least {v}",
        "exclusiveMinimum": lambda v: f"more than {v}",
        "maximum": lambda v: f"at most {v}",
        "type": lambda v: " or ".join([v] if isinstance(v, str) else v),
        "pattern": lambda v: f"text like {v}",
        "minItems": lambda v: f"at least {v} item(s)",
        "maxItems": lambda v: f"at most {v} item(s)",
        "minProperties": lambda v: f"at least {v} key(s)",
        "minLength": lambda v: f"at least {v} character(s)",
        "maxLength": lambda v: f"at most {v} characters",
        "uniqueItems": lambda v: "each item once",
        "multipleOf": lambda v: f"a multiple of {v}",
    }
    allowed = phrases.get(error.validator, lambda v: f"{error.validator}: {v}")(error.validator_value)
    return f"{key} = {shown} is not allowed; allowed: {allowed}"
