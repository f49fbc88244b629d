"""Writes the explorer: one page that loads nothing from elsewhere.

python -m analysis.explorer --inputs results/inputs.json --figures results/figures --out results/explorer.html NAME ...

NAME: a bank picture, banks_NAME.svg and banks_NAME.json in the folder of figures. Vega-Embed with Vega-Lite and Vega
(about 0.9 MB, as vl-convert ships them) stand in the page, and so does all of its data.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path

import altair as alt
import vl_convert

from analysis.explorer.charts import charts
from analysis.explorer.content import content
from analysis.inputs import Inputs
from contracts import UserError, run_command, write_text

HERE = Path(__file__).resolve().parent
LARGEST = 5_000_000  # bytes


def page(inputs: Inputs, pictures: Mapping[str, Path]) -> str:
    """The page's text. `pictures`: SVGs by name."""
    told = json.dumps(content(inputs, pictures) | {"charts": charts()}, separators=(",", ":"), allow_nan=False)
    parts = {name: (HERE / f"page.{suffix}").read_text() for name, suffix in (("style", "css"), ("script", "js"))}
    version = ".".join(alt.SCHEMA_VERSION.split(".")[:2])  # the Vega-Lite that Altair writes: v6.4
    parts |= {"vega": vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version), "data": told}
    safe = {"data": told.replace("<", "\\u003c"), "vega": re.sub(r"</(?=script)", r"<\\/", parts["vega"])}
    return re.sub(
        r"@(style|data|vega|script)@", lambda found: (parts | safe)[found[1]], (HERE / "page.html").read_text()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", required=True, type=Path, metavar="FILE.json", help="what the run's plan says")
    parser.add_argument("--tables", type=Path, metavar="DIR", help="with report tables (default: tables beside --out)")
    parser.add_argument("--figures", required=True, type=Path, metavar="DIR", help="with the bank pictures")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE.html")
    parser.add_argument("pictures", nargs="*", metavar="NAME", help="of a bank picture")
    args = parser.parse_args()
    pictures = {name: args.figures / f"banks_{name}.svg" for name in args.pictures}
    text = page(Inputs.read(args.inputs, args.tables or args.out.parent / "tables"), pictures)
    if (size := len(text.encode())) > LARGEST:
        raise UserError(f"{args.out}: {size:,} bytes is not allowed; allowed: at most {LARGEST:,}")
    write_text(args.out, text)


if __name__ == "__main__":
    run_command(main)
