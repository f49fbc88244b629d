"""samples.parquet: every timed launch (contracts/rows.py, `Samples`). Needs PyArrow."""

from __future__ import annotations

import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from contracts.errors import UserError
from contracts.files import LIMIT_BYTES, atomic_write, read_bytes
from contracts.model import validated
from contracts.rows import Samples

SHORT_US = 150.0  # a run below which launches and the caches show more than the clock does
# why a sample is not kept
GAP, NO_CLOCK, OFF_TARGET = "launch gap", "clock unknown", "clock off target"


# float32 is exact enough for a clock, and halves the file
_SINGLE = ("sm_clock_mhz",)
# hardly a value twice: byte by byte, these columns compress best
_MEASURED = ["time_us", "sm_clock_mhz"]
_ARROW: dict[Any, pa.DataType] = {int: pa.int32(), bool: pa.bool_(), float: pa.float64()}
KEY = list(Samples.KEY)


def _arrow_type(name: str) -> pa.DataType:
    if name in _SINGLE:
        return pa.float32()
    kind = typing.get_type_hints(Samples)[name]  # without Annotated; what is left is text
    return _ARROW.get(kind, pa.dictionary(pa.int32(), pa.string()))


COLUMNS = pa.schema([(name, _arrow_type(name)) for name in Samples.model_fields])


def samples_table(rows: int, columns: dict[str, Any]) -> pa.Table:
    """A table of so many rows; a column is given as an array, or as one value that stands in all
    rows.
    """
    arrays = []
    for field in COLUMNS:
        value = columns[field.name]
        if value is None or isinstance(value, str | int | float):
            value = [value] * rows
        plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        array = pa.array(value, plain, from_pandas=True)
        arrays.append(array.dictionary_encode() if plain is not field.type else array)
    return pa.table(arrays, schema=COLUMNS)


def named(samples: pa.Table, experiment: str) -> pa.Table:
    """Return the same samples, as rows of an experiment."""
    index = samples.schema.get_field_index("experiment")
    names = pa.array([experiment] * len(samples)).dictionary_encode()
    return samples.set_column(index, samples.schema.field(index), names)


def write_samples(path: str | Path, parts: Iterable[pa.Table]) -> None:
    """Write all rows of `parts`; without any, the columns alone.

    Raises `UserError` for a value that is not allowed.
    """
    table = pa.concat_tables([COLUMNS.empty_table(), *parts]).unify_dictionaries()
    _check(table, path)
    with atomic_write(path) as temporary:
        coded = [name for name in COLUMNS.names if name not in _MEASURED]
        packed = {"compression": "zstd", "compression_level": 19}
        pq.write_table(
            table, temporary, **packed, use_dictionary=coded, use_byte_stream_split=_MEASURED
        )


def read_samples(path: str | Path) -> pa.Table:
    """Return all rows. Raises `UserError` for a file that is truncated or foreign."""
    content = read_bytes(path, LIMIT_BYTES)
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        names = file.schema_arrow.names
        added = {
            name: Samples.model_fields[name].default for name in Samples.ADDED if name not in names
        }
        columns = pa.schema([field for field in COLUMNS if field.name not in added])
        if names != columns.names:
            odd = sorted({*names} ^ {*columns.names}) or ["the order"]
            raise UserError(f"{path}: not a table of samples (columns: {', '.join(odd)}); foreign")
        table = pq.read_table(pa.BufferReader(content), schema=columns)
        for column, value in added.items():
            place = COLUMNS.get_field_index(column)
            table = table.add_column(
                place,
                COLUMNS.field(place),
                pa.repeat(pa.scalar(value, COLUMNS.types[place]), len(table)),
            )
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: not a table of samples, truncated or foreign") from error
    _check(table, path)
    return table


def _check(table: pa.Table, path: str | Path) -> None:
    """Every value under the model: of names all that occur, of numbers the smallest and the
    largest.
    """
    if not len(table):
        return
    first = table.slice(0, 1).to_pylist()[0]
    for field in COLUMNS:
        column = table[field.name]
        # nulls count for nothing
        if pa.types.is_floating(field.type) and not pc.all(pc.is_finite(column)).as_py():
            raise UserError(
                f"{path}: {field.name} has an infinite value or NaN; allowed: finite numbers"
            )
        if pa.types.is_dictionary(field.type) or pa.types.is_boolean(field.type):
            values = pc.unique(column).to_pylist()
        else:
            values = [*pc.min_max(column).as_py().values(), *([None] if column.null_count else [])]
        for value in values:
            validated(first | {field.name: value}, Samples, path)
    if table.select(KEY).group_by(KEY).aggregate([]).num_rows < len(table):
        raise UserError(f"{path}: two rows of the same {', '.join(KEY)}; foreign")
    if pc.any(pc.equal(table["kept"], pc.is_valid(table["reason"]))).as_py():
        raise UserError(
            f"{path}: a sample that is kept with a reason why not, or the reverse; foreign"
        )
