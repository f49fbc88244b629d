"""What the explorer knows: the pipeline's tables, cut down to what it shows, with their numbers as they are.

A kernel that failed a check, on a GPU or on the emulator, is named and has no number. Shares of a baseline are
fractions, as in bench.csv; the page shows them in percent.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.claims.vocabulary import Vocabulary
from analysis.data import Measured, are_squares, metric_names, metrics, squares, wide
from analysis.inputs import Inputs
from analysis.metrics import COMPARISON, with_derived
from analysis.quantities.expressions import Expression, shown_text
from analysis.quantities.registry import quantities
from analysis.tables import bounds, problems
from analysis.tables.compare import LEAST, STALLS
from analysis.tables.machines import all_runs
from contracts import UserError, load_yaml, read_json, worklogs

PREDICTED = "ptxsim"  # listed among the machines: counters as the emulator predicts them

Row = dict[str, Any]

# Quantities of bench.csv, under the names of their columns
QUANTITIES: list[Row] = [
    {"key": one.column, "label": one.label, "unit": one.unit, "better": one.better, "low": one.low, "high": one.high}
    for key in ("tflops", "share", "flop_per_clock_sm", "gflop_per_j", "time_us", "power_w")
    if (one := quantities()[key])
]
LEAST_CYCLES: Row = {"key": "least_cycles", "label": "Least cycles, predicted", "unit": "cycles of an SM"}
LEAST_CYCLES |= {"better": -1, "low": "", "high": ""}
BENCH = ["experiment", "variant", "dtype", "n", "regime", "data", "baseline", "sm_clock_mhz", "throttle_reasons"]
BENCH += ["samples", "rejected", "stale"]
RESOURCES = ("registers", "shared_bytes", "spill_bytes", "threads", "blocks_per_sm", "occupancy", "sass_total")
COUNTED = (
    "global_memory",
    "shared_memory",
)  # sections of metrics.yaml whose counts stand beside what is derived of them
SHOWN_BY = {"speedup": "tflops", "peak_share": "flop_per_clock_sm"}  # timings that the page shows by another one


def content(inputs: Inputs, pictures: Mapping[str, Path]) -> Row:
    """All of it. `pictures`: by name, the SVG of each bank picture, with a JSON file of its name beside it."""
    own = inputs.measured()
    variants = own.variants
    failed = {row["variant"]: row for row in rows_of(own.failed[["variant", "label", "case", "detail"]])}
    found = machines(inputs, own, set(failed))
    return {
        "origin": own.origin,
        "archived": own.archived,
        "why_archived": inputs.why_archived,
        "why_untimed": None if len(own.bench) else own.reason("bench"),
        "machines": found,
        "failed": list(failed.values()),
        "kernels": kernels(variants),
        "experiments": [
            {key: told[key] for key in ("title", "question", "kind", "variants")} | {"name": name}
            for name, told in inputs.experiments.items()
        ],
        "quantities": [*QUANTITIES, LEAST_CYCLES],
        "metrics": shown_metrics(),
        "resources": keyed(inputs.rows("resources"), list(RESOURCES), set(failed)),
        "bounds": least_cycles(inputs, set(failed)),
        "bound_labels": bounds.RESOURCES | {key: f"{label} (estimate)" for key, label in bounds.ESTIMATES.items()},
        "steps": [
            {key: step[key] for key in ("part", "variant", "over", "changed")}
            | {"counters": [{"key": one["key"], "meant": one["meant"]} for one in step["counters"]]}
            for step in worklogs.steps()
        ],
        "pictures": [picture(name, path) for name, path in pictures.items()],
        "worklogs": [
            {"key": key, "title": one["title"], "author": one["author"]} for key, one in worklogs.sources().items()
        ],
        "claims": claims(inputs, list(variants["variant"])),
        "findings": findings(inputs),
    }


# ---- machines -------------------------------------------------------------------------------------------------------


def machines(inputs: Inputs, own: Measured, failed: set[str]) -> list[Row]:
    """This run, other runs, and the emulator. A kernel of `failed` has no row in any of them."""
    found = []
    for number, (name, run) in enumerate(all_runs(inputs).items()):
        measured = own if number == 0 else run
        out = failed | set(measured.failed["variant"])
        bench, counters = (rows[~rows["variant"].isin(out)] for rows in (measured.bench, measured.counters))
        found.append(
            {
                "name": name,
                "gpu": measured.provenance["gpu"],
                "origin": measured.origin,
                "power_limit_w": measured.machine.get("power_limit_w"),
                "bench": timings(bench),
                "problems": timings(of_any_shape(measured.timed[~measured.timed["variant"].isin(out)])),
                "counters": counts(counters, shares_of_bounds(inputs, counters)),
            }
        )
    if inputs.has("predictions"):
        rows = squares(inputs.described("predictions"))
        told = counts(rows[~rows["variant"].isin(failed)], {})
        origin = "predicted by ptxsim, the emulator, from the code of this tree; nothing is measured"
        found.append({"name": PREDICTED, "gpu": None, "origin": origin, "power_limit_w": None})
        found[-1] |= {"bench": packed([], []), "problems": packed([], []), "counters": told}
    return [one for one in found if one["bench"]["rows"] or one["problems"]["rows"] or one["counters"]]


def of_any_shape(timed: pd.DataFrame) -> pd.DataFrame:
    """The rows that are of no plain square, with `problem` as it is written, and its edge (cube root of mnk) as `n`."""
    rows = timed[~are_squares(timed)]
    return rows.assign(problem=problems.written(rows), n=problems.edge(rows).round(2)).reset_index(drop=True)


def timings(bench: pd.DataFrame) -> Row:
    """Rows of `Measured.bench`, or of `of_any_shape`. `first`: of equal variant, problem, clocks and data, the row of
    the most samples."""
    median, low, high = (bench[f"time_us_{end}"].astype(float) for end in ("median", "ci_low", "ci_high"))
    speed = bench["tflops"].astype(float)  # whose interval is that of the time
    ends: dict[str, Any] = {"tflops_low": speed * median / high, "tflops_high": speed * median / low}
    bench = bench.assign(stale=bench["stale"].astype(bool), **ends)
    ranked = bench.sort_values(["samples", "experiment"], ascending=[False, True], kind="stable")
    own = ["problem"] if "problem" in bench else []
    first = ~ranked.duplicated(["variant", *(own or ["n"]), "regime", "data"]).reindex(bench.index)
    columns = [*BENCH, *own]
    for quantity in QUANTITIES:
        columns += [quantity[key] for key in ("key", "low", "high") if quantity[key] in bench]
    return packed([*columns, "first"], rows_of(bench.assign(first=first)[[*columns, "first"]]))


def packed(columns: list[str], rows: Iterable[Row]) -> Row:
    """A table with its heads once."""
    return {"columns": columns, "rows": [[row[name] for name in columns] for row in rows]}


def counts(counters: pd.DataFrame, more: Mapping[tuple[str, int], Row]) -> Row:
    """Counters by variant and size, under our keys, with what is derived of them; missing ones left out."""
    rows = with_derived(wide(counters, metric_names())) if len(counters) else pd.DataFrame()
    found: Row = {}
    keys = {metric["key"] for metric in shown_metrics() if metric["source"] == "counters"}
    for row in rows_of(rows):
        values = {key: value for key, value in row.items() if key in keys and value is not None}
        values |= more.get((row["variant"], int(row["n"])), {})
        values |= {"stale": True} if row["stale"] else {}
        found.setdefault(row["variant"], {})[str(int(row["n"]))] = values
    return found


def shares_of_bounds(inputs: Inputs, counters: pd.DataFrame) -> dict[tuple[str, int], Row]:
    """Least cycles as percent of those measured, by variant and size: of kernels whose source is that measured."""
    found: dict[tuple[str, int], Row] = {}
    if inputs.has("bounds") and len(counters):
        for row in rows_of(bounds.shares(counters, inputs.rows("bounds"))):
            found.setdefault((row["variant"], int(row["n"])), {})[f"percent_{row['resource']}"] = row["percent"]
    return found


def least_cycles(inputs: Inputs, failed: set[str]) -> Row:
    """Least cycles by variant, size and resource, from the emulator."""
    found: Row = {}
    for row in inputs.listed("bounds") if inputs.has("bounds") else []:
        if row["variant"] not in failed and row["m"] == row["n"] == row["k"]:
            of_size = found.setdefault(row["variant"], {}).setdefault(str(row["n"]), {})
            of_size[row["resource"]] = row["cycles_per_sm"]
    return found


def keyed(rows: pd.DataFrame, columns: list[str], failed: set[str]) -> Row:
    """Columns of a table by variant."""
    return {row["variant"]: {key: row[key] for key in columns} for row in rows_of(rows) if row["variant"] not in failed}


def shown_metrics() -> list[Row]:
    """What two kernels are compared by, section by section. `least`: what either must have for the row to be shown."""
    found: list[Row] = []

    def add(section: str, source: str, key: str, label: str, unit: str, better: int) -> None:
        entry: Row = {"id": identity(source, key), "section": section, "source": source, "key": key}
        entry |= {"label": label, "unit": unit, "better": better}
        found.append(entry | ({"least": LEAST[key]} if source == "counters" and key in LEAST else {}))

    for quantity in QUANTITIES:
        add("Speed and energy", "bench", *(quantity[key] for key in ("key", "label", "unit", "better")))
    for key in RESOURCES:
        one = quantities()[key]
        add("Resources, by the compiler", "resources", key, one.label, one.unit, one.better)
    for key, label in (bounds.RESOURCES | bounds.ESTIMATES | {"tail": "largest, SM with the most blocks"}).items():
        told = f"{label} (estimate)" if key in bounds.ESTIMATES else label
        add("Least cycles of an SM, by the emulator", "bounds", key, told, "cycles", -1)
        add("Least cycles as a share of those measured", "counters", f"percent_{key}", told, "%", 0)
    for section, shown in COMPARISON.items():
        for counter in shown:
            add(section, "counters", counter.key, counter.label, counter.unit, counter.better)
    known = {entry["id"] for entry in found}
    for section in COUNTED:
        for key, entry in metrics()[section].items():
            if key not in known and ".pct" not in entry["ncu"] and ".ratio" not in entry["ncu"]:
                add("Counts", "counters", key, entry["label"], "", 0)
    for stall in STALLS:
        add("Stalls, cycles per issued instruction", "counters", stall.key, stall.label, "cycles", stall.better)
    order = {name: place for place, name in enumerate(dict.fromkeys(entry["section"] for entry in found))}
    return sorted(found, key=lambda entry: order[entry["section"]])


def identity(source: str, key: str) -> str:
    """How the page names a metric: three tables have a column `registers`."""
    return f"{source}.{key}" if source in ("resources", "bounds") else key


def kernels(variants: pd.DataFrame) -> list[Row]:
    """The catalogue, in its order."""
    columns = ["variant", "label", "kind", "family", "dtype", "idea", "builds_on", "baseline", "origin", "source"]
    return rows_of(variants[columns])


def rows_of(table: pd.DataFrame) -> list[Row]:
    """The rows by column, as JSON has them: no NaN."""
    return [{str(name): plain(value) for name, value in row.items()} for row in table.to_dict("records")]


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if hasattr(value, "item"):
        value = value.item()
    if value is pd.NA or value is pd.NaT or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value


# ---- pictures -------------------------------------------------------------------------------------------------------


def picture(name: str, path: Path) -> Row:
    """A bank picture: what its JSON file tells, and the drawing."""
    try:
        drawing = path.read_text()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; made by experiments.emulation.bank_pictures") from error
    told: Row = read_json(path.with_suffix(".json"), "bank_picture")
    return told | {"name": name, "svg": drawing[drawing.index("<svg") :]}


# ---- claims ---------------------------------------------------------------------------------------------------------


def claims(inputs: Inputs, variants: list[str]) -> list[Row]:
    """Rows of claims.csv, whatever columns it has, with what each rests on: its measure, and where that is shown."""
    path = inputs.reports / "claims.csv"
    if not path.is_file():
        return []
    table = inputs.report("claims", "claims_table")
    files = worklogs.claims().values()
    asked = {entry["id"]: entry for path in files for entry in load_yaml(path)}
    keys = {metric["id"] for metric in shown_metrics()}
    found = []
    for row in rows_of(table):
        entry = asked.get(row["id"], {})
        if "same_as" in entry:
            entry = asked.get(entry["same_as"], {})
        measure = " ".join(str(entry.get("measure", "")).split())
        remark = entry.get("remark", "")
        row |= {"measure": measure, "published": entry.get("published", [])}
        row["rests"] = rests_on(measure, variants, keys)
        named = re.findall(r"\w+", f"{measure} {remark} {row.get('evidence') or ''}")
        row["kernels"] = [name for name in variants if name in named]
        found.append({key: value for key, value in row.items() if value not in (None, "", [])})
    return found


def findings(inputs: Inputs) -> list[Row]:
    """The findings of findings.json, the list that the paper presents, without the rows that only its figures draw."""
    told = ("name", "part", "title", "holds", "why", "told", "evidence", "tried", "status")
    return [{key: row[key] for key in told} for row in inputs.findings()]


def rests_on(measure: str, variants: list[str], keys: set[str]) -> list[Row]:
    """For each quantity and table in a claim's measure: what it is, its kernels, and where the page shows it."""
    if not measure:
        return []
    expression = Expression.parse(measure)
    found: list[Row] = []
    for one in expression.references:
        of = [one.name, *(part.id for part in one.selectors.values() if isinstance(part, ast.Name))]
        entry: Row = {"call": one.text, "gives": f"{one.quantity.label}.", "view": "pair"}
        table = {"compiled": "resources"}.get(one.source, one.source)
        name = one.quantity.column if table in ("bench", "bounds") else one.quantity.key
        if table in ("bench", "timing_methods"):
            entry["view"] = "sizes"
        shown = SHOWN_BY.get(one.quantity.key, identity(table, name))
        entry |= {"kernels": [name for name in variants if name in of]} | ({"shows": shown} if shown in keys else {})
        found.append(entry)
    for name, call in expression.calls:
        if name in Vocabulary.sources():
            texts = [part.value for part in ast.walk(call) if isinstance(part, ast.Constant)]
            gives = (Vocabulary.methods()[name].__doc__ or "").splitlines()[0]
            of_call = [name for name in variants if name in texts]
            found.append({"call": shown_text(call), "gives": gives, "kernels": of_call, "view": "pair"})
    return [entry for entry in found if entry["kernels"]]
