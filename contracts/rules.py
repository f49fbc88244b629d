"""The rules by which measurements are judged, each with a hash: claims with their thresholds,
findings, statistics.

provenance.json has the hashes of the tree that measured, so that a rule that changed afterwards is
known.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

from contracts import worklogs
from contracts.declared import ClaimEntry, Claims
from contracts.files import digest, read_yaml

FINDINGS = Path("analysis/findings.py")
STATISTICS = tuple(
    Path("analysis") / f"{name}.py" for name in ("claims", "estimates", "numbers", "timings")
)


def of_claim(entry: ClaimEntry) -> str:
    """The hash of a claim's test and quotation."""
    return digest(f"{entry.test}\n{entry.quote}")


def hashes(root: Path = Path()) -> dict[str, str]:
    """Rule to hash: WORKLOG/ID of each claim, findings/NAME of each function and constant of the
    findings, and the path of each module that computes statistics. Comments and docstrings take no
    part.

    root: of the repository.
    """
    found: dict[str, str] = {}
    for worklog, path in worklogs.claims(root / worklogs.FOLDER).items():
        found |= {
            f"{worklog}/{entry.id}": of_claim(entry) for entry in read_yaml(path, Claims).root
        }
    for name, part in _parts(root / FINDINGS):
        found[f"findings/{name}"] = digest(ast.unparse(part))
    for path in STATISTICS:
        found[path.as_posix()] = digest(*(ast.unparse(part) for _, part in _parts(root / path)))
    return found


def changed(recorded: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The rules that are new, gone or other than recorded, by name."""
    return sorted(
        name for name in recorded.keys() | now.keys() if recorded.get(name) != now.get(name)
    )


def _parts(path: Path) -> list[tuple[str, ast.stmt]]:
    """The functions, classes and constants of a module by name, without their docstrings."""
    found: list[tuple[str, ast.stmt]] = []
    for part in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(part, ast.Assign | ast.AnnAssign):
            target = part.targets[0] if isinstance(part, ast.Assign) else part.target
            found.append((ast.unparse(target), part))
        elif isinstance(part, ast.FunctionDef | ast.ClassDef):
            for node in ast.walk(part):
                if (
                    isinstance(node, ast.FunctionDef | ast.ClassDef)
                    and ast.get_docstring(node) is not None
                ):
                    node.body = node.body[1:]
            found.append((part.name, part))
    return found
