"""Archiving: what is whole is kept with its origin, what is not is one line."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import ARCHIVE, assert_one_line, dict_rows, run_module

from contracts import REHEARSAL, write_rows
from contracts.rows import TABLES, Checks, Counters, ErrorOverK, Sanitizer
from experiments.stages import archive as stage

MEASURED = ["checks.csv", "counters.csv", "resources.csv", "samples.parquet", "windows.csv"]
STAGE = "experiments.stages.archive"
RECORDS = ["machine.json", "provenance.json"]  # they say which folder they are in
NEXT_TO_GPU = "emulator_next_to_gpu.csv"
H100 = json.loads((ARCHIVE / "machine.json").read_text())["gpu"]


@pytest.fixture
def measured(tmp_path: Path, archive: Path) -> Path:
    """A folder that could be archived."""
    folder = tmp_path / "measured"
    folder.mkdir()
    for name in (*MEASURED, *RECORDS):
        shutil.copyfile(archive / name, folder / name)
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Where archives are, for a test."""
    return tmp_path / "data" / "mine"


def attempt(measured: Path, data: Path, *options: object) -> subprocess.CompletedProcess[str]:
    return run_module(STAGE, "add", measured, data, *options)


def archived(measured: Path, data: Path, *options: object) -> dict[str, dict]:
    """What archived.json has of each file."""
    done = attempt(measured, data, *options)
    assert done.returncode == 0, done.stderr
    return json.loads((data / "archived.json").read_text())


def change(path: Path, **changes: object) -> None:
    """Other values of some keys of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_what_is_whole_is_archived_and_a_file_of_an_earlier_run_keeps_that_run_s_origin(
    measured: Path, archive: Path, data: Path
) -> None:
    shutil.copyfile(archive / NEXT_TO_GPU, measured / NEXT_TO_GPU)
    first = archived(measured, data)
    files = {path.name for path in measured.iterdir()}
    assert {path.name for path in data.iterdir()} == {*files, "archived.json"}
    for name in files - {*RECORDS}:
        assert (data / name).read_bytes() == (measured / name).read_bytes()
    for name in RECORDS:
        before, after = (json.loads((folder / name).read_text()) for folder in (measured, data))
        assert before | {"machine": "mine"} == after
    assert first[NEXT_TO_GPU]["sha256"] != first["windows.csv"]["sha256"]
    assert first[NEXT_TO_GPU] | {"sha256": 0} == first["windows.csv"] | {"sha256": 0}
    (measured / NEXT_TO_GPU).unlink()
    change(measured / "provenance.json", commit="later")
    second = archived(measured, data)
    assert second[NEXT_TO_GPU] == first[NEXT_TO_GPU] and second["windows.csv"]["commit"] == "later"


@pytest.mark.parametrize(
    ("gpu", "commit", "refused"),
    [(H100, "a" * 40, ""), ("NVIDIA H9", "a" * 40, "NVIDIA H9"), (H100, "a, changed", "changed")],
)
def test_what_the_gpu_tests_reported_is_kept_of_the_same_gpu_and_a_clean_commit(
    gpu: str, commit: str, refused: str, archive: Path, data: Path, tmp_path: Path
) -> None:
    data.mkdir(parents=True)
    shutil.copyfile(archive / "provenance.json", data / "provenance.json")
    report, kept = tmp_path / "gpu-tests.txt", data / "gpu-tests.txt"
    report.write_text(f"commit: {commit}\ndate: 2026-11-28 01:46 UTC\nGPU: {gpu}\npassed: 3\n")
    done = run_module(STAGE, "add-tests", report, data)
    if refused:
        assert_one_line(done, refused)
        assert not kept.exists()
    else:
        assert done.returncode == 0 and kept.read_text() == report.read_text()


def test_one_table_alone_leaves_the_others_as_they_are(
    measured: Path, archive: Path, data: Path
) -> None:
    shutil.copytree(archive, data, ignore=shutil.ignore_patterns(NEXT_TO_GPU))
    before = {path: path.read_bytes() for path in data.iterdir() if path.name != "archived.json"}
    for name in (*MEASURED, "machine.json"):
        (measured / name).unlink()
    shutil.copyfile(archive / NEXT_TO_GPU, measured / NEXT_TO_GPU)
    assert NEXT_TO_GPU in archived(measured, data, "--only", NEXT_TO_GPU)
    assert (data / NEXT_TO_GPU).is_file()
    assert all(path.read_bytes() == content for path, content in before.items())
    assert_one_line(attempt(measured, data, "--only", "bench.csv"), "unknown file", "nearest")
    missing = "tuning.csv is missing"
    assert_one_line(attempt(measured, data, "--only", "tuning.csv"), missing)


def test_an_emulated_table_has_its_own_commit_and_a_gpu_s_has_that_run_s(
    archive: Path, data: Path, tmp_path: Path
) -> None:
    measured, name = tmp_path / "no-gpu", "error_over_k.csv"
    measured.mkdir()
    shutil.copytree(archive, data)

    def write(device: str, code_hash: str) -> None:
        row = {"variant": "sgemm_naive", "code_hash": code_hash, "device": device, "data": "wide"}
        row |= {"k": 64, "elements": 1, "worst": 2, "rms": 1}
        write_rows(measured / name, ErrorOverK, [row])

    write("ptxsim", "x")
    record = archived(measured, data, "--only", name)[name]
    assert record["command"] == "snakemake --cores 1 error_over_k"
    assert record["commit"] and record["date"]
    # No GPU has a part in bounds.csv.
    shutil.copyfile(archive / "bounds.csv", measured / "bounds.csv")
    record = archived(measured, data, "--only", "bounds.csv")["bounds.csv"]
    assert record["command"] == "snakemake --cores 1 all"
    write("gpu", "x")
    changed = "sgemm_naive was measured with other machine code"
    assert_one_line(attempt(measured, data, "--only", name), changed)
    shutil.copyfile(archive / "resources.csv", measured / "resources.csv")
    write("gpu", stage.hashes_of(archive)["sgemm_naive"])
    archived(measured, data, "--only", name)
    assert dict_rows(data / name, ErrorOverK)[0]["device"] == "gpu"


def remove(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b"\n", 0, len(whole) // 2) - 1])


def fail_a_check(path: Path) -> None:
    rows = dict_rows(path, path.stem)
    next(row for row in rows if row["variant"] == "sgemm_warptile").update(passed=False)
    write_rows(path, TABLES[path.stem].model, rows)


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("machine.json", remove, "machine.json is missing"),
        ("windows.csv", truncate, "windows.csv"),
        ("samples.parquet", truncate, "samples.parquet"),
        ("provenance.json", truncate, "provenance.json"),
        ("windows.csv", fail_a_check, "sgemm_warptile failed its check 'windows'; not archived"),
        ("checks.csv", fail_a_check, "failed its check 'one tile, one k-step'; not archived"),
    ],
)
def test_what_is_not_whole_is_not_archived(
    name: str, spoil: Callable[[Path], None], message: str, measured: Path, data: Path
) -> None:
    """One line says why, and the archive that is there stays as it is."""
    data.mkdir(parents=True)
    (data / "windows.csv").write_text("older")
    spoil(measured / name)
    assert_one_line(attempt(measured, data), message, "truncated" if spoil is truncate else "")
    assert [(path.name, path.read_text()) for path in data.iterdir()] == [("windows.csv", "older")]


# ---- whether an archive is whole -----------------------------------------------------------------


@pytest.fixture
def whole(tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of one run: the tables that are there, with today's machine code, of one commit.

    Tables that no archive has yet are not missed.
    """
    folder = tmp_path / archive.name
    shutil.copytree(archive, folder, ignore=shutil.ignore_patterns("archived.json"))
    now, run = stage.hashes_of(archive), {"date": "2026-11-24", "commit": "a" * 40}
    run |= {"commit_clean": True, "command": "snakemake all"}
    there = {name: table for name, table in TABLES.items() if (folder / table.file).is_file()}
    origins = {}
    for table in there.values():
        path = folder / table.file
        if table.archive == "never" or table.target == "by hand":
            continue
        if table.suffix == ".csv":
            rows = dict_rows(path, table.model)
            rows = [row for row in rows if now.get(row.get("variant", "sgemm_naive"))]
            for row in rows:
                if {"code_hash", "variant"} <= row.keys():
                    row["code_hash"] = now[row["variant"]]
            write_rows(path, table.model, rows)
        origins[table.file] = run | {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    (folder / "archived.json").write_text(json.dumps(origins))
    monkeypatch.setattr(stage, "TABLES", there)
    return folder


def test_an_archive_of_one_run_is_whole(whole: Path) -> None:
    assert stage.find_faults(whole) == [] and stage.check(whole) == 0


def test_an_older_sanitizer_table_is_remarked_and_keeps_no_archive_from_being_whole(
    whole: Path,
) -> None:
    first, *others = dict_rows(whole / "sanitizer.csv", Sanitizer)
    write_rows(whole / "sanitizer.csv", Sanitizer, [first | {"code_hash": "old"}, *others])
    change_origin(whole, "sanitizer.csv")
    change_origin(whole, "sanitizer.csv", commit="b" * 40)
    assert stage.find_faults(whole) == []
    assert any("sanitizer.csv is of commit bbbbbbbbbbbb" in line for line in stage.since(whole))


@pytest.mark.parametrize(
    ("frozen", "message"),
    [
        ("HEAD", "rules frozen at HEAD;"),
        ("HEAD", "experiments whose sizes"),
        ("0" * 40, "this repository lacks 0000"),
    ],
)
def test_rules_that_changed_since_it_was_measured_are_listed(
    frozen: str, message: str, whole: Path
) -> None:
    with_entries("provenance.json", rules_commit=frozen)(whole)
    assert stage.find_faults(whole) == [] and any(message in line for line in stage.since(whole))


def test_rows_of_a_kernel_that_the_catalogue_lost_stay_in_an_archive(
    archive: Path, tmp_path: Path
) -> None:
    row = dict_rows(archive / "checks.csv", Checks)[0]
    gone = row | {"variant": "sgemm_gone", "code_hash": "1" * 16}
    write_rows(tmp_path / "checks.csv", Checks, [gone])
    stage.require_current(tmp_path / "checks.csv", Checks, stage.hashes_of(archive))


def change_origin(folder: Path, name: str, **changes: str) -> None:
    """Of one file in archived.json; without `changes`, to the checksum that the file has."""
    origin = json.loads((folder / "archived.json").read_text())[name]
    origin |= changes or {"sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest()}
    change(folder / "archived.json", **{name: origin})


def with_a_stale_row(folder: Path) -> None:
    first, *others = dict_rows(folder / "counters.csv", Counters)
    write_rows(folder / "counters.csv", Counters, [first | {"code_hash": "old"}, *others])
    change_origin(folder, "counters.csv")


def with_entries(name: str, **changes: object) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        change(folder / name, **changes)
        change_origin(folder, name)

    return spoil


def with_another_commit(folder: Path) -> None:
    change_origin(folder, "checks.csv", commit="b" * 40)


def without_windows(folder: Path) -> None:
    (folder / "windows.csv").unlink()


def with_a_longer_table(folder: Path) -> None:
    (folder / "windows.csv").open("a").write("x\n")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (with_another_commit, "2026-11-24; commit bbbbbbbbbbbb of 2026-11-24: checks.csv"),
        (with_a_stale_row, "(counters.csv is of commit aaaaaaaaaaaa of 2026-11-24)"),
        (with_entries("machine.json", machine="h99"), "machine.json is of machine 'h99', not 'h"),
        (with_entries("provenance.json", gpu="NVIDIA H99"), f"of 2 GPUs: {H100}, NVIDIA H99"),
        (with_entries("provenance.json", gpu=" "), "provenance.json names no GPU"),
        (without_windows, "missing: windows.csv"),
        (with_a_longer_table, "not as archived: windows.csv"),
    ],
)
def test_what_is_amiss_in_an_archive_is_one_line(
    spoil: Callable[[Path], object], message: str, whole: Path
) -> None:
    spoil(whole)
    (line,) = stage.find_faults(whole)
    assert message in line and "\n" not in line


def test_all_that_is_amiss_is_reported_and_what_changed_since(
    whole: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with_a_stale_row(whole)
    without_windows(whole)
    assert len(stage.find_faults(whole)) == 2 and stage.check(whole) == 1
    lines = ("missing: windows.csv", "is of commit", "rules frozen at eb87459", "not whole")
    assert all(line in caplog.text for line in lines)
    (whole / "provenance.json").write_text("{")
    assert "not as archived: provenance.json" in stage.find_faults(whole)
    assert "not known" in stage.since(whole)[0]


@pytest.mark.parametrize(("folder", "rehearses"), [("mine", "1"), ("rehearsal", "0")])
def test_a_rehearsal_is_archived_in_its_own_folder_and_only_when_one_is_meant(
    folder: str, rehearses: str, measured: Path, data: Path
) -> None:
    """tests/rehearsal archives one."""
    for name in RECORDS:
        change(measured / name, gpu="NVIDIA H100 rehearsal")
    to = ("add", measured, data.with_name(folder))
    done = run_module(STAGE, *to, GEMM_LADDER_REHEARSAL=rehearses)
    assert_one_line(done, REHEARSAL)
    assert not data.parent.exists()
