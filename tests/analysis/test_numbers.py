"""Quantities by name on the archive, expressions over them, and what a GPU does not have."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest
from frames import with_cells
from helpers import dict_rows, refused

from analysis.estimates import Estimate, Missing
from analysis.numbers import Numbers
from analysis.results import Results

PAPER = {
    "published": {"one/speed": 75.0, "two/speed": 1.0},
    "units": {"one/speed": "MB"},
    "analytic": {
        ("one/case", "degree"): 4,
        ("one/case", "limiter"): "registers",
        ("one/case", "read_bytes"): 12345678,
    },
    "compiled": {("sgemm_naive", "sm_86"): {"registers": 40}},
    "emulated": {("sgemm_naive", 4096, 1.0, "memory_l2_theoretical_sectors_global"): 7.0},
}
ENDS = ("", "_low", "_high")


@pytest.fixture(scope="module")
def numbers(h100: Results) -> Numbers:
    return Numbers(h100, PAPER, worklog="one")


def test_quantities_are_those_of_the_recorded_tables(numbers: Numbers, h100: Results) -> None:
    built, counted = (
        [row for row in dict_rows(h100.path(name), name) if row["variant"] == "sgemm_warptile"]
        for name in ("resources", "counters")
    )
    assert numbers.value("sgemm_warptile", "registers") == Estimate.of(built[0]["registers"])
    counters = {(row["n"], row["metric"]): row["value"] for row in counted}
    executed = Estimate.of(counters[4096, "sm__inst_executed.sum"])
    assert numbers.evaluate("instructions(sgemm_warptile)") == executed
    fraction = numbers.value("cublas_fp32", "fraction", n=8192)
    # it is its own baseline
    assert isinstance(fraction, Estimate) and fraction.low <= 1 <= fraction.high
    assert numbers.evaluate('cell("machine", "sm_count")') == Estimate.of(h100.machine.sm_count)


def test_a_speedup_is_of_fractions(h100: Results, changed: Callable[..., Results]) -> None:
    fractions = {"sgemm_warptile": 1.25, "cublas_fp32": 1.0}

    def planted(rows: pd.DataFrame) -> pd.DataFrame:
        for variant, value in fractions.items():
            for end in ("", "_low", "_high"):
                rows.loc[rows["variant"] == variant, f"fraction{end}"] = value
        return rows.assign(time_us=7.0)

    numbers = Numbers(changed(h100, timings=planted))
    assert numbers.speedup(*fractions) == Estimate.of(1.25)
    assert numbers.sizes("sgemm_warptile", experiment="sgemm_ladder") == [4096]


@pytest.mark.parametrize(
    ("expression", "holds", "words"),
    [
        ("2 < published('speed')", True, "2 < 75"),
        ("published('speed') > 80 or 1 < 2", True, "75 > 80 or true"),
        ("not published('speed') == 75", False, "not (75 = 75)"),
        ("published('speed') / published('two/speed') == 75", True, "75 = 75"),
        ("analytic('case', 'degree') == 4", True, "4 = 4"),
        ("analytic('case', 'limiter') == 'registers'", True, "registers"),
        ("registers(sgemm_naive, arch='sm_86') == 40", True, "40 = 40"),
        ("global_sectors_l2(sgemm_naive, beta=1, device='ptxsim') == 7", True, "7 = 7"),
        ("rounds_to(published('speed') / 2, 37, digit=1)", True, "37.5 = 37 to the nearest 1"),
        ("rounds_to(published('speed') / 2, 36.8, digit=1)", False, "37.5 = 36.8 to the nearest 1"),
        ("max([n for n in [1, 5, 9] if n > 4 and n < 8]) == 5", True, "5 = 5"),
        ("contains('a long name', 'LONG')", True, "'LONG' in a long name"),
    ],
)
def test_a_comparison_has_its_values_as_words(
    numbers: Numbers, expression: str, holds: bool, words: str
) -> None:
    truth = numbers.evaluate(expression)
    assert (truth.holds, truth.words) == (holds, words)


@pytest.mark.parametrize(
    ("expression", "claimed", "measured"),
    [
        ("rounds_to(3 * 23, published('speed'), digit=1)", "75 MB", "69 MB"),
        ("max(published('speed') - 1, 1) < 80 or 1 > 2", None, "74 MB"),
        ("fraction(sgemm_naive) > 0.5", "more than 50.0%", "0.969 [0.966, 0.969]%"),
        ("analytic('case', 'degree') <= 1", "at most 1 way", "4 ways"),
        ("analytic('case', 'read_bytes') >= 2e10", "at least 20 G bytes", "12.3 M bytes"),
        ("analytic('case', 'read_bytes') == 12345679", "12,345,679 bytes", "12,345,678 bytes"),
        (
            "registers(sgemm_naive) < 10000 and ffma(sgemm_naive) == 17",
            "less than 10,000 registers; 17 FFMA",
            "32 registers; 30 FFMA",
        ),
        ("contains('a long name', 'LONG')", "LONG", "a long name"),
        ("analytic('case', 'limiter') == 'none'", "none", "registers"),
        ("not analytic('case', 'degree') == 1", None, None),
    ],
)
def test_both_sides_of_a_comparison_have_their_unit(
    numbers: Numbers, expression: str, claimed: str, measured: str
) -> None:
    truth = numbers.evaluate(expression)
    assert (truth.claimed, truth.measured) == (claimed, measured)


def test_a_sweep_s_tile_is_the_fastest_with_these_parameters(
    numbers: Numbers, h100: Results
) -> None:
    rows = h100.raw("tuning").query("kernel == 'sgemm_warptile' and tflops.notna()")
    tile = numbers.evaluate('tile("fraction_of_cublas", kernel="sgemm_warptile")')
    assert tile.value == pytest.approx(rows["fraction_of_cublas"].max(), rel=0.01)
    assert tile.low < tile.value < tile.high
    assert numbers.evaluate('tile("BK", kernel="sgemm_warptile", BK=16)').value == 16


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ('fraction("sgemm_nave")', "unknown variant 'sgemm_nave'"),
        ("fractoin(sgemm_naive)", "unknown function 'fractoin'"),
        ('published("sped")', "unknown id 'one/sped'"),
        ('analytic("case", "degrees")', "unknown quantity 'degrees'"),
        ("1 != 2", "NotEq"),
        ('tile("speed")', "unknown column 'speed'"),
        ("fraction(sgemm_naive) and 1 > 0", "where a comparison is needed"),
        ("().__class__", "not allowed"),
    ],
)
def test_what_is_no_expression_is_one_line(numbers: Numbers, expression: str, said: str) -> None:
    with refused(said):
        numbers.evaluate(expression)


def test_a_quantity_comes_from_an_experiment_that_measured_it(
    h100: Results, changed: Callable[..., Results]
) -> None:
    """Not every experiment reads the power; other quantities stay those of the best row."""
    name = "sgemm_t128x128x8_texld"
    rows = Numbers(h100)._timings(name, "uniform", "boost").query("n == 4096")
    first, second = rows.drop_duplicates("experiment").to_dict("records")[:2]
    unread = with_cells("power_w", float("nan"), variant=name, experiment=first["experiment"])
    numbers = Numbers(changed(h100, timings=unread))
    assert numbers.value(name, "power_w") == Estimate(*(second[f"power_w{e}"] for e in ENDS))
    assert numbers.value(name, "fraction") == Estimate(*(first[f"fraction{e}"] for e in ENDS))


def test_fractions_are_of_all_problems_of_an_experiment_whatever_their_shape(
    shaped: Results, h100: Results
) -> None:
    numbers = Numbers(shaped)
    mean = 'geometric_mean(fractions(hgemm_best_bf16, experiment="llm_shapes", m=1))'
    assert numbers.evaluate(mean).value == pytest.approx(1)
    assert numbers.evaluate(f"{mean} >= 0.99").holds
    fractions = numbers.fractions("hgemm_best_bf16", "llm_shapes")
    assert [fraction.value for fraction in fractions] == [0.8, 1.25, 0.96]
    with pytest.raises(Missing, match="no timing of hgemm_best_bf16 in sgemm_sizes"):
        Numbers(h100).fractions("hgemm_best_bf16", "sgemm_sizes")


@pytest.mark.parametrize(
    "expression",
    [
        "fraction(sgemm_naive, n=4099)",
        'fraction(sgemm_naive, clock_policy="locked")',
        'tile("BK", n=2048)',
    ],
)
def test_what_a_gpu_did_not_measure_is_missing(numbers: Numbers, expression: str) -> None:
    with pytest.raises(Missing):
        numbers.evaluate(expression)


def test_cycles_that_are_an_estimate_are_missing_and_those_of_an_idle_unit_are_none(
    h100: Results, changed: Callable[..., Results]
) -> None:
    assert Numbers(h100).minimum_cycles("sgemm_warptile", "tensor") == Estimate.of(0.0)
    counted = ["issue", "fma", "registers"]
    estimated = changed(h100, bounds=lambda rows: rows[~rows["resource"].isin(counted)])
    with pytest.raises(Missing, match="estimate"):
        Numbers(estimated).minimum_cycles("sgemm_warptile", "fma")


def test_values_are_divided_on_one_gpu(h100: Results, changed: Callable[..., Results]) -> None:
    """Two GPUs clock apart, and each GPU's zeros clock 1% higher than its uniform inputs."""
    clocks = {("a", "zeros"): 2020.0, ("a", "uniform"): 2000.0, ("b", "zeros"): 1919.0}
    clocks |= {("b", "uniform"): 1900.0, ("c", "uniform"): 3000.0}
    rows = h100.by_process.query("variant == 'cublas_bf16' and n == 8192").iloc[:1]
    rows = pd.concat(
        rows.assign(session=gpu, data=data, sm_clock_mhz=mhz) for (gpu, data), mhz in clocks.items()
    )
    numbers = Numbers(changed(h100, by_process=lambda _: rows))
    ratio = numbers.same_gpu(
        "sm_clock_mhz", "cublas_bf16", n=8192, data="zeros", over_data="uniform"
    )
    assert ratio.low == pytest.approx(1.01) == ratio.high
    with pytest.raises(Missing, match="no GPU measured sm_clock_mhz of both"):
        numbers.same_gpu("sm_clock_mhz", "cublas_bf16", n=8192, data="normal", over_data="zeros")
