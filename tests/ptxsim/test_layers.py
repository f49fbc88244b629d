"""No two modules of the package need each other."""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path

import ptxsim

ROOT = Path(ptxsim.__file__).parent


def imports(path: Path) -> set[str]:
    """Names, relative to the package, of the modules that a file imports from it, wherever it does; those that only a
    type checker sees are left out."""
    package = path.relative_to(ROOT).parent.parts
    tree = ast.parse(path.read_text())
    hidden = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for child in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level and node not in hidden:
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            base = [part for part in base if part]
            for name in node.names:
                found |= {".".join([*base, name.name]), ".".join(base)}
    return found


def test_imports_have_no_cycle() -> None:
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): imports(path)
        for path in ROOT.rglob("*.py")
        if path.parent != ROOT or path.stem not in ("__init__", "__main__")
    }
    # a package's own file imports its modules, so a module may not count as needing its package for a sibling's sake
    graph = {}
    for name, needs in modules.items():
        graph[name] = {n for n in needs & set(modules) if n != name and not name.startswith(f"{n}.")}
    assert len(graph) > 40 and graph["machine"] >= {"program", "instructions.registry"}
    graphlib.TopologicalSorter(graph).prepare()
