"""What the measurements show: at most ten findings, each tested on every GPU that has an archive.

    python -m analysis findings --out results/tables/findings.json

A finding is a function of `FINDINGS`. It says whether it holds on a GPU, in a title that is true as
it stands and in one or two sentences with its numbers. They do not name the GPU: README, paper and
explorer put it before them. Fractions of cuBLAS are interleaved. `holds` is None where the
intervals leave it undecided (within noise), and where a table is missing. findings.json is a list
of {name, title, holds, sentence, numbers, rows, chart, gpus}: the first GPU's own, and in `gpus` those of
each GPU, with gpu, model, date and processes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
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

WRONG = Path("paper/worklogs/sgemm_cu/xor_double_buffer.csv")  # of the study xor_double_buffer
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")
LEVEL = 0.02  # of cuBLAS: its own interleaved fraction of itself stays within this
PAYS = 0.02  # of the speed: what a step gains beyond is worth its code
REMOVED = 0.9  # of its conflicts: a step that removes so many has done what it set out to do
MANY_CONFLICTS = 10e6  # at n = 4096, about a fifth of those of the simplest tiled kernel
LARGE = 2048  # from this n on, 128 x 128 tiles occupy every SM of these GPUs
KEPT = 0.8  # of a published fraction of cuBLAS: "most of it"
LONG = 256  # of k: shorter sums show the rounding of the split, not of the sums
COSTS = 1.0  # issue cycle, of one more instruction
MOST, FEW = 0.5, 0.25  # more than half; less than a quarter

LAST_RUNGS = {  # of each ladder, with the fraction of cuBLAS that its text publishes
    "sgemm_warptile": "published('boehm_sgemm/final-share') / 100",
    "sgemm_at_swizzle_dbf_rw": "published('wingedge_sgemm/cublas-time') / published('wingedge_sgemm/dbf-time')",
    "sgemm_t128x128x8": "1 + (published('sgemm_cu/lead-low') + published('sgemm_cu/lead-high')) / 200",
    "hgemm_bcf_dbf_rw_bf16": "published('wingedge_hgemm/cublas-time') / published('wingedge_hgemm/rw-time')",
}


@dataclass(frozen=True)
class Finding:
    """A finding on one GPU. numbers: plain values by name, fractions of one. rows: what a table or
    figure shows.
    """

    holds: bool | None
    title: str
    sentence: str
    numbers: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)


# ---- correctness ---------------------------------------------------------------------------------


def silently_wrong(numbers: Numbers) -> Finding:
    """The double buffer of a published SGEMM, which an XOR of a shared-memory address switches."""
    runs = _runs_of_xor(numbers.results)
    published = runs[(runs["xor_of"] == "address") & (runs["n"] == runs["n"].min())]
    own, emulated = published.iloc[0], published[published["device"] == "ptxsim"].iloc[0]
    tools = published[published["tool"].isin(SANITIZERS)]
    measured, wrong = own["device"] != "ptxsim", int(own["wrong"])
    silent = list(tools.loc[tools["faults"] == 0, "tool"])
    repaired_wrong = int(runs.loc[runs["xor_of"] == "offset", "wrong"].max())
    holds = wrong > 0 and repaired_wrong == 0 and len(silent) == len(tools)
    found = (
        "silently wrong on Hopper"
        if holds
        else "wrong, but not silently"
        if wrong
        else "right on this GPU"
    )
    title = f"The double buffer of a published SGEMM is {found}"
    sentence = "" if measured else f"Emulated for {own['arch']}: "
    sentence += f"rebuilt, the double buffer of sgemm.cu's 128x128x8 gets {wrong:,} of {int(own['elements']):,} fp32 "
    sentence += f"elements wrong at n = {own['n']}."
    if silent:
        sentence += f" NVIDIA's {_listed(silent)} report nothing."
    if int(emulated["faults"]):
        sentence += " The emulator names the faulty line."
    sentence = sentence[0].upper() + sentence[1:]
    values = {"arch": own["arch"], "measured": bool(measured), "fault": emulated["fault"]}
    values |= {"misplaced_fraction": misplaced_fraction(1024 if wrong else 0)}
    return Finding(holds, title, sentence, values, _records(runs))


def _runs_of_xor(results: Results) -> pd.DataFrame:
    """Runs of the study on this GPU, then those of the emulator for its architecture."""
    runs = pd.read_csv(WRONG, keep_default_na=False)
    lacking = {
        "device",
        "tool",
        "arch",
        "xor_of",
        "n",
        "wrong",
        "elements",
        "faults",
        "fault",
    } - set(runs.columns)
    if lacking:
        raise UserError(
            f"{WRONG}: no column {min(lacking)}; python -m experiments.studies xor_double_buffer has it"
        )
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


# ---- counters and what follows from them ---------------------------------------------------------


def conflicts_moved(numbers: Numbers) -> Finding:
    """A swizzle of the stores alone, which moves bank conflicts to the loads; and what holds over
    all steps.
    """
    before, after = pair = ("sgemm_at_tiling", "sgemm_at_swizzle_stores")
    stores, total = (
        [_value(numbers, name, f"shared_{key}") for name in pair]
        for key in ("store_conflicts", "conflicts")
    )
    instructions, ipc = (
        [_value(numbers, name, key) for name in pair] for key in ("instructions", "ipc_active")
    )
    fractions = [_fraction(numbers, name) for name in pair]
    gain = numbers.speedup(after, before)
    steps = _conflict_steps(numbers)
    fewer, more = (
        [row for row in steps if sign * row["conflicts"] >= MANY_CONFLICTS] for sign in (-1, 1)
    )
    removed = 1 - stores[1] / stores[0]
    labels = [_label(numbers, name) for name in pair]
    holds = (gain < 1).holds if removed >= REMOVED and total[1] > total[0] else False
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
    values |= {"steps_more_slower": len(slower)}
    values |= {"slower_with_more_instructions": sum(row["instructions"] > 1 for row in slower)}
    faster = [row for row in more if row["faster"] is True]
    values |= {"steps_more_faster": len(faster)}
    values |= {"faster_with_fewer_instructions": sum(row["instructions"] < 1 for row in faster)}
    values |= {"l1": [_value(numbers, name, "l1_throughput") / 100 for name in pair]}
    return Finding(holds, title, sentence, values, fewer + more)


def _conflict_steps(numbers: Numbers) -> list[dict[str, Any]]:
    """Each step with known conflicts and speed: by how many conflicts changed, how many times the
    instructions it executes, and whether it is faster.
    """
    found = []
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
        row = {
            "variant": step.variant,
            "over": step.over,
            "conflicts": after - before,
            "instructions": executed[1] / executed[0],
            "speedup": gain.value,
        }
        found.append(row | {"faster": (gain > 1).holds})
    return found


def steps_pay(numbers: Numbers) -> Finding:
    """Steps whose counters all moved as declared, and what the kernel gained."""
    rows = _step_outcomes(numbers.results)
    meant = [row for row in rows if row["as_meant"]]
    if not meant:
        raise Missing("no step has both counters and times")
    count = Counter(row["outcome"] for row in meant)
    values: dict[str, Any] = {"as_meant": len(meant), "within": count["within 2%"]}
    values |= {key: count[key] for key in ("faster", "slower", "undecided")}
    idle = values["within"] + values["slower"]
    pay = Estimate.around(count["faster"], (count["faster"], count["faster"] + count["undecided"]))
    holds = (pay > MOST * len(meant)).holds if idle else False
    title = _chosen(
        holds,
        "Most steps that move their counters as meant pay, but not all",
        "Few steps that move their counters as meant pay"
        if idle
        else "Every step that moves its counters as meant pays",
        "Whether most steps that move their counters as meant pay is within noise",
    )
    others = [row for row in rows if not row["as_meant"]]
    values |= {"others": len(others), "others_faster": 0}
    values["others_faster"] = sum(row["outcome"] == "faster" for row in others)
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
        within = gain.low >= 1 - PAYS and gain.high <= 1 + PAYS
        outcome = (
            "faster"
            if gain > 1 + PAYS
            else "slower"
            if gain < 1 - PAYS
            else "within 2%"
            if within
            else "undecided"
        )
        row = {
            "variant": pair[0],
            "over": pair[1],
            "changed": group["changed"].iloc[0],
            "speedup": gain.value,
        }
        rows.append(
            row | {"as_meant": bool((group["moved"] == "as meant").all()), "outcome": outcome}
        )
    return rows


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
    # of four; a load of three is merged in one half-warp only, and costs no more
    merged = loads["wavefronts"] == 2
    extra = loads["extra"].astype(float)
    plain_cycles, merged_cycles = float(extra[~merged].median()), float(extra[merged].median())
    before, after = "sgemm_t128x256x8_cpasync", "sgemm_t128x256x8_apart"
    gain = numbers.speedup(after, before)
    holds = (gain > 1).holds if merged_cycles - plain_cycles >= COSTS else False
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


def emulator(numbers: Numbers) -> Finding:
    """Counters that the emulator predicts from PTX, next to Nsight Compute's."""
    table = emulator_table(numbers.results)
    if table.empty:
        raise Missing("counters were not collected, or not predicted")
    conflicts = table[table["counter"].isin(["shared_load_conflicts", "shared_store_conflicts"])]
    pairs, exact_pairs, near_pairs = (
        int(table[key].sum()) for key in ("pairs", "exact", "within_1_percent")
    )
    conflict_pairs, conflict_exact = (int(conflicts[key].sum()) for key in ("pairs", "exact"))
    exact, near = exact_pairs / pairs, near_pairs / pairs
    few = conflict_exact < FEW * conflict_pairs
    worst = table.iloc[int(table["worst_difference"].abs().to_numpy().argmax())]
    title = "The emulator predicts most counter values exactly" + (
        ", but few bank conflicts" if few else ""
    )
    title = (
        title
        if exact > MOST
        else "The emulator predicts at most half of the counter values exactly"
    )
    sentence = (
        f"Of {pairs:,} values of {len(table)} counters, {_percent(exact)} are exact and {_percent(near)} lie "
        f"within 1%. {int((table['exact'] == table['pairs']).sum())} counters are exact for every kernel; bank "
        f"conflicts are in {conflict_exact} of {conflict_pairs} values. The value that is most off is that of "
        f"{worst['label'][0].lower() + worst['label'][1:]} of `{_label(numbers, worst['worst_variant'])}`, by "
        f"{_percent(abs(worst['worst_difference']))}."
    )
    rows = _records(table.drop(columns=["metric"]))
    return Finding(exact > MOST, title, sentence, {"exact_fraction": exact}, rows)


# ---- speed ---------------------------------------------------------------------------------------


def hopper_level(numbers: Numbers) -> Finding:
    """The better of TMA store and stream-K for each size and 16-bit type, next to ping-pong."""
    sizes, best, rows = (2048, 4096, 8192, 16384), {}, []
    for dtype in ("bf16", "fp16"):
        for n in sizes:
            kinds = ("store", "streamk", "pingpong")
            own = {kind: _fraction(numbers, f"hgemm_wgmma_{kind}_{dtype}", n) for kind in kinds}
            best[dtype, n] = estimates.greatest((own["store"], own["streamk"]))
            rows.append({"dtype": dtype, "n": n} | {kind: one.value for kind, one in own.items()})
    level = all_of(*(one >= 1 - LEVEL for (_, n), one in best.items() if n >= 4096)).holds
    pingpong = {n: _fraction(numbers, "hgemm_wgmma_pingpong_bf16", n) for n in sizes}
    behind = all_of(*(pingpong[n] < 1 - LEVEL for n in (8192, 16384))).holds
    counted = {
        key: (f"hgemm_wgmma_{kind}_bf16", quantity, 16384)
        for key, kind, quantity in (
            ("gb", "pingpong", "dram_bytes"),
            ("other_gb", "streamk", "dram_bytes"),
            ("rate", "pingpong", "dram_gb_per_s"),
        )
    }
    moved = _known(numbers, counted)
    copy = numbers.results.machine.ceilings.dram_copy_gb_per_s
    values = {"behind": behind} | _known(
        numbers,
        {
            "wide": ("hgemm_wgmma_pingpong_wide_bf16", "fraction", 8192),
            "wide_synchronised": ("hgemm_wgmma_pingpong_in_step_bf16", "fraction", 8192),
            "tf32": ("tf32gemm_wgmma_bcol", "fraction", 8192),
            "tf32_synchronised": ("tf32gemm_wgmma_bcol_in_step", "fraction", 8192),
        },
    )
    title = _chosen(
        level,
        "In 16 bits the better of stream-K and TMA stores matches cuBLAS at n = 4096, 8192 and 16384"
        + ("; ping-pong falls behind" if behind else ""),
        "In 16 bits stream-K and TMA stores fall short of cuBLAS at some n from 4096 on",
        "Whether the better of stream-K and TMA stores matches cuBLAS in 16 bits is within noise",
    )
    reached = [100 * best["bf16", n].value for n in sizes]
    sentence = f"In bf16 the better of the two has {min(reached):.1f} to {max(reached):.1f}% of cuBLAS (interleaved) "
    sentence += (
        f"at n = {_listed(sizes)}. At {sizes[-1]} ping-pong has {_percent(pingpong[sizes[-1]])}"
    )
    if len(moved) == len(counted):
        gb = [moved[key] / 1e9 for key in ("gb", "other_gb")]
        sentence += f" and moves {gb[0]:.0f} GB to and from DRAM, stream-K {gb[1]:.0f} GB. Its "
        sentence += f"{moved['rate'] / 1e3:.2f} TB/s are {_percent(moved['rate'] / copy)} of the rate of a copy"
    return Finding(level, title, f"{sentence}.", values, rows)


def fp32_simt(numbers: Numbers) -> Finding:
    """fp32 kernels without tensor cores next to cuBLAS, at squares."""
    best = _fastest_simt(numbers)
    name = Counter(name for name, _ in best.values()).most_common(1)[0][0]
    own = {n: _fraction(numbers, name, n) for n in numbers.sizes(name)}
    last_behind = max((n for n, one in own.items() if not one > 1), default=0)
    # below LARGE the library's own time depends on which kernel runs next to it
    first = next((n for n in sorted(own) if n > last_behind and n >= LARGE), None)
    undecided = any((one > 1).holds is None for n, one in own.items() if n >= LARGE)
    holds = True if first is not None and first <= LARGE else None if undecided else False
    label, large = _label(numbers, name), [n for n in own if n >= (first or LARGE)]
    fractions = [own[n].value for n in large]
    title = _chosen(
        holds,
        f"Without tensor cores `{label}` passes cuBLAS fp32 at {len(large)} squares from n = {first} to {max(own)}",
        f"Without tensor cores `{label}` does not pass cuBLAS fp32 at every large square that it ran on",
        f"Whether `{label}` passes cuBLAS fp32 at every large square is within noise",
    )
    sentence = f"`{label}` has {_percent(min(fractions))[:-1]} to {_percent(max(fractions))} of cuBLAS fp32 "
    sentence += f"(interleaved) at n = {_listed(large)}"
    for n in (n for n in own if n < min(large)):
        alone = _value(numbers, "cublas_fp32", "time_us", n) / _value(numbers, name, "time_us", n)
        sentence += f". At {n} it has {_percent(own[n])} of the library beside it, and {_percent(alone)} of the "
        sentence += "library beside itself"
    rows = [{"n": n, "variant": name, "fraction": one.value} for n, (name, one) in best.items()]
    return Finding(holds, title, f"{sentence}.", {"label": label, "from_n": first}, rows)


def _fastest_simt(numbers: Numbers) -> dict[int, tuple[str, Estimate]]:
    """The fastest fp32 kernel without tensor cores at each size of sgemm_sizes, with its fraction
    of cuBLAS.
    """
    rows = numbers.results.squares
    rows = rows[
        (rows["experiment"] == "sgemm_sizes")
        & (rows["kind"] == "kernel")
        & (rows["dtype"] == "fp32")
    ]
    rows = rows[(rows["data"] == "uniform") & (rows["clock_policy"] == "boost")]
    rows = rows[~rows["tensor"].astype(bool)]
    if rows.empty:
        raise Missing("sgemm_sizes was not measured")
    rows = rows.loc[rows.groupby("n")["fraction"].idxmax()].sort_values("n")
    return {
        int(row["n"]): (row["variant"], _fraction(numbers, row["variant"], int(row["n"])))
        for row in _records(rows)
    }


def three_tf32(numbers: Numbers) -> Finding:
    """Three TF32 products for one of fp32: how fast, and how exact."""
    name = "sgemm_3xtf32_wgmma_outside"
    fractions = {
        n: _fraction(numbers, name, n) for n in numbers.sizes(name, experiment="fp32_tensor")
    }
    errors = numbers.results.table("error_over_k")
    rms = errors[errors["device"] == "gpu"].pivot_table("rms", ["data", "k"], "variant")
    if not {name, "cublas_fp32"} <= set(rms.columns):
        raise Missing("error_over_k.csv lacks 3xTF32 or cuBLAS on this GPU")
    ratio = (rms[name] / rms["cublas_fp32"]).rename("ratio").reset_index()
    # exponents over sixty powers of two, where few products make a sum
    wide = ratio["data"] == "wide"
    ordinary = ratio.loc[~wide & (ratio["k"] >= LONG), "ratio"]
    large = [one.value for n, one in fractions.items() if n >= LARGE]
    least = min(one.value for one in fractions.values())
    label = _label(numbers, name)
    faster = all_of(*(one > 1 for n, one in fractions.items() if n >= LARGE)).holds
    exact = bool((ordinary <= 1).all())
    holds = False if faster and not exact else faster
    title = _chosen(
        holds,
        f"At n >= {LARGE} three TF32 products replace one of fp32: "
        "faster, and for long sums more exact on ordinary data",
        f"At n >= {LARGE} three TF32 products are "
        + (
            "faster than cuBLAS fp32, but less exact"
            if faster
            else "not always faster than cuBLAS fp32"
        ),
        f"Whether three TF32 products are faster than cuBLAS fp32 at n >= {LARGE} is within noise",
    )
    small = "".join(
        f", and {one.value:.2f} times at {n}" for n, one in fractions.items() if n < LARGE
    )
    sentence = (
        f"`{label}` is {min(large):.1f} to {max(large):.1f} times as fast as cuBLAS fp32 (interleaved) from n = "
        f"{LARGE} to {max(fractions)}{small}. From k = {LONG} on it has {ordinary.min():.2f} to {ordinary.max():.2f} "
        f"of cuBLAS's RMS error on {_listed(sorted(set(ratio.loc[~wide, 'data'])))} inputs."
    )
    behind = ratio.loc[wide & (ratio["ratio"] > 1), "k"]
    values: dict[str, Any] = {"label": label, "least_fraction": least}
    values |= {"greatest_error_ratio": float(ordinary.max())}
    values |= {"wide_error_ratio": float(ratio.loc[wide, "ratio"].max())}
    values |= {"wide_behind_k": [int(k) for k in behind]}
    return Finding(holds, title, sentence, values, _records(ratio))


def fp32_ladder_carries_over(numbers: Numbers) -> Finding:
    """The last rung of each ladder: the fraction of cuBLAS that its text publishes, and the one
    here.
    """
    rows: list[dict[str, Any]] = []
    kept = {}
    for name, expression in LAST_RUNGS.items():
        here, published = _fraction(numbers, name), Estimate.of(numbers.evaluate(expression))
        kept[name] = here / published
        row = {
            "variant": name,
            "label": _label(numbers, name),
            "published": published.value,
            "here": here.value,
        }
        rows.append(row | {"kept": kept[name].value})
    half, plain = rows[-1], list(kept.values())[:-1]  # the last one has tensor cores
    holds = all_of(*(one >= KEPT for one in plain), kept[half["variant"]] < KEPT).holds
    least, most = estimates.least(plain), estimates.greatest(plain)
    rates = [
        getattr(numbers.results.machine.ceilings, f"bf16_{kind}_flop_per_clock_sm")
        for kind in ("mma", "wgmma")
    ]
    title = _chosen(
        holds,
        "Published fp32 kernels keep most of their fraction of cuBLAS; the 16-bit one does not",
        "Published fp32 and 16-bit kernels do not differ in what they keep of their fraction of cuBLAS",
        "Whether published fp32 and 16-bit kernels keep their fractions of cuBLAS is within noise",
    )
    sentence = (
        f"At n = {SIZE} the last fp32 rungs keep {_percent(least)[:-1]} to {_percent(most)} of their published "
        f"fraction of cuBLAS. The bf16 rung has {_percent(half['here'])} (interleaved), published "
        f"{_percent(half['published'])}"
    )
    if all(rates):
        sentence += f"; loops of `mma.sync` reach {_percent(rates[0] / rates[1])} of `wgmma`'s rate"
    values: dict[str, Any] = {"n": SIZE}
    if pipe := _known(numbers, {"busy": (half["variant"], "tensor_pipe", SIZE)}):
        busy = pipe["busy"] / 100
        sentence += f". Its tensor pipe is {_percent(busy)} busy"
        values |= {"busy": busy, "if_busy": half["here"] / busy}
    return Finding(holds, title, f"{sentence}.", values, rows)


def power(numbers: Numbers) -> Finding:
    """Clock and speed with zeros and with uniform inputs, with tensor cores and without."""
    rows = [_with_zeros(numbers, *timed) for timed in _timed_with_zeros(numbers.results)]
    tensor, plain = ([row for row in rows if row["tensor"] is kind] for kind in (True, False))
    if not tensor or not plain:
        raise Missing("no clocks with zeros, with tensor cores and without")
    shown = next((row for row in tensor if row["variant"] == "cublas_bf16"), tensor[0])
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
        f"At n = {shown['n']} {shown['label']} runs at {shown['zeros_tflops']:.0f} TFLOP/s and "
        f"{shown['zeros_mhz']:.0f} MHz on zeros, at {shown['uniform_tflops']:.0f} TFLOP/s and "
        f"{shown['uniform_mhz']:.0f} MHz on uniform inputs. On one GPU the clocks of fp32 kernels without tensor cores "
        f"differ by {min(rises):.1f} to {max(rises):.1f}%."
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
    kinds = (
        (often if "zeros" in set(often["data"]) else rows)
        .groupby(["variant", "n", "experiment"], sort=False)["data"]
        .nunique()
    )
    both = kinds[kinds == 2].reset_index().drop_duplicates(["variant", "n"])
    return [(str(row["variant"]), int(row["n"]), str(row["experiment"])) for row in _records(both)]


def _with_zeros(numbers: Numbers, name: str, n: int, experiment: str) -> dict[str, Any]:
    """A variant's clock and speed on zeros and on uniform inputs of one experiment, and whether its
    clock is higher on zeros, GPU by GPU.
    """
    ratio = numbers.same_gpu("sm_clock_mhz", name, n=n, data="zeros", over_data="uniform")
    row = {
        "variant": name,
        "label": _label(numbers, name),
        "n": n,
        "tensor": bool(numbers.known[name]["tensor"]),
    }
    row |= {
        "clock_ratio": ratio.value,
        "clock_ratio_low": ratio.low,
        "clock_ratio_high": ratio.high,
    }
    row |= {"higher": (ratio > 1 + LEVEL).holds}
    for data, (key, quantity) in itertools.product(
        ("zeros", "uniform"), (("mhz", "sm_clock_mhz"), ("tflops", "tflops"))
    ):
        of = Estimate.of(numbers.value(name, quantity, n=n, data=data, experiment=experiment))
        row[f"{data}_{key}"] = of.value
    return row | {"throttle_reasons": str(numbers.value(name, "throttle_reasons", n=n))}


# ---- all of them ---------------------------------------------------------------------------------

# By name: the function, its subject (a title where nothing was measured), and the state of the explorer's view
# that shows it, where one does.
FINDINGS: dict[str, tuple[Callable[[Numbers], Finding], str, dict[str, Any] | None]] = {
    "silently_wrong": (silently_wrong, "The double buffer of a published SGEMM on this GPU", None),
    "hopper_level": (
        hopper_level,
        "Hopper kernels next to cuBLAS",
        {"view": "ladder", "ladder": "hopper_ladder.bf16", "n": 8192},
    ),
    "conflicts_moved": (
        conflicts_moved,
        "Bank conflicts of a swizzle of the stores",
        {"view": "compare", "a": "sgemm_at_tiling", "b": "sgemm_at_swizzle_stores"},
    ),
    "fp32_simt": (
        fp32_simt,
        "fp32 without tensor cores next to cuBLAS",
        {
            "view": "sizes",
            "dtype": "fp32",
            "draw": "sgemm_tma_streamk,sgemm_t128x256x8_cpasync,cublas_fp32",
        },
    ),
    "three_tf32": (
        three_tf32,
        "Three TF32 products next to cuBLAS fp32",
        {"view": "ladder", "ladder": "fp32_tensor.fp32"},
    ),
    "fp32_ladder_carries_over": (
        fp32_ladder_carries_over,
        "Published fractions of cuBLAS on this GPU",
        {"view": "ladder", "ladder": "sgemm_ladder.fp32"},
    ),
    "steps_pay": (
        steps_pay,
        "Counters and speed of each step",
        {"view": "ladder", "ladder": "sgemm_ladder.fp32"},
    ),
    "merged_loads": (
        merged_loads,
        "Issue cycles of merged shared loads",
        {"view": "compare", "a": "sgemm_t128x256x8_cpasync", "b": "sgemm_t128x256x8_apart"},
    ),
    "power": (
        power,
        "Clocks with zeros and with uniform inputs",
        {"view": "sizes", "q": "power_w", "dtype": "bf16"},
    ),
    "emulator": (emulator, "Predicted and measured counters", None),
}


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
    found = []
    for name in FINDINGS:
        on = [asdict(on_gpu(numbers, name)) for numbers in each]
        columns = [
            {key: own[key] for key in ("holds", "title", "sentence", "numbers")} for own in on
        ]
        heads = [
            {
                "gpu": one.name,
                "model": one.model,
                "date": one.date,
                "processes": one.raw("windows").process.nunique(),
            }
            for one in gpus
        ]
        found.append(
            {"name": name, "chart": FINDINGS[name][2]}
            | on[0]
            | {"gpus": [head | own for head, own in zip(heads, columns, strict=True)]}
        )
    return found


# ---- words and values ----------------------------------------------------------------------------


def _chosen(holds: bool | None, yes: str, no: str, noise: str) -> str:
    return noise if holds is None else yes if holds else no


def _value(numbers: Numbers, variant: str, quantity: str, n: int = SIZE) -> float:
    return Estimate.of(numbers.value(variant, quantity, n=n)).value


def _fraction(numbers: Numbers, variant: str, n: int = SIZE) -> Estimate:
    return Estimate.of(numbers.value(variant, "fraction", n=n))


def _known(numbers: Numbers, wanted: dict[str, tuple[str, str, int]]) -> dict[str, float]:
    """Those values that were measured."""
    found = {}
    for key, (variant, quantity, n) in wanted.items():
        try:
            found[key] = _value(numbers, variant, quantity, n)
        except Missing:
            continue
    return found


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
    found: list[dict[str, Any]] = json.loads(rows.to_json(orient="records", double_precision=10))
    return found


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `findings`."""
    parser.add_argument("--out", required=True, type=Path, metavar="FILE.json")


def run(args: argparse.Namespace) -> None:
    """Write findings.json of the folders that the options name; the first leads."""
    found = document(list(several(args).values()))
    write_text(args.out, json.dumps(found, indent=1, allow_nan=False) + "\n")
