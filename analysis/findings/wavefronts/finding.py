"""Wavefronts of cp.async by the length of the rows that it copies from, and of stores by the number of warps."""

from __future__ import annotations

import pandas as pd

from analysis.findings.sources import Row, Sources, Statement
from analysis.quantities.machine import Missing, rows_of

BASE = 3  # wavefronts that a cp.async has before it writes anything


def compute(of: Sources) -> Statement:
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
            described = {"kernel": row["kernel"], "source": row["source"], "warps": int(row["warps"])}
            excess = 100 * (float(row["store_wavefronts"]) / float(row["stores_need"]) - 1)
            between.append(
                {"part": "warps", **described, "blocks": int(row["blocks_per_sm"]), "excess_percent": excess}
            )
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
    if all(of.has(name, *keys) for name in pair):
        each = [of.get(name, keys[0]) / of.get(name, keys[1]) for name in pair]
        numbers |= {"kernel_plain": each[0], "kernel_swizzled": each[1]}
    return Statement(
        holds=numbers["swizzle_most_extra"] == 0
        and short["plain"] > long["plain"]
        and max(alone) < 0.1
        and worst["excess_percent"] > 1,
        summary=f"A warp's `cp.async` of 16 bytes a lane takes {short['plain']:.0f} wavefronts from rows of "
        f"{short['bytes']} bytes and {long['plain']:.0f} from rows of {numbers['long_bytes']} or more, with a swizzle "
        f"or without. When other warps run, stores take up to {numbers['worst_percent']:.0f}% more wavefronts than the "
        "addresses of their own warp need.",
        numbers=numbers,
        rows=rows,
    )
