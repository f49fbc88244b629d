"""How far shares lie apart from card to card."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from machine_folder import Folder, with_rows

from analysis.tables.leases import COLUMNS

ROW = {"variant": "sgemm_warptile", "dtype": "fp32", "baseline": "cublas_fp32", "m": 4096, "n": 4096, "k": 4096}
ROW |= {"regime": "unlocked", "data": "uniform", "measured": "2026-11-24", "sm_clock_mhz": 1980.0, "samples": 40}


def row(lease: str, ours: float, theirs: float, n: int = 4096) -> dict:
    times = {"time_us_median": ours, "baseline_time_us_median": theirs}
    return ROW | {"lease": lease, "m": n, "n": n, "k": n} | times


def test_the_spread_is_that_of_the_cards_and_one_card_has_none(tmp_path: Path, archive: Path) -> None:
    folder = Folder(tmp_path, archive)
    rows = [row("0000000a", 100.0, 80.0), row("0000000b", 100.0, 81.0), row("0000000a", 800.0, 640.0, n=8192)]
    with_rows(folder, "lease_medians", rows)
    done = folder.made(tmp_path / "t", "leases")
    assert done.returncode == 0, done.stderr
    made = pd.read_csv(tmp_path / "t" / "leases.csv")
    assert list(made.columns) == COLUMNS and list(made["n"]) == [4096, 8192] and list(made["leases"]) == [2, 1]
    two, one = made.to_dict("records")
    assert (two["share_least"], two["share_most"]) == (0.8, 0.81)
    assert two["spread"] == pytest.approx(0.01 / 0.805, rel=1e-4) and pd.isna(one["spread"])


def test_without_repeated_measurements_there_are_no_rows(tmp_path: Path, archive: Path) -> None:
    folder = Folder(tmp_path, archive, without=("lease_medians",))
    assert folder.made_rows(tmp_path / "t", "leases") == []
