"""CSV, JSON and YAML with a schema, checked on writing and on reading.

A schema is a JSON Schema in `contracts/schemas/NAME.schema.yaml`, or in the folder of the study whose table it is. For
a CSV file it describes one row, and the order of its properties is the order of the columns; an empty cell is null.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from contracts.errors import UserError, suggest
from contracts.files import replacing, write_text

SCHEMAS = Path(__file__).resolve().parent / "schemas"
STUDIES = SCHEMAS.parent.parent / "experiments" / "studies"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's, ten times as fast, where PyYAML was built with it
# Keywords that say no more of a row than its columns do, where it has all that are required and no others
_BY_COLUMN = {"$schema", "$defs", "title", "description", "type", "properties", "required", "additionalProperties"}

Row = dict[str, Any]


def schema_path(name: str) -> Path:
    """The file of the schema called `name`; it need not be there."""
    own = SCHEMAS / f"{name}.schema.yaml"
    return own if own.is_file() else next(STUDIES.glob(f"*/{name}.schema.yaml"), own)


@functools.cache
def schema(name: str) -> dict[str, Any]:
    """The schema called `name` (for instance "bench")."""
    return yaml.load(schema_path(name).read_text(), _LOADER)


@functools.cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(schema(name))


@functools.cache
def _columns(name: str) -> dict[str, Draft202012Validator]:
    """What checks each column by itself; empty where the schema says more of a row than that."""
    if not schema(name).keys() <= _BY_COLUMN:
        return {}
    return {column: _validator(name).evolve(schema=one) for column, one in schema(name)["properties"].items()}


@functools.cache
def _required(name: str) -> frozenset[str]:
    return frozenset(schema(name).get("required", ()))


@functools.lru_cache(maxsize=1 << 16, typed=True)
def _allowed(name: str, column: str, value: Any) -> bool:
    return _columns(name)[column].is_valid(value)


def validate(value: Any, name: str, source: object) -> None:
    """Check `value` against schema `name`; a `UserError` names the file, the key, the value and what is allowed."""
    errors = sorted(_validator(name).iter_errors(value), key=lambda e: list(map(str, e.absolute_path)))
    if errors:
        raise UserError(f"{source}: {_explain(errors[0])}")


def _explain(error: Any) -> str:
    while error.context:  # of several alternatives, speak of the one of the right type that got furthest
        error = max(error.context, key=lambda e: (e.validator != "type", len(e.absolute_path)))
    key = ".".join(str(part) for part in error.absolute_path) or "the file"
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        allowed = error.schema.get("properties", {})
        unknown = next(name for name in error.instance if name not in allowed)
        return f"unknown key {unknown!r} in {key}; {suggest(unknown, allowed)}"
    if error.validator == "required":
        return f"{key}: {error.message}"
    shown = json.dumps(error.instance, default=str)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    allowed = {
        "enum": lambda v: "one of " + ", ".join(map(str, v)),
        "minimum": lambda v: f"at least {v}",
        "exclusiveMinimum": lambda v: f"more than {v}",
        "maximum": lambda v: f"at most {v}",
        "type": lambda v: " or ".join([v] if isinstance(v, str) else v),
        "pattern": lambda v: f"text like {v}",
        "minItems": lambda v: f"at least {v} item(s)",
        "multipleOf": lambda v: f"a multiple of {v}",
    }.get(error.validator, lambda v: f"{error.validator}: {v}")(error.validator_value)
    return f"{key} = {shown} is not allowed; allowed: {allowed}"


def _types(properties: Mapping[str, Any], column: str) -> set[str]:
    kind = properties[column].get("type", "string")
    return {kind} if isinstance(kind, str) else set(kind)


def _parse(text: str, types: set[str]) -> Any:
    if text == "" and "null" in types:
        return None
    if "boolean" in types and text in ("true", "false"):
        return text == "true"
    for kind, convert in (("integer", int), ("number", float)):
        if kind in types:
            try:
                return convert(text)
            except ValueError:
                continue
    return text  # a string, or a value that the schema will refuse by its name


def _format(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.9g}"
    return str(value)


def write_rows(path: str | Path, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write `rows` as CSV under schema `name`; every column of the schema is there, in its order.

    Raises `UserError` for a row that breaks the schema, with nothing written. NaN and infinity are refused.
    """
    columns = list(schema(name)["properties"])
    rows = [dict(row) for row in rows]
    for number, row in enumerate(rows, start=1):
        _check_row(row, name, f"{path} row {number}")
    with replacing(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_format(row.get(column)) for column in columns] for row in rows)


def _check_row(row: Row, name: str, source: str) -> None:
    for column, value in row.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{source}: {column} = {value} is not allowed; allowed: finite numbers")
    if not _cells_allowed(row, name):
        validate(row, name, source)


def _cells_allowed(row: Row, name: str) -> bool:
    """A quick yes for most rows, since cells of a column are much alike; where it is no, the whole schema judges."""
    columns = _columns(name)
    if not columns or not columns.keys() >= row.keys() or not row.keys() >= _required(name):
        return False
    try:
        return all(_allowed(name, column, value) for column, value in row.items())
    except TypeError:  # not a cell at all: a list, for instance
        return False


def read_rows(path: str | Path, name: str) -> list[Row]:
    """Read a CSV file under schema `name`: typed rows, null for an empty cell.

    Raises `UserError` naming the file, row, column and value of the first fault (also for a truncated file).
    """
    path = Path(path)
    properties = schema(name)["properties"]
    types = [_types(properties, column) for column in properties]
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'not a text file'}") from error
    if not text.endswith("\n"):
        raise UserError(f"{path}: truncated (no line end after the last row); restore or measure it again")
    try:
        lines = list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise UserError(f"{path}: not a {name} table ({error}); foreign") from error
    header = lines[0] if lines else []
    if header != list(properties):
        odd = next((c for c in [*header, *properties] if (c in header) != (c in properties)), "the order")
        raise UserError(f"{path}: not a {name} table (column {odd!r}); expected columns: {', '.join(properties)}")
    rows = []
    for number, cells in enumerate(lines[1:], start=1):
        if len(cells) != len(header):
            raise UserError(f"{path} row {number}: {len(cells)} cells, expected {len(header)}; truncated or foreign")
        row = {column: _parse(cell, kinds) for column, cell, kinds in zip(header, cells, types, strict=True)}
        _check_row(row, name, f"{path} row {number}")
        rows.append(row)
    return rows


def write_json(path: str | Path, name: str, value: Any, *, only_if_changed: bool = False) -> None:
    """Write `value` as JSON under schema `name` (keys in the order given)."""
    validate(value, name, path)
    try:
        text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    except ValueError as error:
        raise UserError(f"{path}: NaN or infinity is not allowed; allowed: finite numbers") from error
    write_text(path, text, only_if_changed=only_if_changed)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def read_json(path: str | Path, name: str) -> Any:
    """Read a JSON file under schema `name`; a truncated or foreign file is a `UserError`."""
    try:
        value = json.loads(Path(path).read_text(), parse_constant=_refuse_constant)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{path}: not JSON, truncated or foreign ({error})") from error
    validate(value, name, path)
    return value


def load_yaml(path: str | Path) -> Any:
    """What a YAML file holds, under no schema; one that cannot be read or is no YAML is a `UserError`."""
    try:
        text = Path(path).read_text()
        try:
            return yaml.load(text, _LOADER)
        except yaml.YAMLError:
            return yaml.safe_load(text)  # for its words: libyaml's point at another line
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'not a text file'}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        raise UserError(f"{path}{where}: not YAML ({getattr(error, 'problem', error)})") from error


def read_yaml(path: str | Path, name: str) -> Any:
    """Read a YAML file under schema `name`."""
    value = load_yaml(path)
    validate(value, name, path)
    return value
