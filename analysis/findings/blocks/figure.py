"""Share of cuBLAS of a kernel over the blocks that it was built for, a line a kernel, with registers and spills."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from analysis.data import Measured
from analysis.figures import style
from analysis.findings.drawing import of_finding
from analysis.findings.sources import Statement
from analysis.quantities.machine import SIZE


@of_finding("blocks")
def draw(measured: Measured, found: Statement) -> Figure:
    lines: dict[str, dict[int, tuple[float, int, int]]] = {}
    for row in found.rows:
        points = lines.setdefault(row["over_label"], {})
        for when in ("before", "after"):
            point = (100 * row[f"share_{when}"], row[f"registers_{when}"], row[f"spill_bytes_{when}"])
            points[row[f"blocks_per_sm_{when}"]] = point
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
    style.note(drawing, measured, f"n = {SIZE}", "numbers: registers a thread")
    return drawing
