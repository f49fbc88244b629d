"""Lint, format, types and imports of everything that is written by hand."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from helpers import ROOT, copy_tree, run, snakemake

PYTHON = [
    name
    for name in ("analysis", "contracts", "experiments", "kernels", "ptxsim", "tests", "workflow")
    if (ROOT / name).is_dir()
]
SNAKEFILES = ["Snakefile", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "workflow" / "rules").glob("*.smk"))]


def test_ruff_has_nothing_to_say() -> None:
    done = run(["ruff", "check", "--no-cache", *PYTHON], ROOT)
    assert done.returncode == 0, done.stdout


def test_python_is_formatted() -> None:
    done = run(["ruff", "format", "--no-cache", "--check", *PYTHON], ROOT)
    assert done.returncode == 0, done.stdout


def test_snakefiles_are_formatted() -> None:
    assert len(SNAKEFILES) > 5
    done = run(["snakefmt", "--check", *SNAKEFILES], ROOT)
    assert done.returncode == 0, done.stderr


def test_types_are_right() -> None:
    """Half a minute of processor time the first time, with mypy's cache a few seconds."""
    done = run(["mypy"], ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_imports_go_one_way() -> None:
    """Two seconds."""
    done = run(["lint-imports", "--no-logo"], ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_snakemake_s_lint_says_nothing_but_that_no_rule_names_a_conda_environment(tmp_path: Path) -> None:
    """None does on purpose: jobs run with the Python that started Snakemake, and env.yaml sets that up with conda."""
    done = snakemake(copy_tree(tmp_path / "project"), "--lint")
    found = set(re.findall(r"^ {4}\* (.+):$", done.stdout + done.stderr, re.M))
    assert found == {"Specify a conda environment or container for each rule."}, done.stdout + done.stderr


def test_what_runs_before_a_commit_is_what_is_tested() -> None:
    repos = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    hooks = [hook for repo in repos for hook in repo["hooks"]]
    assert {hook["language"] for hook in hooks} == {"system"}
    assert [hook["entry"] for hook in hooks] == ["ruff check", "ruff format", "snakefmt", "mypy", "lint-imports"]


WRONG = [
    ("analysis", "experiments"),
    ("analysis", "kernels"),
    ("analysis", "ptxsim"),
    ("contracts", "kernels"),
    ("kernels", "experiments"),
    ("ptxsim", "contracts"),
    ("experiments", "workflow.plan"),
    ("experiments/gpu", "experiments.stages.verify"),
    ("experiments/stages", "experiments.emulation.launching"),
    ("experiments/emulation", "experiments.tuning.space"),
]


def test_an_import_the_wrong_way_is_found(tmp_path: Path) -> None:
    """All are planted at once; each is told of by itself."""
    tree = copy_tree(tmp_path / "project")
    for number, (importer, imported) in enumerate(WRONG):
        (tree / importer / f"planted_{number}.py").write_text(f"import {imported}\n")
    done = run(["lint-imports", "--no-logo", "--no-cache"], tree, PYTHONPATH=str(tree))
    assert done.returncode != 0
    for number, (importer, imported) in enumerate(WRONG):
        assert f"{importer.replace('/', '.')}.planted_{number} -> {imported}" in done.stdout, (importer, imported)
