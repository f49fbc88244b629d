"""samples.parquet: every timed launch behind bench.csv (contracts/schemas/samples.schema.yaml)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from contracts import UserError, replacing

NAME, NUMBER = pa.dictionary(pa.int32(), pa.string()), pa.float32()
COLUMNS = pa.schema(
    [
        *((name, NAME) for name in ("experiment", "variant", "timed")),
        *((name, pa.int32()) for name in ("m", "n", "k")),
        *((name, NAME) for name in ("regime", "data", "window")),
        ("index", pa.int32()),
        ("time_us", NUMBER),
        ("sm_clock_mhz", NUMBER),
        ("kept", pa.bool_()),
    ]
)


def write_samples(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows; an empty table has the columns too."""
    _write(path, pa.Table.from_pylist(list(rows), schema=COLUMNS))


def join_samples(parts: Iterable[Path], path: Path) -> None:
    """Write all rows of `parts`; a truncated or foreign part is a `UserError`."""
    tables = [COLUMNS.empty_table()]
    for part in parts:
        try:
            tables.append(pq.read_table(part, schema=COLUMNS))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise UserError(f"{part}: not a table of samples, truncated or foreign") from error
    _write(path, pa.concat_tables(tables).unify_dictionaries())


def _write(path: Path, table: pa.Table) -> None:
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")
