"""Measurements beside an archive's: which rows are compared, and which repeat."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest

from analysis import reproduce
from analysis.results import Results
from contracts.samples import read_samples


def test_a_row_repeats_inside_the_archives_range_or_within_one_percent(h100: Results) -> None:
    archive = h100.timings
    here = archive[(archive["experiment"] == "sgemm_ladder") & (archive["n"] == 4096)].reset_index(drop=True)
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
    text = reproduce.report(rows.reset_index())
    assert f"{len(rows) - 2} of {len(rows) - 1} rows" in text and text.count("  differs") == 1
    assert f"machine code differs: {rows.loc[other, 'label']}" in text


def test_a_row_stands_beside_that_of_its_experiment_and_else_of_the_one_with_most_processes(h100: Results) -> None:
    row = h100.timings[h100.timings["experiment"] == "sgemm_ladder"].iloc[[0]]
    elsewhere = [row.assign(experiment=name, fraction=value, processes=many) for name, value, many in
                 (("a", 0.1, 1), ("b", 0.2, 5), ("c", 0.3, 3))]  # fmt: skip
    archived = pd.concat([*elsewhere, row.assign(processes=1)], ignore_index=True)
    assert reproduce.beside(row, archived)["archived"].tolist() == row["fraction"].tolist()
    assert reproduce.beside(row, archived.iloc[:3])["archived"].tolist() == [0.2]


def test_the_medians_of_a_card_are_of_its_own_processes(h100: Results) -> None:
    windows, samples = h100.raw("windows"), read_samples(h100.path("samples")).to_pandas()
    chosen = {"experiment": "hopper_ladder", "variant": "hgemm_wgmma_store_bf16", "n": 8192}
    rows, timed = (one[(one[list(chosen)] == pd.Series(chosen)).all(axis=1)] for one in (windows, samples))
    kept = timed[timed["kept"] & (timed["window"] == "interleaved") & (timed["role"] == "variant")]
    expected = kept.groupby("process")["time_us"].median()
    other = rows.assign(session=(rows["process"] < 3).map({True: "00000000", False: "00000001"}))
    folder = SimpleNamespace(raw=lambda _: other, path=lambda _: h100.path("samples"))
    found = reproduce.by_card([folder]).set_index("session")  # type: ignore[list-item]
    assert found.loc["00000001", "time_us_median"] == pytest.approx(expected.loc[3:].median())
    assert len(found) == 2  # and none of one card alone:
    alone = SimpleNamespace(raw=lambda _: rows.assign(session="00000001"), path=lambda _: h100.path("samples"))
    assert reproduce.by_card([alone]).empty  # type: ignore[list-item]
