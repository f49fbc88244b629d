"""The figures of the paper: what is drawn is what the tables say, can be read, and is the same each time."""

from __future__ import annotations

import dataclasses
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from helpers import ROOT, assert_one_line, run_module
from machine_folder import Folder, Still, texts_of, warptile_fails
from made_inputs import write_inputs
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from analysis import findings, registry
from analysis.data import Measured, metric_names, table, wide
from analysis.figures import (
    autotune,
    bounds,
    clock_split,
    correctness,
    counters,
    data_kinds,
    dispatch,
    energy,
    ladder,
    machines,
    occupancy,
    paper_ladder,
    paper_shares,
    predicted,
    published,
    roofline,
    sizes,
    stalls,
    style,
    wave_quantization,
)
from analysis.statistics import IN_TURNS
from analysis.tables import autotune as tables_autotune
from analysis.tables import machines as tables_machines
from analysis.tables import published as tables_published
from contracts import archives, read_json, read_rows, worklogs, write_json, write_rows
from kernels import catalogue

SMALLEST = 7.0  # points, as printed


@pytest.fixture
def folder(tmp_path: Path, archive: Path) -> Folder:
    return Folder(tmp_path, archive)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Figures of a test do not outlive it."""
    yield
    style.plt.close("all")


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Folder:
    """The same, for tests that change nothing."""
    return Still(tmp_path_factory.mktemp("still"), archive)


def rows_of(folder: Folder, name: str) -> pd.DataFrame:
    return table(folder.rows(name), name)


# What the worklogs say, as rows of published.csv: line, rung, gpu, n, quantity, value, unit.
PUBLISHED = {
    "A": [
        (7, "sgemm_warptile", "RTX A6000", None, "share_of_cublas", 94, "%"),
        (106, "sgemm_coalesced", "RTX A6000", None, "performance", 2000, "GFLOP/s"),
        (309, "sgemm_warptile", "RTX A6000", None, "performance", 21.7, "TFLOP/s"),
        (309, "sgemm_warptile", "RTX A6000", None, "gap_to_cublas", 10, "%"),
    ],
    "B": [
        (8, "sgemm_at_swizzle_dbf_rw", "RTX 5060 Laptop GPU", 4096, "time", 13.85, "ms"),
        (8, "cublas_fp32", "RTX 5060 Laptop GPU", 4096, "time", 14.33, "ms"),
        (373, "torch_matmul_fp32", "RTX 5060 Laptop GPU", 4096, "time", 14.974799, "ms"),
        (374, "cublas_fp32", "RTX 5060 Laptop GPU", 4096, "time", 14.523163, "ms"),
        (375, "sgemm_tiling", "RTX 5060 Laptop GPU", 4096, "time", 18.760985, "ms"),
        (379, "sgemm_at_swizzle_dbf_rw", "RTX 5060 Laptop GPU", 4096, "time", 14.193397, "ms"),
    ],
    "C": [(468, "sgemm_t128x128x8", "RTX 3090", None, "lead_over_cublas", 3, "%")],
}


def published_rows() -> pd.DataFrame:
    rows = []
    for worklog, entries in PUBLISHED.items():
        for number, (line, rung, gpu, n, quantity, value, unit) in enumerate(entries):
            known = {"rung": rung, "m": n, "n": n, "k": n, "gpu": gpu, "regime": None, "note": None}
            text = {"section": "-", "as_written": str(value), "subject": "speed of a kernel"}
            number = {"id": f"{worklog.lower()}-{number}", "worklog": worklog, "line": line}
            rows.append(number | text | known | {"quantity": quantity, "value": float(value), "unit": unit})
    return pd.DataFrame(rows)


def of_tuning(folder: Folder) -> Figure:
    return autotune.draw(tables_autotune.of(folder.inputs()))


def of_finding(name: str) -> Callable[[Folder, Measured], Figure]:
    """The figure of a finding, drawn from a findings.json of the folder's tables."""

    def drawn(folder: Folder, _: Measured) -> Figure:
        inputs = dataclasses.replace(folder.inputs(), reports=folder.variants.parent)
        if not (path := inputs.reports / "findings.json").is_file():
            path.write_text(findings.document(inputs))
        figure: Figure = registry.figures()[f"finding_{name}"].load()(inputs)
        return figure

    return drawn


# Of `alignment` the archive has no tables: it is worked out
FINDINGS = [name for name, one in findings.manifests().items() if "figure" in one and name != "alignment"]
FIGURES: dict[str, Callable[[Folder, Measured], Figure]] = {
    "ladder": lambda _, measured: ladder.draw(measured, "sgemm_ladder"),
    "sizes": lambda _, measured: sizes.draw(measured, "sgemm_sizes"),
    "data_kinds": lambda _, measured: data_kinds.draw(measured, "clock_regimes"),
    "counters": lambda _, measured: counters.draw(measured),
    "stalls": lambda _, measured: stalls.draw(measured),
    "roofline": lambda _, measured: roofline.draw(measured),
    "correctness": lambda _, measured: correctness.draw(measured),
    "clock_split": lambda _, measured: clock_split.draw(measured),
    "energy": lambda _, measured: energy.draw(measured),
    "occupancy": lambda folder, measured: occupancy.draw(measured, rows_of(folder, "resources")),
    "wave_quantization": lambda folder, measured: wave_quantization.draw(measured, rows_of(folder, "resources")),
    "bounds": lambda folder, measured: bounds.draw(measured, rows_of(folder, "bounds")),
    "predicted": lambda folder, measured: predicted.draw(
        measured, table(read_rows(folder.measured / "predictions.csv", "counters"), "counters")
    ),
    "published": lambda _, measured: published.draw(measured, published_rows()),
    "autotune": lambda folder, _: of_tuning(folder),
    "paper_ladder": lambda _, measured: paper_ladder.draw(measured),
    "paper_shares": lambda _, measured: paper_shares.draw(measured),
    "dispatch": lambda folder, _: dispatch.dispatch_figure(folder.inputs()),
} | {f"finding_{name}": of_finding(name) for name in FINDINGS}
COLUMN = [name for name in FIGURES if name.startswith(("paper_", "finding_"))]  # as wide as a column of the paper
NEW = ["clock_split", "energy", "occupancy", "published"]  # those that draw nothing stale


def seen_words(figure: Figure) -> list[str]:
    return [text.get_text() for text in texts_of(figure)]


def marks(figure: Figure, axes: int) -> list[tuple[float, float]]:
    """Where the marks of one of the figure's axes stand, in its units."""
    found = [part for part in figure.axes[axes].collections if isinstance(part, PathCollection)]
    return [(float(x), float(y)) for part in found for x, y in part.get_offsets()]


# ---- every figure -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_fits_its_page_and_can_be_read(name: str, still: Folder) -> None:
    """As wide as its place; no type below seven points, none cut off, and no two words on one another."""
    figure = FIGURES[name](still, still.read())
    assert figure.get_figwidth() == (style.COLUMN if name in COLUMN else style.WIDTH)
    found = texts_of(figure)
    assert len(found) > 10
    point = figure.dpi / 72
    boxes = []
    for text in found:
        assert text.get_fontsize() >= SMALLEST, (text.get_text(), text.get_fontsize())
        box = text.get_window_extent()
        assert min(box.x0, box.y0) >= -point, text.get_text()
        assert box.x1 <= figure.bbox.x1 + point and box.y1 <= figure.bbox.y1 + point, text.get_text()
        if text.get_rotation() == 0:
            boxes.append((text.get_text(), box))
    assert not [
        (one, other)
        for number, (one, box) in enumerate(boxes)
        for other, second in boxes[number + 1 :]
        if min(box.x1, second.x1) - max(box.x0, second.x0) > point / 2
        and min(box.y1, second.y1) - max(box.y0, second.y0) > 0.35 * min(box.height, second.height)
    ]


@pytest.mark.parametrize("name", NEW)
def test_a_figure_says_where_from_and_withholds_what_failed_or_is_stale(
    name: str, folder: Folder, archived_gpu: str
) -> None:
    stale = {"published": "sgemm_tiling"}.get(name, "sgemm_vectorized")
    label = stale.removeprefix("sgemm_")
    whole = FIGURES[name](folder, folder.read())
    assert label in seen_words(whole) and "warptile" in seen_words(whole)
    assert any(f"archived: {archived_gpu}" in " ".join(words.split()) for words in seen_words(whole))
    folder.edit("variants", lambda row: {"source_hash": "0" * 16} if row["variant"] == stale else None)
    folder.edit("checks", warptile_fails)
    words = seen_words(FIGURES[name](folder, folder.read()))
    (note,) = (" ".join(word.split()) for word in words if "archived: NVIDIA" in word)
    assert "not shown, failed a check: warptile" in note
    assert f"not shown, source changed since measured: {label}" in note
    rungs = [word for word in words if word in {"warptile", label}]
    assert rungs == ([label] if name == "published" else []), rungs  # what the worklog says of it stays


@pytest.mark.parametrize(("name", "file"), [("clock_split", "bench"), ("energy", "bench"), ("occupancy", "counters")])
def test_a_figure_with_nothing_to_draw_says_why(name: str, file: str, folder: Folder) -> None:
    folder.edit(file, lambda row: None, keep=lambda row: False)
    provenance = read_json(folder.measured / "provenance.json", "provenance")
    provenance["left_out"] = {"bench": "the dog ate it", "profile": "the dog ate it"}
    write_json(folder.measured / "provenance.json", "provenance", provenance)
    words = " ".join(seen_words(FIGURES[name](folder, folder.read())))
    assert "left out" in words and "the dog ate it" in words


def test_a_figure_of_words_alone_is_saved_without_a_warning(folder: Folder, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        style.save(style.left_out(folder.read(), "A thing", "the dog ate it"), tmp_path / "words.svg")


def test_the_report_ships_no_figure_of_words_alone(folder: Folder, tmp_path: Path) -> None:
    drawn, stub, later = (tmp_path / f"{name}.svg" for name in ("drawn", "stub", "later"))
    style.save(FIGURES["energy"](folder, folder.read()), drawn)
    style.save(style.left_out(folder.read(), "A thing", "the dog ate it"), stub)
    assert registry.has_content(drawn) and not registry.has_content(stub)
    assert registry.has_content(later)  # before it is drawn, nobody knows


def test_a_ladder_of_many_sizes_fits_a_page(still: Folder) -> None:
    assert ladder.draw(still.read(), "hopper_ladder").get_figheight() <= ladder.PAGE
    titles = [axes.get_title(loc="left") for axes in ladder.draw(still.read(), "sgemm_ladder").axes]
    assert any("per clock" in title for title in titles)  # where there is room


def test_a_note_stays_within_its_figure_whatever_the_gpu_is_called(still: Folder) -> None:
    measured = still.read()
    gpu = "NVIDIA RTX PRO 6000 BLACKWELL MAX-Q WORKSTATION EDITION"
    measured = dataclasses.replace(measured, provenance=measured.provenance | {"gpu": gpu})
    figure = style.plt.figure(figsize=(style.COLUMN, 2))
    style.note(figure, measured, "n = 4096", "UNLOCKED CLOCKS", "m = n = k")
    note = figure.texts[-1]
    assert note.get_window_extent().x1 <= figure.bbox.x1
    lines = note.get_text().splitlines()
    assert len(lines) > 2 and all(any(words in line for line in lines) for words in ("n = 4096", "m = n = k"))


# ---- clock and work per clock -----------------------------------------------------------------------------------


def test_the_two_factors_of_a_gain_multiply_to_it(still: Folder) -> None:
    measured = still.read()
    rows = clock_split.gains(measured.bench, measured.variants)
    assert len(rows) > 30 and {"sgemm", "hgemm", "tf32gemm"} <= set(rows["family"])
    apart = (rows["per_clock"] * rows["clock"] / rows["gain"] - 1).abs()
    assert apart.quantile(0.98) < 0.03 and apart.max() < 0.06  # medians of each, where power moves the clock
    assert ((rows["low"] <= rows["gain"]) & (rows["gain"] <= rows["high"])).all()


def test_a_gain_is_over_the_rung_that_it_builds_on(still: Folder) -> None:
    timed = {
        row["variant"]: row
        for row in still.rows("bench")
        if row["experiment"] == "hgemm_ladder" and row["n"] == 8192 and row["data"] == "uniform"
    }
    ours, before = timed["hgemm_bcf_dbf_bf16"], timed["hgemm_bcf_bf16"]
    measured = still.read()
    rows = clock_split.gains(measured.bench, measured.variants)
    (row,) = rows[(rows["variant"] == "hgemm_bcf_dbf_bf16") & (rows["n"] == 8192)].itertuples()
    assert row.over == "bcf_bf16"
    assert row.gain == pytest.approx(before["time_us_in_turns"] / ours["time_us_in_turns"])
    assert row.clock == pytest.approx(ours["sm_clock_mhz"] / before["sm_clock_mhz"])
    figure = clock_split.draw(measured)
    changes = [x for x, _ in marks(figure, 1)]
    assert min(abs(x - 100 * (row.clock - 1)) for x in changes) < 1e-9
    assert any(re.fullmatch(rf"\d+\.\d+ \| {row.gain:.2f}", word) for word in seen_words(figure))


# ---- energy -----------------------------------------------------------------------------------------------------


def test_energy_is_drawn_as_measured_with_its_spread(still: Folder) -> None:
    figure = energy.draw(still.read())
    bars = [patch.get_width() for axes in figure.axes for patch in axes.patches]
    rows = [row for row in still.rows("bench") if row["experiment"] == "sgemm_ladder"]
    for row in rows:
        for value in (row["power_w"], row["gflop_per_j"]):
            assert min(abs(bar - value) for bar in bars) < 1e-6, row["variant"]
    kept = energy.drawn_rows(still.read().bench).set_index("variant")
    alike = [
        row["power_w"]
        for row in still.rows("bench")
        if (row["variant"], row["n"], row["data"]) == ("sgemm_t128x128x8", 4096, "uniform")
    ]
    assert len(alike) > 2
    assert list(kept.loc["sgemm_t128x128x8", ["power_w_least", "power_w_most"]]) == [min(alike), max(alike)]
    assert f"limit, {still.read().machine['power_limit_w']:.0f} W" in seen_words(figure)


# ---- dispatch ----------------------------------------------------------------------------------------------------


def test_a_dispatcher_s_panel_has_what_it_picked_however_many_kernels_there_are(still: Folder) -> None:
    """And the geometric mean of that above, without the library's own rows and without problems of the fit."""
    rows = []
    for number in range(40):
        sizes = {
            "dispatcher": "sgemm_best",
            "m": 64 + number,
            "n": 64,
            "k": 64,
            "held_out": number < 20,
            "stale": False,
        }
        sizes |= {"shape": "random" if number % 2 else "wide"}
        rows.append(sizes | {"variant": "cublas_fp32", "call": "Lt", "time_us": 8.0, "share": 1.0})
        for kernel in range(12):
            share = (0.25 if number < 10 else 1.0) if kernel == number % 12 else 0.125
            picked = number < 20 and kernel == number % 12
            rows.append(sizes | {"variant": f"k{kernel}", "time_us": 8 / share, "share": share, "picked": picked})
    figure = dispatch.draw(still.read(), pd.DataFrame(rows))
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "sgemm_best: 0.50"
    shown = {handle.get_label(): len(handle.get_offsets()) for handle in axes.collections}
    assert shown == {"of the fit": 20, "random": 10, "wide": 10}


# ---- occupancy --------------------------------------------------------------------------------------------------


def test_the_build_s_model_and_ncu_agree_on_occupancy_and_limiter(still: Folder) -> None:
    measured, resources = still.read(), rows_of(still, "resources")
    rows = occupancy.limits(wide(measured.counters, metric_names()), resources)
    both = rows.merge(resources, on="variant", suffixes=("", "_built"))
    assert len(both) > 30
    assert (both["theoretical_occupancy"] - 100 * both["occupancy"]).abs().max() < 0.1
    assert (both["blocks"] == both["blocks_per_sm"]).all()
    for row in both.itertuples():
        assert row.limiter_built in row.limiter, row.variant
    assert "dispatcher" not in set(rows["kind"])


def test_shared_memory_limits_only_where_all_of_the_sm_s_would(still: Folder) -> None:
    """The driver sets aside no more than registers can use, so that ncu's limits tie."""
    measured, resources = still.read(), rows_of(still, "resources")
    counted = wide(measured.counters, metric_names())
    name = "sgemm_at_swizzle_dbf_rw_1block"
    tied = counted.set_index("variant").loc[name]
    assert tied["blocks_by_shared"] == tied["blocks_by_registers"]
    assert occupancy.limits(counted, resources).set_index("variant").loc[name, "limiter"] == "registers"
    other = resources.assign(limiter=resources["limiter"].where(resources["variant"] != name, "shared"))
    found = occupancy.limits(counted, other).set_index("variant")["limiter"]
    assert found[name] == "registers and shared memory"
    assert "registers and threads" in seen_words(occupancy.draw(measured, resources))


# ---- published and reproduced -----------------------------------------------------------------------------------


def test_shares_follow_from_what_each_worklog_states(still: Folder) -> None:
    rows = published.shares(published_rows(), still.read().variants)
    found = {(row.worklog, row.variant, row.how, round(row.share, 4)) for row in rows.itertuples()}
    assert found == {
        ("A", "sgemm_warptile", "stated", 0.94),
        ("A", "sgemm_warptile", "stated", 0.9),
        ("A", "sgemm_coalesced", "derived", round(2.0 / (21.7 / 0.94), 4)),
        ("B", "sgemm_at_swizzle_dbf_rw", "ratio", round(14.33 / 13.85, 4)),  # each next to the cuBLAS of its own place
        ("B", "sgemm_at_swizzle_dbf_rw", "ratio", round(14.523163 / 14.193397, 4)),
        ("B", "sgemm_tiling", "ratio", round(14.523163 / 18.760985, 4)),
        ("C", "sgemm_t128x128x8", "stated", 1.03),
    }


def test_both_ladders_are_drawn_at_their_shares(still: Folder) -> None:
    measured = still.read()
    figure = published.draw(measured, published_rows())
    seen = {round(x, 3) for x, _ in marks(figure, 0)}
    theirs = published.shares(published_rows(), measured.variants)
    assert {round(100 * share, 3) for share in theirs["share"]} <= seen
    bench = [row for row in still.rows("bench") if row["experiment"] == "sgemm_ladder"]
    own = {row["variant"]: row["share_of_baseline"] for row in bench}
    for rung in ("sgemm_coalesced", "sgemm_tiling", "sgemm_t128x128x8", "sgemm_t128x256x8_cpasync"):
        assert round(100 * own[rung], 3) in seen, rung
    words = seen_words(figure)
    assert "Worklog B: RTX 5060 Laptop GPU, n = 4096" in words and "102–103" in words
    assert "published, cuBLAS derived" in words
    hollow = [
        part
        for part in figure.axes[0].collections
        if isinstance(part, PathCollection) and tuple(part.get_facecolor()[0][:3]) == (1, 1, 1)
    ]
    assert [round(float(part.get_offsets()[0][0]), 3) for part in hollow] == [round(100 * 2.0 / (21.7 / 0.94), 3)]


def test_the_paper_s_own_file_gives_a_ladder_of_each_worklog_with_one(still: Folder) -> None:
    rows = pd.DataFrame(worklogs.published(ROOT / worklogs.FOLDER))
    found = published.shares(rows, still.read().variants)
    ladders = set(rows.loc[rows["quantity"].isin(list(tables_published.SHARES)) & rows["rung"].notna(), "worklog"])
    assert len(ladders) > 2 and ladders <= set(found["worklog"])
    assert found["share"].between(0.001, 2).all()
    assert set(found.loc[found["worklog"] == "A", "variant"]) >= {"sgemm_naive", "sgemm_blocktile_2d", "sgemm_warptile"}
    figure = published.draw(still.read(), rows)
    assert ladders <= {word[8] for word in seen_words(figure) if word.startswith("Worklog ")}


# ---- sizes ------------------------------------------------------------------------------------------------------


def test_a_sweep_shows_free_and_equal_clocks(still: Folder) -> None:
    """At an equal clock the share is that of FLOP/clock/SM, also where the clock of one of the two fell."""
    measured = still.read()
    rows = measured.bench[measured.bench["experiment"] == "sgemm_sizes"]
    slow = rows["variant"] == "sgemm_warptile"  # as if power had taken a tenth of its clock
    rows = rows.assign(
        share_in_turns=rows["share_in_turns"].where(~slow, 0.9 * rows["share_in_turns"]),
        tflops=rows["tflops"].where(~slow, 0.9 * rows["tflops"]),
    )
    figure = sizes.draw(Measured(**vars(measured) | {"bench": rows}), "sgemm_sizes")
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [
        "TFLOP/s, unlocked clocks",
        "FLOP/clock/SM (derived)",
        "share of cuBLAS in turns, unlocked clocks",
        "share of cuBLAS per clock (derived)",
    ]
    shown = [{line.get_label(): line.get_ydata() for line in axes.lines} for axes in figure.axes]
    assert len(shown[0]) == rows["variant"].nunique()
    own = rows[slow].sort_values("n")
    cublas = rows[rows["variant"] == "cublas_fp32"].sort_values("n")
    assert list(shown[2]["warptile"]) == list(own["share_in_turns"])
    equal = own["flop_per_clock_sm"].to_numpy() / cublas["flop_per_clock_sm"].to_numpy()
    assert shown[3]["warptile"] == pytest.approx(equal)
    assert (shown[3]["warptile"] > 1.05 * shown[2]["warptile"]).all()


# ---- machine against machine ------------------------------------------------------------------------------------


def read_machines(folder: Folder, *others: Path) -> dict[str, Measured]:
    return tables_machines.all_runs(dataclasses.replace(folder.inputs(), other_runs=others))


def another(folder: Folder, to: Path, **provenance: Any) -> Path:
    """A copy of the run under another date or machine: to see the drawing, not a second measurement."""
    shutil.copytree(folder.measured, to)
    record = read_json(to / "provenance.json", "provenance")
    write_json(to / "provenance.json", "provenance", record | provenance)
    return to


def test_a_run_and_its_own_archive_are_one(folder: Folder, tmp_path: Path) -> None:
    found = read_machines(folder, another(folder, tmp_path / "copy"))
    assert len(found) == 1
    assert "There is one run only" in " ".join(seen_words(machines.draw(found)))
    assert tables_machines.shares(found).empty


def test_two_runs_stand_side_by_side_rung_by_rung(folder: Folder, tmp_path: Path) -> None:
    other = another(folder, tmp_path / "second", date="2026-11-21")
    moved = 1.25
    path = other / "bench.csv"
    rows = [
        row | ({name: moved * row[name] for name in IN_TURNS} if row["variant"] == "sgemm_tiling" else {})
        for row in read_rows(path, "bench")
        if row["variant"] != "sgemm_naive"
    ]
    write_rows(path, "bench", rows)
    found = read_machines(folder, other)
    distinct = tables_machines.shares(found)
    assert set(distinct.groupby(["variant", "n"]).size()) == {2} and "sgemm_naive" not in set(distinct["variant"])
    assert {4096, 16384} <= set(distinct["n"])
    name = folder.read().provenance["machine"]
    last = distinct[distinct["machine"] == f"{name}, 2026-11-21"].set_index("variant")
    assert last.loc[["sgemm_tiling"], "share_change_percent"].to_numpy() == pytest.approx(25)
    assert last.drop("sgemm_tiling")["share_change_percent"].abs().max() == 0
    assert set(last.index[last["beyond_leases"]]) == {"sgemm_tiling"}
    wide = pd.DataFrame({"variant": ["sgemm_tiling"], "n": [4096], "spread": [0.3]})  # leases differ by more than that
    of_leases = tables_machines.shares(found, wide).query("variant == 'sgemm_tiling' and n == 4096")
    assert not of_leases["beyond_leases"].any()
    figure = machines.draw(found)
    words = seen_words(figure)
    here = folder.read().provenance["date"]
    assert f"{name}, 2026-11-21 against {name}, {here}: share of cuBLAS in turns with it, %" in words
    assert "naive" not in words
    assert "+25" in words and "4096" in words and "16384" in words


def test_a_kernel_that_changed_since_one_run_is_not_compared(folder: Folder, tmp_path: Path) -> None:
    other = another(folder, tmp_path / "second", date="2026-11-21")
    path = other / "bench.csv"
    changed = {"source_hash": "0" * 16}
    rows = [row | (changed if row["variant"] == "sgemm_tiling" else {}) for row in read_rows(path, "bench")]
    write_rows(path, "bench", rows)
    found = read_machines(folder, other)
    assert "sgemm_tiling" not in set(tables_machines.shares(found)["variant"])
    words = " ".join(" ".join(seen_words(machines.draw(found))).split())
    assert "not shown, source changed since measured: tiling" in words


@pytest.mark.skipif(len(archives.folders(ROOT)) < 2, reason="one run is archived, not two")
def test_the_archived_runs_are_drawn_against_each_other(tmp_path: Path, archive: Path, variants_csv: Path) -> None:
    others = [folder for folder in archives.folders(ROOT) if folder.name != archive.name]
    inputs = write_inputs(tmp_path / "inputs.json", archive, variants_csv, other_runs=list(map(str, others)))
    for command in ("tabulate", "draw"):
        done = run_module(f"analysis.{command}", "--inputs", inputs, "--out", tmp_path, "machines")
        assert done.returncode == 0, done.stderr
    rows = pd.read_csv(tmp_path / "machines.csv")
    assert rows["machine"].nunique() == len(others) + 1 and rows["variant"].nunique() > 10


def test_a_folder_that_is_not_there_is_one_line(still: Folder, tmp_path: Path) -> None:
    done = still.drawn(tmp_path / "out", "machines", other_runs=["/no/such"])
    assert_one_line(done, "no such folder: /no/such")
    assert not (tmp_path / "out").exists()


def test_every_kernel_of_the_catalogue_has_its_place_in_the_roofline(still: Folder) -> None:
    """All that have counters and a timing: no rung is left out, and each stands at its own numbers."""
    measured = still.read()
    rows, _ = roofline.points(measured)
    timed = {row["variant"] for row in still.rows("bench") if row["n"] == 4096}
    counted = {row["variant"] for row in still.rows("counters")}
    kernels = set(catalogue.load().runnable)
    assert set(rows["variant"]) >= timed & counted & kernels
    at = {(round(x, 6), round(y, 6)) for x, y in marks(roofline.draw(measured), 0)}
    assert at == {(round(row.intensity, 6), round(row.tflops, 6)) for row in rows.itertuples()}
