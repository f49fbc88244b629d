"""CSV, JSON and YAML files under a model (contracts/recorded.py, contracts/declared.py)."""

from __future__ import annotations

import csv
import functools
import io
import json
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from contracts import archives
from contracts.documents import json_value, load_yaml
from contracts.errors import UserError, one_line, quoted
from contracts.files import atomic_write, decoded, read_bytes, write_text
from contracts.model import MODELS
from contracts.registry import columns as columns_of
from contracts.validation import LIMIT_BYTES, validate, validate_rows

_WHOLE = re.compile(r"-?[0-9]{1,40}")
_NUMBER = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?|-?inf|nan")

Row = dict[str, Any]


def write_rows(path: str | Path, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write `rows` as CSV with every column of the model called `name`, in its order; null is an
    empty cell.

    Raises `UserError` for a row that breaks the model, with nothing written. NaN and infinity are
    refused.
    """
    table = validate_rows([dict(row) for row in rows], name, path)
    with atomic_write(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns_of(name))
        writer.writerows([[_format(value) for value in row.values()] for row in table])


def read_rows(path: str | Path, name: str) -> list[Row]:
    """Read a CSV file under the model called `name`: typed rows, null for an empty cell.

    A column that older tables lack has its default, or null.

    Raises `UserError` naming the file, row, column and value of the first fault (also for a
    truncated file, and for an archived one that is not as it was archived).
    """
    path = Path(path)
    content = read_bytes(path, LIMIT_BYTES)
    header, *lines = _cells(decoded(path, content), name, path)
    columns = _expected(header, name, path)
    readers = [_readers(name)[column] for column in columns]
    rows = []
    for number, cells in enumerate(lines, start=1):
        if len(cells) != len(columns):
            raise UserError(
                f"{path} row {number}: {len(cells)} cells, expected {len(columns)}; truncated or foreign"
            )
        rows.append(
            {column: read(cell) for column, read, cell in zip(columns, readers, cells, strict=True)}
        )
    checked = validate_rows(rows, name, path)
    archives.check(path, content)
    return checked


def _cells(text: str, name: str, path: Path) -> list[list[str]]:
    if not text.endswith("\n"):
        raise UserError(
            f"{path}: truncated (no line end after the last row); restore or measure it again"
        )
    try:
        return list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise UserError(f"{path}: not a {name} table ({one_line(str(error))}); foreign") from error


def _expected(header: list[str], name: str, path: Path) -> list[str]:
    """The columns that a file must have, without those that it may lack and does."""
    added = MODELS[name].ADDED
    columns = [column for column in columns_of(name) if column in header or column not in added]
    if header != columns:
        odd = next((c for c in [*header, *columns] if (c in header) != (c in columns)), "the order")
        raise UserError(
            f"{path}: not a {name} table (column {quoted(odd)}); expected columns: {', '.join(columns)}"
        )
    return columns


@functools.cache
def _readers(name: str) -> dict[str, Callable[[str], Any]]:
    """What makes a value of a cell, for each column.

    A cell of another type stays text, which the model refuses.
    """
    found: dict[str, Callable[[str], Any]] = {}
    for column, field in MODELS[name].model_fields.items():
        types = value_types(field.annotation)
        found[column] = functools.lru_cache(maxsize=4096)(functools.partial(_value, types))
    return found


def value_types(annotation: Any) -> frozenset[type]:
    """The plain types of an annotation: {int, NoneType} of `Literal[1, 2] | None`."""
    if isinstance(annotation, type):
        return frozenset([annotation])
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) is typing.Literal:
        return frozenset(map(type, parts))
    if typing.get_origin(annotation) is typing.Annotated:
        return value_types(parts[0])
    return frozenset().union(*map(value_types, parts))


def _value(types: frozenset[type], text: str) -> Any:
    if text == "" and NoneType in types:
        return None
    if bool in types and text in ("true", "false"):
        return text == "true"
    if int in types and _WHOLE.fullmatch(text):
        return int(text)
    if float in types and _NUMBER.fullmatch(text):
        return float(text)
    return text


def _format(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def write_json(path: str | Path, name: str, value: Any, *, only_if_changed: bool = False) -> None:
    """Write `value` as JSON under the model called `name` (keys in the order given)."""
    validate(value, name, path)
    try:
        text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    except ValueError as error:
        raise UserError(
            f"{path}: NaN or infinity is not allowed; allowed: finite numbers"
        ) from error
    write_text(path, text, only_if_changed=only_if_changed)


def read_json(path: str | Path, name: str) -> Any:
    """Read a JSON file under the model called `name`; a truncated, foreign or changed archived file
    is a " "`UserError`."""
    content = read_bytes(path, LIMIT_BYTES)
    value = json_value(decoded(path, content), path)
    validate(value, name, path)
    archives.check(Path(path), content)
    return value


def read_yaml(path: str | Path, name: str) -> Any:
    """Read a YAML file under the model called `name`."""
    value = load_yaml(path)
    validate(value, name, path)
    return value
