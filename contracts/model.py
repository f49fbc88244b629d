"""What the models of files have in common: `Row` of a table, `Document` of JSON and YAML, and how a
table is declared.

    @table("sanitizer", target="sanitize", archive="if there")
    class Sanitizer(Row):
        '''One row for each kernel and tool.'''

        KEY = ("variant", "tool")
        variant: Variant
        errors: int = column("errors or hazards reported", ge=0)

The order of a row's fields is the order of the file's columns. A field that may be null is an empty
cell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from contracts.errors import UserError, quoted, suggest

MADE_BY_OTHERS = ("all", "by hand")  # targets that are not a table's own


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


@dataclass(frozen=True)
class Table:
    """A recorded table or document: its file, its model, how it is made and whether it is
    archived.
    """

    name: str
    file: str
    schema: str  # the name of its model: `checks` of emulated_checks, too
    model: type[Document]
    needs_gpu: bool = True
    target: str = "all"  # what is asked of Snakemake to make it
    parts: str | None = None  # the stage whose jobs write its parts
    emulates: bool = False  # its target makes it on the emulator where there is no GPU
    archive: str = "never"  # whether data/GPU has it: "always", "if there" or "never"

    @property
    def optional(self) -> bool:
        """Whether a results folder is whole without it."""
        return self.archive != "always"

    @property
    def without_gpu(self) -> bool:
        """Whether its own target makes it on a computer without a GPU, too."""
        return self.emulates or not (self.needs_gpu or self.target in MADE_BY_OTHERS)

    @property
    def suffix(self) -> str:
        """The file's, with the dot."""
        return Path(self.file).suffix


TABLES: dict[str, Table] = {}
# the type of each kind of file, by the name under which it is read and written
MODELS: dict[str, Any] = {}


def model(name: str) -> Callable[[type[BaseModel]], type[Any]]:
    """A file of this kind is read under `name` and is no recorded table."""

    def register(cls: type[BaseModel]) -> type[Any]:
        MODELS[name] = cls
        return cls

    return register


def table(
    name: str, file: str | None = None, schema: str | None = None, **declared: Any
) -> Callable[[type[Any]], type[Any]]:
    """The class below is a recorded table; `declared` are further fields of `Table`. The default
    file is NAME.csv.

    Raises `UserError` for a name or file that another table has.
    """

    def register(cls: type[Any]) -> type[Any]:
        made = Table(name, file or f"{name}.csv", schema or name, cls, **declared)
        if any(made.name == other.name or made.file == other.file for other in TABLES.values()):
            raise UserError(
                f"table {name!r} with file {made.file!r} is registered twice; names and files must differ"
            )
        TABLES[name] = made
        MODELS.setdefault(made.schema, cls)
        return cls

    return register
