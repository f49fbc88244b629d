"""Lint, format, types and imports of everything that is written by hand."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml
from helpers import ROOT, copy_tree, run, snakemake

PYTHON = [
    name
    for name in ("analysis", "contracts", "experiments", "kernels", "ptxsim", "tests", "workflow")
    if (ROOT / name).is_dir()
]
SNAKEFILES = ["Snakefile", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "workflow" / "rules").glob("*.smk"))]


# Words of translated or private English, and what to write instead. docs/glossary.md has the terms of the field.
BANNED = {
    r"(\w*_)?(told|tells)(_\w*)?": "reports, shows, says, expected; name a variable for what it holds",
    r"beside": "next to, with, compared with",
    r"foret[eo]l[dl]\w*": "predicted",
    r"keep_registers|take_registers|meet_relaxed|give_back|RingPlace|TileOut": "the names of docs/glossary.md",
}
PROSE = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "kernels", "workflow/report", "ptxsim"]
FRAGMENT = re.compile(r"(Of|That of|Those|Now|These)\b")  # how a docstring that is no sentence begins


def written(places: list[str], *suffixes: str) -> list[Path]:
    """The files of these places with one of these suffixes."""
    paths = [ROOT / place for place in places]
    found = [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("*")))]
    kept = (Path(__file__), ROOT / "experiments/gpu/triton_gemm.py")  # whose every word is in an archived row's hash
    return [file for file in found if file.suffix in suffixes and file not in kept]


@pytest.mark.parametrize("word", BANNED)
def test_prose_and_kernels_use_the_field_s_words(word: str) -> None:
    files = written(PROSE, ".md", ".rst", ".cu", ".cuh", ".yaml")
    files += written([*PYTHON, "paper"], ".py", ".rst", ".cu", ".js", ".smk", ".typ") + written(PYTHON, ".yaml")
    files += [ROOT / name for name in ("Snakefile", "config.yaml", "Makefile")]
    if word == "beside":  # a column of ffma_issue.csv, an archived table
        files = [file for file in files if "ffma_issue" not in str(file)]
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in files
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if re.search(rf"\b({word})\b", line.replace('["beside"]', ""))
    ]
    assert len(files) > 100 and not found, f"write instead: {BANNED[word]}\n" + "\n".join(found)


def test_docstrings_are_sentences() -> None:
    found = []
    for file in written(PYTHON, ".py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or "A docstring."
                if FRAGMENT.match(text) or len(text.split()) < 2:
                    found.append(f"{file.relative_to(ROOT)}: {text.splitlines()[0]}")
    assert not found, "\n".join(found)


def test_every_folder_with_python_has_tests_under_its_path() -> None:
    folders = {file.parent.relative_to(ROOT) for name in PYTHON for file in (ROOT / name).rglob("__init__.py")}
    folders = {folder for folder in folders if folder.parts[0] not in ("ptxsim", "tests")}
    assert [str(f) for f in sorted(folders) if not list((ROOT / "tests" / f).rglob("test_*.py"))] == []


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
    """All are planted at once; each is reported by itself."""
    tree = copy_tree(tmp_path / "project")
    for number, (importer, imported) in enumerate(WRONG):
        (tree / importer / f"planted_{number}.py").write_text(f"import {imported}\n")
    done = run(["lint-imports", "--no-logo", "--no-cache"], tree, PYTHONPATH=str(tree))
    assert done.returncode != 0
    for number, (importer, imported) in enumerate(WRONG):
        assert f"{importer.replace('/', '.')}.planted_{number} -> {imported}" in done.stdout, (importer, imported)
