"""The double buffer of sgemm.cu's 128x128x8, run again on the emulator, is as the table in the
repository says.
"""

from __future__ import annotations

import csv
from pathlib import Path

from helpers import ROOT

from experiments.studies import xor_double_buffer

TABLE = ROOT / "paper/worklogs/sgemm_cu/xor_double_buffer.csv"


def test_the_emulator_finds_what_the_table_has(tmp_path: Path) -> None:
    found = [
        {key: str(value) for key, value in row.items()}
        for row in xor_double_buffer.on_emulator(tmp_path, arches=["sm_90"], sizes=[128])
    ]
    with TABLE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    written = [
        row for row in rows if (row["device"], row["arch"], row["n"]) == ("ptxsim", "sm_90", "128")
    ]
    assert found == written
    assert {row["xor_of"]: row["wrong"] for row in found} == {"address": "16320", "offset": "0"}
    assert [row["faults"] != "0" for row in found] == [True, False]
