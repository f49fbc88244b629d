"""The one way to a number: quantities by name on the archive, expressions, and what a GPU does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.estimates import Estimate, Missing, Truth
from analysis.numbers import Numbers
from analysis.results import Results
from contracts import UserError, read_rows

PAPER = {
    "published": {"one/speed": 75.0, "two/speed": 1.0},
    "analytic": {("one/case", "degree"): 4, ("one/case", "limiter"): "registers"},
    "compiled": {("sgemm_naive", "sm_86"): {"registers": 40}},
    "emulated": {("sgemm_naive", 4096, 1.0, "memory_l2_theoretical_sectors_global"): 7.0},
}


@pytest.fixture(scope="module")
def numbers(archive: Path, variants_csv: Path) -> Numbers:
    return Numbers(Results(archive, variants_csv), PAPER, worklog="one")


def test_quantities_are_those_of_the_recorded_tables(numbers: Numbers, archive: Path) -> None:
    resources = {row["variant"]: row for row in read_rows(archive / "resources.csv", "resources")}
    registers = numbers.value("sgemm_warptile", "registers")
    assert registers == Estimate.of(resources["sgemm_warptile"]["registers"])
    rows = [row for row in read_rows(archive / "counters.csv", "counters") if row["metric"] == "sm__inst_executed.sum"]
    (counted,) = [row["value"] for row in rows if row["variant"] == "sgemm_warptile" and row["n"] == 4096]
    assert numbers.evaluate("instructions(sgemm_warptile)") == Estimate.of(counted)
    fraction = numbers.value("cublas_fp32", "fraction", n=8192)
    assert isinstance(fraction, Estimate) and fraction.low <= 1 <= fraction.high  # it is its own baseline
    assert numbers.evaluate("speedup(sgemm_naive, over=sgemm_naive)").value == 1
    assert numbers.evaluate('cell("machine", "sm_count")') == Estimate.of(numbers.results.machine["sm_count"])


def test_numbers_of_no_gpu_come_from_the_paper_and_its_own_worklog_first(numbers: Numbers) -> None:
    assert numbers.evaluate('published("speed") / published("two/speed")').value == 75
    assert (
        numbers.evaluate('analytic("case", "degree") == 4 and analytic("case", "limiter") == "registers"').holds is True
    )
    assert numbers.evaluate('registers(sgemm_naive, arch="sm_86")').value == 40
    assert numbers.evaluate('global_sectors_l2(sgemm_naive, beta=1, device="ptxsim")').value == 7


@pytest.mark.parametrize(
    ("expression", "holds", "words"),
    [
        ("2 < published('speed')", True, "2 < 75"),
        ("published('speed') > 80 or 1 < 2", True, "75 > 80 or true"),
        ("not published('speed') == 75", False, "not (75 = 75)"),
        ("rounds_to(published('speed') / 2, 37, digit=1)", True, "37.5 = 37 to the nearest 1"),
        ("rounds_to(published('speed') / 2, 36, digit=1)", False, "37.5 = 36 to the nearest 1"),
        ("max([n for n in [1, 5, 9] if n > 4 and n < 8]) == 5", True, "5 = 5"),
        ("contains('a long name of a kernel, longer than is shown', 'SHOWN')", True, None),
    ],
)
def test_a_comparison_has_its_values_as_words(
    numbers: Numbers, expression: str, holds: bool, words: str | None
) -> None:
    truth = numbers.evaluate(expression)
    assert isinstance(truth, Truth) and truth.holds is holds and words in (None, truth.words)


def test_a_sweep_s_tile_is_the_fastest_with_these_parameters(numbers: Numbers, archive: Path) -> None:
    rows = [
        row
        for row in read_rows(archive / "tuning.csv", "tuning")
        if row["tflops"] and row["kernel"] == "sgemm_warptile"
    ]
    best = max(rows, key=lambda row: row["fraction_of_cublas"])
    found = numbers.evaluate('tile("fraction_of_cublas", kernel="sgemm_warptile")')
    assert found.low < found.value < found.high and found.value == pytest.approx(best["fraction_of_cublas"], rel=0.01)
    assert numbers.evaluate('tile("BK", kernel="sgemm_warptile", BK=16)').value == 16


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("fraction(sgemm_nave)", "sgemm_nave"),
        ('fraction("sgemm_nave")', "unknown variant 'sgemm_nave'"),
        ("fractoin(sgemm_naive)", "fractoin"),
        ('published("sped")', "unknown id 'one/sped'"),
        ('analytic("case", "degrees")', "unknown quantity 'degrees'"),
        ("1 != 2", "NotEq"),
        ('tile("speed")', "unknown column 'speed'"),
        ("fraction(sgemm_naive) and 1 > 0", "where a comparison is needed"),
        ("().__class__", "not allowed"),
    ],
)
def test_what_is_no_expression_is_one_line(numbers: Numbers, expression: str, said: str) -> None:
    with pytest.raises(UserError, match=said.replace("(", r"\(")) as error:
        numbers.evaluate(expression)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "expression",
    ["fraction(sgemm_naive, n=4099)", 'fraction(sgemm_naive, clock_policy="locked")', 'tile("BK", n=2048)'],
)
def test_what_a_gpu_did_not_measure_is_missing(numbers: Numbers, expression: str) -> None:
    with pytest.raises(Missing):
        numbers.evaluate(expression)


def test_a_quantity_comes_from_an_experiment_that_measured_it(numbers: Numbers) -> None:
    """Not every experiment reads the power; other quantities stay those of the best row."""
    name = "sgemm_t128x128x8_texld"
    rows = numbers._timings(name, "uniform", "boost")
    first = rows[rows["n"] == 4096].iloc[0]
    lacks = rows.assign(power_w=rows["power_w"].where(rows["experiment"] != first["experiment"]))
    assert lacks.loc[lacks["n"] == 4096, "power_w"].isna().any()
    other = Numbers(numbers.results)
    other._timings = lambda *_: lacks  # type: ignore[method-assign,assignment]
    known = lacks[(lacks["n"] == 4096) & lacks["power_w"].notna()].iloc[0]
    assert other.value(name, "power_w").value == known["power_w"]  # type: ignore[union-attr]
    assert other.value(name, "fraction").value == first["fraction"]  # type: ignore[union-attr]


def test_a_number_of_an_older_source_is_missing(archive: Path, variants_csv: Path, tmp_path: Path) -> None:
    text = variants_csv.read_text()
    own = next(row["source_hash"] for row in read_rows(variants_csv, "variants") if row["variant"] == "sgemm_naive")
    changed = tmp_path / "variants.csv"
    changed.write_text(text.replace(own, "0" * len(own)))
    with pytest.raises(Missing, match="of its current source"):
        Numbers(Results(archive, changed)).evaluate("fraction(sgemm_naive)")
