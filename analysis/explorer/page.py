"""Writes the explorer: one page that loads nothing from elsewhere.

    python -m analysis explorer --results data/h100 --here results/no-gpu --tables results/tables \
        --figures results/figures --lens results/no-gpu/parts/emulate/*/lens --out results/explorer.html

The page contains what every view needs as JSON. The rest is compressed and read when a view asks
for it: timings and counters of each GPU, claims, kernel sources, lenses of the ladders' kernels, bank
pictures, and Vega-Embed with Vega-Lite and Vega.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from analysis.explorer import lenses
from analysis.explorer.charts import charts
from analysis.explorer.content import Sources, core, parts, without_lens
from analysis.results import archives_of, note_of, of_options, tell_left_out
from contracts import UserError, write_text

HERE = Path(__file__).resolve().parent
# one module on the page, in this order
SCRIPTS = ["state", "numbers", "banks", "costs", "drawing", "diff"]
SCRIPTS += ["picture", "predict", "playground", "views", "lens", "page"]
MAX_BYTES = 6_000_000


def page(sources: Sources) -> str:
    """The page's text."""
    vega_lite = ".".join(alt.SCHEMA_VERSION.split(".")[:2])  # the version that Altair writes: v6.4
    vega = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=vega_lite)
    data, unpacked = core(sources) | {"charts": charts()}, parts(sources)
    return written(data, unpacked, note_of(sources.gpus), vega=vega)


def written(data: dict[str, Any], parts: dict[str, Any], note: str, **scripts: str) -> str:
    """Return a page of this data: `parts` as JSON and `scripts` as they are, each compressed.

    note: a banner that stays; none where it is empty.
    """
    compressed = {name: as_json(part) for name, part in parts.items()} | scripts
    texts = {"style": (HERE / "page.css").read_text()}
    texts["script"] = "\n".join((HERE / f"{name}.js").read_text() for name in SCRIPTS)
    texts["data"] = as_json(data).replace("<", "\\u003c")
    texts["parts"] = "\n".join(
        f'<script type="application/gzip" id="part-{name}">{packed(text)}</script>'
        for name, text in compressed.items()
    )
    texts["note"] = f'<p class="warning" role="note">{note}</p>' if note else ""
    return re.sub(
        r"@(style|script|data|parts|note)@",
        lambda match: texts[match[1]],
        (HERE / "page.html").read_text(),
    )


def packed(text: str) -> str:
    """A text as gzip in base64; equal texts give equal results."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def as_json(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `explorer`."""
    parser.add_argument(
        "--tables", required=True, type=Path, metavar="DIR", help="claims.csv, findings.json, ..."
    )
    parser.add_argument(
        "--figures", required=True, type=Path, metavar="DIR", help="bank pictures, banks_NAME.json"
    )
    parser.add_argument(
        "--lens", nargs="*", default=[], type=Path, metavar="DIR", help="VARIANT.json of kernels"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="FILE.html")


def run(args: argparse.Namespace) -> None:
    """Write the page: first the results that the options name, then every other archive."""
    first = of_options(args)
    others = (gpu for gpu in archives_of(args) if gpu.folder.resolve() != first.folder.resolve())
    gpus = [first, *others]
    sources = Sources(gpus, args.tables, args.figures, lenses.read(args.lens))
    text = page(sources)
    if (size := len(text.encode())) > MAX_BYTES:
        raise UserError(
            f"{args.out}: {size:,} bytes is not allowed; allowed: at most {MAX_BYTES:,}"
        )
    write_text(args.out, text)
    tell_left_out(*gpus)
    for line in without_lens(sources):
        print(line)
