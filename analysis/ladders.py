"""Which ladder a variant belongs to, the steps of the ladders as the worklogs' folders declare
them, and the best kernels: README and paper take these from here."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import pandas as pd

from analysis.results import LIBRARY, Results, usual
from analysis.timings import PROCESSES
from contracts import worklogs
from contracts.worklogs import OURS

LAST = (OURS, LIBRARY)
# Blue, green, orange, purple, sky and red of Okabe and Ito, which most colour-blind readers can tell apart
PALETTE = ("#0072B2", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#D55E00")
PALE_GREY = "#BBBBBB"
MARKERS = "oDs^vPX"  # of Matplotlib, a shape for each ladder
BEST_SIZES = (2048, 4096, 8192, 16384)
# of kernels that compete; B lies by rows, as for all others
KINDS: dict[str, Callable[[pd.DataFrame], pd.Series]] = {
    "fp32 without tensor cores": lambda rows: (
        (rows["dtype"] == "fp32") & ~rows["tensor"].astype(bool)
    ),
    # Sums outside the tensor cores, which for long k are as exact as in fp32
    "fp32 by 3xTF32": lambda rows: rows["variant"].str.match("sgemm_3xtf32.*_outside"),
    "TF32": lambda rows: (rows["dtype"] == "tf32") & ~rows["variant"].str.contains("_bcol"),
    "bf16": lambda rows: (rows["dtype"] == "bf16") & ~rows["variant"].str.contains("_bcol"),
}


def ladders(variants: pd.DataFrame) -> list[str]:
    """The worklogs, in the order in which the catalogue has the middle kernel of each; ours and
    libraries last.
    """
    middles = variants.groupby("worklog")["order"].median().sort_values()
    return [*(str(name) for name in middles.index if name not in LAST), *LAST]


def titles() -> dict[str, str]:
    """Return the short name of each worklog, by the name of its folder, of `OURS` and `LIBRARY`."""
    short = {name: source.short for name, source in worklogs.sources().items()}
    return short | {OURS: "This project", LIBRARY: "Libraries"}


def colours(variants: pd.DataFrame) -> dict[str, str]:
    """Return a colour for each ladder; this project's own kernels are red, libraries grey."""
    names = [name for name in ladders(variants) if name not in (OURS, LIBRARY)]
    blue, green, orange, purple, sky, red = PALETTE
    of_worklogs = dict(zip(names, cycle([blue, purple, green, orange, sky]), strict=False))
    return of_worklogs | {OURS: red, LIBRARY: PALE_GREY}


def markers(variants: pd.DataFrame) -> dict[str, str]:
    """Return a marker for each ladder, so that colour alone distinguishes none."""
    return dict(zip(ladders(variants), cycle(MARKERS), strict=False))


def steps(variants: pd.DataFrame) -> list[dict[str, Any]]:
    """Every step of the ladders in the order of `ladders`, each with its `worklog` (or `OURS`).

    A step has the variant, the one that it is over, what changed, and the counters that it was
    meant to move: [{"key": ..., "meant": "fall" | "rise"}]. Steps of variants that the catalogue
    does not have are left out.
    """
    order, known = ladders(variants), set(variants["variant"])
    steps = [
        {"worklog": worklog, **step.model_dump()}
        for worklog, step in worklogs.steps()
        if {step.variant, step.over} <= known
    ]
    return sorted(steps, key=lambda step: order.index(step["worklog"]))


def best_kernels(results: Results) -> list[dict[str, Any]]:
    """The best kernel of each of `KINDS` at each of `BEST_SIZES`, squares with uniform inputs,
    interleaved.

    Where five processes measured any kernel of the GPU, only such rows compete. The best is the one
    whose interval begins highest, so that one lucky timing does not win. A size without a row is
    left out. Each row has kind, n, variant, label, tflops, baseline_tflops, fraction, fraction_low, fraction_high
    and processes.
    """
    rows = usual(results.squares)
    rows = rows[(rows["kind"] == "kernel") & rows["n"].isin(BEST_SIZES)]
    often = rows["processes"] >= PROCESSES
    rows = rows[often] if often.any() else rows
    columns = ["n", "variant", "label", "tflops", "baseline_tflops"]
    columns += ["fraction", "fraction_low", "fraction_high"]
    rows = rows.sort_values(["n", "fraction_low"], kind="stable")
    best: list[Any] = []
    for kind, competes in KINDS.items():
        fastest = rows[competes(rows)].drop_duplicates("n", keep="last")
        best += fastest[[*columns, "processes"]].assign(kind=kind).to_dict("records")
    return best
