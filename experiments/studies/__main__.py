"""Runs one side study: a question beside the ladders, whose answer is a table of its own.

python -m experiments.studies error_over_k sgemm_naive --build-dir results/build/sm_90a --out error_over_k.csv
python -m experiments.studies --help
"""

from __future__ import annotations

import argparse

from contracts import run_command
from experiments.studies import (
    api_calls,
    error_over_k,
    ffma_issue,
    inter_warp_conflicts,
    launch_latency,
    library_kernels,
    smem_microbench,
    timing_methods,
    xor_double_buffer,
)

STUDIES = (
    api_calls,
    error_over_k,
    ffma_issue,
    inter_warp_conflicts,
    launch_latency,
    library_kernels,
    smem_microbench,
    timing_methods,
    xor_double_buffer,
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run one side study.")
    studies = parser.add_subparsers(required=True, metavar="STUDY")
    for study in STUDIES:
        summary = (study.__doc__ or "").splitlines()[0]
        chosen = studies.add_parser(
            study.__name__.rpartition(".")[2], help=summary, description=summary
        )
        study.add_arguments(chosen)
        chosen.set_defaults(run=study.run)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    run_command(main)
