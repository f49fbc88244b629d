"""Ranks tiles without a GPU, by an estimate of the cycles that a multiprocessor needs for each.

    python -m experiments.tuning.sweep --static 20 --arch sm_90a --out-dir results/no-gpu

Each configuration is built and a small launch of it counted on the emulator. It needs the cycles of
its busiest resource, or those of the model of issue (docs/hardware.md) where that has more, on the
multiprocessor with the most blocks. Few warps hide little of each other's waiting: that is WAITING,
one number for all tiles and kernels, and the only one here that was fitted to times. The order says
which tiles to time, and not which one is fastest.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from contracts import UserError
from experiments.emulation import bounds, launching, predictions
from experiments.tuning.space import Configuration
from kernels.catalogue import Variant
from kernels.problem import ProblemSpec
from ptxsim.count.machines import Machine

# of a warp's cycles, added where it is alone; fitted to the sweep of sgemm_autotuned, tried on the
# other
WAITING = 0.6
SCHEDULERS, WARP = 4, 32

logger = logging.getLogger(__name__)


def cycles(variant: Variant, size: int, build_dir: Path, machine: Machine) -> tuple[float, str]:
    """Cycles of the busiest multiprocessor for m = n = k = `size`, and what needs them, of a
    variant that is built.

    Raises `UserError` where the emulator cannot tell.
    """
    kernel = launching.load(variant, build_dir)
    predicted = predictions.predict(kernel, variant, ProblemSpec.square(size), machine.sms)
    found = bounds.compute(variant, kernel, build_dir / f"{variant.name}.cubin", predicted, machine)
    modelled = [estimate for estimate in found.estimates if estimate.resource != "l2"]
    most = max((*found.bounds, *modelled), key=lambda bound: bound.cycles_per_sm)
    blocks = found.blocks / machine.sms
    return most.cycles_per_sm * math.ceil(blocks) / blocks, most.resource


def rank(
    builds: Mapping[str, dict[str, Any]],
    configurations: list[Configuration],
    size: int,
    build_dir: Path,
    machine: Machine,
    jobs: int,
) -> list[tuple[Configuration, dict[str, Any]]]:
    """Configurations with their rows of tuning_ranked.csv (but for the template's values), the
    fewest cycles first.

    `builds`: rows of resources.csv by name, of what the compiler takes. What the emulator cannot
    tell comes last, with the reason.
    """
    built = [configuration for configuration in configurations if configuration.name in builds]
    rows = []
    with ProcessPoolExecutor(jobs) as pool:
        estimated = pool.map(
            partial(_columns, size=size, build_dir=build_dir, machine=machine), built
        )
        for number, (configuration, columns) in enumerate(
            zip(built, estimated, strict=True), start=1
        ):
            if number % 50 == 0:
                logger.info(f"ranked {number} of {len(built)}")
            build = builds[configuration.name]
            row = {key: build[key] for key in ("registers", "source_hash")}
            row["warps"] = build["blocks_per_sm"] * build["threads"] / WARP / SCHEDULERS
            if "reason" not in columns:
                row["estimate"] = columns["minimum_cycles"] * (1 + WAITING / row["warps"])
            rows.append((configuration, row | columns | {"gpu": machine.name, "size": size}))
    return sorted(rows, key=lambda row: (row[1].get("estimate", math.inf), row[0].name))


def _columns(
    configuration: Configuration, size: int, build_dir: Path, machine: Machine
) -> dict[str, Any]:
    try:
        least, resource = cycles(configuration.variant(), size, build_dir, machine)
    except UserError as error:
        return {"reason": str(error)}
    return {"minimum_cycles": least, "resource": resource}
