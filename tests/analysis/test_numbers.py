"""Quantities by name on the archive, expressions over them, and what a GPU does not have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import dict_rows

from analysis.estimates import Estimate, Missing
from analysis.numbers import Numbers
from analysis.results import Results
from contracts import UserError
from contracts.rows import Counters, Resources, Tuning, Variants

PAPER = {
    "published": {"one/speed": 75.0, "two/speed": 1.0},
    "analytic": {("one/case", "degree"): 4, ("one/case", "limiter"): "registers"},
    "compiled": {("sgemm_naive", "sm_86"): {"registers": 40}},
    "emulated": {("sgemm_naive", 4096, 1.0, "memory_l2_theoretical_sectors_global"): 7.0},
}


@pytest.fixture(scope="module")
def numbers(h100: Results) -> Numbers:
    return Numbers(h100, PAPER, worklog="one")


def test_quantities_are_those_of_the_recorded_tables(numbers: Numbers, h100: Results) -> None:
    built = {row["variant"]: row for row in dict_rows(h100.path("resources"), Resources)}
    assert (
        numbers.value("sgemm_warptile", "registers").value == built["sgemm_warptile"]["registers"]
    )
    rows = [
        row
        for row in dict_rows(h100.path("counters"), Counters)
        if row["variant"] == "sgemm_warptile"
    ]
    (counted,) = [
        row["value"]
        for row in rows
        if row["n"] == 4096 and row["metric"] == "sm__inst_executed.sum"
    ]
    assert numbers.evaluate("instructions(sgemm_warptile)") == Estimate.of(counted)
    fraction = numbers.value("cublas_fp32", "fraction", n=8192)
    # it is its own baseline
    assert isinstance(fraction, Estimate) and fraction.low <= 1 <= fraction.high
    assert numbers.evaluate('cell("machine", "sm_count")') == Estimate.of(h100.machine.sm_count)


def test_a_speedup_is_of_fractions_and_a_crossover_begins_after_the_last_size_that_is_slower(
    h100: Results, changed: Callable[..., Results]
) -> None:
    def planted(rows):  # type: ignore[no-untyped-def]
        pair = rows[
            rows["variant"].isin(["sgemm_warptile", "cublas_fp32"]) & (rows["data"] == "uniform")
        ]
        pair = pair[(pair["m"] == pair["n"]) & (pair["n"] == pair["k"])].drop_duplicates(
            ["variant", "n"]
        )
        ours = pair["variant"] == "sgemm_warptile"
        sizes = sorted(set(pair.loc[ours, "n"]) & set(pair.loc[~ours, "n"]))[:4]
        pair = pair[pair["n"].isin(sizes)].assign(
            time_us=7.0, fraction=1.0, fraction_low=1.0, fraction_high=1.0
        )
        at = ours & pair["n"].isin([sizes[0], sizes[3]])
        for column in ("fraction", "fraction_low", "fraction_high"):
            pair.loc[at, column] = 1.25
        return pair

    own = Numbers(changed(h100, timings=planted))
    sizes = own.sizes("sgemm_warptile")
    assert (
        len(sizes) == 4 and own.speedup("sgemm_warptile", "cublas_fp32", n=sizes[0]).value == 1.25
    )
    assert own.crossover("sgemm_warptile", "cublas_fp32").value == sizes[3]
    assert own.crossover("cublas_fp32", "sgemm_warptile").value == 1e9


@pytest.mark.parametrize(
    ("expression", "holds", "words"),
    [
        ("2 < published('speed')", True, "2 < 75"),
        ("published('speed') > 80 or 1 < 2", True, "75 > 80 or true"),
        ("not published('speed') == 75", False, "not (75 = 75)"),
        ("published('speed') / published('two/speed') == 75", True, "75 = 75"),
        (
            "analytic('case', 'degree') == 4 and analytic('case', 'limiter') == 'registers'",
            True,
            None,
        ),
        ("registers(sgemm_naive, arch='sm_86') == 40", True, "40 = 40"),
        ("global_sectors_l2(sgemm_naive, beta=1, device='ptxsim') == 7", True, "7 = 7"),
        ("rounds_to(published('speed') / 2, 37, digit=1)", True, "37.5 = 37 to the nearest 1"),
        ("rounds_to(published('speed') / 2, 36.8, digit=1)", False, "37.5 = 36.8 to the nearest 1"),
        ("max([n for n in [1, 5, 9] if n > 4 and n < 8]) == 5", True, "5 = 5"),
        ("contains('a long name of a kernel, longer than is shown', 'SHOWN')", True, None),
    ],
)
def test_a_comparison_has_its_values_as_words(
    numbers: Numbers, expression: str, holds: bool, words: str | None
) -> None:
    truth = numbers.evaluate(expression)
    assert truth.holds is holds and words in (None, truth.words)


def test_a_sweep_s_tile_is_the_fastest_with_these_parameters(
    numbers: Numbers, h100: Results
) -> None:
    rows = dict_rows(h100.path("tuning"), Tuning)
    best = max(
        row["fraction_of_cublas"]
        for row in rows
        if row["tflops"] and row["kernel"] == "sgemm_warptile"
    )
    found = numbers.evaluate('tile("fraction_of_cublas", kernel="sgemm_warptile")')
    assert found.low < found.value < found.high and found.value == pytest.approx(best, rel=0.01)
    assert numbers.evaluate('tile("BK", kernel="sgemm_warptile", BK=16)').value == 16


def test_what_is_no_expression_is_one_line(numbers: Numbers) -> None:
    for expression, said in {
        'fraction("sgemm_nave")': "unknown variant 'sgemm_nave'",
        "fractoin(sgemm_naive)": "fractoin",
        'published("sped")': "unknown id 'one/sped'",
        'analytic("case", "degrees")': "unknown quantity 'degrees'",
        "1 != 2": "NotEq",
        'tile("speed")': "unknown column 'speed'",
        "fraction(sgemm_naive) and 1 > 0": "where a comparison is needed",
        "().__class__": "not allowed",
    }.items():
        with pytest.raises(UserError, match=said) as error:
            numbers.evaluate(expression)
        assert "\n" not in str(error.value)


def test_a_quantity_comes_from_an_experiment_that_measured_it(h100: Results) -> None:
    """Not every experiment reads the power; other quantities stay those of the best row."""
    name, own = "sgemm_t128x128x8_texld", Numbers(h100)
    rows = own._timings(name, "uniform", "boost")
    first = rows[rows["n"] == 4096].iloc[0]
    lacks = rows.assign(power_w=rows["power_w"].where(rows["experiment"] != first["experiment"]))
    own._timings = lambda *_: lacks  # type: ignore[method-assign,assignment]
    known = lacks[(lacks["n"] == 4096) & lacks["power_w"].notna()].iloc[0]
    assert own.value(name, "power_w").value == known["power_w"]  # type: ignore[union-attr]
    assert own.value(name, "fraction").value == first["fraction"]  # type: ignore[union-attr]


def test_fractions_are_of_all_problems_of_an_experiment_whatever_their_shape(
    shaped: Results, h100: Results
) -> None:
    own = Numbers(shaped)
    mean = 'geometric_mean(fractions(hgemm_best_bf16, experiment="llm_shapes", m=1))'
    assert own.evaluate(mean).value == pytest.approx(1) and own.evaluate(f"{mean} >= 0.99").holds
    assert [one.value for one in own.fractions("hgemm_best_bf16", "llm_shapes")] == [
        0.8,
        1.25,
        0.96,
    ]
    with pytest.raises(Missing, match="no timing of hgemm_best_bf16 in sgemm_sizes"):
        Numbers(h100).fractions("hgemm_best_bf16", "sgemm_sizes")


def test_what_a_gpu_did_not_measure_or_of_another_source_is_missing(
    numbers: Numbers, variants_csv: Path, tmp_path: Path
) -> None:
    calls = (
        "fraction(sgemm_naive, n=4099)",
        'fraction(sgemm_naive, clock_policy="locked")',
        'tile("BK", n=2048)',
    )
    for expression in calls:
        with pytest.raises(Missing):
            numbers.evaluate(expression)
    own = next(
        row["source_hash"]
        for row in dict_rows(variants_csv, Variants)
        if row["variant"] == "sgemm_naive"
    )
    (tmp_path / "variants.csv").write_text(variants_csv.read_text().replace(own, "0" * len(own)))
    with pytest.raises(Missing, match="no timing of sgemm_naive"):
        Numbers(Results(numbers.results.folder, tmp_path / "variants.csv")).evaluate(
            "fraction(sgemm_naive)"
        )


def test_cycles_that_are_an_estimate_are_missing_and_those_of_an_idle_unit_are_none(
    h100: Results, changed: Callable[..., Results]
) -> None:
    assert Numbers(h100).minimum_cycles("sgemm_warptile", "tensor") == Estimate.of(0.0)
    estimated = changed(
        h100, bounds=lambda rows: rows[~rows["resource"].isin(["issue", "fma", "registers"])]
    )
    with pytest.raises(Missing, match="estimate"):
        Numbers(estimated).minimum_cycles("sgemm_warptile", "fma")
