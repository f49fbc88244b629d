"""Above, cp.async by the rows that it copies from; below, excess wavefronts of stores by the number of warps."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from analysis.data import Measured
from analysis.figures import style
from analysis.findings.drawing import of_finding
from analysis.findings.sources import Statement

SHORT = "sgemm_"  # prefix of names that labels leave out


@of_finding("wavefronts")
def draw(measured: Measured, found: Statement) -> Figure:
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
    style.note(drawing, measured)
    return drawing
