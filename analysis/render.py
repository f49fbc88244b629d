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
    found: list[Path] = []
    wanted = [document.resolve()]
    while wanted:
        path = wanted.pop(0)
        if path in found:
            continue
        if not path.is_file():
            raise UserError(f"{path}: no such file; {document} includes it")
        found.append(path)
        wanted += [(path.parent / name).resolve() for name in INCLUDED.findall(path.read_text())]
    return found


def with_rows(tables: Path) -> list[str]:
    """The names of the tables that have at least one row."""
    return [
        path.stem for path in sorted(tables.glob("*.csv")) if len(path.read_text().splitlines()) > 1
    ]


def require(document: Path, tables: Path, figures: Path) -> None:
    """Raise `UserError` for a table or figure that a document needs and that is not there."""
    for name in ESSENTIAL:
        if not (tables / name).is_file():
            raise UserError(
                f"{tables / name}: no such file; make it with: python -m analysis tabulate"
            )
    known = with_rows(tables)
    for name, needs in (
        match for path in sources(document) for match in DRAWN.findall(path.read_text())
    ):
        if not (figures / f"{name}.pdf").is_file() and (not needs or needs in known):
            raise UserError(
                f"{figures / name}.pdf: no such file; make it with: python -m analysis draw {name}"
            )


def render(document: Path, tables: Path, figures: Path, out: Path) -> None:
    """Compile one document to `out`.

    Paths may lie anywhere: Typst's root is the folder that they share.
    """
    require(document, tables, figures)
    document, tables, figures = (path.resolve() for path in (document, tables, figures))
    root = Path(os.path.commonpath([ROOT, document.parent, tables, figures]))
    places = {"tables": tables, "figures": figures, "project": ROOT}
    inputs = {name: f"/{path.relative_to(root).as_posix()}" for name, path in places.items()}
    inputs["tables_there"] = ",".join(with_rows(tables))
    inputs["figures_there"] = ",".join(sorted(path.stem for path in figures.glob("*.pdf")))
    with atomic_write(out) as temporary:
        try:
            typst.compile(
                document,
                output=temporary,
                root=root,
                sys_inputs=inputs,
                format="pdf",
                ignore_system_fonts=True,
                timestamp=0,
            )
        except typst.TypstError as error:
            raise UserError(f"{document}: {' '.join(str(error).split())}") from error


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `render`."""
    parser.add_argument("documents", nargs="+", type=Path, metavar="FILE.typ")
    parser.add_argument(
        "--tables", required=True, type=Path, metavar="DIR", help="made by tabulate"
    )
    parser.add_argument(
        "--figures", required=True, type=Path, metavar="DIR", help="made by draw, as PDF"
    )
    parser.add_argument(
        "--out",
        required=True,
        type=Path,
        metavar="DIR",
        help="folder for FILE.pdf of each document",
    )


def run(args: argparse.Namespace) -> None:
    """Render each document that the options name."""
    for document in args.documents:
        render(document, args.tables, args.figures, args.out / f"{document.stem}.pdf")
