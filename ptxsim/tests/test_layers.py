"""What the package needs from outside."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import ptxsim

ROOT = Path(ptxsim.__file__).parent
ROOMS = ("", "check/", "count/", "engine/", "exec/", "instructions/", "machine/", "ptx/")
NEEDED = {"numpy", "ml_dtypes"}  # pyproject.toml's dependencies


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
