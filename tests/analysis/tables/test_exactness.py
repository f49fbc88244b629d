"""How exact the emulator's counters are, as its README says: from the archive."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
from helpers import ROOT

from analysis import fill_docs
from analysis.inputs import Inputs
from analysis.quantities.machine import Machine
from analysis.tables import exactness

README = ROOT / "ptxsim" / "README.md"


def test_the_table_in_the_readme_is_current(archive: Path, variants_csv: Path) -> None:
    text = README.read_text()
    remedy = "python -m analysis.fill_docs --measured data/h200 --variants results/variants.csv --doc ptxsim/README.md"
    assert fill_docs.fill(text, Machine(Inputs.of_folder(archive, variants_csv, archived=True)), README) == text, remedy
    exact = re.search(r"l1tex__t_sectors_pipe_lsu_mem_global_op_ld\.sum` \| (\d+) of (\d+) \|", text)
    assert exact and int(exact[1]) == int(exact[2]) - 2 >= 39  # two share their last tiles


def folder(tmp_path: Path, measured: list[float], predicted: list[float]) -> Inputs:
    """An archive of kernels a, b ... with one counter."""
    metric = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"
    for name, values in (("counters", measured), ("predictions", predicted)):
        rows = [
            {"variant": "abc"[i], "m": 4096, "n": 4096, "k": 4096, "metric": metric, "value": value}
            | {"unit": "", "kernel": "", "source_hash": "x"}
            for i, value in enumerate(values)
        ]
        pd.DataFrame(rows).to_csv(tmp_path / f"{name}.csv", index=False)
    return Inputs.of_folder(tmp_path, tmp_path / "variants.csv", archived=True)


def test_a_row_by_hand(tmp_path: Path) -> None:
    rows = exactness.compared(folder(tmp_path, [100, 200, 400], [100, 198, 360]))
    *_, row = exactness.table(rows)
    assert row.endswith("| 1 of 3 | 1.00% | -10.0% | `c` |")
    rows = exactness.compared(folder(tmp_path, [100, 200], [100, 200]))
    assert exactness.table(rows)[-1].endswith("| 2 of 2 | – | – |  |")


def test_kernels_of_another_source_are_left_out(tmp_path: Path) -> None:
    inputs = folder(tmp_path, [100, 200], [100, 150])
    path = tmp_path / "predictions.csv"
    path.write_text(path.read_text().replace("150,,,x", "150,,,y"))
    assert list(exactness.compared(inputs)["variant"]) == ["a"]
