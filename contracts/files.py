"""Reads and writes files: whole or not at all, and CSV, JSON and YAML under a model."""

from __future__ import annotations

import contextlib
import csv
import errno
import hashlib
import io
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel

from contracts.errors import UserError, one_line, quoted
from contracts.model import RowType, validated, validated_rows

LIMIT_BYTES = 100_000_000  # of a table or document
LIMIT_YAML_BYTES = 4_000_000
T = TypeVar("T")

NO_ROOM = {errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC}
_UMASK = os.umask(0o022)  # only to be asked, and set back
os.umask(_UMASK)


def read_bytes(path: str | Path, limit: int) -> bytes:
    """A file's content. Raises `UserError` where it cannot be read or has more than `limit`
    bytes.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(limit + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise UserError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        ) from error
    if len(content) > limit:
        raise UserError(f"cannot read {path}: more than {limit} bytes; allowed: at most {limit}")
    return content


def checksum(content: bytes) -> str:
    """Return the SHA-256 of a file's content in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def digest(*parts: str) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of these texts."""
    return checksum("\0".join(parts).encode())[:16]


def read_text(path: str | Path, limit: int) -> str:
    """The same as text in UTF-8."""
    return decoded(path, read_bytes(path, limit))


def decoded(path: str | Path, content: bytes) -> str:
    """A file's content as text in UTF-8. Raises `UserError` for what is none."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"cannot read {path}: not a text file (UTF-8)") from error


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder in the system's temporary folder; removed with all that is in it when the
    block ends.
    """
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Give a temporary path next to `path`; rename it to `path` if the block ends well, else remove
    it.

    A killed process leaves only the temporary file, whose name begins with a dot. Raises
    `UserError` where the folder cannot be written.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(path.suffix, f".{path.stem}-", path.parent)
        os.close(handle)
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror}; choose a folder that can be written"
        ) from error
    try:
        os.chmod(name, 0o666 & ~_UMASK)  # mkstemp's file is its owner's alone
        yield Path(name)
        os.replace(name, path)
    except OSError as error:  # names no file, or only the temporary one
        if error.filename != name and error.errno not in NO_ROOM:
            raise
        said = error.strerror or error
        raise UserError(
            f"cannot write {path}: {said}; make room, or choose another folder"
        ) from error
    finally:
        Path(name).unlink(missing_ok=True)


def write_text(path: str | Path, text: str, *, only_if_changed: bool = False) -> None:
    """Write a text file whole.

    With `only_if_changed`, a file that holds `text` already keeps its date.
    """
    path = Path(path)
    if only_if_changed and path.is_file() and path.read_text() == text:
        return
    with atomic_write(path) as temporary:
        temporary.write_text(text)


# ---- tables --------------------------------------------------------------------------------------


def read_rows(path: str | Path, model: type[RowType]) -> list[RowType]:
    """Read a CSV file as rows of `model`; an empty cell is null, or the column's default.

    Columns under `model.ADDED`, which older tables lack, have their defaults. Raises `UserError`
    naming the file, row, column and value of the first fault, also for a truncated file.
    """
    text = decoded(path, read_bytes(path, LIMIT_BYTES))
    if not text.endswith("\n"):
        raise UserError(
            f"{path}: truncated (no line end after the last row); restore or measure it again"
        )
    try:
        header, *lines = csv.reader(io.StringIO(text, newline=""))
    except csv.Error as error:
        raise UserError(
            f"{path}: not a {model.__name__} table ({one_line(str(error))}); foreign"
        ) from error
    fields = model.model_fields
    columns = [name for name in fields if name in header or name not in model.ADDED]
    if header != columns:
        odd = next((c for c in [*header, *columns] if (c in header) != (c in columns)), "the order")
        raise UserError(
            f"{path}: not a {model.__name__} table (column {quoted(odd)}); "
            f"expected columns: {', '.join(columns)}"
        )
    rows = []
    required = [fields[name].is_required() for name in columns]
    for number, cells in enumerate(lines, start=1):
        if len(cells) != len(columns):
            raise UserError(
                f"{path} row {number}: {len(cells)} cells, expected {len(columns)}; "
                "truncated or foreign"
            )
        named = zip(columns, cells, required, strict=True)
        rows.append({name: cell for name, cell, needed in named if cell or needed})
    return validated_rows(rows, model, path, text=True)


def write_rows(
    path: str | Path, model: type[RowType], rows: Iterable[RowType | Mapping[str, Any]]
) -> None:
    """Write rows of `model` as CSV with all its columns, in its order; null is an empty cell.

    Raises `UserError` for a row that breaks the model, with nothing written. NaN and infinity are
    refused.
    """
    checked = validated_rows(rows, model, path)
    with atomic_write(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(model.model_fields)
        writer.writerows(
            [_cell(getattr(row, name)) for name in model.model_fields] for row in checked
        )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.9g}" if isinstance(value, float) else str(value)


# ---- documents -----------------------------------------------------------------------------------


def read_json(path: str | Path, model: type[T]) -> T:
    """Read a JSON file as an instance of `model`.

    Raises `UserError` naming the file and its first fault, also for a truncated file.
    """
    return validated(json_value(decoded(path, read_bytes(path, LIMIT_BYTES)), path), model, path)


def write_json(
    path: str | Path,
    model: type[BaseModel],
    value: Any,
    *,
    only_if_changed: bool = False,
    indent: int | None = 2,
) -> None:
    """Write `value` as JSON under `model`; keys stand in the order given, or in the model's.

    indent: spaces a level; None for one line.

    Raises `UserError` for a value that breaks the model, with nothing written.
    """
    if isinstance(value, BaseModel):
        value = value.model_dump(exclude_unset=True)
    validated(value, model, path)
    try:
        text = json.dumps(value, indent=indent, allow_nan=False) + "\n"
    except ValueError as error:  # in a part that the model leaves open
        raise UserError(
            f"{path}: NaN or infinity is not allowed; allowed: finite numbers"
        ) from error
    write_text(path, text, only_if_changed=only_if_changed)


def read_yaml(path: str | Path, model: type[T]) -> T:
    """Read a YAML file as an instance of `model`. Raises `UserError` as `read_json` does."""
    return validated(load_yaml(path), model, path)


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
