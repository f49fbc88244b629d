"""inputs.json of a folder of tables, as a run's plan writes it, for the commands that draw and tabulate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from contracts import registry, write_json
from experiments import declarations


def planned() -> dict[str, dict[str, Any]]:
    """The experiments, as a plan lists them."""
    found = {}
    for name in declarations.names():
        one = declarations.load(name)
        found[name] = {
            "title": one.title, "question": one.question, "kind": one.kind,
            "variants": list(one.variants), "profiled": [problem.n for problem in one.profiled], "by_name": one.by_name,
        }  # fmt: skip
    return found


def write_inputs(path: Path, folder: Path, variants: Path, **changes: Any) -> Path:
    """Write inputs.json of a machine's folder, an archive unless `changes` say otherwise; `tables` join its own."""
    files = {name: folder / one.file for name, one in registry.tables().items()}
    tables = {name: str(file) for name, file in files.items() if file.is_file()} | {"variants": str(variants)}
    content = {
        "machine": folder.name,
        "archived": True,
        "why_archived": None,
        "tables": tables | {name: str(file) for name, file in changes.pop("tables", {}).items()},
        "of_experiment": {},
        "tuning": {"archived": True} if "tuning" in tables else None,
        "experiments": planned(),
        "other_runs": [],
        "archives": [],
        "left_out": {},
    }
    write_json(path, "inputs", content | changes)
    return path
