"""Checks a value against the model of its kind, and says what is wrong in one line."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from contracts import claims as claims  # these fill the list of models
from contracts import declared as declared
from contracts import recorded as recorded
from contracts.errors import LONGEST, UserError, choose, one_line
from contracts.model import MODELS, Row

LIMIT_BYTES = 100_000_000  # of a table or document
# What is allowed, by pydantic's type of error
ALLOWED = {
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
    "multiple_of": "a multiple of {multiple_of}",
    "finite_number": "finite numbers",
    "string_pattern_mismatch": "text like {pattern}",
    "string_too_short": "at least {min_length} character(s)",
    "string_too_long": "at most {max_length} characters",
    "too_short": "at least {min_length} item(s)",
    "too_long": "at most {max_length} item(s)",
    "value_error": "{error}",
}
WRONG_TYPE = {
    "int_type": "integer",
    "int_from_float": "integer",
    "float_type": "number",
    "bool_type": "true or false",
    "string_type": "string",
    "list_type": "list",
    "dict_type": "mapping",
    "model_type": "mapping",
    "model_attributes_type": "mapping",
}


@functools.cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(choose(MODELS, name, "kind of file", "contracts"))


@functools.cache
def _rows_adapter(name: str) -> TypeAdapter[list[Row]]:
    row: Any = MODELS[name]  # a type that is known at run time alone
    return TypeAdapter(list[row])


def validate(value: Any, name: str, source: object) -> None:
    """Check `value` against the model called `name`; a `UserError` names `source`, the key, the
    value and what is allowed."""
    try:
        _adapter(name).validate_python(value)
    except ValidationError as error:
        raise UserError(f"{source}: {one_line(explain(error, value))}") from None


def validate_rows(
    rows: Sequence[dict[str, Any]], name: str, source: object
) -> list[dict[str, Any]]:
    """The rows of a table with every column, in the order of columns; null for what an optional one
    lacks.

    Raises `UserError` for the first value that is not allowed, and for two rows with the same key.
    """
    try:
        checked = [vars(row) for row in _rows_adapter(name).validate_python(list(rows))]
    except ValidationError as error:
        number = int(error.errors(include_url=False)[0]["loc"][0])
        raise UserError(f"{source} row {number + 1}: {one_line(explain(error, rows))}") from None
    _check_keys(checked, MODELS[name].KEY, source)
    return checked


def _check_keys(rows: list[dict[str, Any]], key: tuple[str, ...], source: object) -> None:
    known: dict[tuple[Any, ...], int] = {}
    for number, row in enumerate(rows if key else (), start=1):
        before = known.setdefault(tuple([row[name] for name in key]), number)
        if before != number:
            shown = ", ".join(f"{name} = {row[name]}" for name in key)
            said = (
                f"a second row of {shown} is not allowed (the first is row {before}); allowed: one"
            )
            raise UserError(f"{source} row {number}: {one_line(said)}")


def explain(error: ValidationError, value: Any) -> str:
    """The first fault of a value: key, value and what is allowed.

    Of a union, the alternative that got furthest.
    """
    errors = error.errors(include_url=False)
    paths = [_path(one, value) for one in errors]
    alternatives = [place for place, path in enumerate(paths) if path[: len(paths[0])] == paths[0]]
    right_type = [
        place for place in alternatives if errors[place]["type"] not in WRONG_TYPE
    ] or alternatives
    place = max(right_type, key=lambda one: len(paths[one]))
    fault, path = errors[place], paths[place]
    shown_path = path[1:] if isinstance(value, list) and path and isinstance(path[0], int) else path
    is_key = "[key]" in fault["loc"]
    key = ".".join(map(str, shown_path[:-1] if is_key else shown_path)) or "the file"
    if fault["type"] == "unknown_key":
        return f"{key}: {fault['msg']}" if shown_path else fault["msg"]
    if fault["type"] == "missing":
        return f"{key}: {fault['loc'][-1]!r} is missing"
    key = f"{key}: a key" if is_key else key
    same = [errors[one] for one in alternatives if paths[one] == path]
    allowed = " or ".join(
        dict.fromkeys(map(_allowed, same if fault["type"] in WRONG_TYPE else [fault]))
    )
    return f"{key} = {_shown(fault['input'])} is not allowed; allowed: {allowed}"


def _allowed(fault: ErrorDetails) -> str:
    kind = fault["type"]
    if kind in WRONG_TYPE:
        return WRONG_TYPE[kind]
    if kind == "literal_error":
        return "one of " + str(fault["ctx"]["expected"]).replace("'", "").replace(" or ", ", ")
    return ALLOWED[kind].format(**fault.get("ctx", {})) if kind in ALLOWED else fault["msg"]


def _path(fault: ErrorDetails, value: Any) -> tuple[Any, ...]:
    """Where a fault is, as keys and places in the value: pydantic's own path also names
    alternatives of unions.
    """
    path = []
    for part in fault["loc"]:
        inside = (
            part in value
            if isinstance(value, dict)
            else isinstance(value, list) and isinstance(part, int)
        )
        if inside:
            path.append(part)
            value = value[part]
    return tuple(path)


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
