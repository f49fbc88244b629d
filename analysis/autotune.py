"""Heat map of a sweep over tiles: what the best configuration of each BM, BN and BK reaches, and its patch per thread.

A line of panels per kernel, a panel per BK, one colour scale for all. A frame marks each kernel's winner. The module
also says what the sweep found in numbers (`summary`), for the paper.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle

from analysis import style
from analysis.data import DAGGER, svg_path, table
from analysis.style import plt
from contracts import UserError, read_json, read_rows, run_command

PARAMETERS = ["BM", "BN", "BK", "WM", "WN", "WNITER", "TM", "TN", "threads"]
FOLLOWS = {"sgemm_autotuned": ["threads"], "sgemm_warptile": []}  # what follows from the other parameters
SWEEP = "tile_autotune"  # its file in experiments/, which has a schema of its own
COLOURS = "cividis"  # even in lightness: the same order in grey print and for the colour-blind
TOP = 5
RESAMPLES, SEED = 2000, 20


@dataclass(frozen=True)
class Tuning:
    """A machine's sweep: `rows` of tuning.csv, and tuned.json as `record`.

    `now` has the source hash of each kernel as the catalogue has it, at template values that the sweep tried, too.
    """

    rows: pd.DataFrame
    record: dict[str, Any]
    archived: bool
    now: dict[str, str]

    @property
    def origin(self) -> str:
        """Where the numbers come from, as every figure tells it."""
        return f"{'archived' if self.archived else 'measured'}: {self.record['gpu']}, {self.record['date']}"

    @property
    def timed(self) -> pd.DataFrame:
        """The configurations that were measured and passed."""
        return self.rows[self.rows["tflops"].notna() & (self.rows["checked"] == True)]  # noqa: E712

    def stale(self, kernel: str) -> bool:
        """Whether the kernel's source has changed since: then no row has the hash that the catalogue has."""
        return kernel in self.now and self.now[kernel] not in set(
            self.rows.loc[self.rows["kernel"] == kernel, "source_hash"]
        )

    def label(self, kernel: str) -> str:
        """For figures: autotuned, with a dagger where it is stale."""
        return kernel.removeprefix("sgemm_") + (DAGGER if self.stale(kernel) else "")

    def of(self, kernel: str) -> pd.DataFrame:
        """Those of one kernel, the fastest first."""
        rows = self.timed[self.timed["kernel"] == kernel]
        return rows.sort_values("tflops", ascending=False, kind="stable")

    def winner(self, kernel: str) -> pd.Series:
        """The row of the recorded winner."""
        rows = self.of(kernel)
        found = rows[rows["source_hash"] == self.record["kernels"][kernel]["source_hash"]]
        if found.empty:
            raise UserError(f"tuned.json and tuning.csv are not of one sweep: {kernel}'s winner has no row; tune again")
        return found.iloc[0]


def read(folder: Path, variants: Path, *, archived: bool) -> Tuning:
    """Read tuning.csv and tuned.json of a folder, and the catalogue."""
    rows = table(read_rows(folder / "tuning.csv", "tuning"), "tuning")
    if rows.empty:
        raise UserError(f"{folder / 'tuning.csv'}: no rows; allowed: one of each configuration, as a sweep leaves them")
    now = {row["variant"]: row["source_hash"] for row in read_rows(variants, "variants")}
    return Tuning(rows, read_json(folder / "tuned.json", "tuned"), archived, now)


# ---- what was found ---------------------------------------------------------------------------------------------


def pairs(rows: pd.DataFrame, kernel: str, low: int, high: int) -> pd.DataFrame:
    """Configurations of one kernel that differ in BK alone: their parameters, `low`, `high` (TFLOP/s) and `ratio`."""
    same = [name for name in PARAMETERS if name != "BK" and rows[name].notna().any()]
    sides = [rows[(rows["kernel"] == kernel) & (rows["BK"] == bk)][[*same, "tflops"]] for bk in (low, high)]
    found = sides[0].merge(sides[1], on=same, suffixes=("_low", "_high"))
    found = found.rename(columns={"tflops_low": "low", "tflops_high": "high"})
    return found.assign(ratio=found["high"].astype(float) / found["low"].astype(float))


def median_interval(values: np.ndarray, level: float = 0.95) -> tuple[float, float, float]:
    """Median and its percentile-bootstrap interval (Efron and Tibshirani 1993, ch. 13); repeatable."""
    draws = np.random.default_rng(SEED).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.quantile(np.median(values[draws], axis=1), [(1 - level) / 2, (1 + level) / 2])
    return float(np.median(values)), float(low), float(high)


def compare_bk(tuning: Tuning, kernel: str, low: int = 8, high: int = 16) -> dict[str, Any] | None:
    """Is BK = `high` better than `low`? The best of each, and pairs that differ in BK alone; None without any pair."""
    rows = tuning.of(kernel)
    matched = pairs(rows.dropna(axis="columns", how="all").reindex(columns=rows.columns), kernel, low, high)
    if matched.empty:
        return None
    middle, ci_low, ci_high = median_interval(matched["ratio"].to_numpy(float))
    best = {bk: _row(rows[rows["BK"] == bk].iloc[0]) for bk in (low, high)}
    return {
        "low": low,
        "high": high,
        "best_low": best[low],
        "best_high": best[high],
        "gain_percent": 100 * (best[high]["tflops"] / best[low]["tflops"] - 1),
        "pairs": len(matched),
        "pairs_better": int((matched["ratio"] > 1).sum()),
        "ratio": middle,
        "ratio_ci_low": ci_low,
        "ratio_ci_high": ci_high,
    }


def values_text(row: pd.Series) -> str:
    """A configuration as the paper writes it: "BM=128, BN=128, BK=16, TM=8, TN=8"."""
    names = [n for n in PARAMETERS if n not in FOLLOWS.get(row["kernel"], []) and pd.notna(row[n])]
    return ", ".join(f"{name.upper()}={int(row[name])}" for name in names)


def _row(row: pd.Series) -> dict[str, Any]:
    numbers = {name: float(row[name]) for name in ("tflops", "time_us", "sm_clock_mhz", "occupancy")}
    whole = {name: int(row[name]) for name in ("threads", "registers", "spill_bytes", "shared_bytes", "samples", "BK")}
    return {"values": values_text(row), **numbers, "share_percent": 100 * float(row["share_of_cublas"]), **whole}


def worklog_pair(tuning: Tuning) -> dict[str, Any] | None:
    """Worklog A's own step: BK from 8 to 16 at BM = BN = 128 and TM = TN = 8; None where either was not measured."""
    rows = tuning.of("sgemm_autotuned")
    at = rows[(rows[["BM", "BN"]] == 128).all(axis=1) & (rows[["TM", "TN"]] == 8).all(axis=1)]
    found = {int(row["BK"]): _row(row) for _, row in at.iterrows()}
    return {"before": found[8], "after": found[16]} if {8, 16} <= set(found) else None


def summary(tuning: Tuning) -> dict[str, Any]:
    """What the paper says of the sweep."""
    kernels = []
    for kernel, record in tuning.record["kernels"].items():
        rows = tuning.rows[tuning.rows["kernel"] == kernel]
        timed = tuning.of(kernel)
        broken = rows[rows["valid"].astype(bool) & rows["reason"].notna()]
        finals = timed[timed["round"] == 2]
        kernels.append(
            {
                "kernel": kernel,
                "label": tuning.label(kernel),
                "configurations": len(rows),
                "valid": int(rows["valid"].astype(bool).sum()),
                "measured": len(timed),
                "spilled": int((timed["spill_bytes"].astype(float) > 0).sum()),
                "failed": [{"values": values_text(row), "reason": row["reason"]} for _, row in broken.iterrows()],
                "left_out": [entry for entry in record["restrictions"] if entry["left_out"]],
                "winner": _row(tuning.winner(kernel)),
                "slowest": float(timed["tflops"].min()),
                "top": [_row(row) for _, row in finals.head(TOP).iterrows()],
                "bk": compare_bk(tuning, kernel),
            }
        )
    return {
        "origin": tuning.origin,
        "size": tuning.record["size"],
        "compiler": tuning.record["compiler"],
        "kernels": kernels,
        "worklog": worklog_pair(tuning),
    }


# ---- the figure -------------------------------------------------------------------------------------------------


def draw_panel(axes: Axes, rows: pd.DataFrame, grid: pd.DataFrame, winner: pd.Series, norm: Normalize) -> None:
    """The best of each BM (down) and BN (across); `grid` has all values that were to be tried."""
    down, across = (sorted(grid[name].unique()) for name in ("BM", "BN"))
    best = rows.drop_duplicates(["BM", "BN"])  # the fastest comes first
    values = best.pivot(index="BM", columns="BN", values="tflops").astype(float).reindex(index=down, columns=across)
    style.cells(axes, values.to_numpy(), COLOURS, norm)
    for row in best.itertuples():
        x, y = across.index(row.BN), down.index(row.BM)
        ink = "white" if norm(float(row.tflops)) < 0.55 else style.INK
        at = {"ha": "center", "va": "center", "color": ink}
        axes.text(x + 0.5, y + 0.36, style.significant(row.tflops), **at)
        axes.text(x + 0.5, y + 0.72, f"{row.TM}×{row.TN}", fontsize=7, **at)
        if (winner["BM"], winner["BN"], winner["BK"]) == (row.BM, row.BN, row.BK):
            frame = {"fill": False, "edgecolor": style.BAD, "linewidth": 2, "clip_on": False, "zorder": 5}
            axes.add_patch(Rectangle((x, y), 1, 1, **frame))
    for y, x in zip(*np.nonzero(values.isna().to_numpy()), strict=True):
        axes.text(x + 0.5, y + 0.5, "–", ha="center", va="center", color="#777777")
    axes.tick_params(length=0)
    axes.set_yticks(np.arange(len(down)) + 0.5, down, rotation=0)
    axes.set_xticks(np.arange(len(across)) + 0.5, across)


def draw(tuning: Tuning) -> plt.Figure:
    """The figure of one sweep."""
    kernels = list(tuning.record["kernels"])
    winners = {kernel: tuning.winner(kernel) for kernel in kernels}
    steps = sorted(tuning.rows["BK"].unique())
    shown = tuning.timed["tflops"].astype(float)
    grids = [tuning.rows[tuning.rows["kernel"] == kernel] for kernel in kernels]
    heights = [grid["BM"].nunique() for grid in grids]
    best = [tuning.of(kernel).drop_duplicates(["BM", "BN", "BK"])["tflops"].astype(float) for kernel in kernels]
    norm = Normalize(min(map(min, best)) if len(shown) else 0, max(map(max, best)) if len(shown) else 1)
    figure, panels = plt.subplots(
        len(kernels),
        len(steps),
        figsize=(style.WIDTH, 0.9 + 0.4 * len(kernels) + 0.42 * sum(heights)),
        squeeze=False,
        gridspec_kw={"height_ratios": heights},
    )
    for line, kernel, grid in zip(panels, kernels, grids, strict=True):
        rows, winner = tuning.of(kernel), winners[kernel]
        for axes, bk in zip(line, steps, strict=True):
            draw_panel(axes, rows[rows["BK"] == bk], grid, winner, norm)
            axes.set_title(f"{tuning.label(kernel)}, BK = {bk}", loc="left")
            axes.set_xlabel("BN" if kernel == kernels[-1] else "")
            axes.set_ylabel("BM" if axes is line[0] else "")
            if axes is not line[0]:
                axes.set_yticks([])
    bar = figure.colorbar(ScalarMappable(norm, COLOURS), ax=panels, shrink=0.9, aspect=30, pad=0.02)
    bar.set_label("TFLOP/s")
    bar.outline.set_visible(False)
    style.note(
        figure,
        tuning,
        f"m = n = k = {tuning.record['size']}",
        "in small: TM×TN",
        "frame: the winner",
        "–: none measured",
        stale=any(map(tuning.stale, kernels)),
        withheld=False,
    )
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tuning", required=True, type=Path, metavar="DIR", help="with tuning.csv and tuned.json")
    parser.add_argument("--variants", required=True, type=Path, metavar="FILE", help="the catalogue as variants.csv")
    parser.add_argument("--archived", action="store_true", help="say that these were not measured by this run")
    parser.add_argument("--out", required=True, type=svg_path, metavar="FILE.svg", help="a PDF is written beside it")
    args = parser.parse_args()
    style.save(draw(read(args.tuning, args.variants, archived=args.archived)), args.out)


if __name__ == "__main__":
    run_command(main)
