"""What the measurements show: at most ten findings, each tested on every GPU that has an archive.

    python -m analysis findings --out results/tables/findings.json

A finding is a function of `FINDINGS`. It says whether it holds on a GPU, in a title that is true as
it stands and in one or two sentences with its numbers. They do not name the GPU: README, paper and
explorer put it before them. Fractions of cuBLAS are interleaved. `holds` is None where the
intervals leave it undecided (within noise), and where a table is missing. findings.json is a list
of {name, title, holds, sentence, numbers, rows, bars, chart, figure, gpus}: the first GPU's own, and in `gpus` those of
each GPU, with gpu, model, date and processes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import estimates
from analysis.estimates import Estimate, Missing, all_of
from analysis.numbers import SIZE, Numbers
from analysis.results import Results, several
from analysis.tables.emulator import emulator_table
from analysis.tables.steps import steps_table
from analysis.timings import PROCESSES
from contracts import UserError, worklogs, write_text

# The study xor_double_buffer writes this table.
WRONG = Path("paper/worklogs/sgemm_cu/xor_double_buffer.csv")
OF_RUNS = ("device", "tool", "arch", "xor_of", "n", "wrong", "elements", "faults", "fault")
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")
# cuBLAS's own interleaved fraction of itself stays within this.
LEVEL_TOLERANCE = 0.02
# A step that gains more than this fraction of the speed is worth its code.
MIN_GAIN = 0.02
# A step that removes this fraction of its conflicts has done what it set out to do.
MIN_CONFLICTS_REMOVED = 0.9
# The simplest tiled kernel has about five times as many conflicts at n = 4096.
MANY_CONFLICTS = 10e6
# From this n on, 128 x 128 tiles occupy every SM of these GPUs.
LARGE_N = 2048
# This fraction of a published fraction of cuBLAS is "most of it".
MIN_CARRIED_OVER = 0.8
# Sums over a shorter k show the rounding of the split, not of the sums.
LONG_K = 256
# One more instruction takes this many issue cycles.
MIN_COST_CYCLES = 1.0
HALF, QUARTER = 0.5, 0.25

# The last rung of each ladder has the fraction of cuBLAS that its text publishes.
LAST_RUNGS = {
    "sgemm_warptile": "published('boehm_sgemm/final-share') / 100",
    "sgemm_at_swizzle_dbf_rw": "published('wingedge_sgemm/cublas-time') / published('wingedge_sgemm/dbf-time')",
    "sgemm_t128x128x8": "1 + (published('sgemm_cu/lead-low') + published('sgemm_cu/lead-high')) / 200",
    "hgemm_bcf_dbf_rw_bf16": "published('wingedge_hgemm/cublas-time') / published('wingedge_hgemm/rw-time')",
}


@dataclass(frozen=True)
class Finding:
    """A finding on one GPU. numbers: plain values by name, fractions of one. rows: what a table or
    figure shows. bars: of a finding without a figure, {unit, rows}: labels with their values.
    """

    holds: bool | None
    title: str
    sentence: str
    numbers: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    bars: dict[str, Any] = field(default_factory=dict)


# By name, in the order in which documents have them
FINDINGS: dict[str, tuple[Callable[[Numbers], Finding], str, dict[str, Any]]] = {}
FIGURES: dict[str, str] = {}  # By finding: the figure that the explorer shows with it.
Function = Callable[[Numbers], Finding]


def finding(subject: str, figure: str = "", **view: Any) -> Callable[[Function], Function]:
    """Enter a function into `FINDINGS`.

    subject: a title where nothing was measured. figure: stands with it in the explorer. view: the
    state of the explorer that shows it.
    """

    def enter(function: Function) -> Function:
        FINDINGS[function.__name__] = (function, subject, view)
        if figure:
            FIGURES[function.__name__] = figure
        return function

    return enter


@finding(
    "The double buffer of a published SGEMM on this GPU",
    view="ladder",
    ladder="sgemm_ladder.fp32",
    kernel="sgemm_t128x128x8",
)
def silently_wrong(numbers: Numbers) -> Finding:
    """The double buffer of a published SGEMM, which an XOR of a shared-memory address switches."""
    runs = _runs_of_xor(numbers.results)
    published = runs[(runs["xor_of"] == "address") & (runs["n"] == runs["n"].min())]
    run, emulated = published.iloc[0], published[published["device"] == "ptxsim"].iloc[0]
    tools = published[published["tool"].isin(SANITIZERS)]
    measured, wrong = run["device"] != "ptxsim", int(run["wrong"])
    silent = list(tools.loc[tools["faults"] == 0, "tool"])
    repaired_wrong = int(runs.loc[runs["xor_of"] == "offset", "wrong"].max())
    holds = wrong > 0 and repaired_wrong == 0 and len(silent) == len(tools)
    result = "wrong, but not silently" if wrong else "right on this GPU"
    result = "silently wrong on Hopper" if holds else result
    title = f"The double buffer of a published SGEMM is {result}"
    sentence = "" if measured else f"Emulated for {run['arch']}: "
    sentence += "rebuilt, the double buffer of sgemm.cu's 128x128x8 gets "
    sentence += f"{wrong:,} of {int(run['elements']):,} fp32 elements wrong at n = {run['n']}."
    if silent:
        sentence += f" NVIDIA's {_listed(silent)} report nothing."
    if int(emulated["faults"]):
        sentence += " The emulator names the faulty line."
    sentence = sentence[0].upper() + sentence[1:]
    values = {"arch": run["arch"], "measured": bool(measured), "fault": emulated["fault"]}
    values |= {"misplaced_fraction": misplaced_fraction(1024 if wrong else 0)}
    bars = {
        f"XOR of the {row['xor_of']}": 100 * int(row["wrong"]) / int(row["elements"])
        for row in _records(runs[(runs["n"] == run["n"]) & (runs["device"] == run["device"])])
    }
    unit = f"% of C's elements wrong, n = {run['n']}"
    return Finding(holds, title, sentence, values, _records(runs), _bars(unit, bars))


def _runs_of_xor(results: Results) -> pd.DataFrame:
    """Runs of the study on this GPU, then those of the emulator for its architecture."""
    runs = pd.read_csv(WRONG, keep_default_na=False)
    if lacking := [name for name in OF_RUNS if name not in runs]:
        study = "python -m experiments.studies xor_double_buffer"
        raise UserError(f"{WRONG}: no column {min(lacking)}; {study} has it")
    runs = runs.assign(faults=pd.to_numeric(runs["faults"]))
    number = re.search(r"\d+", results.machine.arch)
    arch = "sm_90" if number and int(number[0]) >= 90 else "sm_86"
    emulated = runs[(runs["device"] == "ptxsim") & (runs["arch"] == arch)]
    if emulated.empty:
        raise Missing(f"{WRONG} has no run for {arch}")
    return pd.concat([runs[runs["device"] == results.gpu], emulated], ignore_index=True)


def misplaced_fraction(first: int) -> float:
    """Which part of the second tile of B is stored elsewhere than it is read, where shared memory
    begins at `first`.

    Eight rows of 512 bytes lie 16384 bytes into the array. A store takes the XOR with 4096 of its
    row's address, a load that of the tile's address, and adds the row afterwards.
    """
    tile = first + 16384
    rows = range(0, 4096, 512)
    return sum((tile + row) ^ 4096 != (tile ^ 4096) + row for row in rows) / len(rows)


@finding(
    "Hopper kernels next to cuBLAS",
    view="ladder",
    ladder="hopper_ladder.bf16",
    n=8192,
    kernel="hgemm_wgmma_streamk_bf16",
)
def hopper_level(numbers: Numbers) -> Finding:
    """The better of TMA store and stream-K for each size and 16-bit type, next to ping-pong."""
    sizes, best, rows = (2048, 4096, 8192, 16384), {}, []
    for dtype in ("bf16", "fp16"):
        for n in sizes:
            kinds = ("store", "streamk", "pingpong")
            of = {kind: _fraction(numbers, f"hgemm_wgmma_{kind}_{dtype}", n) for kind in kinds}
            best[dtype, n] = estimates.largest((of["store"], of["streamk"]))
            rows.append({"dtype": dtype, "n": n} | {kind: of[kind].value for kind in kinds})
    large = [fraction for (_, n), fraction in best.items() if n >= 4096]
    level = all_of(*(fraction >= 1 - LEVEL_TOLERANCE for fraction in large)).holds
    pingpong = {n: _fraction(numbers, "hgemm_wgmma_pingpong_bf16", n) for n in sizes}
    behind = all_of(*(pingpong[n] < 1 - LEVEL_TOLERANCE for n in (8192, 16384))).holds
    # DRAM traffic, a wider tile and clusters that wait explain it, where they were measured.
    of_dram = {kind: f"hgemm_wgmma_{kind}_bf16" for kind in ("pingpong", "streamk")}
    moved = _known(numbers, "dram_bytes", 16384, of_dram)
    rate = _known(numbers, "dram_gb_per_s", 16384, {"pingpong": of_dram["pingpong"]})
    remedies = {
        "wide": "hgemm_wgmma_pingpong_wide_bf16",
        "wide_synchronised": "hgemm_wgmma_pingpong_in_step_bf16",
        "tf32": "tf32gemm_wgmma_bcol",
        "tf32_synchronised": "tf32gemm_wgmma_bcol_in_step",
    }
    values = {"behind": behind} | _known(numbers, "fraction", 8192, remedies)
    short = math.ceil(100 * (1 - min(fraction.low for fraction in large)))
    title = _chosen(
        level,
        "In 16 bits the better of stream-K and TMA stores matches cuBLAS at n = 4096, 8192 and 16384"
        + ("; ping-pong falls behind" if behind else ""),
        "In 16 bits stream-K and TMA stores fall short of cuBLAS at some n from 4096 on",
        f"In 16 bits the better of stream-K and TMA stores is at most {short}% behind cuBLAS from n = 4096 to 16384",
    )
    reached = [100 * best["bf16", n].value for n in sizes]
    sentence = f"In bf16 the better of the two has {min(reached):.1f} to {max(reached):.1f}% of cuBLAS (interleaved) "
    sentence += f"at n = {_listed(sizes)}. "
    sentence += f"At {sizes[-1]} ping-pong has {_percent(pingpong[sizes[-1]])}"
    if len(moved) == 2 and rate:
        copy = numbers.results.machine.ceilings.dram_copy_gb_per_s
        sentence += f" and moves {moved['pingpong'] / 1e9:.0f} GB to and from DRAM, stream-K "
        sentence += f"{moved['streamk'] / 1e9:.0f} GB. Its {rate['pingpong'] / 1e3:.2f} TB/s are "
        sentence += f"{_percent(rate['pingpong'] / copy)} of the rate of a copy"
    names = {"store": "TMA stores", "streamk": "stream-K", "pingpong": "ping-pong"}
    largest = next(row for row in rows if row["dtype"] == "bf16" and row["n"] == sizes[-1])
    bars = {name: 100 * float(largest[kind]) for kind, name in names.items()}
    bars = _bars(f"% of cuBLAS, bf16, n = {sizes[-1]}", bars)
    return Finding(level, title, f"{sentence}.", values, rows, bars)


@finding(
    "Bank conflicts of a swizzle of the stores",
    view="compare",
    a="sgemm_at_tiling",
    b="sgemm_at_swizzle_stores",
)
def conflicts_moved(numbers: Numbers) -> Finding:
    """A swizzle of the stores alone, which moves bank conflicts to the loads; and what holds over
    all steps.
    """
    before, after = pair = ("sgemm_at_tiling", "sgemm_at_swizzle_stores")
    stores = [_value(numbers, name, "shared_store_conflicts") for name in pair]
    total = [_value(numbers, name, "shared_conflicts") for name in pair]
    instructions = [_value(numbers, name, "instructions") for name in pair]
    ipc = [_value(numbers, name, "ipc_active") for name in pair]
    fractions = [_fraction(numbers, name) for name in pair]
    gain = numbers.speedup(after, before)
    # Count the steps that change the conflicts by many, over all ladders.
    steps = _conflict_steps(numbers)
    fewer = [row for row in steps if row["conflicts"] <= -MANY_CONFLICTS]
    more = [row for row in steps if row["conflicts"] >= MANY_CONFLICTS]
    removed = 1 - stores[1] / stores[0]
    labels = [_label(numbers, name) for name in pair]
    holds = (gain < 1).holds if removed >= MIN_CONFLICTS_REMOVED and total[1] > total[0] else False
    title = _chosen(
        holds,
        "A swizzle that splits 128-bit loads removes store conflicts and slows the kernel",
        "Swizzling the stores alone does not slow the kernel",
        "Whether swizzling the stores alone slows the kernel is within noise",
    )
    sentence = (
        f"At n = {SIZE}, fp32, `{labels[1]}` removes {_percent(removed)} of `{labels[0]}`'s store conflicts. It reads "
        f"A word by word, so that loads take all conflicts from {_millions(total[0])} to {_millions(total[1])}. "
        f"Instructions rise by {_percent(instructions[1] / instructions[0] - 1)} at {ipc[1]:.2f} in place of "
        f"{ipc[0]:.2f} a cycle, and the kernel falls from {_percent(fractions[0])} to {_percent(fractions[1])} of "
        "cuBLAS (interleaved)."
    )
    values = {"label": labels[1], "steps_fewer": len(fewer), "steps_more": len(more)}
    values |= {"steps_fewer_faster": sum(row["faster"] is True for row in fewer)}
    slower = [row for row in more if row["faster"] is False]
    faster = [row for row in more if row["faster"] is True]
    values |= {"steps_more_slower": len(slower), "steps_more_faster": len(faster)}
    # Instructions tell the slower steps from the faster ones, too.
    values |= {"slower_with_more_instructions": sum(row["instructions"] > 1 for row in slower)}
    values |= {"faster_with_fewer_instructions": sum(row["instructions"] < 1 for row in faster)}
    values |= {"l1": [_value(numbers, name, "l1_throughput") / 100 for name in pair]}
    bars = {label: 100 * each.value for label, each in zip(labels, fractions, strict=True)}
    bars = _bars(f"% of cuBLAS, n = {SIZE}", bars)
    return Finding(holds, title, sentence, values, fewer + more, bars)


def _conflict_steps(numbers: Numbers) -> list[dict[str, Any]]:
    """Each step with known conflicts and speed: by how many conflicts changed, how many times the
    instructions it executes, and whether it is faster.
    """
    rows = []
    for _, step in worklogs.steps():
        pair = (step.over, step.variant)
        if step.control or not set(pair) <= set(numbers.known):
            continue
        try:
            before, after = (_value(numbers, name, "shared_conflicts") for name in pair)
            executed = [_value(numbers, name, "instructions") for name in pair]
            gain = numbers.speedup(step.variant, step.over)
        except Missing:
            continue
        row = {"variant": step.variant, "over": step.over, "conflicts": after - before}
        row |= {"instructions": executed[1] / executed[0]}
        rows.append(row | {"speedup": gain.value, "faster": (gain > 1).holds})
    return rows


@finding(
    "fp32 without tensor cores next to cuBLAS",
    view="sizes",
    dtype="fp32",
    draw="sgemm_tma_streamk,sgemm_t128x256x8_cpasync,cublas_fp32",
)
def fp32_simt(numbers: Numbers) -> Finding:
    """fp32 kernels without tensor cores next to cuBLAS, at squares."""
    best = _fastest_simt(numbers)
    name = Counter(name for name, _ in best.values()).most_common(1)[0][0]
    fractions = {n: _fraction(numbers, name, n) for n in numbers.sizes(name)}
    last_behind = max((n for n, fraction in fractions.items() if not fraction > 1), default=0)
    # Below LARGE_N the library's own time depends on which kernel runs next to it.
    first = next((n for n in sorted(fractions) if n > last_behind and n >= LARGE_N), None)
    ahead = [(fraction > 1).holds for n, fraction in fractions.items() if n >= LARGE_N]
    holds = True if first is not None and first <= LARGE_N else None if None in ahead else False
    large, label = [n for n in fractions if n >= (first or LARGE_N)], _label(numbers, name)
    values = [fractions[n].value for n in large]
    title = _chosen(
        holds,
        f"Without tensor cores `{label}` passes cuBLAS fp32 at {len(large)} squares from n = {first} to {max(large)}",
        f"Without tensor cores `{label}` does not pass cuBLAS fp32 at every large square that it ran on",
        f"Whether `{label}` passes cuBLAS fp32 at every large square is within noise",
    )
    sentence = (
        f"`{label}` has {_percent(min(values))[:-1]} to {_percent(max(values))} of cuBLAS fp32 "
    )
    sentence += f"(interleaved) at n = {_listed(large)}"
    for n in (n for n in fractions if n < min(large)):
        alone = _value(numbers, "cublas_fp32", "time_us", n) / _value(numbers, name, "time_us", n)
        sentence += f". At {n} it has {_percent(fractions[n])} of the library beside it, and {_percent(alone)} of the "
        sentence += "library beside itself"
    rows = [{"n": n, "variant": name, "fraction": f.value} for n, (name, f) in best.items()]
    bars = _bars(f"{label}, % of cuBLAS", {f"n = {n}": 100 * fractions[n].value for n in fractions})
    return Finding(holds, title, f"{sentence}.", {"label": label, "from_n": first}, rows, bars)


def _fastest_simt(numbers: Numbers) -> dict[int, tuple[str, Estimate]]:
    """The fastest fp32 kernel without tensor cores at each size of sgemm_sizes, with its fraction
    of cuBLAS.
    """
    rows = numbers.results.squares
    rows = rows[(rows["experiment"] == "sgemm_sizes") & (rows["kind"] == "kernel")]
    rows = rows[(rows["data"] == "uniform") & (rows["clock_policy"] == "boost")]
    rows = rows[(rows["dtype"] == "fp32") & ~rows["tensor"].astype(bool)]
    if rows.empty:
        raise Missing("sgemm_sizes was not measured")
    rows = rows.loc[rows.groupby("n")["fraction"].idxmax()].sort_values("n")
    return {
        int(row["n"]): (row["variant"], _fraction(numbers, row["variant"], int(row["n"])))
        for row in _records(rows)
    }


@finding(
    "Three TF32 products next to cuBLAS fp32",
    figure="error",
    view="ladder",
    ladder="fp32_tensor.fp32",
)
def three_tf32(numbers: Numbers) -> Finding:
    """Three TF32 products for one of fp32: how fast, and how exact."""
    name = "sgemm_3xtf32_wgmma_outside"
    sizes = numbers.sizes(name, experiment="fp32_tensor")
    fractions = {n: _fraction(numbers, name, n) for n in sizes}
    errors = numbers.results.table("error_over_k")
    rms = errors[errors["device"] == "gpu"].pivot_table("rms", ["data", "k"], "variant")
    if not {name, "cublas_fp32"} <= set(rms.columns):
        raise Missing("error_over_k.csv lacks 3xTF32 or cuBLAS on this GPU")
    ratio = (rms[name] / rms["cublas_fp32"]).rename("ratio").reset_index()
    # exponents over sixty powers of two, where few products make a sum
    wide = ratio["data"] == "wide"
    ordinary = ratio.loc[~wide & (ratio["k"] >= LONG_K), "ratio"]
    # It replaces fp32 where it is both faster and as exact.
    speeds, label = [fractions[n].value for n in sizes if n >= LARGE_N], _label(numbers, name)
    faster = all_of(*(fractions[n] > 1 for n in sizes if n >= LARGE_N)).holds
    exact = bool((ordinary <= 1).all())
    holds = False if faster and not exact else faster
    lacks = "not always faster than cuBLAS fp32"
    lacks = "faster than cuBLAS fp32, but less exact" if faster else lacks
    title = _chosen(
        holds,
        f"From n = {LARGE_N} on three TF32 products replace one of fp32: "
        "faster, and for long sums more exact on ordinary data",
        f"From n = {LARGE_N} on three TF32 products are {lacks}",
        f"Whether three TF32 products are faster than cuBLAS fp32 from n = {LARGE_N} on is within noise",
    )
    smaller = [f", and {fractions[n].value:.2f} times at {n}" for n in sizes if n < LARGE_N]
    sentence = (
        f"`{label}` is {min(speeds):.1f} to {max(speeds):.1f} times as fast as cuBLAS fp32 (interleaved) from n = "
        f"{LARGE_N} to {max(sizes)}{''.join(smaller)}. From k = {LONG_K} on it has {ordinary.min():.2f} to "
        f"{ordinary.max():.2f} of cuBLAS's RMS error on {_listed(sorted(set(ratio.loc[~wide, 'data'])))} inputs."
    )
    behind = ratio.loc[wide & (ratio["ratio"] > 1), "k"]
    values: dict[str, Any] = {"label": label}
    values |= {"greatest_error_ratio": float(ordinary.max())}
    values |= {"wide_error_ratio": float(ratio.loc[wide, "ratio"].max())}
    values |= {"wide_behind_k": [int(k) for k in behind]}
    return Finding(holds, title, sentence, values, _records(ratio))


@finding("Published fractions of cuBLAS on this GPU", view="ladder", ladder="sgemm_ladder.fp32")
def fp32_ladder_carries_over(numbers: Numbers) -> Finding:
    """The last rung of each ladder: the fraction of cuBLAS that its text publishes, and the one
    here.
    """
    rows: list[dict[str, Any]] = []
    ratios = []
    for name, expression in LAST_RUNGS.items():
        here, published = _fraction(numbers, name), Estimate.of(numbers.evaluate(expression))
        ratios.append(here / published)
        row = {"variant": name, "label": _label(numbers, name), "published": published.value}
        rows.append(row | {"here": here.value, "kept": ratios[-1].value})
    # The last rung has tensor cores.
    bf16, (*fp32, of_bf16) = rows[-1], ratios
    carried_over = (ratio >= MIN_CARRIED_OVER for ratio in fp32)
    holds = all_of(*carried_over, of_bf16 < MIN_CARRIED_OVER).holds
    lowest, highest = estimates.smallest(fp32), estimates.largest(fp32)
    ceilings = numbers.results.machine.ceilings
    rates = [ceilings.bf16_mma_flop_per_clock_sm, ceilings.bf16_wgmma_flop_per_clock_sm]
    title = _chosen(
        holds,
        "Published fp32 kernels keep most of their fraction of cuBLAS; the 16-bit one does not",
        "Published fp32 and 16-bit kernels do not differ in what they keep of their fraction of cuBLAS",
        "Whether published fp32 and 16-bit kernels keep their fractions of cuBLAS is within noise",
    )
    sentence = (
        f"At n = {SIZE} the last fp32 rungs keep {_percent(lowest)[:-1]} to {_percent(highest)} of their published "
        f"fraction of cuBLAS. The bf16 rung has {_percent(bf16['here'])} (interleaved), published "
        f"{_percent(bf16['published'])}"
    )
    if all(rates):
        sentence += f"; loops of `mma.sync` reach {_percent(rates[0] / rates[1])} of `wgmma`'s rate"
    values: dict[str, Any] = {"n": SIZE}
    if pipe := _known(numbers, "tensor_pipe", SIZE, {"busy": bf16["variant"]}):
        busy = pipe["busy"] / 100
        sentence += f". Its tensor pipe is {_percent(busy)} busy"
        values |= {"busy": busy, "if_busy": bf16["here"] / busy}
    bars = {
        f"{row['label']}, {name}": 100 * row[key]
        for row in rows
        for key, name in (("published", "published"), ("here", "here"))
    }
    bars = _bars(f"% of cuBLAS, n = {SIZE}", bars)
    return Finding(holds, title, f"{sentence}.", values, rows, bars)


@finding("Counters and speed of each step", figure="steps", view="steps")
def steps_pay(numbers: Numbers) -> Finding:
    """Steps whose counters all moved as declared, and what the kernel gained."""
    rows = _step_outcomes(numbers.results)
    meant = [row for row in rows if row["as_meant"]]
    if not meant:
        raise Missing("no step has both counters and times")
    count = Counter(row["outcome"] for row in meant)
    values: dict[str, Any] = {"as_meant": len(meant), "within": count["within 2%"]}
    values |= {key: count[key] for key in ("faster", "slower", "undecided")}
    others = [row for row in rows if not row["as_meant"]]
    values |= {"others": len(others)}
    values |= {"others_faster": sum(row["outcome"] == "faster" for row in others)}
    idle = values["within"] + values["slower"]
    pay = Estimate.around(count["faster"], (count["faster"], count["faster"] + count["undecided"]))
    holds = (pay > HALF * len(meant)).holds if idle else False
    few = "Few steps that move their counters as meant pay"
    title = _chosen(
        holds,
        "Most steps that move their counters as meant pay, but not all",
        few if idle else "Every step that moves its counters as meant pays",
        "Whether most steps that move their counters as meant pay is within noise",
    )
    sentence = (
        f"At n = {SIZE}, {len(meant)} of {len(rows)} steps moved every counter as meant. Of these, {values['faster']} "
        f"became more than 2% faster (interleaved), {values['within']} stayed within 2%, {values['slower']} became "
        f"more than 2% slower, and {values['undecided']} are undecided. Of the other {len(others)}, "
        f"{values['others_faster']} became faster."
    )
    return Finding(holds, title, sentence, values, rows)


def _step_outcomes(results: Results) -> list[dict[str, Any]]:
    """Each step with counters and times, controls left out: speedup, whether it moved as meant, and
    its outcome.
    """
    controls = {(step.variant, step.over) for _, step in worklogs.steps() if step.control}
    table = steps_table(results)
    table = table[table["speedup"].notna()]
    rows = []
    for pair, group in table.groupby(["variant", "over"], sort=False):
        if pair in controls or (group["moved"] == "").any():
            continue
        gain = Estimate(*(float(group[f"speedup{end}"].iloc[0]) for end in ("", "_low", "_high")))
        within = gain.low >= 1 - MIN_GAIN and gain.high <= 1 + MIN_GAIN
        outcome = "within 2%" if within else "undecided"
        outcome = "slower" if gain < 1 - MIN_GAIN else outcome
        outcome = "faster" if gain > 1 + MIN_GAIN else outcome
        row = {"variant": pair[0], "over": pair[1], "changed": group["changed"].iloc[0]}
        row |= {"speedup": gain.value, "as_meant": bool((group["moved"] == "as meant").all())}
        rows.append(row | {"outcome": outcome})
    return rows


@finding(
    "Issue cycles of merged shared loads",
    figure="issue",
    view="compare",
    a="sgemm_t128x256x8_cpasync",
    b="sgemm_t128x256x8_apart",
)
def merged_loads(numbers: Numbers) -> Finding:
    """What a 128-bit load of shared memory costs where neighbouring lanes want the same words, and
    a kernel without.
    """
    loads = numbers.results.raw("ffma_issue")
    # Two warps for each scheduler keep the issue port busy. With a stride, lanes wait for banks
    # instead.
    loads = loads[(loads["beside"] == "load") & (loads["warps"] == 8) & (loads["bits"] == 128)]
    loads = loads[~loads["lanes"].str.startswith("stride")]
    if loads.empty:
        raise Missing("ffma_issue.csv has no 128-bit loads of eight warps")
    # Unmerged, a load takes four. One of three is merged in one half-warp only, and costs no more.
    merged = loads["wavefronts"] == 2
    extra = loads["extra"].astype(float)
    plain_cycles, merged_cycles = float(extra[~merged].median()), float(extra[merged].median())
    before, after = "sgemm_t128x256x8_cpasync", "sgemm_t128x256x8_apart"
    gain = numbers.speedup(after, before)
    costs = merged_cycles - plain_cycles >= MIN_COST_CYCLES
    holds = (gain > 1).holds if costs else False
    title = _chosen(
        holds,
        "A merged shared load saves wavefronts and costs issue cycles",
        "A kernel gains nothing from shared loads that are not merged",
        "Whether a kernel gains from shared loads that are not merged is within noise",
    )
    sentence = (
        f"Among FMAs an LDS.128 takes {plain_cycles:.1f} issue cycles, and {merged_cycles:.1f} with half the "
        f"wavefronts where neighbouring lanes share words. At n = {SIZE}, fp32, `{_label(numbers, after)}` has "
        f"{_percent(_fraction(numbers, after))} of cuBLAS (interleaved), `{_label(numbers, before)}` "
        f"{_percent(_fraction(numbers, before))}."
    )
    return Finding(holds, title, sentence, {"speedup": gain.value})


@finding("Clocks with zeros and with uniform inputs", figure="power")
def power(numbers: Numbers) -> Finding:
    """Clock and speed with zeros and with uniform inputs, with tensor cores and without."""
    rows = [_with_zeros(numbers, *timed) for timed in _timed_with_zeros(numbers.results)]
    tensor, plain = ([row for row in rows if row["tensor"] is kind] for kind in (True, False))
    if not tensor or not plain:
        raise Missing("no clocks with zeros, with tensor cores and without")
    example = next((row for row in tensor if row["variant"] == "cublas_bf16"), tensor[0])
    higher = [row["higher"] for row in tensor]
    rises = [100 * (row[f"clock_ratio{end}"] - 1) for row in plain for end in ("_low", "_high")]
    holds = False if False in higher else None if None in higher else True
    title = _chosen(
        holds,
        "Matrices of zeros raise the clock of tensor-core kernels",
        "Matrices of zeros do not always raise the clock of tensor-core kernels",
        "Whether matrices of zeros raise the clock of tensor-core kernels is within noise",
    )
    sentence = (
        f"At n = {example['n']} {example['label']} runs at {example['zeros_tflops']:.0f} TFLOP/s and "
        f"{example['zeros_mhz']:.0f} MHz on zeros, at {example['uniform_tflops']:.0f} TFLOP/s and "
        f"{example['uniform_mhz']:.0f} MHz on uniform inputs. On one GPU the clocks of fp32 kernels without "
        f"tensor cores differ by {min(rises):.1f} to {max(rises):.1f}%."
    )
    values = {"tensor_rows": len(tensor), "tensor_higher": higher.count(True)}
    return Finding(holds, title, sentence, values, rows)


def _timed_with_zeros(results: Results) -> list[tuple[str, int, str]]:
    """Variants, sizes and experiments with zeros and with uniform inputs; of five processes, if any
    were timed so often.
    """
    rows = results.squares
    rows = rows[(rows["clock_policy"] == "boost") & rows["data"].isin(["zeros", "uniform"])]
    often = rows[rows["processes"] >= PROCESSES]
    rows = often if "zeros" in set(often["data"]) else rows
    kinds = rows.groupby(["variant", "n", "experiment"], sort=False)["data"].nunique()
    both = kinds[kinds == 2].reset_index().drop_duplicates(["variant", "n"])
    return [(row["variant"], int(row["n"]), row["experiment"]) for row in _records(both)]


def _with_zeros(numbers: Numbers, name: str, n: int, experiment: str) -> dict[str, Any]:
    """A variant's clock and speed on zeros and on uniform inputs of one experiment, and whether its
    clock is higher on zeros, GPU by GPU.
    """

    def on(data: str, quantity: str) -> float:
        value = numbers.value(name, quantity, n=n, data=data, experiment=experiment)
        return Estimate.of(value).value

    ratio = numbers.same_gpu("sm_clock_mhz", name, n=n, data="zeros", over_data="uniform")
    tensor = bool(numbers.known[name]["tensor"])
    row = {"variant": name, "label": _label(numbers, name), "n": n, "tensor": tensor}
    row |= {"clock_ratio_low": ratio.low, "clock_ratio_high": ratio.high}
    row |= {"higher": (ratio > 1 + LEVEL_TOLERANCE).holds}
    row |= {f"{data}_mhz": on(data, "sm_clock_mhz") for data in ("zeros", "uniform")}
    row |= {f"{data}_tflops": on(data, "tflops") for data in ("zeros", "uniform")}
    return row | {"throttle_reasons": str(numbers.value(name, "throttle_reasons", n=n))}


@finding("Predicted and measured counters", figure="emulator")
def emulator(numbers: Numbers) -> Finding:
    """Counters that the emulator predicts from PTX, next to Nsight Compute's."""
    table = emulator_table(numbers.results)
    if table.empty:
        raise Missing("counters were not collected, or not predicted")
    conflicts = table[table["counter"].isin(["shared_load_conflicts", "shared_store_conflicts"])]
    pairs = int(table["pairs"].sum())
    exact, near = (int(table[key].sum()) / pairs for key in ("exact", "within_1_percent"))
    conflict_pairs, conflict_exact = (int(conflicts[key].sum()) for key in ("pairs", "exact"))
    worst = table.iloc[int(table["worst_difference"].abs().to_numpy().argmax())]
    label = worst["label"]
    title = "The emulator predicts at most half of the counter values exactly"
    if exact > HALF:
        few = conflict_exact < QUARTER * conflict_pairs
        title = "The emulator predicts most counter values exactly"
        title += ", but few bank conflicts" if few else ""
    sentence = (
        f"Of {pairs:,} values of {len(table)} counters, {_percent(exact)} are exact and {_percent(near)} lie "
        f"within 1%. {int((table['exact'] == table['pairs']).sum())} counters are exact for every kernel; bank "
        f"conflicts are in {conflict_exact} of {conflict_pairs} values."
    )
    if worst["worst_variant"]:
        sentence += (
            f" The value that is most off is that of {label[0].lower() + label[1:]} of "
            f"`{_label(numbers, worst['worst_variant'])}`, by {_percent(abs(worst['worst_difference']))}."
        )
    rows = _records(table.drop(columns=["metric"]))
    return Finding(exact > HALF, title, sentence, {"exact_fraction": exact}, rows)


# ---- all of them ---------------------------------------------------------------------------------


def on_gpu(numbers: Numbers, name: str) -> Finding:
    """A finding on one GPU. Where a table is missing, it says so: neither true nor false."""
    function, subject, _ = FINDINGS[name]
    try:
        return function(numbers)
    except Missing as missing:
        return Finding(None, f"{subject}: not measured", f"Not measured: {missing}.")


def document(gpus: Sequence[Results]) -> list[dict[str, Any]]:
    """findings.json for the results of several GPUs."""
    paper = {"published": {name: row.value for name, row in worklogs.published().items()}}
    each = [Numbers(results, paper) for results in gpus]
    rows = []
    for name, (_, _, view) in FINDINGS.items():
        on_each = []
        for results, numbers in zip(gpus, each, strict=True):
            head: dict[str, Any] = {
                "gpu": results.name,
                "model": results.model,
                "date": results.date,
            }
            head |= {"processes": results.raw("windows")["process"].nunique()}
            on_each.append(head | asdict(on_gpu(numbers, name)))
        first = {key: on_each[0][key] for key in Finding.__dataclass_fields__}
        for row in on_each:
            del row["rows"]
        shown = {"chart": view or None, "figure": FIGURES.get(name)}
        rows.append({"name": name} | shown | first | {"gpus": on_each})
    return rows


# ---- words and values ----------------------------------------------------------------------------


def _chosen(holds: bool | None, yes: str, no: str, noise: str) -> str:
    return noise if holds is None else yes if holds else no


def _value(numbers: Numbers, variant: str, quantity: str, n: int = SIZE) -> float:
    return Estimate.of(numbers.value(variant, quantity, n=n)).value


def _fraction(numbers: Numbers, variant: str, n: int = SIZE) -> Estimate:
    return Estimate.of(numbers.value(variant, "fraction", n=n))


def _known(numbers: Numbers, quantity: str, n: int, variants: dict[str, str]) -> dict[str, float]:
    """Return the values of those variants that were measured, by the variants' keys."""
    values = {}
    for key, variant in variants.items():
        with contextlib.suppress(Missing):
            values[key] = _value(numbers, variant, quantity, n)
    return values


def _bars(unit: str, values: Mapping[str, float]) -> dict[str, Any]:
    return {"unit": unit, "rows": [list(row) for row in values.items()]}


def _label(numbers: Numbers, variant: str) -> str:
    return str(numbers.known[variant]["label"])


def _percent(fraction: Estimate | float) -> str:
    return f"{100 * (fraction.value if isinstance(fraction, Estimate) else fraction):.0f}%"


def _millions(count: float) -> str:
    return f"{estimates.number(count / 1e6)} M"


def _listed(values: Iterable[Any]) -> str:
    texts = [str(value) for value in values]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def _records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain values, with None for empty cells."""
    values: list[dict[str, Any]] = json.loads(rows.to_json(orient="records", double_precision=10))
    return values


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `findings`."""
    parser.add_argument("--out", required=True, type=Path, metavar="FILE.json")


def run(args: argparse.Namespace) -> None:
    """Write findings.json of the folders that the options name; the first leads."""
    rows = document(list(several(args).values()))
    write_text(args.out, json.dumps(rows, indent=1, allow_nan=False) + "\n")
