"""Values of one machine by variant and key: what documents and the table of steps speak of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.data import Measured, describe, metric_names, metrics, one_row_each, wide
from analysis.metrics import COMPARISON, DERIVED, with_derived
from contracts import schema

SIZE = 4096  # n of the tables: what the experiments profile
ERRORS = "error_over_k"  # a side study's table: its rows have k where others have n
SWEPT = "dispatch"  # likewise: the sweep that a dispatcher picks by, of which square problems are facts
ERROR_DATA = ("uniform", "normal", "positive", "wide")


@dataclass(frozen=True)
class Quantity:
    """What a key stands for. `source`: its table, "bench", "resources", "counters", "variants", `ERRORS` or `SWEPT`."""

    label: str
    unit: str
    source: str


def quantities() -> dict[str, Quantity]:
    """Every key that a document may name."""
    found = {}
    for section, entries in metrics().items():
        for key, entry in entries.items():
            unit = "%" if ".pct" in entry["ncu"] or entry["ncu"].endswith("_pct") else ""
            label = entry["label"]
            if section == "stalls":
                reason = label if label[:2].isupper() else label[0].lower() + label[1:]
                label, unit = f"Stalled: {reason}", "cycles an instruction"
            found[key] = Quantity(label, unit, "counters")
    told = {shown.key: shown for section in COMPARISON.values() for shown in section}
    for key in DERIVED:
        shown = told.get(key)
        label = shown.label if shown else key.replace("_", " ").capitalize()
        found[key] = Quantity(label, shown.unit if shown else "%", "counters")
    for column in schema("resources")["properties"]:
        if re.fullmatch(r"(lds|sts|ldg|stg)_\d+|ffma|hmma|ldgsts|ldsm|bar", column):
            found[column] = Quantity(f"{column.upper().replace('_', '.')} in the SASS", "", "resources")
    found |= {
        "registers": Quantity("Registers per thread", "", "resources"),
        "blocks_per_sm": Quantity("Blocks per SM", "", "resources"),
        "threads": Quantity("Threads per block", "", "resources"),
        "shared_bytes": Quantity("Shared memory per block", "byte", "resources"),
        "spill_bytes": Quantity("Spills per thread", "byte", "resources"),
        "sass_total": Quantity("Instructions in the SASS", "", "resources"),
        "time_us": Quantity("Time", "µs", "bench"),
        "share": Quantity("Share of cuBLAS", "%", "bench"),
        "tflops": Quantity("TFLOP/s", "", "bench"),
        "flop_per_clock_sm": Quantity("FLOP per clock and SM", "", "bench"),
        "sm_clock_mhz": Quantity("SM clock", "MHz", "bench"),
        "power_w": Quantity("Power", "W", "bench"),
        "template": Quantity("Template", "", "variants"),
    }
    found["swept_share"] = Quantity("Share of cuBLAS, in the sweep for a dispatcher", "%", SWEPT)
    for data in ERROR_DATA:
        found[f"error_rms_{data}"] = Quantity(f"RMS error, {data} data", "2⁻²⁴ |A||B|", ERRORS)
        found[f"error_worst_{data}"] = Quantity(f"Worst error, {data} data", "2⁻²⁴ |A||B|", ERRORS)
    return found


def rows_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows, by column."""
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def _errors(table: pd.DataFrame | None) -> dict[tuple[str, int | None], dict[str, Any]]:
    """By variant and k: the errors of each kind of data."""
    found: dict[tuple[str, int | None], dict[str, Any]] = {}
    for row in rows_of(table) if table is not None else []:
        of = found.setdefault((row["variant"], row["k"]), {"stale": row["stale"]})
        of |= {f"error_{statistic}_{row['data']}": row[statistic] for statistic in ("rms", "worst")}
    return found


class Facts:
    """Values by variant and key, from one machine's measurements and the resources of their kernels.

    errors, swept: error_over_k.csv and dispatch.csv, described; None where they are not there.
    """

    def __init__(
        self,
        measured: Measured,
        resources: pd.DataFrame,
        errors: pd.DataFrame | None = None,
        swept: pd.DataFrame | None = None,
    ) -> None:
        self.measured = measured
        self.quantities = quantities()
        self.variants: dict[str, dict[str, Any]] = {row["variant"]: row for row in rows_of(measured.variants)}
        self.bench = one_row_each(measured.bench)
        bench = self.bench.assign(time_us=self.bench["time_us_median"], share=self.bench["share_of_baseline"])
        counted = with_derived(wide(measured.counters, metric_names()))
        limits = counted.filter(regex="^blocks_by_")
        counted = counted.assign(blocks_per_sm=limits.min(axis=1) if len(limits.columns) else float("nan"))
        described = describe(resources, measured.variants)
        described = described[~described["variant"].isin(measured.failed["variant"])]
        self.rows: dict[str, dict[tuple[str, int | None], dict[str, Any]]] = {
            "bench": {(row["variant"], row["n"]): row for row in rows_of(bench)},
            "counters": {(row["variant"], row["n"]): row for row in rows_of(counted)},
            "resources": {(row["variant"], None): row for row in rows_of(described)},
            "variants": {(name, None): row for name, row in self.variants.items()},
            ERRORS: _errors(errors),
            SWEPT: {
                (row["variant"], row["n"]): {"swept_share": row["share"], "stale": row["stale"]}
                for row in (rows_of(swept) if swept is not None else [])
                if row["m"] == row["n"] == row["k"]
            },
        }

    def row(self, variant: str, key: str, n: int = SIZE) -> dict[str, Any] | None:
        """The row of the table that `key` is from; what a library took of an SM, only the counters tell."""
        source = self.quantities[key].source
        if source == "resources" and self.variants[variant]["kind"] == "baseline":
            source = "counters"
        return self.rows[source].get((variant, n if source in ("bench", "counters", ERRORS, SWEPT) else None))

    def value(self, variant: str, key: str, n: int = SIZE) -> Any:
        """A number, or the text of the template; None where there is none."""
        row = self.row(variant, key, n)
        value = row.get(key) if row else None
        return None if value is None or value != value else value

    def stale(self, variant: str, key: str, n: int = SIZE) -> bool:
        """Whether the kernel's source changed after this value was measured."""
        row = self.row(variant, key, n)
        return bool(row and row.get("stale"))
