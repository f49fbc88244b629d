"""What is compiled and emulated for the claims."""

from __future__ import annotations

from helpers import ROOT, refused

from contracts import worklogs
from contracts.declared import EmulatedProblem
from contracts.rows import Emulated, Resources
from experiments.emulation import worklog_tables
from kernels import catalogue

LOADS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
BYTES = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"


def test_the_recorded_tables_are_of_these_sources_and_of_these_lists() -> None:
    """After a change of a kernel: python -m experiments.emulation.worklog_tables."""
    root = ROOT / worklogs.FOLDER
    compiled = worklogs.rows("compiled.csv", Resources, root)
    emulated = worklogs.rows("emulated.csv", Emulated, root)
    sources = worklogs.sources(root)
    assert [(worklog, row.variant, row.arch) for worklog, row in compiled] == [
        (key, name, arch)
        for key, source in sources.items()
        for arch, names in (source.compiled or {}).items()
        for name in names
    ]
    cases = [case for source in sources.values() for case in source.emulated or []]
    found = list(dict.fromkeys((row.variant, row.size, row.beta) for _, row in emulated))
    assert found == [(case.kernel, case.size, case.beta) for case in cases]
    kernels, rows = catalogue.load().kernels, [*compiled, *emulated]
    assert [
        row.variant for _, row in rows if row.source_hash != kernels[row.variant].source_hash
    ] == []


def test_with_beta_c_is_read() -> None:
    """A warp of the 2D kernel reads C a word of each sector at a time: 32 requests of 32 sectors
    for each patch row.
    """
    cases = [EmulatedProblem(kernel="sgemm_blocktile_2d", size=256, beta=beta) for beta in (0, 1)]
    value = {
        (row.beta, row.metric): row.value for row in worklog_tables.emulated(cases, "source.yaml")
    }
    assert value[1, LOADS] - value[0, LOADS] == 256 * 256 / 32
    assert value[0, BYTES] == 32 and 4 < value[1, BYTES] < 32


def test_a_kernel_is_compiled_for_another_gpu_and_an_unknown_one_is_reported() -> None:
    (row,) = worklog_tables.compiled({"sm_86": ["sgemm_naive"]}, "source.yaml")
    assert (row.variant, row.arch) == ("sgemm_naive", "sm_86") and row.ffma > 0
    with refused(r"unknown kernel 'sgemm_naiv' in source\.yaml: compiled: sm_86"):
        worklog_tables.compiled({"sm_86": ["sgemm_naiv"]}, "source.yaml")
