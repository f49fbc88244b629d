"""Tables and documents are read as they were written; what is not whole, not ours or not allowed is
one clear line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers import ROOT, refused

from contracts import read_json, read_rows, write_json, write_rows
from contracts.model import Row
from contracts.rows import TABLES, Counters, Machine, StoredMeasurement, Windows, table
from contracts.samples import KEY, read_samples, write_samples

Spoil = Callable[[bytes], bytes]


def with_first(cell: bytes, other: bytes) -> Spoil:
    """Another value in place of the first cell that holds `cell`."""
    return lambda data: data.replace(b",%s," % cell, b",%s," % other, 1)


def test_an_archived_table_is_read_and_written_as_it_is(archive: Path, tmp_path: Path) -> None:
    for one in TABLES.values():
        path = archive / one.file
        if not path.is_file():
            continue
        if one.suffix == ".csv":
            rows = read_rows(path, one.model)
            write_rows(tmp_path / "x.csv", one.model, rows)
            assert read_rows(tmp_path / "x.csv", one.model) == rows
        elif one.suffix == ".json":
            assert read_json(path, one.model)
        else:
            write_samples(tmp_path / "x.parquet", [read_samples(path)])
            assert read_samples(tmp_path / "x.parquet").equals(read_samples(path))


def test_every_table_says_what_a_row_is_and_has_its_key_among_its_columns() -> None:
    for one in TABLES.values():
        assert one.model.__doc__
        if issubclass(one.model, Row):
            columns = one.model.model_fields
            assert {*one.model.KEY, *one.model.ADDED} <= {*columns} and one.model.KEY
            assert all(not one.model.model_fields[name].is_required() for name in one.model.ADDED)
    with refused("registered twice"):
        table("windows")(Row)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda data: data[: len(data) // 2], "truncated"),
        (lambda data: data[:-1], r"truncated \(no line end after the last row\)"),
        (lambda data: data.rpartition(b",")[0] + b"\n", r"row \d+: \d+ cells, expected 9"),
        (lambda _: b"time,speed\n1,2\n", r"not a Counters table .*; expected columns: variant, m"),
        (lambda data: b"m,variant" + data[len(b"variant,m") :], r"\(column 'the order'\)"),
        (lambda _: b"\x89PNG\r\n\xff\xfe" * 9 + b"\n", "cannot read .*: not a text file"),
        (with_first(b"4096", b"4O96"), 'row 1: m = "4O96" is not allowed; allowed: integer'),
        (with_first(b"4096", b"-1"), "row 1: m = .?-1.? is not allowed; allowed: at least 1"),
        (
            lambda data: data + data.splitlines(True)[1],
            r"a second row of .* \(the first is row 1\)",
        ),
        (
            lambda data: re.sub(rb",\d+,ns,", b",nan,ns,", data, count=1),
            'value = "nan" is not allowed; allowed: finite',
        ),
    ],
)
def test_a_table_that_is_not_whole_or_not_ours_is_one_clear_line(
    spoil: Spoil, said: str, archive: Path, tmp_path: Path
) -> None:
    path = tmp_path / "counters.csv"
    path.write_bytes(spoil((archive / "counters.csv").read_bytes()))
    with refused(said) as error:
        read_rows(path, Counters)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"value": float("nan")}, "row 1: value = NaN is not allowed; allowed: finite numbers"),
        ({"value": "1"}, "row 1: value = .* is not allowed; allowed: number"),
        ({"m": True}, "row 1: m = true is not allowed; allowed: integer"),
        ({"metrics": 1}, "row 1: unknown key 'metrics'; nearest: metric"),
        ({"variant": None}, "'variant' is missing"),
    ],
)
def test_a_row_that_is_not_allowed_is_not_written(
    change: dict[str, Any], said: str, archive: Path, tmp_path: Path
) -> None:
    row, path = vars(read_rows(archive / "counters.csv", Counters)[0]), tmp_path / "counters.csv"
    with refused(said):
        given = {key: value for key, value in (row | change).items() if value is not None}
        write_rows(path, Counters, [given])
    with refused(r"cannot read .*: No such file"):
        read_rows(path, Counters)


def test_nan_in_a_stored_measurement_is_not_written(tmp_path: Path) -> None:
    """Its fingerprint is open to any value, and JSON has no NaN."""
    stored = {"stage": "bench", "variant": "v", "item": "i", "session": "0" * 8, "rows": {}}
    stored |= {
        "fingerprint": {"power_w": float("nan")},
        "note": "",
        "measured": "now",
        "driver": None,
    }
    with refused("NaN or infinity is not allowed; allowed: finite"):
        write_json(tmp_path / "x.json", StoredMeasurement, stored)
    assert not list(tmp_path.iterdir())


def test_a_column_that_older_tables_lack_has_its_default() -> None:
    """data/h200 was measured before windows.csv had `process` and `session`."""
    header = (ROOT / "data" / "h200" / "windows.csv").read_text().partition("\n")[0].split(",")
    row = read_rows(ROOT / "data" / "h200" / "windows.csv", Windows)[0]
    assert "process" not in header and row.process == 0 and row.session is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"machine": "h10', "not JSON, truncated or foreign"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", r"the file = \[\] is not allowed; allowed: mapping"),
        ('{"machin": 1}', "unknown key 'machin'; nearest: machine"),
    ],
)
def test_a_document_that_is_not_allowed_is_one_clear_line(
    content: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "machine.json").write_text(content)
    with refused(said) as error:
        read_json(tmp_path / "machine.json", Machine)
    assert "machine.json" in str(error.value)


def test_samples_that_are_not_whole_or_not_allowed_are_refused(
    archive: Path, tmp_path: Path
) -> None:
    path = tmp_path / "samples.parquet"
    path.write_bytes((archive / "samples.parquet").read_bytes()[:-100])
    with refused("truncated or foreign"):
        read_samples(path)
    rows = read_samples(archive / "samples.parquet").slice(0, 10)

    def with_column(name: str, value: object) -> pa.Table:
        return rows.set_column(rows.column_names.index(name), name, [[value] * 10])

    for samples, said in (
        (rows.drop_columns(["time_us"]), "columns: time_us"),
        (with_column("kept", False), "a reason why not, or the reverse"),
        (with_column("index", 0), f"two rows of the same {KEY[0]}"),
    ):
        pq.write_table(samples, path)
        with refused(said):
            read_samples(path)
