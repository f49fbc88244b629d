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
from helpers import dict_rows, json_dict
from rehearse import Rehearsal

from contracts import REHEARSAL, read_json
from contracts.rows import Manifest, Provenance, Windows
from experiments.stages.bench import ROLES
from experiments.stages.store import Store
from experiments.stages.tables import Run

KERNEL = "sgemm_blocktile_2d"
ONLY = "results/rehearsal/only/sgemm_ladder"
SHOWN = ("--catalogue", "results/variants.csv")


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
    return replace(
        rehearsal, tree=Path(shutil.copytree(rehearsal.tree, tmp_path / "project", symlinks=True))
    )


def test_each_variant_has_its_windows_checks_and_counters_and_each_row_repeats(
    rehearsal: Rehearsal,
) -> None:
    assert rehearsal.amiss() == []
    assert "compared 3 of 3 measured rows" in (rehearsal.tree / "reproduce.txt").read_text()
    sessions = json_dict(rehearsal.results / "provenance.json", Provenance)["sessions"]
    assert len(sessions) == rehearse.GPUS  # both of the stand-in's cards took part


def test_every_output_says_that_times_are_no_measurements(rehearsal: Rehearsal) -> None:
    results = rehearsal.tree / "results"
    figures = [
        path for path in (results / "figures").glob("*.svg") if not path.name.startswith("banks_")
    ]
    assert (
        len(figures) > 10
        and [path.name for path in figures if REHEARSAL not in path.read_text()] == []
    )
    tables = [
        pd.read_csv(path)
        for path in (results / "tables").glob("*.csv")
        if path.stem in ("timings", "kernels")
    ]
    assert len(tables) == 2 and all((table["note"] == REHEARSAL).all() for table in tables)
    assert REHEARSAL in (results / "explorer.html").read_text()
    for name in ("paper", "supplement"):
        pages = [page.extract_text() for page in pypdf.PdfReader(results / f"{name}.pdf").pages]
        assert [number for number, page in enumerate(pages) if REHEARSAL not in page] == []
    assert REHEARSAL in (rehearsal.tree / "reproduce.txt").read_text()


def swapped(samples: pd.DataFrame) -> pd.DataFrame:
    """The samples of a kernel and of its baseline, taken for each other."""
    return samples.assign(
        role=samples["role"].map(dict(zip(ROLES, reversed(ROLES), strict=True))).astype("category")
    )


@pytest.mark.parametrize(
    ("table", "edit", "said"),
    [
        ("windows.csv", lambda rows: rows[rows["variant"] != KERNEL], "has 0 of 2 windows"),
        ("windows.csv", lambda rows: rows.drop_duplicates("variant"), "has 1 of 2 windows"),
        (
            "checks.csv",
            lambda rows: rows[(rows["variant"] != KERNEL) | (rows["device"] != "gpu")],
            "was not checked",
        ),
        (
            "counters.csv",
            lambda rows: rows[rows["metric"] != "memory_l1_wavefronts_shared"],
            "lacks counters",
        ),
        ("samples.parquet", swapped, "us in windows"),
    ],
)
def test_what_a_stage_loses_or_mixes_up_is_named(
    table: str, edit: Callable[[pd.DataFrame], pd.DataFrame], said: str, own: Rehearsal
) -> None:
    path = own.tree / ONLY / table
    if path.suffix == ".csv":
        edit(pd.read_csv(path, dtype=str, keep_default_na=False)).to_csv(path, index=False)
    else:
        edit(pd.read_parquet(path)).to_parquet(path)
    (line, *_) = own.amiss()
    assert KERNEL in line and said in line


@pytest.mark.parametrize(
    "missing",
    [
        "resources.csv",
        "windows.csv",
        "samples.parquet",
        "counters.csv",
        "machine.json",
        "provenance.json",
    ],
)
def test_a_table_that_is_missing_is_an_error_and_no_figure(
    missing: str, rehearsal: Rehearsal, tmp_path: Path
) -> None:
    folder = Path(
        shutil.copytree(rehearsal.tree / ONLY, tmp_path / "rehearsal" / "only" / "sgemm_ladder")
    )
    (folder / missing).unlink()
    figure = "counters:sgemm_ladder" if missing == "counters.csv" else "ladder:sgemm_ladder"
    drawn = rehearsal.run(
        "analysis", "draw", "--results", str(folder), *SHOWN, "--out", str(tmp_path), figure
    )
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
    foreign["basis"]["gpu"], foreign["measured"] = "NVIDIA H200", "2000-01-01T00:00:00.000000+00:00"
    foreign["rows"]["windows"][0]["seed"] = 4242
    foreign.pop("samples_sha256")
    kept.with_name(kept.name.replace(foreign["session"], "0" * 8)).write_text(json.dumps(foreign))
    store, manifest = own.results / "measured", own.tree / "again.json"
    done = own.run(
        "experiments.stages.bench",
        "sgemm_ladder",
        KERNEL,
        "--build-dir",
        "results/build/sm_90a",
        "--store",
        str(store),
        "--out",
        str(manifest),
        gpu=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = Run(Store(store), [manifest]).rows["windows"]
    assert len(rows) == 2 and 4242 not in {row.seed for row in rows}


def test_a_gpu_whose_counters_may_not_be_read_is_measured_without_them(own: Rehearsal) -> None:
    shutil.rmtree(own.results / "measured" / "profile")
    path = own.tree / "manifest.json"
    options = ["--build-dir", "results/build/sm_90a"]
    options += ["--store", str(own.results / "measured"), "--out", str(path)]
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
