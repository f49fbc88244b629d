"""Measured tables, with what may not be shown taken out and what is out of date marked.

Functions on DataFrames are pure; only `write_csv` and `metric_names` touch files. `analysis.inputs` reads tables.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

import contracts
from contracts import atomic_write, load_yaml, schema
from contracts.registry import legs

DAGGER = "†"  # stands at every label whose rows are stale


@dataclass(frozen=True)
class Measured:
    """One machine's measurements, ready to draw.

    `bench`, `timed` and `counters` hold only rows of variants that are in the catalogue and passed every check: `timed`
    of all problems, the others of plain squares (see `squares`). `checks` holds all cases of variants in the catalogue.
    Each has the variant's label, kind, family and order joined, and `stale`.
    """

    machine: dict[str, Any]
    provenance: dict[str, Any]
    variants: pd.DataFrame
    bench: pd.DataFrame
    timed: pd.DataFrame
    checks: pd.DataFrame
    counters: pd.DataFrame
    failed: pd.DataFrame
    gone: list[str]
    archived: bool
    emulated_here: bool

    @property
    def origin(self) -> str:
        """Where the numbers come from, as every figure shows it: "archived: NVIDIA H200, 2026-11-20"."""
        kind = "archived" if self.archived else "measured"
        return f"{kind}: {self.provenance['gpu']}, {self.provenance['date']}"

    def reason(self, stage: str) -> str | None:
        """Why a stage (of `contracts.registry.legs`) was left out, or None where provenance.json has no reason."""
        return left_out(self.provenance).get(stage)

    def untimed(self, experiment: str) -> str | None:
        """Why an experiment has no timings; where others have some, how to get them."""
        hint = f"snakemake --cores 1 {experiment} measures it where there is a GPU." if len(self.bench) else None
        return self.reason("bench") or hint


def records(table: pd.DataFrame) -> Iterator[Any]:
    """The rows, each with the columns as attributes; of which types they are is the schema's to say."""
    return iter(table.itertuples())


def write_csv(path: Path, rows: pd.DataFrame, digits: int = 6) -> None:
    """A table, whole; truth as true and false, nothing as an empty cell, floats to so many significant digits."""
    truths = [str(name) for name in rows if rows[name].dtype == bool]
    flags: dict[str, Any] = {name: rows[name].map({True: "true", False: "false"}) for name in truths}
    with atomic_write(path) as temporary:
        rows.assign(**flags).to_csv(temporary, index=False, float_format=f"%.{digits}g", lineterminator="\n")


def table(rows: list[dict[str, Any]], name: str) -> pd.DataFrame:
    """Rows as a DataFrame with every column of the schema, also where there are no rows."""
    return pd.DataFrame(rows, columns=list(schema(name)["properties"]))


def are_squares(rows: pd.DataFrame) -> pd.Series:
    """Whether each row is of a plain square: m = n = k and, where a table has alpha and beta, 1 and 0."""
    plain = (rows["m"] == rows["n"]) & (rows["n"] == rows["k"])
    for column, value in (("alpha", 1.0), ("beta", 0.0)):
        if column in rows:
            plain &= rows[column] == value
    return plain


def squares(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of plain squares."""
    return rows[are_squares(rows)].reset_index(drop=True)


def with_hashes_of_today(rows: list[dict[str, Any]], same_code: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Archived rows; those of a kernel whose source changed, but not its machine code, with the source_hash that it
    has now, so that they are not stale. `same_code`: rows of the archive's same_code.csv."""
    today = {(row["variant"], row["measured_hash"]): row["source_hash"] for row in same_code}
    keys = [(row.get("variant"), row.get("source_hash")) for row in rows]
    return [row | {"source_hash": today[key]} if key in today else row for key, row in zip(keys, rows, strict=True)]


def as_tuned_by(archive: str, variants: pd.DataFrame) -> pd.DataFrame:
    """Rows of variants.csv with the hashes that the sweeps of this archive give them, where they differ."""
    hashes = variants["archived_hashes"].astype("string")
    own = hashes.str.extract(rf"(?:^| ){re.escape(archive)}=(\S+)", expand=False)
    return variants.assign(source_hash=own.fillna(variants["source_hash"]))


def with_labels(variants: pd.DataFrame) -> pd.DataFrame:
    """The catalogue with `order` (its own), and labels that are unique: two of one label get their dtype, too."""
    variants = variants.assign(order=range(len(variants)))
    for extended in (variants["label"] + " " + variants["dtype"], variants["variant"]):
        clash = variants["label"].duplicated(keep=False)
        variants = variants.assign(label=variants["label"].where(~clash, extended))
    return variants


def describe(rows: pd.DataFrame, variants: pd.DataFrame) -> pd.DataFrame:
    """Rows of variants in the catalogue, in its order, with label, kind, family, order, tensor and `stale`
    joined.

    A row is stale where its source_hash is not the one that the catalogue has now.
    """
    columns = ["variant", "label", "kind", "family", "order", "tensor", "source_hash"]
    if "dtype" not in rows:
        columns.append("dtype")
    now = variants[columns].rename(columns={"source_hash": "source_hash_now"})
    joined = rows.merge(now, on="variant", how="inner")
    joined["stale"] = joined["source_hash"] != joined.pop("source_hash_now")
    return joined.sort_values("order", kind="stable").reset_index(drop=True)


def failures(checks: pd.DataFrame, variants: pd.DataFrame) -> pd.DataFrame:
    """One row per variant of the catalogue with a failed check on any device.

    Columns: variant, label, cases, failed, case, detail; `case` and `detail` tell of the first failure.
    """
    columns = ["variant", "label", "cases", "failed", "case", "detail"]
    bad = checks[~checks["passed"].astype(bool)]
    cases, failed = checks["variant"].value_counts(), bad["variant"].value_counts()
    found = []
    for entry in records(variants[variants["variant"].isin(bad["variant"])]):
        first = bad[bad["variant"] == entry.variant].iloc[0]
        counts = [cases[entry.variant], failed[entry.variant]]
        found.append([entry.variant, entry.label, *counts, first["case"], first["detail"] or ""])
    return pd.DataFrame(found, columns=columns)


def marked(rows: pd.DataFrame) -> pd.Series:
    """The labels of rows, with a dagger at stale ones."""
    labels = [f"{label}{DAGGER if stale else ''}" for label, stale in zip(rows["label"], rows["stale"], strict=True)]
    return pd.Series(labels, index=rows.index, dtype=object)


def current(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The rows that are not stale, and the labels of those left without any; for what draws only what is so now."""
    stale = rows["stale"].astype(bool)
    kept = rows[~stale]
    return kept, [label for label in rows.loc[stale, "label"].unique() if label not in set(kept["label"])]


def stale_variants(*tables: pd.DataFrame) -> list[str]:
    """Names of variants with at least one stale row in any of the tables."""
    return sorted(set().union(*(rows.loc[rows["stale"].astype(bool), "variant"] for rows in tables)))


def left_out(provenance: dict[str, Any]) -> dict[str, str]:
    """Reasons why stages were left out, by the longest stage that a key contains; else the key stays as it is."""
    stages = sorted(legs(), key=len, reverse=True)
    reasons = provenance.get("left_out", {}).items()
    return {next((stage for stage in stages if stage in name.lower()), name): reason for name, reason in reasons}


def ladder_sizes(rows: pd.DataFrame, count: int) -> list[int]:
    """The sizes at which most variants of the ladders were timed, so many of them, ascending; of any experiment where
    no ladder was measured. `rows`: of bench."""
    of_ladder = rows["experiment"].str.contains("ladder")
    timed = rows[of_ladder] if of_ladder.any() else rows
    variants = timed.groupby("n")["variant"].nunique().reset_index()
    most = variants.sort_values(["variant", "n"], ascending=[False, True])["n"].head(count)
    return sorted(int(n) for n in most)


def share_text(bench: pd.DataFrame) -> str:
    """Which share of cuBLAS rows of bench have, for the note of a figure: "shares: in turns"."""
    kinds = sorted({str(kind) for kind in bench["share_kind"].dropna()})
    return f"shares: {', '.join('each alone' if kind == 'alone' else kind for kind in kinds)}" if kinds else ""


def one_row_each(bench: pd.DataFrame) -> pd.DataFrame:
    """One row per variant and size: unlocked clocks before locked, uniform data before other, then the most samples."""
    ranked = bench.assign(
        _regime=bench["regime"] != "unlocked", _data=bench["data"] != "uniform", _samples=-bench["samples"]
    )
    ranked = ranked.sort_values(["order", "n", "_regime", "_data", "_samples", "experiment"], kind="stable")
    return ranked.drop_duplicates(["variant", "n"]).drop(columns=["_regime", "_data", "_samples"])


@functools.cache
def metrics() -> dict[str, dict[str, dict[str, Any]]]:
    """What contracts/metrics.yaml says of each counter, by section and our key."""
    found: dict[str, dict[str, dict[str, Any]]] = load_yaml(Path(contracts.__file__).parent / "metrics.yaml")
    return found


@functools.cache
def metric_names() -> dict[str, str]:
    """ncu's name to our key, from contracts/metrics.yaml."""
    return {entry["ncu"]: key for section in metrics().values() for key, entry in section.items()}


def difference_percent(ours: pd.Series, others: pd.Series) -> pd.Series:
    """How much more `ours` is than `others`, in % of the latter; NaN where either is missing."""
    return 100 * (ours.astype(float) / others.astype(float) - 1)


# What to multiply a counter's value with to have the unit without its prefix. Plain units are not listed.
SCALE = {"Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9}


def wide(counters: pd.DataFrame, names: dict[str, str]) -> pd.DataFrame:
    """One row per variant and size, in catalogue order, and a column per counter under our key.

    Times are in ns and volumes in bytes. Metrics that `names` does not know keep ncu's name; `kernel` is the function
    that ran.
    """
    index = ["variant", "label", "kind", "family", "dtype", "tensor", "order", "n", "stale", "kernel"]
    if counters.empty:
        return pd.DataFrame(columns=index)
    rows = counters.assign(
        metric=counters["metric"].map(lambda name: names.get(name, name)),
        value=counters["value"].astype(float) * counters["unit"].map(lambda unit: SCALE.get(unit, 1.0)),
    )
    rows["stale"] = rows.groupby(["variant", "n"])["stale"].transform("any")
    rows["kernel"] = rows.groupby(["variant", "n"])["kernel"].transform("last")
    pivoted = rows.pivot_table(index=index, columns="metric", values="value", aggfunc="last", sort=False)
    return pivoted.reset_index().rename_axis(columns=None).sort_values(["order", "n"], ignore_index=True)


def library_functions(counted: pd.DataFrame) -> pd.DataFrame:
    """Which function a library ran, of a wide counters table: labels (all that ran it), dtype, n, kernel."""
    rows = counted[counted["kind"] == "baseline"]
    found: list[dict[str, Any]] = [
        {"labels": list(same["label"]), "dtype": dtype, "n": int(same["n"].iloc[0]), "kernel": kernel}
        for (dtype, _, kernel), same in rows.groupby(["dtype", "n", "kernel"], sort=False)
    ]
    return pd.DataFrame(found, columns=["labels", "dtype", "n", "kernel"])


def at_usual_size(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows (columns variant and n) of the n that most variants have; if several have as many, of the largest."""
    if rows.empty:
        return rows
    variants = rows.groupby("n")["variant"].nunique()
    usual = int(variants[variants == variants.max()].index.max())
    return rows[rows["n"] == usual].reset_index(drop=True)


def fold_twins(counted: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """A figure's rows: at the usual size, and without libraries that ran the very function of one before them.

    The sentence names those left out.
    """
    counted = at_usual_size(counted)
    functions = library_functions(counted)
    twins = {(label, row.n): row.labels[0] for row in records(functions) for label in row.labels[1:]}
    kept = pd.Series([(row.label, row.n) not in twins for row in records(counted)], counted.index, dtype=bool)
    pairs = dict.fromkeys(f"{label} runs the function of {first}" for (label, _), first in twins.items())
    return counted[kept].reset_index(drop=True), ", ".join(pairs)
