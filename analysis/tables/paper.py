"""Tidy tables for the paper and for readers: one JSON file, and CSV files next to it.

summary.json
    machine and provenance (as read), origin ("measured: GPU, DATE"), archived, date,
    experiments: a list of {name, title, question, kind, sizes, rows, missing, best}: kind is "sizes" where the YAML
        gives a range of sizes, "data_kinds" where it gives several kinds of data, else "ladder", and names the figure;
        `missing` are labels of variants that have no row and did not fail; `best` has the fastest kernel per dtype, n
        and regime (on uniform data, if there are several kinds), as rows of ladder.csv,
    by_name: names of experiments that are no part of `all` and have no rows; they are not among `experiments`,
    failed: a list of {variant, label, cases, failed, case, detail} (of the first failure), which are left out of all
        performance tables,
    stale: labels of variants with stale rows; gone: variants that were measured and are no longer in the catalogue;
    gone_experiments: those that were measured and are not given; samples_min, samples_max, rejected: over all timings,
    best_of_library: whether all shares are of the fastest call that the library has (analysis.tables.library_calls),
    kernels: the catalogue's, a list of {label, dtype, idea, builds_on (a label or null), source, section} (the last two
        say where it is from); library_functions: a list of {labels, dtype, n, kernel}, the function that libraries ran,
    compiler and arch: of this tree's build,
    autotune: what the sweep over tiles found (analysis.tables.autotune.summary), or null where there is none.

ladder.csv and sizes.csv: one row per experiment, regime, size, variant and kind of data
    experiment, regime, n, variant, label, kind, dtype, data, stale (true or false); tflops, tflops_ci_low,
    tflops_ci_high; share_percent, share_ci_low_percent, share_ci_high_percent (of the baseline), share_kind (of which);
    gain (TFLOP/s over those of the rung it builds on, in the same experiment, size, regime and kind of data);
    time_us_median, time_us_worklog, tflops_worklog; flop_per_clock_sm, share_of_ceiling_percent (FLOP/clock/SM over the
    best measured one of its arithmetic), sm_clock_mhz, clock_held (5th to 95th percentile within 1% of the median);
    power_w, gflop_per_j, samples, rejected.

resources.csv: one row per kernel as built by this tree: variant, label, dtype, arch, registers, shared_bytes,
    stack_bytes, spill_bytes, threads, blocks_per_sm, occupancy_percent, limiter, compiler, template (its values), tuned
    (machine whose sweep chose them), and the static SASS counts.

checks.csv: variant, label, dtype, device, cases, passed, failed, worst_share (largest error over its bound), stale.

data_kinds.csv: the rows of experiments of several kinds of data, in the columns of ladder.csv and of
    `analysis.tables.data_kinds.spreads`.

wave_quantization.csv: waves and load balance, in the columns of `analysis.tables.wave_quantization.load_balance`.

counters.csv: variant, label, dtype, n, stale, kernel (the function that ran), then a column "KEY [UNIT]" per counter of
    contracts/metrics.yaml.

comparison.csv: worklog 002's head to head of blocktile_2d and vectorized, in the columns of `analysis.tables.compare`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.data import Measured, describe, library_functions, metric_names, records, stale_variants, wide
from analysis.inputs import Inputs
from analysis.statistics import SHARE, TIME
from analysis.tables import autotune, library_calls
from analysis.tables.compare import compare
from analysis.tables.data_kinds import spreads
from contracts import worklogs
from contracts.dtypes import Types

PAIR = ("sgemm_blocktile_2d", "sgemm_vectorized")  # worklog 002's two kernels


def timings(measured: Measured) -> pd.DataFrame:
    """The columns of ladder.csv and sizes.csv for every row of bench."""
    bench = measured.bench
    flop = 2e-6 * bench["m"] * bench["n"] * bench["k"]  # per microsecond: TFLOP/s
    ceilings = measured.machine["ceilings"]
    best = {
        name: max((ceilings.get(key, 0.0) for key in Types.named(name).ab.ceilings), default=0.0) or None
        for name in bench["dtype"].unique()
    }
    (_, shortest, longest), (share, least, most) = TIME, SHARE
    copied = ["experiment", "regime", "n", "variant", "label", "kind", "dtype", "data"]
    rows = pd.DataFrame(
        {
            **{name: bench[name] for name in copied},
            "stale": bench["stale"].astype(bool),
            "tflops": bench["tflops"],
            "tflops_ci_low": flop / bench[longest],
            "tflops_ci_high": flop / bench[shortest],
            "share_percent": 100 * bench[share],
            "share_ci_low_percent": 100 * bench[least],
            "share_ci_high_percent": 100 * bench[most],
            "share_kind": bench["share_kind"],
            "gain": gains(bench, measured.variants),
            "time_us_median": bench["time_us_median"],
            "time_us_worklog": bench["time_us_worklog"].astype(float),
            "tflops_worklog": flop / bench["time_us_worklog"].astype(float),
            "flop_per_clock_sm": bench["flop_per_clock_sm"],
            "share_of_ceiling_percent": 100 * bench["flop_per_clock_sm"] / bench["dtype"].map(best).astype(float),
            "sm_clock_mhz": bench["sm_clock_mhz"],
            "clock_held": (bench["sm_clock_min_mhz"] >= 0.99 * bench["sm_clock_mhz"])
            & (bench["sm_clock_max_mhz"] <= 1.01 * bench["sm_clock_mhz"]),
            **{name: bench[name] for name in ("power_w", "gflop_per_j", "samples", "rejected")},
        }
    )
    power = rows["data"].map({"zeros": 0, "uniform": 1, "normal": 2})
    rows = rows.assign(locked=rows["regime"] == "locked", order=bench["order"], power=power)
    rows = rows.sort_values(["experiment", "locked", "n", "order", "power"], kind="stable", ignore_index=True)
    return rows.drop(columns=["locked", "order", "power"])


def gains(bench: pd.DataFrame, variants: pd.DataFrame) -> pd.Series:
    """TFLOP/s over those of the rung that each builds on; NaN where that was not timed next to it."""
    keys = ["experiment", "regime", "n", "data"]
    before = bench["variant"].map(variants.set_index("variant")["builds_on"])
    known = bench.drop_duplicates([*keys, "variant"])[[*keys, "variant", "tflops"]]
    known = known.rename(columns={"variant": "builds_on", "tflops": "before"})
    found = bench[keys].assign(builds_on=before).merge(known, on=[*keys, "builds_on"], how="left")
    return bench["tflops"] / found["before"].set_axis(bench.index).astype(float)


def experiments(measured: Measured, rows: pd.DataFrame, plans: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every experiment that times something, with what was found, in the order of the catalogue.

    plans: as `Inputs.experiments`. One that is measured by its name alone is there only where it was.
    """
    order = measured.variants.set_index("variant")["order"]
    labels = measured.variants.set_index("variant")["label"]
    first = {name: min(order.get(v, len(order)) for v in plan["variants"]) for name, plan in plans.items()}
    found = []
    for name, plan in sorted(plans.items(), key=lambda item: (first[item[0]], item[0])):
        part = rows[rows["experiment"] == name]
        if plan["kind"] is None or (plan["by_name"] and part.empty):
            continue
        timed = set(part["variant"]) | set(measured.failed["variant"])
        kernels = part[part["kind"] != "baseline"]
        kinds = sorted(set(kernels["data"]), key=lambda data: (data != "uniform", data))
        kernels = kernels[kernels["data"].isin(kinds[:1])]
        best = kernels.loc[kernels.groupby(["dtype", "n", "regime"], sort=False)["tflops"].idxmax()]
        found.append(
            {
                "name": name,
                "title": plan["title"],
                "question": plan["question"],
                "kind": plan["kind"],
                "sizes": sorted(int(n) for n in part["n"].unique()),
                "rows": len(part),
                "missing": [labels.get(name, name) for name in plan["variants"] if name not in timed],
                "best": json.loads(best.to_json(orient="records")),
            }
        )
    return found


def check_table(measured: Measured) -> pd.DataFrame:
    """One row per variant and device."""
    rows = measured.checks.assign(
        passed=measured.checks["passed"].astype(bool),
        share=measured.checks["worst_error_share"].astype(float),
        stale=measured.checks["stale"].astype(bool),
    )
    grouped = rows.groupby(["variant", "label", "dtype", "device"], sort=False)
    counted = grouped.agg(
        cases=("case", "size"), passed=("passed", "sum"), worst_share=("share", "max"), stale=("stale", "any")
    ).reset_index()
    counted.insert(6, "failed", counted["cases"] - counted["passed"])
    return counted


def resource_table(resources: pd.DataFrame, variants: pd.DataFrame) -> pd.DataFrame:
    """This tree's build, with labels."""
    rows = describe(resources, variants)
    rows.insert(1, "occupancy_percent", 100 * rows.pop("occupancy").astype(float))
    first = ["variant", "label", "dtype", "arch", "registers", "shared_bytes", "stack_bytes", "spill_bytes", "threads"]
    first += ["blocks_per_sm", "occupancy_percent", "limiter", "compiler", "template", "tuned"]
    rows = rows.merge(variants[["variant", "template", "tuned"]], on="variant", how="left")
    others = [name for name in resources.columns if name in rows and name not in first and name != "source_hash"]
    return rows[first + others]


def counter_table(measured: Measured) -> pd.DataFrame:
    """The wide counters, with units in the column names."""
    names = metric_names()
    rows = wide(measured.counters, names)
    pairs = measured.counters[["metric", "unit"]].drop_duplicates()
    units = {names.get(pair.metric, pair.metric): pair.unit for pair in records(pairs)}
    rows["stale"] = rows["stale"].astype(bool)
    rows = rows.drop(columns=["kind", "family", "order"])
    return rows.rename(columns={key: f"{key} [{_plain(unit)}]" if unit else key for key, unit in units.items()})


def kernel_list(variants: pd.DataFrame) -> list[dict[str, Any]]:
    """The catalogue's kernels and dispatchers: what each adds to which, and where it is from."""
    labels = variants.set_index("variant")["label"]
    found = []
    for row in records(variants[variants["kind"] != "baseline"]):
        source, _, section = (row.origin if pd.notna(row.origin) else "").partition(": ")
        found.append(
            {
                "label": row.label,
                "dtype": row.dtype,
                "idea": row.idea,
                "builds_on": labels.get(row.builds_on),
                "source": source,
                "section": section,
            }
        )
    return found


def _plain(unit: str) -> str:
    if unit.endswith("byte"):
        return "byte"
    return "ns" if unit in ("ns", "nsecond", "us", "usecond", "ms", "msecond", "s") else unit


def summary(
    measured: Measured, resources: pd.DataFrame, rows: pd.DataFrame, found: list[dict[str, Any]]
) -> dict[str, Any]:
    """What the paper says in sentences, and the appendix on provenance."""
    stale = stale_variants(measured.bench, measured.checks, measured.counters)
    labels = measured.variants.set_index("variant")["label"]
    planned = {experiment["name"] for experiment in found}
    return {
        "machine": measured.machine,
        "provenance": measured.provenance,
        "origin": measured.origin,
        "archived": measured.archived,
        "date": measured.provenance["date"],
        "experiments": found,
        "failed": measured.failed.to_dict(orient="records"),
        "stale": [labels[name] for name in stale],
        "gone": measured.gone,
        "gone_experiments": sorted(set(measured.bench["experiment"]) - planned),
        "kernels": kernel_list(measured.variants),
        "worklogs": [
            {"key": key, "seed": source["file"].partition("_")[0]}
            | {word: source[word] for word in ("name", "citation")}
            for key, source in worklogs.sources().items()
        ],
        "library_functions": library_functions(wide(measured.counters, metric_names())).to_dict(orient="records"),
        "compiler": next(iter(resources["compiler"].unique()), None),
        "arch": next(iter(resources["arch"].unique()), None),
        "samples_min": int(rows["samples"].min()) if len(rows) else None,
        "samples_max": int(rows["samples"].max()) if len(rows) else None,
        "rejected": int(rows["rejected"].sum()),
    }


def of_kind(inputs: Inputs, kind: str) -> pd.DataFrame:
    """The timings of the experiments of one kind."""
    rows = timings(inputs.measured())
    kinds = {name: experiment["kind"] for name, experiment in inputs.experiments.items()}
    return rows[rows["experiment"].map(kinds) == kind]


def summary_document(inputs: Inputs) -> str:
    measured = inputs.measured()
    rows = timings(measured)
    found = experiments(measured, rows, inputs.experiments)
    there = {experiment["name"] for experiment in found}
    untimed = [name for name, plan in inputs.experiments.items() if plan["by_name"] and name not in there]
    tuning = autotune.of(inputs)
    facts = summary(measured, inputs.rows("resources"), rows, found)
    facts |= {"best_of_library": library_calls.recorded(inputs.rows("windows"))}
    facts |= {"autotune": autotune.summary(tuning) if tuning else None, "by_name": untimed}
    return json.dumps(facts, indent=2, allow_nan=False) + "\n"


def ladder(inputs: Inputs) -> pd.DataFrame:
    return of_kind(inputs, "ladder")


def sizes(inputs: Inputs) -> pd.DataFrame:
    return of_kind(inputs, "sizes")


def data_kinds(inputs: Inputs) -> pd.DataFrame:
    return spreads(of_kind(inputs, "data_kinds"))


def comparison(inputs: Inputs) -> pd.DataFrame:
    return compare(inputs.measured(), *PAIR)
