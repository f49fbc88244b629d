"""The kernels that are compiled for the GPUs of the texts."""

from __future__ import annotations

import pytest
from helpers import ROOT

from contracts import UserError, worklogs
from experiments.stages import compiled
from kernels import catalogue


def test_the_recorded_tables_are_of_these_sources_and_of_these_lists() -> None:
    """After a change of a kernel: python -m experiments.stages.compiled."""
    root = ROOT / worklogs.FOLDER
    rows = worklogs.rows("compiled.csv", "resources", root)
    named = [
        (key, name, arch)
        for key, source in worklogs.sources(root).items()
        for arch, names in source.get("compiled", {}).items()
        for name in names
    ]
    assert [(row["worklog"], row["variant"], row["arch"]) for row in rows] == named
    kernels = catalogue.load().kernels
    assert [row["variant"] for row in rows if row["source_hash"] != kernels[row["variant"]].source_hash] == []


def test_a_kernel_is_compiled_for_another_gpu() -> None:
    (row,) = compiled.rows({"sm_86": ["sgemm_naive"]}, "source.yaml")
    assert (row["variant"], row["arch"]) == ("sgemm_naive", "sm_86") and row["ffma"] > 0


def test_an_unknown_kernel_is_reported() -> None:
    said = "unknown kernel 'sgemm_naiv' in source.yaml: compiled: sm_86; nearest: sgemm_naive"
    with pytest.raises(UserError, match=said):
        compiled.rows({"sm_86": ["sgemm_naiv"]}, "source.yaml")
