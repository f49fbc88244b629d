"""What findings are computed from: one machine's tables, each read when it is first wanted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from analysis import bench
from analysis.data import current
from analysis.inputs import Inputs
from analysis.quantities.estimates import Estimate
from analysis.quantities.machine import Machine, Missing, rows_of
from analysis.statistics import IN_TURNS, SHARE
from analysis.tables import published, steps
from contracts import read_rows, worklogs

CARRIED = 0.8  # of its published share of cuBLAS: a rung that reaches so much carries over
ALIKE = 0.02  # of a time: a step that changes it by less has hardly changed it

Row = dict[str, Any]


@dataclass(frozen=True)
class Statement:
    """A finding as it is computed. `numbers` and `rows` are plain values, as JSON has them."""

    holds: bool
    summary: str
    numbers: dict[str, Any]
    rows: list[Row]


class Sources:
    """The tables that findings rest on, each read when first wanted. A property raises `Missing` for an empty one."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.machine = Machine(inputs)
        self.measured = self.machine.measured
        self.variants = self.machine.variants

    def get(self, variant: str, key: str, **selectors: Any) -> Any:
        """A quantity's value, a number or a text. Raises `Missing` where this machine has none of today's source."""
        found = self.machine.value(variant, key, **selectors)
        return found.value if isinstance(found, Estimate) else found

    def has(self, variant: str, *keys: str) -> bool:
        """Whether this machine has these quantities of a variant."""
        try:
            return all(self.get(variant, key) is not None for key in keys)
        except Missing:
            return False

    def optional(self, name: str) -> pd.DataFrame:
        """A recorded table that need not be there."""
        rows = self.machine.readable(self.inputs.rows, name)
        if rows.empty:
            raise Missing(f"{name}.csv has no rows here")
        return rows

    @cached_property
    def timed(self) -> pd.DataFrame:
        """The timings of what is in the catalogue and current, clocks unlocked, inputs uniform.

        `share_of_baseline` is that in turns: a finding is compared from card to card, and cards repeat it.
        """
        rows, _ = current(self.measured.bench)
        rows = rows[(rows["regime"] == "unlocked") & (rows["data"] == "uniform")]
        rows = rows.assign(share_kind=bench.IN_TURNS, **{to: rows[of] for to, of in zip(SHARE, IN_TURNS, strict=True)})
        if rows.empty:
            raise Missing("nothing was timed")
        return rows

    @cached_property
    def steps(self) -> list[Row]:
        """One row a step that has both counters and times: part, variant, over, labels, changed, control, meant
        (whether all its counters moved so), speedup and its interval, counters (their keys)."""
        found: dict[tuple[str, str], Row] = {}
        for row in rows_of(steps.steps_table(self.inputs)):
            if row["stale"] or pd.isna(row["speedup"]) or not row["moved"]:
                continue
            copied = ("part", "variant", "over", "label", "over_label", "changed", "control")
            times = ("speedup", "speedup_ci_low", "speedup_ci_high")
            step = {key: row[key] for key in copied} | {key: float(row[key]) for key in times}
            own = found.setdefault((row["variant"], row["over"]), step | {"meant": True, "counters": []})
            own["meant"] = own["meant"] and row["moved"] == "as meant"
            own["counters"].append(row["counter"])
        if not found:
            raise Missing("no step has both counters and times")
        return list(found.values())

    @cached_property
    def judged(self) -> list[Row]:
        """This machine's rows of claims.csv; none where the claims were not judged."""
        path = self.inputs.reports / "claims.csv"
        rows = read_rows(path, "claims_table") if path.is_file() else []
        return [row for row in rows if row["machine"] == self.measured.provenance["machine"]]

    @cached_property
    def shares(self) -> list[Row]:
        """Published shares of cuBLAS next to ours at `SIZE`, one row a rung, in the catalogue's order: worklog,
        variant, label, tensor, theirs (mean), theirs_low, theirs_high, here, ratio; shares are of one."""
        rows = published.shares(pd.DataFrame(worklogs.published()), self.measured.variants)
        here = {name: self.get(name, "share") for name in rows["variant"].unique() if self.has(name, "share")}
        rows = rows[rows["variant"].isin(list(here))]
        if rows.empty:
            raise Missing("no rung with a published share was timed")
        found = []
        for entry in rows_of(self.measured.variants):
            name, described = entry["variant"], {"label": entry["label"], "tensor": bool(entry["tensor"])}
            for worklog, own in rows[rows["variant"] == name].groupby("worklog"):
                theirs, share = own["share"].astype(float), here[name]
                row = {"worklog": worklog, "variant": name, **described, "theirs": theirs.mean()}
                row |= {"theirs_low": theirs.min(), "theirs_high": theirs.max()}
                found.append(row | {"here": share, "ratio": share / row["theirs"]})
        return found
