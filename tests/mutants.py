"""Changes one thing at a time in a room, by Cosmic Ray's operators, and shows the changes that no
test notices.

    make mutants ROOM="workflow/plan.py kernels/cost.py" TESTS="tests/workflow/test_plan.py tests/kernels" N=60 SEED=0

All runs in a copy of the project. Which tests run a line is found once, and kept in .mutants/ while
room and tests stay the same. A mutant meets the tests of its line and those of the module's name,
which may start commands or run the line as their file is read: the quickest, up to `MOST_S` seconds
of them. Annotations, docstrings and frozen= are left alone.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import hashlib
import importlib
import itertools
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from coverage import CoverageData

ROOT = Path(__file__).resolve().parent.parent
MOST_S, SLOWEST_S = 60.0, 20.0  # of a mutant's tests together, and of one of them
# without functools.cache only time changes; `is` for == is luck
SILENT = ("RemoveDecorator", "NoOp", "_Is", "_IsNot")
HEAVY = [
    "numpy",
    "pandas",
    "pyarrow.parquet",
    "scipy.stats",
    "pydantic",
    "yaml",
    "ml_dtypes",
    "cuda.core",
    "pynvml",
]


class Recorder:
    """What pytest tells of its tests: seconds by node id, and which did not pass."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.bad: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0) + report.duration
        self.bad |= {report.nodeid} if report.outcome != "passed" else set()


def run_pytest(copy: Path, arguments: list[str], limit_s: int = 100_000) -> int | None:
    """Run pytest in a forked process, which has the libraries already: its exit code; None where it
    took more than `limit_s` of a core, or six times as long.
    """
    if not (child := os.fork()):
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
        os.chdir(copy)
        os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.dont_write_bytecode = True
        sys.path[:] = [
            str(copy),
            *(path for path in sys.path if Path(path).resolve() not in (ROOT, ROOT / "tests")),
        ]
        log = os.open("pytest.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1), os.dup2(log, 2)
        recorder = Recorder()
        # ptxsim has a file of its own
        always = ["-c", "pyproject.toml", "-p", "no:cacheprovider", "-p", "no:xdist"]
        code = pytest.main([*always, *arguments], plugins=[recorder])
        Path("told.json").write_text(
            json.dumps({"seconds": recorder.seconds, "bad": sorted(recorder.bad)})
        )
        os._exit(code)
    end = time.monotonic() + 6 * limit_s
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < end:
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # and what it started
    code = os.waitstatus_to_exitcode(ended[1] if ended[0] else os.waitpid(child, 0)[1])
    return None if code in (-signal.SIGXCPU, -signal.SIGKILL) else code


def tests_by_line(copy: Path, files: list[str], tests: list[str]) -> dict[str, Any]:
    """By file and line, the tests that run it; and their seconds.

    What does not pass in the copy is left out.
    """
    content = b"".join((ROOT / name).read_bytes() for name in [*files, *python_at(tests)])
    kept = ROOT / ".mutants" / f"{hashlib.sha256(content).hexdigest()[:16]}.json"
    if not kept.is_file():
        room = [f"--cov={folder}" for folder in sorted({str(Path(file).parent) for file in files})]
        run_pytest(
            copy,
            [*tests, *room, "--cov-context=test", "--cov-report=", "-m", "not slow and not gpu"],
        )
        told, data = (
            json.loads((copy / "told.json").read_text()),
            CoverageData(str(copy / ".coverage")),
        )
        data.read()
        if told["seconds"].keys() <= {*told["bad"]}:
            raise SystemExit(f"error: no test passes:\n{(copy / 'pytest.log').read_text()[-2000:]}")
        seconds = {
            name: s
            for name, s in told["seconds"].items()
            if s <= SLOWEST_S and name not in told["bad"]
        }
        lines = {
            name: {
                n: [*{test.rpartition("|")[0] for test in own} & {*seconds}]
                for n, own in contexts.items()
            }
            for name in files
            for contexts in [data.contexts_by_lineno(str(copy / name))]
        }
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps({"lines": lines, "seconds": seconds, "left_out": told["bad"]}))
    known: dict[str, Any] = json.loads(kept.read_text())
    return known


def python_at(paths: list[str]) -> list[str]:
    """The Python files at these paths and below."""
    found = [
        path
        for name in paths
        for path in ([ROOT / name] if name.endswith(".py") else (ROOT / name).rglob("*.py"))
    ]
    return sorted(
        {path.relative_to(ROOT).as_posix() for path in found if path.name != "__init__.py"}
    )


def meaning(source: str) -> str:
    """A program without what no test could notice."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for name in {"annotation", "returns"} & {*node._fields}:
            setattr(node, name, None)
        if isinstance(node, ast.Call):
            node.keywords = [keyword for keyword in node.keywords if keyword.arg != "frozen"]
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = ""
    return ast.dump(tree)


def drawn(files: list[str], seed: int) -> Iterator[tuple[str, int, str]]:
    """Mutants as file, line and new text: first a place is drawn, then one of the changes that can
    be made there.
    """
    operators = [
        plugins.get_operator(name) for name in plugins.operator_names() if not name.endswith(SILENT)
    ]
    places: dict[tuple[str, tuple[int, int]], list[tuple[Any, int]]] = {}
    for file in files:
        nodes = list(ast_nodes(get_ast((ROOT / file).read_text())))
        for operator in [one() for one in operators if not one.arguments()]:
            starts = [start for node in nodes for start, _ in operator.mutation_positions(node)]
            for occurrence, start in enumerate(starts):
                places.setdefault((file, start), []).append((operator, occurrence))
    generator = random.Random(seed)
    for (file, (line, _)), choices in generator.sample(
        sorted(places.items(), key=lambda item: item[0]), len(places)
    ):
        source = (ROOT / file).read_text()
        changed = mutate_code(source, *generator.choice(choices))
        with contextlib.suppress(SyntaxError):
            if changed and meaning(changed) != meaning(source):
                yield file, line, changed


def outcome(
    copy: Path, file: str, line: int, changed: str, known: dict[str, Any]
) -> tuple[str, int]:
    """Whether the tests of this line let a mutant survive, kill it, or run out of time with it;
    and how many there are.
    """
    of_module = [test for test in known["seconds"] if f"/test_{Path(file).stem}.py::" in test]
    chosen, total = list[str](), 0.0
    # of what runs when it is imported
    of_file = {test for own in known["lines"][file].values() for test in own}
    of_line = known["lines"][file].get(str(line), [])
    for test in sorted({*of_line, *of_module} or of_file, key=known["seconds"].__getitem__):
        if chosen and total + known["seconds"][test] > MOST_S:
            break
        chosen, total = [*chosen, test], total + known["seconds"][test]
    (copy / file).write_text(changed)
    code = run_pytest(copy, ["-x", *chosen], int(30 + 5 * total)) if chosen else 0
    shutil.copy(ROOT / file, copy / file)
    return {0: "survived", None: "time"}.get(code, "killed"), len(chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description="Show the changes of a room that no test notices.")
    parser.add_argument("room", nargs="+", help="files or folders of the project")
    parser.add_argument(
        "--tests", nargs="+", help="files or folders of tests (default: all of the room's package)"
    )
    parser.add_argument("--count", type=int, default=60, help="how many mutants (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    files = python_at(options.room)
    tops = dict.fromkeys(Path(file).parts[0] for file in files)
    tests = options.tests or ["ptxsim/tests" if top == "ptxsim" else f"tests/{top}" for top in tops]
    for name in HEAVY:
        importlib.import_module(name)
    left_out = shutil.ignore_patterns(
        ".git", ".venv", "results", "__pycache__", ".mutants", ".snakemake"
    )
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(ROOT, Path(folder, "project"), ignore=left_out))
        known = tests_by_line(copy, files, tests)
        print(
            f"{len(known['seconds'])} tests; skipped, failing or too slow here: {len(known['left_out'])}",
            flush=True,
        )
        for file, line, changed in itertools.islice(drawn(files, options.seed), options.count):
            result, count = outcome(copy, file, line, changed, known)
            outcomes[result] += 1
            if result == "time":
                print(f"{file}:{line}: ran out of time with {count} tests", flush=True)
            if result == "survived":
                before = (ROOT / file).read_text().splitlines()
                diff = list(difflib.unified_diff(before, changed.splitlines(), lineterm="", n=0))[
                    3:
                ]
                print(f"{file}:{line}: survived {count} tests", *diff, sep="\n  ", flush=True)
    total, killed = outcomes.total(), outcomes["killed"] + outcomes["time"]
    print(
        f"{total} mutants, {killed} killed, of these {outcomes['time']} by time"
        f" ({killed / max(total, 1):.0%}), {outcomes['survived']} survived"
    )


if __name__ == "__main__":
    main()
