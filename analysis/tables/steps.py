"""Each step of the ladders: which counter it was meant to move, what came of that, and how time followed.

One row per step and counter, in the order of the file:
    part, variant, label, over, over_label, n, changed, control (whether the step costs something on purpose), stale;
    counter (its key), counter_label, unit; before and after (the counter of `over` and of `variant`), meant (fall or
    rise) and moved: "as meant", "the other way", or "hardly" where the two differ by at most 2%;
    time_before_us, time_after_us, speedup (their ratio), speedup_ci_low and _high (from the ends of both intervals);
    stall_before, stall_after (the reason for which warps wait longest) and the cycles of each per issued instruction;
    bound_before, bound_after (the resource with the most least cycles, as `analysis.tables.bounds` has it) and its
    percent of the measured cycles.
Cells are empty where there is no measurement. A step of variants that the catalogue does not have, or of which neither
timings nor counters are there, has no rows.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.inputs import Inputs
from analysis.quantities.estimates import Estimate
from analysis.quantities.machine import SIZE, Machine
from analysis.quantities.registry import quantities
from analysis.tables import bounds
from contracts import choose, worklogs

ALIKE = 0.02  # of the value before: a counter that moves by less has hardly moved
COLUMNS = ["part", "variant", "label", "over", "over_label", "n", "changed", "control", "stale"]
COLUMNS += ["counter", "counter_label", "unit", "before", "after", "meant", "moved"]
COLUMNS += ["time_before_us", "time_after_us", "speedup", "speedup_ci_low", "speedup_ci_high"]
COLUMNS += [f"stall_{when}{what}" for when in ("before", "after") for what in ("", "_cycles")]
COLUMNS += [f"bound_{when}{what}" for when in ("before", "after") for what in ("", "_percent")]


def movement(before: float | None, after: float | None, meant: str) -> str:
    """How a counter moved, compared with how it was meant to; empty where one value is missing."""
    if before is None or after is None:
        return ""
    if abs(after - before) <= ALIKE * abs(before):
        return "hardly"
    return "as meant" if (after > before) == (meant == "rise") else "the other way"


def longest_stall(machine: Machine, variant: str) -> tuple[str | None, float | None]:
    """The reason for which warps wait longest, and its cycles per issued instruction. Being ready is no wait."""
    waits = {
        key: machine.plain(variant, key)
        for key in quantities()
        if key.startswith("stall_") and key not in ("stall_selected", "stall_not_selected")
    }
    known = {key: value for key, value in waits.items() if value is not None}
    if not known:
        return None, None
    key = max(known, key=lambda name: known[name])
    return quantities()[key].label.removeprefix("Stalled: "), known[key]


def speedup(machine: Machine, before: str, after: str) -> dict[str, float | None]:
    """Times at n = 4096, their ratio, and its interval from the ends of both."""
    old, new = (machine.marked(name, "time_us") for name in (before, after))
    found: dict[str, float | None] = {
        "time_before_us": machine.plain(before, "time_us"),
        "time_after_us": machine.plain(after, "time_us"),
    }
    if not isinstance(old, Estimate) or not isinstance(new, Estimate):
        return found
    ratio = {
        "speedup": old.value / new.value,
        "speedup_ci_low": old.low / new.high,
        "speedup_ci_high": old.high / new.low,
    }
    return found | ratio


def step_rows(machine: Machine, least: pd.DataFrame, step: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """The rows of one step; none where a variant is not in the catalogue, or nothing of the two was measured."""
    pair = (step["over"], step["variant"])
    if any(name not in machine.variants for name in pair):
        return []
    row: dict[str, Any] = {key: step[key] for key in ("part", "variant", "over", "changed")}
    row["control"] = step.get("control", False)
    row |= {"label": machine.variants[pair[1]]["label"], "over_label": machine.variants[pair[0]]["label"], "n": SIZE}
    row |= speedup(machine, *pair)
    for when, name in zip(("before", "after"), pair, strict=True):
        row[f"stall_{when}"], row[f"stall_{when}_cycles"] = longest_stall(machine, name)
        if name in least.index:
            row[f"bound_{when}"] = bounds.RESOURCES[least.loc[name, "resource"]]
            row[f"bound_{when}_percent"] = least.loc[name, "percent"]
    rows = []
    for counter in step["counters"]:
        key = counter["key"]
        quantity = choose(quantities(), key, "quantity", where)
        before, after = (machine.plain(name, key) for name in pair)
        keys = ("time_us", key)
        rows.append(
            row
            | {"counter": key, "counter_label": quantity.label, "unit": quantity.unit, "before": before, "after": after}
            | {"meant": counter["meant"], "moved": movement(before, after, counter["meant"])}
            | {"stale": any(machine.stale(name, key) for name in pair for key in keys)}
        )
    empty = all(row["before"] is None and row["after"] is None for row in rows)
    return [] if empty and row.get("speedup") is None else rows


def steps(machine: Machine, least: pd.DataFrame, plan: list[dict[str, Any]]) -> pd.DataFrame:
    """The table of every step of a plan. `least` is `bounds.bottlenecks` of the same measurements."""
    at_size = least[least["n"] == SIZE].set_index("variant")
    rows = [row for step in plan for row in step_rows(machine, at_size, step, f"steps.yaml: {step['variant']}")]
    return pd.DataFrame(rows, columns=COLUMNS)


def steps_table(inputs: Inputs) -> pd.DataFrame:
    measured = inputs.measured()
    least = bounds.bottlenecks(bounds.shares(measured.counters, inputs.rows("bounds")))
    return steps(Machine(inputs), least, worklogs.steps())
