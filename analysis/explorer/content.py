"""The explorer's data: what each view shows, as dictionaries and lists for JSON.

`core` is what every view needs; `parts` are read by the page when a view first asks for them.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import counters, ladders
from analysis.explorer import lenses
from analysis.results import Results, best_measured, lines_of, listed, records, squares
from analysis.tables.kernels import OF_BUILD
from analysis.tables.steps import UNITS
from analysis.tables.summary import declared
from contracts import UserError
from contracts import worklogs as texts
from contracts.rows import Lens

Row = dict[str, Any]

# Quantities of a timing: key, label, unit and digits. Fractions are of one in the data and in
# percent on the page.
QUANTITIES = [
    ("fraction", "Fraction of cuBLAS, interleaved", "%"),
    ("fraction_isolated", "Fraction of cuBLAS, isolated", "%"),
    ("fraction_per_clock", "Fraction of cuBLAS, per clock", "%"),
    ("tflops", "Throughput", "TFLOP/s"),
    ("time_us", "Time", "µs"),
    ("sm_clock_mhz", "SM clock", "MHz"),
    ("power_w", "Power", "W"),
    ("gflop_per_j", "Energy efficiency", "GFLOP/J"),
]
# Measured ceilings of machine.json that are roofs of the roofline, with the data types that they
# bound
ROOFS = {
    "fp32_fma_tflops": ("FP32 FMA", ["fp32"]),
    "bf16_mma_tflops": ("16-bit mma.sync", ["bf16", "fp16"]),
    "bf16_wgmma_tflops": ("16-bit wgmma", ["bf16", "fp16"]),
}
STEP = ("variant", "over", "changed", "control", "counters")
# What Vega calls Matplotlib's markers
SHAPES = {"o": "circle", "D": "diamond", "s": "square", "^": "triangle-up", "v": "triangle-down"}
SHAPES |= {"P": "cross", "X": "triangle-right"}
# The experiments that are ladders, in the order of the menu; other experiments follow by title
LADDERS = ["sgemm_ladder", "hgemm_ladder", "tf32_ladder", "hopper_ladder"]


@dataclass(frozen=True)
class Sources:
    """Where the page's data is. gpus: the run's own results first, then further archives. lenses: of
    kernels, by variant.
    """

    gpus: list[Results]
    tables: Path
    figures: Path
    lenses: Mapping[str, Lens] = field(default_factory=dict)

    @property
    def catalogue(self) -> pd.DataFrame:
        return self.gpus[0].variants

    def rows(self, name: str) -> list[Row]:
        """A report table's rows as text, without empty cells; none where the table was not
        written.
        """
        path = self.tables / name
        lines = path.read_text().splitlines(keepends=True) if path.is_file() else []
        rows = csv.DictReader(lines)
        return [{key: value for key, value in row.items() if value} for row in rows]

    @property
    def findings(self) -> list[Row]:
        """findings.json without the rows of figures, with the emulator's message as `fault` where there
        is one; nothing where it was not written.

        Raises `UserError` for what is no list.
        """
        path = self.tables / "findings.json"
        if not path.is_file():
            return []
        rows = json.loads(path.read_text())
        if not isinstance(rows, list):
            kind = type(rows).__name__
            raise UserError(f"{path}: {kind} is not allowed; allowed: a list of findings")
        left_out = ("rows", "numbers")
        return [
            {key: row[key] for key in row if key not in left_out}
            | {"fault": row["numbers"].get("fault")}
            for row in rows
        ]


def core(sources: Sources) -> Row:
    """What every view needs: GPUs, kernels, ladders, steps, findings and the names of counters."""
    variants = sources.catalogue
    pictured = pictures(sources.figures)
    return {
        "gpus": [gpu(results) for results in sources.gpus],
        "kernels": kernels(variants),
        "worklogs": worklogs(variants),
        "ladders": experiments(sources.gpus),
        "steps": [{key: step[key] for key in STEP} for step in ladders.steps(variants)],
        "findings": sources.findings,
        **names(),
        "pictures": {name: picture["variants"] for name, picture in pictured.items()},
        "claims": len(sources.rows("claims.csv")),
        "lenses": list(rungs(sources)),
    }


def names() -> Row:
    """Names and units of quantities, counters, stalls and units of an SM."""
    return {
        "quantities": [dict(zip(("key", "label", "unit"), row, strict=True)) for row in QUANTITIES],
        "sections": {
            title: [counter.key for counter in section]
            for title, section in counters.SECTIONS.items()
        },
        "stalls": [stall.key for stall in counters.STALLS],
        "counters": {
            key: [counter.label, counter.unit, counter.better or 0]
            for key, counter in counters.COUNTERS.items()
        },
        "units": {key: name[0].upper() + name[1:] for key, name in UNITS.items()},
    }


def parts(sources: Sources) -> dict[str, Any]:
    """The parts that are read on demand: each GPU's numbers, claims, kernel sources and bank
    pictures.
    """
    of_gpus = {f"gpu{index}": measured(results) for index, results in enumerate(sources.gpus)}
    stated, shown = published(sources.rows("published.csv")), rungs(sources)
    names = [row["figure"] for row in sources.findings if row.get("figure")]
    paths = [sources.figures / f"{name}.svg" for name in names]
    return {
        **of_gpus,
        "claims": {"claims": claims(sources.rows("claims.csv")), "published": stated},
        "sources": kernel_sources(sources.catalogue) | lenses.sources(shown.values()),
        "explanations": lenses.explanations(shown),
        **{f"lens_{variant}": lenses.packed(lens) for variant, lens in shown.items()},
        "pictures": pictures(sources.figures),
        "figures": {path.stem: inline(path) for path in paths if path.is_file()},
    }


# ---- kernels, ladders, steps ---------------------------------------------------------------------


def kernels(variants: pd.DataFrame) -> dict[str, Row]:
    """The catalogue by variant, in its order; `worklog` is the folder whose ladder a kernel belongs
    to.
    """
    columns = ["variant", "worklog", "label", "kind", "dtype", "tensor", "idea", "builds_on"]
    columns += ["tile_m", "tile_n", "tile_k", "threads", "stages", "cluster", "sums"]
    rows = variants[[*columns, "source", "template", "requires"]]
    return {row.pop("variant"): row for row in without_empty(rows.to_dict("records"))}


def worklogs(variants: pd.DataFrame) -> dict[str, Row]:
    """Short name, colour, shape, title, author and GPUs of each worklog, in the order of the ladders."""
    sources, titles, markers = texts.sources(), ladders.titles(), ladders.markers(variants)
    wanted = {"title", "author", "link", "gpus"}
    return {
        name: {"short": titles[name], "colour": colour, "shape": SHAPES[markers[name]]}
        | (sources[name].model_dump(include=wanted, exclude_none=True) if name in sources else {})
        for name, colour in ladders.colours(variants).items()
    }


def experiments(gpus: list[Results]) -> list[Row]:
    """Title and question of every timed experiment, ladders first."""
    timed = [name for results in gpus for name in results.squares["experiment"].unique()]
    entries, plans = [], declared()
    for name in dict.fromkeys(timed):
        plan = plans.get(name, {})
        title = str(plan.get("title", name)).removeprefix("The ")
        question = " ".join(str(plan.get("question", "")).split())
        entry = {"name": name, "title": title, "question": question}
        entries.append(entry | {"ladder": name in LADDERS})
    order = {name: index for index, name in enumerate(LADDERS)}
    return sorted(entries, key=lambda row: (order.get(row["name"], len(order)), row["title"]))


def rungs(sources: Sources) -> dict[str, Lens]:
    """The lenses that the page shows, in the catalogue's order: of rungs that passed their checks."""
    shown = {name: sources.lenses.get(name) for name in rung_names(sources)}
    return {name: lens for name, lens in shown.items() if lens and lens.passed}


def rung_names(sources: Sources) -> list[str]:
    """The ladders' kernels and what their steps are over, in the catalogue's order."""
    frames = [results.squares for results in sources.gpus]
    timed = {name for rows in frames for name in rows[rows["experiment"].isin(LADDERS)]["variant"]}
    stepped = {
        step[key] for step in ladders.steps(sources.catalogue) for key in ("variant", "over")
    }
    of_kernels = sources.catalogue[sources.catalogue["kind"] == "kernel"]
    return [name for name in of_kernels["variant"] if name in timed | stepped]


def without_lens(sources: Sources) -> list[str]:
    """A line for each reason why rungs have no lens; none where no lens was made at all."""
    if not sources.lenses:
        return []
    missing = [name for name in rung_names(sources) if name not in rungs(sources)]
    failed = [name for name in missing if name in sources.lenses]
    reasons = {
        "failed a check": failed,
        "not emulated": [name for name in missing if name not in failed],
    }
    return [
        f"left out of the lens, {reason}: {listed(names)}"
        for reason, names in reasons.items()
        if names
    ]


def kernel_sources(variants: pd.DataFrame) -> dict[str, str]:
    """The text of every source of the catalogue by its path; a file that is gone is left out."""
    paths = [Path(path) for path in sorted(set(variants["source"].dropna()))]
    return {path.as_posix(): path.read_text() for path in paths if path.is_file()}


# ---- numbers of a GPU ----------------------------------------------------------------------------


def gpu(results: Results) -> Row:
    """The GPU in words, its roofs in TFLOP/s and its DRAM bandwidth in GB/s."""
    machine = results.machine
    ceilings = machine.ceilings.model_dump(exclude_none=True)
    roofs = [
        {"label": label, "dtypes": dtypes, "tflops": ceilings[key]}
        for key, (label, dtypes) in ROOFS.items()
        if key in ceilings
    ]
    return {
        "name": results.name,
        "model": results.model,
        "gpu": results.gpu,
        "date": results.date[:10],
        "archived": results.archived,
        "driver": machine.driver,
        "power_limit_w": machine.power_limit_w,
        "processes": int(results.squares["processes"].max()),
        "roofs": roofs,
        "dram_gb_per_s": ceilings.get("dram_copy_gb_per_s"),
        "left_out": lines_of(results.left_out),
        "experiments": sorted(results.squares["experiment"].unique()),
    }


def measured(results: Results, variants: Collection[str] = ()) -> Row:
    """Timings of squares, counters, minimum cycles and builds of one GPU, of kernels that passed
    every check; of `variants` alone where some are given.
    """
    keys = [key for key, *_ in QUANTITIES]
    columns = ["experiment", "variant", "n", "data", "clock_policy", "processes", "samples"]
    columns += ["clock_held", "throttle_reasons", "baseline_tflops", *keys]
    columns += [f"{key}{end}" for key in keys for end in ("_low", "_high")]
    # The first row of a variant and size is its usual timing.
    timed = best_measured(results.squares).sort_values(["order", "n"], kind="stable")
    counted = results.counters
    if variants:
        timed, counted = (rows[rows["variant"].isin(variants)] for rows in (timed, counted))
    collected = [key for key in counters.COUNTERS if key in counted and counted[key].notna().any()]
    return {
        "timings": compact(timed, columns),
        "counters": compact(counted, ["variant", "n", *collected]),
        "minimum_cycles": minimum_cycles(results),
        "builds": builds(results),
    }


def minimum_cycles(results: Results) -> Row:
    """Cycles of an SM that each unit needs at least, by variant, size and unit."""
    rows = squares(results.table("bounds", passed=True))
    rows = rows[rows["resource"].isin(list(UNITS))]
    cycles: Row = {}
    for row in records(rows):
        of_size = cycles.setdefault(row.variant, {}).setdefault(str(row.n), {})
        of_size[row.resource] = significant(float(row.minimum_cycles))
    return cycles


def builds(results: Results) -> dict[str, Row]:
    """Registers, shared memory, spills and occupancy of each build, by variant."""
    rows = results.table("resources")[["variant", *OF_BUILD]]
    return {row.pop("variant"): row for row in without_empty(rows.to_dict("records"))}


# ---- claims, findings, pictures ------------------------------------------------------------------


def claims(rows: list[Row]) -> list[Row]:
    """claims.csv with one entry for each claim: what is the same on every GPU, and `gpus`, a result
    for each.
    """
    of_claim = ("worklog", "id", "line", "quote", "claim", "kind")
    of_gpu = ("gpu", "verdict", "words", "claimed", "measured", "remark")
    by_id: dict[tuple[str, str], Row] = {}
    for row in rows:
        claim = {key: row[key] for key in of_claim if key in row} | {"gpus": []}
        claim = by_id.setdefault((row["worklog"], row["id"]), claim)
        claim["gpus"].append({key: row[key] for key in of_gpu if key in row})
    return list(by_id.values())


def published(rows: list[Row]) -> list[Row]:
    """published.csv with one entry for each number of a text, and in `ours` the value and interval
    of each GPU.
    """
    of_text = ("worklog", "line", "subject", "as_written", "variant", "n", "gpu", "unit")
    by_id: dict[tuple[str, str], Row] = {}
    for row in rows:
        entry = {key: row[key] for key in of_text if key in row} | {"ours": {}}
        entry = by_id.setdefault((row["worklog"], row["id"]), entry)
        values = [float(row[key]) for key in ("ours", "ours_low", "ours_high") if key in row]
        if values:
            entry["ours"][row["here"]] = values
    return list(by_id.values())


def pictures(figures: Path) -> dict[str, Row]:
    """Bank pictures by name: title, text and accesses of each, and the variants that it shows."""
    by_name: dict[str, Row] = {}
    for path in sorted(figures.glob("banks_*.json")):
        described: Row = json.loads(path.read_text())
        variants = list(dict.fromkeys(access["variant"] for access in described["accesses"]))
        by_name[path.stem.removeprefix("banks_")] = described | {"variants": variants}
    return by_name


def inline(path: Path) -> str:
    """Return the text of an SVG as it stands in a page: without its prologue."""
    return re.sub(r"<\?xml[^>]*>|<!DOCTYPE[^>]*>", "", path.read_text(), flags=re.DOTALL).strip()


# ---- JSON ----------------------------------------------------------------------------------------


def compact(rows: pd.DataFrame, columns: list[str]) -> Row:
    """A frame as column names and lists of values, without the columns that it lacks; NaN becomes
    null.
    """
    columns = [name for name in columns if name in rows]
    cells = rows[columns].itertuples(index=False)
    return {"columns": columns, "rows": [[significant(value) for value in row] for row in cells]}


def significant(value: Any) -> Any:
    """A value for JSON: numbers with six significant digits, None for NaN."""
    if isinstance(value, str) or value is None:
        return value
    if pd.isna(value):
        return None
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) and value else 0.0
    return value.item() if hasattr(value, "item") else value


def without_empty(rows: Iterable[Mapping[Any, Any]]) -> list[Row]:
    """Rows without cells that are empty or false."""
    values = ({key: significant(value) for key, value in row.items()} for row in rows)
    empty = (None, "", False)
    return [{key: row[key] for key in row if row[key] not in empty} for row in values]
