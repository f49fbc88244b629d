"""Measures how far a kernel's sums of k products are from the exact ones, for k from 64 to 16,384.

    python -m experiments.studies error_over_k sgemm_3xtf32_wgmma --build-dir results/build/sm_90a \
        --out error_over_k.csv
    python -m experiments.studies error_over_k sgemm_naive --emulated --build-dir results/build/sm_90a \
        --out error_over_k.csv

The second command runs on the emulator, whose sums on tensor cores are the H200's bit by bit. Four
kinds of data share a launch: each has a quarter of A's rows and of B's columns, and only where
these meet is C compared.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, cast

import numpy as np

from contracts import UserError, write_rows
from contracts.rows import ErrorOverK
from experiments.command_line import add_build_dir, add_variant
from experiments.stages.check import Device, guarded, held_gpu, inside
from kernels.catalogue import Baseline, Entry, Problem, Runnable

logger = logging.getLogger(__name__)

KS = (64, 256, 1024, 4096, 16384)
SIDE = {"ptxsim": 128, "gpu": 2048}  # m and n are one tile, or enough of them to fill a GPU.
DATA = {
    "uniform": "uniform on [-1, 1]",
    "normal": "standard normal",
    "positive": "uniform on [0, 1]",
    "wide": "either sign, mantissas uniform, exponents uniform from -30 to 30",
}
SEED = 15
UNIT = 2.0**-24  # Errors are multiples of it, times |A||B|.


def random_rows(kind: str, rng: np.random.Generator, rows: int, k: int) -> np.ndarray:
    """Return rows x k fp32 numbers of one kind of `DATA`."""
    shape = (rows, k)
    match kind:
        case "uniform":
            values = rng.uniform(-1, 1, shape)
        case "normal":
            values = rng.standard_normal(shape)
        case "positive":
            values = rng.uniform(0, 1, shape)
        case _:
            mantissas = rng.uniform(1, 2, shape) * rng.choice([-1, 1], shape)
            values = np.ldexp(mantissas, rng.integers(-30, 31, shape))
    return values.astype(np.float32)


def errors(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return |c - a b| in units of 2^-24 |a||b|, elementwise, against float64.

    a: m x k, b: k x n, c: m x n.
    """
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    magnitudes = np.abs(a64) @ np.abs(b64)
    distance: np.ndarray = np.abs(c.astype(np.float64) - a64 @ b64) / (UNIT * magnitudes)
    return distance


def measure(device: Device, entry: Entry, k: int, seed: int = SEED) -> Iterator[dict[str, Any]]:
    """Yield a row for each kind of data.

    Raises `UserError` for a kernel that refuses the problem or leaves no number.
    """
    side = SIDE[device.name]
    ldb = side if entry.b_layout == "row" else k
    problem = Problem(side, side, k, k, ldb, side, b_layout=entry.b_layout)
    # Each kind of data has a quarter of the rows of A and of the columns of B.
    rng = np.random.default_rng(seed)
    part = side // len(DATA)
    a = np.concatenate([random_rows(kind, rng, part, k) for kind in DATA])
    b = np.concatenate([random_rows(kind, rng, part, k) for kind in DATA]).T
    lie = (a, b if entry.b_layout == "row" else b.T, np.full((side, side), np.nan, np.float32))
    buffers = [guarded(x, x.shape[1]) for x in lie]
    runnable = cast(Runnable, entry)  # A GPU runs a library's, too.
    c = inside(device.run(runnable, problem, buffers, 0)[2], side, side, side)
    # Only where a quarter meets itself are both factors of one kind.
    for number, kind in enumerate(DATA):
        quarter = slice(number * part, (number + 1) * part)
        distance = errors(a[quarter], b[:, quarter], c[quarter, quarter])
        if not np.isfinite(distance).all():
            raise UserError(f"{entry.name}, k = {k}, {kind} data: C is not finite")
        yield {
            "variant": entry.name,
            "code_hash": device.code_hash(entry),
            "device": device.name,
            "data": kind,
            "k": k,
            "elements": distance.size,
            "worst": float(distance.max()),
            "rms": float(np.sqrt(np.mean(distance**2))),
        }


def emulator(build_dir: Path) -> AbstractContextManager[Device]:
    """Return ptxsim, on the PTX of a build."""
    from experiments.emulation.device import EmulatedDevice

    return nullcontext(EmulatedDevice(build_dir))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the study."""
    add_variant(parser)
    add_build_dir(parser)
    parser.add_argument("--emulated", action="store_true", help="on ptxsim, where there is no GPU")
    parser.add_argument("--out", required=True, type=Path, help="written: error_over_k.csv")


def run(options: argparse.Namespace) -> None:
    """Write the table."""
    entry = options.catalogue.find(options.variant)
    if entry.types.ab.stored_as != "fp32" or entry.types.c.stored_as != "fp32":
        raise UserError(f"{entry.name} takes {entry.dtype}; allowed: entries of fp32 data")
    if options.emulated and isinstance(entry, Baseline):
        raise UserError(f"{entry.name} is a library baseline: there is no PTX to run")
    with emulator(options.build_dir) if options.emulated else held_gpu(options.build_dir) as device:
        rows = [row for k in KS for row in measure(device, entry, k)]
    last = ", ".join(f"{row['data']} {row['rms']:.3g}" for row in rows[-len(DATA) :])
    logger.info(f"{entry.name} on {device.name}, k = {KS[-1]}: RMS error in 2^-24 |A||B|: {last}")
    write_rows(options.out, ErrorOverK, rows)
