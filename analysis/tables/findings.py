"""What the measurements show beyond single verdicts: findings.json, which the paper tells and its figures draw.

A list of {name, part, title, holds, why, told, numbers, rows, evidence}:
    part: "worklogs", of what they say; "beyond", of our kernels past them; "smaller", left to supplement and explorer
    title: the statement; holds: true, false where the measurements here say otherwise, null where a table is missing
    (why: which); told: a sentence or two with the numbers, names in backticks; numbers: what `told` and the paper say,
    by name, in the units that their names end in; rows: what the figure or table of the finding shows
    evidence: ids of the entries of class `finding` in claims.yaml that bear it out, each judged by itself; an
    entry that bears out none of the findings here is a smaller one of its own
A statement is held against the tables each time, so that another GPU's copy does not repeat what was found on this one.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from analysis.data import current, metric_names, one_row_each, wide
from analysis.inputs import Inputs
from analysis.quantities.machine import SIZE, rows_of
from analysis.registry import document
from analysis.tables import dispatch, published, steps
from analysis.words import significant
from contracts import choose, read_rows, registry, worklogs

ALIKE = 0.02  # of a time: a step that changes it by less has hardly changed it
CARRIED = 0.8  # of its published share of cuBLAS: a rung that reaches so much carries over
NEAR = 0.97  # of the power limit: a kernel that draws so much is held by it
FAST = 0.9  # of the fastest: a kernel that still counts as fast
BASE = 3  # wavefronts that a cp.async has before it writes anything
HOLDS, UNTESTABLE = "holds", "not testable here"  # verdicts
DATA = ("uniform", "positive")  # of error_over_k.csv: sums of both signs, and of one; fp32's accuracy is held to these
WIDE = "wide"  # and exponents spread over sixty powers of two, where few products make a sum
ON_PAPER = "wrong on paper"  # the kind of a verdict that no GPU could save

HOPPER, HALF = "hopper_ladder", "bf16"  # the experiment of Hopper's rungs, and which of their types is told
LARGE = 8192  # the size at which 16-bit kernels fill the GPU, and the rungs are set side by side
CLOSE = 0.95  # of the library: a kernel that has as much at each size has closed the gap
ISSUE_WARPS = 8  # of ffma_issue.csv: two a scheduler
CONFLICTS = ("stride 2", "stride 8")  # its patterns of lanes that wait for banks
APART = ("sgemm_t128x256x8_cpasync", "sgemm_t128x256x8_apart")  # one kernel, with loads that are merged and without
SQUARES = "sgemm_sizes"  # the experiment of fp32 over square sizes
DISPATCHER = "sgemm_best"  # picks among fp32 kernels without tensor cores
SPLIT = "fp32_tensor"  # the experiment of fp32 on tensor cores
PLAIN = "sgemm_naive"  # its sums are one fp32 multiply-add after another
OF_ERRORS = ("sgemm_", "tf32gemm_")  # families of what error_over_k.csv has, fp32 inputs all

SWITCH = (
    "c-switch-b-sm86",
    "c-switch-b-sm90",
)  # of analytic.yaml: on worklog C's GPU, and where it fails
SHIFTED = 90  # from this architecture on the system's part of shared memory comes first

Row = dict[str, Any]


class Missing(Exception):
    """What a finding rests on is not there; the message says what."""


@dataclass(frozen=True)
class Statement:
    """A finding as it is computed. `numbers` and `rows` are plain values, as JSON has them."""

    holds: bool
    told: str
    numbers: dict[str, Any]
    rows: list[Row]


class Sources:
    """The tables that findings rest on, each read when first wanted. A property raises `Missing` for an empty one."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.measured = inputs.measured()
        self.variants = self.measured.variants.set_index("variant")

    def optional(self, name: str) -> pd.DataFrame:
        """A recorded table that need not be there."""
        if name not in registry.tables():
            raise Missing(f"{name}.csv is of a side study whose folder is not there")
        rows = self.inputs.rows(name)
        if rows.empty:
            raise Missing(f"{name}.csv has no rows here")
        return rows

    @cached_property
    def timed(self) -> pd.DataFrame:
        """The timings of what is in the catalogue and current, clocks unlocked, inputs uniform."""
        rows, _ = current(self.measured.bench)
        rows = rows[(rows["regime"] == "unlocked") & (rows["data"] == "uniform")]
        if rows.empty:
            raise Missing("nothing was timed")
        return rows

    @cached_property
    def at_size(self) -> pd.DataFrame:
        """One row a variant at `SIZE`, by variant."""
        rows = one_row_each(self.timed[self.timed["n"] == SIZE])
        if rows.empty:
            raise Missing(f"nothing was timed at n = {SIZE}")
        return rows.set_index("variant")

    @cached_property
    def counters(self) -> pd.DataFrame:
        """Counters at `SIZE`, one row a variant, by variant."""
        rows, _ = current(wide(self.measured.counters, metric_names()))
        rows = rows[rows["n"] == SIZE]
        if rows.empty:
            raise Missing(f"no counters were read at n = {SIZE}")
        return rows.set_index("variant")

    @cached_property
    def resources(self) -> pd.DataFrame:
        return self.inputs.rows("resources").set_index("variant")

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
        """Published shares of cuBLAS beside ours at `SIZE`, one row a rung, in the catalogue's order: worklog, variant,
        label, tensor, theirs (mean), theirs_low, theirs_high, here, ratio; shares are of one."""
        told = pd.DataFrame(worklogs.published())
        rows = published.shares(told, self.measured.variants)
        here = self.at_size["share_of_baseline"]
        rows = rows[rows["variant"].isin(here.index)]
        if rows.empty:
            raise Missing("no rung with a published share was timed")
        found = []
        for entry in rows_of(self.measured.variants):
            name, told_of = entry["variant"], {"label": entry["label"], "tensor": bool(entry["tensor"])}
            for worklog, own in rows[rows["variant"] == name].groupby("worklog"):
                theirs, share = own["share"].astype(float), float(here[name])
                row = {"worklog": worklog, "variant": name, **told_of, "theirs": theirs.mean()}
                row |= {"theirs_low": theirs.min(), "theirs_high": theirs.max()}
                found.append(row | {"here": share, "ratio": share / row["theirs"]})
        return found


def on_paper(of: Sources) -> Statement:
    """Claims whose own arithmetic is off."""
    rows = [row for row in of.judged if row["counted"]]
    if not rows:
        raise Missing("the claims were not judged")
    wrong = [row for row in rows if row["kind"] == ON_PAPER]
    columns = ("id", "worklog", "claim", "theirs", "ours", "unit", "basis")
    told = [{name: row[name] for name in columns} for row in wrong]
    worklogs = len({row["worklog"] for row in wrong})
    return Statement(
        holds=bool(wrong),
        told=f"{len(wrong)} claims, of {worklogs} of the worklogs, contradict arithmetic or the documented rules of "
        "their hardware; no measurement could save them.",
        numbers={"wrong": len(wrong), "worklogs": worklogs, "judged": len(rows)},
        rows=told,
    )


def ladders(of: Sources) -> Statement:
    """The last rung of each ladder, as published and here."""
    rows = of.shares
    last = list({(row["worklog"], row["tensor"]): row for row in rows}.values())
    plain, tensor = ([row for row in last if bool(row["tensor"]) == kind] for kind in (False, True))
    if not plain or not tensor:
        raise Missing("one of the two ladders has no published share")
    ceilings = of.measured.machine["ceilings"]
    keys = ("bf16_mma_flop_per_clock_sm", "bf16_wgmma_flop_per_clock_sm")
    rate = 100 * ceilings[keys[0]] / ceilings[keys[1]] if all(ceilings.get(key) for key in keys) else None
    best, best16 = (max(part, key=lambda row: row["here"]) for part in (plain, tensor))
    worst = min(plain, key=lambda row: row["ratio"])
    numbers = {
        "n": SIZE,
        "fp32_rungs": sum(not row["tensor"] for row in rows),
        "fp32_least_kept_percent": 100 * worst["ratio"],
        "fp32_least_kept_label": worst["label"],
        "fp32_median_kept_percent": 100 * statistics.median(row["ratio"] for row in rows if not row["tensor"]),
        "fp32_best_label": best["label"],
        "fp32_best_percent": 100 * best["here"],
        "half_label": best16["label"],
        "half_theirs_percent": 100 * best16["theirs"],
        "half_percent": 100 * best16["here"],
        "half_kept_percent": 100 * best16["ratio"],
        "mma_of_wgmma_percent": rate,
    }
    told = (
        f"The last fp32 rungs keep at least {numbers['fp32_least_kept_percent']:.0f}% of their published share of "
        f"cuBLAS; the last 16-bit rung, published at {numbers['half_theirs_percent']:.0f}%, has "
        f"{numbers['half_percent']:.0f}% here"
    )
    if rate is not None:
        told += f", where `mma.sync` has {rate:.0f}% of the rate of `wgmma`"
    return Statement(
        holds=all(row["ratio"] >= CARRIED for row in plain) and all(row["ratio"] < CARRIED for row in tensor),
        told=f"{told}.",
        numbers=numbers,
        rows=rows,
    )


def moved_counters(of: Sources) -> Statement:
    """Steps that moved the counters that they were meant to move, and the time that followed."""
    rows = [row for row in of.steps if not row["control"]]  # what was slowed on purpose tells nothing here
    meant = [row for row in rows if row["meant"]]
    faster = [row for row in meant if row["speedup"] > 1 + ALIKE]
    slower = [row for row in meant if row["speedup"] < 1 - ALIKE]
    same = len(meant) - len(faster) - len(slower)
    numbers = {
        "steps": len(rows),
        "meant": len(meant),
        "faster": len(faster),
        "same": same,
        "slower": len(slower),
        "alike_percent": 100 * ALIKE,
    }
    if slower:
        worst = min(slower, key=lambda row: row["speedup"])
        numbers |= {"worst_label": worst["label"], "worst_speedup": worst["speedup"]}
    return Statement(
        holds=len(slower) + same >= max(1, len(meant) / 5),
        told=f"Of {len(rows)} steps, {len(meant)} moved their counters as meant; {len(faster)} of these made the "
        f"kernel more than {100 * ALIKE:.0f}% faster, {same} changed less, and {len(slower)} made it slower.",
        numbers=numbers,
        rows=rows,
    )


def wavefronts(of: Sources) -> Statement:
    """Wavefronts of cp.async by the length of the rows that it copies from, and of stores by the warps beside them."""
    copied = [row for row in rows_of(of.optional("smem_microbench")) if row["access"] == "cp_async_ca_16"]
    single = {row["pattern"]: float(row["wavefronts"]) for row in copied}
    rows: list[Row] = []
    for length in (32, 64, 128, 256, 512):
        names = [f"{way} from rows of {length} bytes" for way in ("stride 1", "XOR swizzle")]
        if all(name in single for name in names):
            plain, swizzled = (float(round(single[name])) - BASE for name in names)
            rows.append({"part": "rows", "bytes": length, "plain": plain, "swizzled": swizzled})
    if not rows:
        raise Missing("no copies from rows of several lengths were counted")
    between: list[Row] = []
    for row in rows_of(of.optional("inter_warp_conflicts")):
        if pd.isna(row["bits"]) and row["stores_need"] > 0:  # a kernel of the catalogue, whole
            told = {"kernel": row["kernel"], "source": row["source"], "warps": int(row["warps"])}
            excess = 100 * (float(row["store_wavefronts"]) / float(row["stores_need"]) - 1)
            between.append({"part": "warps", **told, "blocks": int(row["blocks_per_sm"]), "excess_percent": excess})
    alone = [row["excess_percent"] for row in between if row["warps"] == row["blocks"] == 1]
    constant = [row["excess_percent"] for row in between if row["source"] == "neither"]
    if not alone or not constant:
        raise Missing("inter_warp_conflicts.csv has no single warp, or no tiles filled with constants")
    worst = max(between, key=lambda row: row["excess_percent"])
    copies = [row for row in rows if row["part"] == "rows"]
    rows += between
    short, long = copies[0], copies[-1]
    numbers = {
        "swizzle_most_extra": max(row["swizzled"] - row["plain"] for row in copies),
        "short_bytes": short["bytes"],
        "short_wavefronts": short["plain"],
        "long_bytes": min(row["bytes"] for row in copies if row["plain"] == long["plain"]),
        "long_wavefronts": long["plain"],
        "alone_most_percent": max(alone),
        "constant_most_percent": max(constant),
        "worst_percent": worst["excess_percent"],
        "worst_kernel": worst["kernel"],
        "worst_warps": worst["warps"],
    }
    pair = ("hgemm_naive_bf16", "hgemm_bcf_bf16")
    keys = ["cp_async_wavefronts", "cp_async_instructions"]
    if all(name in of.counters.index for name in pair) and set(keys) <= set(of.counters):
        each = [float(of.counters[keys[0]][name]) / float(of.counters[keys[1]][name]) for name in pair]
        numbers |= {"kernel_plain": each[0], "kernel_swizzled": each[1]}
    return Statement(
        holds=numbers["swizzle_most_extra"] == 0
        and short["plain"] > long["plain"]
        and max(alone) < 0.1
        and worst["excess_percent"] > 1,
        told=f"A warp's `cp.async` of 16 bytes a lane takes {short['plain']:.0f} wavefronts from rows of "
        f"{short['bytes']} bytes and {long['plain']:.0f} from rows of {numbers['long_bytes']} or more, with a swizzle "
        f"or without. Beside other warps, stores take up to {numbers['worst_percent']:.0f}% more wavefronts than the "
        "addresses of their own warp need.",
        numbers=numbers,
        rows=rows,
    )


def blocks(of: Sources) -> Statement:
    """Kernels built once more with registers held to what another number of blocks an SM allows."""
    rows: list[Row] = []
    for step in (step for step in of.steps if "active_warps" in step["counters"]):
        own: Row = {key: step[key] for key in ("variant", "label", "over", "over_label")}
        for when, name in (("before", step["over"]), ("after", step["variant"])):
            if name not in of.resources.index or name not in of.at_size.index:
                break
            built = ("registers", "spill_bytes", "blocks_per_sm")
            own |= {f"{key}_{when}": int(of.resources[key][name]) for key in built}
            own[f"share_{when}"] = float(of.at_size["share_of_baseline"][name])
        else:
            rows.append(own | {"speedup": step["speedup"]})
    more = [row for row in rows if row["blocks_per_sm_after"] > row["blocks_per_sm_before"]]
    less = [row for row in rows if row["blocks_per_sm_after"] < row["blocks_per_sm_before"]]
    if not more:
        raise Missing("no kernel was built for more blocks than it has by itself")
    kernels = of.at_size[of.at_size["kind"] == "kernel"].join(of.resources[["occupancy", "registers"]], how="inner")
    plain = [row for row in rows_of(kernels) if not row["tensor"]]
    fastest = max(plain, key=lambda row: float(row["tflops"]))
    lower = sum(float(row["occupancy"]) < float(fastest["occupancy"]) for row in plain)
    best, worst = (pick(more, key=lambda row: row["speedup"]) for pick in (max, min))
    numbers = {
        "more": len(more),
        "slower": sum(row["speedup"] < 1 for row in more),
        "best_change_percent": 100 * (best["speedup"] - 1),
        "best_label": best["label"],
        "worst_change_percent": 100 * (worst["speedup"] - 1),
        "worst_label": worst["label"],
        "worst_spill_bytes": worst["spill_bytes_after"],
        "fastest_label": fastest["label"],
        "fastest_occupancy_percent": 100 * float(fastest["occupancy"]),
        "fastest_registers": int(fastest["registers"]),
        "lower": lower,
    }
    if less:
        numbers |= {"fewer_label": less[0]["label"], "fewer_change_percent": 100 * (less[0]["speedup"] - 1)}
    return Statement(
        holds=numbers["slower"] == len(more) and lower == 0,
        told=f"Holding registers down for another block an SM slowed {numbers['slower']} of {len(more)} kernels, by "
        f"{-numbers['best_change_percent']:.0f} to {-numbers['worst_change_percent']:.0f}%; the fastest fp32 kernel, "
        f"`{fastest['label']}`, has the lowest occupancy of all, {numbers['fastest_occupancy_percent']:.1f}%.",
        numbers=numbers,
        rows=rows,
    )


def power(of: Sources) -> Statement:
    """What fp32 kernels draw as they come near the peak."""
    limit = of.measured.machine.get("power_limit_w")
    peak = of.measured.machine["ceilings"].get("fp32_fma_tflops")
    rows = of.timed[~of.timed["tensor"].astype(bool) & (of.timed["n"] >= SIZE)]
    rows = rows.assign(power=rows["power_w"].astype(float), joule=rows["gflop_per_j"].astype(float))
    rows = one_row_each(rows.dropna(subset=["power", "joule"]))
    if rows.empty or not limit or not peak:
        raise Missing("no power was measured, or no limit or ceiling is known")
    per_clock = of.measured.machine["ceilings"]["fp32_fma_flop_per_clock_sm"]
    rows = rows.assign(
        peak_percent=100 * rows["flop_per_clock_sm"].astype(float) / per_clock,
        capped=rows["throttle_reasons"].fillna("").str.contains("power_cap"),
    )
    columns = ["variant", "label", "kind", "n", "tflops", "power", "joule", "peak_percent", "sm_clock_mhz", "capped"]
    told = rows_of(rows[columns])
    kernels = [row for row in told if row["kind"] != "baseline"]
    if not kernels:
        raise Missing("no fp32 kernel was timed at the sizes in question")
    best = max(kernels, key=lambda row: row["tflops"])
    near = [row for row in kernels if row["power"] >= NEAR * limit]
    capped = [row for row in kernels if row["capped"]]
    frugal = max((row for row in kernels if row["tflops"] >= FAST * best["tflops"]), key=lambda row: row["joule"])
    reachable = frugal["joule"] * limit / 1000
    numbers = {
        "limit_w": float(limit),
        "near": len(near),
        "best_label": best["label"],
        "best_n": int(best["n"]),
        "best_tflops": best["tflops"],
        "best_power_w": best["power"],
        "best_peak_percent": best["peak_percent"],
        "capped": len(capped),
        "frugal_label": frugal["label"],
        "frugal_n": int(frugal["n"]),
        "frugal_gflop_per_j": frugal["joule"],
        "reachable_tflops": reachable,
        "reachable_percent": 100 * reachable / peak,
        "peak_tflops": float(peak),
    }
    if capped:
        row = min(capped, key=lambda row: row["sm_clock_mhz"])
        numbers |= {"capped_label": row["label"], "capped_n": int(row["n"]), "capped_mhz": row["sm_clock_mhz"]}
    return Statement(
        holds=bool(near) and bool(capped) and reachable < peak,
        told=f"The fastest fp32 kernels draw the card's limit of {limit:.0f} W at "
        f"{significant(best['peak_percent'])}% of the measured FMA rate per clock. With the energy per "
        f"operation of the most frugal of them the limit allows {significant(reachable)} TFLOP/s, "
        f"{100 * reachable / peak:.0f}% of what FMAs alone reach.",
        numbers=numbers,
        rows=told,
    )


def alignment(of: Sources) -> Statement:
    """Worklog C's switch between two buffers, by an XOR of an address that it takes for aligned."""
    worked = {(row["case"], row["quantity"]): row["value"] for row in of.inputs.listed("analytic")}
    if any((case, name) not in worked for case in SWITCH for name in ("begins_at", "misplaced_bytes")):
        raise Missing("analytic.csv has no case of the switch")
    told = {row["id"]: row for row in worklogs.published()}
    slot, align, of_a = (int(told[name]["value"]) for name in ("c-b-switch-xor", "c-a-align", "c-a-slot-bytes"))
    number = re.search(r"[0-9]+", of.measured.machine["arch"])
    here = number is not None and int(number[0]) >= SHIFTED
    before = 2 * of_a  # A's two slots lie before those of B
    theirs, first = (int(worked[(case, "begins_at")]) - before for case in SWITCH)
    fine, astray = (int(worked[(case, "misplaced_bytes")]) for case in SWITCH)
    buffer = range(first + before, first + before + slot)
    places = [address ^ slot for address in buffer if address ^ slot != address + slot]
    outside = sum(not first <= place < first + before + 2 * slot for place in places)
    numbers = {
        "slot_bytes": slot,
        "align_bytes": align,
        "before_bytes": before,
        "first_address": first,
        "first_address_theirs": theirs,
        "astray_bytes": astray,
        "astray_percent": 100 * astray / slot,
        "outside_bytes": outside,
    }
    return Statement(
        holds=here and astray > 0 and fine == outside == 0,
        told=f"Worklog C's double buffer changes over by an XOR of an address that it takes to be aligned to {align} "
        f"bytes. From sm_90 on shared memory begins at {numbers['first_address']}, and "
        f"{numbers['astray_percent']:.0f}% of each tile of B go astray, to addresses that are the block's own.",
        numbers=numbers,
        rows=[],
    )


def hopper(of: Sources) -> Statement:
    """From the last rung of `mma.sync` to Hopper's own instructions, one idea a rung."""
    timed = of.timed[(of.timed["experiment"] == HOPPER) & (of.timed["dtype"] == HALF)].sort_values(
        "order", kind="stable"
    )
    rungs = timed[timed["kind"] == "kernel"]
    if rungs[rungs["n"] == LARGE].empty:
        raise Missing(f"{HOPPER} was not timed at n = {LARGE}")
    columns = ["variant", "label", "kind", "tflops", "flop_per_clock_sm", "sm_clock_mhz"]
    shares = ["share_of_baseline", "share_ci_low", "share_ci_high"]
    rows = rows_of(timed.loc[timed["n"] == LARGE, [*columns, *shares]].astype(dict.fromkeys(shares, float)))
    kernels = [row for row in rows if row["kind"] == "kernel"]
    for before, row in pairwise(kernels):
        row["gain"] = row["share_of_baseline"] / before["share_of_baseline"]
    first, last = kernels[0], kernels[-1]
    steps = sorted(kernels[1:], key=lambda row: -row["gain"])[:2]
    sizes = rows_of(rungs.loc[rungs["variant"] == last["variant"], ["n", "share_of_baseline"]].sort_values("n"))
    by_size = [{"n": int(row["n"]), "percent": 100 * float(row["share_of_baseline"])} for row in sizes]
    library = next((row for row in rows if row["variant"] == f"cublas_{HALF}"), None)
    numbers = {
        "n": LARGE,
        "rungs": len(kernels) - 1,
        "first_label": first["label"],
        "first_percent": 100 * first["share_of_baseline"],
        "last_label": last["label"],
        "last_percent": 100 * last["share_of_baseline"],
        "last_tflops": last["tflops"],
        "last_mhz": last["sm_clock_mhz"],
        "last_flop_per_clock_sm": last["flop_per_clock_sm"],
        "by_size": by_size,
        "steps": [{"label": row["label"], "percent": 100 * (row["gain"] - 1)} for row in steps],
    }
    if library is not None:
        numbers |= {f"library_{key}": library[key] for key in ("flop_per_clock_sm", "sm_clock_mhz")}
    others = [row for row in by_size if row["n"] != LARGE]
    told = ", ".join(f"{row['percent']:.0f}% at {row['n']}" for row in others)
    return Statement(
        holds=first["share_of_baseline"] < CARRIED and min(row["percent"] for row in by_size) >= 100 * CLOSE,
        told=f"{len(kernels) - 1} rungs with `wgmma` take {HALF} from {numbers['first_percent']:.0f}% to "
        f"{numbers['last_percent']:.0f}% of the fastest call of cuBLAS at n = {LARGE}"
        + (f" ({told})." if told else "."),
        numbers=numbers,
        rows=rows,
    )


def merged_loads(of: Sources) -> Statement:
    """What a load of shared memory takes of issue, by its width and by whether neighbouring lanes are merged; and one
    kernel with merged loads and without."""
    loads = of.optional("ffma_issue")
    loads = loads[(loads["beside"] == "load") & (loads["warps"] == ISSUE_WARPS) & ~loads["lanes"].isin(CONFLICTS)]
    if loads.empty:
        raise Missing(f"ffma_issue.csv has no loads with {ISSUE_WARPS} warps")
    merged = loads["wavefronts"] <= loads["bits"] / 64  # with only one half-warp merged, a load is as the others
    rows: list[Row] = []
    for bits, together in sorted(set(zip(loads["bits"].astype(int), merged, strict=True))):
        cycles = loads.loc[(loads["bits"] == bits) & (merged == together), "extra"].astype(float)
        spread = {"cycles": float(cycles.median()), "least": float(cycles.min()), "most": float(cycles.max())}
        rows.append({"bits": bits, "merged": bool(together), "loops": len(cycles), **spread})
    median = {(row["bits"], row["merged"]): row["cycles"] for row in rows}
    widest = max(row["bits"] for row in rows)
    numbers: dict[str, Any] = {
        "bits": widest,
        "plain_cycles": median[widest, False],
        "merged_cycles": median[widest, True],
        "least_more_cycles": min(median[bits, True] - median[bits, False] for bits, together in median if together),
    }
    told = (
        f"A {widest}-bit load of shared memory takes {numbers['plain_cycles']:.1f} cycles of issue, and "
        f"{numbers['merged_cycles']:.1f} where neighbouring lanes want the same, for half the wavefronts"
    )
    holds = bool(numbers["least_more_cycles"] > 1)
    if set(APART) <= set(of.at_size.index):
        before, after = (dict(of.at_size.loc[name].items()) for name in APART)
        numbers |= {"label": after["label"], "over_label": before["label"]}
        numbers["gain_percent"] = 100 * (float(after["tflops"]) / float(before["tflops"]) - 1)
        told += f"; `{after['label']}`, whose loads are not merged, is {numbers['gain_percent']:.1f}% faster for it"
        holds = holds and numbers["gain_percent"] > 0
    return Statement(holds=holds, told=f"{told}.", numbers=numbers, rows=rows)


def fma(of: Sources) -> Statement:
    """The fastest fp32 kernel without tensor cores at each square size that is timed, and on the other problems of the
    dispatcher's sweep, if that is there and current; beside cuBLAS."""
    timed = of.timed[
        (of.timed["experiment"] == SQUARES) & (of.timed["kind"] == "kernel") & ~of.timed["tensor"].astype(bool)
    ]
    if timed.empty:
        raise Missing(f"{SQUARES} has no timings of kernels of ours")
    squares = timed.loc[timed.groupby("n")["share_of_baseline"].idxmax()].sort_values("n")
    squares = squares.assign(share=squares["share_of_baseline"].astype(float), shape="square")
    others = _swept(of)
    shares = squares["share"]
    numbers = {
        "label": str(squares["label"].mode().iloc[0]),
        "squares": len(squares),
        "ahead": int((shares > 1).sum()),
        "from_n": int(squares["n"].min()),
        "to_n": int(squares["n"].max()),
        "least_percent": 100 * (float(shares.min()) - 1),
        "most_percent": 100 * (float(shares.max()) - 1),
        "mean_percent": 100 * (float(np.exp(np.log(shares).mean())) - 1),
        "others": len(others),
        "others_ahead": int((others["share"] > 1).sum()),
    }
    told = (
        f"`{numbers['label']}` is ahead of the fastest call of cuBLAS at {numbers['ahead']} of {numbers['squares']} "
        f"sizes from {numbers['from_n']} to {numbers['to_n']}, by {numbers['mean_percent']:.0f}% in the geometric mean "
        f"({numbers['least_percent']:.0f} to {numbers['most_percent']:.0f}%)"
    )
    if len(others):
        told += f"; of {numbers['others']} problems that are not square it is at {numbers['others_ahead']}"
    keys = ["m", "n", "k", "shape", "label", "share"]
    kept = [*rows_of(squares[keys]), *rows_of(others[keys])]
    return Statement(holds=numbers["ahead"] == len(squares), told=f"{told}.", numbers=numbers, rows=kept)


def _swept(of: Sources) -> pd.DataFrame:
    """The fastest kernel of each problem of the dispatcher's sweep that is not square; none if one of its kernels has
    changed since, for then the fastest is not known."""
    rows = of.inputs.offered("dispatch", timed=True)
    rows = rows[rows["dispatcher"] == DISPATCHER]
    best = dispatch.best(rows if not rows["stale"].any() else rows.iloc[:0])
    return best[best["shape"] != "square"].assign(share=lambda found: found["share"].astype(float))


def fp32_tensor(of: Sources) -> Statement:
    """Three TF32 products for one of fp32: how fast, and how exact."""
    timed = of.timed[(of.timed["experiment"] == SPLIT) & of.timed["tensor"].astype(bool)]
    timed = timed[timed["kind"] == "kernel"].sort_values("order", kind="stable")
    if timed[timed["n"] == SIZE].empty:
        raise Missing(f"{SPLIT} was not timed at n = {SIZE}")
    name = str(timed["variant"].iloc[-1])
    own = timed[timed["variant"] == name].set_index("n")
    shares = 100 * own["share_of_baseline"].astype(float)
    numbers: dict[str, Any] = {
        "label": str(own["label"].iloc[0]),
        "n": SIZE,
        "tflops": float(own["tflops"][SIZE]),
        "percent": float(shares[SIZE]),
        "least_factor": float(shares.min()) / 100,
        "most_factor": float(shares.max()) / 100,
    }
    if "cublas_fp32" in of.at_size.index:
        numbers["library_tflops"] = float(of.at_size["tflops"]["cublas_fp32"])
    told = (
        f"`{numbers['label']}` makes three TF32 products of each and adds them up outside of the tensor cores: "
        f"{numbers['least_factor']:.1f} to {numbers['most_factor']:.1f} times the speed of cuBLAS in fp32, "
        f"{numbers['tflops']:.0f} TFLOP/s at n = {SIZE}"
    )
    exact, rows = True, []
    errors = of.inputs.rows("error_over_k") if "error_over_k" in registry.tables() else pd.DataFrame()
    if not errors.empty and {name, PLAIN} <= set(errors["variant"]):
        errors = errors[errors["variant"].str.startswith(OF_ERRORS)]
        longest = int(errors["k"].max())
        kinds = (*DATA, WIDE)
        rms = {key: errors[errors["data"] == key].pivot(index="k", columns="variant", values="rms") for key in kinds}
        ratios = {key: rms[key][name] / rms[key][PLAIN] for key in kinds}
        exact = all(bool((ratios[key] <= 1).all()) for key in DATA)
        inside = str(timed["variant"].unique()[-2:][0])  # the rung before, whose sums stay inside
        numbers |= {"longest_k": longest, "emulated": bool((errors["device"] == "ptxsim").all())}
        for key in kinds:
            numbers[f"{key}_error_of_fp32"] = float(ratios[key][longest])
            numbers[f"{key}_most_error_of_fp32"] = float(ratios[key].max())
            if inside in rms[key]:
                numbers[f"{key}_inside_error_of_fp32"] = float((rms[key][inside] / rms[key][PLAIN])[longest])
        share = numbers["positive_error_of_fp32"]
        told += f", with {share:.2f} of the RMS error of fp32 sums over {longest} positive products"
        at = rms["positive"].loc[SIZE]
        for variant in at.index.intersection(of.at_size.index):
            row = of.at_size.loc[variant]
            told_of = {"variant": variant, "label": row["label"], "tensor": bool(row["tensor"])}
            rows.append(told_of | {"tflops": float(row["tflops"]), "error_of_fp32": float(at[variant] / at[PLAIN])})
    return Statement(holds=numbers["least_factor"] > 1 + ALIKE and exact, told=f"{told}.", numbers=numbers, rows=rows)


FINDINGS: dict[str, tuple[str, Callable[[Sources], Statement]]] = {
    "on_paper": ("Some statements fail on paper, on any GPU", on_paper),
    "ladders": ("The fp32 ladder carries over to a new GPU, the 16-bit one does not", ladders),
    "counters": ("A counter that moves as meant does not mean time", moved_counters),
    "wavefronts": ("Rows and neighbours, not bank diagrams, decide the last wavefronts", wavefronts),
    "blocks": ("Registers are worth more than blocks", blocks),
    "alignment": ("A published kernel is wrong on a newer GPU, and looks right", alignment),
    "power": ("Power, not the peak, ends the fp32 ladder", power),
    "hopper": ("Hopper's own instructions close the 16-bit gap", hopper),
    "merged": ("What a merged load saves in wavefronts, it costs in issue", merged_loads),
    "fma": ("fp32 without tensor cores passes cuBLAS at every square size", fma),
    "fp32_tensor": ("Three TF32 products replace one of fp32, and are faster", fp32_tensor),
}
BEYOND = ("hopper", "merged", "fma", "fp32_tensor")  # of our own kernels, past the worklogs


def findings(inputs: Inputs) -> list[Row]:
    """Every finding: those that the paper tells, in its order, then the smaller ones."""
    of, found = Sources(inputs), []
    judged = [row for row in of.judged if row["class"] == "finding"]
    for name, (title, compute) in FINDINGS.items():
        row = blank(name, "beyond" if name in BEYOND else "worklogs", title)
        row["evidence"] = [entry["id"] for entry in judged if entry["bears_out"] == name]
        try:
            row |= vars(compute(of))
        except Missing as missing:
            row["why"] = str(missing)
        found.append(row)
    for entry in judged:
        if entry["bears_out"] is not None:
            choose(FINDINGS, entry["bears_out"], "finding", f"bears_out of {entry['id']}")
        else:
            row = blank(entry["id"], "smaller", entry["claim"].rstrip(".")) | {"evidence": [entry["id"]]}
            known = entry["verdict"] != UNTESTABLE
            row |= {"holds": entry["verdict"] == HOLDS, "told": entry["remark"]} if known else {"why": entry["why"]}
            found.append(row)
    return found


def blank(name: str, part: str, title: str) -> Row:
    """A finding of which nothing is computed yet."""
    return {"name": name, "part": part, "title": title, "holds": None, "why": None, "told": None, "numbers": {},
            "rows": [], "evidence": []}  # fmt: skip


@document(
    "findings",
    file="findings.json",
    title="Findings",
    reads=(
        "measured",
        "analytic",
        "resources",
        "bounds",
        "paper/worklogs/*/steps.yaml",
        "paper/steps.yaml",
        "paper/worklogs/*/published.csv",
        "report:claims",
    ),
    optional=("smem_microbench", "inter_warp_conflicts", "ffma_issue", "dispatch", "error_over_k"),
)
def findings_document(inputs: Inputs) -> str:
    return json.dumps(findings(inputs), indent=2, allow_nan=False) + "\n"
