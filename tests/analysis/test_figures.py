"""Every figure draws from the archive, and shows what its tables say: labels, lengths of bars, and text in the SVG."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from helpers import run_module
from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis import draw
from analysis.figures import ladder, roofline, sizes, stalls, steps, style
from analysis.results import Results
from contracts import UserError

# What each figure must have among its words; a figure of an experiment as NAME:EXPERIMENT
WORDS = {
    "ladder:sgemm_ladder": ["boehm_sgemm", "warptile", "×1.30", "TFLOP/s"],
    "ladder:hopper_ladder": ["n = 16384", "ours, bf16", "wgmma_streamk_bf16"],
    "counters:sgemm_ladder": ["naive", "occu-\npancy\n%"],
    "sizes": ["tma_streamk", "fp32, uniform"],
    "sizes:hopper_sizes": ["bf16, zeros", "wgmma_pingpong_bf16"],
    "overview:light": ["cuBLAS", "wingedge_sgemm", "×12.9"],
    "overview:dark": ["sgemm_cu"],
    "fractions": ["isolated", "per clock", "tf32"],
    "shapes": ["sgemm_best", "geometric mean"],
    "power": ["limit 700 W", "zeros"],
    "gpus": ["n = 8192", "wgmma_pingpong_bf16"],
    "published": ["boehm_sgemm, RTX A6000", "94%"],
    "steps": ["coalesced", "×12.9", "counters moved", "as meant"],
    "stalls": ["Long scoreboard", "warptile"],
    "roofline": ["sgemm_cu, fp32", "wgmma 899", "at_swizzle"],
    "bounds": ["issue slots", "tma_streamk"],
    "emulator": ["within 1%", "Global load sectors"],
    "tiles": ["warptile, BK = 16", "43.3\n8×8"],
    "error": ["3xtf32_wgmma", "k"],
    "issue": ["neighbours merged", "wavefronts of a load"],
}


@pytest.fixture(scope="module")
def results(archive: Path, variants_csv: Path) -> Results:
    return Results(archive, variants_csv)


@pytest.fixture(scope="module")
def drawn(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every figure of `WORDS`."""
    out = tmp_path_factory.mktemp("figures")
    draw.draw(results, list(WORDS), out)
    return out


@pytest.fixture(autouse=True)
def closed() -> None:
    plt.close("all")


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text().strip()]


def test_every_module_is_drawn_here() -> None:
    assert {name.partition(":")[0] for name in WORDS} == set(draw.FIGURES)


@pytest.mark.parametrize("name", WORDS)
def test_a_figure_has_its_words_as_text_and_a_title(name: str, drawn: Path) -> None:
    stem = name.replace(":", "_")
    root = ET.parse(drawn / f"{stem}.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "img" and root.findtext(f"{space}title") and root.findtext(f"{space}desc")
    texts = [" ".join("".join(one.itertext()).split()) for one in root.iter(f"{space}text")]
    missing = [
        word for word in WORDS[name] if not all(any(part in text for text in texts) for part in word.split("\n"))
    ]
    assert not missing, (missing, texts)
    points = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", (drawn / f"{stem}.svg").read_text())]
    assert points and min(points) >= 7
    assert (drawn / f"{stem}.pdf").read_bytes().startswith(b"%PDF") and not any(
        "nothing to show" in text for text in texts
    )


def test_a_bar_of_the_ladder_is_as_long_as_its_label_says(results: Results) -> None:
    figure = ladder.draw(results, "sgemm_ladder")
    (axes,) = figure.axes
    rows = ladder.shown(ladder.rungs(results, "sgemm_ladder"))
    lengths = sorted(patch.get_width() for patch in axes.patches)
    assert lengths == pytest.approx(sorted(100 * rows["fraction"]))
    labels = {text.get_text() for text in axes.texts}
    assert {style.percent(value) for value in rows["fraction"]} <= labels
    assert set(rows["dtype"]) == {"fp32"}  # TF32 libraries are no rungs of this ladder
    assert "cublas_fp32" not in set(rows["variant"])  # it is the line at 100%
    assert any(list(line.get_xdata()) == [100, 100] for line in axes.lines)


def test_rungs_are_grouped_by_worklog_in_the_order_of_the_catalogue(results: Results) -> None:
    rows = ladder.rungs(results, "sgemm_ladder")
    worklogs = list(dict.fromkeys(rows["worklog"]))
    assert worklogs[0] == "boehm_sgemm" and worklogs[-2:] == ["ours", "library"]
    assert all((group["order"].diff().dropna() > 0).all() for _, group in rows.groupby("worklog"))
    places, headings = ladder.places_of(ladder.shown(rows))
    assert len(set(places.values()) | set(headings.values())) == len(places) + len(headings)


def test_stalls_of_a_kernel_add_up_to_its_cycles_per_instruction(results: Results) -> None:
    rows = stalls.counted(results, "sgemm_ladder")
    total = stalls.parts(rows).sum(axis=1)
    assert total.to_numpy() == pytest.approx(rows["cycles_per_instruction"].astype(float).to_numpy(), rel=0.02)


def test_the_roofline_has_the_steps_of_a_ladder_as_arrows(results: Results) -> None:
    rows = roofline.points(results)
    ladders = roofline.ladders_of(rows, results.variants)
    pairs = {(step["over"], step["variant"]) for step in ladders["boehm_sgemm", "fp32"]}
    assert ("sgemm_naive", "sgemm_coalesced") in pairs
    row = rows.set_index("variant").loc["sgemm_naive"]
    assert row["intensity"] == pytest.approx(2 * 4096**3 / row["dram_bytes"])


def test_error_bars_of_sizes_are_the_range_of_five_processes_alone(results: Results) -> None:
    figure = sizes.draw(results, "sgemm_sizes")
    rows = ladder.shown(ladder.rungs(results, "sgemm_sizes"))
    bars = sum(len(one.get_segments()) for axes in figure.axes for one in axes.collections)
    assert bars == (rows["processes"] >= 5).sum() > 0


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        (["as meant"], "as meant"),
        (["as meant", "hardly"], "in part"),
        (["", ""], "unknown"),
        (["", "hardly"], "hardly"),
    ],
)
def test_a_step_with_several_counters_has_one_colour(moved: list[str], expected: str) -> None:
    assert steps.outcome(moved) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(100, 15, "−85%"), (10, 34, "×3.40"), (100, 142, "+42%"), (100, 100.1, "unchanged"), (0, 5, "none before")],
)
def test_a_change_reads_as_percent_or_factor(before: float, after: float, expected: str) -> None:
    assert steps.change(before, after) == expected


def test_labels_that_would_overlap_are_pushed_apart_in_their_order() -> None:
    placed = style.apart([1.0, 1.1, 1.2, 5.0], 0.5)
    assert placed[3] == 5.0 and sorted(placed) == placed
    assert [b - a for a, b in pairwise(placed[:3])] == pytest.approx([0.5, 0.5])
    assert sum(placed[:3]) / 3 == pytest.approx(1.1)


def test_a_figure_without_measurements_says_so(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = {name: pd.DataFrame(columns=rows.columns) for name, rows in results._read.items()}
    bare = Results(results.folder, results.catalogue)
    bare._read.update(empty | {"error_over_k": results.raw("error_over_k").iloc[:0]})
    from analysis.figures import error

    assert any("nothing to show" in word for word in words(error.draw(bare)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ladders", "'ladders'"),
        ("ladder:", "'ladder:'"),
        ("ladder:none", "no such experiment"),
        ("overview:red", "red"),
    ],
)
def test_a_wrong_name_is_one_clear_line(name: str, expected: str, results: Results, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=expected):
        draw.draw(results, [name], tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_command_refuses_a_folder_without_tables(variants_csv: Path, tmp_path: Path) -> None:
    done = run_module(
        "analysis.draw", "--results", tmp_path, "--catalogue", variants_csv, "--out", tmp_path, "fractions"
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "nothing was timed" in done.stderr
