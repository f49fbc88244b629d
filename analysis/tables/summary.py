"""summary.json: what the paper says of a results folder in a few words.

machine and provenance as recorded; origin and archived; experiments with their titles, questions,
kind of figure, sizes and the variants that were not measured; the best kernels (analysis.ladders);
kernels that failed a check; what was left out and why; a note on all of it; counts of kernels,
timings, samples and checks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from analysis import ladders
from analysis.counters import COUNTERS, SECTIONS
from analysis.results import Results, lines_of
from contracts import load_yaml, worklogs

EXPERIMENTS = Path("experiments")
OF_PROVENANCE: tuple[str, ...] = (
    "gpu",
    "date",
    "commit",
    "commit_clean",
    "driver",
    "cuda_driver",
    "toolchain",
    "python",
    "packages",
)
OF_PROVENANCE += ("left_out", "command", "sessions")


def declared() -> dict[str, dict[str, Any]]:
    """experiments/NAME.yaml by name."""
    return {path.stem: load_yaml(path) for path in sorted(EXPERIMENTS.glob("*.yaml"))}


def experiments(timings: pd.DataFrame) -> list[dict[str, Any]]:
    """Every declared experiment that was timed, in the catalogue's order of its first kernel.
    timings: of `Results`.
    """
    plans, entries = declared(), []
    for name, rows in timings.sort_values("order", kind="stable").groupby("experiment", sort=False):
        plan = plans.get(str(name))
        if plan is None:
            continue
        timed, sizes = set(rows["variant"]), sorted(int(n) for n in rows["n"].unique())
        missing = [variant for variant in plan["variants"] if variant not in timed]
        entry = {"name": name, "title": plan["title"], "question": plan["question"]}
        entry |= {"sizes": sizes, "rows": len(rows), "data": sorted(rows["data"].unique())}
        entries.append(entry | {"missing": missing})
    return entries


def counts(results: Results) -> dict[str, int]:
    """How many kernels, timings, samples and checks there are."""
    variants, rows = results.variants, results.timings
    published = worklogs.published().values()
    return {
        "kernels": int((variants["kind"] == "kernel").sum()),
        "dispatchers": int((variants["kind"] == "dispatcher").sum()),
        "baselines": int((variants["kind"] == "baseline").sum()),
        "from_worklogs": int(variants["origin"].notna().sum()),
        "worklogs": len(worklogs.sources()),
        "published": len(published),
        "published_of_gpu": sum(bool(row.gpu) for row in published),
        "timings": len(rows),
        "timings_of_five_processes": int((rows["processes"] >= 5).sum()),
        "timed_kernels": int(rows["variant"].nunique()),
        "samples": int(rows["samples"].sum()),
        "rejected_samples": int(rows["rejected"].sum()),
        "checks": len(results.checks),
        "counted_kernels": int(results.counters["variant"].nunique()),
    }


def counter_names() -> list[dict[str, str]]:
    """Return counter (a column of counters.csv), label, short, unit and section of each counter;
    no section for one that the comparison of two kernels leaves out.
    """
    sections = {counter.key: title for title, several in SECTIONS.items() for counter in several}
    return [
        {"counter": key, "label": counter.label, "short": counter.short, "unit": counter.unit}
        | {"section": sections.get(key, "")}
        for key, counter in COUNTERS.items()
    ]


def summary_table(results: Results) -> dict[str, Any]:
    """The document."""
    functions = results.counters[results.counters["kind"] == "baseline"]
    return {
        "machine": results.machine.model_dump(exclude_unset=True),
        "provenance": results.provenance.model_dump(include=set(OF_PROVENANCE), exclude_unset=True),
        "name": results.name,
        "model": results.model,
        "archived": results.archived,
        "origin": f"{results.gpu}, {results.date}",
        "experiments": experiments(results.timings),
        "best": ladders.best_kernels(results),
        "titles": ladders.titles(),
        "colours": ladders.colours(results.variants),
        "failed": results.failed.to_dict("records"),
        "left_out": lines_of(results.left_out),
        "note": results.note,
        "counts": counts(results),
        "counters": counter_names(),
        "library_functions": functions[["label", "dtype", "n", "kernel"]].to_dict("records"),
    }
