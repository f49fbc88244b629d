"""A figure for each finding of the paper, as wide as one of its columns: the rows of `analysis.tables.findings`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.inputs import Inputs
from analysis.registry import figure
from analysis.tables import findings
from analysis.tables.findings import ALIKE, Missing, Sources, Statement

SHORT = "sgemm_"  # prefix of names that labels leave out
BY_HEIGHT = 0.145  # inches of a row of a list


def drawn(inputs: Inputs, what: str, compute: Callable[[Sources], Statement], draw: Callable[..., Figure]) -> Figure:
    """The figure of a finding, or what is missing for it."""
    of = Sources(inputs)
    try:
        found = compute(of)
    except Missing as missing:
        return style.left_out(of.measured, what, f"{missing}.", width=style.COLUMN)
    return draw(of, found)


# ---- the ladders, published and here --------------------------------------------------------------------------------


def draw_ladders(of: Sources, found: Statement) -> Figure:
    """Published against measured shares, a mark a rung; the diagonal is where a rung carries over."""
    rows = pd.DataFrame(found.rows)
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 3.1))
    top = 112.0
    axes.plot([0, top], [0, top], color=style.INK, linewidth=0.8, zorder=1)
    axes.annotate("as published", (50, 50), (-2, 3), textcoords="offset points", rotation=45, ha="right", va="bottom")
    looks: dict[bool, dict[str, Any]] = {
        False: {"color": style.KERNEL, "marker": "o", "label": "fp32"},
        True: {"color": style.BAD, "marker": "D", "label": "16-bit inputs"},
    }
    for tensor, part in rows.groupby("tensor"):
        theirs, here = 100 * part["theirs"], 100 * part["here"]
        wide = [theirs - 100 * part["theirs_low"], 100 * part["theirs_high"] - theirs]
        look = looks[bool(tensor)]
        axes.errorbar(theirs, here, xerr=wide, fmt="none", color=look["color"], linewidth=0.9, zorder=2)
        axes.scatter(theirs, here, s=22, linewidth=0, zorder=3, **look)
    rate = found.numbers["mma_of_wgmma_percent"]
    if rate is not None:
        axes.axhline(rate, color=style.BAD, linewidth=0.9, linestyle="--")
        above: dict[str, Any] = {"textcoords": "offset points", "va": "bottom", "color": style.BAD}
        axes.annotate(f"mma.sync: {rate:.0f}% of wgmma", (1, rate), (0, 2), **above)
    axes.set(xlim=(0, top), ylim=(0, top), xlabel="share of cuBLAS as published, %", ylabel="share of cuBLAS here, %")
    axes.set_aspect("equal")
    axes.grid(axis="both")
    drawing.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=2, handletextpad=0.2)
    style.note(drawing, of.measured, f"here: n = {findings.SIZE}, unlocked clocks")
    return drawing


# ---- counters and time ----------------------------------------------------------------------------------------------


def draw_counters(of: Sources, found: Statement) -> Figure:
    """The speed-up of each step that moved its counters as meant, the slowest on top."""
    rows = pd.DataFrame(found.rows)
    rows = rows[rows["meant"]].sort_values("speedup", ignore_index=True)
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 0.85 + BY_HEIGHT * len(rows)))
    axes.axvspan(1 - ALIKE, 1 + ALIKE, color="#E4E4E4", linewidth=0, zorder=0)
    axes.axvline(1, color=style.INK, linewidth=0.8, zorder=1)
    for place, row in rows.iterrows():
        faster = row["speedup"] > 1 + ALIKE
        colour = style.KERNEL if faster else style.BAD
        axes.plot([1, row["speedup"]], [place, place], color=colour, linewidth=1.2, zorder=2)
        axes.scatter(row["speedup"], place, s=16, color=colour, marker="o" if faster else "D", linewidth=0, zorder=3)
    axes.set_xscale("log")
    ticks = [tick for tick in (0.9, 1, 1.5, 2, 4, 8, 16) if tick <= 1.3 * rows["speedup"].max()]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(rows)), rows["label"], fontsize=7)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, pad=1)
    axes.grid(axis="x")
    axes.set_xlabel("times as fast as the rung before")
    style.note(drawing, of.measured, f"n = {findings.SIZE}", f"grey: within {100 * ALIKE:.0f}%")
    return drawing


# ---- wavefronts -----------------------------------------------------------------------------------------------------


def draw_wavefronts(of: Sources, found: Statement) -> Figure:
    """Above, cp.async by the rows that it copies from; below, stores beyond need by the warps beside them."""
    rows = pd.DataFrame(found.rows)
    drawing, (above, below) = plt.subplots(2, 1, figsize=(style.COLUMN, 3.9))
    copies = rows[rows["part"] == "rows"]
    places = range(len(copies))
    for way, offset, colour, hatch in (("plain", -0.2, style.KERNEL, ""), ("swizzled", 0.2, "#8CC2E6", "///")):
        label = "in order" if way == "plain" else "through an XOR swizzle"
        above.bar([x + offset for x in places], copies[way], 0.38, color=colour, hatch=hatch, edgecolor="white",
                  linewidth=0, label=label)  # fmt: skip
    above.set_xticks(list(places), [f"{int(length)}" for length in copies["bytes"]])
    above.set(xlabel="bytes of a row of the source", ylabel="wavefronts")
    above.set_title("cp.async of 16 bytes a lane: writes of a warp", loc="left")
    above.legend(loc="upper right", handlelength=1.2)
    stores = rows[(rows["part"] == "warps") & (rows["blocks"] == 1) & rows["source"].isin(["A and B", "neither"])]
    swept = [name for name, part in stores.groupby("kernel", sort=False) if part["warps"].nunique() > 1]
    for number, name in enumerate(swept):
        part = stores[(stores["kernel"] == name) & (stores["source"] == "A and B")]
        look: dict[str, Any] = {"color": style.LINES[number], "marker": style.MARKERS[number], "markersize": 4}
        below.plot(part["warps"], part["excess_percent"], label=str(name).removeprefix(SHORT), clip_on=False, **look)
    constant = stores[(stores["source"] == "neither") & stores["kernel"].isin(swept)]
    below.plot(constant["warps"], constant["excess_percent"], linestyle="", marker="x", color=style.INK, markersize=5,
               clip_on=False, zorder=5, label="constants, not loads")  # fmt: skip
    below.set_xscale("log", base=2)
    below.set_xticks(sorted(stores["warps"].unique()), [f"{int(w)}" for w in sorted(stores["warps"].unique())])
    below.set_xlim(0.95, 1.05 * stores.loc[stores["kernel"].isin(swept), "warps"].max())
    below.minorticks_off()
    below.set_ylim(bottom=0)
    below.set(xlabel="warps a block, one block an SM", ylabel="beyond need, %")
    below.set_title("Stores: wavefronts beyond those of each warp", loc="left")
    below.legend(loc="upper left", handlelength=1.5)
    for axes in (above, below):
        axes.grid(axis="y")
    style.note(drawing, of.measured)
    return drawing


# ---- registers and blocks -------------------------------------------------------------------------------------------


def draw_blocks(of: Sources, found: Statement) -> Figure:
    """Share of cuBLAS of a kernel over the blocks that it was built for, a line a kernel, with registers and spills."""
    lines: dict[str, dict[int, tuple[float, int, int]]] = {}
    for row in found.rows:
        points = lines.setdefault(row["over_label"], {})
        for when in ("before", "after"):
            told = (100 * row[f"share_{when}"], row[f"registers_{when}"], row[f"spill_bytes_{when}"])
            points[row[f"blocks_per_sm_{when}"]] = told
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 2.6))
    for number, (label, points) in enumerate(sorted(lines.items(), key=lambda item: -max(item[1].values())[0])):
        blocks = sorted(points)
        look: dict[str, Any] = {"color": style.LINES[number], "marker": style.MARKERS[number], "markersize": 4.5}
        axes.plot(blocks, [points[count][0] for count in blocks], label=label, **look)
        for count in blocks:
            share, registers, spilled = points[count]
            text = f"{registers}" + (f", {spilled} B spilled" if spilled else "")
            left = count == max(blocks) and spilled > 999
            axes.annotate(text, (count, share), (-4 if left else 0, 4 if not left else 0), textcoords="offset points",
                          ha="right" if left else "center", va="center" if left else "bottom", fontsize=7,
                          color=look["color"])  # fmt: skip
    axes.set_xticks(sorted({count for points in lines.values() for count in points}))
    axes.margins(x=0.15)
    axes.set_ylim(0, 112)
    axes.set(xlabel="blocks an SM that the registers allow", ylabel="share of cuBLAS, %")
    axes.grid(axis="y")
    axes.legend(loc="lower left", handlelength=1.5)
    style.note(drawing, of.measured, f"n = {findings.SIZE}", "numbers: registers a thread")
    return drawing


# ---- power ----------------------------------------------------------------------------------------------------------


def draw_power(of: Sources, found: Statement) -> Figure:
    """Power over work per clock of every fp32 timing: the limit is met before the peak."""
    rows = pd.DataFrame(found.rows)
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 2.7))
    limit = found.numbers["limit_w"]
    axes.axhline(limit, color=style.INK, linewidth=0.9)
    axes.annotate(f"power limit, {limit:.0f} W", (2, limit), (0, 2), textcoords="offset points", va="bottom")
    axes.axvline(100, color=style.INK, linewidth=0.9, linestyle="--")
    parts = (
        ("kernels", rows[(rows["kind"] != "baseline") & ~rows["capped"]], style.KERNEL, "o"),
        ("kernels, held by power", rows[(rows["kind"] != "baseline") & rows["capped"]], style.BAD, "D"),
        ("libraries", rows[rows["kind"] == "baseline"], "#777777", "x"),
    )
    for label, part, colour, marker in parts:
        look: dict[str, Any] = {"linewidth": 1.0 if marker == "x" else 0}
        axes.scatter(part["peak_percent"], part["power"], s=16, color=colour, marker=marker, label=label, **look)
    axes.set(xlabel="FLOP per clock, % of a loop of FMAs", ylabel="power, W", xlim=(0, 104), ylim=(0, 1.12 * limit))
    axes.grid(axis="both")
    axes.legend(loc="lower right", handletextpad=0.2)
    style.note(drawing, of.measured, f"fp32, n from {findings.SIZE} on, uniform inputs")
    return drawing


@figure(
    "finding_ladders",
    category="1 Paper",
    subcategory="Findings",
    title="Published beside measured shares",
    caption="workflow/report/findings.rst",
    reads=("measured", "resources", "paper/published.csv"),
)
def finding_ladders(inputs: Inputs) -> Figure:
    return drawn(inputs, "Ladders as published and here", findings.ladders, draw_ladders)


@figure(
    "finding_counters",
    category="1 Paper",
    subcategory="Findings",
    title="Counters as meant, and time",
    caption="workflow/report/findings.rst",
    reads=("measured", "resources", "bounds", "paper/steps.yaml"),
)
def finding_counters(inputs: Inputs) -> Figure:
    return drawn(inputs, "Counters and time", findings.moved_counters, draw_counters)


@figure(
    "finding_wavefronts",
    category="1 Paper",
    subcategory="Findings",
    title="Wavefronts beyond the banks",
    caption="workflow/report/findings.rst",
    reads=("measured",),
    optional=("smem_microbench", "inter_warp_conflicts"),
)
def finding_wavefronts(inputs: Inputs) -> Figure:
    return drawn(inputs, "Wavefronts of copies and stores", findings.wavefronts, draw_wavefronts)


@figure(
    "finding_blocks",
    category="1 Paper",
    subcategory="Findings",
    title="Registers against blocks",
    caption="workflow/report/findings.rst",
    reads=("measured", "resources", "bounds", "paper/steps.yaml"),
)
def finding_blocks(inputs: Inputs) -> Figure:
    return drawn(inputs, "Registers against blocks", findings.blocks, draw_blocks)


@figure(
    "finding_power",
    category="1 Paper",
    subcategory="Findings",
    title="Power against the peak",
    caption="workflow/report/findings.rst",
    reads=("measured",),
)
def finding_power(inputs: Inputs) -> Figure:
    return drawn(inputs, "Power of fp32 kernels", findings.power, draw_power)
