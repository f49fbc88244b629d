"""Speeds of an archive, for where there is no GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contracts import read_rows
from contracts.rows import Windows, code_hashes
from contracts.samples import read_samples
from kernels.catalogue import ROOT, Variant

DATA = ROOT.parent / "data"


@dataclass(frozen=True)
class Archived:
    """Medians over the processes of a timing. baseline: cuBLAS in the same windows."""

    fraction: float
    tflops: float
    baseline_tflops: float


def speeds(gpu: str, variants: Sequence[Variant], size: int) -> dict[str, Archived]:
    """Return the speeds at m = n = k = `size` in data/GPU, by kernel; none where there is no archive.

    Inputs are uniform and clocks are free. A kernel is left out whose source the archive does not
    have as it is now, or a window of which failed.
    """
    folder = DATA / gpu
    if not (folder / "samples.parquet").is_file():
        return {}
    hashes = code_hashes(folder / "resources.csv")
    current = {
        variant.name: hashes.get((variant.name, variant.source_hash)) for variant in variants
    }
    windows = [row for row in read_rows(folder / "windows.csv", Windows) if row.variant in current]
    invalid = {
        (row.experiment, row.variant)
        for row in windows
        if row.code_hash != current[row.variant] or not row.passed or row.left_out
    }
    rows = read_samples(folder / "samples.parquet").to_pandas()
    usual = {"m": size, "n": size, "k": size, "alpha": 1, "beta": 0, "clock_policy": "boost"}
    for name, value in (usual | {"data": "uniform", "window": "interleaved", "kept": True}).items():
        rows = rows[rows[name] == value]
    rows = rows[rows["variant"].isin(list(current))]
    medians: dict[str, Archived] = {}
    # Of several experiments, the one with the most processes counts.
    processes: dict[str, int] = {}
    for (experiment, name), timing in rows.groupby(["experiment", "variant"], observed=True):
        times = timing.groupby(["process", "role"], observed=True)["time_us"].median().unstack()
        if (experiment, name) in invalid or len(times) <= processes.get(name, 0):
            continue
        fraction = float((times["baseline"] / times["variant"]).median())
        tflops = float((2e-6 * size**3 / times["variant"]).median())
        medians[name] = Archived(fraction, tflops, tflops / fraction)
        processes[name] = len(times)
    return medians
