"""Draws figures of a results folder, all that are named in one process: an SVG and a PDF each.

    python -m analysis draw --results data/h100 --out results/figures NAME [NAME:EXPERIMENT ...]

A figure of one experiment is written as NAME_EXPERIMENT. --here names the folder of this tree's own
build and emulation.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from pathlib import Path

from analysis.results import Results, of_options, tell_left_out
from contracts import UserError, choose

FIGURES = {path.stem: path for path in sorted(Path(__file__).with_name("figures").glob("*.py"))}
FIGURES = {name: path for name, path in FIGURES.items() if name not in ("__init__", "style")}

EXPERIMENTS = Path("experiments")


def draw(results: Results, names: Sequence[str], out: Path) -> None:
    """Draw figures, NAME or NAME:EXPERIMENT, into a folder.

    Raises `UserError` for a name that is none.
    """
    experiments = {path.stem: path for path in EXPERIMENTS.glob("*.yaml")}
    chosen: list[tuple[str, str | None]] = []
    for name in names:
        figure, _, experiment = name.partition(":")
        choose(FIGURES, figure, "figure", "analysis/figures/")
        if name.endswith(":"):
            raise UserError(f"{name!r} names no experiment; allowed: NAME or NAME:EXPERIMENT")
        if experiment:
            choose(experiments, experiment, "experiment", EXPERIMENTS)
        chosen.append((figure, experiment or None))
    import matplotlib.pyplot as plt  # takes a second, so only once the names are known
    import numpy as np

    from analysis.figures import style

    for module, of in chosen:
        np.random.seed(0)  # seaborn spreads points by it
        drawn = importlib.import_module(f"analysis.figures.{module}").draw(results, of)
        style.mark(drawn, results.note)
        style.save(drawn, out / f"{module}_{of}.svg" if of else out / f"{module}.svg")
        plt.close("all")


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `draw`."""
    parser.add_argument(
        "--out", required=True, type=Path, metavar="DIR", help="for NAME.svg and NAME.pdf"
    )
    parser.add_argument(
        "names", nargs="+", metavar="NAME[:EXPERIMENT]", help=f"figures: {', '.join(FIGURES)}"
    )


def run(args: argparse.Namespace) -> None:
    """Draw what the options name."""
    results = of_options(args)
    draw(results, args.names, args.out)
    tell_left_out(results)
