"""Tables and documents that were tampered with: one line each."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from analysis.statistics import SHARE, TIME
from contracts import UserError, read_json, read_rows, write_rows


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            dict(zip(TIME, ("1", "900000", "2"), strict=True)),
            f"{TIME[1]} = 900000, .*order",
        ),
        ({SHARE[2]: "0.0000001"}, f"{SHARE[1]} = .* allowed: in ascending order"),
        ({"samples": "1_0"}, 'samples = "1_0" is not allowed; allowed: integer'),
        ({"samples": "٣"}, "samples = .* is not allowed; allowed: integer"),
        ({"samples": " 3"}, 'samples = " 3" is not allowed; allowed: integer'),
        ({"samples": "007"}, "samples = .* is not allowed"),
        ({"tflops": "1e308"}, r"tflops = 1e\+308 is not allowed; allowed: -1e\+18 to 1e\+18"),
        ({"tflops": "1e400"}, "tflops = inf is not allowed; allowed: finite numbers"),
        ({"tflops": "9" * 5000}, "tflops = .* is not allowed"),
        ({"m": "9999999999"}, "m = 9999999999 is not allowed; allowed: at most 2147483647"),
        ({}, "row 2: a second row of experiment = .* is not allowed .the first is row 1.; allowed: one"),
    ],
)
def test_a_table_that_is_not_allowed(change: dict[str, str], said: str, archive: Path, tmp_path: Path) -> None:
    with (archive / "bench.csv").open(newline="") as file:
        row = next(csv.DictReader(file))
    with (tmp_path / "bench.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerows([row | change] if change else [row, row])
    with pytest.raises(UserError, match=said) as error:
        read_rows(tmp_path / "bench.csv", "bench")
    assert "bench.csv row" in str(error.value) and len(str(error.value)) < 300


def test_an_added_column_may_be_absent_and_no_other(archive: Path, tmp_path: Path) -> None:
    """windows.csv of an archive from before `baseline_call` reads as if it were empty; written, it is there."""
    with (archive / "windows.csv").open(newline="") as file:
        row = next(csv.DictReader(file))
    row.pop("baseline_call", None)
    path = tmp_path / "windows.csv"

    def write(columns: list[str]) -> None:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerow(row)

    write(list(row))
    (read,) = read_rows(path, "windows")
    assert read["baseline_call"] is None and read["variant"] == row["variant"]
    write_rows(path, "windows", [read | {"baseline_call": "cublasLtMatmul 2/8"}])
    assert read_rows(path, "windows") == [read | {"baseline_call": "cublasLtMatmul 2/8"}]
    write([column for column in row if column != "seed"])
    with pytest.raises(UserError, match=r"not a windows table .column 'seed'."):
        read_rows(path, "windows")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("[" * 40 + "]" * 40, "nested too deeply"),
        ('{"a": 1, "a": 2}', "the key 'a' stands twice"),
        ('{"a": 1e400}', "1e400 is too large"),
        ('{"a": ' + "9" * 5000 + "}", "not JSON"),
    ],
)
def test_a_document_that_is_not_allowed(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "machine.json").write_text(content)
    with pytest.raises(UserError, match=said) as error:
        read_json(tmp_path / "machine.json", "machine")
    assert "machine.json" in str(error.value) and len(str(error.value)) < 300
