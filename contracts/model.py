"""What the models of files have in common: `Row` of a table, `Document` of JSON and YAML.

The order of a row's fields is the order of the file's columns. A field that may be null is an empty
cell. A value that breaks its model is explained in one line: where, the value, what is allowed.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from contracts.errors import LONGEST, UserError, one_line, quoted, suggest

T = TypeVar("T")
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
    "int_parsing": "integer",
    "int_parsing_size": "integer",
    "float_parsing": "number",
    "bool_parsing": "true or false",
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


class Document(BaseModel):
    """A mapping with fixed keys.

    Values are not converted: 1 is no truth, "1" no number, and NaN is refused.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _know_every_key(cls, value: Any) -> Any:
        if isinstance(value, dict) and cls.model_config.get("extra") == "forbid":
            known = {one.alias or name for name, one in cls.model_fields.items()}
            if unknown := next((key for key in value if key not in known), None):
                said = f"unknown key {quoted(unknown)}; {suggest(unknown, known)}"
                raise PydanticCustomError("unknown_key", "{said}", {"said": said})
        return value


class Row(Document):
    """A row of a table: its fields are the columns."""

    KEY: ClassVar[tuple[str, ...]] = ()  # no two rows have the same values in these columns
    # older tables lack these columns; they read as the field's default
    ADDED: ClassVar[tuple[str, ...]] = ()


RowType = TypeVar("RowType", bound=Row)


def column(description: str = "", *, unit: str | None = None, **limits: Any) -> Any:
    """A column that every row has. `limits`: as pydantic's Field takes them."""
    return Field(
        description=description, json_schema_extra={"unit": unit} if unit else None, **limits
    )


def optional(description: str = "", *, unit: str | None = None, **limits: Any) -> Any:
    """A key that may be left out, and a column whose cell may be empty (its type is then `... |
    None`).
    """
    return column(description, unit=unit, default=None, **limits)


@functools.cache
def _adapter(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)


def validated(value: Any, model: type[T], source: object) -> T:
    """Return `value` as an instance of `model`.

    Raises `UserError`, which names `source`, the key, the value and what is allowed.
    """
    try:
        checked: T = _adapter(model).validate_python(value)  # type: ignore[arg-type]
    except ValidationError as error:
        raise UserError(f"{source}: {one_line(explain(error, value))}") from None
    return checked


def validated_rows(
    rows: Iterable[RowType | Mapping[str, Any]],
    model: type[RowType],
    source: object,
    *,
    text: bool = False,
) -> list[RowType]:
    """Return the rows of a table as instances of `model`.

    text: values are cells, so that "12" is the integer 12. Raises `UserError` for the first value
    that is not allowed, and for two rows with the same key.
    """
    given = list(rows)
    try:
        checked: list[RowType] = _adapter(list[model]).validate_python(  # type: ignore[valid-type]
            given, strict=False if text else None
        )
    except ValidationError as error:
        number = int(error.errors(include_url=False)[0]["loc"][0])
        raise UserError(f"{source} row {number + 1}: {one_line(explain(error, given))}") from None
    _check_keys(checked, model.KEY, source)
    return checked


def _check_keys(rows: Iterable[Row], key: tuple[str, ...], source: object) -> None:
    first: dict[tuple[Any, ...], int] = {}
    for number, row in enumerate(rows if key else (), start=1):
        before = first.setdefault(tuple([getattr(row, name) for name in key]), number)
        if before != number:
            values = ", ".join(f"{name} = {getattr(row, name)}" for name in key)
            message = (
                f"a second row of {values} is not allowed (the first is row {before}); allowed: one"
            )
            raise UserError(f"{source} row {number}: {one_line(message)}")


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
