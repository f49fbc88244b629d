"""Writes the page of one kernel, of the catalogue or not: the lens of the explorer, and nothing else.

    python -m analysis lens mine.json --over sgemm_vectorized.json --results data/h100 \\
        --out mine.html

`experiments.try_kernel --html` writes both files and calls this.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from analysis import ladders
from analysis.explorer import lenses
from analysis.explorer.content import STEP, gpu, kernels, measured, names, worklogs
from analysis.explorer.page import written
from analysis.results import Results, of_options
from contracts import read_json, write_text
from contracts.rows import Lens

OWN = "own"  # the worklog of what is in none


def page(kernel: Lens, over: Lens | None, results: Results) -> str:
    """The page's text. over: the rung that the kernel is compared with; results: of a GPU that may
    have profiled both.
    """
    shown = {lens.variant: lens for lens in (kernel, over) if lens}
    known, of_ladders = kernels(results.variants), ladders.steps(results.variants)
    steps = [step for step in of_ladders if {step["variant"], step["over"]} <= shown.keys()]
    own = {name: known.get(name) or entry(lens) for name, lens in shown.items()}
    data = names() | {
        "views": ["lens"],
        "gpus": [gpu(results)],
        "kernels": own,
        "worklogs": worklogs(results.variants) | {OWN: {"short": "not in the catalogue"}},
        "steps": [{key: step[key] for key in STEP} for step in steps],
        "lenses": list(shown),
        "ladders": [],
        "findings": [],
        "pictures": {},
        "charts": {},
    }
    parts = {
        "gpu0": measured(results, tuple(shown)),
        "sources": lenses.sources(shown.values()),
        "explanations": lenses.explanations(shown),
        **{f"lens_{name}": lenses.packed(lens) for name, lens in shown.items()},
    }
    return written(data, parts, "")


def entry(lens: Lens) -> dict[str, Any]:
    """A kernel that is not in the catalogue, as `kernels` has those that are."""
    fields = ("label", "dtype", "idea", "builds_on", "source")
    return {"worklog": OWN, "kind": "kernel"} | {key: getattr(lens, key) for key in fields}


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lens`."""
    parser.add_argument("kernel", type=Path, metavar="KERNEL.json", help="contracts' Lens")
    words = "the rung that it is compared with"
    parser.add_argument("--over", type=Path, metavar="RUNG.json", help=words)
    parser.add_argument("--out", required=True, type=Path, metavar="FILE.html")


def run(args: argparse.Namespace) -> None:
    """Write the page."""
    over = read_json(args.over, Lens) if args.over else None
    write_text(args.out, page(read_json(args.kernel, Lens), over, of_options(args)))
