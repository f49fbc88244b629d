"""Changes one thing at a time in a room, by Cosmic Ray's operators, and shows the changes that no
test notices.

    make mutants ROOM="workflow/plan.py kernels/cost.py" TESTS="tests/workflow/test_plan.py tests/kernels" N=60 SEED=0

All runs in a copy of the project. A mutant meets the tests that run its line, or else its file, as
far as they pass without it, and those of test_FILE.py. Annotations, docstrings and frozen= are left
alone.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from coverage import CoverageData

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 180  # of the tests of a mutant: one that runs longer hangs
# Without functools.cache only time changes; `is` for == is luck.
SILENT = ("RemoveDecorator", "NoOp", "_Is", "_IsNot")
LEFT_OUT = (".git", ".venv", "results", "__pycache__", ".snakemake", ".pytest_cache")


def run_pytest(copy: Path, *arguments: str, limit_s: float | None = None) -> int | None:
    """Return pytest's exit code in the copy; None where it took more than `limit_s` seconds."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    # ptxsim has a file of its own
    command = [sys.executable, "-m", "pytest", "-c", "pyproject.toml", "-q", *arguments]
    try:
        with (copy / "pytest.log").open("w") as log:
            streams: dict[str, Any] = {"stdout": log, "stderr": log, "timeout": limit_s}
            return subprocess.run(command, cwd=copy, env=environment, **streams).returncode
    except subprocess.TimeoutExpired:
        return None


def tests_by_line(copy: Path, files: list[str], tests: list[str]) -> dict[str, dict[int, set[str]]]:
    """Return, by file and line, the tests that run it and pass without a mutant."""
    rooms = [f"--cov={folder}" for folder in sorted({str(Path(file).parent) for file in files})]
    coverage = ("--cov-context=test", "--cov-report=")
    run_pytest(copy, *tests, *rooms, *coverage, "-m", "not slow and not gpu")
    path = copy / ".pytest_cache" / "v" / "cache" / "lastfailed"
    failed = set(json.loads(path.read_text())) if path.is_file() else set()
    data = CoverageData(str(copy / ".coverage"))
    data.read()
    lines = {}
    for file in files:
        contexts = data.contexts_by_lineno(str(copy / file))
        lines[file] = {
            line: {name.rpartition("|")[0] for name in names} - failed - {""}
            for line, names in contexts.items()
        }
    if not any(tests for by_line in lines.values() for tests in by_line.values()):
        log = (copy / "pytest.log").read_text()
        raise SystemExit(f"error: no test passes that runs a line of it:\n{log[-2000:]}")
    return lines


def python_at(paths: list[str]) -> list[str]:
    """Return the Python files at these paths and below, from the project's root."""
    files = {file for path in paths for file in (ROOT / path, *(ROOT / path).rglob("*.py"))}
    modules = [file for file in files if file.suffix == ".py" and file.name != "__init__.py"]
    return sorted(file.relative_to(ROOT).as_posix() for file in modules)


def meaning(source: str) -> str:
    """Return a program without what no test could notice."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for name in {"annotation", "returns"} & {*node._fields}:
            setattr(node, name, None)
        if isinstance(node, ast.Call):
            node.keywords = [keyword for keyword in node.keywords if keyword.arg != "frozen"]
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = ""
    return ast.dump(tree)


def mutants(files: list[str], seed: int) -> Iterator[tuple[str, int, str]]:
    """Yield mutants as file, line and new text: first a position is drawn, then one of the changes
    that can be made there.
    """
    operators = [plugins.get_operator(name) for name in plugins.operator_names()]
    operators = [operator for operator in operators if not operator.__name__.endswith(SILENT)]
    positions: dict[tuple[str, tuple[int, int]], list[tuple[Any, int]]] = {}
    for file in files:
        nodes = list(ast_nodes(get_ast((ROOT / file).read_text())))
        for operator in [operator() for operator in operators if not operator.arguments()]:
            starts = [start for node in nodes for start, _ in operator.mutation_positions(node)]
            for occurrence, start in enumerate(starts):
                positions.setdefault((file, start), []).append((operator, occurrence))
    generator = random.Random(seed)
    drawn = generator.sample(sorted(positions), len(positions))
    for file, (line, column) in drawn:
        source = (ROOT / file).read_text()
        change = generator.choice(positions[file, (line, column)])
        with contextlib.suppress(SyntaxError):
            changed = mutate_code(source, *change)
            if changed and meaning(changed) != meaning(source):
                yield file, line, changed


def main() -> None:
    parser = argparse.ArgumentParser(description="Show the changes of a room that no test notices.")
    parser.add_argument("room", nargs="+", help="files or folders of the project")
    parser.add_argument("--tests", nargs="+", help="files or folders (default: the room's package)")
    parser.add_argument("--count", type=int, default=60, help="how many mutants (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    files = python_at(options.room)
    tops = dict.fromkeys(Path(file).parts[0] for file in files)
    tests = options.tests or ["ptxsim/tests" if top == "ptxsim" else f"tests/{top}" for top in tops]
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        ignore = shutil.ignore_patterns(*LEFT_OUT)
        copy = Path(shutil.copytree(ROOT, Path(folder, "project"), ignore=ignore))
        known = tests_by_line(copy, files, tests)
        for file, line, changed in itertools.islice(mutants(files, options.seed), options.count):
            # Its own tests may run the line as pytest reads them.
            named = {path for path in python_at(tests) if path.endswith(f"/test_{Path(file).name}")}
            chosen = named | (known[file].get(line) or set().union(*known[file].values()))
            before = (ROOT / file).read_text()
            (copy / file).write_text(changed)
            code = run_pytest(copy, "-x", *sorted(chosen), limit_s=LIMIT_S) if chosen else 0
            (copy / file).write_text(before)
            outcome = {0: "survived", None: "out of time"}.get(code, "killed")
            outcomes[outcome] += 1
            if outcome != "killed":
                lines = before.splitlines(), changed.splitlines()
                diff = list(difflib.unified_diff(*lines, lineterm="", n=0))[3:]
                print(f"{file}:{line}: {outcome}, {len(chosen)} tests", *diff, sep="\n  ")
                sys.stdout.flush()
    print(f"{outcomes.total()} mutants:", *(f"{n} {name}" for name, n in outcomes.items()))


if __name__ == "__main__":
    main()
