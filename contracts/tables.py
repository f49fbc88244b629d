"""CSV, JSON and YAML with a schema (contracts/schema_files.py), checked on writing and on reading."""

from __future__ import annotations

import csv
import functools
import io
import json
import math
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from contracts import archives
from contracts.errors import UserError, one_line, quoted
from contracts.files import atomic_write, decoded, read_bytes, write_text
from contracts.json_files import json_value
from contracts.schema_files import (
    LIMIT_BYTES,
    added_columns,
    column_allows,
    column_ranges,
    column_validators,
    required_columns,
    schema,
    validate,
)
from contracts.yaml_files import load_yaml

# The types of JSON Schema that a cell's value may have
_KIND = {bool: {"boolean"}, int: {"integer", "number"}, float: {"number"}, str: {"string"}, type(None): {"null"}}
LARGEST = 1e18  # of a number in a table, by amount: what is more was not measured
# A number as `_format` writes it or a person would: plain digits; nan and inf only to be refused by their name
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,39})")
_DECIMAL = re.compile(r"-?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,4})?|-?inf|nan")

Row = dict[str, Any]


def _types(properties: Mapping[str, Any], column: str) -> set[str]:
    kind = properties[column].get("type", "string")
    return {kind} if isinstance(kind, str) else set(kind)


def _parse(text: str, types: Iterable[str]) -> Any:
    if text == "" and "null" in types:
        return None
    if "boolean" in types and text in ("true", "false"):
        return text == "true"
    if "integer" in types and _WHOLE.fullmatch(text):
        return int(text)
    if "number" in types and _DECIMAL.fullmatch(text):
        return float(text)
    return text  # a string, or a value that the schema will refuse by its name


@functools.lru_cache(maxsize=1 << 16)
def _cell(name: str, column: str, text: str) -> tuple[Any, bool]:
    """A cell's value, and a quick yes for most; where it is no, the whole schema judges."""
    value = _parse(text, _types(schema(name)["properties"], column))
    if not column_validators(name) or not _is_sane(value):
        return value, False
    if column in column_ranges(name):
        types, least, most = column_ranges(name)[column]
        if _KIND[type(value)] & types and (not isinstance(value, (int, float)) or least <= value <= most):
            return value, True
    return value, column_validators(name)[column].is_valid(value)


def _is_sane(value: Any) -> bool:
    return not isinstance(value, (int, float)) or abs(value) <= LARGEST  # of nan, too, this is not so


def _format(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.9g}"
    return str(value)


def write_rows(path: str | Path, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write `rows` as CSV under schema `name`; every column of the schema is there, in its order. An added column
    that a row lacks has its default.

    Raises `UserError` for a row that breaks the schema, with nothing written. NaN and infinity are refused.
    """
    columns = list(schema(name)["properties"])
    table = [added_columns(name) | dict(row) for row in rows]
    for number, row in enumerate(table, start=1):
        _check_row(row, name, f"{path} row {number}")
    _check_table(table, name, path)
    with atomic_write(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_format(row.get(column)) for column in columns] for row in table)


def _check_row(row: Row, name: str, source: str) -> None:
    for column, value in row.items():
        if isinstance(value, (int, float)) and not _is_sane(value):
            limits = "finite numbers" if not math.isfinite(value) else f"-{LARGEST:g} to {LARGEST:g}"
            raise UserError(f"{source}: {column} = {value:g} is not allowed; allowed: {limits}")
    if not _cells_allowed(row, name):
        validate(row, name, source)


def _check_table(rows: list[Row], name: str, source: object) -> None:
    """No two rows of one key, and the numbers of each group in their order."""
    if key := schema(name).get("key"):
        known: dict[tuple[Any, ...], int] = {}
        for number, row in enumerate(rows, start=1):
            before = known.setdefault(tuple([row.get(column) for column in key]), number)
            if before != number:
                usual = added_columns(name)
                named = [column for column in key if column not in usual or row.get(column) != usual[column]]
                shown = ", ".join(f"{column} = {_format(row.get(column))}" for column in named)
                said = f"a second row of {shown} is not allowed (the first is row {before}); allowed: one"
                raise UserError(f"{source} row {number}: {one_line(said)}")
    for group in schema(name).get("ascending", ()):
        for number, row in enumerate(rows, start=1):
            numbers = [row.get(column) for column in group]
            given = [value for value in numbers if value is not None]
            if any(b < a for a, b in pairwise(given)):
                shown = ", ".join(f"{column} = {_format(value)}" for column, value in zip(group, numbers, strict=True))
                raise UserError(f"{source} row {number}: {shown} is not allowed; allowed: in ascending order")


def _cells_allowed(row: Row, name: str) -> bool:
    """A quick yes for most rows, since cells of a column are much alike; where it is no, the whole schema judges."""
    columns = column_validators(name)
    if not columns or not columns.keys() >= row.keys() or not row.keys() >= required_columns(name):
        return False
    try:
        return all(column_allows(name, column, value) for column, value in row.items())
    except TypeError:  # not a cell at all: a list, for instance
        return False


def read_rows(path: str | Path, name: str) -> list[Row]:
    """Read a CSV file under schema `name`: typed rows, null for an empty cell; an added column that it lacks has its
    default, or null.

    Raises `UserError` naming the file, row, column and value of the first fault (also for a truncated file, and for an
    archived one that is not as it was archived).
    """
    path = Path(path)
    columns = list(schema(name)["properties"])
    content = read_bytes(path, LIMIT_BYTES)
    text = decoded(path, content)
    if not text.endswith("\n"):
        raise UserError(f"{path}: truncated (no line end after the last row); restore or measure it again")
    try:
        lines = list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise UserError(f"{path}: not a {name} table ({one_line(str(error))}); foreign") from error
    header = lines[0] if lines else []
    added = {column: default for column, default in added_columns(name).items() if column not in header}
    columns = [column for column in columns if column not in added]
    if header != columns:
        odd = next((c for c in [*header, *columns] if (c in header) != (c in columns)), "the order")
        raise UserError(f"{path}: not a {name} table (column {quoted(odd)}); expected columns: {', '.join(columns)}")
    rows = []
    for number, cells in enumerate(lines[1:], start=1):
        if len(cells) != len(columns):
            raise UserError(f"{path} row {number}: {len(cells)} cells, expected {len(columns)}; truncated or foreign")
        found = [_cell(name, column, cell) for column, cell in zip(columns, cells, strict=True)]
        row = {column: value for column, (value, _) in zip(columns, found, strict=True)}
        if not all([allowed for _, allowed in found]):
            _check_row(row, name, f"{path} row {number}")
        rows.append(row | added)
    _check_table(rows, name, path)
    archives.check(path, content)
    return rows


def write_json(path: str | Path, name: str, value: Any, *, only_if_changed: bool = False) -> None:
    """Write `value` as JSON under schema `name` (keys in the order given)."""
    validate(value, name, path)
    try:
        text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    except ValueError as error:
        raise UserError(f"{path}: NaN or infinity is not allowed; allowed: finite numbers") from error
    write_text(path, text, only_if_changed=only_if_changed)


def read_json(path: str | Path, name: str) -> Any:
    """Read a JSON file under schema `name`; a truncated, foreign or changed archived file is a `UserError`."""
    content = read_bytes(path, LIMIT_BYTES)
    value = json_value(decoded(path, content), path)
    validate(value, name, path)
    archives.check(Path(path), content)
    return value


def read_yaml(path: str | Path, name: str) -> Any:
    """Read a YAML file under schema `name`."""
    value = load_yaml(path)
    validate(value, name, path)
    return value
