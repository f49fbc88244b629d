"""What the package needs from outside, and that no two of its modules need each other."""

from __future__ import annotations

import ast
import graphlib
import sys
from pathlib import Path

import ptxsim

ROOT = Path(ptxsim.__file__).parent
ROOMS = ("", "check/", "count/", "engine/", "exec/", "instructions/", "machine/", "ptx/")
NEEDED = {"numpy", "ml_dtypes", "highspy"}  # pyproject.toml's dependencies


def outside(path: Path) -> set[str]:
    """Top-level names of what a file imports from outside the package."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(str(node.module).partition(".")[0])
    return found


def test_it_imports_its_dependencies_and_nothing_else() -> None:
    files = [path for room in ROOMS for path in ROOT.glob(f"{room}*.py")]
    plugin = ROOT / "testing.py"  # of pytest, and usable without it
    assert set().union(*(outside(f) for f in files if f != plugin)) - sys.stdlib_module_names == NEEDED
    assert outside(plugin) - sys.stdlib_module_names == {"numpy", "pytest"}
    # the package is the folder that commands may run in: none of its modules may hide one of Python's
    assert not {path.stem for path in ROOT.glob("*.py")} & sys.stdlib_module_names


def imports(path: Path) -> set[str]:
    """Names, relative to the package, of the modules that a file imports from it, wherever it does."""
    package = path.relative_to(ROOT).parent.parts
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            base = [part for part in base if part]
            for name in node.names:
                found |= {".".join([*base, name.name]), ".".join(base)}
    return found


def test_imports_have_no_cycle() -> None:
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): imports(path)
        for path in [path for room in ROOMS for path in ROOT.glob(f"{room}*.py")]
        if path.parent != ROOT or path.stem not in ("__init__", "__main__")
    }
    # a package's own file imports its modules, so a module may not count as needing its package for a sibling's sake
    graph = {}
    for name, needs in modules.items():
        graph[name] = {n for n in needs & set(modules) if n != name and not name.startswith(f"{n}.")}
    assert len(graph) > 40 and graph["engine.machine"] >= {"ptx.program", "instructions.registry"}
    graphlib.TopologicalSorter(graph).prepare()
