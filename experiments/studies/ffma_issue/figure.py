"""Issue of FFMA: cycles of loops against the model's, and what a load of shared memory takes of issue.

Left: loops of FFMAs alone, each against the model of ptxsim/issue.py; on the line, both agree. Right: loads next to
FFMAs, by their width and by whether neighbouring lanes are merged.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from analysis.data import Measured
from analysis.figures import style
from analysis.inputs import Inputs
from ptxsim import issue, sass

WARPS = 8  # of the block: two a scheduler, so that one issues while the other branches
CLOSE = 0.03  # of the measured cycles
KINDS = {"": "chosen registers", "random_": "random registers", "outer_": "outer products, as compiled"}  # by prefix
CONFLICTS = ("stride 2", "stride 8")  # patterns of lanes that wait for banks of shared memory


def instructions(operands: str) -> list[sass.Instruction]:
    """The loop of a row, from its column `operands`."""
    found = []
    for part in operands.split(";"):
        name, *registers = ["FFMA", *part.split()] if " " in part else [part]
        names = tuple(f"R{r[:-1]}.reuse" if r.endswith("*") else f"R{r}" for r in registers)
        found.append(sass.Instruction(0, name, names, None, "", 0, 0))
    return found


def modelled(operands: str) -> int:
    """Issue cycles of an iteration by the model, the loop running."""
    reads = issue.bank_reads(instructions(operands) * 3)
    return issue.issue_cycles(reads) - issue.issue_cycles(reads[: len(reads) * 2 // 3])


def loops(rows: pd.DataFrame) -> pd.DataFrame:
    """Loops of FFMAs alone: loop, kind, cycles measured and by the model, both over the FFMAs."""
    alone = rows[rows["operands"].notna() & (rows["warps"] == WARPS)]
    return pd.DataFrame(
        {
            "loop": alone["loop"],
            "kind": [[k for prefix, k in KINDS.items() if name.startswith(prefix)][-1] for name in alone["loop"]],
            "measured": alone["issue_cycles"] / alone["ffma"],
            "model": alone["operands"].map(modelled) / alone["ffma"],
        }
    )


def loads(rows: pd.DataFrame) -> pd.DataFrame:
    """Loads without bank conflicts: bits, lanes (merged or not), extra issue cycles of one."""
    own = rows[(rows["beside"] == "load") & (rows["warps"] == WARPS) & ~rows["lanes"].isin(CONFLICTS)]
    merged = own["wavefronts"] <= own["bits"] / 64  # with only one half-warp merged, a load is as the others
    labels = merged.map({True: "merged", False: "not merged"})
    return pd.DataFrame({"bits": own["bits"].astype(int), "lanes": labels, "extra": own["extra"]})


def draw(measured: Measured, rows: pd.DataFrame) -> Figure:
    """The figure. rows: of ffma_issue.csv."""
    found, beside = loops(rows), loads(rows)
    figure, (left, right) = plt.subplots(1, 2, figsize=(style.WIDTH, 2.9), width_ratios=(1.2, 1))
    kinds = list(KINDS.values())
    sns.scatterplot(
        found,
        x="model",
        y="measured",
        hue="kind",
        style="kind",
        hue_order=kinds,
        style_order=kinds,
        palette=style.LINES[: len(kinds)],
        markers=style.MARKERS[: len(kinds)],
        s=22,
        linewidth=0,
        alpha=0.8,
        ax=left,
    )
    left.axline((1, 1), slope=1, color=style.INK, linewidth=0.8, zorder=1)
    left.set(xlabel="cycles an FFMA by the model", ylabel="measured")
    left.legend(title=None, loc="upper left", frameon=False)
    left.grid(axis="both")
    sns.stripplot(
        beside,
        x="bits",
        y="extra",
        hue="lanes",
        hue_order=["not merged", "merged"],
        dodge=True,
        size=3,
        alpha=0.6,
        palette=style.LINES[:2],
        ax=right,
    )
    right.set(xlabel="bits a lane", ylabel="issue cycles of a load", ylim=(0, None))
    right.legend(title=None, loc="upper left", frameon=False)
    right.grid(axis="y")
    close = int(((found["model"] / found["measured"] - 1).abs() <= CLOSE).sum())
    note = f"{WARPS} warps on one SM; model within {CLOSE:.0%} in {close} of {len(found)} loops"
    style.note(figure, measured, note, withheld=False)
    return figure


def ffma_issue_figure(inputs: Inputs) -> Figure:
    return draw(inputs.measured(), inputs.rows("ffma_issue"))
