"""The paper's figures, as wide as one of its columns: the fp32 ladder, and one for each finding, of the rows of
`analysis.tables.findings`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis.figures import style
from analysis.inputs import Inputs
from analysis.quantities.machine import SIZE, rows_of
from analysis.registry import figure
from analysis.tables import findings
from analysis.tables.dispatch import SHAPES
from analysis.tables.findings import ALIKE, Missing, Sources, Statement
from analysis.words import significant

SHORT = "sgemm_"  # prefix of names that labels leave out
BY_HEIGHT = 0.145  # inches of a row of a list
LADDER = "sgemm_ladder"  # the experiment of the fp32 ladder
MOST = 1.6  # times as fast: steps beyond it have an arrow and their number


def drawn(inputs: Inputs, what: str, compute: Callable[[Sources], Statement], draw: Callable[..., Figure]) -> Figure:
    """The figure of a finding, or what is missing for it."""
    return or_left_out(inputs, what, lambda of: draw(of, compute(of)))


def or_left_out(inputs: Inputs, what: str, draw: Callable[[Sources], Figure]) -> Figure:
    """A figure, or a panel that tells what is missing for it."""
    of = Sources(inputs)
    try:
        return draw(of)
    except Missing as missing:
        return style.left_out(of.measured, what, f"{missing}.", width=style.COLUMN)


# ---- the fp32 ladder --------------------------------------------------------------------------------------------


def draw_ladder(of: Sources) -> Figure:
    """Share of cuBLAS of each fp32 rung and library at SIZE, with intervals, and TFLOP/s in numbers."""
    rows = of.timed[(of.timed["experiment"] == LADDER) & (of.timed["n"] == SIZE)]
    rows = rows[~rows["tensor"].astype(bool)].sort_values("order", kind="stable")
    if rows.empty:
        raise Missing(f"{LADDER} was not timed at n = {SIZE}")
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 0.75 + BY_HEIGHT * len(rows)))
    for place, row in enumerate(rows_of(rows)):
        share, low, high = (100 * row[name] for name in ("share_of_baseline", "share_ci_low", "share_ci_high"))
        library = row["kind"] == "baseline"
        look: dict[str, Any] = {"color": style.BASELINE, "hatch": "////", "edgecolor": "white"}
        axes.barh(place, share, 0.72, linewidth=0, **(look if library else {"color": style.KERNEL}))
        if not library:
            axes.plot([low, high], [place, place], color=style.INK, linewidth=1.2)
        axes.text(
            1.01, place, significant(row["tflops"]), transform=axes.get_yaxis_transform(), va="center", fontsize=7
        )
    axes.axvline(100, color=style.INK, linewidth=0.8)
    axes.text(1.01, -1.0, "TFLOP/s", transform=axes.get_yaxis_transform(), va="center", fontsize=7)
    axes.set_yticks(range(len(rows)), list(rows["label"]), fontsize=7)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 1.04 * max(100.0, 100 * rows["share_of_baseline"].astype(float).max()))
    axes.tick_params(axis="y", length=0, pad=1)
    axes.grid(axis="x")
    axes.set_xlabel("share of cuBLAS fp32, %")
    style.note(drawing, of.measured, f"n = {SIZE}, unlocked clocks, uniform inputs")
    return drawing


# ---- past the worklogs ----------------------------------------------------------------------------------------------


def draw_hopper(of: Sources, found: Statement) -> Figure:
    """Share of cuBLAS of each rung of the Hopper ladder, and what it does in a clock."""
    rows = found.rows
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 0.85 + BY_HEIGHT * len(rows)))
    for place, row in enumerate(rows):
        library: dict[str, Any] = {"color": style.BASELINE, "hatch": "////", "edgecolor": "white"}
        look = library if row["kind"] == "baseline" else {"color": style.KERNEL}
        share, low, high = (100 * row[name] for name in ("share_of_baseline", "share_ci_low", "share_ci_high"))
        axes.barh(place, share, 0.72, linewidth=0, **look)
        axes.plot([low, high], [place, place], color=style.INK, linewidth=1.2)
        right: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 7}
        axes.text(1.01, place, f"{row['flop_per_clock_sm']:.0f}", **right)
    axes.text(1.01, -1.0, "FLOP/clk/SM", ha="center", **right)
    axes.axvline(100, color=style.INK, linewidth=0.8)
    axes.set_yticks(range(len(rows)), [row["label"] for row in rows], fontsize=7)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 1.04 * max(100.0, 100 * max(row["share_of_baseline"] for row in rows)))
    axes.tick_params(axis="y", length=0, pad=1)
    axes.grid(axis="x")
    axes.set_xlabel("share of the fastest call of cuBLAS, %")
    style.note(drawing, of.measured, f"n = {found.numbers['n']}, unlocked clocks, uniform inputs")
    return drawing


def draw_merged(of: Sources, found: Statement) -> Figure:
    """Cycles of issue of a load of shared memory, by width: the median over loops, and the range."""
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 2.0))
    widths = sorted({row["bits"] for row in found.rows})
    for merged, colour in ((False, style.KERNEL), (True, style.BAD)):
        rows = [row for row in found.rows if row["merged"] == merged]
        places = [widths.index(row["bits"]) + (0.12 if merged else -0.12) for row in rows]
        values = [row["cycles"] for row in rows]
        ranges = [[row["cycles"] - row["least"] for row in rows], [row["most"] - row["cycles"] for row in rows]]
        label = "neighbours merged" if merged else "not merged"
        marker = "D" if merged else "o"
        axes.errorbar(places, values, ranges, fmt=marker, color=colour, markersize=4, linewidth=1.0, label=label)
    axes.set_xticks(range(len(widths)), [str(bits) for bits in widths])
    axes.set(xlabel="bits a lane", ylabel="issue cycles of a load", xlim=(-0.5, len(widths) - 0.5), ylim=(0, None))
    axes.grid(axis="y")
    axes.legend(loc="upper left", handletextpad=0.2)
    style.note(drawing, of.measured, "median and range over loops of FMAs, two warps a scheduler", withheld=False)
    return drawing


def draw_fma(of: Sources, found: Statement) -> Figure:
    """The share of cuBLAS of the fastest kernel of each problem, over its size."""
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 2.5))
    for number, shape in enumerate(("square", *SHAPES)):
        rows = [row for row in found.rows if row["shape"] == shape]
        if not rows:
            continue
        sizes = [(row["m"] * row["n"] * row["k"]) ** (1 / 3) for row in rows]
        shares = [row["share"] for row in rows]
        look: dict[str, Any] = {"color": style.LINES[number], "marker": style.MARKERS[number]}
        axes.scatter(sizes, shares, s=13, linewidth=0, label=shape, **look)
    axes.axhline(1, color=style.INK, linewidth=0.9)
    axes.set(xlabel="cube root of m·n·k", ylabel="share of cuBLAS", ylim=(0, None))
    axes.grid(axis="y")
    axes.legend(loc="lower right", handletextpad=0.1, borderpad=0.2)
    style.note(drawing, of.measured, "fp32 without tensor cores; the fastest kernel of each problem", withheld=False)
    return drawing


def draw_fp32_tensor(of: Sources, found: Statement) -> Figure:
    """Speed over the error of a sum, both beside those of plain fp32."""
    rows = [row for row in found.rows if row["tensor"]]
    if not rows:
        raise Missing("error_over_k.csv has no rows here")
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 2.7))
    axes.axvline(1, color=style.INK, linewidth=0.9, linestyle="--")
    top = 1.15 * max(row["tflops"] for row in rows)
    small: dict[str, Any] = {"textcoords": "offset points", "fontsize": 7}
    axes.annotate("error of fp32", (1, top), (4, -2), va="top", **small)
    if (speed := found.numbers.get("library_tflops")) is not None:
        axes.axhline(speed, color=style.INK, linewidth=0.9)
        axes.annotate(
            "cuBLAS fp32", (1, speed), (1, -3), xycoords=axes.get_yaxis_transform(), ha="right", va="top", **small
        )
    heights = style.spread([row["tflops"] for row in rows], 0.08 * top, 0, top)

    def crowded(row: dict[str, Any]) -> bool:
        """Whether another mark stands where the name would on the right."""
        right = [one for one in rows if 1 < one["error_of_fp32"] / row["error_of_fp32"] < 30]
        return any(abs(one["tflops"] - row["tflops"]) < 0.1 * top for one in right)

    for row, height in zip(rows, heights, strict=True):
        exact = row["error_of_fp32"] <= 1
        look: dict[str, Any] = {"color": style.KERNEL, "marker": "o"} if exact else {"color": style.BAD, "marker": "D"}
        axes.scatter(row["error_of_fp32"], row["tflops"], s=22, linewidth=0, zorder=3, **look)
        align, away = ("right", -5) if row["error_of_fp32"] >= 300 or crowded(row) else ("left", 5)
        words = {"ha": align, "va": "center", "color": look["color"]}
        axes.annotate(row["label"], (row["error_of_fp32"], height), (away, 0), **words, **small)
    axes.set_xscale("log")
    axes.set_xlim(0.1, 3000)
    axes.set_ylim(0, top)
    axes.set(xlabel="RMS error of a sum, times that of fp32", ylabel="TFLOP/s")
    axes.grid(axis="both")
    origin = "errors emulated" if found.numbers.get("emulated") else "errors measured"
    style.note(drawing, of.measured, f"n = {found.numbers['n']}", f"{origin}, positive data, k = {found.numbers['n']}")
    return drawing


# ---- the ladders, published and here --------------------------------------------------------------------------------


def draw_ladders(of: Sources, found: Statement) -> Figure:
    """Published against measured shares, a mark a rung; the diagonal is where a rung carries over."""
    rows = pd.DataFrame(found.rows)
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 3.1))
    top = 112.0
    axes.plot([0, top], [0, top], color=style.INK, linewidth=0.8, zorder=1)
    axes.annotate("as published", (46, 47), ha="right", va="bottom")
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
        axes.annotate(f"mma.sync: {rate:.0f}%", (1, rate), (0, 2), **above)
    axes.set(xlim=(0, top), ylim=(0, top), xlabel="share of cuBLAS as published, %", ylabel="share of cuBLAS here, %")
    axes.set_aspect("equal")
    axes.grid(axis="both")
    drawing.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=2, handletextpad=0.2)
    style.note(drawing, of.measured, f"here: n = {SIZE}, unlocked clocks")
    return drawing


# ---- counters and time ----------------------------------------------------------------------------------------------


def draw_counters(of: Sources, found: Statement) -> Figure:
    """The speed-up of each step that moved its counters as meant, the slowest on top."""
    rows = sorted((row for row in found.rows if row["meant"]), key=lambda row: row["speedup"])
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 0.75 + BY_HEIGHT * len(rows)))
    low = min(0.95, *(row["speedup"] for row in rows)) - 0.03
    axes.axvspan(1 - ALIKE, 1 + ALIKE, color="#E4E4E4", linewidth=0, zorder=0)
    axes.axvline(1, color=style.INK, linewidth=0.8, zorder=1)
    for place, row in enumerate(rows):
        faster = row["speedup"] > 1 + ALIKE
        colour, marker = (style.KERNEL, "o") if faster else (style.BAD, "D")
        beyond = row["speedup"] > MOST
        end = MOST if beyond else row["speedup"]
        axes.plot([1, end], [place, place], color=colour, linewidth=1.2, zorder=2)
        axes.scatter(end, place, s=16, color=colour, marker=">" if beyond else marker, linewidth=0, zorder=3)
        if beyond:
            at: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 7, "color": colour}
            axes.annotate(f"{row['speedup']:.1f}", (end, place), (4, 0), **at)
    axes.set_yticks(range(len(rows)), [row["label"] for row in rows], fontsize=7)
    axes.set_xlim(low, MOST + 0.12)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, pad=1)
    axes.grid(axis="x")
    axes.set_xlabel("times as fast as before the step")
    style.note(drawing, of.measured, f"n = {SIZE}")
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
            above = [other[count][0] for other in lines.values() if count in other and other[count][0] > share]
            crowded = bool(above) and min(above) - share < 16
            at = (0, -9 if crowded else 4)
            side: dict[str, Any] = {"ha": "center", "va": "bottom" if at[1] > 0 else "center"}
            if spilled > 999:
                at, side = (-5, 0), {"ha": "right", "va": "center"}
            text = f"{registers}" + (f", {spilled} B spilled" if spilled else "")
            look_of = {"textcoords": "offset points", "fontsize": 7, "color": look["color"]}
            axes.annotate(text, (count, share), at, **look_of, **side)
    axes.set_xticks(sorted({count for points in lines.values() for count in points}))
    axes.margins(x=0.15)
    axes.set_ylim(0, 112)
    axes.set(xlabel="blocks an SM that the registers allow", ylabel="share of cuBLAS, %")
    axes.grid(axis="y")
    axes.legend(loc="lower left", handlelength=1.5)
    style.note(drawing, of.measured, f"n = {SIZE}", "numbers: registers a thread")
    return drawing


# ---- where an XOR leads ---------------------------------------------------------------------------------------------

KB = 1024
SHADES = [
    "#0072B2",
    "#56B4E9",
    "#8CC2E6",
    "#D55E00",
]  # of the quarters of a buffer; the last is the one that goes astray


def draw_alignment(of: Sources, found: Statement) -> Figure:
    """A buffer's quarters where they lie, and where an XOR of their addresses leads, on two architectures."""
    n = found.numbers
    drawing, axes = plt.subplots(figsize=(style.COLUMN, 2.0))
    quarter, labels = n["slot_bytes"] // 4, []
    for row, (name, first) in enumerate((("sm_86", n["first_address_theirs"]), ("sm_90", n["first_address"]))):
        start = first + n["before_bytes"]
        places = [start + part * quarter for part in range(4)]
        for line, (what, to) in enumerate(
            (("buffer 0", places), ("^= slot", [place ^ n["slot_bytes"] for place in places]))
        ):
            y = 2.6 * row + line
            labels.append((y, f"{name}: {what}"))
            for part, address in enumerate(to):
                look: dict[str, Any] = {"color": SHADES[part], "edgecolor": "white", "linewidth": 0.6}
                axes.barh(y, quarter / KB, left=address / KB, height=0.8, hatch="///" if part == 3 else None, **look)
        wanted = (start + n["slot_bytes"]) / KB
        axes.add_patch(
            Rectangle(
                (wanted, 2.6 * row + 0.53),
                n["slot_bytes"] / KB,
                0.94,
                fill=False,
                edgecolor=style.INK,
                linewidth=1.2,
                zorder=5,
            )
        )
    axes.set_yticks([y for y, _ in labels], [text for _, text in labels])
    axes.set_ylim(4.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_xlabel("address in shared memory, KB")
    style.note(drawing, of.measured, "worked out, not measured; outlined: buffer 1")
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
    axes.legend(loc="lower center", handletextpad=0.2)
    style.note(drawing, of.measured, f"fp32, n from {SIZE} on, uniform inputs")
    return drawing


@figure(
    "paper_ladder",
    category="1 Paper",
    subcategory="Findings",
    title="The fp32 ladder",
    caption="workflow/report/findings.rst",
    reads=("measured",),
)
def paper_ladder(inputs: Inputs) -> Figure:
    return or_left_out(inputs, "The fp32 ladder", draw_ladder)


@figure(
    "finding_ladders",
    category="1 Paper",
    subcategory="Findings",
    title="Published beside measured shares",
    caption="workflow/report/findings.rst",
    reads=("measured", "resources", "paper/worklogs/*/published.csv"),
)
def finding_ladders(inputs: Inputs) -> Figure:
    return drawn(inputs, "Ladders as published and here", findings.ladders, draw_ladders)


@figure(
    "finding_counters",
    category="1 Paper",
    subcategory="Findings",
    title="Counters as meant, and time",
    caption="workflow/report/findings.rst",
    reads=("measured", "resources", "bounds", "paper/worklogs/*/steps.yaml", "paper/steps.yaml"),
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
    reads=("measured", "resources", "bounds", "paper/worklogs/*/steps.yaml", "paper/steps.yaml"),
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


@figure(
    "finding_alignment",
    category="1 Paper",
    subcategory="Findings",
    title="Where an XOR of an address leads",
    caption="workflow/report/findings.rst",
    reads=("measured", "analytic", "paper/worklogs/*/published.csv"),
)
def finding_alignment(inputs: Inputs) -> Figure:
    return drawn(inputs, "Where an XOR of an address leads", findings.alignment, draw_alignment)


@figure(
    "finding_hopper",
    category="1 Paper",
    subcategory="Findings",
    title="Hopper's instructions, one idea a rung",
    caption="workflow/report/findings.rst",
    reads=("measured",),
)
def finding_hopper(inputs: Inputs) -> Figure:
    return drawn(inputs, "The Hopper ladder", findings.hopper, draw_hopper)


@figure(
    "finding_merged",
    category="1 Paper",
    subcategory="Findings",
    title="What merged loads cost",
    caption="workflow/report/findings.rst",
    reads=("measured",),
    optional=("ffma_issue",),
)
def finding_merged(inputs: Inputs) -> Figure:
    return drawn(inputs, "Issue of loads", findings.merged_loads, draw_merged)


@figure(
    "finding_fma",
    category="1 Paper",
    subcategory="Findings",
    title="fp32 without tensor cores",
    caption="workflow/report/findings.rst",
    reads=("measured",),
    optional=("dispatch",),
)
def finding_fma(inputs: Inputs) -> Figure:
    return drawn(inputs, "fp32 by FMAs", findings.fma, draw_fma)


@figure(
    "finding_fp32_tensor",
    category="1 Paper",
    subcategory="Findings",
    title="fp32 on tensor cores: speed and error",
    caption="workflow/report/findings.rst",
    reads=("measured",),
    optional=("error_over_k",),
)
def finding_fp32_tensor(inputs: Inputs) -> Figure:
    return drawn(inputs, "fp32 on tensor cores", findings.fp32_tensor, draw_fp32_tensor)
