"""Draws accesses to shared memory on their banks: which lane's word each bank serves in each
wavefront.

    python -m analysis banks results/figures/banks_ldmatrix.json ...

`experiments.emulation.bank_pictures` writes the data. The picture is written beside it, as SVG and
PDF.
"""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from analysis.figures import style
from contracts import read_json
from contracts.rows import BankPicture, ShownAccess

BANKS = 32
# distinct to colour-blind readers, and in grey
ALONE, FIRST, FURTHER = "#cfe3f5", "#fbd9b5", "#ee9a4d"
SHARED = "#00664b"  # the frame of a word for several lanes
LINE = 105  # characters below an access
CELL = 0.17  # inches: the height of a wavefront
LEGEND = {  # what a cell says: its colour, its frame
    "lane that is served": (ALONE, style.GREY),
    "first of a bank's several words": (FIRST, style.GREY),
    "each further one: a wavefront more": (FURTHER, style.GREY),
    "one word for several lanes (the first of them +)": ("white", SHARED),
}


def draw(picture: BankPicture) -> Figure:
    """The accesses of a picture (contracts/rows.py, `BankPicture`), one below the other."""
    accesses = picture.accesses
    heights = [access.wavefronts * CELL + 0.85 for access in accesses]
    figure, axes = plt.subplots(
        len(accesses),
        figsize=(style.WIDE, sum(heights) + 0.35),
        height_ratios=heights,
        squeeze=False,
    )
    for axis, access in zip(axes[:, 0], accesses, strict=True):
        _panel(axis, access)
    handles = [
        Patch(label=text, facecolor=fill, edgecolor=edge, linewidth=0.8)
        for text, (fill, edge) in LEGEND.items()
    ]
    figure.legend(handles=handles, loc="outside lower left", ncols=2)
    words = [f"{access.label}, {access.says}: {access.summary}." for access in accesses]
    style.describe(figure, picture.title, " ".join([picture.text, *words]))
    return figure


def _panel(axis: Axes, access: ShownAccess) -> None:
    row, labels = 0, []
    for part in access.parts:
        crowded = {word.bank for words in part.wavefronts[1:] for word in words}
        for turn, words in enumerate(part.wavefronts):
            for word in words:
                colour = FURTHER if turn else FIRST if word.bank in crowded else ALONE
                _cell(axis, word.bank, row, word.lanes, colour)
            row += 1
            labels.append(f"{'' if turn else part.name + '  '}{row}".strip())
        if part is not access.parts[-1]:
            axis.axhline(row, color=style.INK, linewidth=0.9)
    axis.set(xlim=(0, BANKS), ylim=(row, 0), ylabel="wavefront")
    axis.set_xticks([bank + 0.5 for bank in range(BANKS)], [str(bank) for bank in range(BANKS)])
    axis.set_yticks([number + 0.5 for number in range(row)], labels)
    axis.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
    for edge in ("top", "right"):
        axis.spines[edge].set_visible(True)
    where, which = access.about
    axis.set_title(f"{access.label}, {access.says}\n{access.summary}")
    source = textwrap.shorten(f"{where}: {access.source}", LINE)
    axis.set_xlabel(f"{source}\n{which}", loc="left", color=style.GREY)


def _cell(axis: Axes, bank: int, row: int, lanes: list[int], colour: str) -> None:
    several = len(lanes) > 1
    edge, width = (SHARED, 1.2) if several else (style.GREY, 0.4)
    axis.add_patch(Rectangle((bank, row), 1, 1, facecolor=colour, edgecolor=edge, linewidth=width))
    axis.text(bank + 0.5, row + 0.5, f"{lanes[0]}{'+' * several}", ha="center", va="center")


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `banks`."""
    parser.add_argument("pictures", nargs="+", type=Path, metavar="banks_NAME.json")


def run(args: argparse.Namespace) -> None:
    """Draw each picture beside its data."""
    for path in args.pictures:
        style.save(draw(read_json(path, BankPicture)), path.with_suffix(".svg"))
        plt.close("all")
