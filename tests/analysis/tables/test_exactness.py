"""How exact the emulator's counters are, as its README says: from the archive."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
from helpers import ROOT, assert_one_line, run_module

from analysis.tables import exactness

README = ROOT / "ptxsim" / "README.md"


def test_the_table_in_the_readme_is_current(archive: Path) -> None:
    text = README.read_text()
    remedy = "python -m analysis.tables.exactness --measured data/h200 --doc ptxsim/README.md"
    assert exactness.fill(text, archive) == text, remedy
    exact = re.search(r"l1tex__t_sectors_pipe_lsu_mem_global_op_ld\.sum` \| (\d+) of (\d+) \|", text)
    assert exact and int(exact[1]) == int(exact[2]) - 2 >= 39  # two share their last tiles


def folder(tmp_path: Path, measured: list[float], predicted: list[float]) -> Path:
    """An archive of kernels a, b ... with one counter."""
    metric = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"
    for name, values in (("counters", measured), ("predictions", predicted)):
        rows = [
            {"variant": "abc"[i], "m": 4096, "n": 4096, "k": 4096, "metric": metric, "value": value}
            | {"unit": "", "kernel": "", "source_hash": "x"}
            for i, value in enumerate(values)
        ]
        pd.DataFrame(rows).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def test_a_row_by_hand(tmp_path: Path) -> None:
    rows = exactness.compared(folder(tmp_path, [100, 200, 400], [100, 198, 360]))
    *_, row = exactness.table(rows).splitlines()
    assert row.endswith("| 1 of 3 | 1.00% | -10.0% | `c` |")
    rows = exactness.compared(folder(tmp_path, [100, 200], [100, 200]))
    assert exactness.table(rows).splitlines()[-1].endswith("| 2 of 2 | – | – |  |")


def test_kernels_of_another_source_are_left_out(tmp_path: Path) -> None:
    folder(tmp_path, [100, 200], [100, 150])
    path = tmp_path / "predictions.csv"
    path.write_text(path.read_text().replace("150,,,x", "150,,,y"))
    assert list(exactness.compared(tmp_path)["variant"]) == ["a"]


def test_what_is_missing_is_told_in_one_line(tmp_path: Path, archive: Path) -> None:
    document = tmp_path / "x.md"
    document.write_text("no place\n")
    done = run_module("analysis.tables.exactness", "--measured", archive, "--doc", document)
    assert_one_line(done, "no place for the table: <!-- exactness --> ... <!-- end -->")
    assert document.read_text() == "no place\n"
    document.write_text("<!-- exactness -->\n<!-- end -->\n")
    done = run_module("analysis.tables.exactness", "--measured", tmp_path / "none", "--doc", document)
    assert_one_line(done, "counters.csv: no such file")
