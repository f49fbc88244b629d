"""Checks every call of a library that may become a baseline, with inputs whose products are small
integers.

    python -m experiments.tuning.baseline_checks cublas_fp32 --build-dir results/build/sm_90a --out baseline_checks.csv

The sizes are off multiples of 8 and 64, or have a long k, which a library divides: a call that
drops the last columns of A leaves a sum that is too small by a whole number. B is all ones. A is
all ones, then ones in the last TAIL columns alone, so that 16 bits hold the sum exactly. C is NaN
before each call.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from contracts import UserError, run_command, write_rows
from contracts.dtypes import Dtype
from contracts.rows import BaselineChecks
from experiments.command_line import add_build_dir
from experiments.gpu.session import session
from kernels.catalogue import Baseline, Problem

logger = logging.getLogger(__name__)

TAIL = 100
SIZES = (
    *(
        (m, n, k)
        for m, n in ((64, 72), (100, 65), (520, 328))
        for k in (63, 100, 328, 1001, 4100, 8136, 16385)
    ),
    *((m, n, k) for m, n in ((128, 128), (256, 64)) for k in (2056, 16392, 65544)),
    (1000, 1000, 1000),
    (2200, 128, 3256),
    (263, 72, 2975),
)


def wanted(k: int, tail: int, dtype: Dtype) -> float:
    """Each element of C, as the dtype has it: the columns of A, of k, that are ones."""
    with np.errstate(over="ignore"):
        return float(np.asarray(min(k, tail), dtype.numpy))


def check(baseline: Baseline, build_dir: Path) -> Iterator[dict[str, Any]]:
    """Rows of baseline_checks.csv; use inside `session()`."""
    from experiments.gpu.device import Gpu
    from experiments.gpu.libraries import CublasGemm

    gpu = Gpu(build_dir)
    library, types = CublasGemm(gpu, baseline), baseline.types
    for m, n, k in SIZES:
        ones, c = (
            gpu.upload(np.ones((k, n), types.ab.numpy)),
            gpu.upload(np.ones((m, n), types.c.numpy)),
        )
        for inputs, tail in (("ones", k), ("tail", TAIL)):
            right = wanted(k, tail, types.c)
            if not np.isfinite(right):  # more than 16 bits of that kind hold
                continue
            a = np.zeros((m, k), types.ab.numpy)
            a[:, -tail:] = 1
            problem, memory = Problem.packed(m, n, k), gpu.upload(a)
            calls = library.calls(problem, memory.address, ones.address, c.address)
            for name, call in calls.items():
                gpu.fill(c, types.c, m * n, 0, "nans")
                call()
                found = gpu.download(c, types.c.numpy, m * n).astype(np.float64)
                wrong = int(np.count_nonzero(found != right))
                if wrong:
                    logger.warning(
                        f"WRONG {baseline.name}, {name} at {m} x {n} x {k}, {inputs}: {wrong} of {m * n}"
                    )
                yield {
                    "baseline": baseline.name,
                    "version": library.version,
                    "call": name,
                    "m": m,
                    "n": n,
                    "k": k,
                    "inputs": inputs,
                    "wanted": right,
                    "least": float(np.min(found)) if np.isfinite(found).all() else None,
                    "most": float(np.max(found)) if np.isfinite(found).all() else None,
                    "wrong": wrong,
                    "passed": wrong == 0,
                }


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Check a library's calls with inputs that show a dropped part of k."
    )
    parser.add_argument(
        "baseline", nargs="+", help="cuBLAS entries of kernels/catalogue.yaml's baselines"
    )
    add_build_dir(parser)
    parser.add_argument("--out", required=True, type=Path, metavar="baseline_checks.csv")
    options = parser.parse_args()
    entries = [options.catalogue.find(name) for name in options.baseline]
    for entry in entries:
        if not isinstance(entry, Baseline) or entry.library != "cublas":
            raise UserError(
                f"{entry.name} is not a cuBLAS baseline; kernels/catalogue.yaml lists them"
            )
    with session():
        rows = [
            row
            for entry in entries
            if isinstance(entry, Baseline)
            for row in check(entry, options.build_dir)
        ]
    write_rows(options.out, BaselineChecks, rows)
    wrong = sum(not row["passed"] for row in rows)
    logger.info(f"{wrong} of {len(rows)} results are wrong")


if __name__ == "__main__":
    run_command(main)
