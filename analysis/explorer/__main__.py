"""Writes the explorer: one page that loads nothing from elsewhere.

python -m analysis.explorer --inputs results/inputs.json --figures results/figures --out results/explorer.html NAME ...

NAME: a bank picture, banks_NAME.svg and banks_NAME.json in the folder of figures; figures of findings,
finding_NAME.svg, are taken from the same folder. The page contains Vega-Embed with Vega-Lite and Vega (about 0.9 MB, as
vl-convert ships them) and all of its data: what every view needs as JSON, and each machine's tables, each machine's
claims, the kernels' sources and the figures as parts, compressed JSON that the page reads when a view asks for it.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from analysis import registry
from analysis.explorer.charts import charts
from analysis.explorer.content import Row, content
from analysis.inputs import Inputs
from contracts import UserError, run_command, write_text

HERE = Path(__file__).resolve().parent
LARGEST = 5_000_000  # bytes


def page(inputs: Inputs, pictures: Mapping[str, Path], figures: Mapping[str, Path]) -> str:
    """The page's text. `pictures`: SVGs of bank pictures by name; `figures`: SVGs of findings by name."""
    data, compressed = divided(content(inputs, pictures, figures))
    core = as_json(data | {"charts": charts()})
    parts = {name: (HERE / f"page.{suffix}").read_text() for name, suffix in (("style", "css"), ("script", "js"))}
    version = ".".join(alt.SCHEMA_VERSION.split(".")[:2])  # the Vega-Lite that Altair writes: v6.4
    parts |= {"vega": vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)}
    parts["parts"] = "\n".join(
        f'<script type="application/gzip" id="part-{html.escape(name)}">{text}</script>'
        for name, text in compressed.items()
    )
    safe = {"data": core.replace("<", "\\u003c"), "vega": re.sub(r"</(?=script)", r"<\\/", parts["vega"])}
    return re.sub(
        r"@(style|data|parts|vega|script)@", lambda found: (parts | safe)[found[1]], (HERE / "page.html").read_text()
    )


def divided(data: Row) -> tuple[Row, dict[str, str]]:
    """The data that every view needs, and the compressed parts by name: gzip of JSON, in base64."""
    parts: Row = {key: data.pop(key) for key in ("sources", "figures", "pictures")}
    for number, machine in enumerate(data["machines"]):
        columns = machine["bench"]["columns"]
        machine["timed"] = [
            key for key in (one["key"] for one in data["quantities"]) if key in columns and machine["bench"]["rows"]
        ]
        parts[f"machine{number}"] = {key: machine.pop(key) for key in ("bench", "problems", "counters")}
    claims = data.pop("claims")
    data["claims"] = []
    for number, machine in enumerate(dict.fromkeys(claim["machine"] for claim in claims)):
        own = [claim for claim in claims if claim["machine"] == machine]
        parts[f"claims{number}"] = own
        data["claims"].append({"machine": machine, "entries": len(own)})
    return data, {name: packed(part) for name, part in parts.items()}


def packed(part: Any) -> str:
    """JSON of a part, compressed, as text; the same for the same part."""
    return base64.b64encode(gzip.compress(as_json(part).encode(), mtime=0)).decode()


def as_json(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", required=True, type=Path, metavar="FILE.json", help="what the run's plan says")
    parser.add_argument("--tables", type=Path, metavar="DIR", help="report tables (default: tables/ next to --out)")
    parser.add_argument("--figures", required=True, type=Path, metavar="DIR", help="bank pictures, figures of findings")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE.html")
    parser.add_argument("pictures", nargs="*", metavar="NAME", help="of a bank picture")
    args = parser.parse_args()
    pictures = {name: args.figures / f"banks_{name}.svg" for name in args.pictures}
    drawn = {name: args.figures / f"finding_{name}.svg" for name in registry.findings()}
    figures = {name: path for name, path in drawn.items() if path.is_file() and registry.has_content(path)}
    text = page(Inputs.read(args.inputs, args.tables or args.out.parent / "tables"), pictures, figures)
    if (size := len(text.encode())) > LARGEST:
        raise UserError(f"{args.out}: {size:,} bytes is not allowed; allowed: at most {LARGEST:,}")
    write_text(args.out, text)


if __name__ == "__main__":
    run_command(main)
