"""How long the common commands take, without a GPU: `make bench`; with `make bench COLD=1`, also
all from nothing.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from helpers import ARCH, BIN, ROOT, copy_tree, environment

KERNELS = ["sgemm_warptile", "hgemm_bcf_bf16", "tf32gemm_bcf"]  # one of each family
MAKE_ALL = f"make all BIN={BIN}"
COMMANDS = [
    MAKE_ALL,
    "snakemake --cores 1 -n all",
    "snakemake --cores 1 all",
    "snakemake --cores 1 paper claims",
]


def show(command: str, tree: Path) -> None:
    """Run a command to its end and print its processor and wall seconds.

    A failure ends the benchmark, too.
    """
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        command.split(), cwd=tree, env=environment(), capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}error: exit code {done.returncode} of: {command}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{spent:10.2f}{time.monotonic() - start:10.2f}  {command}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the common commands.")
    parser.add_argument(
        "--cold",
        action="store_true",
        help="in a copy, where `make all` starts from nothing: minutes",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree, build = (
            copy_tree(Path(folder, "project")) if options.cold else ROOT,
            Path(folder, "build"),
        )
        if options.cold:
            (tree / ".venv").mkdir()
            (tree / ".venv" / "installed").touch()
        print(f"{'CPU s':>10}{'wall s':>10}  command")
        for command in COMMANDS:
            show(command, tree)
        for name in KERNELS:
            show(f"python -m experiments.stages.build {name} --arch {ARCH} --out-dir {build}", tree)
            show(
                f"python -m experiments.emulation {name} --build-dir {build} --seed 1 --out-dir {build}/out",
                tree,
            )


if __name__ == "__main__":
    main()
