"""Measurements beside an archive's: which rows are compared, and which repeat."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from frames import rows_with, with_cells

from analysis import reproduce
from analysis.results import CHANGED, Results
from contracts import REHEARSAL
from contracts.samples import read_samples

FOLDERS = {"results": [Path("here")], "archive": Path("data")}
OPTIONS = argparse.Namespace(**FOLDERS, catalogue=Path("x"), cards=None)
UNSTEADY = "no steady clock"
Changed = Callable[..., Results]


def compared(here: Results, archive: Results, patch: pytest.MonkeyPatch) -> int:
    """Return the exit code of the command on two results folders."""
    folders = {"here": here, "data": archive}
    patch.setattr(reproduce, "Results", lambda folder, _: folders[folder.name])
    return reproduce.run(OPTIONS)


def test_a_row_repeats_inside_the_archives_range_or_within_one_percent(h100: Results) -> None:
    archive = h100.timings.query("experiment == 'sgemm_ladder' and n == 4096")
    archive = archive.set_index("variant", drop=False)
    ours = archive.index[archive["variant"] != archive["baseline"]]
    inside, near, far, other = ours[:4]
    archive.loc[inside, "fraction_high"] = 2.0
    archive.loc[far, "fraction_low"] = archive.loc[far, "fraction"]
    here = archive.copy()
    here.loc[inside, "fraction"] = 1.9
    here.loc[[near, far], "fraction"] *= [1.009, 0.989]
    here.loc[other, "code_hash"] = "another"
    tables = [table.reset_index(drop=True) for table in (here, archive)]
    rows = reproduce.beside(*tables).set_index("variant")
    assert set(rows.index) == set(ours)  # a library next to itself says nothing
    assert rows.index[~rows["repeats"]].to_list() == [far]
    assert rows.index[~rows["same_code"]].to_list() == [other]


def test_each_measured_row_is_shown_or_named_with_its_reason(
    h100: Results, changed: Changed
) -> None:
    def here(rows: pd.DataFrame) -> pd.DataFrame:
        rows = rows[rows["experiment"] == "sgemm_ladder"]
        rows = with_cells("code_hash", "0" * 16, variant="sgemm_naive")(rows)
        return with_cells("passed", False, variant="sgemm_coalesced")(rows)

    def there(rows: pd.DataFrame) -> pd.DataFrame:
        rows = rows[~rows_with(rows, variant="sgemm_warptile", n=4096)]
        rows = rows[rows["variant"] != "sgemm_vectorized"]
        return with_cells("left_out", UNSTEADY, variant="sgemm_tma")(rows)

    pair = changed(h100, windows=here), changed(h100, windows=there)
    rows = reproduce.compared(*pair).set_index("variant")
    assert rows["reason"].dropna().to_dict() == {
        "sgemm_naive": CHANGED,
        "sgemm_coalesced": "failed its check after timing",
        "sgemm_warptile": reproduce.NO_PROBLEM,
        "sgemm_vectorized": reproduce.NO_KERNEL,
        "sgemm_tma": f"in the archive, {UNSTEADY}",
    }
    assert rows.index[~rows["wanted"]].to_list() == ["sgemm_vectorized"]
    lines = reproduce.report(rows.reset_index()).splitlines()
    assert f"not compared, {reproduce.NO_PROBLEM}: sgemm_ladder: warptile 4096 uniform" in lines
    counts = f"compared {len(rows) - 5} of {len(rows) - 1} measured rows"
    assert lines[-1] == f"{counts}; 1 more of kernels that the archive lacks"
    known = rows[rows["reason"].isna()]
    fp32 = int((known["dtype"] == "fp32").sum())
    assert any(line.startswith(f"fp32: {fp32} of {fp32} rows (100%) repeat") for line in lines[-4:])
    alone = reproduce.report(known.iloc[:1].reset_index())
    assert "all: 1 of 1 rows (100%) repeat" in alone


@pytest.mark.parametrize(("same", "code"), [(10, 0), (9, 0), (8, 1)])
def test_fewer_than_nine_in_ten_rows_found_is_an_error(
    same: int, code: int, h100: Results, changed: Changed, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = h100.timings.query("experiment == 'sgemm_ladder' and variant != baseline")
    chosen = list(rows["variant"][:10])

    def ten(rows: pd.DataFrame) -> pd.DataFrame:
        rows = rows[rows_with(rows, experiment="sgemm_ladder", variant=chosen)]
        others = ~rows["variant"].isin(chosen[:same])
        return rows.assign(code_hash=rows["code_hash"].mask(others, "0" * 16))

    assert compared(changed(h100, windows=ten), h100, monkeypatch) == code


def test_a_rehearsal_is_named_first_and_last(
    h100: Results,
    rehearsed: Results,
    changed: Changed,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ladder = changed(h100, windows=lambda rows: rows[rows["experiment"] == "sgemm_ladder"])
    ladder.provenance = rehearsed.provenance
    assert compared(ladder, h100, monkeypatch) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[-1]) == (REHEARSAL, REHEARSAL)


def test_a_row_stands_beside_that_of_its_experiment_and_else_of_the_one_with_most_processes(
    h100: Results,
) -> None:
    # in any order
    row = h100.timings[h100.timings["experiment"] == "sgemm_ladder"].iloc[[0]].assign(baseline="z")
    elsewhere = [
        row.assign(experiment=name, fraction=value, processes=many)
        for name, value, many in (("a", 0.1, 1), ("b", 0.2, 5), ("c", 0.3, 3))
    ]
    archived = pd.concat([*elsewhere, row.assign(processes=1)], ignore_index=True)
    assert reproduce.beside(row, archived)["archived"].tolist() == row["fraction"].tolist()
    assert reproduce.beside(row, archived.iloc[:3])["archived"].tolist() == [0.2]


def test_the_medians_of_a_card_are_of_its_own_processes(h100: Results) -> None:
    row = {"experiment": "hopper_ladder", "variant": "hgemm_wgmma_store_bf16", "n": 8192}
    windows, timed = h100.raw("windows"), read_samples(h100.path("samples")).to_pandas()
    rows, timed = windows[rows_with(windows, **row)], timed[rows_with(timed, **row)]
    counted = timed[rows_with(timed, kept=True, window="interleaved", role="variant")]
    of_process = counted.groupby("process")["time_us"].median()
    first, second = "00000000", "00000001"
    two = rows.assign(session=(rows["process"] < 3).map({True: first, False: second}))

    def medians(windows: pd.DataFrame) -> pd.Series:
        """The median time of each card."""
        folder = SimpleNamespace(raw=lambda _: windows, path=lambda _: h100.path("samples"))
        cards = reproduce.by_card([folder])  # type: ignore[list-item]
        return cards.set_index("session")["time_us_median"]

    expected = {first: of_process.loc[:2].median(), second: of_process.loc[3:].median()}
    assert medians(two).to_dict() == pytest.approx(expected)
    # The fifth process does not count where it failed or was left out.
    for column, value in (("left_out", UNSTEADY), ("passed", False)):
        without = medians(with_cells(column, value, process=4)(two))
        assert without[second] == pytest.approx(of_process.loc[3]) != expected[second]
    assert medians(rows.assign(session=second)).empty  # There is one card alone.
