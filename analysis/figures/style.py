"""One look for every figure: sizes at which they are printed, colours, the line of provenance, and
how files are saved.

Colours are of Okabe and Ito's palette, which most colour-blind readers can distinguish. No text is
under 7 points at the printed size. Text in an SVG stays text, and the file has a title and a
description for screen readers.
"""

from __future__ import annotations

import math
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from html import escape
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from analysis import ladders
from analysis.estimates import number
from analysis.results import OLDER, Results, lines_of
from contracts import UserError, atomic_write

WIDE = 6.5  # inches: the width of a page's text
COLUMN = 3.35  # inches: a column of the paper
ROW = 0.155  # inches: a row of a list at 7 points
LINE = 0.2  # inches: a line of text above a figure
SMALL = 7  # points: the smallest text
INK, GREY, PALE = "#222222", "#767676", ladders.PALE_GREY
BLUE, GREEN, ORANGE, PURPLE, SKY, RED = ladders.PALETTE
COLOURS = [BLUE, GREEN, ORANGE, PURPLE, SKY, RED, "#000000"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
DTYPES = {"fp32": BLUE, "tf32": GREEN, "bf16": ORANGE, "fp16": RED}

sns.set_theme(
    context="paper",
    style="ticks",
    palette=COLOURS,
    rc={
        "font.family": ["DejaVu Sans"],  # comes with Matplotlib: the same layout on every machine
        "font.size": SMALL,
        "axes.labelsize": SMALL,
        "axes.titlesize": 7.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "xtick.labelsize": SMALL,
        "ytick.labelsize": SMALL,
        "legend.fontsize": SMALL,
        "legend.frameon": False,
        "text.color": INK,
        "axes.edgecolor": INK,
        "axes.titlepad": 4.0,
        "axes.labelpad": 3.0,
        "axes.linewidth": 0.7,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "grid.color": "#DDDDDD",
        "grid.linewidth": 0.5,
        "xtick.major.width": 0.7,
        "ytick.major.width": 0.7,
        "xtick.minor.width": 0.5,
        "ytick.minor.width": 0.5,
        "xtick.major.size": 3.0,
        "ytick.major.size": 3.0,
        "xtick.minor.size": 1.5,
        "ytick.minor.size": 1.5,
        "hatch.linewidth": 0.5,
        "patch.linewidth": 0.5,
        "figure.constrained_layout.use": True,
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "gemm-ladder",  # else the ids of elements are random
        "pdf.fonttype": 42,
    },
)


def looks(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return a colour and a marker for each name, as seaborn's options."""
    names = list(dict.fromkeys(names))
    return {
        "palette": dict(zip(names, cycle(COLOURS), strict=False)),
        "markers": dict(zip(names, cycle(MARKERS), strict=False)),
    }


def looks_of_authors(rows: pd.DataFrame, variants: pd.DataFrame) -> dict[str, dict[str, str]]:
    """Return a colour and a marker for each label: those of its ladder, with a darker colour for
    each further kernel of one ladder.

    rows: with label and worklog; variants: the catalogue.
    """
    colours, markers = ladders.colours(variants), ladders.markers(variants)
    kernels = rows.drop_duplicates("label")[["label", "worklog"]]
    looks: dict[str, dict[str, str]] = {"palette": {}, "markers": {}}
    for name, labels in kernels.groupby("worklog", sort=False)["label"]:
        worklog = str(name)
        red, green, blue = to_rgb(colours[worklog])
        for label, shade in zip(labels, np.linspace(1, 0.4, len(labels)), strict=True):
            looks["palette"][label] = to_hex((shade * red, shade * green, shade * blue))
            looks["markers"][label] = markers[worklog]
    return looks


def darker(colour: str) -> str:
    """A colour for text, dark enough to be read on white."""
    red, green, blue = to_rgb(colour)
    return to_hex((0.68 * red, 0.68 * green, 0.68 * blue))


def lighter(colour: str) -> str:
    """A colour for text, light enough to be read on black."""
    red, green, blue = to_rgb(colour)
    return to_hex((0.6 * red + 0.4, 0.6 * green + 0.4, 0.6 * blue + 0.4))


def on_dark(svg: str) -> str:
    """Return the text of a figure with the colours that GitHub's dark background needs."""
    pairs = {INK: "#f0f6fc", "#262626": "#f0f6fc", GREY: "#9198a1", "#dddddd": "#30363d"}
    pairs |= {"#ffffff": "#0d1117", **{darker(colour): lighter(colour) for colour in COLOURS}}
    return re.sub("|".join(pairs), lambda match: pairs[match[0]], svg)


def describe(figure: Figure, title: str, text: str) -> None:
    """Say what the figure shows, for the title and the description of its SVG."""
    figure.set_label(f"{title}\n{text}")


def provenance(figure: Figure, results: Results, *facts: str) -> None:
    """One line below the figure: the GPU, the date, what all of its numbers have in common, and
    what is left out.
    """
    parts = [f"{results.model}, {results.date}", *(fact for fact in facts if fact)]
    parts += [f"left out: {line}" for line in lines_of(results.left_out)]
    lines = textwrap.wrap(" · ".join(parts), int(19.5 * figure.get_figwidth()))
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=SMALL, color=GREY)


def finish(figure: Figure, results: Results, title: str, text: str, *facts: str) -> Figure:
    """Return the figure with its description and its line of provenance."""
    describe(figure, title, text)
    provenance(figure, results, *facts)
    return figure


def in_row(axes: Axes, x: float, y: float, text: str, **look: Any) -> None:
    """Write a text in row `y`, at `x` of the axes' width."""
    axes.text(x, y, text, va="center", transform=axes.get_yaxis_transform(), **look)


def beside(
    axes: Axes, text: str, at: tuple[float, float], points: tuple[float, float], **look: Any
) -> None:
    """Write a text so many points beside a position."""
    beside: dict[str, Any] = {"textcoords": "offset points", "annotation_clip": False}
    axes.annotate(text, at, points, **beside | {"va": "center"} | look)


def panels(
    count: int, columns: int, line: float, more: float, **shared: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure of `count` panels in so many columns.

    line: height of a line of panels, more: what the figure is higher than these, in inches.
    """
    lines = math.ceil(count / columns)
    size = (WIDE, more + line * lines)
    figure, grid = plt.subplots(lines, columns, figsize=size, squeeze=False, **shared)
    for axes in grid.flat[count:]:
        axes.set_visible(False)
    return figure, list(grid.flat[:count])


def empty(
    results: Results,
    what: str,
    why: str = "It was not measured.",
    width: float = WIDE,
    experiment: str | None = None,
    measured: pd.DataFrame | None = None,
) -> Figure:
    """A small panel in place of a figure that has nothing to draw, of which standard error tells,
    too.

    experiment: the one that was asked for by name; measured: its recorded rows. Raises `UserError`,
    with the reasons, where such rows do not count, or the folder is the experiment's own; but of an
    archive that never had it, or that is older than its kernels' code, and of a stage that recorded
    why it did not run, the panel says so.
    """
    lost = results.names_left_out(measured) if measured is not None else []
    why = f"Left out: {'; '.join(lines_of(lost))}." if lost else why
    older = results.archived and {kernel.reason for kernel in lost} <= OLDER
    measured_here = experiment and results.folder.parts[-2:] == ("only", experiment)
    explained = why in (results.provenance.left_out or {}).values()
    message = f"{what}: nothing to show. {why}"
    if experiment and not older and not explained and (lost or measured_here):
        raise UserError(f"{results.folder}: {message}")
    print(f"{results.folder}: {message}", file=sys.stderr)
    figure = plt.figure(figsize=(width, 0.8))
    text = textwrap.fill(message, int(17 * width))
    figure.text(0.5, 0.6, text, ha="center", va="center")
    return finish(figure, results, what, why)


def mark(figure: Figure, note: str) -> None:
    """Put what a reader has to know of every number at the top of a figure, once; nothing where
    there is no note.
    """
    if not note:
        return
    figure.set_figheight(figure.get_figheight() + LINE)
    top = 1 - LINE / figure.get_figheight()
    if isinstance(engine := figure.get_layout_engine(), ConstrainedLayoutEngine):
        engine.set(rect=(0, 0, 1, top))
    lay_out(figure)
    # Legends take no room in a layout once they are placed.
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0, 0, 1, top))
    figure.text(0.01, 1, note, va="top", fontsize=SMALL + 1, fontweight="bold", color=RED)
    figure.set_label(f"{figure.get_label()} {note}")


def list_rows(axes: Axes, ys: Iterable[float], names: Sequence[str], margin: float = 0.7) -> None:
    """Names at the left of rows, the first on top; grid lines of the values alone."""
    ys = list(ys)
    axes.set_yticks(ys, names)
    axes.set_ylim(max(ys, default=0) + margin, min(ys, default=0) - margin)
    axes.tick_params(axis="y", length=0, pad=2)
    axes.grid(axis="x")


def percent(fraction: float) -> str:
    """A fraction in percent: one digit after the point from 10 to 200."""
    value = 100 * fraction
    return f"{value:.1f}%" if 10 <= value < 200 else f"{number(value)}%"


def times(ratio: float) -> str:
    """A gain: ×12.9, ×1.23, ×0.98."""
    return f"×{ratio:.2f}" if ratio < 10 else f"×{ratio:.1f}"


def short(value: float) -> str:
    """A count in three digits with a prefix: 70.9 G, 4.19 M, 512."""
    for limit, letter in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= limit:
            return f"{number(value / limit)}{letter}"
    return number(value)


def apart(wanted: Sequence[float], gap: float) -> list[float]:
    """Positions near the wanted ones, in their order and at least `gap` apart, for labels that
    would overlap.
    """
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    groups: list[list[float]] = []  # wanted positions of labels that touch

    def start(group: list[float]) -> float:
        return sum(group) / len(group) - gap * (len(group) - 1) / 2

    for index in order:
        group = [wanted[index]]
        while groups and start(group) - start(groups[-1]) < gap * len(groups[-1]):
            group = groups.pop() + group
        groups.append(group)
    placed = [start(group) + gap * i for group in groups for i in range(len(group))]
    by_index = dict(zip(order, placed, strict=True))
    return [by_index[index] for index in range(len(wanted))]


def lay_out(figure: Figure) -> None:
    """Give everything in a figure its place, once for both of its files."""
    if (engine := figure.get_layout_engine()) and figure.axes:
        engine.execute(figure)
        figure.set_layout_engine("none")


def save(figure: Figure, svg: Path) -> None:
    """Write FILE.svg and FILE.pdf, each whole or not at all."""
    title, _, text = str(figure.get_label()).partition("\n")
    lay_out(figure)
    with atomic_write(svg) as temporary:
        figure.savefig(temporary, format="svg", transparent=True, metadata={"Date": None})
        temporary.write_text(_finished(temporary.read_text(), title, text, svg.stem))
    with atomic_write(svg.with_suffix(".pdf")) as temporary:
        figure.savefig(temporary, format="pdf", metadata={"CreationDate": None})


def _finished(svg: str, title: str, text: str, stem: str) -> str:
    """An SVG with title and description, and places to a hundredth of a point. Only what is referred
    to keeps an id, which begins with the file's name: several figures may stand in one page."""

    def rounded(position: re.Match[str]) -> str:
        short = lambda digits: f"{float(digits[0]):.2f}".rstrip("0").rstrip(".")
        return re.sub(r"\d+\.\d{3,}", short, position[0])

    referred = dict.fromkeys(re.findall(r'(?:url\(|href=")#([\w-]+)', svg))
    names = {name: f"{stem}-{i}" for i, name in enumerate(referred)}
    svg = re.sub(
        r' id="([^"]+)"',
        lambda match: f' id="{names[match[1]]}"' if match[1] in names else "",
        svg,
    )
    svg = re.sub(r'((?:url\(|href=")#)([\w-]+)', lambda match: match[1] + names[match[2]], svg)
    svg = re.sub(r'\b(?:d|x|y|points)="[^"]*"|translate\([^)]*\)', rounded, svg)
    # Verdana is as wide
    svg = svg.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, Arial, sans-serif")
    head = (
        f"<title>{escape(title, quote=False)}</title>\n<desc>{escape(text, quote=False)}</desc>\n"
    )
    svg = re.sub(r"(<svg [^>]*)>", rf'\1 role="img" aria-label="{escape(title)}">', svg, count=1)
    return svg.replace(" <metadata>", f"{head} <metadata>", 1)
