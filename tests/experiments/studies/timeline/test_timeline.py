"""A recorded process: one row for each kernel, call and memory operation."""

from __future__ import annotations

from experiments.studies.timeline.measure import summarise
from kernels import catalogue


def test_timeline_rows_carry_the_hash_of_their_source() -> None:
    events = [
        {"ph": "X", "cat": "kernel", "name": "k", "dur": 2.0},
        {"ph": "X", "cat": "kernel", "name": "k", "dur": 4.0},
    ]
    variant = catalogue.load().kernels["sgemm_vectorized"]
    (row,) = summarise(events, variant, "a1")
    assert (row["variant"], row["code_hash"], row["mean_us"]) == (variant.name, "a1", 3.0)
