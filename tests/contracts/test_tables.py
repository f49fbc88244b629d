"""Tables and documents are read as they were written; what is not whole, not ours or not allowed is
one clear line.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from helpers import ROOT

from contracts import UserError, read_json, read_rows, write_json, write_rows
from contracts.model import Row
from contracts.rows import TABLES, Counters, Machine, StoredMeasurement, Windows, table
from contracts.samples import KEY, read_samples, write_samples

Spoil = Callable[[bytes], bytes]


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
    with pytest.raises(UserError, match="registered twice"):
        table("windows")(Row)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda data: data[: len(data) // 2], "truncated"),
        (lambda data: data[:-1], r"truncated \(no line end after the last row\)"),
        (
            lambda data: data[: len(data) // 2].rpartition(b",")[0] + b"\n",
            r"row \d+: \d+ cells, expected 9",
        ),
        (
            lambda data: b"time,speed\n1,2\n",
            r"not a Counters table \(column 'time'\); expected columns: variant, m",
        ),
        (lambda data: b"m,variant" + data[len(b"variant,m") :], r"\(column 'the order'\)"),
        (lambda data: b"\x89PNG\r\n\xff\xfe" * 9 + b"\n", "cannot read .*: not a text file"),
        (
            lambda data: data.replace(b",4096,", b",4O96,", 1),
            'row 1: m = "4O96" is not allowed; allowed: integer',
        ),
        (
            lambda data: data.replace(b",4096,", b",-1,", 1),
            "row 1: m = .?-1.? is not allowed; allowed: at least 1",
        ),
        (
            lambda data: data + data.splitlines(True)[1],
            r"a second row of variant = .* \(the first is row 1\)",
        ),
        (
            lambda data: data.replace(data.split(b",")[13], b"nan", 1),
            'value = "nan" is not allowed; allowed: finite',
        ),
    ],
)
def test_a_table_that_is_not_whole_or_not_ours_is_one_clear_line(
    spoil: Spoil, said: str, archive: Path, tmp_path: Path
) -> None:
    path = tmp_path / "counters.csv"
    path.write_bytes(spoil((archive / "counters.csv").read_bytes()))
    with pytest.raises(UserError, match=said) as error:
        read_rows(path, Counters)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_a_row_that_is_not_allowed_is_not_written(archive: Path, tmp_path: Path) -> None:
    row = vars(read_rows(archive / "counters.csv", Counters)[0])
    for change, said in (
        ({"value": float("nan")}, "row 1: value = NaN is not allowed; allowed: finite numbers"),
        ({"value": "1"}, "row 1: value = .* is not allowed; allowed: number"),
        ({"m": True}, "row 1: m = true is not allowed; allowed: integer"),
        ({"metrics": 1}, "row 1: unknown key 'metrics'; nearest: metric"),
    ):
        with pytest.raises(UserError, match=said):
            write_rows(tmp_path / "counters.csv", Counters, [row | change])
    with pytest.raises(UserError, match="'variant' is missing"):
        write_rows(tmp_path / "counters.csv", Counters, [{"value": 1.0}])
    with pytest.raises(UserError, match=r"cannot read .*: No such file"):
        read_rows(tmp_path / "counters.csv", Counters)
    # the basis of a stored measurement is open to any value, and JSON has no NaN
    stored = {"stage": "bench", "variant": "v", "item": "i", "session": "0" * 8}
    stored |= {"basis": {"power_w": float("nan")}, "rows": {}, "note": ""}
    with pytest.raises(UserError, match="NaN or infinity is not allowed; allowed: finite"):
        write_json(
            tmp_path / "x.json", StoredMeasurement, stored | {"measured": "now", "driver": None}
        )
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
    with pytest.raises(UserError, match=said) as error:
        read_json(tmp_path / "machine.json", Machine)
    assert "machine.json" in str(error.value) and "\n" not in str(error.value)


def test_samples_that_are_not_whole_or_not_allowed_are_refused(
    archive: Path, tmp_path: Path
) -> None:
    path = tmp_path / "samples.parquet"
    path.write_bytes((archive / "samples.parquet").read_bytes()[:-100])
    with pytest.raises(UserError, match="truncated or foreign"):
        read_samples(path)
    rows = read_samples(archive / "samples.parquet").slice(0, 10)
    for columns, said in (
        (rows.drop_columns(["time_us"]), "columns: time_us"),
        (
            rows.set_column(rows.column_names.index("kept"), "kept", [[False] * 10]),
            "a reason why not, or the reverse",
        ),
        (
            rows.set_column(rows.column_names.index("index"), "index", [[0] * 10]),
            f"two rows of the same {KEY[0]}",
        ),
    ):
        pq.write_table(columns, path)
        with pytest.raises(UserError, match=said):
            read_samples(path)
