"""The path that only a GPU walks, walked on the emulated one: see `rehearse`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pypdf
import pytest
import rehearse
from frames import Change
from helpers import dict_rows, json_dict
from rehearse import Rehearsal

from contracts import REHEARSAL, read_json
from contracts.rows import TABLES, Manifest, Provenance, Windows
from experiments.stages.bench import ROLES
from experiments.stages.store import Store
from experiments.stages.tables import Run

KERNEL = "sgemm_blocktile_2d"
ONLY = "results/rehearsal/only/sgemm_ladder"
SHOWN = ("--catalogue", "results/variants.csv")
BUILDS = ("--build-dir", "results/build/sm_90a")


@pytest.fixture(scope="module")
def rehearsal(once: Callable[..., Path]) -> Rehearsal:
    """A rehearsal whose steps all passed; not to be written to."""

    def fill(folder: Path) -> None:
        made = rehearse.prepare(folder, rehearse.EXPERIMENTS, rehearse.VARIANTS, 128)
        for name, step in made.steps.items():
            done = step()
            (folder / f"{name.partition(',')[0]}.txt").write_text(done.stdout)
            assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"

    return Rehearsal(once("rehearsal", fill), rehearse.EXPERIMENTS, rehearse.VARIANTS)


@pytest.fixture
def own(rehearsal: Rehearsal, tmp_path: Path) -> Rehearsal:
    """A copy of it to be edited, with all that was measured in it."""
    tree = Path(shutil.copytree(rehearsal.tree, tmp_path / "project", symlinks=True))
    return replace(rehearsal, tree=tree)


def test_each_variant_has_its_windows_checks_and_counters_and_each_row_repeats(
    rehearsal: Rehearsal,
) -> None:
    assert rehearsal.amiss() == []
    assert "compared 3 of 3 measured rows" in (rehearsal.tree / "reproduce.txt").read_text()
    sessions = json_dict(rehearsal.results / "provenance.json", Provenance)["sessions"]
    assert len(sessions) == rehearse.GPUS  # both of the stand-in's cards took part


def test_every_output_says_that_times_are_no_measurements(rehearsal: Rehearsal) -> None:
    results = rehearsal.tree / "results"
    figures = [*(results / "figures").glob("*.svg")]
    assert len(figures) > 10
    for path in (*figures, results / "explorer.html", rehearsal.tree / "reproduce.txt"):
        assert REHEARSAL in path.read_text(), path.name
    for name in ("timings", "kernels"):
        assert (pd.read_csv(results / "tables" / f"{name}.csv")["note"] == REHEARSAL).all(), name
    for name in ("paper", "supplement"):
        pages = [page.extract_text() for page in pypdf.PdfReader(results / f"{name}.pdf").pages]
        assert all(REHEARSAL in page for page in pages), name


def swapped(samples: pd.DataFrame) -> pd.DataFrame:
    """The samples of a kernel and of its baseline, taken for each other."""
    others = dict(zip(ROLES, reversed(ROLES), strict=True))
    return samples.assign(role=samples["role"].map(others).astype("category"))


def lacking(column: str, value: str) -> Change:
    """A change that takes away the rows with `value` that are of the kernel."""
    return lambda rows: rows[(rows[column] != value) | (rows["variant"] != KERNEL)]


@pytest.mark.parametrize(
    ("table", "edit", "said"),
    [
        ("windows.csv", lacking("variant", KERNEL), "has 0 of 2 windows"),
        ("windows.csv", lambda rows: rows.drop_duplicates("variant"), "has 1 of 2 windows"),
        ("checks.csv", lacking("device", "gpu"), "was not checked"),
        ("counters.csv", lacking("metric", "memory_l1_wavefronts_shared"), "lacks counters"),
        ("samples.parquet", swapped, "us in windows"),
    ],
)
def test_what_a_stage_loses_or_mixes_up_is_named(
    table: str, edit: Change, said: str, own: Rehearsal
) -> None:
    path = own.tree / ONLY / table
    if path.suffix == ".csv":
        edit(pd.read_csv(path, dtype=str, keep_default_na=False)).to_csv(path, index=False)
    else:
        edit(pd.read_parquet(path)).to_parquet(path)
    (line, *_) = own.amiss()
    assert KERNEL in line and said in line


@pytest.mark.parametrize(
    "table", ["resources", "windows", "samples", "counters", "machine", "provenance"]
)
def test_a_table_that_is_missing_is_an_error_and_no_figure(
    table: str, rehearsal: Rehearsal, tmp_path: Path
) -> None:
    folder = tmp_path / "rehearsal" / "only" / "sgemm_ladder"
    shutil.copytree(rehearsal.tree / ONLY, folder)
    (folder / TABLES[table].file).unlink()
    figure = "counters:sgemm_ladder" if table == "counters" else "ladder:sgemm_ladder"
    options = ("--results", str(folder), *SHOWN, "--out", str(tmp_path))
    drawn = rehearsal.run("analysis", "draw", *options, figure)
    assert drawn.returncode and drawn.stderr.count("error: ") == 1, drawn.stdout + drawn.stderr
    assert list(tmp_path.glob("*.svg")) == []


def test_a_kernel_that_is_wrong_ends_the_run_and_is_in_no_figure(own: Rehearsal) -> None:
    source = own.tree / "kernels" / "sgemm" / "blocktile_2d.cu"
    right = "for (int p = 0; p < BK; ++p)"
    assert right in source.read_text()
    source.write_text(source.read_text().replace(right, "for (int p = 0; p < BK - 1; ++p)"))
    done = own.snakemake("sgemm_ladder", gpu=True)
    assert done.returncode and f"checks failed, of: {KERNEL}" in done.stdout + done.stderr
    tables = own.tree / ONLY
    assert KERNEL not in {row["variant"] for row in dict_rows(tables / "windows.csv", Windows)}
    assert KERNEL not in set(pd.read_parquet(tables / "samples.parquet")["variant"])
    assert not (tables / "passed.txt").exists()


def test_a_measurement_of_another_gpu_model_serves_for_nothing(own: Rehearsal) -> None:
    (kept,) = (own.results / "measured" / "bench" / KERNEL).glob("*-boost.*.json")
    foreign = json.loads(kept.read_text())
    foreign["fingerprint"]["gpu"], foreign["measured"] = (
        "NVIDIA H200",
        "2000-01-01T00:00:00.000000+00:00",
    )
    foreign["rows"]["windows"][0]["seed"] = 4242
    foreign.pop("samples_sha256")
    kept.with_name(kept.name.replace(foreign["session"], "0" * 8)).write_text(json.dumps(foreign))
    store, manifest = own.results / "measured", own.tree / "again.json"
    options = (*BUILDS, "--store", str(store), "--out", str(manifest))
    done = own.run("experiments.stages.bench", "sgemm_ladder", KERNEL, *options, gpu=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = Run(Store(store), [manifest]).rows["windows"]
    assert len(rows) == 2 and 4242 not in {row.seed for row in rows}


def test_a_gpu_whose_counters_may_not_be_read_is_measured_without_them(own: Rehearsal) -> None:
    shutil.rmtree(own.results / "measured" / "profile")
    path, store = own.tree / "manifest.json", own.results / "measured"
    options = (*BUILDS, "--store", str(store), "--out", str(path))
    (own.tree / ".stand-in" / "no-counters").touch()
    done = own.run("experiments.stages.profile", KERNEL, "--problem", "128", *options, gpu=True)
    manifest = read_json(path, Manifest)
    assert done.returncode == 0 and manifest.measurements == []
    assert "no permission to read hardware counters" in manifest.left_out["profile"][0]


def test_locked_clocks_are_a_second_leg_and_are_unlocked_again(own: Rehearsal) -> None:
    locked = {"lock_clocks": "true", "lock_sm_mhz": "1980"}  # the made-up clock's
    done = own.snakemake(f"{ONLY}/provenance.json", gpu=True, **locked)
    assert done.returncode == 0, done.stdout + done.stderr
    windows = dict_rows(own.tree / ONLY / "windows.csv", Windows)
    of_boost, of_locked = (
        [row["variant"] for row in windows if row["clock_policy"] == policy and row["passed"]]
        for policy in ("boost", "locked")
    )
    assert of_boost == of_locked and all(row["left_out"] is None for row in windows)
    calls = (own.tree / ".stand-in" / "state.calls").read_text()
    assert calls.count("SetGpuLockedClocks") == calls.count("ResetGpuLockedClocks") > 0
    assert calls.splitlines()[-1].startswith("Reset")
