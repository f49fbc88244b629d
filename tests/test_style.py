"""Lint and format of everything that is written by hand."""

from __future__ import annotations

from pathlib import Path

from helpers import ROOT, copy_tree, run, snakemake

PYTHON = [
    name for name in ("analysis", "contracts", "experiments", "kernels", "ptxsim", "tests") if (ROOT / name).is_dir()
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


def test_snakemake_s_lint_has_nothing_to_say(tmp_path: Path) -> None:
    done = snakemake(copy_tree(tmp_path / "project"), "--lint")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Congratulations, your workflow is in a good condition!" in done.stdout + done.stderr
