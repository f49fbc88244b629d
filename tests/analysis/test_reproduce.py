"""Measurements beside an archive's: which rows are compared, and which repeat."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from analysis import reproduce
from analysis.results import CHANGED, Results
from contracts import REHEARSAL
from contracts.samples import read_samples

OPTIONS = argparse.Namespace(
    results=[Path("here")], archive=Path("data"), catalogue=Path("x"), cards=None
)


def test_a_row_repeats_inside_the_archives_range_or_within_one_percent(h100: Results) -> None:
    archive = h100.timings
    here = archive[(archive["experiment"] == "sgemm_ladder") & (archive["n"] == 4096)].reset_index(
        drop=True
    )
    ours = here[here["variant"] != here["baseline"]]
    inside, near, far, other = ours["variant"].iloc[[0, 1, 2, 3]]
    scale = {inside: 1.0, near: 1.009, far: 0.989}
    narrow = archive["variant"] == far
    wide = archive.assign(
        fraction_high=archive["fraction_high"].where(archive["variant"] != inside, 2.0),
        fraction_low=archive["fraction_low"].mask(narrow, archive["fraction"]),
    )
    here = here.assign(
        fraction=here["fraction"] * here["variant"].map(scale).fillna(1.0),
        code_hash=here["code_hash"].where(here["variant"] != other, "another"),
    )
    here.loc[here["variant"] == inside, "fraction"] = 1.9
    rows = reproduce.beside(here, wide).set_index("variant")
    assert set(rows.index) == set(ours["variant"])  # a library next to itself says nothing
    assert not rows.loc[far, "repeats"] and not rows.loc[other, "same_code"]
    assert rows.drop(far)["repeats"].all() and rows.drop(other)["same_code"].all()


def test_each_measured_row_is_shown_or_named_with_its_reason(
    h100: Results, changed: Callable[..., Results]
) -> None:
    def here(rows: pd.DataFrame) -> pd.DataFrame:
        rows = rows[rows["experiment"] == "sgemm_ladder"].copy()
        rows.loc[rows["variant"] == "sgemm_naive", "code_hash"] = "0" * 16
        rows.loc[rows["variant"] == "sgemm_coalesced", "passed"] = False
        return rows

    def there(rows: pd.DataFrame) -> pd.DataFrame:
        rows = rows[~(rows["variant"].eq("sgemm_warptile") & rows["n"].eq(4096))]
        rows = rows[rows["variant"] != "sgemm_vectorized"]
        return rows.assign(
            left_out=rows["left_out"]
            .astype(object)
            .mask(rows["variant"] == "sgemm_tma", "no steady clock")
        )

    archive = changed(h100, windows=there)
    rows = reproduce.compared(changed(h100, windows=here), archive).set_index("variant")
    assert rows["reason"].dropna().to_dict() == {
        "sgemm_naive": CHANGED,
        "sgemm_coalesced": "failed its check after timing",
        "sgemm_warptile": reproduce.NO_PROBLEM,
        "sgemm_vectorized": reproduce.NO_KERNEL,
        "sgemm_tma": "in the archive, no steady clock",
    }
    assert (
        not rows.loc["sgemm_vectorized", "wanted"] and rows.drop("sgemm_vectorized")["wanted"].all()
    )
    text = reproduce.report(rows.reset_index())
    lines = text.splitlines()
    assert f"not compared, {reproduce.NO_PROBLEM}: sgemm_ladder: warptile 4096 uniform" in lines
    assert (
        lines[-1]
        == f"compared {len(rows) - 5} of {len(rows) - 1} measured rows; 1 more of kernels that the archive lacks"
    )
    fp32 = int(rows["reason"].isna()[rows["dtype"] == "fp32"].sum())
    assert any(line.startswith(f"fp32: {fp32} of {fp32} rows (100%) repeat") for line in lines[-4:])
    alone = reproduce.report(rows[rows["reason"].isna()].iloc[:1].reset_index())
    assert "all: 1 of 1 rows (100%) repeat" in alone


@pytest.mark.parametrize(("kept", "code"), [(10, 0), (9, 0), (8, 1)])
def test_fewer_than_nine_in_ten_rows_found_is_an_error(
    kept: int,
    code: int,
    h100: Results,
    changed: Callable[..., Results],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = list(
        h100.timings.query("experiment == 'sgemm_ladder' and variant != baseline")["variant"][:10]
    )

    def ten(rows: pd.DataFrame) -> pd.DataFrame:
        rows = rows[(rows["experiment"] == "sgemm_ladder") & rows["variant"].isin(chosen)].copy()
        return rows.assign(
            code_hash=rows["code_hash"].where(rows["variant"].isin(chosen[:kept]), "0" * 16)
        )

    folders = {"here": changed(h100, windows=ten), "data": h100}
    monkeypatch.setattr(reproduce, "Results", lambda folder, _: folders[folder.name])
    assert reproduce.run(OPTIONS) == code


def test_a_rehearsal_is_named_first_and_last(
    h100: Results,
    rehearsed: Results,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folders = {"here": rehearsed, "data": h100}
    monkeypatch.setattr(reproduce, "Results", lambda folder, _: folders[folder.name])
    assert reproduce.run(OPTIONS) == 0
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
    windows, samples = h100.raw("windows"), read_samples(h100.path("samples")).to_pandas()
    chosen = {"experiment": "hopper_ladder", "variant": "hgemm_wgmma_store_bf16", "n": 8192}
    rows, timed = (
        one[(one[list(chosen)] == pd.Series(chosen)).all(axis=1)] for one in (windows, samples)
    )
    kept = timed[timed["kept"] & (timed["window"] == "interleaved") & (timed["role"] == "variant")]
    expected = kept.groupby("process")["time_us"].median()
    other = rows.assign(session=(rows["process"] < 3).map({True: "00000000", False: "00000001"}))
    folder = SimpleNamespace(raw=lambda _: other, path=lambda _: h100.path("samples"))
    found = reproduce.by_card([folder]).set_index("session")  # type: ignore[list-item]
    # the fifth process does not count
    for changed in ({"left_out": "no steady clock"}, {"passed": False}):
        marked = other.astype({"left_out": object}).copy()
        marked.loc[marked["process"] == 4, list(changed)] = list(changed.values())
        without = SimpleNamespace(
            raw=lambda _, rows=marked: rows, path=lambda _: h100.path("samples")
        )
        left = reproduce.by_card([without]).set_index("session")  # type: ignore[list-item]
        assert (
            left.loc["00000001", "time_us_median"]
            == pytest.approx(expected.loc[3])
            != expected.loc[3:].median()
        )
    assert found.loc["00000001", "time_us_median"] == pytest.approx(expected.loc[3:].median())
    assert len(found) == 2  # and none of one card alone:
    alone = SimpleNamespace(
        raw=lambda _: rows.assign(session="00000001"), path=lambda _: h100.path("samples")
    )
    assert reproduce.by_card([alone]).empty  # type: ignore[list-item]
