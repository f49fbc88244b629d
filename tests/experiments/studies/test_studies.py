"""Side studies: each goes with its folder, and what is left works without it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from helpers import ROOT, copy_tree, run_module, snakemake

from contracts import registry

STUDIES = sorted(path.name for path in (ROOT / "experiments" / "studies").iterdir() if (path / "tables.yaml").is_file())
PYTHON = [path for folder in ("analysis", "contracts", "experiments", "kernels", "workflow", "tests")
          for path in sorted((ROOT / folder).rglob("*.py"))]  # fmt: skip


@pytest.mark.parametrize("study", STUDIES)
def test_nothing_outside_imports_a_study(study: str) -> None:
    """But for its own tests, which go with it (conftest.py)."""
    own = (ROOT / "experiments" / "studies" / study, ROOT / "tests" / "experiments" / "studies" / study)
    imported = re.compile(rf"experiments\.studies(?:\.{study}\b| import .*\b{study}\b)")
    outside = [path for path in PYTHON if not any(path.is_relative_to(folder) for folder in own)]
    assert [str(path) for path in outside if imported.search(path.read_text())] == []


@pytest.mark.skipif(not STUDIES, reason="no studies are left")
def test_without_studies_the_rest_is_planned_and_judged(tmp_path: Path, archive: Path, variants_csv: Path) -> None:
    """Claims about what they measured cannot be tested then; all else is as before."""
    tree = copy_tree(tmp_path / "tree")
    gone = [name for name, table in registry.tables().items() if f"studies.{STUDIES[0]}." in str(table.command)]
    for study in STUDIES:
        shutil.rmtree(tree / "experiments" / "studies" / study)
    done = snakemake(tree, "-n", "all", PYTHONPATH=str(tree))
    assert done.returncode == 0, done.stdout + done.stderr
    assert gone and not any(f"{name}.csv" in done.stdout for name in gone)
    analytic = tmp_path / "analytic.csv"
    assert run_module("experiments.stages.analytic", "--out", analytic).returncode == 0
    options = ["--archives", archive, "--variants", variants_csv, "--analytic", analytic]
    done = run_module("analysis.claims.judge", *options, cwd=tree, PYTHONPATH=str(tree))
    assert done.returncode == 0, done.stderr
    assert "side study whose folder is not there" in done.stdout
