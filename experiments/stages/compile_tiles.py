"""Compiles the tiles that the searches of an experiment will time, so that no GPU waits for the
compiler.

python -m experiments.stages.compile_tiles any_shape_bf16 hgemm_best_bf16 --build-dir results/build/sm_90a \
    --store results/h100/measured --out tiles.txt
"""

from __future__ import annotations

import argparse
from pathlib import Path

from contracts import run_command, write_text
from experiments import declarations
from experiments.command_line import add_build_dir, add_store, add_variants
from experiments.stages.library_calls import LibraryCalls
from experiments.stages.store import Store


def main() -> None:
    parser = argparse.ArgumentParser(description="Compile the likeliest tiles of an experiment.")
    parser.add_argument("experiment", help="name of a file in experiments/")
    add_variants(parser)
    add_build_dir(parser)
    add_store(parser)
    parser.add_argument("--sizes-step", type=int, help="step of swept sizes")
    parser.add_argument("--jobs", type=int, help="compilers at a time (default: one a core)")
    parser.add_argument("--out", required=True, type=Path, help="written: the tiles' names")
    options = parser.parse_args()
    entries = options.catalogue
    experiment = declarations.load(options.experiment, options.sizes_step, known=entries)
    calls = LibraryCalls(Store(options.store), entries, options.build_dir)
    asked = [
        (entries.find(name), problem)
        for name in options.variants
        for problem in experiment.problems
    ]
    write_text(options.out, "\n".join(calls.compile_tiles(asked, options.jobs)))


if __name__ == "__main__":
    run_command(main)
