"""A buffer's quarters where they lie, and where an XOR of their addresses leads, on two architectures."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis.data import Measured
from analysis.figures import style
from analysis.findings.drawing import of_finding
from analysis.findings.sources import Statement

KB = 1024
SHADES = ("#0072B2", "#56B4E9", "#8CC2E6", "#D55E00")  # of the quarters of a buffer; the last one goes astray


@of_finding("alignment")
def draw(measured: Measured, found: Statement) -> Figure:
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
    style.note(drawing, measured, "worked out, not measured; outlined: buffer 1")
    return drawing
