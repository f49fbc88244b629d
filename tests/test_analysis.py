"""From archived measurements to tables and figures: what failed is left out and named, what is stale is marked."""

from __future__ import annotations

import csv
import json
import re
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from helpers import ROOT, assert_one_line, run_module
from pypdf import PdfReader

from analysis import correctness, counters, data, ladder, roofline, sizes, style
from analysis.data import Measured
from contracts import read_json, read_rows, schema, write_json, write_rows
from kernels import catalogue


class Folder:
    """A machine's tables in a folder of its own, and a catalogue by which nothing of them is stale."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.measured, self.variants = folder / "data", folder / "variants.csv"
        shutil.copytree(source, self.measured)
        hashes = {row["variant"]: row["source_hash"] for row in self.rows("checks")}
        rows = [row | {"source_hash": hashes.get(row["variant"], row["source_hash"])} for row in catalogue.rows()]
        write_rows(self.variants, "variants", rows)

    def rows(self, name: str) -> list[dict[str, Any]]:
        return read_rows(self.variants if name == "variants" else self.measured / f"{name}.csv", name)

    def edit(self, name: str, change: Any, keep: Any = lambda row: True) -> None:
        """Apply `change` to every row of a table, and drop those that are not to `keep`."""
        path = self.variants if name == "variants" else self.measured / f"{name}.csv"
        write_rows(path, name, [row | (change(row) or {}) for row in self.rows(name) if keep(row)])

    def read(self, archived: bool = True) -> Measured:
        return data.read(Namespace(measured=self.measured, variants=self.variants, archived=archived, emulated=None))

    def tables(self, out: Path) -> dict[str, list[dict[str, str]]]:
        """The paper's tables, made by the command."""
        arguments = ("--measured", self.measured, "--variants", self.variants, "--archived", "--out", out)
        done = run_module("analysis.tables", *arguments, "--resources", self.measured / "resources.csv")
        assert done.returncode == 0, done.stderr
        return {path.stem: list(csv.DictReader(path.open())) for path in out.glob("*.csv")}


@pytest.fixture
def folder(tmp_path: Path, archive: Path) -> Folder:
    return Folder(tmp_path, archive)


def warptile_fails(row: dict[str, Any]) -> dict[str, Any] | None:
    """The last of warptile's cases on the GPU, with a NaN in it."""
    bad = row["variant"] == "sgemm_warptile" and row["case"] == "large"
    return {"passed": False, "worst_error_share": None, "detail": "1 elements are not finite"} if bad else None


def drawn(figure: Any, folder: Path, name: str = "figure") -> tuple[str, str]:
    """Saved as SVG and PDF: the words of either, white space made even."""
    svg = folder / f"{name}.svg"
    style.save(figure, svg)
    words = " ".join(re.findall(r"<!-- (.*?) -->", svg.read_text(), re.S))  # matplotlib draws text as paths, noted so
    pdf = PdfReader(svg.with_suffix(".pdf")).pages[0].extract_text()
    return " ".join(words.split()), " ".join(pdf.split())


# ---- what may be shown ------------------------------------------------------------------------------------------


def test_what_was_measured_is_read_whole(folder: Folder) -> None:
    measured = folder.read()
    for name in ("bench", "checks", "counters"):
        rows = getattr(measured, name)
        assert len(rows) == len(folder.rows(name)) and not rows["stale"].any()
        assert list(rows["order"]) == sorted(rows["order"])
    assert measured.failed.empty and measured.gone == []
    provenance = read_json(folder.measured / "provenance.json", "provenance")
    assert measured.origin == f"archived: NVIDIA H200, {provenance['date']}"
    assert folder.read(archived=False).origin.startswith("measured: NVIDIA H200")


def test_a_failed_variant_is_in_no_performance_table(folder: Folder) -> None:
    folder.edit("checks", warptile_fails)
    measured = folder.read()
    assert "sgemm_warptile" not in set(measured.bench["variant"]) | set(measured.counters["variant"])
    assert "sgemm_vectorized" in set(measured.bench["variant"])
    assert "sgemm_warptile" in set(measured.checks["variant"])
    (failed,) = measured.failed.to_dict(orient="records")
    cases = sum(row["variant"] == "sgemm_warptile" for row in folder.rows("checks"))
    assert failed == {
        "variant": "sgemm_warptile", "label": "warptile", "cases": cases, "failed": 1, "case": "large",
        "detail": "1 elements are not finite",
    }  # fmt: skip


def test_rows_of_a_changed_source_are_stale(folder: Folder) -> None:
    folder.edit("variants", lambda row: {"source_hash": "0" * 16} if row["variant"] == "sgemm_naive" else None)
    measured = folder.read()
    for rows in (measured.bench, measured.checks, measured.counters):
        assert set(rows.loc[rows["stale"], "variant"]) == {"sgemm_naive"}
    assert set(data.marked(measured.bench)) >= {"naive†", "coalesced"}
    assert data.stale_variants(measured.bench, measured.checks) == ["sgemm_naive"]


def test_a_variant_that_is_no_more_is_named_and_left_out(folder: Folder) -> None:
    folder.edit("variants", lambda row: None, keep=lambda row: row["variant"] != "sgemm_coalesced")
    measured = folder.read()
    assert measured.gone == ["sgemm_coalesced"]
    assert "sgemm_coalesced" not in set(measured.bench["variant"]) | set(measured.checks["variant"])


def test_labels_are_made_unique() -> None:
    """Two of one label get their precision; two of one label and precision their whole names."""
    names = ["sgemm_naive", "hgemm_naive", "a_tiled", "b_tiled", "other"]
    frame = pd.DataFrame({"variant": names, "dtype": ["fp32", "bf16", "fp32", "fp32", "fp16"]})
    frame["label"] = ["naive", "naive", "tiled", "tiled", "other"]
    expected = ["naive fp32", "naive bf16", "a_tiled", "b_tiled", "other"]
    assert list(data.with_labels(frame)["label"]) == expected


# ---- figures ----------------------------------------------------------------------------------------------------

FIGURES = {
    "ladder": lambda measured: ladder.draw(measured, "sgemm_ladder"),
    "sizes": lambda measured: sizes.draw(measured, "sgemm_sizes"),
    "counters": counters.draw,
    "roofline": roofline.draw,
    "correctness": correctness.draw,
}


@pytest.mark.parametrize("name", list(FIGURES))
def test_a_figure_says_what_it_shows_and_where_from(name: str, folder: Folder, tmp_path: Path) -> None:
    """In SVG and PDF: rungs, machine, date, and that the numbers are archived."""
    measured = folder.read()
    for words in drawn(FIGURES[name](measured), tmp_path):
        assert measured.origin in words, words
        for rung in ("vectorized", "warptile", "at_swizzle_dbf_rw"):
            assert rung in words, rung
        assert "†" not in words


@pytest.mark.parametrize("name", list(FIGURES))
def test_a_figure_marks_what_is_stale_and_withholds_what_failed(name: str, folder: Folder, tmp_path: Path) -> None:
    folder.edit("variants", lambda row: {"source_hash": "0" * 16} if row["variant"] == "sgemm_vectorized" else None)
    folder.edit("checks", warptile_fails)
    words, _ = drawn(FIGURES[name](folder.read()), tmp_path)
    assert "vectorized†" in words and "† source changed since measured" in words
    if name == "correctness":
        assert re.search(r"\b1 of \d+ failed", words)
    else:
        assert "not shown, failed a check: warptile" in words and words.count("warptile") == 1


def test_the_ladder_s_numbers_are_the_table_s(folder: Folder, tmp_path: Path) -> None:
    words, _ = drawn(ladder.draw(folder.read(), "sgemm_ladder"), tmp_path)
    rows = [row for row in folder.rows("bench") if row["experiment"] == "sgemm_ladder" and row["dtype"] == "fp32"]
    assert len(rows) >= 10
    for row in rows:
        assert style.significant(row["tflops"]) in words, row["variant"]
        if row["variant"] != row["baseline"]:
            assert f"({100 * row['share_of_baseline']:.1f}%)" in words, row["variant"]


def lock(folder: Folder) -> None:
    """Beside each row of bench.csv one with locked clocks, at 1500 MHz."""
    path = folder.measured / "bench.csv"
    times = ("time_us_median", "time_us_ci_low", "time_us_ci_high")
    rows = folder.rows("bench")
    locked = [
        row
        | {name: row[name] * row["sm_clock_mhz"] / 1500 for name in times}
        | {"regime": "locked", "sm_clock_mhz": 1500.0, "tflops": row["tflops"] * 1500 / row["sm_clock_mhz"]}
        for row in rows
    ]
    write_rows(path, "bench", rows + locked)


def test_flop_per_clock_stands_in_where_no_clock_was_locked(folder: Folder, tmp_path: Path) -> None:
    words, _ = drawn(ladder.draw(folder.read(), "sgemm_ladder"), tmp_path)
    row = next(r for r in folder.rows("bench") if (r["experiment"], r["variant"]) == ("sgemm_ladder", "sgemm_warptile"))
    assert "n = 4096, per clock" in words and "FLOP/clock/SM (derived)" in words
    assert style.significant(row["flop_per_clock_sm"]) in words and "locked clocks" not in words.replace("unlocked", "")
    lock(folder)
    words, _ = drawn(ladder.draw(folder.read(), "sgemm_ladder"), tmp_path, "both")
    assert "n = 4096, unlocked clocks" in words and "n = 4096, locked clocks" in words and "derived" not in words
    assert style.significant(row["tflops"] * 1500 / row["sm_clock_mhz"]) in words
    words, _ = drawn(sizes.draw(folder.read(), "sgemm_sizes"), tmp_path, "sizes")
    assert "TFLOP/s, unlocked clocks" in words and "TFLOP/s, locked clocks" in words


@pytest.mark.parametrize(
    ("name", "table"), [("ladder", "bench"), ("sizes", "bench"), ("counters", "counters"), ("correctness", "checks")]
)
def test_a_figure_with_nothing_to_draw_says_so(name: str, table: str, folder: Folder, tmp_path: Path) -> None:
    folder.edit(table, lambda row: None, keep=lambda row: False)
    provenance = read_json(folder.measured / "provenance.json", "provenance")
    stage = {"bench": "bench", "counters": "profile", "checks": "check"}[table]
    provenance["left_out"] = {stage: "the dog ate it"}
    write_json(folder.measured / "provenance.json", "provenance", provenance)
    words, _ = drawn(FIGURES[name](folder.read()), tmp_path)
    assert "left out" in words and "the dog ate it" in words


def test_a_figure_is_the_same_bytes_in_another_process(folder: Folder, tmp_path: Path) -> None:
    written = []
    for seed in ("1", "2"):
        out = tmp_path / seed / "roofline.svg"
        arguments = ("--measured", folder.measured, "--variants", folder.variants, "--archived", "--out", out)
        done = run_module("analysis.roofline", *arguments, PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stderr
        written.append([out.read_bytes(), out.with_suffix(".pdf").read_bytes()])
    assert written[0] == written[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--measured", "/no/such", "--out", "x.svg"], ["no such folder: /no/such"]),
        (["--only", "sgemm_warptle", "--out", "x.svg"], ["unknown variant 'sgemm_warptle'", "nearest: sgemm_warptile"]),
    ],
)
def test_a_wrong_argument_is_one_line(arguments: list[str], words: list[str], folder: Folder, tmp_path: Path) -> None:
    given = ["--measured", folder.measured, "--variants", folder.variants, *arguments]
    assert_one_line(run_module("analysis.counters", *given, cwd=tmp_path), *words)
    assert not (tmp_path / "x.svg").exists()


# ---- tables -----------------------------------------------------------------------------------------------------


def test_the_paper_s_tables_follow_from_the_measured_ones(folder: Folder, tmp_path: Path) -> None:
    made = folder.tables(tmp_path / "tables")
    assert set(made) >= {"ladder", "sizes", "resources", "checks", "counters", "comparison"}
    bench = {(row["experiment"], row["variant"], row["n"]): row for row in folder.rows("bench")}
    timed = made["ladder"] + made["sizes"]
    assert len(timed) == len(bench)
    for row in timed:
        source = bench[row["experiment"], row["variant"], int(row["n"])]
        flop = 2e-6 * source["m"] * source["n"] * source["k"]
        assert float(row["tflops"]) == pytest.approx(flop / source["time_us_median"], rel=1e-4)
        assert float(row["tflops_ci_low"]) <= float(row["tflops"]) <= float(row["tflops_ci_high"])
        assert float(row["share_percent"]) == pytest.approx(100 * source["share_of_baseline"], rel=1e-4)
        assert row["stale"] == "false" and row["clock_held"] in ("true", "false")
    assert {row["experiment"] for row in made["sizes"]} == {"sgemm_sizes"}


def test_a_gain_is_over_the_rung_that_it_builds_on(folder: Folder, tmp_path: Path) -> None:
    rows = {r["variant"]: r for r in folder.tables(tmp_path / "t")["ladder"] if r["experiment"] == "sgemm_ladder"}
    gain = float(rows["sgemm_coalesced"]["tflops"]) / float(rows["sgemm_naive"]["tflops"])
    assert float(rows["sgemm_coalesced"]["gain"]) == pytest.approx(gain, rel=1e-4)
    assert rows["sgemm_naive"]["gain"] == "" and rows["cublas_fp32"]["gain"] == ""


def test_counts_of_checks_and_resources(folder: Folder, tmp_path: Path) -> None:
    folder.edit("checks", warptile_fails)
    made = folder.tables(tmp_path / "t")
    for device, failed in (("gpu", 1), ("ptxsim", 0)):
        cases = [r for r in folder.rows("checks") if (r["variant"], r["device"]) == ("sgemm_warptile", device)]
        (checked,) = [r for r in made["checks"] if (r["variant"], r["device"]) == ("sgemm_warptile", device)]
        assert (int(checked["cases"]), int(checked["failed"])) == (len(cases), failed)
    assert not any(row["variant"] == "sgemm_warptile" for row in made["ladder"] + made["sizes"] + made["counters"])
    resources = {row["variant"]: row for row in made["resources"]}
    for source in folder.rows("resources"):
        row = resources[source["variant"]]
        assert int(row["registers"]) == source["registers"]
        assert float(row["occupancy_percent"]) == pytest.approx(100 * source["occupancy"])


def test_labels_are_marked_also_where_there_are_no_rows() -> None:
    """As when the only kernel that took part failed; a column of no rows may have any dtype."""
    rows = pd.DataFrame({"label": ["naive", "warptile"], "stale": [False, True]})
    assert list(data.marked(rows)) == ["naive", "warptile†"]
    none = pd.DataFrame({"label": pd.Series([], dtype="float64"), "stale": pd.Series([], dtype="object")})
    assert list(data.marked(none)) == []


def test_what_fails_on_the_emulator_alone_is_withheld_too(folder: Folder, tmp_path: Path) -> None:
    """Without a GPU an edited kernel is known to be wrong only from there."""

    def fails(row: dict[str, Any]) -> dict[str, Any] | None:
        bad = (row["variant"], row["device"], row["case"]) == ("sgemm_naive", "ptxsim", "one tile, one k-step")
        return {"passed": False, "detail": "ptxsim: a race"} if bad else None

    folder.edit("checks", fails)
    made = folder.tables(tmp_path / "t")
    assert not any(row["variant"] == "sgemm_naive" for row in made["ladder"] + made["counters"])
    assert any(row["variant"] == "sgemm_coalesced" for row in made["ladder"])


def test_the_comparison_names_the_better_value(folder: Folder, tmp_path: Path) -> None:
    rows = folder.tables(tmp_path / "t")["comparison"]
    duration = next(row for row in rows if "uration" in row["metric"])
    assert float(duration["vectorized"]) < float(duration["blocktile_2d"]) and duration["better"] == "vectorized"
    assert {row["better"] for row in rows} <= {"", "same", "vectorized", "blocktile_2d"}


def test_the_summary_tells_what_is_archived_and_what_is_stale(folder: Folder, tmp_path: Path) -> None:
    folder.edit("variants", lambda row: {"source_hash": "0" * 16} if row["variant"] == "sgemm_naive" else None)
    folder.edit("checks", warptile_fails)
    folder.tables(tmp_path / "t")
    summary = json.loads((tmp_path / "t" / "summary.json").read_text())
    assert summary["archived"] and summary["origin"].startswith("archived: NVIDIA H200")
    assert summary["stale"] == ["naive"] and summary["failed"][0]["label"] == "warptile"
    ladder_entry = next(entry for entry in summary["experiments"] if entry["name"] == "sgemm_ladder")
    assert ladder_entry["missing"] == [] and ladder_entry["best"][0]["label"] != "warptile"


def test_every_counter_that_figures_read_is_collected(archive: Path) -> None:
    """Names in contracts/metrics.yaml are those that the archive has, and analysis asks for no other."""
    names = data.metric_names()
    archived = {row["metric"] for row in read_rows(archive / "counters.csv", "counters")}
    assert archived <= set(names)
    text = "".join(path.read_text() for path in (ROOT / "analysis").glob("*.py"))
    for match in re.findall(r'column\(\w+, "(\w+)"\)', text):
        assert match in names.values(), match


def test_tables_have_every_column_where_there_are_no_rows() -> None:
    assert list(data.table([], "bench").columns) == list(schema("bench")["properties"])
