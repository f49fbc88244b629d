"""The explorer's data: the pipeline's tables, reduced to what the page shows, with unchanged numbers.

A kernel that failed a check, on a GPU or on the emulator, is named and has no number. Shares of a baseline are
fractions, as in bench.csv; the page shows them in percent.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import registry
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
    for key in ("tflops", "share", "share_in_turns", "flop_per_clock_sm", "gflop_per_j", "time_us", "power_w")
    if (one := quantities()[key])
]
LEAST_CYCLES: Row = {"key": "least_cycles", "label": "Least cycles, predicted", "unit": "cycles of an SM"}
LEAST_CYCLES |= {"better": -1, "low": "", "high": ""}
BENCH = ["experiment", "variant", "dtype", "n", "regime", "data", "baseline", "sm_clock_mhz", "throttle_reasons"]
BENCH += ["samples", "rejected", "stale", "share_kind"]
RESOURCES = ("registers", "shared_bytes", "spill_bytes", "threads", "blocks_per_sm", "occupancy", "sass_total")
COUNTED = (
    "global_memory",
    "shared_memory",
)  # sections of metrics.yaml whose raw counts are shown next to the metrics derived from them
ORIGINS = {  # where the values of a table come from, as the page shows it next to them
    "bench": "timed",
    "resources": "the compiler",
    "bounds": "the emulator",
}
SHOWN_BY = {"speedup": "tflops", "peak_share": "flop_per_clock_sm"}  # timings that the page shows by another one


def content(inputs: Inputs, pictures: Mapping[str, Path], figures: Mapping[str, Path] | None = None) -> Row:
    """All data of the page.

    `pictures`: the SVG of each bank picture by name, next to a JSON file of the same name. `figures`: the SVG of each
    finding's figure by the finding's name.
    """
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
            {key: planned[key] for key in ("title", "question", "kind", "variants")} | {"name": name}
            for name, planned in inputs.experiments.items()
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
        "findings": findings(inputs, figures or {}),
        "figures": {name: svg(path) for name, path in (figures or {}).items()},
        "sources": sources(variants),
    }


# ---- machines -------------------------------------------------------------------------------------------------------


def machines(inputs: Inputs, own: Measured, failed: set[str]) -> list[Row]:
    """The tables of this run, of other runs, and of the emulator, without the kernels of `failed`."""
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
        predicted = counts(rows[~rows["variant"].isin(failed)], {})
        origin = "predicted by ptxsim, the emulator, from the code of this tree; nothing is measured"
        found.append({"name": PREDICTED, "gpu": None, "origin": origin, "power_limit_w": None})
        found[-1] |= {"bench": packed([], []), "problems": packed([], []), "counters": predicted}
    return [one for one in found if one["bench"]["rows"] or one["problems"]["rows"] or one["counters"]]


def of_any_shape(timed: pd.DataFrame) -> pd.DataFrame:
    """Select the rows whose problem is not a plain square.

    `problem` is as it is written, and `n` the problem's edge, the cube root of mnk.
    """
    rows = timed[~are_squares(timed)]
    return rows.assign(problem=problems.written(rows), n=problems.edge(rows).round(2)).reset_index(drop=True)


def timings(bench: pd.DataFrame) -> Row:
    """Pack rows of `Measured.bench` or of `of_any_shape`.

    `first` marks the row with the most samples among those of equal variant, problem, clocks and data.
    """
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
    """A table whose column names are written once."""
    return {"columns": columns, "rows": [[row[name] for name in columns] for row in rows]}


def counts(counters: pd.DataFrame, more: Mapping[tuple[str, int], Row]) -> Row:
    """Counters by variant and size under the project's keys, with derived metrics; missing ones are left out."""
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
    """Least cycles as a percentage of measured cycles, by variant and size, for kernels that have not changed since."""
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
    """The metrics by which two kernels are compared, section by section.

    `least`: the value that one of the kernels must reach for the row to be shown; `from`: where the value comes from.
    """
    found: list[Row] = []
    origins = {key: entry["ncu"] for section in metrics().values() for key, entry in section.items()}

    def add(section: str, source: str, key: str, label: str, unit: str, better: int) -> None:
        entry: Row = {"id": identity(source, key), "section": section, "source": source, "key": key}
        entry["from"] = origins.get(key, "derived from counters") if source == "counters" else ORIGINS[source]
        entry |= {"label": label, "unit": unit, "better": better}
        found.append(entry | ({"least": LEAST[key]} if source == "counters" and key in LEAST else {}))

    for quantity in QUANTITIES:
        add("Speed and energy", "bench", *(quantity[key] for key in ("key", "label", "unit", "better")))
    for key in RESOURCES:
        one = quantities()[key]
        add("Resources, by the compiler", "resources", key, one.label, one.unit, one.better)
    for key, label in (bounds.RESOURCES | bounds.ESTIMATES | {"tail": "largest, SM with the most blocks"}).items():
        shown_label = f"{label} (estimate)" if key in bounds.ESTIMATES else label
        add("Least cycles of an SM, by the emulator", "bounds", key, shown_label, "cycles", -1)
        add("Least cycles as a share of those measured", "counters", f"percent_{key}", shown_label, "%", 0)
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
    """The page's name of a metric, since three tables have a column `registers`."""
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
    """A bank picture: the contents of its JSON file, and the drawing."""
    drawing = svg(path, "; made by experiments.emulation.bank_pictures")
    described: Row = read_json(path.with_suffix(".json"), "bank_picture")
    return described | {"name": name, "svg": drawing}


def svg(path: Path, hint: str = "") -> str:
    """The SVG element of a file. Raises `UserError` where the file cannot be read."""
    try:
        text = path.read_text()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}{hint}") from error
    return text[text.index("<svg") :]


def sources(variants: pd.DataFrame) -> Row:
    """The text of every kernel's .cu file by the path that the catalogue gives."""
    paths = {path: registry.ROOT / path for path in sorted({str(path) for path in variants["source"].dropna()})}
    return {name: path.read_text() for name, path in paths.items() if path.is_file()}


# ---- claims ---------------------------------------------------------------------------------------------------------


def claims(inputs: Inputs, variants: list[str]) -> list[Row]:
    """Rows of claims.csv with all their columns, each with its measure and where the page shows what it rests on."""
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


def findings(inputs: Inputs, figures: Collection[str] = ()) -> list[Row]:
    """The findings of findings.json, in the paper's order, without the numbers and rows of paper and figures.

    `chart`: the page's state that shows a finding, as finding.yaml gives it, or None; `figure`: whether it has one of
    `figures`.
    """
    charts = {name: manifest.get("chart") for name, manifest in registry.findings().items()}
    return [
        {key: value for key, value in row.items() if key not in ("numbers", "rows")}
        | {"tried": [{key: value for key, value in one.items() if key != "numbers"} for one in row["tried"]]}
        | {"chart": charts.get(row["name"]), "figure": row["name"] in figures}
        for row in inputs.findings()
    ]


def rests_on(measure: str, variants: list[str], keys: set[str]) -> list[Row]:
    """Every quantity and table in a claim's measure: its meaning, its kernels, and where the page shows it."""
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
