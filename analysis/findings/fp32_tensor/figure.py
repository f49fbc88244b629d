"""Speed over the error of a sum, both relative to plain fp32."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from analysis.data import Measured
from analysis.figures import style
from analysis.findings.drawing import of_finding
from analysis.findings.sources import Statement
from analysis.quantities.machine import Missing


@of_finding("fp32_tensor")
def draw(measured: Measured, found: Statement) -> Figure:
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
    style.note(drawing, measured, f"n = {found.numbers['n']}", f"{origin}, positive data, k = {found.numbers['n']}")
    return drawing
