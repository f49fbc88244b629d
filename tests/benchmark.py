"""How long the commands take that people run again and again: `make bench`; with `make bench COLD=1`, all from nothing.

They run without a GPU, in a copy of this checkout with its results; what of `all` is not made yet is made first. Beside
each stands the processor time of one fixed loop in Python, taken just before it: by that, machines and hours compare.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from helpers import ARCH, BIN, ROOT, copy_tree, environment

FAMILIES = ["sgemm_warptile", "hgemm_bcf_bf16", "tf32gemm_bcf"]  # a kernel of each
PUBLISHED = (
    "paper/worklogs/boehm_sgemm/published.csv"  # the table that is changed: neither made by the pipeline nor archived
)


def calibration() -> float:
    """Processor seconds of the fixed loop."""
    start, total = time.process_time(), 0
    for i in range(5_000_000):
        total += i * i % 7
    return time.process_time() - start


def run(command: str, tree: Path) -> None:
    """To its end; a failure ends the benchmark, too."""
    done = subprocess.run(command.split(), cwd=tree, env=environment(), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}error: exit code {done.returncode} of: {command}")


def show(what: str, command: str, tree: Path) -> None:
    """Run it and print its row. Processor time is that of all its processes."""
    loop = calibration()
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run(command, tree)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{what:44s}{spent:10.2f}{wall:10.2f}{loop:10.2f}{spent / loop:12.1f}", flush=True)


def checkout(tree: Path, results: bool) -> Path:
    """A copy of this checkout, set up, with or without what has been made in it."""
    copy_tree(tree)
    for name in ["results", ".snakemake"] if results else []:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=shutil.ignore_patterns("locks"))
    (tree / ".venv").mkdir()
    (tree / ".venv" / "installed").touch()
    return tree


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the common commands.")
    parser.add_argument("--cold", action="store_true", help="`make all` from nothing, too: minutes")
    options = parser.parse_args()
    make_all = f"make all BIN={BIN}"
    with tempfile.TemporaryDirectory() as folder:
        tree = checkout(Path(folder, "project"), results=not options.cold)
        if not options.cold:
            print("making what is not up to date of `all`", file=sys.stderr, flush=True)
            run(make_all, tree)
        print(f"{'what':44s}{'CPU s':>10s}{'wall s':>10s}{'loop s':>10s}{'CPU/loop':>12s}")
        if options.cold:
            show("make all, from nothing", make_all, tree)
        show("snakemake -n all", "snakemake --cores 1 -n all", tree)
        show("snakemake all, nothing to do", "snakemake --cores 1 all", tree)
        show("snakemake claims, nothing changed", "snakemake --cores 1 claims", tree)
        header, *rows = (tree / PUBLISHED).read_text().splitlines()
        (tree / PUBLISHED).write_text("\n".join([header, *reversed(rows)]) + "\n")
        show("snakemake paper, one table changed", "snakemake --cores 1 paper", tree)
        for name in FAMILIES:
            run(f"python -m experiments.stages.build {name} --arch {ARCH} --out-dir bench", tree)
            check = f"python -m experiments.emulation {name} --build-dir bench --seed 1 --out-dir bench/emulated"
            show(f"check of {name}, emulated", check, tree)


if __name__ == "__main__":
    main()
