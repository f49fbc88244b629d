"""Two variants head to head: the command, and the target of Snakemake that profiles them first where it can."""

from __future__ import annotations

import csv
import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from helpers import assert_one_line, copy_tree, run_module, snakemake
from machine_folder import Folder, warptile_fails
from made_inputs import write_inputs

from analysis.tables import compare
from contracts import read_json, read_rows, write_json, write_rows
from experiments.gpu import discovery
from experiments.stages import toolchain

PAIR = ("sgemm_blocktile_2d", "sgemm_vectorized")


@pytest.fixture
def folder(tmp_path: Path, archive: Path) -> Folder:
    return Folder(tmp_path, archive)


def compared(folder: Folder, out: Path, a: str, b: str, *more: object) -> subprocess.CompletedProcess[str]:
    """The command's run."""
    inputs = write_inputs(out.with_name("inputs.json"), folder.measured, folder.variants)
    return run_module("analysis.tables.compare", "--a", a, "--b", b, "--inputs", inputs, "--out", out, *more)


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.open()))


def test_the_paper_s_table_is_this_table(folder: Folder, tmp_path: Path) -> None:
    done = compared(folder, tmp_path / "c.csv", *PAIR)
    assert done.returncode == 0, done.stderr
    made = folder.tables(tmp_path / "t")["comparison"]
    assert rows_of(tmp_path / "c.csv") == made and len(made) > 30
    assert list(made[0]) == ["section", "metric", "unit", "n", "blocktile_2d", "vectorized", "better"]


def test_values_are_the_counters_and_the_other_order_has_the_same_winners(folder: Folder, tmp_path: Path) -> None:
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    assert compared(folder, first, *PAIR).returncode == compared(folder, second, *reversed(PAIR)).returncode == 0
    duration = {
        r["variant"]: r["value"] / 1e3 for r in folder.rows("counters") if r["metric"] == "gpu__time_duration.sum"
    }
    for path in (first, second):
        row = next(row for row in rows_of(path) if row["metric"] == "Duration under ncu")
        for name in PAIR:
            assert float(row[name.removeprefix("sgemm_")]) == pytest.approx(duration[name], rel=1e-5)
        assert row["better"] == min(PAIR, key=duration.__getitem__).removeprefix("sgemm_")
    assert {row["metric"]: row["better"] for row in rows_of(first)} == {
        r["metric"]: r["better"] for r in rows_of(second)
    }


def test_the_terminal_gets_the_sections_and_what_is_stale(folder: Folder, archived_gpu: str, tmp_path: Path) -> None:
    words = compared(folder, tmp_path / "c.csv", *PAIR).stdout
    lines = words.splitlines()
    assert f"sgemm_blocktile_2d and sgemm_vectorized, m = n = k = 4096; archived: {archived_gpu}" in lines[0]
    for section in ("Speed of light", "Memory", "Scheduler", "Occupancy", "Stalls, per issued instruction"):
        assert section in lines, section
    assert max(map(len, lines)) <= 120 and "†" not in words
    folder.edit("variants", lambda row: {"source_hash": "0" * 16} if row["variant"] == PAIR[1] else None)
    words = compared(folder, tmp_path / "c.csv", *PAIR).stdout
    assert "vectorized†" in words and "blocktile_2d†" not in words and "† source changed since measured" in words


def test_pipes_and_stalls_that_neither_knows_are_left_out(folder: Folder) -> None:
    measured = folder.read()
    simt = compare.compare(measured, *PAIR)
    assert "FMA pipe" in set(simt["metric"]) and not {"Tensor pipe", "GMMA", "Sleeping"} & set(simt["metric"])
    tensor = compare.compare(measured, "hgemm_naive_bf16", "cublas_bf16")
    assert "Tensor pipe" in set(tensor["metric"]) and "FMA pipe" not in set(tensor["metric"])
    assert "GMMA" in set(tensor["metric"])


def test_a_counter_that_one_of_them_lacks_has_no_winner(folder: Folder) -> None:
    lost = "lts__t_sector_hit_rate.pct", "sm__inst_executed.avg.per_cycle_active"
    folder.edit(
        "counters", lambda r: None, keep=lambda r: (r["variant"], r["metric"]) not in [(PAIR[0], m) for m in lost]
    )
    rows = compare.compare(folder.read(), *PAIR).set_index("metric")
    row = rows.loc["IPC, active cycles"]
    assert row["blocktile_2d"] != row["blocktile_2d"] and row["vectorized"] > 0 and row["better"] == ""
    assert compare.number(float("nan")) == "–"


@pytest.mark.parametrize(("direction", "better"), [(1, 2), (-1, 1), (0, 0)])
def test_better_follows_the_direction(direction: int, better: int) -> None:
    assert compare.side(1.0, 2.0, direction) == better
    assert compare.side(2.0, 1.0, direction) == (3 - better if better else 0)
    assert compare.side(1.0, 1.005, direction) == (3 if direction else 0)
    assert compare.side(float("nan"), 1.0, direction) == 0


def test_without_counters_of_both_the_paper_s_table_is_empty(folder: Folder, tmp_path: Path) -> None:
    folder.edit("counters", lambda row: None, keep=lambda row: row["variant"] != PAIR[0])
    assert folder.tables(tmp_path / "t")["comparison"] == []


@pytest.mark.parametrize(
    ("a", "b", "more", "words"),
    [
        ("sgemm_naiv", "sgemm_naive", [], ["unknown variant 'sgemm_naiv'", "nearest: sgemm_naive"]),
        ("sgemm_naive", "sgemm_naive", [], ["sgemm_naive is named twice"]),
        (*PAIR, ["--size", 512], ["no counters of both at n = 512", "sgemm_vectorized: n = 4096"]),
        ("sgemm_warptile", "sgemm_naive", [], ["sgemm_warptile failed a check"]),
        (
            "sgemm_coalesced",
            "sgemm_naive",
            [],
            ["no counters of both (no ncu there); sgemm_coalesced: none; sgemm_naive: n = 256, n = 4096"],
        ),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    a: str, b: str, more: list[Any], words: list[str], folder: Folder, tmp_path: Path
) -> None:
    folder.edit("checks", warptile_fails)
    folder.edit("counters", lambda row: None, keep=lambda row: row["variant"] != "sgemm_coalesced")
    path = folder.measured / "provenance.json"
    write_json(path, "provenance", read_json(path, "provenance") | {"left_out": {"profile": "no ncu there"}})
    assert_one_line(compared(folder, tmp_path / "c.csv", a, b, *more), *words)
    assert not (tmp_path / "c.csv").exists()


# ---- with what needs no GPU ---------------------------------------------------------------------------------------


@pytest.fixture
def unmeasured(folder: Folder, tmp_path: Path, archive: Path) -> list[object]:
    """Options that name the emulator's tables and the builds of the pair, as they are archived."""
    emulated, built = tmp_path / "emulate", tmp_path / "built"
    for name in PAIR:
        for table, kind in (("predictions", "counters"), ("bounds", "bounds")):
            rows = [row for row in read_rows(archive / f"{table}.csv", kind) if row["variant"] == name]
            write_rows(emulated / name / f"{table}.csv", kind, rows)
        [row] = [row for row in read_rows(archive / "resources.csv", "resources") if row["variant"] == name]
        write_json(built / f"{name}.json", "resources", row)
    return ["--emulated", emulated, "--built", built]


def values(path: Path, section: str, metric: str) -> list[str]:
    [row] = [row for row in rows_of(path) if row["section"].startswith(section) and row["metric"] == metric]
    return [row["blocktile_2d"], row["vectorized"], row["better"]]


def test_resources_bounds_and_times_stand_before_the_counters(
    folder: Folder, unmeasured: list[object], tmp_path: Path
) -> None:
    out, words = tmp_path / "c.csv", tmp_path / "c.txt"
    done = compared(folder, out, *PAIR, *unmeasured, "--text", words)
    assert done.returncode == 0, done.stderr
    assert words.read_text() == done.stdout and max(map(len, done.stdout.splitlines())) <= 120
    assert values(out, "Least cycles", "Bottleneck") == ["shared memory", "shared memory", ""]
    known = {(r["variant"], r["resource"]): r["cycles_per_sm"] for r in folder.rows("bounds") if r["n"] == 4096}
    for got, name in zip(values(out, "Least cycles", "shared memory"), PAIR, strict=False):
        assert float(got) == pytest.approx(known[name, "shared"], rel=1e-5)
    assert values(out, "Least cycles", "shared memory")[2] == "vectorized"
    assert values(out, "Speed", "Time")[2] == "vectorized"
    counters = compare.compare(folder.read(), *PAIR)
    assert [row["metric"] for row in rows_of(out)][-len(counters) :] == list(counters["metric"])


def test_where_one_has_no_counters_both_are_predicted(folder: Folder, unmeasured: list[object], tmp_path: Path) -> None:
    folder.edit("counters", lambda row: None, keep=lambda row: row["variant"] != PAIR[0])
    out = tmp_path / "c.csv"
    done = compared(folder, out, *PAIR, *unmeasured)
    assert done.returncode == 0, done.stderr
    own = values(out, "Memory, predicted", "Global store, bytes used per 32-byte sector")
    assert own == ["4.0", "16.0", "vectorized"]
    assert not [row for row in rows_of(out) if row["section"].startswith(("Scheduler", "Stalls"))]
    assert "Duration under ncu" not in done.stdout
    assert_one_line(
        compared(folder, out, *PAIR, *unmeasured, "--size", 512), "no counters and no predictions of both at n = 512"
    )
    assert_one_line(compared(folder, out, *PAIR, *unmeasured[:2]), "--emulated and --built go together")


# ---- the target -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, with one experiment, in which nothing was run."""
    return copy_tree(tmp_path_factory.mktemp("compare") / "project", experiments={"sgemm_ladder"})


def pair(a: str, b: str) -> tuple[str, ...]:
    return "--config", f"variant_a={a}", f"variant_b={b}"


def with_gpu() -> dict[str, str]:
    """The environment of a Snakemake that has found a GPU."""
    known = toolchain.identity(None, "sm_90a")
    gpu = dataclasses.asdict(discovery.Gpu("NVIDIA H200", "sm_90a", "580.0"))
    return {discovery.KNOWN: json.dumps(known | {"gpu": gpu["name"], "arch": gpu["arch"], "driver": gpu["driver"]})}


def test_the_target_prints_each_time_and_writes_the_table(tree: Path, archive: Path) -> None:
    for _ in range(2):
        done = snakemake(tree, "compare", *pair(*PAIR))
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Speed of light" in done.stdout + done.stderr
    assert rows_of(tree / "results/tables/compare_sgemm_blocktile_2d_sgemm_vectorized.csv")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ([], "config.yaml: variant_a = null, variant_b = null; compare needs two variants"),
        (["--config", "variant_a=sgemm_naive"], "variant_b = null; compare needs two variants"),
        (pair("sgemm_naive", "sgemm_naive"), "compare needs two variants"),
        (
            pair("sgemm_naive", "sgemm_tilin"),
            "unknown variant 'sgemm_tilin' in config.yaml: variant_b; nearest: sgemm_tiling",
        ),
    ],
)
def test_a_wrong_pair_is_one_line(settings: list[str], said: str, tree: Path) -> None:
    done = snakemake(tree, "compare", *settings)
    errors = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("error: ")]
    assert done.returncode != 0 and len(errors) == 1 and said in errors[0], done.stdout + done.stderr


def planned(tree: Path, *arguments: str) -> dict[str, int]:
    """Jobs by rule of a dry run where there is a GPU."""
    done = snakemake(tree, "-n", *arguments, **with_gpu())
    assert done.returncode == 0, done.stdout + done.stderr
    stats = (done.stdout + done.stderr).partition("Job stats:")[2].partition("\n\n")[0].splitlines()
    return {parts[0]: int(parts[1]) for line in stats if len(parts := line.split()) == 2 and parts[1].isdigit()}


def test_with_a_gpu_the_two_are_checked_and_profiled_first(tree: Path) -> None:
    jobs = planned(tree, "compare", *pair("sgemm_tiling", "sgemm_at_tiling"))
    assert (jobs["profile"], jobs["check"], jobs["emulate"], jobs["compared"], jobs["compare"]) == (1, 1, 2, 1, 1)
    assert not {"bench", "measure_agreement", "paper_pdf"} & set(jobs)


def test_second_opinions_are_measured_only_by_name(tree: Path, archive: Path) -> None:
    """`all` draws a table that is there without making it again, even where its kernel is newer."""
    jobs = planned(tree, "all")
    assert (jobs["report_tables"], jobs["figures_second_opinions"], jobs["measure_agreement"]) == (1, 1, 1)
    assert "measure_sanitizer" not in jobs
    path = tree / "results" / "h200" / "sanitizer.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_rows(path, "sanitizer", [])
    try:
        assert "measure_sanitizer" not in planned(tree, "all")
        assert planned(tree, "sanitize", "all")["measure_sanitizer"] == 1
    finally:
        path.unlink()
