"""Every figure draws from the archive, and shows what its tables say: labels, lengths of bars, and
text in the SVG.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from helpers import refused
from matplotlib.text import Text

from analysis import draw
from analysis.figures import error, ladder, roofline, shapes, sizes, stalls, steps, style
from analysis.results import CHANGED, Results
from contracts import REHEARSAL

# What each figure must have among its words; a figure of an experiment as NAME_EXPERIMENT
WORDS = {
    "ladder_sgemm_ladder": ["Simon Boehm", "warptile", "×1.30", "TFLOP/s of cuBLAS"],
    "ladder_hopper_ladder": ["n = 8192", "This project", "wgmma_streamk_bf16", "691 of 695"],
    "counters_sgemm_ladder": ["naive", "occupancy", "pancy"],
    "sizes": ["tma_streamk", "fp32, uniform"],
    "sizes_hopper_sizes": ["bf16, uniform", "wgmma_pingpong_bf16"],
    "fractions": ["isolated", "per clock", "tf32"],
    "power": ["limit 700 W", "zeros"],
    "steps": ["coalesced", "×12.8", "counters moved", "as meant"],
    "stalls": ["Long scoreboard", "warptile"],
    "roofline": ["sgemm.cu, fp32", "wgmma 891", "at_swizzle"],
    "bounds": ["issue slots", "tma_streamk"],
    "emulator": ["within 1%", "Global load sectors"],
    "tiles": ["warptile, BK = 16", "43.7", "8×8"],
    "error": ["3xtf32_wgmma", "k"],
    "issue": ["neighbours merged", "wavefronts of a load"],
}


SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def closed() -> None:
    plt.close("all")


def texts(root: ET.Element) -> list[str]:
    """The texts of an SVG, each on one line."""
    return [" ".join("".join(text.itertext()).split()) for text in root.iter(f"{SVG}text")]


def test_each_figure_has_its_words_as_text_a_title_and_readable_print(made: Path) -> None:
    drawn = {path.stem for path in (made / "figures").glob("*.svg")}
    assert set(WORDS) <= drawn and len(drawn) >= len(draw.FIGURES)
    for name in drawn:
        file = made / "figures" / f"{name}.svg"
        root = ET.parse(file).getroot()
        assert root.get("role") == "img" and root.findtext(f"{SVG}title"), name
        assert root.findtext(f"{SVG}desc"), name
        words = "\n".join(texts(root))
        assert [word for word in WORDS.get(name, ()) if word not in words] == [], (name, words)
        assert "nothing to show" not in words, name
        points = re.findall(r"font-size: ([\d.]+)px", file.read_text())
        assert points and min(map(float, points)) >= 7, name
        assert file.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def test_a_bar_of_the_ladder_is_as_long_as_its_label_says(h100: Results) -> None:
    figure = ladder.draw(h100, "sgemm_ladder")
    (axes,) = figure.axes
    rows = ladder.bars_of(ladder.rungs(h100, "sgemm_ladder"))
    lengths = sorted(patch.get_width() for patch in axes.patches)
    assert lengths == pytest.approx(sorted(100 * rows["fraction"]))
    labels = {text.get_text() for text in axes.texts}
    assert {style.percent(value) for value in rows["fraction"]} <= labels
    assert set(rows["dtype"]) == {"fp32"}  # TF32 libraries are no rungs of this ladder
    assert "cublas_fp32" not in set(rows["variant"])  # it is the line at 100%
    assert any(list(line.get_xdata()) == [100, 100] for line in axes.lines)


def test_rungs_are_grouped_by_worklog_in_the_order_of_the_catalogue(h100: Results) -> None:
    rows = ladder.rungs(h100, "sgemm_ladder")
    worklogs = list(dict.fromkeys(rows["worklog"]))
    assert worklogs[0] == "boehm_sgemm" and worklogs[-2:] == ["ours", "library"]
    assert all((group["order"].diff().dropna() > 0).all() for _, group in rows.groupby("worklog"))
    ys, headings = ladder.rows_of(ladder.bars_of(rows))
    assert len({*ys.values(), *headings.values()}) == len(ys) + len(headings)


def test_stalls_add_up_to_the_cycles_per_instruction_and_intensity_is_of_dram_bytes(
    h100: Results,
) -> None:
    rows = stalls.counted(h100, "sgemm_ladder")
    total = stalls.parts(rows).sum(axis=1)
    cycles = rows["cycles_per_instruction"].astype(float)
    assert total.to_numpy() == pytest.approx(cycles.to_numpy(), rel=0.02)
    rows = roofline.points(h100)
    ladder = roofline.ladders_of(rows, h100.variants)["boehm_sgemm", "fp32"]
    pairs = {(step["over"], step["variant"]) for step in ladder}
    assert ("sgemm_naive", "sgemm_coalesced") in pairs
    row = rows.set_index("variant").loc["sgemm_naive"]
    assert row["intensity"] == pytest.approx(2 * 4096**3 / row["dram_bytes"])


def test_error_bars_of_sizes_are_the_range_of_five_processes_alone(h100: Results) -> None:
    figure = sizes.draw(h100, "sgemm_sizes")
    rows = ladder.bars_of(ladder.rungs(h100, "sgemm_sizes"))
    bars = sum(len(one.get_segments()) for axes in figure.axes for one in axes.collections)
    assert bars == (rows["processes"] >= 5).sum() > 0


def test_shapes_have_the_geometric_mean_over_layers_and_a_mark_for_each_random_problem(
    shaped: Results,
) -> None:
    models, random = shapes.draw(shaped).axes
    ours, triton = (text.get_text() for text in models.get_legend().texts)  # type: ignore[union-attr]
    of_ours, of_triton = (line.get_xydata().tolist() for line in models.lines[:2])  # type: ignore[union-attr]
    assert ours.endswith("B row-major") and triton.startswith("Triton")
    assert of_ours == [pytest.approx([1, 100]), pytest.approx([4096, 96])]
    assert of_triton == [pytest.approx([4096, 70])]
    (marks,) = random.collections  # no square; over cuBLAS's time
    assert marks.get_offsets().tolist() == [pytest.approx([90, 90]), pytest.approx([110, 110])]  # type: ignore[union-attr]
    (alone,) = shapes.draw(shaped, "llm_shapes").axes
    assert len(alone.get_legend().texts) == 1  # type: ignore[union-attr]  # without Triton's experiment
    footers = [
        [text.get_text() for text in shapes.draw(shaped, name).texts]
        for name in ("llm_shapes", "any_shape_fp32")
    ]
    assert ["shaded" in " ".join(footer) for footer in footers] == [True, False]


def test_steps_are_coloured_by_their_counters_and_changes_read_as_percent_or_factor() -> None:
    outcomes = {("as meant",): "as meant", ("as meant", "hardly"): "in part"}
    outcomes |= {("", ""): "unknown", ("", "hardly"): "hardly"}
    assert {moved: steps.outcome(list(moved)) for moved in outcomes} == outcomes
    changes = {(100, 15): "−85%", (10, 34): "×3.40", (100, 142): "+42%"}
    changes |= {(100, 100.1): "unchanged", (0, 5): "none before"}
    assert {pair: steps.change(*pair) for pair in changes} == changes


def test_labels_that_would_overlap_are_pushed_apart_in_their_order() -> None:
    placed = style.apart([1.0, 1.1, 1.2, 5.0], 0.5)
    assert placed[3] == 5.0 and sorted(placed) == placed
    assert [b - a for a, b in pairwise(placed[:3])] == pytest.approx([0.5, 0.5])
    assert sum(placed[:3]) / 3 == pytest.approx(1.1)


@pytest.fixture(scope="module")
def own(h100: Results, variants_csv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one experiment that was just measured, without resources.csv."""
    folder = tmp_path_factory.mktemp("results") / "h100" / "only" / "sgemm_ladder"
    folder.mkdir(parents=True)
    for table in ("machine", "provenance", "samples", "windows", "checks", "counters"):
        path = h100.path(table)
        (folder / path.name).symlink_to(path)
    return folder


@pytest.mark.parametrize("figure", ["ladder", "sizes", "counters", "stalls", "bounds"])
def test_a_measured_experiment_of_which_nothing_counts_is_an_error(
    figure: str, own: Path, variants_csv: Path, tmp_path: Path
) -> None:
    with refused(r"nothing to show.*\d+ kernels, no code hash: resources.csv is missing: naive"):
        draw.draw(Results(own, variants_csv), [f"{figure}:sgemm_ladder"], tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_experiment_that_its_own_folder_lacks_is_an_error_but_not_where_counters_were_not_permitted(
    h100: Results, own: Path, changed: Callable[..., Results], tmp_path: Path
) -> None:
    others = lambda rows: rows.query("experiment != 'sgemm_ladder'")
    alone = changed(h100, windows=others, timings=others, counters=lambda rows: rows.iloc[:0])
    alone.folder = own
    for name, why in (("ladder", "It was not measured"), ("counters", "Nothing was profiled")):
        with refused(rf"nothing to show\. {why}\."):
            draw.draw(alone, [f"{name}:sgemm_ladder"], tmp_path)
    left_out = {"left_out": {"profile": "no permission"}}
    alone.provenance = h100.provenance.model_copy(update=left_out)
    draw.draw(alone, ["counters:sgemm_ladder"], tmp_path)
    assert "no permission" in (tmp_path / "counters_sgemm_ladder.svg").read_text()


def test_an_archive_that_lacks_an_experiment_or_is_older_than_its_kernels_says_so(
    h100: Results,
    h200: Results,
    changed: Callable[..., Results],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    older = changed(h100, windows=lambda rows: rows.assign(code_hash="0" * 16))
    for results, experiment, said in (
        (h200, "hopper_level", "It was not measured."),
        (older, "sgemm_ladder", f"kernels, {CHANGED}: naive, "),
    ):
        draw.draw(results, [f"ladder:{experiment}"], tmp_path)
        (line,) = capsys.readouterr().err.splitlines()
        assert "nothing to show" in line and said in line
    assert len(list(tmp_path.glob("*.svg"))) == 2


def test_a_rehearsal_s_figures_say_so_at_the_top_once(rehearsed: Results, tmp_path: Path) -> None:
    draw.draw(rehearsed, ["ladder:sgemm_ladder", "tiles"], tmp_path)
    for name in ("ladder_sgemm_ladder", "tiles"):
        root = ET.parse(tmp_path / f"{name}.svg").getroot()
        assert texts(root).count(REHEARSAL) == 1
        assert REHEARSAL in str(root.findtext(f"{SVG}desc"))


def test_a_figure_without_measurements_says_so(
    h100: Results, changed: Callable[..., Results]
) -> None:
    figure = error.draw(changed(h100, error_over_k=lambda rows: rows.iloc[:0]))
    assert any("nothing to show" in text.get_text() for text in figure.findobj(Text))
