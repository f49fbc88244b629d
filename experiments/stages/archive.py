"""Copies a machine's measurements to data/MACHINE, whole and checked.

What an earlier run left there and this one did not make stays; archived.json says of each file which run it is from.

python -m experiments.stages.archive --measured results/h200 --data data/h200
python -m experiments.stages.archive --measured results/h200 --data data/h200-2      # a second machine of that model
python -m experiments.stages.archive --measured results/h200 --data data/h200 --only timing_methods.csv cross_checks.csv
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from contracts import UserError, choose, read_json, read_rows, replacing, run_command, write_json
from contracts.samples import read_samples

TABLES = {
    "bench.csv": "bench",
    "windows.csv": "windows",
    "checks.csv": "checks",
    "counters.csv": "counters",
    "resources.csv": "resources",
}
DOCUMENTS = {"machine.json": "machine", "provenance.json": "provenance"}
TESTS = "gpu-tests.txt"  # what `make test-gpu` printed, if it was run
SAMPLES = "samples.parquet"
OPTIONAL = {
    "predictions.csv": "counters",
    "bounds.csv": "bounds",
    "agreement.csv": "agreement",
    "sanitizer.csv": "sanitizer",
    "cross_checks.csv": "cross_checks",
    "timing_methods.csv": "timing_methods",
    "timeline.csv": "timeline",
    "smem_microbench.csv": "smem_microbench",
    "inter_warp_conflicts.csv": "inter_warp_conflicts",
    "tuning.csv": "tuning",
}
OPTIONAL_DOCUMENTS = {"tuned.json": "tuned", "gpu_utilization.json": "gpu_utilization"}
ORIGINS = "archived.json"
LIMIT_BYTES = 10_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description="Archive a machine's measurements.")
    parser.add_argument("--measured", required=True, type=Path, help="for instance results/h200")
    parser.add_argument("--data", required=True, type=Path, help="for instance data/h200")
    parser.add_argument("--only", nargs="+", metavar="FILE", help="of the tables that `all` does not make, these alone")
    options = parser.parse_args()
    whole, optional = [*TABLES, *DOCUMENTS, SAMPLES], OPTIONAL | OPTIONAL_DOCUMENTS
    for name in options.only or []:
        choose(optional, name, "file", "--only")
    asked = [*options.only, "provenance.json"] if options.only else whole
    missing = [name for name in asked if not (options.measured / name).is_file()]
    if missing:
        by = "measure it" if options.only else "run snakemake all"
        raise UserError(f"{options.measured}: nothing to archive, {missing[0]} is missing; {by} on a GPU")
    names = options.only or [*whole, *(name for name in optional if (options.measured / name).is_file())]
    tables = {name: kind for name, kind in (TABLES | OPTIONAL).items() if name in names}
    documents = {name: kind for name, kind in (DOCUMENTS | OPTIONAL_DOCUMENTS).items() if name in names}
    for name, kind in tables.items():
        rows = read_rows(options.measured / name, kind)
        if failed := [row for row in rows if row.get("passed") is False]:
            check = failed[0].get("case") or failed[0].get("tool") or kind
            raise UserError(f"{options.measured}: {failed[0]['variant']} failed its check {check!r}; not archived")
    for name, kind in documents.items():
        read_json(options.measured / name, kind)
    if SAMPLES in names:
        read_samples(options.measured / SAMPLES)
    provenance = read_json(options.measured / "provenance.json", "provenance")
    size = sum((options.measured / name).stat().st_size for name in names)
    if size > LIMIT_BYTES:
        raise UserError(
            f"{options.measured} holds {size / 1e6:.1f} MB; an archive is at most {LIMIT_BYTES / 1e6:.0f} MB"
        )
    for name in names:
        kind = documents.get(name)
        document = read_json(options.measured / name, kind) if kind else {}
        if (
            document.get("machine", options.data.name) != options.data.name
        ):  # a second card of one model, or a second day
            write_json(options.data / name, kind, document | {"machine": options.data.name})
            continue
        with replacing(options.data / name) as temporary:
            shutil.copyfile(options.measured / name, temporary)
    run = {key: provenance[key] for key in ("date", "commit", "commit_clean", "command")}
    origins = read_json(options.data / ORIGINS, "archived") if (options.data / ORIGINS).is_file() else {}
    write_json(options.data / ORIGINS, "archived", dict(sorted((origins | dict.fromkeys(names, run)).items())))
    if (tests := options.measured.parent / TESTS).is_file():
        with replacing(options.data / TESTS) as temporary:
            shutil.copyfile(tests, temporary)
    print(f"archived {len(names)} files, {size / 1e6:.2f} MB, in {options.data}", file=sys.stderr)


if __name__ == "__main__":
    run_command(main)
