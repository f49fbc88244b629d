"""Archiving: what is whole is kept with its origin, what is not is one line."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import ARCHIVE, assert_one_line, run_module

from contracts import UserError, read_rows, registry, write_rows
from experiments.stages import archive as stage
from kernels import catalogue

ARCHIVED = [
    "checks.csv",
    "counters.csv",
    "resources.csv",
    "machine.json",
    "provenance.json",
    "samples.parquet",
    "windows.csv",
]


@pytest.fixture
def measured(tmp_path: Path, archive: Path) -> Path:
    """A folder that could be archived."""
    folder = tmp_path / "measured"
    folder.mkdir()
    for name in ARCHIVED:
        shutil.copyfile(archive / name, folder / name)
    return folder


def test_what_is_whole_is_archived(measured: Path, tmp_path: Path) -> None:
    done = run_module("experiments.stages.archive", "--measured", measured, "--data", tmp_path / "data" / "mine")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "data" / "mine").iterdir()} == {*ARCHIVED, "archived.json"}
    for name in ARCHIVED:
        archived = tmp_path / "data" / "mine" / name
        if name in ("machine.json", "provenance.json"):  # they say which folder it is
            before, after = (json.loads(path.read_text()) for path in (measured / name, archived))
            assert before | {"machine": "mine"} == after
        else:
            assert archived.read_bytes() == (measured / name).read_bytes()


def test_a_file_of_an_earlier_run_keeps_that_run_s_origin(measured: Path, archive: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"

    def archived() -> dict[str, dict]:
        done = run_module("experiments.stages.archive", "--measured", measured, "--data", data)
        assert done.returncode == 0, done.stderr
        return json.loads((data / "archived.json").read_text())

    shutil.copyfile(archive / "emulator_next_to_gpu.csv", measured / "emulator_next_to_gpu.csv")
    first = archived()
    runs = [
        {key: value for key, value in first[name].items() if key != "sha256"}
        for name in ("emulator_next_to_gpu.csv", "windows.csv")
    ]
    assert runs[0] == runs[1] and first["emulator_next_to_gpu.csv"]["sha256"] != first["windows.csv"]["sha256"]
    (measured / "emulator_next_to_gpu.csv").unlink()
    later = json.loads((measured / "provenance.json").read_text()) | {"commit": "later"}
    (measured / "provenance.json").write_text(json.dumps(later))
    second = archived()
    assert (
        second["emulator_next_to_gpu.csv"] == first["emulator_next_to_gpu.csv"]
        and second["windows.csv"]["commit"] == "later"
    )


def test_one_table_alone_leaves_the_others_as_they_are(measured: Path, archive: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(archive, data)
    for name in ARCHIVED:
        if name != "provenance.json":
            (measured / name).unlink()
    shutil.copyfile(archive / "emulator_next_to_gpu.csv", measured / "emulator_next_to_gpu.csv")
    (data / "emulator_next_to_gpu.csv").unlink()
    before = {path.name: path.read_bytes() for path in data.iterdir() if path.name != "archived.json"}
    done = run_module(
        "experiments.stages.archive", "--measured", measured, "--data", data, "--only", "emulator_next_to_gpu.csv"
    )
    assert done.returncode == 0, done.stderr
    assert (data / "emulator_next_to_gpu.csv").is_file() and all(
        (data / name).read_bytes() == text for name, text in before.items()
    )
    assert "emulator_next_to_gpu.csv" in json.loads((data / "archived.json").read_text())
    for name, words in {"bench.csv": ["unknown file", "nearest"], "tuning.csv": ["tuning.csv is missing"]}.items():
        done = run_module("experiments.stages.archive", "--measured", measured, "--data", data, "--only", name)
        assert_one_line(done, *words)


def test_an_emulated_table_goes_with_its_own_commit_and_a_gpu_s_with_that_run_s(archive: Path, tmp_path: Path) -> None:
    measured, data = tmp_path / "no-gpu", tmp_path / "data"
    measured.mkdir()
    shutil.copytree(archive, data)
    row = {"variant": "sgemm_naive", "code_hash": "x", "data": "wide", "k": 64, "elements": 1, "worst": 2, "rms": 1}
    command = ["experiments.stages.archive", "--measured", measured, "--data", data, "--only", "error_over_k.csv"]
    write_rows(measured / "error_over_k.csv", "error_over_k", [row | {"device": "ptxsim"}])
    done = run_module(*command)
    assert done.returncode == 0, done.stderr
    record = json.loads((data / "archived.json").read_text())["error_over_k.csv"]
    assert record["command"] == "snakemake --cores 1 error_over_k" and record["commit"] and record["date"]
    assert read_rows(data / "error_over_k.csv", "error_over_k")[0]["device"] == "ptxsim"
    shutil.copyfile(archive / "bounds.csv", measured / "bounds.csv")  # which no GPU has a part in
    assert run_module(*command[:-1], "bounds.csv").returncode == 0
    record = json.loads((data / "archived.json").read_text())["bounds.csv"]
    assert record["command"] == "snakemake --cores 1 all"
    write_rows(measured / "error_over_k.csv", "error_over_k", [row | {"device": "gpu"}])
    assert_one_line(run_module(*command), "sgemm_naive was measured with other machine code")
    shutil.copyfile(archive / "resources.csv", measured / "resources.csv")
    now = stage.hashes_of(archive)["sgemm_naive"]
    write_rows(measured / "error_over_k.csv", "error_over_k", [row | {"device": "gpu", "code_hash": now}])
    assert run_module(*command).returncode == 0
    assert read_rows(data / "error_over_k.csv", "error_over_k")[0]["device"] == "gpu"


@pytest.mark.parametrize("name", ARCHIVED)
@pytest.mark.parametrize("fault", ["is missing", "truncated"])
def test_what_is_not_whole_is_not_archived(name: str, fault: str, measured: Path, tmp_path: Path) -> None:
    """One line that names the file, and the archive that is there stays as it is."""
    target = tmp_path / "data"
    target.mkdir()
    (target / "windows.csv").write_text("older")
    whole = (measured / name).read_bytes()
    if fault == "is missing":
        (measured / name).unlink()
    else:
        (measured / name).write_bytes(whole[: whole.rindex(b"\n", 0, len(whole) // 2) - 1])
    done = run_module("experiments.stages.archive", "--measured", measured, "--data", target)
    assert_one_line(done, name, fault)
    assert [(path.name, path.read_text()) for path in target.iterdir()] == [("windows.csv", "older")]


def failing(folder: Path) -> None:
    """Let one of warptile's checks have failed."""
    rows = read_rows(folder / "checks.csv", "checks")
    row = next(row for row in rows if row["variant"] == "sgemm_warptile")
    row |= {"passed": False, "detail": "C[0, 0] = 1, expected 2"}
    write_rows(folder / "checks.csv", "checks", rows)


def test_what_failed_a_check_is_not_archived(measured: Path, tmp_path: Path) -> None:
    failing(measured)
    done = run_module("experiments.stages.archive", "--measured", measured, "--data", tmp_path / "data")
    assert_one_line(done, "sgemm_warptile failed its check 'one tile, one k-step'; not archived")
    assert not (tmp_path / "data").exists()


def test_a_library_s_wrong_call_is_a_result(measured: Path, tmp_path: Path) -> None:
    row = {"baseline": "cublas_bf16", "version": "13.1.0", "call": "cublasGemmEx", "m": 128, "n": 128, "k": 65544}
    row |= {"inputs": "tail", "wanted": 100.0, "least": 92.0, "most": 92.0, "wrong": 16384, "passed": False}
    write_rows(measured / "baseline_checks.csv", "baseline_checks", [row])
    done = run_module("experiments.stages.archive", "--measured", measured, "--data", tmp_path / "data")
    assert done.returncode == 0, done.stderr
    assert read_rows(tmp_path / "data" / "baseline_checks.csv", "baseline_checks") == [row]


# ---- whether an archive is whole -------------------------------------------------------------------------------------


@pytest.fixture
def whole(tmp_path: Path, archive: Path) -> Path:
    """An archive of one run: the tables that are there now, with today's machine code, as if of one commit."""
    folder = tmp_path / archive.name
    shutil.copytree(archive, folder, ignore=shutil.ignore_patterns("archived.json"))
    now = stage.hashes_of(archive)
    origins = {}
    for table in registry.tables().values():
        path = folder / table.file
        if table.archive == "never" or table.target == "by hand" or not path.is_file():
            continue
        if table.suffix == ".csv":
            rows = [row for row in read_rows(path, table.schema) if row.get("variant", "sgemm_naive") in now]
            write_rows(path, table.schema, [row | own_hash(row, now) for row in rows])
        run = {"date": "2026-11-24", "commit": "a" * 40, "commit_clean": True, "command": "snakemake all"}
        origins[table.file] = run | {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    (folder / "archived.json").write_text(json.dumps(origins))
    return folder


def own_hash(row: dict, now: dict[str, str | None]) -> dict:
    return {"code_hash": now[row["variant"]]} if "code_hash" in row and "variant" in row else {}


def amiss(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What `archive --check` says of it, those tables aside that no archive has yet."""
    there = {name: t for name, t in registry.tables().items() if (folder / t.file).is_file() or t.archive == "always"}
    monkeypatch.setattr(registry, "tables", lambda: there)
    try:
        stage.require_whole(folder)
    except UserError as error:
        assert "\n" not in str(error)
        return str(error)
    return ""


def test_an_archive_of_one_run_is_whole(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert amiss(whole, monkeypatch) == ""


def test_a_tuned_kernel_is_the_one_of_the_archive_s_own_sweep(tmp_path: Path, archive: Path) -> None:
    """On another GPU another tile wins, which is no change of the kernel."""
    record = json.loads((archive / "tuned.json").read_text())
    record["kernels"]["sgemm_autotuned"]["template"]["BK"] += 8
    (tmp_path / "tuned.json").write_text(json.dumps(record))
    entry = catalogue.load(tmp_path / "tuned.json").kernels["sgemm_autotuned"]
    built = next(row for row in read_rows_of(archive, "resources") if row["variant"] == entry.name)
    own = built | {"source_hash": entry.source_hash, "code_hash": "1" * 16}
    write_rows(tmp_path / "resources.csv", "resources", [own])
    hashes = stage.hashes_of(tmp_path)
    assert hashes["sgemm_autotuned"] == "1" * 16 != stage.hashes_of(archive)["sgemm_autotuned"]
    row = next(row for row in read_rows_of(archive, "checks") if row["variant"] == "sgemm_autotuned")
    path = tmp_path / "checks.csv"
    write_rows(path, "checks", [row | {"code_hash": hashes["sgemm_autotuned"]}])
    stage.require_current(path, "checks", hashes)
    with pytest.raises(UserError, match="sgemm_autotuned was measured with other machine code"):
        stage.require_current(path, "checks", stage.hashes_of(archive))


GPU = json.loads((ARCHIVE / "machine.json").read_text())["gpu"]


def of_another_commit(folder: Path) -> None:
    origins = json.loads((folder / "archived.json").read_text())
    origins["checks.csv"]["commit"] = "b" * 40
    (folder / "archived.json").write_text(json.dumps(origins))


def with_a_stale_row(folder: Path) -> None:
    rows = read_rows_of(folder, "counters")
    write_rows(folder / "counters.csv", "counters", [rows[0] | {"code_hash": "old"}, *rows[1:]])
    origins = json.loads((folder / "archived.json").read_text())
    origins["counters.csv"]["sha256"] = hashlib.sha256((folder / "counters.csv").read_bytes()).hexdigest()
    (folder / "archived.json").write_text(json.dumps(origins))


def with_entries(kind: str, **changes: str) -> Callable[[Path], None]:
    """Write `changes` into machine.json or provenance.json, with the checksum that goes with it."""

    def spoil(folder: Path) -> None:
        path, origins = folder / f"{kind}.json", json.loads((folder / "archived.json").read_text())
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        origins[path.name]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        (folder / "archived.json").write_text(json.dumps(origins))

    return spoil


def read_rows_of(folder: Path, name: str) -> list[dict]:
    return read_rows(folder / f"{name}.csv", name)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (of_another_commit, "of 2 commits: aaaaaaaaaaaa, bbbbbbbbbbbb"),
        (with_a_stale_row, "was measured with other machine code"),
        (with_entries("machine", machine="h99"), f"machine.json is of machine 'h99', not '{ARCHIVE.name}'"),
        (with_entries("provenance", gpu="NVIDIA H99"), f"of 2 GPUs: {GPU}, NVIDIA H99"),
        (with_entries("provenance", gpu=" "), "provenance.json names no GPU"),
        (lambda folder: (folder / "windows.csv").unlink(), "missing: windows.csv"),
        (lambda folder: (folder / "windows.csv").open("a").write("x\n"), "not as archived: windows.csv"),
    ],
)
def test_what_is_amiss_in_an_archive_is_one_line(
    spoil, said: str, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(whole)
    assert said in amiss(whole, monkeypatch)
