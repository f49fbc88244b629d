"""How exact the emulator's counters are, as its README says: from the archive."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
from helpers import ARCHIVE, ROOT

from analysis import fill_docs
from analysis.inputs import Inputs
from analysis.quantities.machine import Machine
from analysis.tables import exactness

README = ROOT / "ptxsim" / "README.md"


def test_the_table_in_the_readme_is_current(archive: Path, variants_csv: Path) -> None:
    text = README.read_text()
    command = f"python -m analysis.fill_docs --measured data/{ARCHIVE.name} --variants results/variants.csv --doc"
    remedy = f"{command} ptxsim/README.md"
    assert fill_docs.fill(text, Machine(Inputs.of_folder(archive, variants_csv, archived=True)), README) == text, remedy
    exact = re.search(r"l1tex__t_sectors_pipe_lsu_mem_global_op_ld\.sum` \| (\d+) of (\d+) \|", text)
    assert exact and int(exact[1]) > 0.9 * int(exact[2]) > 50
    every = exactness.compared(Inputs.of_folder(archive, variants_csv, archived=True))
    loads = every[every["metric"] == "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    off = loads[loads["difference_percent"].abs() >= exactness.EXACT]
    polling = {"sgemm_tma_streamk", "hgemm_wgmma_streamk_bf16", "hgemm_wgmma_pingpong_bf16", "tf32gemm_wgmma_bcol"}
    assert len(off) == int(exact[2]) - int(exact[1]) and set(off["variant"]) <= polling


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
