"""Measurements beside an archive's: which rows are compared, and which repeat."""

from __future__ import annotations

import pandas as pd

from analysis import reproduce
from analysis.results import Results


def test_a_row_repeats_inside_the_archives_range_or_within_one_percent(h100: Results) -> None:
    archive = h100.timings
    here = archive[(archive["experiment"] == "sgemm_ladder") & (archive["n"] == 4096)].reset_index(drop=True)
    ours = here[here["variant"] != here["baseline"]]
    inside, near, far, other = ours["variant"].iloc[[0, 1, 2, 3]]
    scale = {inside: 1.0, near: 1.009, far: 0.989 * 0.97}
    wide = archive.assign(fraction_high=archive["fraction_high"].where(archive["variant"] != inside, 2.0))
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
