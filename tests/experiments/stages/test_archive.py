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
from contracts.rows import TABLES, Checks, Counters, ErrorOverK
from experiments.stages import archive as stage

MEASURED = ["checks.csv", "counters.csv", "resources.csv", "samples.parquet", "windows.csv"]
STAGE = "experiments.stages.archive"
RECORDS = ["machine.json", "provenance.json"]  # they say which folder they are in
NEXT_TO_GPU = "emulator_next_to_gpu.csv"


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
    return run_module(STAGE, "--measured", measured, "--data", data, *options)


def archived(measured: Path, data: Path, *options: object) -> dict[str, dict]:
    """What archived.json has of each file."""
    done = attempt(measured, data, *options)
    assert done.returncode == 0, done.stderr
    return json.loads((data / "archived.json").read_text())


def test_what_is_whole_is_archived_and_a_file_of_an_earlier_run_keeps_that_run_s_origin(
    measured: Path, archive: Path, data: Path
) -> None:
    shutil.copyfile(archive / NEXT_TO_GPU, measured / NEXT_TO_GPU)
    first = archived(measured, data)
    files = {path.name for path in measured.iterdir()}
    assert {path.name for path in data.iterdir()} == {*files, "archived.json"}
    for name in files:
        if name in RECORDS:
            before, after = (json.loads((folder / name).read_text()) for folder in (measured, data))
            assert before | {"machine": "mine"} == after
        else:
            assert (data / name).read_bytes() == (measured / name).read_bytes()
    one, other = ({**first[name], "sha256": None} for name in (NEXT_TO_GPU, "windows.csv"))
    assert one == other and first[NEXT_TO_GPU]["sha256"] != first["windows.csv"]["sha256"]
    (measured / NEXT_TO_GPU).unlink()
    later = json.loads((measured / "provenance.json").read_text()) | {"commit": "later"}
    (measured / "provenance.json").write_text(json.dumps(later))
    second = archived(measured, data)
    assert second[NEXT_TO_GPU] == first[NEXT_TO_GPU] and second["windows.csv"]["commit"] == "later"


@pytest.mark.parametrize(
    ("gpu", "commit", "said"),
    [
        ("NVIDIA H100 80GB HBM3", "a" * 40, ""),
        ("NVIDIA H200", "a" * 40, "NVIDIA H200"),
        ("NVIDIA H100 80GB HBM3", f"{'a' * 40}, changed", "changed"),
    ],
)
def test_what_the_gpu_tests_reported_is_kept_of_the_same_gpu_and_a_clean_commit(
    gpu: str, commit: str, said: str, archive: Path, data: Path, tmp_path: Path
) -> None:
    shutil.copytree(archive, data)
    (data / "gpu-tests.txt").unlink(missing_ok=True)
    report = tmp_path / "gpu-tests.txt"
    report.write_text(f"commit: {commit}\ndate: 2026-11-28 01:46 UTC\nGPU: {gpu}\npassed: 3\n")
    done = run_module(STAGE, "--tests", report, "--data", data)
    if said:
        assert_one_line(done, said)
        assert not (data / "gpu-tests.txt").exists()
    else:
        assert done.returncode == 0 and (data / "gpu-tests.txt").read_text() == report.read_text()


def test_one_table_alone_leaves_the_others_as_they_are(
    measured: Path, archive: Path, data: Path
) -> None:
    shutil.copytree(archive, data)
    shutil.copyfile(archive / NEXT_TO_GPU, measured / NEXT_TO_GPU)
    (data / NEXT_TO_GPU).unlink()
    before = {
        path.name: path.read_bytes() for path in data.iterdir() if path.name != "archived.json"
    }
    for name in (*MEASURED, "machine.json"):
        (measured / name).unlink()
    assert NEXT_TO_GPU in archived(measured, data, "--only", NEXT_TO_GPU)
    assert (data / NEXT_TO_GPU).is_file()
    assert all((data / name).read_bytes() == text for name, text in before.items())
    for name, words in {
        "bench.csv": ["unknown file", "nearest"],
        "tuning.csv": ["tuning.csv is missing"],
    }.items():
        assert_one_line(attempt(measured, data, "--only", name), *words)


def test_an_emulated_table_goes_with_its_own_commit_and_a_gpu_s_with_that_run_s(
    archive: Path, data: Path, tmp_path: Path
) -> None:
    measured, name = tmp_path / "no-gpu", "error_over_k.csv"
    measured.mkdir()
    shutil.copytree(archive, data)

    def write(device: str, code_hash: str) -> None:
        row = {
            "variant": "sgemm_naive",
            "code_hash": code_hash,
            "data": "wide",
            "k": 64,
            "elements": 1,
        }
        write_rows(measured / name, ErrorOverK, [row | {"worst": 2, "rms": 1, "device": device}])

    write("ptxsim", "x")
    record = archived(measured, data, "--only", name)[name]
    assert (
        record["command"] == "snakemake --cores 1 error_over_k"
        and record["commit"]
        and record["date"]
    )
    shutil.copyfile(archive / "bounds.csv", measured / "bounds.csv")  # which no GPU has a part in
    assert (
        archived(measured, data, "--only", "bounds.csv")["bounds.csv"]["command"]
        == "snakemake --cores 1 all"
    )
    write("gpu", "x")
    assert_one_line(
        attempt(measured, data, "--only", name), "sgemm_naive was measured with other machine code"
    )
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
    ("name", "spoil", "said"),
    [
        *((name, remove, "is missing") for name in ("checks.csv", "machine.json")),
        *(
            (name, truncate, "truncated")
            for name in ("windows.csv", "samples.parquet", "provenance.json")
        ),
        # and has samples
        ("windows.csv", fail_a_check, "sgemm_warptile failed its check 'windows'; not archived"),
        (
            "checks.csv",
            fail_a_check,
            "sgemm_warptile failed its check 'one tile, one k-step'; not archived",
        ),
    ],
)
def test_what_is_not_whole_is_not_archived(
    name: str, spoil: Callable[[Path], None], said: str, measured: Path, data: Path
) -> None:
    """One line that says why, and the archive that is there stays as it is."""
    data.mkdir(parents=True)
    (data / "windows.csv").write_text("older")
    spoil(measured / name)
    assert_one_line(attempt(measured, data), said, "" if spoil is fail_a_check else name)
    assert [(path.name, path.read_text()) for path in data.iterdir()] == [("windows.csv", "older")]


# ---- whether an archive is whole -----------------------------------------------------------------


def rows_of(folder: Path, name: str) -> list[dict]:
    return dict_rows(folder / f"{name}.csv", name)


@pytest.fixture
def whole(tmp_path: Path, archive: Path) -> Path:
    """An archive of one run: the tables that are there now, with today's machine code, as if of one
    commit.
    """
    folder = tmp_path / archive.name
    shutil.copytree(archive, folder, ignore=shutil.ignore_patterns("archived.json"))
    now = stage.hashes_of(archive)
    origins = {}
    for table in TABLES.values():
        path = folder / table.file
        if table.archive == "never" or table.target == "by hand" or not path.is_file():
            continue
        if table.suffix == ".csv":
            rows = [
                row
                for row in dict_rows(path, table.model)
                if now.get(row.get("variant", "sgemm_naive"))
            ]
            current = [
                row
                | ({"code_hash": now[row["variant"]]} if {"code_hash", "variant"} <= {*row} else {})
                for row in rows
            ]
            write_rows(path, table.model, current)
        run = {
            "date": "2026-11-24",
            "commit": "a" * 40,
            "commit_clean": True,
            "command": "snakemake all",
        }
        origins[table.file] = run | {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    (folder / "archived.json").write_text(json.dumps(origins))
    return folder


def amiss(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What `archive --check` finds in it, those tables aside that no archive has yet."""
    there = {
        name: t
        for name, t in TABLES.items()
        if (folder / t.file).is_file() or t.archive == "always"
    }
    monkeypatch.setattr(stage, "TABLES", there)
    return stage.amiss(folder)


def test_an_archive_of_one_run_is_whole(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert amiss(whole, monkeypatch) == [] and stage.check(whole) == 0


def test_rules_that_changed_since_it_was_measured_are_listed(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for frozen, said in (("HEAD", "rules frozen at HEAD;"), ("0" * 40, "repository lacks 0000")):
        with_entries("provenance.json", rules_commit=frozen)(whole)
        assert amiss(whole, monkeypatch) == [] and any(said in line for line in stage.since(whole))


GPU = json.loads((ARCHIVE / "machine.json").read_text())["gpu"]


def test_rows_of_a_kernel_that_the_catalogue_lost_stay_in_an_archive(
    archive: Path, tmp_path: Path
) -> None:
    path = tmp_path / "checks.csv"
    write_rows(
        path,
        Checks,
        [rows_of(archive, "checks")[0] | {"variant": "sgemm_gone", "code_hash": "1" * 16}],
    )
    stage.require_current(path, Checks, stage.hashes_of(archive))


def change_origin(folder: Path, name: str, **changes: str) -> None:
    """Of one file in archived.json; without `changes`, to the checksum that the file has."""
    origins = json.loads((folder / "archived.json").read_text())
    origins[name] |= changes or {"sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest()}
    (folder / "archived.json").write_text(json.dumps(origins))


def with_a_stale_row(folder: Path) -> None:
    first, *others = rows_of(folder, "counters")
    write_rows(folder / "counters.csv", Counters, [first | {"code_hash": "old"}, *others])
    change_origin(folder, "counters.csv")


def with_entries(name: str, **changes: object) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / name).write_text(json.dumps(json.loads((folder / name).read_text()) | changes))
        change_origin(folder, name)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda folder: change_origin(folder, "checks.csv", commit="b" * 40),
            "commit aaaaaaaaaaaa of 2026-11-24; commit bbbbbbbbbbbb of 2026-11-24: checks.csv",
        ),
        (with_a_stale_row, "(counters.csv is of commit aaaaaaaaaaaa of 2026-11-24)"),
        (
            with_entries("machine.json", machine="h99"),
            f"machine.json is of machine 'h99', not '{ARCHIVE.name}'",
        ),
        (with_entries("provenance.json", gpu="NVIDIA H99"), f"of 2 GPUs: {GPU}, NVIDIA H99"),
        (with_entries("provenance.json", gpu=" "), "provenance.json names no GPU"),
        (lambda folder: (folder / "windows.csv").unlink(), "missing: windows.csv"),
        (
            lambda folder: (folder / "windows.csv").open("a").write("x\n"),
            "not as archived: windows.csv",
        ),
    ],
)
def test_what_is_amiss_in_an_archive_is_one_line(
    spoil: Callable[[Path], object], said: str, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(whole)
    (line,) = amiss(whole, monkeypatch)
    assert said in line and "\n" not in line


def test_all_that_is_amiss_is_reported_and_what_changed_since(
    whole: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with_a_stale_row(whole)
    (whole / "windows.csv").unlink()
    assert len(amiss(whole, monkeypatch)) == 2 and stage.check(whole) == 1
    assert all(
        said in caplog.text
        for said in ("missing: windows.csv", "is of commit", "rules frozen at eb87459", "not whole")
    )
    (whole / "provenance.json").write_text("{")
    assert "not as archived: provenance.json" in amiss(whole, monkeypatch)
    assert "not known" in stage.since(whole)[0]


def test_a_rehearsal_goes_to_a_folder_of_its_own_and_only_when_one_is_meant(
    measured: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in RECORDS:
        record = json.loads((measured / name).read_text()) | {"gpu": "NVIDIA H100 rehearsal"}
        (measured / name).write_text(json.dumps(record))
    own = data.with_name("rehearsal")
    for folder, meant in ((data, "1"), (own, "0")):
        done = run_module(
            STAGE, "--measured", measured, "--data", folder, GEMM_LADDER_REHEARSAL=meant
        )
        assert_one_line(done, REHEARSAL)
        assert not folder.exists()
    done = run_module(STAGE, "--measured", measured, "--data", own, GEMM_LADDER_REHEARSAL="1")
    assert done.returncode == 0 and (own / "windows.csv").is_file(), done.stderr
