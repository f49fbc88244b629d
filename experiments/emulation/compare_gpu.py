"""Runs kernels on the GPU and on ptxsim with the same inputs, and compares the two results bit by
bit.

    python -m experiments.emulation.compare_gpu sgemm_warptile --build-dir results/build/sm_90a \
        --out emulator_next_to_gpu.csv

With --emulated, the emulator's results are those that `python -m experiments.emulation --results`
kept, and nothing is emulated again. In fp32 the program states the order of every addition, so that
the two must be equal in every bit; persistent kernels are launched with the emulator's number of
blocks, by which some divide their sums. What the tensor cores do inside one mma is not documented:
there the two may differ by what both bounds of `experiments.stages.verify` allow.
"""

from __future__ import annotations

import argparse
import functools
import logging
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import ptxsim
from contracts import UserError, atomic_write, run_command, write_rows
from contracts.dtypes import Types
from contracts.files import checksum
from contracts.rows import EmulatorNextToGpu, MeasuredRows
from experiments.command_line import add_build_dir, add_store, add_variants
from experiments.emulation import launching
from experiments.emulation.device import EmulatedDevice
from experiments.gpu.worker import Failure, Watch, work_through
from experiments.stages import store, verify
from experiments.stages.cases import OTHER_ALPHA, OTHER_BETA, Case, cases
from experiments.stages.check import Checked, Device, HeldGpu, Inputs, inside, prepare
from experiments.stages.store import Key, Measurement
from kernels.catalogue import Problem, Runnable, Variant

logger = logging.getLogger(__name__)

FLOP = 2**26  # a case up to this size takes the emulator about a second


@functools.cache
def _emulator() -> str:
    """A hash of the code that runs kernels."""
    folder = Path(ptxsim.__file__).parent
    paths = sorted(path for path in folder.rglob("*.py") if "tests" not in path.parts)
    return checksum(b"".join(path.read_bytes() for path in paths))[:16]


def chosen(variant: Variant) -> list[Case]:
    """The cases that both run: those with every kind of scalar, padded rows and odd shapes, up to
    `FLOP`.
    """
    return [
        case
        for case in cases(variant)
        if not case.refused
        and case.problem.flop <= FLOP
        and (case.problem.alpha, case.problem.beta) in ((1.0, 0.0), (OTHER_ALPHA, OTHER_BETA))
    ]


def compare(
    p: Problem,
    types: Types,
    a: np.ndarray,
    b: np.ndarray,
    c0: np.ndarray,
    one: np.ndarray,
    other: np.ndarray,
) -> tuple[int, float | None]:
    """How many elements differ in any bit, and the largest difference as a share of twice the
    rounding bound.

    Twice, since the two may lie on either side of the exact result. None where a difference is not
    finite.
    """
    bits = np.dtype(f"u{one.dtype.itemsize}")
    differing = int((one.view(bits) != other.view(bits)).sum())
    if not differing:
        return 0, 0.0
    x, y = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        allowed = 2.0 * verify.bound(p, types, y, verify.magnitude(p, a, b, c0))
        worst = float((np.abs(x - y) / allowed).max())
    return differing, worst if np.isfinite(worst) else None


@dataclass(frozen=True)
class Emulated:
    """What the emulator made of a case, and the seed of its inputs."""

    seed: int
    c: np.ndarray


def keep(path: Path, entry: Runnable, checked: Iterable[Checked]) -> None:
    """Write the results of the cases that are compared, as bits; of a dispatcher there are none."""
    names = {case.name for case in chosen(entry)} if isinstance(entry, Variant) else set()
    found = {}
    for one in checked:
        if one.inputs.case.name in names and not isinstance(one.after, str):
            c = _c_of(one.inputs, one.after.c)
            found[f"{one.inputs.seed} {one.inputs.case.name}"] = c.view(f"u{c.itemsize}")
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **found)


def kept(folders: Sequence[Path], variant: Variant) -> dict[str, Emulated]:
    """What `keep` wrote in one of these folders, by the name of the case.

    Raises `UserError` for another file.
    """
    paths = [folder / f"{variant.name}.npz" for folder in folders]
    path = next(filter(Path.is_file, paths), paths[-1])
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key].view(variant.types.c.numpy) for key in file.files}
            return {
                key.partition(" ")[2]: Emulated(int(key.partition(" ")[0]), c)
                for key, c in arrays.items()
            }
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path}: not the results of an emulated kernel ({error}); emulate it again"
        ) from error


def emulate(variant: Variant, emulator: Device, seed: int) -> dict[str, Emulated]:
    """The same, made now."""
    found = {}
    for number, case in enumerate(chosen(variant)):
        inputs = prepare(variant, case, seed + number)
        found[case.name] = Emulated(seed + number, result(emulator, variant, inputs))
    return found


def agree(
    variant: Variant,
    gpu: AbstractContextManager[Device],
    emulated: Mapping[str, Emulated],
) -> list[EmulatorNextToGpu]:
    """Rows of emulator_next_to_gpu.csv, of the cases that were emulated.

    The GPU is held only while it runs.
    """
    todo = [case for case in chosen(variant) if case.name in emulated]
    prepared = [prepare(variant, case, emulated[case.name].seed) for case in todo]
    with gpu as opened:
        measured = [result(opened, variant, inputs) for inputs in prepared]
    table = []
    for inputs, one in zip(prepared, measured, strict=True):
        p, other = inputs.case.problem, emulated[inputs.case.name].c
        differing, worst = compare(p, variant.types, inputs.a, inputs.b, inputs.c0, one, other)
        right = differing == 0 if variant.dtype == "fp32" else worst is not None and worst <= 1.0
        table.append(
            EmulatorNextToGpu(
                variant=variant.name,
                dtype=variant.dtype,
                case=inputs.case.name,
                **p.numbers,
                seed=inputs.seed,
                elements=p.m * p.n,
                differing=differing,
                difference_over_bound=worst,
                passed=right,
                code_hash=opened.code_hash(variant),
            )
        )
    return table


def result(device: Device, variant: Variant, inputs: Inputs) -> np.ndarray:
    """C as the device leaves it."""
    return _c_of(
        inputs, device.run(variant, inputs.case.problem, inputs.before, inputs.case.offset)[2]
    )


def _c_of(inputs: Inputs, c: np.ndarray) -> np.ndarray:
    p = inputs.case.problem
    return inside(c, p.m, p.n, p.ldc, inputs.case.offset).copy()


def measured(
    variants: list[Variant],
    build_dir: Path,
    emulated: Sequence[Path],
    store_: store.Store,
    seed: int,
) -> list[tuple[Variant, Measurement]]:
    """Return the comparison of each variant, stored or made now.

    Raises `UserError` for what failed, once the others are made.
    """

    def key(variant: Variant) -> Key:
        return Key("compare", variant.name, "cases")

    def basis(variant: Variant) -> store.Basis:
        of_emulator = {"emulator": _emulator(), "sms": [launching.FEW_SMS, launching.MORE_SMS]}
        return store.basis_of(variant, build_dir) | of_emulator

    @contextmanager
    def opened(watch: Watch) -> Iterator[Callable[[Variant], Measurement]]:
        gpu = HeldGpu(build_dir, watch, launching.sms_of)

        def compared(variant: Variant) -> Measurement:
            made = (
                kept(emulated, variant)
                if emulated
                else emulate(variant, EmulatedDevice(build_dir), seed)
            )
            rows = agree(variant, gpu, made)
            stored = MeasuredRows(emulator_next_to_gpu=rows)
            return Measurement(basis(variant), gpu.session.name, stored)

        yield compared

    def measure(
        todo: list[Variant], _: dict[Key, Measurement]
    ) -> Iterator[tuple[Variant, Measurement | str]]:
        for variant, result in work_through(todo, opened):
            if isinstance(result, Failure):
                yield variant, f"{variant.name}: {result.reason}"
            else:
                yield variant, result

    def serves(variant: Variant) -> Callable[[store.Basis], bool]:
        return basis(variant).__eq__

    return store.run_kept(store_, variants, key, serves, measure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Compare the GPU's results with the emulator's, bit by bit."
    )
    add_variants(parser)
    add_build_dir(parser)
    add_store(parser)
    words = "folders in which the emulator's results are kept; default: they are made now"
    parser.add_argument("--emulated", type=Path, nargs="+", default=[], metavar="DIR", help=words)
    parser.add_argument(
        "--seed", type=int, help="of the first case of each; drawn afresh when left out"
    )
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    variants = []
    for name in options.variants:
        variant = options.catalogue.find(name)
        if not isinstance(variant, Variant):
            raise UserError(f"{variant.name} is no kernel: there is no PTX to run")
        variants.append(variant)
    seed = options.seed if options.seed is not None else verify.fresh_seed()
    store_ = store.Store(options.store)
    results = measured(variants, options.build_dir, options.emulated, store_, seed)
    for variant, stored in results:
        rows = stored.rows.emulator_next_to_gpu
        differing, elements = (
            sum(getattr(row, name) for row in rows) for name in ("differing", "elements")
        )
        logger.info(f"{variant.name}: {differing} of {elements} elements differ from the GPU's")
    every = [row for _, stored in results for row in stored.rows.emulator_next_to_gpu]
    write_rows(options.out, EmulatorNextToGpu, every)


if __name__ == "__main__":
    run_command(main)
