"""Files between the rooms: schemas that name what is wrong, tables that survive a round trip, files that are whole."""

from __future__ import annotations

import json
import os
import string
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import ROOT, run
from hypothesis import given, settings
from hypothesis import strategies as st

import contracts
from contracts import UserError, atomic_write, read_json, read_rows, read_yaml, run_command, write_json, write_rows
from contracts.tables import LARGEST

CSV_TABLES = ["bench", "checks", "counters", "resources", "variants"]
EXPERIMENT = {"title": "t", "question": "q", "variants": ["v"], "sizes": [128]}


def config(**changes: Any) -> dict[str, Any]:
    """The configuration as it ships, with changes."""
    return yaml.safe_load((ROOT / "config.yaml").read_text()) | changes


# ---- errors of a schema -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("config", config(arch="pascal"), ['arch = "pascal"', "^sm_[0-9]+"]),
        ("config", config(mode="maybe"), ['mode = "maybe"', "allowed: one of auto, measure, redraw"]),
        ("config", config(sizes_step=64), ["sizes_step = 64", "at least 128"]),
        ("config", config(sizes_step=200), ["sizes_step = 200", "a multiple of 128"]),
        ("config", config(variants=[]), ["variants = []", "at least 1 item"]),
        ("config", config(variants=["a", 3]), ["variants.1 = 3", "allowed: string"]),
        ("experiment", EXPERIMENT | {"data": "ones"}, ['data = "ones"', "one of uniform, normal, zeros"]),
        ("experiment", EXPERIMENT | {"window_s": 0}, ["window_s = 0", "more than 0"]),
        ("experiment", EXPERIMENT | {"samples": 20000}, ["samples = 20000", "at most 10000"]),
        ("experiment", EXPERIMENT | {"sizes": [0]}, ["sizes.0 = 0", "at least 1"]),
        ("experiment", EXPERIMENT | {"sizes": {"first": 1, "last": 8, "step": 0}}, ["sizes.step = 0", "at least 1"]),
        ("experiment", {"title": "t", "variants": ["v"]}, ["'question' is a required property"]),
        ("machine", [], ["the file = []", "allowed: object"]),
    ],
)
def test_a_schema_error_names_file_key_value_and_what_is_allowed(name: str, value: Any, said: list[str]) -> None:
    with pytest.raises(UserError) as error:
        contracts.validate(value, name, "some/file.yaml")
    text = str(error.value)
    assert text.startswith("some/file.yaml: ")
    assert all(part in text for part in said), text
    assert "\n" not in text


def test_the_shipped_configuration_is_valid() -> None:
    contracts.validate(config(), "config", "config.yaml")


def test_an_unknown_key_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match=r"unknown key 'varients' in the file; nearest: variants"):
        contracts.validate(config(varients=None), "config", "config.yaml")
    with pytest.raises(UserError, match=r"unknown key 'stop' in sizes; nearest: step"):
        contracts.validate(
            EXPERIMENT | {"sizes": {"first": 1, "last": 8, "step": 1, "stop": 1}}, "experiment", "x.yaml"
        )


def test_an_unknown_name_with_nothing_near_lists_all_valid() -> None:
    with pytest.raises(UserError, match=r"unknown variant 'zzz' in a\.yaml; valid: one, two"):
        contracts.choose({"two": 2, "one": 1}, "zzz", "variant", "a.yaml")


# ---- round trips ------------------------------------------------------------------------------------------------

PRINTABLE = string.printable.replace("\r", "") + "é→†\u2028\x85"


def cell(described: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Any value that a column's schema takes."""
    if "enum" in described:
        return st.sampled_from(described["enum"])
    kinds = described["type"] if isinstance(described["type"], list) else [described["type"]]
    low, high = described.get("minimum", described.get("exclusiveMinimum")), described.get("maximum")
    if "pattern" in described:
        return st.from_regex(described["pattern"], fullmatch=True).filter(lambda text: "\n" not in text)
    by_kind = {
        "null": st.none(),
        "boolean": st.booleans(),
        "integer": st.integers(low if low is not None else -(2**53), high if high is not None else 2**53),
        "number": st.floats(
            -LARGEST if low is None else low, LARGEST if high is None else high,
            exclude_min="exclusiveMinimum" in described,
        ),
        # an empty cell is null: a text that may be null must not be empty
        "string": st.text(PRINTABLE, min_size=1 if "null" in kinds else 0, max_size=20),
    }  # fmt: skip
    return st.one_of([by_kind[kind] for kind in kinds])


def in_order(row: dict[str, Any], groups: list[list[str]]) -> dict[str, Any]:
    """The row with the numbers of each group of columns in ascending order."""
    for group in groups * 2:  # one column may be in two groups
        given = [column for column in group if row[column] is not None]
        row = row | dict(zip(given, sorted(row[column] for column in given), strict=True))
    return row


@pytest.mark.parametrize("name", CSV_TABLES)
def test_rows_survive_writing_and_reading(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every type of every table: null, booleans, whole numbers, text with commas, quotes and line ends, floats."""
    path = tmp_path_factory.mktemp("rows") / f"{name}.csv"
    schema = contracts.schema(name)
    row = st.fixed_dictionaries({key: cell(described) for key, described in schema["properties"].items()})

    @settings(max_examples=40)
    @given(
        st.lists(row, max_size=2, unique_by=lambda row: tuple(row[key] for key in schema["key"])).map(
            lambda rows: [in_order(row, schema.get("ascending", [])) for row in rows]
        )
    )
    def round_trip(rows: list[dict[str, Any]]) -> None:
        write_rows(path, name, rows)
        again = read_rows(path, name)
        assert [list(r) for r in again] == [list(contracts.schema(name)["properties"])] * len(rows)
        for before, after in zip(rows, again, strict=True):
            for key, value in before.items():
                if isinstance(value, float):
                    assert after[key] == pytest.approx(value, rel=1e-8, abs=1e-300), key
                else:
                    assert after[key] == value and type(after[key]) is type(value), key

    round_trip()


def test_a_column_that_a_row_leaves_out_is_null(tmp_path: Path) -> None:
    row = {"variant": "v", "kind": "kernel", "family": "f", "dtype": "fp32", "label": "l", "idea": "i", "tensor": False}
    write_rows(tmp_path / "v.csv", "variants", [row | {"baseline": "b", "requires": "r", "source_hash": "h"}])
    assert read_rows(tmp_path / "v.csv", "variants")[0]["builds_on"] is None


def test_archived_tables_are_read_with_their_types(archive: Path) -> None:
    row = read_rows(archive / "bench.csv", "bench")[0]
    assert isinstance(row["n"], int) and isinstance(row["tflops"], float) and isinstance(row["variant"], str)
    assert {row["passed"] for row in read_rows(archive / "checks.csv", "checks")} <= {True, False}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_are_refused(value: float, tmp_path: Path, archive: Path) -> None:
    rows = read_rows(archive / "counters.csv", "counters")[:2]
    with pytest.raises(UserError, match=r"counters\.csv row 2: value = -?(nan|inf) is not allowed; allowed: finite"):
        write_rows(tmp_path / "counters.csv", "counters", [rows[0], rows[1] | {"value": value}])
    machine = read_json(archive / "machine.json", "machine")
    machine["ceilings"]["fp32_fma_tflops"] = value
    with pytest.raises(UserError, match=r"machine\.json: .* not allowed"):
        write_json(tmp_path / "machine.json", "machine", machine)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "machine.json").write_text(json.dumps(machine))
    with pytest.raises(UserError, match=r"(NaN|-?Infinity) is not a JSON number"):
        read_json(tmp_path / "machine.json", "machine")
    lines = (archive / "counters.csv").read_text().splitlines()[:2]
    (tmp_path / "counters.csv").write_text("\n".join(lines).replace(str(lines[1].split(",")[5]), str(value)) + "\n")
    with pytest.raises(UserError, match="finite numbers"):
        read_rows(tmp_path / "counters.csv", "counters")


# ---- what is not ours, or not whole -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda data: data[: len(data) // 2], "truncated"),
        (lambda data: data[: len(data) // 2].rpartition(b",")[0] + b"\n", r"row \d+: \d+ cells, expected 40"),
        (lambda data: data[:-1], r"truncated \(no line end after the last row\)"),
        (lambda data: b"", "truncated"),
        (lambda data: b"time,speed\n1,2\n", r"not a bench table \(column 'time'\); expected columns: experiment, v"),
        (lambda data: data.replace(b"tflops,", b"gflops,", 1), r"not a bench table \(column 'gflops'\)"),
        (lambda data: b"variant,experiment" + data[len(b"experiment,variant") :], r"\(column 'the order'\)"),
        (lambda data: b"\x89PNG\r\n\x1a\n\x00\xff\xfe" * 9 + b"\n", "cannot read .*: not a text file"),
        (lambda data: b'{"x": "' + b"y" * 200_000 + b'"}\n', "not a bench table"),
        (lambda data: data.replace(b",fp32,", b",fp31,", 1), r'row \d+: dtype = "fp31" is not allowed'),
        (lambda data: data.replace(b",4096,", b",4O96,", 1), r'row 1: m = "4O96" is not allowed; allowed: integer'),
    ],
)  # fmt: skip
def test_a_table_that_is_not_whole_or_not_ours_is_one_clear_error(
    spoil: Any, said: str, archive: Path, tmp_path: Path
) -> None:
    path = tmp_path / "bench.csv"
    path.write_bytes(spoil((archive / "bench.csv").read_bytes()))
    with pytest.raises(UserError, match=said) as error:
        read_rows(path, "bench")
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_a_table_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*absent\.csv: No such file"):
        read_rows(tmp_path / "absent.csv", "bench")


@pytest.mark.parametrize(("size", "said"), [(100, "not JSON, truncated or foreign"), (0, "not JSON")])
def test_truncated_json_is_one_clear_error(size: int, said: str, archive: Path, tmp_path: Path) -> None:
    (tmp_path / "machine.json").write_bytes((archive / "machine.json").read_bytes()[:size])
    with pytest.raises(UserError, match=said) as error:
        read_json(tmp_path / "machine.json", "machine")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"a: [1,\nb: 2", r"x\.yaml line 2: not YAML"), (b"\xff\xfe\x00", "not a text file"), (b"", "the file = null")],
)
def test_a_file_that_is_not_yaml_is_one_clear_error(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(data)
    with pytest.raises(UserError, match=said):
        read_yaml(tmp_path / "x.yaml", "experiment")


# ---- whole or not there -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_block_that_fails_leaves_nothing_and_keeps_the_old_file(fault: type, tmp_path: Path) -> None:
    for old in (None, "old"):
        target = tmp_path / "table.csv"
        if old:
            target.write_text(old)
        with pytest.raises(fault), atomic_write(target) as temporary:
            temporary.write_text("half")
            raise fault
        assert [path.name for path in tmp_path.iterdir()] == (["table.csv"] if old else [])
        assert not old or target.read_text() == old


def test_a_replaced_file_is_whole_and_readable_by_others(tmp_path: Path) -> None:
    target = tmp_path / "new" / "table.csv"
    with atomic_write(target) as temporary:
        temporary.write_text("whole")
        assert not target.exists()
    umask = os.umask(0)
    os.umask(umask)
    assert target.read_text() == "whole" and target.stat().st_mode & 0o777 == 0o666 & ~umask
    assert list(target.parent.iterdir()) == [target]


def test_a_row_that_breaks_the_schema_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="row 1"):
        write_rows(tmp_path / "bench.csv", "bench", [{"experiment": "e"}])
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    """A file stands where the folder should be: this fails for root, too."""
    (tmp_path / "results").write_text("")
    with pytest.raises(UserError, match=r"cannot write .*results/deep/x\.txt: .*choose a folder"):
        contracts.write_text(tmp_path / "results" / "deep" / "x.txt", "text")
    with pytest.raises(UserError, match=r"cannot write .*results/x\.txt"):
        contracts.write_text(tmp_path / "results" / "x.txt", "text")


def test_a_text_that_did_not_change_keeps_its_date(tmp_path: Path) -> None:
    path = tmp_path / "fingerprint.json"
    contracts.write_text(path, "same", only_if_changed=True)
    os.utime(path, (1, 1))
    contracts.write_text(path, "same", only_if_changed=True)
    assert path.stat().st_mtime == 1
    contracts.write_text(path, "other", only_if_changed=True)
    assert path.stat().st_mtime > 1 and path.read_text() == "other"


# ---- commands ---------------------------------------------------------------------------------------------------


def _raise(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("main", "code", "said"),
    [
        (lambda: None, 0, ""),
        (lambda: 3, 3, ""),
        (lambda: _raise(UserError("what was wrong")), 2, "error: what was wrong\n"),
        (lambda: Path("/nowhere/at/all").read_text(), 2, "error: No such file or directory: /nowhere/at/all\n"),
        (lambda: _raise(KeyboardInterrupt()), 130, "interrupted: nothing was written\n"),
    ],
)
def test_a_command_ends_with_its_code_and_no_traceback(
    main: Any, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        run_command(main)
    assert end.value.code == code
    assert capsys.readouterr().err == said


TELLING = """
import logging, sys
from contracts import run_command
logger = logging.getLogger("experiments.stages.bench")

def main():
    {before}
    logger.info("one of two done, 50%% of it")
    logging.getLogger("somebody.else").info("chatter")
    logging.getLogger("somebody.else").warning("a warning")
    open({path!r}, "w").close()

run_command(main)
"""


@pytest.mark.parametrize("closed", [False, True])
def test_progress_goes_to_stderr_as_it_is_and_a_closed_terminal_ends_nothing(tmp_path: Path, closed: bool) -> None:
    path = tmp_path / "done"
    text = TELLING.format(path=str(path), before="import os; os.close(2)" if closed else "pass").replace("%%", "%")
    done = run([sys.executable, "-c", text], ROOT)
    assert path.is_file()
    assert done.stderr == ("" if closed else "one of two done, 50% of it\na warning\n")
