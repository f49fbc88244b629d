"""What was measured becomes tables, parts are joined, each row once, and the verdict over all checks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from helpers import assert_one_line, dict_rows, run_module

from contracts import read_json, read_rows, write_json, write_rows
from contracts.rows import (
    Checks,
    Counters,
    Machine,
    MeasuredRows,
    Provenance,
    Samples,
    Toolchain,
    Windows,
)
from contracts.samples import samples_table
from experiments.stages.store import Key, Measurement, Store, write_manifest


def test_parts_are_joined(tmp_path: Path, archive: Path) -> None:
    rows = dict_rows(archive / "checks.csv", Checks)
    by_name = {
        name: [row for row in rows if row["variant"] == name]
        for name in ("sgemm_naive", "sgemm_tiling")
    }
    naive, tiling = by_name.values()
    for number, part in enumerate((naive, [*tiling, *naive[:2]])):
        write_rows(tmp_path / f"{number}.csv", Checks, part)
    join = (
        "experiments.stages.tables",
        "joined",
        "checks",
        tmp_path / "0.csv",
        tmp_path / "1.csv",
        "--out",
        tmp_path / "all.csv",
    )
    for options, expected in (
        ((), [*naive, *tiling]),
        (("--variants", "sgemm_tiling", "sgemm_naive"), [*tiling, *naive]),
        (("--variants", "sgemm_tiling"), tiling),
    ):
        assert run_module(*join, *options).returncode == 0
        assert dict_rows(tmp_path / "all.csv", Checks) == expected
    assert "--out" in run_module(*join[:-2]).stderr


def test_the_verdict_names_what_failed_and_leaves_no_file(archive: Path, tmp_path: Path) -> None:
    rows = dict_rows(archive / "checks.csv", Checks)
    write_rows(tmp_path / "checks.csv", Checks, rows)
    arguments = ("passed", "--checks", tmp_path / "checks.csv", "--out", tmp_path / "verdict.txt")
    assert run_module("experiments.stages.tables", *arguments).returncode == 0
    assert (tmp_path / "verdict.txt").read_text() == f"{len(rows)} checks passed\n"
    (tmp_path / "verdict.txt").unlink()
    failed = next(row for row in rows if row["variant"] == "sgemm_warptile")
    failed |= {"passed": False, "detail": "C[0, 0] = 1, expected 2"}
    write_rows(tmp_path / "checks.csv", Checks, rows)
    done = run_module("experiments.stages.tables", *arguments)
    said = f"1 of {len(rows)} checks failed, of: sgemm_warptile; first: "
    said += "sgemm_warptile, one tile, one k-step: C[0, 0] = 1"
    assert_one_line(done, said)
    assert not (tmp_path / "verdict.txt").exists()


@pytest.fixture
def manifests(archive: Path, tmp_path: Path) -> list[Path]:
    """A check, a search and a window of an archive's rows, stored as jobs do; two experiments have
    the window."""
    store = Store(tmp_path / "measured")
    (window, *_) = (row for row in read_rows(archive / "windows.csv", Windows) if row.passed)
    check = read_rows(archive / "checks.csv", Checks)[0]
    timed = check.model_copy(update={"case": ", zeros"})
    machine = read_json(archive / "machine.json", Machine)
    stored = {
        "machine": MeasuredRows(machine=machine),
        "check": MeasuredRows(checks=[check]),
        "bench": MeasuredRows(
            windows=[window.model_copy(update={"experiment": ""})], checks=[timed]
        ),
    }
    for stage, rows in stored.items():
        samples = samples_of(window) if stage == "bench" else None
        new = Measurement({}, "0" * 8, rows, samples=samples)
        stored[stage] = store.keep(Key(stage, window.variant, "item"), new)
    for name, experiment, stages in (
        ("machine", "", ["machine", "check"]),
        ("one", "one", ["bench"]),
        ("other", "other", ["bench"]),
        ("check", "", ["check"]),
    ):
        left_out = {"profile": ["no ncu"] if name != "machine" else []}
        path = tmp_path / f"{name}.json"
        write_manifest(path, [stored[stage] for stage in stages], experiment, left_out)
    return [tmp_path / f"{name}.json" for name in ("machine", "one", "other", "check")]


def samples_of(window: Windows) -> pa.Table:
    """Two samples of a window."""
    key = {name: getattr(window, name) for name in Samples.KEY if hasattr(window, name)}
    columns = {"experiment": "", "window": "interleaved", "role": "variant", "reason": None}
    columns |= {"index": np.arange(2), "time_us": np.ones(2), "kept": np.ones(2, bool)}
    return samples_table(2, key | columns | {"sm_clock_mhz": np.ones(2, np.float32)})


def test_what_two_experiments_share_is_in_the_tables_as_each_one_s(
    manifests: list[Path], archive: Path, tmp_path: Path
) -> None:
    """A check that two jobs name is there once; the emulator's checks come before the timed runs'."""
    on_emulator = read_rows(archive / "checks.csv", Checks)[-1]
    write_rows(tmp_path / "emulated.csv", Checks, [on_emulator])
    toolchain = read_json(archive / "provenance.json", Provenance).toolchain
    write_json(tmp_path / "toolchain.json", Toolchain, toolchain)
    out = tmp_path / "tables"
    done = run_module(
        *("experiments.stages.tables", "stored", *manifests, "--store", tmp_path / "measured"),
        *("--emulated-checks", tmp_path / "emulated.csv", "--command", "snakemake all"),
        *("--toolchain", tmp_path / "toolchain.json", "--out-dir", out),
    )
    assert done.returncode == 0, done.stderr
    windows = read_rows(out / "windows.csv", Windows)
    assert [window.experiment for window in windows] == ["one", "other"]
    samples = pd.read_parquet(out / "samples.parquet")
    assert samples["experiment"].tolist() == ["one", "one", "other", "other"]
    checks = read_rows(out / "checks.csv", Checks)
    after = ["after timing one, zeros", "after timing other, zeros"]
    assert [row.case for row in checks[1:]] == [on_emulator.case, *after]
    assert read_rows(out / "counters.csv", Counters) == []
    provenance = read_json(out / "provenance.json", Provenance)
    assert provenance.left_out == {"profile": "no ncu"}
    assert [session.measurements for session in provenance.sessions] == [3]


def test_a_measurement_that_is_gone_is_one_line(manifests: list[Path], tmp_path: Path) -> None:
    (gone,) = (tmp_path / "measured" / "bench").rglob("*.json")
    gone.unlink()
    done = run_module(
        *("experiments.stages.tables", "stored", *manifests, "--store", tmp_path / "measured"),
        *(
            "--command",
            "snakemake all",
            "--toolchain",
            "toolchain.json",
            "--out-dir",
            tmp_path / "t",
        ),
    )
    assert_one_line(done, f"cannot read {gone}", "No such file")
    assert not (tmp_path / "t").exists()
