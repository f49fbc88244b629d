"""Chooses accesses to shared memory, with and without bank conflicts, for pictures of their banks.

    python -m experiments.emulation.bank_pictures ldmatrix --arch sm_90a --out-dir .

The pictures are listed in workflow/bank_pictures.yaml. `experiments.emulation` records the accesses
that they show, for `--emulated FILES`; with `--arch` the kernels are built and emulated here, one
tile of C each. The explorer draws what is written, banks_NAME.json (contracts/rows.py,
`BankPicture`).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contracts import (
    UserError,
    choose,
    read_json,
    read_yaml,
    run_command,
    scratch,
    write_json,
    write_text,
)
from contracts.declared import BankPictures, DrawnAccess
from contracts.rows import BankAccesses, BankPicture, RecordedAccess, ShownAccess
from kernels import catalogue
from kernels.catalogue import Catalogue, Problem, Variant

# Snakemake reads the list by this module, so what emulates is imported where it is needed.
if TYPE_CHECKING:
    import ptxsim
    from ptxsim import banks

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "workflow" / "bank_pictures.yaml"
STEPS = 4  # over k that a launch makes. All steps look alike.


@dataclass(frozen=True)
class Picture:
    """One entry of the list."""

    name: str
    title: str
    text: str
    accesses: tuple[DrawnAccess, ...]
    kernels: Mapping[str, Variant]  # that it shows, by name

    @property
    def variants(self) -> list[str]:
        return list(self.kernels)


def load(
    known: Catalogue, path: Path = PICTURES, chosen: list[str] | None = None
) -> dict[str, Picture]:
    """Return every picture by name; with `chosen`, those that need no other variants.

    Raises `UserError` naming the file, the key and what is accepted.
    """
    pictures = {}
    for name, entry in read_yaml(path, BankPictures).root.items():
        accesses = tuple(entry.accesses)
        for wanted in accesses:
            choose(known.kernels, wanted.variant, "variant", f"{path.name}: {name}")
            try:
                re.compile(wanted.line)
            except re.error as error:
                raise UserError(
                    f"{path.name}: {name}: line {wanted.line!r} is no regular expression: {error}"
                ) from error
        kernels = {wanted.variant: known.kernels[wanted.variant] for wanted in accesses}
        picture = Picture(name, entry.title, entry.text, accesses, kernels)
        if chosen is None or set(picture.variants) <= set(chosen):
            pictures[name] = picture
    return pictures


def source_line(variant: Variant, expression: str) -> int:
    """Return the number of the one line of the variant's source that matches.

    Raises `UserError` where that is none or several.
    """
    lines = variant.source.read_text().splitlines()
    numbers = [number for number, text in enumerate(lines, start=1) if re.search(expression, text)]
    if len(numbers) != 1:
        where = f"lines {', '.join(map(str, numbers))} of" if numbers else "no line of"
        raise UserError(
            f"{expression!r} matches {where} {variant.source.relative_to(ROOT)}; it must match one"
        )
    return numbers[0]


def small_launch(variant: Variant) -> dict[str, Any]:
    """Return arguments of `banks.accesses` or `Kernel.launch` for one tile of C and a few steps.

    All matrices are zero.
    """
    from experiments.emulation import launching

    m, n, k = variant.tile["m"], variant.tile["n"], STEPS * max(variant.tile["k"], 8)
    ldb = n if variant.b_layout == "row" else k
    problem = Problem(m, n, k, k, ldb, n, b_layout=variant.b_layout)
    if reason := variant.unsupported_reason(problem):
        raise UserError(reason)
    return launching.to_count(variant, problem)


def access(variant: Variant, wanted: DrawnAccess, kernel: ptxsim.Kernel) -> banks.Access:
    """Return the access that the first warp makes at the line, on one tile of C."""
    from experiments.emulation import launching
    from ptxsim import banks

    line, launch = source_line(variant, wanted.line), small_launch(variant)
    file = variant.source.relative_to(catalogue.ROOT)
    with launching.refusals():
        accesses = banks.accesses(kernel, line=line, file=file, source=variant.source, **launch)
    if wanted.number > len(accesses):
        raise UserError(
            f"{variant.name}: number = {wanted.number}, but line {line} has {len(accesses)} accesses"
        )
    return accesses[wanted.number - 1]


def recorded(
    variant: Variant, kernel: ptxsim.Kernel, pictures: Iterable[Picture]
) -> list[dict[str, Any]]:
    """Return entries of bank_accesses.json: the accesses of a variant that pictures show."""
    return [
        {
            "picture": picture.name,
            "place": index,
            "access": access(variant, wanted, kernel).as_dict(),
        }
        for picture in pictures
        for index, wanted in enumerate(picture.accesses)
        if wanted.variant == variant.name
    ]


def record(pictures: list[Picture], arch: str, nvcc: str | None, folder: Path) -> Path:
    """Build the variants of some pictures in `folder`; return the path of its bank_accesses.json.

    Raises `UserError` with the compiler's first error.
    """
    from experiments.emulation import launching
    from experiments.stages import build, toolchain

    compiler, accesses = toolchain.nvcc(nvcc), []
    kernels = {name: kernel for picture in pictures for name, kernel in picture.kernels.items()}
    for name, variant in kernels.items():
        unit = folder / f"{name}.cu"
        write_text(unit, variant.translation_unit())
        build.compile_source(unit, folder / name, arch, compiler)
        accesses += recorded(variant, launching.load(variant, folder), pictures)
    write_json(folder / "bank_accesses.json", BankAccesses, accesses)
    return folder / "bank_accesses.json"


def find(picture: Picture, emulated: Iterable[Path]) -> list[RecordedAccess]:
    """Return its accesses, out of the files bank_accesses.json of `experiments.emulation`."""
    entries = [entry for path in emulated for entry in read_json(path, BankAccesses).root]
    accesses = {entry.place: entry.access for entry in entries if entry.picture == picture.name}
    for index, wanted in enumerate(picture.accesses):
        if index not in accesses:
            raise UserError(
                f"no access of picture {picture.name} was recorded; emulate {wanted.variant} again"
            )
    return [accesses[index] for index in range(len(picture.accesses))]


def facts(picture: Picture, accesses: list[RecordedAccess]) -> BankPicture:
    """Return what banks_NAME.json holds."""
    rows = []
    for wanted, access in zip(picture.accesses, accesses, strict=True):
        variant = picture.kernels[wanted.variant]
        file = variant.source.relative_to(catalogue.ROOT).as_posix()
        names = {"variant": variant.name, "label": variant.label, "says": wanted.says}
        rows.append(ShownAccess.model_validate(names | access.model_dump() | {"file": file}))
    return BankPicture(title=picture.title, text=picture.text, accesses=rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Choose accesses to shared memory that are drawn on their banks."
    )
    parser.add_argument(
        "pictures", nargs="*", help="names in workflow/bank_pictures.yaml; all, if none is given"
    )
    origin = parser.add_mutually_exclusive_group(required=True)
    files = "bank_accesses.json of its variants"
    origin.add_argument("--emulated", type=Path, nargs="+", metavar="FILE", help=files)
    arch = "build the kernels for it, for instance sm_90a, and emulate them"
    origin.add_argument("--arch", help=arch)
    parser.add_argument("--nvcc", help="path of the compiler")
    parser.add_argument("--out-dir", required=True, type=Path)
    options = parser.parse_args()
    known = load(catalogue.load())
    chosen = [
        choose(known, name, "picture", PICTURES.relative_to(ROOT))
        for name in options.pictures or known
    ]
    with scratch() as folder:
        emulated = options.emulated or [record(chosen, options.arch, options.nvcc, folder)]
        for picture in chosen:
            content = facts(picture, find(picture, emulated))
            write_json(options.out_dir / f"banks_{picture.name}.json", BankPicture, content)


if __name__ == "__main__":
    run_command(main)
