"""The double buffer of sgemm.cu's 128x128x8, run again on the emulator, is as the table in the repository says."""

from __future__ import annotations

import csv
from pathlib import Path

from helpers import ROOT

from experiments.studies import xor_double_buffer

TABLE = ROOT / "paper/worklogs/sgemm_cu/xor_double_buffer.csv"


def test_the_table_is_what_the_emulator_finds_today(tmp_path: Path) -> None:
    found = [{key: str(value) for key, value in row.items()} for row in xor_double_buffer.on_emulator(tmp_path)]
    with TABLE.open(newline="") as file:
        written = [row for row in csv.DictReader(file) if row["device"] == "ptxsim"]
    assert found == written
    wrong = {(row["arch"], row["xor_of"]): int(row["wrong"]) for row in found if row["n"] == "128"}
    assert wrong == {
        ("sm_86", "address"): 0,
        ("sm_86", "offset"): 0,
        ("sm_90", "address"): 16320,
        ("sm_90", "offset"): 0,
    }
    assert {row["arch"] for row in found if row["faults"] != "0"} == {"sm_90"}


def test_the_emulator_and_the_gpu_find_the_same_elements_wrong() -> None:
    with TABLE.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["arch"] == "sm_90"]
    keys = {(row["xor_of"], row["n"]) for row in rows}
    assert all(len({row["wrong"] for row in rows if (row["xor_of"], row["n"]) == key}) == 1 for key in keys)
    assert {row["device"] for row in rows} >= {"ptxsim", "NVIDIA H100 80GB HBM3"}
