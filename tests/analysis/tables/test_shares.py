"""The three shares of cuBLAS, and the noise of repetitions, of the archive."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from machine_folder import Folder

from analysis.tables.shares import SHARES


def test_where_power_binds_a_slow_kernel_s_share_alone_is_more_than_in_turns(tmp_path: Path, archive: Path) -> None:
    """The archive's own columns: 47% by division, 40% in turns."""
    done = Folder(tmp_path, archive).made(tmp_path / "t", "shares")
    assert done.returncode == 0, done.stderr
    rows = pd.read_csv(tmp_path / "t" / "shares.csv")
    gap = rows["alone_against_turns_percent"].abs().dropna()
    assert gap.is_monotonic_decreasing and gap.iloc[0] > 20
    slow = rows[
        (rows["variant"] == "hgemm_bcf_dbf_rw_bf16")
        & (rows["n"] == 8192)
        & (rows["data"] != "zeros")  # which draw less power
        & rows["share_alone_percent"].notna()
    ]
    assert (slow["share_alone_percent"] > 1.15 * slow["share_in_turns_percent"]).all() and len(slow) > 1
    cool = rows[(rows["dtype"] == "fp32") & (rows["throttle_reasons"] == "none") & (rows["n"] == 4096)]
    assert cool["alone_against_turns_percent"].abs().median() < 0.5
    for name in SHARES:
        assert rows[f"{name}_percent"].dropna().between(0.1, 400).all()


def test_the_archive_s_noise_is_greatest_where_power_binds(tmp_path: Path, archive: Path) -> None:
    rows = Folder(tmp_path, archive).made_rows(tmp_path / "t", "noise")
    half = {(row["regime"], row["quantity"]): float(row["half_width_percent"]) for row in rows}
    assert half["power", "share_in_turns"] > half["fp32, power", "share_in_turns"] > half["steady", "share_in_turns"]
    assert half["power", "share"] >= half["power", "share_in_turns"] > 0.5 > half["steady", "share_in_turns"]
    assert {half[row["regime"], row["quantity"]] for row in rows if row["repeats"] == "0"} <= {0.5}
