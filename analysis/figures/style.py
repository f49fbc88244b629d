"""One look for every figure: sizes in inches at which the paper prints them, colours, notes, and how files are saved.

Colours are of Okabe and Ito's palette, which most colour-blind readers can distinguish; where two kinds must also
differ in grey print, they differ in lightness, marker or hatching."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from fontTools import subset
from matplotlib.axes import Axes
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.transforms import Bbox

from analysis.data import DAGGER, Measured
from analysis.registry import LEFT_OUT
from analysis.words import data_text as data_text
from analysis.words import regime_text as regime_text
from analysis.words import significant as significant
from contracts import atomic_write

WIDTH = 6.5  # of the supplement's text, in inches: figures are printed at their own size
COLUMN = 3.3  # of a column of the paper
ROW = 0.145  # of a row of a list there
NOTE_POINTS = 8.0
KERNEL = "#0072B2"
BASELINE = "#BBBBBB"
EMULATED = "#009E73"
BAD = "#D55E00"
INK = "#222222"
LINES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "<", ">"]

sns.set_theme(
    context="paper",
    style="ticks",
    palette=LINES,
    rc={
        "font.family": "DejaVu Sans",  # comes with matplotlib: the same on every machine
        "font.size": 8,
        "axes.labelsize": 8,
        "axes.titlesize": 8.5,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "legend.fontsize": 8,
        "axes.edgecolor": INK,
        "axes.titlepad": 4.0,
        "axes.labelpad": 3.0,
        "xtick.major.width": 0.7,
        "ytick.major.width": 0.7,
        "xtick.minor.width": 0.5,
        "xtick.major.size": 3.5,
        "ytick.major.size": 3.5,
        "patch.linewidth": 0.7,
        "axes.linewidth": 0.7,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "grid.color": "#DDDDDD",
        "grid.linewidth": 0.6,
        "hatch.linewidth": 0.5,
        "legend.frameon": False,
        "figure.constrained_layout.use": True,
        "svg.hashsalt": "gemm-ladder",  # otherwise element ids are random
        "pdf.fonttype": 42,  # embed TrueType, so that text stays text
    },
)

# Tables of a font for laying text out: none needs them in a PDF, where each glyph has its place. To go through them for
# the few glyphs that are embedded took longer than all else of embedding.
subset.Options._drop_tables_default += ["GSUB", "GPOS", "GDEF"]


class Dated(Protocol):
    """Measurements that say where and when they were taken."""

    @property
    def origin(self) -> str: ...


def note(
    figure: Figure,
    measured: Measured | Dated,
    *facts: str,
    stale: bool | np.bool = False,
    withheld: bool = True,
    outdated: Sequence[str] = (),
) -> None:
    """Write below the figure where its numbers come from, the facts given, and what the dagger means if it is used.

    With `withheld`, the variants that failed a check are named as not shown; so are those `outdated`, where the figure
    leaves out what is stale.
    """
    parts = [measured.origin, *(fact for fact in facts if fact)]
    if stale:
        parts.append(f"{DAGGER} source changed since measured")
    if withheld and isinstance(measured, Measured) and len(measured.failed):
        parts.append("not shown, failed a check: " + ", ".join(measured.failed["label"]))
    if outdated:
        parts.append("not shown, source changed since measured: " + ", ".join(outdated))
    text = _wrapped(" · ".join(parts), 0.98 * figure.get_figwidth(), NOTE_POINTS)
    figure.supxlabel(text, x=0.01, ha="left", fontsize=NOTE_POINTS, color=INK)


def _wrapped(text: str, inches: float, points: float) -> str:
    """The text in lines of at most this width in the figures' font; "n = 4096" stays together, and what is longer has
    a line of its own."""
    font, lines = FontProperties(family=plt.rcParams["font.family"], size=points), [""]
    for word in re.split(" (?!=)(?<!= )", text):
        longer = f"{lines[-1]} {word}".strip()
        width = text_to_path.get_text_width_height_descent(longer, font, ismath=False)[0]
        if lines[-1] and width > 72 * inches:
            lines.append(word)
        else:
            lines[-1] = longer
    return "\n".join(lines)


def left_out(measured: Measured, what: str, why: str | None, width: float = WIDTH) -> Figure:
    """A small panel in place of a figure that has nothing to draw: what is left out, and why."""
    fits = int(80 * width / WIDTH)
    text = textwrap.fill(f"{what}: left out.", fits) + "\n" + textwrap.fill(why or "No rows were measured.", fits)
    figure = plt.figure(figsize=(width, 0.75 + 0.16 * text.count("\n")))
    figure.text(0.5, 0.6, text, ha="center", va="center", fontsize=9, color=INK, linespacing=1.4)
    note(figure, measured, withheld=False)
    figure.set_gid(LEFT_OUT)
    return figure


def save(figure: Figure, svg: Path) -> None:
    """Write FILE.svg and FILE.pdf, each whole or not at all, and the same for the same input."""
    _lay_out(figure)  # each is drawn once: `Figure.savefig` draws before, to lay out
    as_svg: Any = FigureCanvasSVG(figure)
    with atomic_write(svg) as temporary:
        as_svg.print_svg(temporary, metadata={"Date": None})
        temporary.write_text(_shortened(_numbered_clips(temporary.read_text())))
    as_pdf: Any = FigureCanvasPdf(figure)
    with atomic_write(svg.with_suffix(".pdf")) as temporary:
        as_pdf.print_pdf(temporary, metadata={"CreationDate": None})


def _lay_out(figure: Figure) -> None:
    """Places as the layout finds them, rounded: its solver's last digits differ from run to run."""
    engine = figure.get_layout_engine()
    if engine is None or not figure.axes:  # nothing but words has no grid to lay out, and the engine would warn
        return
    engine.execute(figure)
    figure.set_layout_engine("none")
    for axes in figure.axes:
        axes.set_position(Bbox(axes.get_position(original=True).get_points().round(6)))


def _numbered_clips(text: str) -> str:
    """An SVG whose clip paths are numbered: Matplotlib names some of them after addresses in memory."""
    numbers = {name: f"clip{number}" for number, name in enumerate(re.findall(r'<clipPath id="(\w+)"', text))}
    return re.sub(r'(<clipPath id="|url\(#)(\w+)', lambda match: match[1] + numbers.get(match[2], match[2]), text)


def _shortened(text: str) -> str:
    """An SVG without indentation, and with places to a hundredth of a point: a seventh less in report and explorer."""

    def rounded(place: re.Match[str]) -> str:
        return re.sub(r"\d+\.\d{3,}", lambda n: f"{float(n[0]):.2f}".rstrip("0").rstrip("."), place[0])

    return re.sub(r"\n +", "\n", re.sub(r'\b(?:d|x|y|points)="[^"]*"|translate\([^)]*\)', rounded, text))


def cells(
    axes: Axes, values: np.ndarray, colours: str | Colormap, norm: Normalize, words: np.ndarray | None = None
) -> None:
    """A heat map of one cell per value, with words in it or none, the first row on top; a NaN's cell stays white."""
    plain: dict[str, Any] = {"cbar": False, "xticklabels": False, "yticklabels": False, "linecolor": "white"}
    figure = axes.get_figure(root=True)
    assert figure is not None  # `axes` is drawn in one
    engine = figure.get_layout_engine()
    figure.set_layout_engine("none")  # seaborn draws the figure to see whether labels overlap: there are none
    sns.heatmap(values.astype(float), ax=axes, cmap=colours, norm=norm, annot=words, fmt="", linewidths=0.8, **plain)
    figure.set_layout_engine(engine)


def bars(axes: Axes, rows: pd.DataFrame, value: str, label: str, order: list[str]) -> None:
    """A bar to the right for each row, at the place of its label in `order`; libraries are grey and hatched."""
    of = (rows["kind"] == "baseline").map({False: "kernel", True: "library"})
    shown = rows.assign(**{value: rows[value].astype(float)}, of=of)
    both: dict[str, Any] = {
        "hue": "of",
        "hue_order": ["kernel", "library"],
        "palette": [KERNEL, BASELINE],
        "saturation": 1,
    }
    plain: dict[str, Any] = {"errorbar": None, "dodge": False, "width": 0.72, "linewidth": 0, "legend": False}
    sns.barplot(shown, x=value, y=label, order=order, **both, **plain, ax=axes)
    for patch in axes.containers[1]:
        patch.set(hatch="////", edgecolor="white")
    axes.set(xlabel="", ylabel="")


def name_rows(
    axes: Axes, places: Iterable[float], names: Iterable[str], grid: str = "x", margin: float = 0.5, small: bool = False
) -> None:
    """Names at the left of rows, from the first on top; no ticks, and grid lines ("x": of the values alone)."""
    places = list(places)
    axes.set_yticks(places, list(names))
    axes.set_ylim(max(places, default=0) + margin, -margin)
    axes.tick_params(axis="y", length=0, **({"pad": 1, "labelsize": 7} if small else {}))
    axes.grid(axis="x" if grid == "x" else "both")


def drop_legend(axes: Axes) -> None:
    """Take away the legend that seaborn drew; its handles are left for the figure's own."""
    if legend := axes.get_legend():
        legend.remove()


def legend_columns(labels: list[str]) -> int:
    """How many columns of a legend fit side by side."""
    return max(1, min(len(labels), int(WIDTH * 17 / (max(map(len, labels)) + 6))))


def spread(wanted: list[float], gap: float, low: float, high: float) -> list[float]:
    """Positions near the wanted ones, in their order and at least `gap` apart, for labels that would overlap.

    Neighbours that are too close form a group around their mean wanted position; a group stays within low and high
    as long as it fits.
    """
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    groups: list[list[float]] = []  # each a list of wanted positions

    def centre(group: list[float]) -> float:
        half = gap * (len(group) - 1) / 2
        return max(min(sum(group) / len(group), high - half), low + half)

    for index in order:
        group = [wanted[index]]
        while groups and centre(group) - centre(groups[-1]) < gap * (len(group) + len(groups[-1])) / 2:
            group = groups.pop() + group
        groups.append(group)
    placed = [centre(group) + gap * (i - (len(group) - 1) / 2) for group in groups for i in range(len(group))]
    result = [0.0] * len(wanted)
    for index, position in zip(order, placed, strict=True):
        result[index] = position
    return result
