"""Problems that are emulated for the claims: C is read where beta is not 0."""

from __future__ import annotations

from helpers import ROOT

from contracts import worklogs
from experiments.emulation import other_problems
from kernels import catalogue

LOADS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
BYTES = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"


def test_the_recorded_table_is_of_these_sources_and_of_this_list() -> None:
    """After a change of a kernel: python -m experiments.emulation.other_problems."""
    root = ROOT / worklogs.FOLDER
    rows = worklogs.rows("emulated.csv", "emulated", root)
    cases = [case for source in worklogs.sources(root).values() for case in source.get("emulated", [])]
    found = list(dict.fromkeys((row["variant"], row["size"], row["beta"]) for row in rows))
    assert found == [(case["kernel"], case["size"], case["beta"]) for case in cases]
    kernels = catalogue.load().kernels
    assert [row["variant"] for row in rows if row["source_hash"] != kernels[row["variant"]].source_hash] == []


def test_with_beta_c_is_read() -> None:
    """A warp of the 2D kernel reads C a word of each sector at a time: 32 requests of 32 sectors for each patch row."""
    cases = [{"kernel": "sgemm_blocktile_2d", "size": 256, "beta": beta} for beta in (0, 1)]
    value = {(row["beta"], row["metric"]): row["value"] for row in other_problems.rows(cases, "source.yaml")}
    assert value[1, LOADS] - value[0, LOADS] == 256 * 256 / 32
    assert value[0, BYTES] == 32 and 4 < value[1, BYTES] < 32
