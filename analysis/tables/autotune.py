"""A sweep over tiles, and what it found in numbers (`summary`), for the paper and the claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.data import DAGGER
from analysis.inputs import Inputs
from analysis.statistics import interval
from contracts import UserError

PARAMETERS = ["BM", "BN", "BK", "WM", "WN", "WNITER", "TM", "TN", "threads"]
FOLLOWS = {"sgemm_autotuned": ["threads"], "sgemm_warptile": []}  # what follows from the other parameters
TOP = 5
FIRST = 20  # of a ranking: those that would be timed


@dataclass(frozen=True)
class Tuning:
    """A machine's sweep: `rows` of tuning.csv, and tuned.json as `record`.

    `now` has the source hash of each kernel as the catalogue has it, at template values that the sweep tried, too.
    """

    rows: pd.DataFrame
    record: dict[str, Any]
    archived: bool
    now: dict[str, str]
    estimates: pd.DataFrame | None = None  # tuning_ranked.csv, where it is there

    @property
    def origin(self) -> str:
        """Where the numbers come from, as every figure shows it."""
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
        """The rows of one kernel, the fastest first."""
        rows = self.timed[self.timed["kernel"] == kernel]
        return rows.sort_values("tflops", ascending=False, kind="stable")

    def ranked(self, kernel: str) -> pd.DataFrame:
        """Its timed configurations that were ranked without a GPU, in that order, with `cycles` as they were measured;
        none where the table is not there."""
        keys = ["kernel", *PARAMETERS]
        timed = self.of(kernel)
        timed = timed.assign(cycles=timed["time_us"].astype(float) * timed["sm_clock_mhz"].astype(float))
        if self.estimates is None:
            return timed.iloc[:0].assign(estimate=[])
        estimated = self.estimates[self.estimates["estimate"].notna()]
        wanted = {name: float for name in PARAMETERS}
        found = (
            timed[[*keys, "tflops", "cycles"]]
            .astype(wanted)
            .merge(estimated[[*keys, "estimate"]].astype(wanted), on=keys)
        )
        return found.assign(estimate=found["estimate"].astype(float)).sort_values("estimate", kind="stable")

    def winner(self, kernel: str) -> pd.Series:
        """The row of the recorded winner."""
        rows = self.of(kernel)
        found = rows[rows["source_hash"] == self.record["kernels"][kernel]["source_hash"]]
        if found.empty:
            raise UserError(f"tuned.json and tuning.csv are not of one sweep: {kernel}'s winner has no row; tune again")
        row: pd.Series = found.iloc[0]
        return row


def of(inputs: Inputs) -> Tuning | None:
    """The sweep of these inputs, where they have one."""
    if inputs.tuning is None or not (inputs.has("tuning") and inputs.has("tuned")):
        return None
    if inputs.rows("tuning").empty:
        raise UserError(
            f"{inputs.tables['tuning']}: no rows; allowed: one of each configuration, as a sweep leaves them"
        )
    now = dict(zip(inputs.variants["variant"], inputs.variants["source_hash"], strict=True))
    estimates = inputs.rows("tuning_ranked") if inputs.has("tuning_ranked") else None
    return Tuning(inputs.rows("tuning"), inputs.document("tuned"), inputs.tuning["archived"], now, estimates)


# ---- what was found ---------------------------------------------------------------------------------------------


def pairs(rows: pd.DataFrame, kernel: str, low: int, high: int) -> pd.DataFrame:
    """Configurations of one kernel that differ in BK alone: their parameters, `low`, `high` (TFLOP/s) and `ratio`."""
    same = [name for name in PARAMETERS if name != "BK" and rows[name].notna().any()]
    sides = [rows[(rows["kernel"] == kernel) & (rows["BK"] == bk)][[*same, "tflops"]] for bk in (low, high)]
    found = sides[0].merge(sides[1], on=same, suffixes=("_low", "_high"))
    found = found.rename(columns={"tflops_low": "low", "tflops_high": "high"})
    return found.assign(ratio=found["high"].astype(float) / found["low"].astype(float))


def compare_bk(tuning: Tuning, kernel: str, low: int = 8, high: int = 16) -> dict[str, Any] | None:
    """Is BK = `high` better than `low`? The best of each, and pairs that differ in BK alone; None without any pair."""
    rows = tuning.of(kernel)
    matched = pairs(rows.dropna(axis="columns", how="all").reindex(columns=rows.columns), kernel, low, high)
    if matched.empty:
        return None
    ratios = matched["ratio"].to_numpy(float)
    middle = float(np.median(ratios))
    ci_low, ci_high = middle, middle
    if len(ratios) > 1:
        ci_low, ci_high = map(float, interval(np.median, (ratios,), f"{kernel}, BK {low} and {high}"))
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


def ranking(rows: pd.DataFrame) -> dict[str, Any] | None:
    """What the order of `Tuning.ranked` is worth; None without rows.

    `spearman`: the rank correlation of estimated and measured cycles. `place`: that of the fastest, from 1.
    `best_of_first`: the fastest of the first so many, as a share of the fastest of all, in percent.
    """
    if rows.empty:
        return None
    tflops = rows["tflops"].astype(float)
    return {
        "configurations": len(rows),
        "spearman": float(rows["estimate"].corr(rows["cycles"], method="spearman")),
        "place": int(tflops.to_numpy().argmax()) + 1,
        "first": FIRST,
        "best_of_first": 100 * float(tflops.head(FIRST).max() / tflops.max()),
    }


def values_text(row: pd.Series) -> str:
    """A configuration as the paper writes it: "BM=128, BN=128, BK=16, TM=8, TN=8"."""
    names = [n for n in PARAMETERS if n not in FOLLOWS.get(row["kernel"], []) and pd.notna(row[n])]
    return ", ".join(f"{name.upper()}={int(row[name])}" for name in names)


def _row(row: pd.Series) -> dict[str, Any]:
    numbers: dict[str, Any] = {name: float(row[name]) for name in ("tflops", "time_us", "sm_clock_mhz", "occupancy")}
    whole: dict[str, Any] = {
        name: int(row[name]) for name in ("threads", "registers", "spill_bytes", "shared_bytes", "samples", "BK")
    }
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
                "ranking": ranking(tuning.ranked(kernel)),
            }
        )
    return {
        "origin": tuning.origin,
        "size": tuning.record["size"],
        "compiler": tuning.record["compiler"],
        "kernels": kernels,
        "worklog": worklog_pair(tuning),
    }
