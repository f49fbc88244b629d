"""What the measurements show beyond single verdicts: findings.json, which the paper tells and its figures draw.

A list of {name, title, holds, why, told, numbers, rows}:
    title: the statement; holds: true, false where the measurements here say otherwise, null where a table is missing
    (why: which); told: a sentence or two with the numbers, names in backticks; numbers: what `told` and the paper say,
    by name, in the units that their names end in; rows: what the figure or table of the finding shows.
A statement is held against the tables each time, so that another GPU's copy does not repeat what was found on this one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.data import current, is_tensor, metric_names, one_row_each, records, table, wide
from analysis.facts import SIZE
from analysis.inputs import Inputs
from analysis.registry import document
from analysis.tables import published, steps
from analysis.words import significant
from contracts import read_rows

ALIKE = 0.02  # of a time: a step that changes it by less has hardly changed it
CARRIED = 0.8  # of its published share of cuBLAS: a rung that reaches so much carries over
NEAR = 0.97  # of the power limit: a kernel that draws so much is held by it
BASE = 3  # wavefronts that a cp.async has before it writes anything
ON_PAPER = "wrong on paper"  # the kind of a verdict that no GPU could save
LINE = 128  # bytes of a line of global memory

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
    def steps(self) -> pd.DataFrame:
        """One row a step that has both counters and times: part, variant, over, labels, changed, control, meant
        (whether all its counters moved so), speedup and its interval, counters (their keys)."""
        rows = steps.steps_table(self.inputs)
        rows = rows[~rows["stale"].astype(bool)]
        found = []
        for (part, variant, over), own in rows.groupby(["part", "variant", "over"], sort=False):
            first = own.iloc[0]
            if pd.isna(first["speedup"]) or (own["moved"] == "").any():
                continue
            copied = {key: first[key] for key in ("label", "over_label", "changed")}
            times = {key: float(first[key]) for key in ("speedup", "speedup_ci_low", "speedup_ci_high")}
            meant = bool((own["moved"] == "as meant").all())
            names = {"part": part, "variant": variant, "over": over, "control": bool(first["control"])}
            found.append({**names, **copied, **times, "meant": meant, "counters": list(own["counter"])})
        if not found:
            raise Missing("no step has both counters and times")
        return pd.DataFrame(found)

    @cached_property
    def shares(self) -> pd.DataFrame:
        """Published shares of cuBLAS beside ours at `SIZE`, one row a rung: worklog, variant, label, tensor, order,
        theirs (mean), theirs_low, theirs_high, here, ratio; shares are of one."""
        told = table(read_rows(Path("paper/published.csv"), "published"), "published")
        rows = published.shares(told, self.measured.variants)
        here = self.at_size["share_of_baseline"]
        rows = rows[rows["variant"].isin(here.index)]
        if rows.empty:
            raise Missing("no rung with a published share was timed")
        found = rows.groupby(["worklog", "variant"])["share"].agg(theirs="mean", theirs_low="min", theirs_high="max")
        found = found.reset_index()
        found = found.assign(
            label=found["variant"].map(self.variants["label"]),
            tensor=found["variant"].map(self.variants["dtype"]).map(is_tensor),
            order=found["variant"].map(self.variants["order"]),
            here=found["variant"].map(here).astype(float),
        )
        return found.assign(ratio=found["here"] / found["theirs"]).sort_values("order", ignore_index=True)


def on_paper(of: Sources) -> Statement:
    """Claims whose own arithmetic is off."""
    path = of.inputs.reports / "claims.csv"
    if not path.is_file():
        raise Missing("the claims were not judged")
    rows = [row for row in read_rows(path, "claims_table") if row["machine"] == of.measured.provenance["machine"]]
    rows = [row for row in rows if row["counted"]]
    wrong = [row for row in rows if row["kind"] == ON_PAPER]
    columns = ("id", "worklog", "claim", "theirs", "ours", "unit")
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
    last = rows.groupby(["worklog", "tensor"]).tail(1)
    plain, tensor = last[~last["tensor"]], last[last["tensor"]]
    if plain.empty or tensor.empty:
        raise Missing("one of the two ladders has no published share")
    ceilings = of.measured.machine["ceilings"]
    keys = ("bf16_mma_flop_per_clock_sm", "bf16_wgmma_flop_per_clock_sm")
    rate = 100 * ceilings[keys[0]] / ceilings[keys[1]] if all(ceilings.get(key) for key in keys) else None
    best, best16 = (part.loc[part["here"].idxmax()] for part in (plain, tensor))
    worst = plain.loc[plain["ratio"].idxmin()]
    numbers = {
        "fp32_rungs": int((~rows["tensor"]).sum()),
        "fp32_least_kept_percent": 100 * float(worst["ratio"]),
        "fp32_least_kept_label": worst["label"],
        "fp32_median_kept_percent": 100 * float(rows.loc[~rows["tensor"], "ratio"].median()),
        "fp32_best_label": best["label"],
        "fp32_best_percent": 100 * float(best["here"]),
        "half_label": best16["label"],
        "half_theirs_percent": 100 * float(best16["theirs"]),
        "half_percent": 100 * float(best16["here"]),
        "half_kept_percent": 100 * float(best16["ratio"]),
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
        holds=bool((plain["ratio"] >= CARRIED).all() and (tensor["ratio"] < CARRIED).all()),
        told=f"{told}.",
        numbers=numbers,
        rows=rows.to_dict("records"),
    )


def moved_counters(of: Sources) -> Statement:
    """Steps that moved the counters that they were meant to move, and the time that followed."""
    rows = of.steps[~of.steps["control"]]  # what was slowed on purpose tells nothing here
    meant = rows[rows["meant"]]
    faster = meant[meant["speedup"] > 1 + ALIKE]
    slower = meant[meant["speedup"] < 1 - ALIKE]
    same = len(meant) - len(faster) - len(slower)
    numbers = {
        "steps": len(rows),
        "meant": len(meant),
        "faster": len(faster),
        "same": same,
        "slower": len(slower),
        "alike_percent": 100 * ALIKE,
    }
    if len(slower):
        worst = slower.loc[slower["speedup"].idxmin()]
        numbers |= {"worst_label": worst["label"], "worst_speedup": float(worst["speedup"])}
    return Statement(
        holds=len(slower) + same >= max(1, len(meant) / 5),
        told=f"Of {len(rows)} steps, {len(meant)} moved their counters as meant; {len(faster)} of these made the "
        f"kernel more than {100 * ALIKE:.0f}% faster, {same} changed less, and {len(slower)} made it slower.",
        numbers=numbers,
        rows=rows.to_dict("records"),
    )


def wavefronts(of: Sources) -> Statement:
    """Wavefronts of cp.async by the length of the rows that it copies from, and of stores by the warps beside them."""
    single = of.optional("smem_microbench")
    single = single[single["access"] == "cp_async_ca_16"].set_index("pattern")["wavefronts"].astype(float)
    rows: list[Row] = []
    for length in (32, 64, 128, 256, 512):
        names = [f"{way} from rows of {length} bytes" for way in ("stride 1", "XOR swizzle")]
        if all(name in single.index for name in names):
            plain, swizzled = (float(round(single[name])) - BASE for name in names)
            rows.append({"part": "rows", "bytes": length, "plain": plain, "swizzled": swizzled})
    if not rows:
        raise Missing("no copies from rows of several lengths were counted")
    between = of.optional("inter_warp_conflicts")
    between = between[between["bits"].isna() & (between["stores_need"].astype(float) > 0)]
    between = between.assign(
        excess=100 * (between["store_wavefronts"].astype(float) / between["stores_need"].astype(float) - 1)
    )
    for row in records(between):
        told = {"kernel": row.kernel, "source": row.source, "warps": int(row.warps), "blocks": int(row.blocks_per_sm)}
        rows.append({"part": "warps", **told, "excess_percent": float(row.excess)})
    alone = between[(between["warps"] == 1) & (between["blocks_per_sm"] == 1)]["excess"].max()
    constant = between[between["source"] == "neither"]["excess"].max()
    worst = between.loc[between["excess"].idxmax()]
    copies = [row for row in rows if row["part"] == "rows"]
    short, long = copies[0], copies[-1]
    numbers = {
        "swizzle_most_extra": max(row["swizzled"] - row["plain"] for row in copies),
        "short_bytes": short["bytes"],
        "short_wavefronts": short["plain"],
        "long_bytes": min(row["bytes"] for row in copies if row["plain"] == long["plain"]),
        "long_wavefronts": long["plain"],
        "alone_most_percent": float(alone),
        "constant_most_percent": float(constant),
        "worst_percent": float(worst["excess"]),
        "worst_kernel": worst["kernel"],
        "worst_warps": int(worst["warps"]),
    }
    pair = ("hgemm_naive_bf16", "hgemm_bcf_bf16")
    keys = ["cp_async_wavefronts", "cp_async_instructions"]
    if all(name in of.counters.index for name in pair) and set(keys) <= set(of.counters):
        each = [float(of.counters.loc[name, keys[0]] / of.counters.loc[name, keys[1]]) for name in pair]
        numbers |= {"kernel_plain": each[0], "kernel_swizzled": each[1]}
    return Statement(
        holds=numbers["swizzle_most_extra"] == 0
        and short["plain"] > long["plain"]
        and float(alone) < 0.1
        and float(worst["excess"]) > 1,
        told=f"A warp's `cp.async` of 16 bytes a lane takes {short['plain']:.0f} wavefronts from rows of "
        f"{short['bytes']} bytes and {long['plain']:.0f} from rows of {numbers['long_bytes']} or more, with a swizzle "
        f"or without. Beside other warps, stores take up to {numbers['worst_percent']:.0f}% more wavefronts than the "
        "addresses of their own warp need.",
        numbers=numbers,
        rows=rows,
    )


def blocks(of: Sources) -> Statement:
    """Kernels built once more with registers held to what another number of blocks an SM allows."""
    pairs = of.steps[of.steps["counters"].map(lambda keys: "active_warps" in keys)]
    rows: list[Row] = []
    for step in records(pairs):
        own: Row = {"variant": step.variant, "label": step.label, "over": step.over, "over_label": step.over_label}
        for when, name in (("before", step.over), ("after", step.variant)):
            if name not in of.resources.index or name not in of.at_size.index:
                break
            built = of.resources.loc[name]
            own |= {f"{key}_{when}": int(built[key]) for key in ("registers", "spill_bytes", "blocks_per_sm")}
            own[f"share_{when}"] = float(of.at_size.loc[name, "share_of_baseline"])
        else:
            rows.append(own | {"speedup": step.speedup})
    more = [row for row in rows if row["blocks_per_sm_after"] > row["blocks_per_sm_before"]]
    less = [row for row in rows if row["blocks_per_sm_after"] < row["blocks_per_sm_before"]]
    if not more:
        raise Missing("no kernel was built for more blocks than it has by itself")
    kernels = of.at_size[of.at_size["kind"] == "kernel"].join(of.resources[["occupancy", "registers"]], how="inner")
    kernels = kernels[~kernels["dtype"].map(is_tensor)]
    fastest = kernels.loc[kernels["tflops"].astype(float).idxmax()]
    lower = int((kernels["occupancy"].astype(float) < float(fastest["occupancy"])).sum())
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
    rows = of.timed[~of.timed["dtype"].map(is_tensor) & (of.timed["n"] >= SIZE)]
    rows = rows.assign(power=rows["power_w"].astype(float), joule=rows["gflop_per_j"].astype(float))
    rows = one_row_each(rows.dropna(subset=["power", "joule"]))
    if rows.empty or not limit or not peak:
        raise Missing("no power was measured, or no limit or ceiling is known")
    per_clock = of.measured.machine["ceilings"]["fp32_fma_flop_per_clock_sm"]
    rows = rows.assign(
        peak_percent=100 * rows["flop_per_clock_sm"].astype(float) / per_clock,
        capped=rows["throttle_reasons"].fillna("").str.contains("power_cap"),
    )
    kernels = rows[rows["kind"] != "baseline"]
    best = rows.loc[rows["tflops"].astype(float).idxmax()]
    near = kernels[kernels["power"] >= NEAR * limit]
    if kernels.empty:
        raise Missing("no fp32 kernel was timed at the sizes in question")
    frugal = kernels[kernels["tflops"].astype(float) >= 0.9 * float(best["tflops"])].nlargest(1, "joule").iloc[0]
    reachable = float(frugal["joule"]) * limit / 1000
    slowest = kernels[kernels["capped"]].nsmallest(1, "sm_clock_mhz")
    numbers = {
        "limit_w": float(limit),
        "near": len(near),
        "near_least_peak_percent": float(near["peak_percent"].min()) if len(near) else None,
        "near_most_peak_percent": float(near["peak_percent"].max()) if len(near) else None,
        "best_label": best["label"],
        "best_n": int(best["n"]),
        "best_tflops": float(best["tflops"]),
        "best_power_w": float(best["power"]),
        "best_peak_percent": float(best["peak_percent"]),
        "capped": int(kernels["capped"].sum()),
        "frugal_label": frugal["label"],
        "frugal_n": int(frugal["n"]),
        "frugal_gflop_per_j": float(frugal["joule"]),
        "reachable_tflops": reachable,
        "reachable_percent": 100 * reachable / peak,
        "peak_tflops": float(peak),
    }
    if len(slowest):
        row = slowest.iloc[0]
        numbers |= {"capped_label": row["label"], "capped_n": int(row["n"]), "capped_mhz": float(row["sm_clock_mhz"])}
    columns = ["variant", "label", "kind", "n", "tflops", "power", "joule", "peak_percent", "sm_clock_mhz", "capped"]
    return Statement(
        holds=bool(len(near)) and bool(kernels["capped"].any()) and reachable < peak,
        told=f"The fastest fp32 kernels draw the card's limit of {limit:.0f} W at "
        f"{significant(float(best['peak_percent']))}% of the measured FMA rate per clock. With the energy per "
        f"operation of the most frugal of them the limit allows {significant(reachable)} TFLOP/s, "
        f"{100 * reachable / peak:.0f}% of what FMAs alone reach.",
        numbers=numbers,
        rows=rows[columns].to_dict("records"),
    )


FINDINGS: dict[str, tuple[str, Callable[[Sources], Statement]]] = {
    "on_paper": ("Some statements fail on paper, on any GPU", on_paper),
    "ladders": ("The fp32 ladder carries over to a new GPU, the 16-bit one does not", ladders),
    "counters": ("A counter that moves as meant does not mean time", moved_counters),
    "wavefronts": ("Rows and neighbours, not bank diagrams, decide the last wavefronts", wavefronts),
    "blocks": ("Registers are worth more than blocks", blocks),
    "power": ("Power, not the peak, ends the fp32 ladder", power),
}


def findings(inputs: Inputs) -> list[Row]:
    """Every finding, in the paper's order."""
    of, found = Sources(inputs), []
    for name, (title, compute) in FINDINGS.items():
        row: Row = {"name": name, "title": title, "holds": None, "why": None, "told": None, "numbers": {}, "rows": []}
        try:
            row |= vars(compute(of))
        except Missing as missing:
            row["why"] = str(missing)
        found.append(row)
    return found


@document(
    "findings",
    file="findings.json",
    title="Findings",
    reads=("measured", "resources", "bounds", "paper/steps.yaml", "paper/published.csv", "report:claims"),
    optional=("smem_microbench", "inter_warp_conflicts"),
)
def findings_document(inputs: Inputs) -> str:
    return json.dumps(findings(inputs), indent=2, allow_nan=False) + "\n"
