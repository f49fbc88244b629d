"""Rows of gpu_seconds.csv: where the seconds of measuring went, from what is kept with each measurement."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from contracts import write_rows
from experiments.stages.store import Measurement, Place


def write_seconds(path: Path, measured: Iterable[tuple[Place, Measurement]]) -> None:
    """One row for each measurement and part of the work that it took."""
    rows: list[dict[str, Any]] = []
    for place, one in measured:
        of = {"stage": place.stage, "variant": place.variant, "item": place.item, "session": one.session}
        rows += [{**of, "part": part, "seconds": seconds} for part, seconds in one.seconds.items()]
    write_rows(path, "gpu_seconds", rows)
