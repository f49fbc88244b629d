"""Which ladder a variant belongs to, and the steps of the ladders as the worklogs' folders declare them."""

from __future__ import annotations

from typing import Any

import pandas as pd

from contracts import worklogs
from contracts.worklogs import OURS

LIBRARY = "library"


def worklog_of(variants: pd.DataFrame) -> pd.Series:
    """The worklog that each variant of the catalogue is from, by the name of its folder; else `OURS` or `LIBRARY`.

    An `origin` starts with the name of a worklog's folder.
    """
    start = variants["origin"].astype("string").str.partition(":")[0]
    found = start.fillna(OURS).astype(str)
    return found.where(variants["kind"] != "baseline", LIBRARY)


def ladders(variants: pd.DataFrame) -> list[str]:
    """The worklogs, in the order in which the catalogue has the middle kernel of each; ours and libraries last."""
    places = pd.Series(range(len(variants)), index=variants.index).groupby(worklog_of(variants)).median()
    return [str(name) for name in places.sort_values().index if name not in (OURS, LIBRARY)] + [OURS, LIBRARY]


def steps(variants: pd.DataFrame) -> list[dict[str, Any]]:
    """Every step of the ladders in the order of `ladders`, each with its `worklog` (or `OURS`).

    A step has the variant, the one that it is over, what changed, and the counters that it was meant to move:
    [{"key": ..., "meant": "fall" | "rise"}]. Steps of variants that the catalogue does not have are left out.
    """
    order, known = ladders(variants), set(variants["variant"])
    found = [step for step in worklogs.steps() if {step["variant"], step["over"]} <= known]
    return sorted(found, key=lambda step: order.index(step["worklog"]))
