"""Report tables on one page: sorted by a click on a column's head, searched, and nothing is loaded from elsewhere.

    python -m analysis.pages --tables results/tables --out results/report/tables.html NAME [NAME ...]

DataTables, as itables ships it, stands in the page once (about 1 MB), however many tables there are.
"""

from __future__ import annotations

import argparse
import html
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import itables
import itables.javascript
import pandas as pd

from analysis import registry
from analysis.words import significant
from contracts import UserError, choose, run_command, write_text

BUNDLE = files(itables) / "html" / "dt_bundle.js"
OPTIONS: dict[str, Any] = {
    "connected": False,
    "display_logo_when_loading": False,
    "showIndex": False,
    "maxBytes": 0,  # every row
    "classes": "display compact",
    "lengthMenu": [15, 50, -1],
    "autoWidth": False,
    "text_in_header_can_be_selected": False,
    "allow_html": False,
}
STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; color: #222; margin: 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; margin: 1.5rem 0 0; }
nav a { margin-right: 1rem; white-space: nowrap; }
section { overflow-x: auto; } td { vertical-align: top; } td:has(+ td) { max-width: 34rem; }
"""
HEAD = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title>
<style>{style}</style></head>"""


def page(parts: Sequence[tuple[str, pd.DataFrame]], title: str) -> str:
    """The page, of tables and their titles. Floats are shown with three digits, and sorted by all that they have."""
    sections, links = [], []
    for number, (name, rows) in enumerate(parts):
        with pd.option_context("display.float_format", shown):
            body = itables.to_html_datatable(rows, table_id=f"table{number}", **OPTIONS)
        sections.append(f'<section id="part{number}"><h2>{html.escape(name)}</h2>\n{body}</section>')
        links.append(f'<a href="#part{number}">{html.escape(name)}</a>')
    script = itables.javascript.generate_init_offline_itables_html(Path(str(BUNDLE)))
    head = HEAD.format(title=html.escape(title), style=STYLE)
    text = f"<body>\n<h1>{html.escape(title)}</h1>\n<nav>{' '.join(links)}</nav>\n"
    return "\n".join([head, script, text, *sections, "</body>\n</html>\n"])


def shown(value: float) -> str:
    """A float in a cell: whole ones whole, others with three digits."""
    if pd.isna(value):
        return ""
    if float(value).is_integer() and abs(value) < 1e9:
        return f"{value:.0f}"
    return significant(value) if 1e-3 <= abs(value) < 1e6 else f"{value:.3g}"


def read(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path, keep_default_na=False, na_values=[""])
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}") from error


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", required=True, type=Path, metavar="DIR", help="with NAME.csv")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE.html")
    parser.add_argument("--title", default="Tables, to sort and search")
    parser.add_argument("names", nargs="+", metavar="NAME", help="of a report table")
    args = parser.parse_args()
    known = {name: one for name, one in registry.tables().items() if one.kind == "table"}
    chosen = [
        choose(known, name, "table", "analysis/tables, analysis/claims, experiments/studies") for name in args.names
    ]
    parts = [(one.title, read(args.tables / one.file)) for one in chosen]
    text = page(parts, args.title)
    if loaded := re.search(r'(?:src|href)="https?:', text):
        raise UserError(f"{args.out}: the page would load {loaded[0]}...; another version of itables?")
    write_text(args.out, text)


if __name__ == "__main__":
    run_command(main)
