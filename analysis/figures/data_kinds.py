"""One kernel on several kinds of data, which draw different power: what follows the clock, and what does not.

A line of panels per size and clock regime. On the left how far TFLOP/s (upper marks) and FLOP/clock/SM (lower marks)
of each kind of data are from those of uniform data: where the upper ones spread and the lower ones do not, it was the
clock that moved. Beside it the spread of each in %. On the right power, and GFLOP per joule of energy.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.data import Measured, marked, records
from analysis.figures import style
from analysis.tables.data_kinds import KEYS, spreads

WIDE = 8  # from this ratio on, energies stand on a logarithmic axis
GAP = 0.4  # between precisions, in rows
LOOKS: dict[str, Any] = {
    "zeros": {"color": "#009E73", "marker": "v"},
    "uniform": {"color": "#0072B2", "marker": "o"},
    "normal": {"color": "#D55E00", "marker": "^"},
}


def changes(rows: pd.DataFrame, value: str) -> pd.Series:
    """How far each row's value is from that on uniform data (or else the first kind), in %."""
    ranked = rows.assign(_other=rows["data"] != "uniform").sort_values("_other", kind="stable")
    reference = ranked.drop_duplicates(KEYS).set_index(KEYS)[value]
    keys = pd.MultiIndex.from_frame(rows[KEYS])
    found: pd.Series = 100 * (rows[value] / reference.reindex(keys).to_numpy() - 1)
    return found


def scatter(axes: Axes, rows: pd.DataFrame, values: pd.Series, shift: float = 0.0) -> None:
    """A mark per row at its place, and a thin line through those of one place."""
    shown = rows.assign(_value=values, _y=rows["place"] + shift).dropna(subset="_value")
    for _, line in shown.groupby("_y"):
        y = float(line["_y"].iloc[0])
        ends = [float(line["_value"].min()), float(line["_value"].max())]
        axes.plot(ends, [y, y], color=style.BASELINE, linewidth=1.4, zorder=1)
    palette, markers = ({kind: look[key] for kind, look in LOOKS.items()} for key in ("color", "marker"))
    of: dict[str, Any] = {"hue": "data", "style": "data", "palette": palette, "markers": markers, "legend": False}
    sns.scatterplot(shown, x="_value", y="_y", **of, s=19, linewidth=0, zorder=3, ax=axes)
    axes.set(xlabel="", ylabel="")


def places_of(rows: pd.DataFrame) -> dict[str, float]:
    """Where each label stands: by precision, then in the catalogue's order, with a gap between precisions."""
    first = rows.groupby("dtype")["order"].transform("min")
    ordered = rows.assign(_first=first).sort_values(["_first", "order"]).drop_duplicates("mark")
    gaps = (ordered["_first"] != ordered["_first"].shift()).cumsum() - 1
    return {mark: place + GAP * gap for place, (mark, gap) in enumerate(zip(ordered["mark"], gaps, strict=True))}


def draw_line(panels: Any, rows: pd.DataFrame, title: str, places: dict[str, float]) -> None:
    """The panels of one size and regime."""
    change, power, energy = panels
    for value, shift in (("tflops", -0.2), ("flop_per_clock_sm", 0.2)):
        scatter(change, rows, changes(rows, value), shift)
    change.axvline(0, color=style.INK, linewidth=0.7, zorder=0.9)
    change.annotate("spread, %", (1.13, 1), (0, 3), "axes fraction", textcoords="offset points", ha="right", size=7)
    for row in records(rows.drop_duplicates("place")):
        for shift, spread in ((-0.2, row.tflops_spread_percent), (0.2, row.flop_per_clock_sm_spread_percent)):
            look: dict[str, Any] = {"ha": "right", "va": "center", "size": 7, "transform": change.get_yaxis_transform()}
            bold = shift > 0 and row.agrees_within_1_percent == "no"
            change.text(1.12, row.place + shift, f"{spread:.1f}", weight="bold" if bold else "normal", **look)
    change.set_title(title, loc="left")
    change.set_yticks(list(places.values()), list(places))
    scatter(power, rows, rows["power_w"].astype(float))
    scatter(energy, rows, rows["gflop_per_j"].astype(float))
    for axes in panels:
        axes.set_ylim(max(places.values()) + 0.6, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")


def draw(measured: Measured, experiment: str) -> Figure:
    """The figure of one experiment."""
    rows = measured.bench[measured.bench["experiment"] == experiment]
    if rows.empty:
        return style.left_out(measured, f"Timings of {experiment}", measured.untimed(experiment))
    rows = spreads(rows.assign(mark=marked(rows)))
    places = places_of(rows)
    rows = rows.assign(place=rows["mark"].map(places))
    lines = sorted(rows.groupby(["regime", "n"]), key=lambda line: (line[0][0] != "unlocked", line[0][1]))
    figure, grid = plt.subplots(
        len(lines),
        3,
        figsize=(style.WIDTH, 0.75 + len(lines) * (0.6 + 0.25 * len(places))),
        sharex="col",
        sharey=True,
        squeeze=False,
        gridspec_kw={"width_ratios": [2.2, 1, 1]},
    )
    for panels, ((regime, n), part) in zip(grid, lines, strict=True):
        draw_line(panels, part, f"n = {n}, {regime} clocks", places)
    for axes, unit in zip(grid[-1], ("change against uniform data, %", "power, W", "GFLOP per joule"), strict=True):
        axes.set_xlabel(unit)
    if rows["power_w"].notna().any():
        grid[0][1].set_xlim(0, 1.1 * rows["power_w"].astype(float).max())
    energy = rows["gflop_per_j"].astype(float)
    if energy.max() > WIDE * energy.min():
        grid[0][2].set_xscale("log")
    elif energy.notna().any():
        grid[0][2].set_xlim(0, 1.1 * energy.max())
    kinds = [kind for kind in LOOKS if kind in set(rows["data"])]
    handles = [Line2D([], [], linestyle="", markersize=4.5, **LOOKS[kind]) for kind in kinds]
    figure.legend(handles, kinds, loc="outside upper center", ncols=len(kinds))
    style.note(
        figure,
        measured,
        "m = n = k",
        "upper marks: TFLOP/s, lower: FLOP/clock/SM; the numbers next to them: largest over smallest, less one, in %, "
        "bold where FLOP/clock/SM differs by more than 1%",
        stale=rows["stale"].any(),
    )
    return figure
