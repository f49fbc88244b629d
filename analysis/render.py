"""Render the paper: Typst, offline, and the same bytes for the same tables and figures.

The paper reads report tables and figures; every number in it is theirs. Of some it says that they are not there: it is
told which files there are, since Typst cannot look.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from pathlib import Path

import typst

from analysis import registry
from contracts import UserError, atomic_write, run_command

# What the paper's sources read whatever this copy has
READS = re.compile(r'rows-of\("(\w+)"\)|(?:#|\()drawn\(\s*"(\w+)"')


def required(paper: Path, tables: Path, figures: Path, bank_pictures: list[str]) -> list[tuple[Path, str]]:
    """Every file that the paper reads, with the command that makes it."""
    sources = [paper, *sorted(paper.parent.glob("*.typ")), *sorted((paper.parent / "sections").glob("*.typ"))]
    named = [match for path in dict.fromkeys(sources) for match in READS.findall(path.read_text())]
    needed = {tables / f"{table}.csv": f"analysis.tabulate {table}" for table, _ in named if table}
    always = {name for name, one in registry.figures().items() if not one.where_needed}
    drawn = [figure for _, figure in named if figure in always]
    summary = json.loads((tables / "summary.json").read_text())
    drawn += ["autotune"] if summary["autotune"] else []
    drawn += [f"{experiment['kind']}_{experiment['name']}" for experiment in summary["experiments"]]
    needed |= {figures / f"{name}.pdf": f"analysis.draw {name}" for name in drawn}
    for name in bank_pictures:
        made_by = f"experiments.bank_pictures {name}"
        needed |= {figures / f"banks_{name}.{suffix}": made_by for suffix in ("pdf", "json")}
    return list(needed.items())


def render(paper: Path, tables: Path, figures: Path, out: Path, bank_pictures: list[str] | None = None) -> None:
    """Compile `paper` to `out`. Paths may lie anywhere: Typst's root is the folder that they share."""
    for path, what in (
        (paper, "the paper's source"),
        (tables / "summary.json", "made by python -m analysis.tabulate"),
    ):
        if not path.is_file():
            raise UserError(f"no such file: {path} ({what})")
    for path, command in required(paper, tables, figures, bank_pictures or []):
        if not path.is_file():
            raise UserError(f"no such file: {path} (made by python -m {command})")
    paper, tables, figures = (path.resolve() for path in (paper, tables, figures))
    root = Path(os.path.commonpath([paper.parent, tables, figures]))
    folders = {"tables": tables, "figures": figures}
    inputs = {name: f"/{path.relative_to(root).as_posix()}" for name, path in folders.items()}
    inputs["bank_pictures"] = ",".join(bank_pictures or [])
    inputs["tables_there"] = ",".join(sorted(path.stem for path in tables.glob("*.csv")))
    inputs["figures_there"] = ",".join(sorted(path.stem for path in figures.glob("*.pdf")))
    with atomic_write(out) as temporary:
        try:
            typst.compile(
                paper,
                output=temporary,
                root=root,
                sys_inputs=inputs,
                format="pdf",
                ignore_system_fonts=True,
                timestamp=0,
            )
        except typst.TypstError as error:
            raise UserError(f"{paper}: {' '.join(str(error).split())}") from error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paper", required=True, type=Path, metavar="FILE.typ")
    parser.add_argument("--tables", required=True, type=Path, metavar="DIR", help="from analysis.tabulate")
    parser.add_argument("--figures", required=True, type=Path, metavar="DIR", help="with PDFs, KIND_EXPERIMENT.pdf")
    parser.add_argument("--bank-pictures", nargs="*", default=[], metavar="NAME", help="of banks_NAME.pdf, .json")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE.pdf")
    args = parser.parse_args()
    render(args.paper, args.tables, args.figures, args.out, args.bank_pictures)


if __name__ == "__main__":
    run_command(main)
