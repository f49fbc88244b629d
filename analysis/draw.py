"""Draws figures, all that are named in one process: an SVG and a PDF each.

python -m analysis.draw --inputs results/inputs.json --out results/figures NAME [NAME ...]
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Sequence
from pathlib import Path

from analysis import registry
from analysis.inputs import Inputs
from contracts import choose, run_command


def draw(inputs: Inputs, names: Sequence[str], out: Path) -> None:
    """Draw figures by their output names (`registry.outputs`) into a folder.

    Raises `UserError` for a name that is none before anything is drawn. Python looks for unused memory once a figure,
    in place of many times, and no longer among what is loaded now.
    """
    known = registry.outputs(inputs.experiments)
    chosen = {name: choose(known, name, "figure", registry.SOURCES) for name in names}
    import matplotlib.pyplot as plt  # takes long, as seaborn does: only once the names are known
    import numpy as np

    from analysis.figures import style

    gc.freeze()
    gc.disable()
    for name, (one, experiment) in chosen.items():
        np.random.seed(0)  # seaborn spreads points by it: the same each time, whatever is drawn before
        style.save(one.made(inputs.of(experiment) if experiment else inputs), out / f"{name}.svg")
        plt.close("all")
        gc.collect()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", required=True, type=Path, metavar="FILE.json", help="what the run's plan says")
    parser.add_argument("--tables", type=Path, metavar="DIR", help="report tables (default: tables/ next to --out)")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="for NAME.svg and NAME.pdf")
    parser.add_argument("names", nargs="+", metavar="NAME", help="a figure; of one experiment: KIND_EXPERIMENT")
    args = parser.parse_args()
    draw(Inputs.read(args.inputs, args.tables or args.out.parent / "tables"), args.names, args.out)


if __name__ == "__main__":
    run_command(main)
