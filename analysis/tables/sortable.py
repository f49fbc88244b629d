"""A table as one HTML page for the report: sorted by a click on a column's head, narrowed by words, nothing loaded.

python -m analysis.tables.sortable --table results/tables/claims.csv --only worklog=A --title "Worklog A" --out claims_A.html
"""

from __future__ import annotations

import argparse
import html
from pathlib import Path

import pandas as pd

from analysis.claims.files import short
from contracts import UserError, choose, run_command, write_text

LONG, TEXT = 40, 160  # characters from which on a cell is kept wide, and wider
SHORT = 5  # up to which a number stands as it is
STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; color: #222; margin: 1rem; }
h1 { font-size: 1.2rem; } input { font: inherit; padding: .2rem .4rem; width: 20rem; max-width: 100%; }
table { border-collapse: collapse; margin-top: .8rem; }
th, td { padding: .3rem .5rem; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
td.long { min-width: 15rem; } td.text { min-width: 34rem; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
th { position: sticky; top: 0; background: #fff; } tr:hover td { background: #f4f4f4; }
th button { all: unset; cursor: pointer; font-weight: 600; white-space: nowrap; }
th button:focus-visible { outline: 2px solid #0072B2; }
th[aria-sort=ascending] button::after { content: " ▲"; } th[aria-sort=descending] button::after { content: " ▼"; }
"""
SCRIPT = """
const body = document.querySelector("tbody"), rows = [...body.rows], count = document.querySelector("output");
const value = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent;
function compare(a, b) {
  const [x, y] = [a, b].map(text => text === "" ? NaN : Number(text));
  if (!isNaN(x) && !isNaN(y)) return x - y;
  if (!isNaN(x) || !isNaN(y)) return isNaN(x) ? 1 : -1;
  return a.localeCompare(b);
}
document.querySelectorAll("th").forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
  const down = head.getAttribute("aria-sort") === "ascending";
  document.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const sorted = [...rows].sort((a, b) => {
    const [x, y] = [value(a, column), value(b, column)];
    if ((x === "") !== (y === "")) return x === "" ? 1 : -1;  // empty cells stay last
    return down ? compare(y, x) : compare(x, y);
  });
  body.append(...sorted);
}));
document.querySelector("input").addEventListener("input", event => {
  const words = event.target.value.toLowerCase().split(/\\s+/);
  rows.forEach(row => { row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word)); });
  count.textContent = rows.filter(row => !row.hidden).length;
});
"""


def page(rows: pd.DataFrame, title: str) -> str:
    """The page. Numbers are shown with three digits; they are sorted, and told on pointing at them, with all."""
    heads = "".join(
        f'<th scope="col"{_side(rows[name])}><button type="button">{html.escape(name)}</button></th>' for name in rows
    )
    cells = ["".join(f"<td{_cell(value)}</td>" for value in row) for row in rows.itertuples(index=False)]
    body = "\n".join(f"<tr>{row}</tr>" for row in cells)
    name = html.escape(title)
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{name}</title>\n<style>{STYLE}</style>'
        f"</head>\n<body>\n<h1>{name}</h1>\n<label>Rows with these words: <input type=search></label>"
        f" <output>{len(rows)}</output> of {len(rows)}\n"
        f"<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n<script>{SCRIPT}</script>\n</body>\n"
        "</html>\n"
    )


def _side(column: pd.Series) -> str:
    """The head of a column of numbers stands where they do."""
    return ' class="number"' if any(column.map(is_number)) and all(column.map(lambda t: not t or is_number(t))) else ""


def _cell(text: str) -> str:
    """A cell's attributes and content."""
    whole = html.escape(text)
    if not is_number(text):
        width = "text" if len(text) > TEXT else "long" if len(text) > LONG else ""
        return f' class="{width}">{whole}' if width else f">{whole}"
    shown = text if len(text) <= SHORT else short(text)
    return f' class="number" data-value="{whole}" title="{whole}">{html.escape(shown)}'


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--table", required=True, type=Path, metavar="FILE.csv")
    parser.add_argument("--title", required=True)
    parser.add_argument("--only", metavar="COLUMN=VALUE", help="rows with this value; the column is left out")
    parser.add_argument("--columns", nargs="+", metavar="COLUMN", help="these, in this order (if left out: all)")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE.html")
    args = parser.parse_args()
    try:
        rows = pd.read_csv(args.table, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {args.table}: {error}") from error
    known = {name: name for name in rows}
    if args.only:
        column, _, value = args.only.partition("=")
        rows = rows[rows[choose(known, column, "column", args.table)] == value].drop(columns=column)
    columns = [choose(known, name, "column", args.table) for name in args.columns or rows]
    write_text(args.out, page(rows[columns], args.title))


if __name__ == "__main__":
    run_command(main)
