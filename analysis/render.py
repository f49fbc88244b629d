"""Render the paper and its supplement with Typst, offline. The same tables and figures give the
same bytes.

    python -m analysis render paper/paper.typ paper/supplement.typ --tables results/tables --figures results/figures \
        --out results

Every number in the documents comes from the report tables. A table that a GPU's results cannot
have, such as the counters where Nsight Compute was not permitted, leads to a sentence in its place.
The tables of `ESSENTIAL` must be there, and so must every figure whose table is.
"""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import Any

import typst

from contracts import UserError, atomic_write

ROOT = Path(__file__).resolve().parents[1]  # documents read the kernels' sources, too
ESSENTIAL = ("summary.json", "findings.json", "timings.csv", "kernels.csv")
DRAWN = re.compile(r'\bdrawn\(\s*"(\w+)"(?:,\s*needs:\s*"(\w+)")?')
INCLUDED = re.compile(r'#(?:include|import) "([^"@]+)"')


def sources(document: Path) -> list[Path]:
    """A document's source and all that it includes, each once.

    Raises `UserError` for one that is not there.
    """
    files, queue = list[Path](), [document.resolve()]
    while queue:
        path = queue.pop(0)
        if path in files:
            continue
        if not path.is_file():
            raise UserError(f"{path}: no such file; {document} includes it")
        files.append(path)
        queue += [(path.parent / name).resolve() for name in INCLUDED.findall(path.read_text())]
    return files


def with_rows(tables: Path) -> list[str]:
    """The names of the tables that have at least one row."""
    return [
        path.stem for path in sorted(tables.glob("*.csv")) if len(path.read_text().splitlines()) > 1
    ]


def require(document: Path, tables: Path, figures: Path) -> None:
    """Raise `UserError` for a table or figure that a document needs and that is not there."""
    made_by = {tables / name: "tabulate" for name in ESSENTIAL}
    known = with_rows(tables)
    for path in sources(document):
        for name, needs in DRAWN.findall(path.read_text()):
            if not needs or needs in known:
                made_by[figures / f"{name}.pdf"] = f"draw {name}"
    for path, command in made_by.items():
        if not path.is_file():
            raise UserError(f"{path}: no such file; make it with: python -m analysis {command}")


def render(document: Path, tables: Path, figures: Path, out: Path) -> None:
    """Compile one document to `out`.

    Paths may lie anywhere: Typst's root is the folder that they share.
    """
    require(document, tables, figures)
    document, tables, figures = (path.resolve() for path in (document, tables, figures))
    root = Path(os.path.commonpath([ROOT, document.parent, tables, figures]))
    folders = {"tables": tables, "figures": figures, "project": ROOT}
    inputs = {name: f"/{path.relative_to(root).as_posix()}" for name, path in folders.items()}
    inputs["tables_there"] = ",".join(with_rows(tables))
    inputs["figures_there"] = ",".join(sorted(path.stem for path in figures.glob("*.pdf")))
    with atomic_write(out) as temporary:
        try:
            same: dict[str, Any] = {"ignore_system_fonts": True, "timestamp": 0, "format": "pdf"}
            typst.compile(document, output=temporary, root=root, sys_inputs=inputs, **same)
        except typst.TypstError as error:
            raise UserError(f"{document}: {' '.join(str(error).split())}") from error


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `render`."""
    folder: dict[str, Any] = {"required": True, "type": Path, "metavar": "DIR"}
    parser.add_argument("documents", nargs="+", type=Path, metavar="FILE.typ")
    parser.add_argument("--tables", help="made by tabulate", **folder)
    parser.add_argument("--figures", help="made by draw, as PDF", **folder)
    parser.add_argument("--out", help="folder for FILE.pdf of each document", **folder)


def run(args: argparse.Namespace) -> None:
    """Render each document that the options name."""
    for document in args.documents:
        render(document, args.tables, args.figures, args.out / f"{document.stem}.pdf")
