"""The kernels that are compiled for the GPUs of the texts."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import ROOT

from contracts import UserError, read_rows
from experiments.stages import compiled
from kernels import catalogue


def test_the_recorded_table_is_of_these_sources_and_of_this_list() -> None:
    """After a change of a kernel: python -m experiments.stages.compiled."""
    rows = read_rows(ROOT / compiled.TABLE, "resources")
    assert [(row["variant"], row["arch"]) for row in rows] == compiled.pairs(ROOT / compiled.CASES)
    kernels = catalogue.kernels()
    assert [row["variant"] for row in rows if row["source_hash"] != kernels[row["variant"]].source_hash] == []


def test_a_kernel_is_compiled_for_another_gpu(tmp_path: Path) -> None:
    cases = tmp_path / "compiled.yaml"
    cases.write_text("sm_86: [sgemm_naive]\n")
    (row,) = compiled.rows(cases)
    assert (row["variant"], row["arch"]) == ("sgemm_naive", "sm_86") and row["ffma"] > 0


def test_an_unknown_kernel_is_told(tmp_path: Path) -> None:
    cases = tmp_path / "compiled.yaml"
    cases.write_text("sm_86: [sgemm_naiv]\n")
    with pytest.raises(UserError, match=r"unknown kernel 'sgemm_naiv' in .*compiled.yaml: sm_86; nearest: sgemm_naive"):
        compiled.pairs(cases)
