"""Problems of any shape are in a table and a figure of their own, and in no line over sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.data import Measured, squares
from analysis.explorer import content
from analysis.figures import problems as figure
from analysis.inputs import Inputs
from analysis.statistics import SHARE
from analysis.tables import problems
from contracts import write_rows
from kernels import catalogue


@pytest.fixture
def measured(archive: Path, tmp_path: Path) -> Measured:
    """The archive, with one of its rows as if an experiment `any` had measured it on five problems."""
    write_rows(tmp_path / "variants.csv", "variants", catalogue.load().rows())
    own = Inputs.of_folder(archive, tmp_path / "variants.csv", archived=True).measured()
    of_kernel = own.timed[own.timed["variant"].isin(["sgemm_warptile", "cublas_fp32"])].drop_duplicates("variant")
    sizes = [
        (64, 512, 128, 0.0),
        (512, 512, 512, 0.0),
        (512, 512, 512, 1.0),
        (8192, 64, 64, 0.0),
        (128, 128, 8192, 0.0),
    ]
    shares: dict[str, Any] = dict(zip(SHARE[1:], (0.4, 0.6), strict=True))
    parts = [
        of_kernel.assign(experiment="any", m=m, n=n, k=k, beta=beta, share_of_baseline=0.5 * 2**place, **shares)
        for place, (m, n, k, beta) in enumerate(sizes)
    ]
    return Measured(**vars(own) | {"timed": pd.concat([own.timed, *parts], ignore_index=True)})


def test_a_row_for_each_problem_and_what_they_come_to(measured: Measured) -> None:
    rows = problems.timings(measured, ["any"])
    assert [(len(part), set(part["variant"])) for _, part in rows.groupby(["m", "n", "k", "beta"])] == [
        (2, {"sgemm_warptile", "cublas_fp32"})
    ] * 5
    assert sorted(rows["beta"].unique()) == [0.0, 1.0] and (rows["share_ci_low_percent"] == 40).all()
    one = problems.summary(rows).set_index("variant").loc["sgemm_warptile"]
    assert one["problems"] == 5 and one["mean"] == pytest.approx(200) and one["least"] == 50
    assert problems.edge(rows.iloc[:1]).item() == pytest.approx((64 * 512 * 128) ** (1 / 3))


def test_only_plain_squares_count_as_sizes(measured: Measured) -> None:
    own = measured.timed[measured.timed["experiment"] == "any"]
    plain = squares(own)
    assert set(plain["n"]) == {512} and set(plain["beta"]) == {0.0} and len(plain) == 2


def test_the_explorer_has_them_next_to_its_squares(measured: Measured) -> None:
    timings = content.timings(content.of_any_shape(measured.timed))
    rows = [dict(zip(timings["columns"], row, strict=True)) for row in timings["rows"]]
    assert {row["problem"] for row in rows} == {"64x512x128", "512x512x512,beta=1", "8192x64x64", "128x128x8192"}
    assert all(row["first"] and row["n"] < 600 for row in rows) and len(rows) == 8
    assert "problem" not in content.timings(measured.bench)["columns"]


def test_every_kernel_is_drawn_on_every_problem(measured: Measured) -> None:
    drawn = figure.draw(measured, "any")
    left, right = drawn.axes
    lines = {line.get_label(): line for line in left.lines}
    (mark,) = [label for label in lines if label.startswith("warptile")]
    assert sorted(lines[mark].get_ydata()) == [50, 100, 200, 400, 800]
    assert "geometric mean: warptile 200% (least 50%)" in " ".join(text.get_text() for text in drawn.texts)
    assert len(right.lines) == 2  # one kernel, and cuBLAS itself
