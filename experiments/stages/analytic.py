"""Works out on paper what a claim of a worklog is held against: occupancies from resources, bank
conflicts from addresses. No GPU is needed.

    python -m experiments.stages.analytic --out results/analytic.csv

The cases are those of paper/worklogs/*/analytic.yaml (contracts/declared.py, `AnalyticCases`), each
called FOLDER/KEY in the table. Occupancy is by ptxsim/count/occupancy.py. Wavefronts, and where
shared memory begins, are by ptxsim's rules (docs/hardware.md).
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from contracts import UserError, read_yaml, run_command, worklogs, write_rows
from contracts.declared import AnalyticCase, AnalyticCases
from contracts.rows import Analytic
from ptxsim import PtxsimError, gpus
from ptxsim.count.occupancy import occupancy

OPERATORS = (
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.FloorDiv,
    ast.Mod,
    ast.BitAnd,
    ast.BitOr,
    ast.BitXor,
    ast.LShift,
    ast.RShift,
)
# ptxsim's names of them
KINDS = {"load": "ld", "store": "st", "ldmatrix": "ldmatrix", "cp_async": "cp_async"}
LANES = 32
LARGEST = 2**32


def addresses(expression: str) -> list[int]:
    """The byte address of each lane, by an expression in `lane`.

    Raises `UserError` for what is not allowed in one.
    """
    from simpleeval import DEFAULT_OPERATORS, InvalidExpression, SimpleEval

    allowed = {operator: DEFAULT_OPERATORS[operator] for operator in OPERATORS}
    wrong = (InvalidExpression, SyntaxError, ZeroDivisionError, ValueError, TypeError, KeyError)
    found = []
    for lane in range(LANES):
        try:
            value = SimpleEval(operators=allowed, functions={}, names={"lane": lane}).eval(
                expression
            )
        except wrong as error:
            raise UserError(
                f"address = {expression!r} is not allowed ({error}); allowed: integers, lane, + - * // % & | ^ << >>"
            ) from error
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < LARGEST:
            raise UserError(
                f"address = {expression!r} is {value!r} for lane {lane}; allowed: an integer from 0, below {LARGEST}"
            )
        found.append(value)
    return found


def of_occupancy(arch: str, threads: int, registers: int, shared_bytes: int) -> dict[str, Any]:
    """Theoretical occupancy, and the blocks per SM that each resource alone would allow."""
    found = occupancy(gpus.limits_of(arch), threads, registers, shared_bytes)
    return {
        "blocks_per_sm": found.blocks_per_sm,
        "warps_per_sm": found.warps_per_sm,
        "occupancy": found.fraction,
        "limiter": found.limiter,
        **{f"blocks_by_{name}": blocks for name, blocks in found.blocks_by.items()},
    }


def of_access(
    kind: str, bytes: int, address: str, lanes: int = LANES, source: str | None = None
) -> dict[str, Any]:
    """One access of a warp to shared memory, `bytes` a lane; of the first `lanes` lanes only.

    `source`: of a cp_async, the byte address in global memory that each lane copies from. `degree`
    is the most distinct words that one bank gives or takes in what is served together.
    """
    import numpy as np

    from ptxsim.count import wavefronts

    if (source is not None) != (kind == "cp_async"):
        raise UserError(
            f"source is {'missing' if source is None else 'given'}, kind = {kind}; allowed: of cp_async, always"
        )
    if kind == "ldmatrix" and bytes != 16:
        raise UserError(f"bytes = {bytes} is not allowed; allowed of ldmatrix: 16")
    where = aligned(address, bytes)
    there = None if source is None else aligned(source, bytes)
    active = np.arange(LANES) < lanes
    if kind == "ldmatrix":
        waves, ideal = wavefronts.ldmatrix(where[None], active[None])
    elif there is not None:
        waves, ideal = wavefronts.cp_async(
            where[None], active[None], bytes, there[None], active[None]
        )
    else:
        waves, ideal = wavefronts.shared(where[None], active[None], bytes, kind == "store")
    parts = wavefronts.serve(where, active, bytes, KINDS[kind], there, active)
    assert sum(len(part.wavefronts) for part in parts) == int(waves[0])
    return {
        "wavefronts": int(waves[0]),
        "ideal_wavefronts": int(ideal[0]),
        "degree": max(len(part.wavefronts) for part in parts),
        "banks": len({word.bank for part in parts for row in part.wavefronts for word in row}),
    }


def of_switch(arch: str, slot_bytes: int, used_bytes: int, offset: int = 0) -> dict[str, Any]:
    """Two slots of shared memory, the second reached by XOR of an address with the length of a
    slot.

    `offset`: where the first slot begins in the block's shared memory, whose own start the
    architecture sets.
    """
    from ptxsim.machine.layout import shared_base

    if slot_bytes & (slot_bytes - 1):
        raise UserError(f"slot_bytes = {slot_bytes} is not allowed; allowed: a power of two")
    if used_bytes > slot_bytes:
        raise UserError(
            f"used_bytes = {used_bytes} is not allowed; allowed: at most those of a slot, {slot_bytes}"
        )
    begins_at = shared_base(arch) + offset
    words = range(begins_at, begins_at + used_bytes, 4)
    return {
        "begins_at": begins_at,
        "misplaced_bytes": 4 * sum(word ^ slot_bytes != word + slot_bytes for word in words),
    }


OF: dict[str, Callable[..., dict[str, Any]]] = {
    "occupancy": of_occupancy,
    "access": of_access,
    "switch": of_switch,
}


def aligned(expression: str, bytes: int) -> Any:
    """Addresses as an array [32]. Raises `UserError` where one is no multiple of `bytes`."""
    import numpy as np

    found = np.array(addresses(expression), np.int64)
    if (found % bytes).any():
        lane = int(np.flatnonzero(found % bytes)[0])
        raise UserError(
            f"address = {expression!r} is {found[lane]} for lane {lane}; allowed: a multiple of {bytes}"
        )
    return found


def rows(cases: Mapping[str, AnalyticCase], source: object) -> list[Analytic]:
    """The rows of analytic.csv. A `UserError` has a line for each case that makes no sense."""
    found, faults = [], []
    for name, case in cases.items():
        (kind,) = case.model_fields_set
        try:
            values = OF[kind](**getattr(case, kind).model_dump(exclude_unset=True))
        except (UserError, PtxsimError) as error:
            faults.append(f"{source}: {name}: {error}")
            continue
        found += [
            Analytic(case=name, quantity=quantity, value=value)
            for quantity, value in values.items()
        ]
    if faults:
        raise UserError("\nerror: ".join(faults))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Occupancies, bank conflicts and addresses that follow from numbers alone."
    )
    parser.add_argument(
        "--cases",
        type=Path,
        nargs="+",
        metavar="FILE.yaml",
        help="default: every worklog's analytic.yaml",
    )
    parser.add_argument("--out", required=True, type=Path, metavar="FILE.csv")
    options = parser.parse_args()
    paths = options.cases or list(worklogs.files("analytic.yaml").values())
    cases = {
        f"{path.parent.name}/{name}": case
        for path in paths
        for name, case in read_yaml(path, AnalyticCases).root.items()
    }
    write_rows(options.out, Analytic, rows(cases, ", ".join(map(str, paths))))


if __name__ == "__main__":
    run_command(main)
